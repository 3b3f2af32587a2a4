"""The contract of an engine, and the arrays it returns.

    texts    ["ab c", "", "z"]
    ids      u32 [397, 269, 89]       of all texts, end to end
    offsets  i64 [0, 2, 2, 3]         text i has ids[offsets[i]:offsets[i + 1]]

Engines add no special ids, do not truncate and do not pad. The caller must leave out texts with
lone surrogates (`find_unencodable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import numpy as np

from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]: ...


class EngineUnavailableError(Exception):
    """An engine is not installed or does not load this tokenizer; the message says why."""


def flatten(lists: Sequence[Sequence[int]]) -> tuple[Ids, Offsets]:
    """Join lists of ids: [[397, 269], [], [89]] -> ([397, 269, 89], [0, 2, 2, 3])."""
    offsets = offsets_of([len(ids) for ids in lists])
    return np.fromiter(chain.from_iterable(lists), np.uint32, count=int(offsets[-1])), offsets
