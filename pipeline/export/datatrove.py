"""datatrove and nanotron: .ds of ids, .ds.index of where documents end, .ds.loss of their loss.

shards/00000_documents.ds          ids, uint16 or uint32
shards/00000_documents.ds.index    u64: the end of each document, in ids
shards/00000_documents.ds.loss     a byte for each id: whether it has loss
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.export.flat import LOSS, FlatFiles
from dataprep.pipeline.export.format import MAIN, Export, Facts, stored_type
from dataprep.pipeline.export.megatron import notes_on_ends
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import Content
from dataprep.pipeline.storage.kinds import ExportedManifest

ENDINGS = {MAIN: ".ds", "index": ".ds.index", LOSS: ".ds.loss"}
END = np.dtype("<u8")


class DatatroveFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        self._flat = FlatFiles(facts, paths, count)
        self._index = paths["index"]
        self._lengths: list[NDArray[Any]] = [np.zeros(0, np.int64)]

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        self._lengths.append(np.diff(sequences.offsets))
        return self._flat.add(sequences)

    def close(self) -> Mapping[str, Content | None]:
        ends = np.cumsum(np.concatenate(self._lengths))
        self._index.write_bytes(ends.astype(END).tobytes())
        return self._flat.close()


def _name(role: str, number: int, count: int, config: ExportConfig) -> str:
    return f"shards/{number:05d}_documents{ENDINGS[role]}"


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    size = 2 if manifest.token_dtype == "uint16" else 4
    folder = str(out / "shards")
    return [
        (
            f"DatatroveFolderDataset({folder!r}, filename_pattern='*.ds', token_size={size}, "
            "return_positions=True, seq_len=…)"
        )
    ]


DATATROVE = Export(
    name="datatrove",
    kinds=("tokenized",),
    why_not="datatrove and nanotron cut documents into rows themselves: export the tokenized "
    "dataset that it was packed from",
    masks=frozenset({"loss"}),
    endings=ENDINGS,
    only_with={LOSS: "loss"},
    name_of=_name,
    open=DatatroveFiles,
    token_type=stored_type,
    usage=usage,
    notes=notes_on_ends,
)
