"""Batches whose shape follows from the lengths of documents: what `batch_size` may be besides rows.

    ByTokens(16384, multiple_of=128)          128 × 128, 64 × 256, … 1 × 16384: tokens of a batch
    Buckets({512: 64, 1024: 32, 2048: 16})    64 × 512, 32 × 1024 or 16 × 2048
    Buckets([512, 1024], max_tokens=32768)    64 × 512 or 32 × 1024: rows by the budget
    Longest(32, multiple_of=64)               32 documents as they come, as long as the longest

Lengths are those of the arrays of a batch, its columns: a document of n tokens needs n - 1 of them
(inputs and targets are shifted against each other), and n where a view does not shift. `pieces`
deals with documents that are longer than any row, `groups` finds the batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal, Protocol, get_args

import numpy as np

from dataprep.loaders.schedule import BatchSizes, Remainder, shown, whole_number
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.types import Offsets

MOST = (1 << 31) - 1  # of a row, and of a batch

Overflow = Literal["error", "split", "truncate", "drop"]


class Batching(Protocol):
    """What decides the shape of batches."""

    @property
    def overflow(self) -> Overflow:
        """Return what becomes of documents that need more columns than any row has."""
        ...

    @property
    def longest(self) -> int | None:
        """Return the most columns that a document may need; None: any number."""
        ...

    def widths(self, columns: Offsets) -> Offsets:
        """Return the columns of the rows that documents are put into which need so many."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return what decides the batches, as a state has it."""
        ...


@dataclass(frozen=True, slots=True)
class ByTokens:
    """Batches of at most `max_tokens` tokens, padding included, of documents of similar length.

    multiple_of       lengths of rows are multiples of it, so that few shapes are compiled
    rows_multiple_of  numbers of rows are multiples of it, such as the parts of a mesh
    max_length        the longest row; None: as long as one that fits the budget
    overflow          what becomes of longer documents: error, split, truncate or drop
    """

    max_tokens: int
    _: KW_ONLY
    multiple_of: int = 64
    rows_multiple_of: int = 1
    max_length: int | None = None
    overflow: Overflow = "error"

    def __post_init__(self) -> None:
        _check(self, "max_tokens", "multiple_of", "rows_multiple_of", "max_length")
        room = self.max_tokens // self.rows_multiple_of
        least = raised(self.max_length or 1, self.multiple_of)
        if room < least:
            raise ConfigError(
                f"max_tokens {self.max_tokens} is less than "
                f"{counted(self.rows_multiple_of, 'row')} (rows_multiple_of) of {least} tokens "
                "(multiple_of, max_length); raise it, or lower them"
            )

    @property
    def longest(self) -> int:
        most = self.max_tokens // self.rows_multiple_of // self.multiple_of * self.multiple_of
        return most if self.max_length is None else self.max_length

    def widths(self, columns: Offsets) -> Offsets:
        found: Offsets = raised(columns, self.multiple_of)
        return found

    def rows(self, width: int) -> int:
        """Return how many rows of so many columns a batch has."""
        return self.max_tokens // width // self.rows_multiple_of * self.rows_multiple_of

    def identity(self) -> dict[str, Any]:
        return _identity(self)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Batches of documents of similar length: those that fit the shortest bucket that they fit.

    lengths           {length of rows: rows of a batch}, or lengths alone if there is a budget
    max_tokens        the budget: a batch has as many rows as fit it
    rows_multiple_of  with a budget: numbers of rows are multiples of it
    overflow          what becomes of longer documents: error, split, truncate or drop
    """

    lengths: Mapping[int, int] | Sequence[int]
    _: KW_ONLY
    max_tokens: int | None = None
    rows_multiple_of: int = 1
    overflow: Overflow = "error"

    def __post_init__(self) -> None:
        _check(self, "max_tokens", "rows_multiple_of")
        object.__setattr__(self, "lengths", dict(sorted(self._sizes().items())))

    def _sizes(self) -> dict[int, int]:
        given = self.lengths
        if not isinstance(given, Mapping | list | tuple | range | np.ndarray):
            raise ConfigError(f"buckets {shown(given)}: need {{length: rows}}, or lengths")
        names = {_number("the length of a bucket", n): n for n in given}
        if not names or isinstance(given, Mapping) == (self.max_tokens is not None):
            raise ConfigError(
                f"buckets {shown(given)}, max_tokens {self.max_tokens}: need {{length: rows}}, "
                "such as {512: 64, 1024: 32}, or lengths and max_tokens"
            )
        if isinstance(given, Mapping):
            return {n: _number("the rows of a bucket", given[k]) for n, k in names.items()}
        each = self.rows_multiple_of
        sizes = {n: (self.max_tokens or 0) // n // each * each for n in names}
        if not all(sizes.values()):
            raise ConfigError(
                f"max_tokens {self.max_tokens} is less than {counted(each, 'row')} of {max(sizes)} "
                "tokens, the longest bucket; raise it, or leave that bucket out"
            )
        return sizes

    @property
    def longest(self) -> int:
        return max(self.lengths)

    def widths(self, columns: Offsets) -> Offsets:
        known = np.array(list(self.lengths), np.int64)
        return known[np.searchsorted(known, columns)]

    def rows(self, width: int) -> int:
        """Return how many rows of so many columns a batch has."""
        assert isinstance(self.lengths, Mapping)
        return self.lengths[width]

    def identity(self) -> dict[str, Any]:
        assert isinstance(self.lengths, Mapping)
        lengths = {str(length): rows for length, rows in self.lengths.items()}
        return {"kind": "Buckets", "lengths": lengths, "overflow": self.overflow}


@dataclass(frozen=True, slots=True)
class Longest:
    """Batches of so many documents in the loader's order, each as long as its longest document.

    batch_size   documents of all hosts together, or {step: documents} for sizes that change
    multiple_of  lengths of rows are multiples of it, so that few shapes are compiled
    max_length   the longest row; None: as long as the longest document
    overflow     what becomes of longer documents: error, split, truncate or drop
    """

    batch_size: int | Mapping[int, int]
    _: KW_ONLY
    multiple_of: int = 64
    max_length: int | None = None
    overflow: Overflow = "error"

    def __post_init__(self) -> None:
        _check(self, "multiple_of", "max_length")
        BatchSizes.of(self.batch_size)

    @property
    def longest(self) -> int | None:
        return self.max_length

    def widths(self, columns: Offsets) -> Offsets:
        found: Offsets = raised(columns, self.multiple_of)
        return found

    def identity(self) -> dict[str, Any]:
        return _identity(self, but=("batch_size",))


Grouped = ByTokens | Buckets
AnyBatching = Grouped | Longest
BatchSize = int | Mapping[int, int] | AnyBatching


def columns_of(tokens: Any, more_columns: int) -> Any:
    """Return how many columns documents of so many tokens need.

    >>> columns_of(np.array([1, 2, 9]), more_columns=0), columns_of(9, more_columns=1)
    (array([1, 1, 8]), 9)
    """
    found = np.maximum(np.asarray(tokens, np.int64) - 1 + more_columns, 1)
    return found if found.ndim else int(found)


def sizes_of(batch_size: BatchSize) -> BatchSizes:
    """Return how many places of the sequence a step takes: rows, or one batch that was found."""
    if isinstance(batch_size, Grouped):
        return BatchSizes.of(1)
    return BatchSizes.of(batch_size.batch_size if isinstance(batch_size, Longest) else batch_size)


def identity_of(
    batching: AnyBatching | None, more_columns: int, remainder: Remainder
) -> dict[str, Any] | None:
    """Return what decides batches besides rows and their order, as a state has it."""
    if batching is None:
        return None
    found = {**batching.identity(), "more_columns": more_columns}
    return {**found, "remainder": remainder} if isinstance(batching, Grouped) else found


def raised(number: Any, multiple: int) -> Any:
    """Return the first multiple from a number on, or from each of some on."""
    return -(-number // multiple) * multiple


def _check(batching: Any, *names: str) -> None:
    """Make numbers plain ints of at least 1, and check the choice of overflow."""
    may_lack = {field.name for field in fields(batching) if field.default is None}
    for name in names:
        value = getattr(batching, name)
        if value is None and name in may_lack:
            continue
        object.__setattr__(batching, name, _number(name, value))
    if batching.overflow not in get_args(Overflow):
        choices = ", ".join(get_args(Overflow))
        raise ConfigError(f"overflow {shown(batching.overflow)} is not one of {choices}")


def _number(name: str, value: Any) -> int:
    number = whole_number(name, value, least=1)
    if number > MOST:
        raise ConfigError(f"{name} must be at most {MOST:,}, got {shown(number)}")
    return number


def _identity(batching: Any, but: tuple[str, ...] = ()) -> dict[str, Any]:
    names = (field.name for field in fields(batching) if field.name not in but)
    return {"kind": type(batching).__name__, **{name: getattr(batching, name) for name in names}}
