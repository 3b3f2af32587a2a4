"""Check a shard of documents, its index, its provenance and its keys, if it has any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UnsetType
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.records import read_records
from dataprep.pipeline.look.row_rules import ENCODER_LOSS, SIDE_INSIDE
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.documents import (
    Documents,
    check_documents,
    decode_documents,
    index_documents,
    index_dtype,
)
from dataprep.pipeline.storage.entries import DocumentShard
from dataprep.pipeline.storage.keys import group_key, read_keys
from dataprep.pipeline.storage.manifest import TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, count_marked, dense_mask, misplaced, sides_among
from dataprep.pipeline.storage.origins import piece_and_line
from dataprep.pipeline.storage.provenance import read_pieces
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.storage.source_sums import count_of
from dataprep.pipeline.types import Offsets


def said_of_documents(folder: Path, manifest: TokenizedManifest) -> dict[str, int]:
    names = ["documents_written", "tokens", *(MASKS[mask].count for mask in manifest.masks)]
    return {name: manifest.counts[name] for name in names}


def documents_checker(
    folder: Path, manifest: TokenizedManifest
) -> Callable[[DocumentShard], Counter[str]]:
    sources = np.array([piece.source for piece in read_pieces(folder, manifest)], np.int64)
    last = (-1, -1)  # piece and line of the document before
    by_source = np.zeros((2, count_of(manifest.sources)), np.int64)  # documents, tokens

    def check(shard: DocumentShard) -> Counter[str]:
        counts, expected = _read(folder, manifest, shard)
        index = read_array(folder, shard.index, expected.dtype, shard.num_documents)
        if not np.array_equal(index, expected):
            raise CorruptError(f"{folder / shard.index.path} does not match {shard.path}")
        counts["documents_written"] = len(index)
        counts["tokens"] = int(index["length"].sum(dtype=np.int64))
        nonlocal last
        piece, line = piece_and_line(folder, shard, len(sources))
        last = _check_order(folder, shard, last, piece, line)
        # Where they are, and not in all of a million sources for each shard.
        np.add.at(by_source[0], sources[piece], 1)
        np.add.at(by_source[1], sources[piece], index["length"].astype(np.int64))
        if shard is manifest.shards[-1]:
            _check_sources(folder, manifest, by_source)
        if not isinstance(shard.keys, UnsetType):
            _check_keys(folder, shard, manifest, piece, line)
        return counts

    return check


def _read(
    folder: Path, manifest: TokenizedManifest, shard: DocumentShard
) -> tuple[Counter[str], NDArray[Any]]:
    """Check every record; return the counts of the masks, and what the index must be."""
    kinds = [MASKS[mask] for mask in manifest.masks]
    parts = [np.zeros(0, index_dtype(manifest.masks))]
    counts = Counter[str]({kind.count: 0 for kind in kinds})
    for first, records in read_records(folder, shard):
        for number, data in enumerate(records, first):
            place = f"record {number} of {folder / shard.path}"
            try:
                found = decode_documents(data, manifest.token_dtype, manifest.masks)
            except CorruptError as error:
                raise CorruptError(f"{place}: {error}") from None
            wrong = check_documents(found, manifest.max_id)
            wrong = wrong or wrong_sides(found, manifest.masks)
            if wrong or len(data) != shard.record_bytes[number]:
                raise CorruptError(f"{place}: {wrong or 'its size is not that of the manifest'}")
            parts.append(index_documents(found, manifest.masks, number))
            for runs, kind in zip(found.masks, kinds, strict=True):
                counts[kind.count] += count_marked(runs, kind)
    return counts, np.concatenate(parts)


def wrong_sides(documents: Documents, masks: Sequence[str]) -> str:
    """Return what is wrong with the sides of documents that have two, or ''."""
    starts = np.zeros(len(documents.tokens) + 1, np.bool_)
    starts[documents.ends] = True
    loss = dense_mask(documents.masks[0])
    for mask in sides_among(masks):
        side = dense_mask(documents.masks[masks.index(mask)])
        if len(misplaced(side, starts[:-1], MASKS[mask])):
            return SIDE_INSIDE.format(mask)
        if mask == "encoder" and (side & loss).any():
            return ENCODER_LOSS
    return ""


def _check_order(
    folder: Path, shard: DocumentShard, last: tuple[int, int], piece: Offsets, line: Offsets
) -> tuple[int, int]:
    """Raise unless documents are in the order of their inputs; return the place of the last.

    Several documents may be of one record.
    """
    pieces, lines = np.append(last[0], piece), np.append(last[1], line)
    step = np.diff(pieces)
    if ((step < 0) | ((step == 0) & (np.diff(lines) < 0))).any():
        raise CorruptError(
            f"{folder / shard.provenance.path} does not follow the order of the inputs"
        )
    return int(pieces[-1]), int(lines[-1])


def _check_keys(
    folder: Path, shard: DocumentShard, manifest: TokenizedManifest, piece: Offsets, line: Offsets
) -> None:
    """Raise unless the documents of a record have one key, and groups are those of the content
    where nothing else tells them."""
    keys = read_keys(folder, shard)
    is_same = (np.diff(piece) == 0) & (np.diff(line) == 0)
    if (is_same & (keys[1:] != keys[:-1])).any():
        raise CorruptError(f"{_keys_of(folder, shard)} gives documents of one record other keys")
    is_own = group_key(manifest.keys) is None
    if is_own and (keys["group"] != keys["content"][:, 0]).any():
        raise CorruptError(f"{_keys_of(folder, shard)} has groups that are not of the content")


def _keys_of(folder: Path, shard: DocumentShard) -> Path:
    assert not isinstance(shard.keys, UnsetType)
    return folder / shard.keys.path


def _check_sources(folder: Path, manifest: TokenizedManifest, found: Offsets) -> None:
    """Raise unless each source has as many documents and tokens as shards have of it."""
    pairs = zip(read_sources(folder, manifest), found.T.tolist(), strict=True)
    for i, (source, (documents, tokens)) in enumerate(pairs):
        for name, own, said in (
            ("documents", documents, source.written),
            ("tokens", tokens, source.tokens),
        ):
            if own != said:
                raise CorruptError(
                    f"{folder} holds {own:,} {name} of source {i}, its manifest says {said}"
                )
