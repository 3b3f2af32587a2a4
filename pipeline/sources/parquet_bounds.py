"""Bound what the values of a row group can become, before they are read.

    fixed width         as many values as the footer says, also those that are run-length encoded
    dictionary          no value is longer than the longest of the dictionary, which is read first;
                        so few rows are read at once that they cannot be large
    DELTA_BYTE_ARRAY    a value may repeat the one before it, but is at most as long as all together
    plain               as large as stored

One row of a list may hold a value any number of times. If the dictionary of a column of lists could
become more than the row group may grow to, texts are read as indices and dictionary: then rows can
be measured (sizes.py) before they are made. Other columns are not, since pyarrow would keep all
texts of the row group in one dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dataprep.pipeline.sources.growth import FREE_BYTES, Growth
from dataprep.pipeline.sources.sizes import row_sizes
from dataprep.pipeline.sources.tables import MAX_ROWS, table_errors

# A text has at least an offset or an index.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_TEXT, _TEXT_WIDTH = "BYTE_ARRAY", 4
_DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_REPEATING = "DELTA_BYTE_ARRAY"
# Rows that are looked at to find a dictionary: it is read with the first value, not with the first
# row, which may be an empty list.
_LOOK_AT_ONCE, _MAX_LOOKS = 64, 128

OpenFile = Callable[[], Any]  # returns the file, opened so that texts are read as dictionaries


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The values of one column, lists and structs taken apart, in one row group."""

    path: str  # turns.list.element.role
    metadata: Any
    width: int  # bytes of a value, if they all have as many; else that of its place
    is_repeated: bool  # a row may have more than one value

    @property
    def is_text(self) -> bool:
        return bool(self.metadata.physical_type == _TEXT)

    @property
    def has_dictionary(self) -> bool:
        column = self.metadata
        in_use = column.has_dictionary_page or _DICTIONARIES & set(column.encodings)
        return self.is_text and bool(in_use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    max_rows: int  # to read at once
    fixed_bytes: int  # of all values, as far as all of a column have the same width
    as_dictionaries: bool  # whether texts must be read as indices and dictionary


def wanted_columns(file: Any, is_wanted: Callable[[str], bool]) -> list[int]:
    """Return the numbers of the wanted columns, lists and structs taken apart."""
    schema = file.schema
    return [i for i in range(len(schema)) if is_wanted(schema.column(i).path)]


def chunks_of(file: Any, group: int, is_wanted: Callable[[str], bool]) -> list[Chunk]:
    """Return the chunks of the wanted columns."""
    metadata = file.metadata.row_group(group)
    columns = ((i, metadata.column(i)) for i in wanted_columns(file, is_wanted))
    return [
        Chunk(
            path=file.schema.column(i).path,  # a column may call itself otherwise
            metadata=column,
            width=_width(file, i, column),
            is_repeated=file.schema.column(i).max_repetition_level > 0,
        )
        for i, column in columns
    ]


def _width(file: Any, index: int, column: Any) -> int:
    if column.physical_type == _TEXT:
        return _TEXT_WIDTH
    return _WIDTHS.get(column.physical_type) or int(file.schema.column(index).length)


def bounds_of(
    chunks: Sequence[Chunk], group: int, growth: Growth, path: str, as_dictionaries: OpenFile
) -> Bounds:
    """Return how to read a row group; an InputError if it is known to grow to more than it may."""
    growth.check(sum(chunk.metadata.total_uncompressed_size for chunk in chunks))
    fixed_bytes = sum(chunk.metadata.num_values * chunk.width for chunk in chunks)
    growth.check(fixed_bytes)
    coded = [chunk for chunk in chunks if chunk.has_dictionary]
    longest = [_longest(chunk, group, path, as_dictionaries) for chunk in coded]
    most = sum(
        chunk.metadata.num_values * n
        for chunk, n in zip(coded, longest, strict=True)
        if chunk.is_repeated
    )
    repeating = sum(
        chunk.metadata.total_uncompressed_size
        for chunk in chunks
        if chunk.is_text and _REPEATING in chunk.metadata.encodings
    )
    limits = [MAX_ROWS, growth.most // max(1, repeating)]
    if most <= growth.most:
        limits.append(int(FREE_BYTES / max(1, sum(longest))))
    return Bounds(
        max_rows=max(1, min(limits)),
        fixed_bytes=fixed_bytes,
        as_dictionaries=most > growth.most,
    )


def _longest(chunk: Chunk, group: int, path: str, as_dictionaries: OpenFile) -> float:
    """Return the length of the longest value in the dictionary of a chunk, or a bound on it."""
    batches = batches_of(as_dictionaries(), group, _LOOK_AT_ONCE, [chunk.path], path)
    found = (
        float(row_sizes(dictionary).max())
        for batch in islice(batches, _MAX_LOOKS)
        for column in batch.columns
        for dictionary in _dictionaries_in(column)
        if len(dictionary)
    )
    return next(found, float(chunk.metadata.total_uncompressed_size))


def _dictionaries_in(array: Any) -> Iterator[Any]:
    from pyarrow import types

    kind = array.type
    if types.is_dictionary(kind):
        yield array.dictionary
    elif types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _dictionaries_in(array.field(i))
    elif types.is_map(kind):
        yield from _dictionaries_in(array.keys)
        yield from _dictionaries_in(array.items)
    elif hasattr(array, "values"):
        yield from _dictionaries_in(array.values)


def batches_of(
    file: Any, group: int, num_rows: int, columns: Sequence[str] | None, path: str
) -> Iterator[Any]:
    """Yield the record batches of a row group, each of at most `num_rows`."""
    batches = file.iter_batches(
        batch_size=num_rows, row_groups=[group], columns=columns, use_threads=False
    )
    while True:
        with table_errors(path, "Parquet"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
