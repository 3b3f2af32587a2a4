"""What became of the records of each source, added up over the shards of all tasks.

tallies of shards   {"0": read 5, bad 1}  {"0": read 3, "1": read 2}
sums by source      0: read 8, bad 1      1: read 2
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.commits import Markers
from dataprep.pipeline.jobs.progress import EXAMPLES, Example
from dataprep.pipeline.types import Offsets, Source

# How a message about a bad record ends.
LEAVE_OUT = (
    "To leave bad records out, set --on-error skip; to list them too, set --on-error quarantine"
)

MOST_NAMED = 3  # sources in a note
AT_ONCE = 1 << 14  # sources


class SourceCounts:
    """The sums of each source, as a column of numbers for each count: there may be a million."""

    def __init__(self, tallies: Iterable[Mapping[str, Any]], num_sources: int) -> None:
        """A tally has counts by the index of the source; those in `marked` have their own names."""
        self._num_sources = num_sources
        self._columns: dict[str, Offsets] = {}
        for by_source in filter(None, tallies):
            places = np.array([int(source) for source in by_source], np.int64)
            each = [*by_source.values()]
            marked = [getattr(tally, "marked", {}) for tally in each]
            for name in (field.name for field in fields(each[0]) if field.name != "marked"):
                self._add(name, places, map(attrgetter(name), each))
            for name in dict.fromkeys(chain.from_iterable(marked)):
                self._add(name, places, (own.get(name, 0) for own in marked))

    def __iter__(self) -> Iterator[Mapping[str, int]]:
        """Yield the sums of one source after another; what nobody counted is 0."""
        for first in range(0, self._num_sources, AT_ONCE):
            stop = min(first + AT_ONCE, self._num_sources)
            columns = [column[first:stop].tolist() for column in self._columns.values()]
            rows = zip(*columns, strict=True) if columns else ((),) * (stop - first)
            for row in rows:
                yield defaultdict(int, zip(self._columns, row, strict=True))

    def total(self) -> Counter[str]:
        return Counter({name: int(column.sum()) for name, column in self._columns.items()})

    def _add(self, name: str, places: Offsets, counts: Iterable[int]) -> None:
        column = self._columns.setdefault(name, np.zeros(self._num_sources, np.int64))
        column[places] += np.fromiter(counts, np.int64, len(places))


class Tallied(Protocol):
    """The marker of a shard that may have bad records."""

    @property
    def tallies(self) -> Mapping[str, Any]:
        """What became of the records of each source, by its index."""

    @property
    def examples(self) -> Sequence[Example]:
        """The first bad records."""


def num_bad(markers: Iterable[Tallied]) -> int:
    """Return how many records of these shards were bad."""
    return sum(tally.bad for marker in markers for tally in marker.tallies.values())


def examples_of(markers: Iterable[Tallied]) -> list[Example]:
    """Return the first bad records of the shards of a task."""
    return [example for marker in markers for example in marker.examples][:EXAMPLES]


def bad_by_task(markers: Markers[Any], left: Sequence[int]) -> dict[int, tuple[int, list[Example]]]:
    """Return how many records were bad in each task that is done, and the first of them."""
    done = {task: markers.of(task) for task in set(markers.own) - set(left)}
    return {task: (num_bad(shards), examples_of(shards)) for task, shards in done.items()}


class Accounted(Protocol):
    """The entry of a source in the manifest."""

    @property
    def path(self) -> str: ...
    @property
    def records(self) -> int: ...
    @property
    def written(self) -> int: ...
    @property
    def quarantined(self) -> int: ...
    @property
    def dropped(self) -> int: ...


def notes_on_sources(sources: Sequence[Accounted], *, limited: bool) -> list[str]:
    """Name the sources of which nothing was written; under a limit some are not even read."""
    lost = [s for s in sources if not s.written and not (limited and not s.records)]
    if not lost or len(lost) == len(sources):  # all: then the run fails, or was told not to
        return []
    named = ", ".join(f"{source.path} ({_fate(source)})" for source in lost[:MOST_NAMED])
    more = len(lost) - MOST_NAMED
    rest = f" and {more:,} more" if more > 0 else ""
    return [f"{counted(len(lost), 'source')} of {len(sources):,} gave nothing: {named}{rest}"]


def _fate(source: Accounted) -> str:
    """Return what became of the records of a source that gave nothing."""
    bad = source.quarantined + source.dropped
    told = [(bad, "bad"), (source.records - bad, "empty")]
    return ", ".join(f"{count:,} {what}" for count, what in told if count) or "no records"


def entry_of(source: Source, sums: Mapping[str, int], on_error: str) -> dict[str, Any]:
    """Return what the manifest lists of any source; bad records are quarantined or dropped."""
    quarantine = on_error == "quarantine"
    return {
        "path": source.path,
        "kind": source.kind,
        "bytes": source.num_bytes,
        "fingerprint": source.fingerprint,
        "records": sums.get("records", sums["read"]),
        "written": sums["written"],
        "quarantined": sums["bad"] if quarantine else 0,
        "dropped": 0 if quarantine else sums["bad"],
    }
