"""The kinds of manifest as typed records: tokenized, packed, encoded, exported.

`entries` has what they list, `agreement` what must go together in them, `manifest` reads and
writes them. `config` and `identity` are plain JSON here: they belong to the models of `configs`,
which a trainer lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, UnsetType

from dataprep.pipeline.storage.documents import TokenDtype
from dataprep.pipeline.storage.entries import (
    BlockTags,
    CodeShard,
    DatasetSource,
    DocumentShard,
    EncoderEntry,
    ExportShard,
    FileEntry,
    Fingerprint,
    Json,
    ManySources,
    MediaSource,
    OriginsEntry,
    PackedSource,
    PartEntry,
    RowShard,
    SeqLen,
    Size,
    Text,
    TextSource,
    TokenId,
    TokenizerEntry,
)
from dataprep.pipeline.storage.masks import MASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedManifest:
    format_version: int
    kind: Literal["tokenized"]
    fingerprint: Fingerprint
    parents: tuple[Fingerprint, ...]
    config: Json
    tokenizer: TokenizerEntry
    vision: BlockTags | UnsetType = UNSET
    audio: BlockTags | UnsetType = UNSET
    sources: tuple[TextSource, ...] | ManySources
    seq_len: None = None
    token_dtype: TokenDtype
    max_id: TokenId
    masks: tuple[str, ...]
    shards: tuple[DocumentShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] = ()
    generation: Size = 0  # how often it has grown or shrunk
    parts: tuple[PartEntry, ...] = ()  # of a dataset that grows: those that it consists of

    @property
    def on_error(self) -> str:
        """Return what was to be done with bad records."""
        return str(self.config["on_error"])

    @property
    def keys(self) -> str | None:
        """Return what the keys of documents are made of; None if they have none."""
        keys = self.config.get("keys")
        return None if keys is None else str(keys)

    @property
    def row_masks(self) -> tuple[str, ...]:
        """Return the masks that rows of the documents need: `loss`, then those that fields name or
        that mark any token, since specs in records may use any mask, and mostly use none."""
        return tuple(
            name
            for name, kind in MASKS.items()
            if name in self.masks
            and kind.is_packed
            and (name == "loss" or self.counts[kind.count] or self._is_named(name))
        )

    def _is_named(self, mask: str) -> bool:
        tags = self.tags_of(mask) if MASKS[mask].is_block else None
        return tags is not None and tags.named

    def tags_of(self, modality: str) -> BlockTags | None:
        return _tags(self, modality)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedManifest:
    format_version: int
    kind: Literal["packed"]
    fingerprint: Fingerprint
    parents: tuple[Fingerprint, ...]
    config: Json
    tokenizer: TokenizerEntry
    vision: BlockTags | UnsetType = UNSET
    audio: BlockTags | UnsetType = UNSET
    sources: tuple[PackedSource, ...]
    seq_len: SeqLen
    token_dtype: TokenDtype
    ends_dtype: TokenDtype
    max_id: TokenId
    pad: TokenId
    compression: Literal["none", "zstd"]
    strategy: str  # how documents were put into rows
    masks: tuple[str, ...]
    shards: tuple[RowShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] = ()
    generation: Size = 0
    parts: tuple[PartEntry, ...] = ()

    @property
    def one_document_a_row(self) -> bool:
        return self.strategy == "pad"

    @property
    def pads_like_lwm(self) -> bool:
        pack = self.config.get("pack")
        return self.strategy == "pad" and isinstance(pack, dict) and pack.get("compat") == "lwm"

    def tags_of(self, modality: str) -> BlockTags | None:
        return _tags(self, modality)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedManifest:
    format_version: int
    kind: Literal["encoded"]
    fingerprint: Fingerprint
    parents: tuple[Fingerprint, ...]
    config: Json
    tokenizer: None = None
    masks: tuple[str, ...] = ()
    token_dtype: TokenDtype
    encoder: EncoderEntry
    columns: dict[str, Text]
    sources: tuple[MediaSource, ...] | ManySources
    shards: tuple[CodeShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] = ()

    @property
    def on_error(self) -> str:
        """Return what was to be done with bad records."""
        return str(self.config["on_error"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedManifest:
    """A dataset in the format of another trainer, which reads its files and not this."""

    format_version: int
    kind: Literal["exported"]
    fingerprint: Fingerprint
    parents: tuple[Fingerprint, ...]
    format: Text  # megatron, hf …
    config: Json
    tokenizer: TokenizerEntry
    seq_len: SeqLen | None = None  # of rows
    masks: tuple[str, ...]  # that went along
    token_dtype: Literal["uint16", "uint32", "int32", "varint"]  # of ids in its files
    sources: tuple[DatasetSource, ...]
    shards: tuple[ExportShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] = ()


Manifest = TokenizedManifest | PackedManifest | EncodedManifest | ExportedManifest
AnyShard = DocumentShard | RowShard | CodeShard | ExportShard
AnyFile = AnyShard | FileEntry | OriginsEntry
KINDS: Mapping[str, type[Manifest]] = {
    "tokenized": TokenizedManifest,
    "packed": PackedManifest,
    "encoded": EncodedManifest,
    "exported": ExportedManifest,
}


def files_of(manifest: Manifest) -> Iterator[AnyFile]:
    """Yield every file that the manifest lists."""
    for shard in manifest.shards:
        yield from files_of_shard(shard)
    yield from manifest.files


def size_of(manifest: Manifest) -> int:
    """Return the bytes of all files that the manifest lists: what commands call "on disk"."""
    return sum(entry.num_bytes for entry in files_of(manifest))


def files_of_shard(shard: AnyShard) -> Sequence[AnyFile]:
    """Return the shard itself and the files that belong to it."""
    if isinstance(shard, CodeShard):
        return (shard,)
    if isinstance(shard, ExportShard):
        return (shard, *shard.beside)
    keys = shard.keys if isinstance(shard, DocumentShard) else UNSET
    more = () if isinstance(keys, UnsetType) else (keys,)
    return (shard, shard.index, shard.provenance, *more)


def _tags(manifest: TokenizedManifest | PackedManifest, modality: str) -> BlockTags | None:
    tags: BlockTags | UnsetType = getattr(manifest, modality)
    return None if isinstance(tags, UnsetType) else tags
