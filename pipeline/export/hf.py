"""Hugging Face: Parquet with a README that names the files, for `datasets`, Trainer and TRL.

    README.md                            data_files: data/train-*
    data/train-00000-of-00002.parquet    input_ids, labels (-100 where no loss)
                                         of rows also seq_lengths and position_ids
                                         vision_mask …, loss_weights, where the dataset has them

Labels are not shifted: models of `transformers` do that. `seq_lengths` and `position_ids` say where
the documents of a row begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.export.format import MAIN, Export, Facts, notes_on_unread
from dataprep.pipeline.export.parquet import ParquetFile, lists
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.ragged import numbers_within
from dataprep.pipeline.storage.kinds import ExportedManifest
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.readme import README

NO_LOSS = -100


def _open(facts: Facts, paths: Mapping[str, Path], count: int) -> ParquetFile:
    return ParquetFile(paths[MAIN], _columns)


def _columns(sequences: Sequences) -> Mapping[str, Any]:
    ids = sequences.tokens.astype(np.int32)
    loss = sequences.masks.get("loss")
    labels = ids if loss is None else np.where(loss, ids, np.int32(NO_LOSS))
    found = {"input_ids": ids, "labels": labels}
    for mask, values in sequences.masks.items():
        if MASKS[mask].is_weight:
            weights = values.astype(np.float32)
            found[MASKS[mask].array] = weights if loss is None else weights * loss
        elif mask != "loss":
            found[MASKS[mask].array] = values
    columns = {name: lists(values, sequences.offsets) for name, values in found.items()}
    if sequences.lengths is not None:
        lengths = sequences.lengths
        positions = numbers_within(lengths.values).astype(np.int32)
        columns["seq_lengths"] = lists(lengths.values.astype(np.int32), lengths.offsets)
        columns["position_ids"] = lists(positions, sequences.offsets)
    return columns


def _name(role: str, number: int, count: int, config: ExportConfig) -> str:
    return f"data/{config.split}-{number:05d}-of-{count:05d}.parquet"


def _texts(manifest: ExportedManifest) -> Mapping[str, str]:
    split, counts = manifest.config["split"], manifest.counts
    what = "documents" if manifest.seq_len is None else f"rows of {manifest.seq_len + 1} tokens"
    return {
        README: f"""---
configs:
- config_name: default
  data_files:
  - split: {split}
    path: data/{split}-*
---

{counts["records"]:,} {what}, {counts["tokens"]:,} tokens, exported by dataprep.

`labels` are not shifted and -100 where there is no loss. `manifest.json` has the hash of every
file and the fingerprint of the dataset that they were made from.
"""
    }


def _notes(facts: Facts, counts: Mapping[str, int]) -> Iterator[str]:
    """The loss mask is in the labels; more than that, no trainer reads."""
    unread = (mask for mask in facts.masks if mask != "loss")
    return notes_on_unread(unread, "Trainer and TRL's SFTTrainer do")


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    lines = [f"datasets.load_dataset({str(out)!r}, split={manifest.config['split']!r})"]
    if manifest.seq_len is not None:
        lines.append("TRL: SFTConfig(padding_free=True, packing=False, max_length=None)")
    return lines


HF = Export(
    name="hf",
    kinds=("tokenized", "packed"),
    masks=frozenset(name for name, kind in MASKS.items() if kind.is_packed),
    endings={MAIN: ".parquet"},
    name_of=_name,
    open=_open,
    token_type=lambda facts: "int32",
    usage=usage,
    notes=_notes,
    texts=_texts,
)
