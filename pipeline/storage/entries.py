"""The typed entries of a manifest: files, shards, sources, the tokenizer, tags, the encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from dataprep.pipeline.types import Modality

Size = Annotated[int, Meta(ge=0, le=1 << 53)]  # a number of bytes, tokens, records …
Json = dict[str, Any]  # as it is in the file; code that needs a part of it knows its model


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    path: str  # relative to the dataset
    num_bytes: Size
    xxh3_128: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginsEntry:
    """The provenance of a shard of documents."""

    path: str
    first_piece: Size  # number of its task's first piece, among the pieces of all tasks
    num_bytes: Size
    xxh3_128: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentShard:
    path: str
    num_records: Size
    num_documents: Size
    num_tokens: Size
    num_bytes: Size
    xxh3_128: str
    record_bytes: tuple[Size, ...]  # size of each record
    index: FileEntry
    provenance: OriginsEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShard:
    path: str
    num_records: Size
    num_tokens: Size  # of documents, padding left out
    num_bytes: Size
    xxh3_128: str
    index: FileEntry
    provenance: FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeShard:
    path: str
    num_records: Size
    num_tokens: Size
    num_bytes: Size
    xxh3_128: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """An input of tokenize; records = written + quarantined + dropped + empty."""

    path: str
    kind: str
    bytes: int
    fingerprint: str
    records: Size
    written: Size
    quarantined: Size
    dropped: Size
    empty: Size
    tokens: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSource:
    """An input of encode; records = written + quarantined + dropped."""

    path: str
    kind: str
    bytes: int
    fingerprint: str
    records: Size
    written: Size
    quarantined: Size
    dropped: Size
    frames: Size
    codes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """An input of pack: a tokenized dataset."""

    path: str
    bytes: int
    fingerprint: str
    records: Size  # documents


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerEntry:
    sha256: str
    kind: str
    vocab_size: Size
    bos: Size | None
    eos: Size | None
    pad: Size | None
    engine: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTags:
    """The tags around blocks of a modality, as ids."""

    start: tuple[int, ...]
    end: tuple[int, ...]
    named: bool  # whether the fields of an input name it; else it can only come from records


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEntry:
    name: str
    kind: Modality
    identity: Json
    codebook_size: Size
    tokens_per_frame: int | UnsetType = UNSET  # vision
    num_codebooks: int | UnsetType = UNSET  # audio
    rate: int | UnsetType = UNSET  # audio
    made_with: dict[str, str]

    @property
    def frame_codes(self) -> int:
        """Return the number of codes in one frame."""
        size = self.num_codebooks if self.tokens_per_frame is UNSET else self.tokens_per_frame
        assert isinstance(size, int), self
        return size
