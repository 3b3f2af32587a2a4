"""The contract of an engine, and the arrays it returns.

    texts    ["ab c", "", "z"]
    ids      u32 [397, 269, 89]       of all texts, end to end
    offsets  i64 [0, 2, 2, 3]         text i has ids[offsets[i]:offsets[i + 1]]

Engines add no special ids, do not truncate and do not pad. A text that they cannot encode, such as
one with a lone surrogate, is an EngineFailedError for the whole call; `texts.encode_texts` finds
out which text it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Protocol

import numpy as np

from dataprep.pipeline.errors import DataprepError, short
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


class EngineFailedError(Exception):
    """An engine raised or panicked on a text; the message says how."""


@contextmanager
def failures_told(place: str = "") -> Iterator[None]:
    """Raise EngineFailedError for whatever an engine raises.

    A panic in Rust is not an Exception; lack of memory and signals are not the engine's fault, and
    what we say ourselves is said as it is.
    """
    try:
        yield
    except (MemoryError, DataprepError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        lines = str(error).strip().splitlines()
        name = type(error).__name__
        said = f"{name}: {short(lines[0], 300)}" if lines else name
        raise EngineFailedError(f"{place}{said}") from error


def flatten(lists: Sequence[Sequence[int]]) -> tuple[Ids, Offsets]:
    """Join lists of ids: [[397, 269], [], [89]] -> ([397, 269, 89], [0, 2, 2, 3])."""
    offsets = offsets_of([len(ids) for ids in lists])
    return np.fromiter(chain.from_iterable(lists), np.uint32, count=int(offsets[-1])), offsets
