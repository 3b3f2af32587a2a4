"""Cut batches of records: up to a limit, and where a record may kill its worker.

    batch      lines 3200 to 3940; 3517 and 3518 are suspect, 3700 is known as poison
    parts      3200 to 3516 | 3517 | 3518 | 3519 to 3699 | 3700: only its error | 3701 to 3940

Documents do not depend on the batches that they come in, so the dataset is the same either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dataprep.pipeline.documents.together import PieceRecords
from dataprep.pipeline.jobs.poison import PoisonRecord, TaskPoison
from dataprep.pipeline.jobs.trail import Span
from dataprep.pipeline.types import Records


def apart(
    group: Sequence[PieceRecords], poison: TaskPoison
) -> Iterator[tuple[Sequence[PieceRecords], bool]]:
    """Yield the group, or its parts: suspects are alone (True), poison records only errors."""
    if not poison.touches(*span_of(group)):
        yield group, False
        return
    for item in group:
        for records in _parts(item, poison):
            place = item.place, _first_line(records)
            known = poison.records.get(place)
            part = records if known is None else _refused(records, known)
            yield [replace(item, records=part)], poison.suspects_at(place)


def _parts(item: PieceRecords, poison: TaskPoison) -> Iterator[Records]:
    """Yield the records in order, those that are poison or suspect one by one."""
    records = item.records
    lines = sorted([*records.lines.tolist(), *(error.line for error in records.errors)])
    singles = [poison.singles_out((item.place, line)) for line in lines]
    starts = [line for i, line in enumerate(lines) if i == 0 or singles[i] or singles[i - 1]]
    for start, stop in zip(starts, [*starts[1:], records.next_line], strict=True):
        part = between(records, start, stop)
        yield part if stop == records.next_line else replace(part, num_bytes=0)
    if not lines:
        yield records


def span_of(group: Sequence[PieceRecords]) -> Span:
    """Return the records that a group holds, from the first up to the end of the last batch."""
    first, last = group[0], group[-1]
    return (first.place, _first_line(first.records)), (last.place, last.records.next_line)


def _first_line(records: Records) -> int:
    lines = [*records.lines[:1].tolist(), *(error.line for error in records.errors)]
    return min(lines, default=records.next_line)


def between(records: Records, start: int, stop: int) -> Records:
    """Return the records of the lines from `start` up to `stop`."""
    first, end = np.searchsorted(records.lines, [start, stop]).tolist()
    columns, rows = records.columns, records.rows
    return replace(
        records,
        lines=records.lines[first:end],
        offsets=records.offsets[first:end],
        next_line=stop,
        columns=None if columns is None else {k: v[first:end] for k, v in columns.items()},
        rows=None if rows is None else rows[first:end],
        errors=[error for error in records.errors if start <= error.line < stop],
    )


def _refused(records: Records, known: PoisonRecord) -> Records:
    """Return a batch of one record as a batch of one error."""
    error = records.error_at(0, known.reason) if len(records.lines) else records.errors[0]
    return replace(
        between(records, 0, 0),
        next_line=records.next_line,
        errors=[replace(error, line=known.place[1], reason=known.reason)],
    )
