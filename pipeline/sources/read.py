"""Read a piece of a source: batches of records, each with its line and its byte offset."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.sources.batches import settle
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.keys import Keys, keys_of
from dataprep.pipeline.sources.known import format_of
from dataprep.pipeline.sources.split import split_source
from dataprep.pipeline.types import Piece, Records, Source

_DEFAULT = Wanted()


def read_piece(
    source: Source,
    piece: Piece,
    keys: Keys | frozenset[str] | None,
    *,
    from_line: int = 0,
    batch_bytes: int = _DEFAULT.batch_bytes,
    max_record_bytes: int = _DEFAULT.max_record_bytes,
    held_by: HeldBy = nothing_held,
) -> Iterator[Records]:
    """Yield at least one batch of about `batch_bytes`; the last has the piece's line count.

    `keys`: the keys to read, those of a set being needed; None: all. Lines before `from_line` are
    skipped, and their bytes are counted in the first batch. A column that holds codes is an
    `IntegerLists` if every value of the batch is a list of integers; if only some are, those are
    arrays. In rows, lists of codes are arrays. Formats whose values are Python lists already return
    them unchanged.
    """
    wanted = Wanted(
        keys=keys_of(keys),
        held_by=held_by,
        from_line=from_line,
        batch_bytes=batch_bytes,
        max_record_bytes=max_record_bytes,
    )
    return settle(format_of(source.kind).read(source, piece, wanted))


def read_source(
    source: Source,
    keys: Keys | frozenset[str] | None,
    *,
    batch_bytes: int = _DEFAULT.batch_bytes,
    max_record_bytes: int = _DEFAULT.max_record_bytes,
) -> Iterator[tuple[int, Records]]:
    """Yield all batches of a source, each with the number of lines before its piece."""
    first = 0
    for piece, _ in split_source(source, 0, sys.maxsize, keys, False):
        count = 0
        for records in read_piece(
            source, piece, keys, batch_bytes=batch_bytes, max_record_bytes=max_record_bytes
        ):
            yield first, records
            count = records.next_line
        first += count


def count_records(source: Source, piece: Piece, stop_after: int) -> int:
    """Count the records of a piece, readable or not, up to `stop_after`, without decoding them."""
    return min(format_of(source.kind).count(source, piece, stop_after), stop_after)
