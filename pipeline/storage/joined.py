"""Join the manifests of parts to that of the dataset which consists of them.

    parts/00000   10 rows of 5 documents    ─►   14 rows, in shards parts/00000/shards/… and
    parts/00001   4 rows of 2 documents          parts/00001/shards/…, whose documents are 5 and 6

A pure function of the manifests: `look.verify` makes it again and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from dataprep.pipeline.errors import ConflictError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.alike import difference_among
from dataprep.pipeline.storage.entries import DocumentShard, Json, PartEntry, RowShard
from dataprep.pipeline.storage.kinds import (
    Manifest,
    PackedManifest,
    TokenizedManifest,
    files_of,
)
from dataprep.pipeline.storage.parts import G, Growing, checksum_of
from dataprep.pipeline.storage.provenance import read_pieces
from dataprep.pipeline.storage.source_sums import count_of, is_of_sources, joined_entry
from dataprep.pipeline.types import MODALITIES

# What all parts must have in common: the layout of records depends on it.
_SAME = {
    TokenizedManifest: ("format_version", "token_dtype", "masks"),
    PackedManifest: (
        *("format_version", "token_dtype", "masks", "seq_len", "ends_dtype", "pad"),
        *("compression", "strategy"),
    ),
}


def joined(folder: Path, parts: Sequence[tuple[str, G]], generation: int) -> G:
    """Return the manifest of the dataset in `folder` that consists of these (path, manifest)."""
    manifests = [manifest for _, manifest in parts]
    _check_alike(folder, parts)
    last = manifests[-1]
    identity = identity_of(manifests)
    same: dict[str, Any] = {
        "fingerprint": fingerprint(identity),
        "identity": identity,
        "parents": tuple(parent for each in manifests for parent in each.parents),
        "sources": joined_entry([each.sources for each in manifests]),
        "max_id": max(each.max_id for each in manifests),
        "counts": _sum(each.counts for each in manifests),
        "files": (),
        "generation": generation,
        "parts": tuple(_entry(path, manifest) for path, manifest in parts),
        **{name: _first_tags(manifests, name) for name in MODALITIES},
    }
    if isinstance(last, TokenizedManifest):
        inputs = [item for each in manifests for item in each.config.get("inputs", ())]
        config = {**last.config, "inputs": inputs}
        texts = [(path, own) for path, own in parts if isinstance(own, TokenizedManifest)]
        pieces = [len(read_pieces(folder / path, own)) for path, own in texts]
        return replace(last, **same, config=config, shards=tuple(_documents(parts, pieces)))
    return replace(last, **same, shards=tuple(_rows(parts)))


def identity_of(parts: Iterable[Growing]) -> Json:
    """Return what decides a dataset of these parts; its fingerprint is the hash of this."""
    each = list(parts)
    return {
        "format_version": each[0].format_version,
        "kind": each[0].kind,
        # What was made of the inputs may differ: records that killed workers are left out.
        "parts": [
            {
                "fingerprint": part.fingerprint,
                "contents": contents_of(part),
            }
            for part in each
        ],
    }


def contents_of(manifest: Manifest) -> str:
    """Return the fingerprint of the files of a dataset, but for those that tell its sources: as a
    manifest does, they say where its inputs were."""
    files = (entry for entry in files_of(manifest) if not is_of_sources(entry.path))
    return fingerprint({"files": [entry.xxh3_128 for entry in files]})


def _entry(path: str, manifest: Growing) -> PartEntry:
    return PartEntry(
        path=path,
        fingerprint=manifest.fingerprint,
        checksum=checksum_of(manifest),
        shards=len(manifest.shards),
        sources=count_of(manifest.sources),
    )


def _documents(parts: Sequence[tuple[str, G]], pieces: Sequence[int]) -> Iterable[DocumentShard]:
    firsts = offsets_of(pieces).tolist()
    for (path, manifest), first in zip(parts, firsts, strict=False):
        for shard in manifest.shards:
            assert isinstance(shard, DocumentShard)
            origins, keys = shard.provenance, shard.keys
            if not isinstance(keys, UnsetType):
                keys = replace(keys, path=f"{path}/{keys.path}")
            yield replace(
                _moved(shard, path),
                keys=keys,
                provenance=replace(
                    origins, path=f"{path}/{origins.path}", first_piece=first + origins.first_piece
                ),
            )


def _rows(parts: Sequence[tuple[str, G]]) -> Iterable[RowShard]:
    first = 0
    for path, manifest in parts:
        assert isinstance(manifest, PackedManifest), path
        for shard in manifest.shards:
            origins = replace(shard.provenance, path=f"{path}/{shard.provenance.path}")
            moved = _moved(shard, path)
            yield replace(moved, provenance=origins, first_document=first + shard.first_document)
        first += sum(source.records for source in manifest.sources)


def _moved(shard: Any, path: str) -> Any:
    index = replace(shard.index, path=f"{path}/{shard.index.path}")
    return replace(shard, path=f"{path}/{shard.path}", index=index)


def _first_tags(manifests: Sequence[Growing], modality: str) -> Any:
    found = (getattr(each, modality) for each in manifests)
    return next((tags for tags in found if tags is not UNSET), UNSET)


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in counts:
        for name, count in each.items():
            total[name] += count  # a count of 0 is kept, too
    return dict(total)


def _check_alike(folder: Path, parts: Sequence[tuple[str, G]]) -> None:
    first = parts[0][1]
    for path, manifest in parts[1:]:
        for name in _SAME[type(first)]:
            before, after = getattr(first, name), getattr(manifest, name)
            if before != after:
                raise ConflictError(
                    f"{folder} cannot grow by {path}: {name} is {after}, but was {before}; make "
                    "the dataset anew with on_changed: rebuild"
                )
    found = difference_among([manifest for _, manifest in parts])
    if found:
        raise ConflictError(f"{folder} cannot grow by {parts[found[1]][0]}: {found[2]}")
