"""The typed entries of a manifest: files, shards, sources, the tokenizer, tags, the encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from dataprep.pipeline.types import Modality

Json = dict[str, Any]  # as it is in the file; code that needs a part of it knows its model


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    path: str  # relative to the dataset
    num_bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginsEntry:
    """The provenance of a shard of documents."""

    path: str
    first_piece: int  # number of its task's first piece, among the pieces of all tasks
    num_bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentShard:
    path: str
    num_records: int
    num_documents: int
    num_tokens: int
    num_bytes: int
    xxh3_128: str
    record_bytes: tuple[int, ...]  # size of each record
    index: FileEntry
    provenance: OriginsEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShard:
    path: str
    num_records: int
    num_tokens: int  # of documents, padding left out
    num_bytes: int
    xxh3_128: str
    index: FileEntry
    provenance: FileEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeShard:
    path: str
    num_records: int
    num_tokens: int
    num_bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """An input of tokenize; records = written + quarantined + dropped + empty."""

    path: str
    kind: str
    bytes: int
    fingerprint: str
    records: int
    written: int
    quarantined: int
    dropped: int
    empty: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSource:
    """An input of encode; records = written + quarantined + dropped."""

    path: str
    kind: str
    bytes: int
    fingerprint: str
    records: int
    written: int
    quarantined: int
    dropped: int
    frames: int
    codes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """An input of pack: a tokenized dataset."""

    path: str
    bytes: int
    fingerprint: str
    records: int  # documents


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerEntry:
    sha256: str
    kind: str
    vocab_size: int
    bos: int | None
    eos: int | None
    pad: int | None
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
    codebook_size: int
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
