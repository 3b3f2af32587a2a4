"""Files of nothing but ids, one document after another, with what stands beside them.

    tokens    464 2068 50256 | 1212 50256          uint16 or uint32, as the dataset has them
    loss      0   1    1     | 0    1              a byte for each, where the loss mask goes along

`olmo`, `datatrove` and `nanogpt` are such files, under their own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dataprep.pipeline.export.files import OutFile
from dataprep.pipeline.export.format import MAIN, Facts, ends_of
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import Content

LOSS = "loss"  # the role of the file of the loss mask


class FlatFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        self._eos = facts.eos
        self.tokens = OutFile(paths[MAIN])
        self._loss = OutFile(paths[LOSS]) if LOSS in paths else None

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        self.tokens.write(np.ascontiguousarray(sequences.tokens))
        if self._loss is not None:
            self._loss.write(np.ascontiguousarray(sequences.masks["loss"]))
        counts = {"records": len(sequences), "tokens": len(sequences.tokens)}
        return {**counts, **ends_of(sequences, self._eos)}

    def close(self) -> dict[str, Content | None]:
        loss = {} if self._loss is None else {LOSS: self._loss.close()}
        return {MAIN: self.tokens.close(), **loss}
