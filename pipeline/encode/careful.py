"""Say which records are being decoded and encoded, and find those that kill their worker.

    shard begins at    record 1024
    taken so far       1024 to 1160: any of them may be in the encoder's batch, or in a thread
    suspects           1024 to 1160, if the worker died there: each is tried alone first
    poison             1099: bad, with the reason that its worker died

A suspect is tried alone but not encoded alone: what is encoded together decides the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from dataprep.pipeline.jobs.commits import Cursor
from dataprep.pipeline.jobs.poison import TaskPoison
from dataprep.pipeline.jobs.trail import Place
from dataprep.pipeline.jobs.worker import Message, Send, at
from dataprep.pipeline.media import Item
from dataprep.pipeline.media.decode import Frame

Items = Iterator[tuple[int, Item]]  # with the place of the item's piece in the task


@dataclass(slots=True)
class Whereabouts:
    """Tells the parent which records may be the reason if the worker dies now."""

    send: Send
    start: Place = (0, 0)  # of the shard that is being filled
    last: Message | None = None

    def begin_shard(self, cursor: Cursor) -> None:
        self.start = cursor.piece, cursor.line

    def take(self, place: int, item: Item) -> None:
        """Say that work on one more record begins."""
        self.last = at((self.start, (place, item.line + 1)))
        self.send(self.last)

    def take_alone(self, place: int, item: Item) -> None:
        """Say that one record is tried, and nothing else is done."""
        self.last = at(((place, item.line), (place, item.line + 1)), alone=True)
        self.send(self.last)

    def skip(self) -> None:
        """Say that a record is left out; those before it may still be decoded or encoded."""
        self.send(at(self.last["span"] if self.last else None, skips=True))

    def watched(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yield the frames, each of which is a sign of life: a video may have many."""
        for frame in frames:
            yield frame
            self.send(self.last or at(None))


def tried(
    items: Items, poison: TaskPoison, try_alone: Callable[[Item], None], whereabouts: Whereabouts
) -> Items:
    """Yield the items; make those that are poison bad, and try suspects alone first."""
    for place, item in items:
        known = poison.records.get((place, item.line))
        if known is not None:
            whereabouts.skip()
            yield place, replace(item, reason=known.reason)
            continue
        if poison.suspects_at((place, item.line)):
            whereabouts.take_alone(place, item)
            try_alone(item)
        whereabouts.take(place, item)
        yield place, item
