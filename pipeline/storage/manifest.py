"""manifest.json: what a dataset holds, where it came from, and proof that it is whole.

    read_manifest(folder)   TokenizedManifest | PackedManifest | EncodedManifest, every value typed
    kind_of(folder)         "tokenized", "packed", "encoded", "unfinished" or "", without a check

Written last and atomically, so that its presence means: complete and verified. Holds no clock
time, host, worker count or output path: equal input and config give equal bytes. `config` and
`identity` are plain JSON here: they belong to the models of `configs`, which a trainer lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import write_atomic
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.storage.documents import TokenDtype
from dataprep.pipeline.storage.entries import (
    BlockTags,
    CodeShard,
    DatasetSource,
    DocumentShard,
    EncoderEntry,
    FileEntry,
    Json,
    MediaSource,
    OriginsEntry,
    RowShard,
    Size,
    TextSource,
    TokenizerEntry,
)
from dataprep.pipeline.storage.masks import MASKS, blocks_among

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
WORK = ".work"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedManifest:
    format_version: int
    kind: Literal["tokenized"]
    fingerprint: str
    parents: tuple[str, ...]
    config: Json
    tokenizer: TokenizerEntry
    vision: BlockTags | UnsetType = UNSET
    audio: BlockTags | UnsetType = UNSET
    sources: tuple[TextSource, ...]
    seq_len: None = None
    token_dtype: TokenDtype
    max_id: Size
    masks: tuple[str, ...]
    shards: tuple[DocumentShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] = ()

    def tags_of(self, modality: str) -> BlockTags | None:
        return _tags(self, modality)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedManifest:
    format_version: int
    kind: Literal["packed"]
    fingerprint: str
    parents: tuple[str, ...]
    config: Json
    tokenizer: TokenizerEntry
    vision: BlockTags | UnsetType = UNSET
    audio: BlockTags | UnsetType = UNSET
    sources: tuple[DatasetSource, ...]
    seq_len: Size
    token_dtype: TokenDtype
    ends_dtype: TokenDtype
    max_id: Size
    pad: Size
    compression: Literal["none", "zstd"]
    masks: tuple[str, ...]
    shards: tuple[RowShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] | UnsetType = UNSET

    def tags_of(self, modality: str) -> BlockTags | None:
        return _tags(self, modality)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedManifest:
    format_version: int
    kind: Literal["encoded"]
    fingerprint: str
    parents: tuple[str, ...]
    config: Json
    tokenizer: None = None
    masks: tuple[str, ...] = ()
    token_dtype: TokenDtype
    encoder: EncoderEntry
    columns: dict[str, str]
    sources: tuple[MediaSource, ...]
    shards: tuple[CodeShard, ...]
    counts: dict[str, Size]
    identity: Json
    files: tuple[FileEntry, ...] = ()


Manifest = TokenizedManifest | PackedManifest | EncodedManifest
AnyShard = DocumentShard | RowShard | CodeShard
AnyFile = AnyShard | FileEntry | OriginsEntry
KINDS: Mapping[str, type[Manifest]] = {
    "tokenized": TokenizedManifest,
    "packed": PackedManifest,
    "encoded": EncodedManifest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The keys that must be known before the rest can be read."""

    format_version: int
    kind: str


def write_manifest(folder: Path, manifest: Manifest) -> None:
    values = msgspec.to_builtins(manifest)
    whole = {**values, "checksum": fingerprint(values)}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / MANIFEST, text.encode())


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest and check every value in it, but not the files that it lists."""
    path, data = folder / MANIFEST, _read(folder)
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise CorruptError(f"{path} is not a manifest of dataprep: {error}") from None
        raise CorruptError(f"{path} is damaged: {error}; make the dataset again") from None
    if head.format_version != FORMAT_VERSION:
        raise CorruptError(
            f"{path} has format version {head.format_version}, this dataprep reads "
            f"{FORMAT_VERSION}; use the dataprep that wrote it, or make the dataset again"
        )
    if head.kind not in KINDS:
        raise CorruptError(f"{path} is of kind {head.kind!r}, which this dataprep cannot read")
    try:
        manifest: Manifest = msgspec.json.decode(data, type=KINDS[head.kind])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CorruptError(f"{path} is damaged ({error}); make the dataset again") from None
    wrong = _wrong_in(manifest)
    if wrong:
        raise CorruptError(f"{path} is damaged: {wrong}; make the dataset again")
    for entry in files_of(manifest):
        _check_entry(entry, path)
    return manifest


def manifest_json(folder: Path) -> Json:
    """Return the manifest as it is in its file, for people and scripts."""
    values: Json = json.loads(_read(folder))
    return values


def files_of(manifest: Manifest) -> Iterator[AnyFile]:
    """Yield every file that the manifest lists."""
    for shard in manifest.shards:
        yield from files_of_shard(shard)
    if manifest.files is not UNSET:
        yield from manifest.files


def files_of_shard(shard: AnyShard) -> Sequence[AnyFile]:
    """Return the shard itself and the files that belong to it."""
    return (shard,) if isinstance(shard, CodeShard) else (shard, shard.index, shard.provenance)


def check_sum(folder: Path) -> None:
    """Raise CorruptError if the manifest is not as it was written."""
    values = manifest_json(folder)
    if values.pop("checksum", None) != fingerprint(values):
        raise CorruptError(f"{folder}/{MANIFEST} was edited: its checksum does not match")


def missing_file(manifest: Manifest, folder: Path) -> str:
    """Return the first file that is missing or has the wrong size, or ''."""
    for shard in manifest.shards:
        for entry in files_of_shard(shard):
            path = folder / entry.path
            if not path.is_file() or path.stat().st_size != entry.num_bytes:
                return str(path)
    return ""


def kind_of(folder: Path | str) -> str:
    """Return what dataprep wrote in a folder: tokenized, packed, encoded, unfinished or ''."""
    place = Path(folder)
    if (place / WORK).is_dir():
        return "unfinished"
    try:
        with open(place / MANIFEST, "rb") as file:
            head = file.read(200)
    except OSError:
        return ""
    return next((kind for kind in KINDS if f'"kind": "{kind}"'.encode() in head), "")


def _read(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise CorruptError(_missing(folder)) from None
    except OSError as error:
        raise CorruptError(f"cannot read {folder / MANIFEST}: {error}") from None


def _tags(manifest: TokenizedManifest | PackedManifest, modality: str) -> BlockTags | None:
    tags: BlockTags | UnsetType = getattr(manifest, modality)
    return None if isinstance(tags, UnsetType) else tags


def _wrong_in(manifest: Manifest) -> str:
    """Return what does not go together in a manifest, or ''."""
    unknown = [mask for mask in manifest.masks if mask not in MASKS]
    if unknown:
        return f"it lists the mask {unknown[0]!r}, which this dataprep does not know"
    if isinstance(manifest, EncodedManifest):
        return _missing_counts(manifest, ("codes", "frames"))
    if list(manifest.masks) != [mask for mask in MASKS if mask in {"loss", *manifest.masks}]:
        return f"its masks are {', '.join(manifest.masks)}, which is not their order"
    untagged = [mask for mask in blocks_among(manifest.masks) if manifest.tags_of(mask) is None]
    if untagged:
        return f"it has no tags for the mask {untagged[0]!r}"
    names = [MASKS[mask].count for mask in manifest.masks]
    if isinstance(manifest, PackedManifest):
        names = ["target_tokens", "rows", "padding"]
    return _missing_counts(manifest, ("tokens", *names))


def _missing_counts(manifest: Manifest, names: Sequence[str]) -> str:
    everywhere = ("documents_read", "documents_written", "documents_quarantined")
    lost = [name for name in (*everywhere, *names) if name not in manifest.counts]
    return f"its counts lack {lost[0]}" if lost else ""


def _check_entry(entry: AnyFile, place: Path) -> None:
    """Raise CorruptError for a path outside the dataset and for a negative size."""
    path = PurePosixPath(entry.path)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in entry.path:
        raise CorruptError(f"{place} names {entry.path!r}, which is outside the dataset")
    if entry.num_bytes < 0:
        raise CorruptError(f"{place} says that {entry.path} has {entry.num_bytes} bytes")


def _missing(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a dataset: there is no such folder"
    if (folder / WORK).is_dir():
        return f"{folder} is unfinished; run the command that makes it again to continue"
    return f"{folder} is not a dataset: it has no {MANIFEST}"
