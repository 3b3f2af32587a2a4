"""Megatron-Bridge's packed fine-tuning: Parquet of rows, with where their documents start.

    shards/rows-00000-of-00002.idx.parquet
        input_ids       464 2068 50256 | 1212 318 50256
        seq_start_id    0 3
        loss_mask       1   1    0     | 0    1   0          of the token that follows in it

It trains on the token after each, so its mask is one place ahead of ours, and the last token of a
document is only a target. Its mask is yes or no: weights cannot go along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.pipeline.export.format import MAIN, Export, Facts, in_shards
from dataprep.pipeline.export.parquet import ParquetFile, lists
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.kinds import ExportedManifest

ENDINGS = {MAIN: ".idx.parquet"}


def _open(facts: Facts, paths: Mapping[str, Path], count: int) -> ParquetFile:
    return ParquetFile(paths[MAIN], _columns)


def _columns(rows: Sequences) -> Mapping[str, Any]:
    lengths = rows.lengths
    assert lengths is not None
    starts = offsets_of(lengths.values)
    ahead = np.zeros(len(rows.tokens), np.int8)
    loss = rows.masks.get("loss", np.ones(len(rows.tokens), np.bool_))
    ahead[:-1] = loss[1:]
    ahead[starts[1:] - 1] = 0
    in_row = starts[:-1] - np.repeat(rows.offsets[:-1], np.diff(lengths.offsets))
    return {
        "input_ids": lists(rows.tokens.astype(np.int32), rows.offsets),
        "loss_mask": lists(ahead, rows.offsets),
        "seq_start_id": lists(in_row.astype(np.int32), lengths.offsets),
    }


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    assert manifest.seq_len is not None
    files = str(out / "shards" / "*.idx.parquet")
    return [
        (
            f"PackedSequenceSpecs(packed_sequence_size={manifest.seq_len}, "
            f"packed_train_data_path={files!r}), seq_length={manifest.seq_len}, "
            "dataset_kwargs={'answer_only_loss': True}"
        ),
    ]


BRIDGE = Export(
    name="megatron-bridge",
    kinds=("packed",),
    why_not="its fine-tuning reads packed rows: pack the dataset first, and export that",
    masks=frozenset({"loss"}),
    endings=ENDINGS,
    name_of=in_shards("rows", ENDINGS),
    open=_open,
    token_type=lambda facts: "int32",
    usage=usage,
)
