"""The typed entries of a manifest: files, shards, sources, the tokenizer, tags, the encoder.

Every value has a type with bounds, so that code behind `read_manifest` needs no checks: no number
is negative or huge, no path leaves the dataset, no text has a zero byte, which no file's name has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from dataprep.pipeline.types import Modality

Size = Annotated[int, Meta(ge=0, le=1 << 53)]  # a number of bytes, tokens, records …
SizeIfKnown = Annotated[int, Meta(ge=-1, le=1 << 53)]  # -1: unknown
Positive = Annotated[int, Meta(ge=1, le=1 << 31)]
TokenId = Annotated[int, Meta(ge=0, lt=1 << 31)]  # arrays of a batch are int32
SeqLen = Annotated[int, Meta(ge=1, le=1 << 26)]
Text = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]
FilePath = str  # relative to the dataset; `agreement` checks it, for the sake of its message
Xxh3 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Fingerprint = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
Json = dict[str, Any]  # as it is in the file; code that needs a part of it knows its model


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    path: FilePath
    num_bytes: Size
    xxh3_128: Xxh3


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEntry:
    """A dataset of its own, in a folder of the one that it is a part of."""

    path: FilePath  # parts/00003
    fingerprint: Fingerprint
    checksum: Fingerprint  # of its manifest
    shards: Size
    sources: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginsEntry:
    """The provenance of a shard of documents."""

    path: FilePath
    first_piece: Size  # number of its task's first piece, among the pieces of all tasks
    num_bytes: Size
    xxh3_128: Xxh3


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentShard:
    path: FilePath
    num_records: Size
    num_documents: Size
    num_tokens: Size
    num_bytes: Size
    xxh3_128: Xxh3
    record_bytes: tuple[Size, ...]  # size of each record
    index: FileEntry
    provenance: OriginsEntry
    keys: FileEntry | UnsetType = UNSET  # only if asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShard:
    path: FilePath
    first_document: Size  # documents of all parts before its own: provenance numbers those of one
    num_records: Size
    num_tokens: Size  # of documents, padding left out
    num_bytes: Size
    xxh3_128: Xxh3
    index: FileEntry
    provenance: FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeShard:
    path: FilePath
    num_records: Size
    num_tokens: Size
    num_bytes: Size
    xxh3_128: Xxh3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportShard:
    """A file of an export, and the files that a trainer finds by its name."""

    path: FilePath
    num_records: Size  # as the format has them: documents, pieces of documents, or rows
    num_tokens: Size
    num_bytes: Size
    xxh3_128: Xxh3
    beside: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """A source of tokenize: its records, and what became of them. A record may give several
    documents: then more are written than read."""

    path: Text
    input: Text  # what the user named: a path, a folder, a glob, a URL …
    kind: Text
    start: Size  # of a file that was appended to: the byte from which on it was read
    bytes: SizeIfKnown  # from there on
    fingerprint: Text
    records: Size
    written: Size
    quarantined: Size
    dropped: Size
    empty: Size
    tokens: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSource:
    """A source of encode; records = written + quarantined + dropped."""

    path: Text
    kind: Text
    bytes: SizeIfKnown
    fingerprint: Text
    records: Size
    written: Size
    quarantined: Size
    dropped: Size
    frames: Size
    codes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """An input of export, or of pack."""

    path: Text
    bytes: SizeIfKnown
    fingerprint: Text
    records: Size  # documents, or rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSource(DatasetSource):
    """An input of pack, a tokenized dataset."""

    files: Size  # that its documents came from


@dataclass(frozen=True, slots=True, kw_only=True)
class ManySources:
    """Sources that do not stand in the manifest, since there are many (`source_sums`)."""

    count: Size
    sums: dict[str, Size]  # of their numbers, by name
    files: tuple[FilePath, ...]  # of a dataset that grows none: they stand with its parts


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerEntry:
    sha256: Text
    kind: Text
    vocab_size: Size
    bos: TokenId | None
    eos: TokenId | None
    pad: TokenId | None
    engine: Text  # what defines the ids: tokenizers, sentencepiece or bytes; not what made them


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTags:
    """The tags around blocks of a modality, as ids."""

    start: tuple[TokenId, ...]
    end: tuple[TokenId, ...]
    named: bool  # whether the fields of an input name it; else it can only come from records


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEntry:
    name: Text
    kind: Modality
    identity: Json
    codebook_size: Positive
    tokens_per_frame: Positive | UnsetType = UNSET  # vision
    num_codebooks: Positive | UnsetType = UNSET  # audio
    rate: Positive | UnsetType = UNSET  # audio
    made_with: dict[str, Text]

    @property
    def frame_codes(self) -> int:
        """Return the number of codes in one frame."""
        size = self.num_codebooks if self.tokens_per_frame is UNSET else self.tokens_per_frame
        assert isinstance(size, int), self
        return size
