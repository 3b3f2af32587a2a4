"""Read a piece of a source: batches of records, with the line and the byte where each stands."""

from __future__ import annotations

from collections.abc import Iterator

from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.sources.batches import settle
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.known import format_of
from dataprep.pipeline.types import Piece, Records, Source

_DEFAULT = Wanted()


def read_piece(
    source: Source,
    piece: Piece,
    keys: frozenset[str] | None,
    *,
    from_line: int = 0,
    batch_bytes: int = _DEFAULT.batch_bytes,
    max_record_bytes: int = _DEFAULT.max_record_bytes,
    held_by: HeldBy = nothing_held,
) -> Iterator[Records]:
    """Batches of about `batch_bytes`, at least one; the last tells the piece's line count.

    `keys`: the top-level keys that are wanted; None: all. Lines before `from_line` are passed
    over, their bytes counted in the first batch. A column of keys that hold codes comes as
    `IntegerLists` where every value of the batch is a list of integers; where some are, these are
    arrays. In rows lists of codes are arrays. Readers that have Python lists give them as they are.
    """
    wanted = Wanted(
        keys=keys,
        held_by=held_by,
        from_line=from_line,
        batch_bytes=batch_bytes,
        max_record_bytes=max_record_bytes,
    )
    return settle(format_of(source.kind).read(source, piece, wanted))


def count_records(source: Source, piece: Piece, stop_after: int) -> int:
    """Records in a piece, readable or not, at most `stop_after`; nothing is decoded."""
    return min(format_of(source.kind).count(source, piece, stop_after), stop_after)
