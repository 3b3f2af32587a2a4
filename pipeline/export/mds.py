"""mosaicml-streaming (MDS): shards and index.json, for StreamingDataset and llm-foundry.

    index.json
    shard.00000.mds     tokens int32; of rows also seq_lengths
                        loss_mask, vision_mask … uint8, loss_weights float32, where there are any

A shard must be smaller than 4 GiB, and is downloaded as a whole. StreamingDataset gives all
columns; llm-foundry's dataset of texts makes its labels of `tokens` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.export.format import (
    MAIN,
    Export,
    Facts,
    notes_on_unread,
    only_first_tokens_lack_loss,
)
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import NewFile, Written
from dataprep.pipeline.storage.foreign.mds import (
    INDEX,
    MOST_BYTES,
    encode_head,
    encode_index,
    encode_samples,
    head_size,
    settings_of,
)
from dataprep.pipeline.storage.kinds import ExportedManifest
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.types import Offsets

WEIGHTS = MASKS["weight"].array


def encodings_of(masks: Sequence[str], *, is_packed: bool) -> dict[str, str]:
    """Return the encoding of each column, by name."""
    kinds = [MASKS[mask] for mask in masks]
    found = {kind.array: f"ndarray:{'float32' if kind.is_weight else 'uint8'}" for kind in kinds}
    more = {"seq_lengths": "ndarray:int32"} if is_packed else {}
    return {"tokens": "ndarray:int32", **more, **found}


class MdsFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        self._settings = settings_of(encodings_of(facts.masks, is_packed=facts.is_packed))
        self._head = head_size(count, self._settings)
        self._file = NewFile(paths[MAIN], head_bytes=self._head)
        self._sizes: list[Offsets] = [np.zeros(0, np.int64)]

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        columns = _columns(sequences)
        samples, sizes = encode_samples([columns[name] for name in sorted(columns)])
        self._file.write(samples)
        self._sizes.append(sizes)
        return {"records": len(sequences), "tokens": len(sequences.tokens)}

    def commit(self) -> dict[str, Written]:
        sizes = np.concatenate(self._sizes)
        if self._head + int(sizes.sum()) > MOST_BYTES:
            raise ConfigError(
                "a shard of MDS would be larger than 4 GiB; set a smaller --shard-bytes, or make "
                "the dataset again with smaller shards"
            )
        head = encode_head(sizes, self._settings)
        assert len(head) == self._head, "not all sequences came"
        self._file.write_head(head)
        return {MAIN: self._file.commit()}


def _columns(sequences: Sequences) -> dict[str, tuple[NDArray[Any], Offsets]]:
    offsets, masks = sequences.offsets, sequences.masks
    found = {"tokens": (sequences.tokens.astype("<i4"), offsets)}
    for mask, values in masks.items():
        if MASKS[mask].is_weight:
            weights = values.astype("<f4")
            found[WEIGHTS] = (weights * masks["loss"] if "loss" in masks else weights, offsets)
        else:
            found[MASKS[mask].array] = values.view(np.uint8), offsets
    if sequences.lengths is not None:
        lengths = sequences.lengths
        found["seq_lengths"] = lengths.values.astype("<i4"), lengths.offsets
    return found


def _name(role: str, number: int, count: int, config: ExportConfig) -> str:
    return f"shard.{number:05d}.mds"


def _texts(manifest: ExportedManifest) -> Mapping[str, str]:
    is_packed = manifest.seq_len is not None
    settings = settings_of(encodings_of(manifest.masks, is_packed=is_packed))
    shards = [(shard.path, shard.num_bytes, shard.num_records) for shard in manifest.shards]
    return {INDEX: encode_index(shards, settings)}


def _notes(facts: Facts, counts: Mapping[str, int]) -> Iterator[str]:
    needless = {"loss"} if only_first_tokens_lack_loss(facts.manifest) else set[str]()
    return notes_on_unread((m for m in facts.masks if m not in needless), "llm-foundry does")


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    return [f"streaming.StreamingDataset(local={str(out)!r}, batch_size=…)"]


MDS = Export(
    name="mds",
    kinds=("tokenized", "packed"),
    masks=frozenset(name for name, kind in MASKS.items() if kind.is_packed),
    endings={MAIN: ".mds"},
    name_of=_name,
    open=MdsFiles,
    token_type=lambda facts: "int32",
    usage=usage,
    notes=_notes,
    texts=_texts,
)
