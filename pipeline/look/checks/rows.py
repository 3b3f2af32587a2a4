"""Check a shard of rows, its index and its provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.load import recorded
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.origins import unit_of
from dataprep.pipeline.look.records import read_records, rows_of
from dataprep.pipeline.look.row_rules import dense_masks, segment_lengths
from dataprep.pipeline.pack.strategies import STRATEGIES
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.entries import RowShard
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.origins import origins_of
from dataprep.pipeline.storage.provenance import read_row_pieces
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.types import Mask, Offsets

COUNTED = ("rows", "tokens", "target_tokens", "segments")


def said_of_rows(folder: Path, manifest: PackedManifest) -> dict[str, int]:
    return {name: manifest.counts.get(name, -1) for name in COUNTED}


def rows_checker(folder: Path, manifest: PackedManifest) -> Callable[[RowShard], Counter[str]]:
    layout = RowLayout.of_manifest(manifest)
    pack = recorded(TokenizeConfig, manifest.config, folder).pack
    quirks = STRATEGIES[pack.strategy].quirks(pack, manifest.masks)
    for file in origins_of(folder, manifest).files:  # which checks what it reads
        unit_of(folder, file.kind, file.path)  # and this, that the format is known

    def check(shard: RowShard) -> Counter[str]:
        path = folder / shard.path
        sizes = read_array(folder, shard.index, U32, shard.num_records)
        counts = Counter[str](rows=shard.num_records, segments=0, target_tokens=0)
        starts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        firsts = [np.zeros(0, np.bool_)]
        for first, records in read_records(folder, shard):
            rows = rows_of(records, first, path, manifest, first_has_loss=quirks.keep_first_loss)
            if [len(record) for record in records] != sizes[first : first + len(records)].tolist():
                raise CorruptError(f"{folder / shard.index.path} does not match {path}")
            loss = dense_masks(rows, layout)[0]
            counts["target_tokens"] += int(np.count_nonzero(loss[:, 1:]))
            starts.append(np.diff(rows.ends.offsets))
            lengths.append(segment_lengths(rows))
            firsts.append(rows.first_loss)
        pieces = np.concatenate(lengths)
        counts["tokens"], counts["segments"] = int(pieces.sum()), len(pieces)
        found = _check_provenance(folder, manifest, shard, np.concatenate(starts), pieces)
        _check_firsts(path, found, np.concatenate(firsts), rows_share=quirks.rows_share)
        return counts

    return check


def _check_provenance(
    folder: Path, manifest: PackedManifest, shard: RowShard, per_row: Offsets, lengths: Offsets
) -> NDArray[Any]:
    """Return the pieces of all rows; raise unless the provenance names them in order."""
    path = folder / shard.provenance.path
    pieces: NDArray[Any] = read_row_pieces(folder, manifest, shard)
    expected = np.repeat(np.arange(len(per_row)), per_row)
    if not np.array_equal(pieces["row"], expected):
        raise CorruptError(f"{path} does not list the segments of the rows of {shard.path}")
    if not np.array_equal(pieces["length"], lengths):
        raise CorruptError(f"{path} lists segments of other lengths than those of {shard.path}")
    odd = pieces[pieces["head"] > np.minimum(pieces["start"], pieces["length"] - 1)]
    if len(odd):
        raise CorruptError(
            f"{path} names a head of {odd['head'][0]} tokens before token {odd['start'][0]}, in a "
            f"segment of {odd['length'][0]}"
        )
    return pieces


def _check_firsts(path: Path, pieces: NDArray[Any], first_loss: Mask, *, rows_share: bool) -> None:
    """Raise if a piece has loss on the first token of its document, but does not begin with it, or
    begins with a token that the row before ends with."""
    begins = (pieces["start"] == 0) | (pieces["head"] > 0)
    if rows_share:
        begins &= np.append(False, pieces["row"][1:] == pieces["row"][:-1]) | (pieces["row"] == 0)
    odd = np.flatnonzero(first_loss & ~begins)
    if len(odd):
        raise CorruptError(
            f"row {pieces['row'][odd[0]]} of {path}: a piece from token {pieces['start'][odd[0]]} "
            "of a document on has loss on the document's first token"
        )
