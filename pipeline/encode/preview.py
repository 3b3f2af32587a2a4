"""Count the media that were found, decode the first of each kind, and estimate the codes of all.

    found      1,200 pictures, 30 videos, 400 records of tables
    sample     the first 4 of each: frames, or seconds of sound
    all        codes in the same proportion

Nothing is written. Codes of pictures follow from their frames, so that no weights are loaded;
sounds are encoded, since only the encoder knows how many codes they have.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dataprep.pipeline.encode.kinds import KINDS
from dataprep.pipeline.encode.plan import EncodePlan, Planned
from dataprep.pipeline.encode.worker import refusal
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.media import (
    Decoded,
    Entry,
    FoundMedia,
    Item,
    decode_item,
    is_listed,
    read_items,
)
from dataprep.pipeline.media.endings import medium_of
from dataprep.pipeline.sources import count_records, format_of
from dataprep.pipeline.types import Piece

EACH = 4  # of each medium that are decoded
RECORD = "record"  # of a table; what it holds is known when it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodePreview:
    media: dict[str, int | None]  # picture, video, sound, record; None: only reading would tell
    sampled: int
    bad: int
    first_bad: str  # place and reason, or ''
    all_codes: int | None  # None: not known before it is read


def preview_of(planned: Planned) -> EncodePreview:
    """Count and decode; raise for a bad record, as the run would."""
    sample = _SampledMedia(planned)
    for medium, item in _first_items(planned):
        sample.add(medium, item)
    media = _media_of(planned)
    return EncodePreview(
        media=media,
        sampled=sum(sample.tried.values()),
        bad=sample.bad,
        first_bad=sample.first_bad,
        all_codes=_all_codes(media, sample, planned.plan),
    )


class _SampledMedia:
    """Adds up the codes that the first media will have."""

    def __init__(self, planned: Planned) -> None:
        self._plan, self._encoder = planned.plan, planned.encoder
        self._kind = KINDS[self._plan.kind]
        self._rules = self._kind.rules(self._plan.config, self._encoder)
        self.tried, self.codes = Counter[str](), Counter[str]()  # by medium
        self.bad = 0
        self.first_bad = ""

    def add(self, medium: str, item: Item) -> None:
        decoded = decode_item(item, self._rules)
        reason = decoded.reason
        self.tried[medium] += 1
        if not reason:
            try:
                self.codes[medium] += self._codes_of(decoded)
            except ValueError as error:
                reason = redacted(str(error))
        if reason:
            if self._plan.config.on_error == "fail":
                raise refusal(item, reason)
            self.bad += 1
            self.first_bad = self.first_bad or f"{item.place}: {reason}"

    def _codes_of(self, decoded: Decoded) -> int:
        if decoded.waveform is not None:
            return self._kind.encoding(self._encoder).add(0, decoded)
        return sum(1 for _ in decoded.frames) * self._kind.facts(self._encoder)["tokens_per_frame"]


def _first_items(planned: Planned) -> Iterator[tuple[str, Item]]:
    """Yield the first items of each medium; of tables, of each that there is room for."""
    left = Counter(dict.fromkeys(("picture", "video", "sound", RECORD), EACH))
    for number, found in enumerate(planned.found):
        entries = [e for e in found.entries if left[_medium(e)] > 0]
        chosen = list(_taken(entries, left))
        piece = Piece(source=number, start=0, stop=len(chosen), first_line=0)
        if is_listed(found.source):
            for entry, item in zip(chosen, _read(planned, found, piece, chosen), strict=True):
                yield _medium(entry), item
        elif left[RECORD] > 0:
            pieces = (p for task in planned.plan.tasks for p in task.pieces if p.source == number)
            first = next(pieces, None)  # none: a limit ends the run before it
            items = iter(()) if first is None else _read(planned, found, first, ())
            for item in islice(items, left[RECORD]):
                left[RECORD] -= 1
                yield RECORD, item


def _taken(entries: Sequence[Entry], left: Counter[str]) -> Iterator[Entry]:
    for entry in entries:
        if left[_medium(entry)] > 0:
            left[_medium(entry)] -= 1
            yield entry


def _read(
    planned: Planned, found: FoundMedia, piece: Piece, entries: Sequence[Entry]
) -> Iterator[Item]:
    config = planned.plan.config
    return read_items(
        found.source,
        piece,
        entries,
        config.column or "",
        from_line=0,
        allow_outside=config.allow_outside,
    )


def _medium(entry: Entry) -> str:
    return medium_of(entry.name) or RECORD


def _media_of(planned: Planned) -> dict[str, int | None]:
    """Count what was found, by medium."""
    listed = Counter(_medium(entry) for found in planned.found for entry in found.entries)
    counts: dict[str, int | None] = dict(listed)
    pieces: dict[int, Piece] = {}
    for task in planned.plan.tasks:
        for piece in task.pieces:
            whole = pieces.get(piece.source, piece)
            pieces[piece.source] = replace(whole, stop=max(whole.stop, piece.stop))
    for number, whole in pieces.items():
        source = planned.plan.sources[number]
        if is_listed(source):
            continue
        known = counts.get(RECORD, 0)
        is_stream = format_of(source.kind).is_stream
        rows = None if is_stream else count_records(source, whole, sys.maxsize)
        counts[RECORD] = None if known is None or rows is None else known + rows
    return counts


def _all_codes(media: dict[str, int | None], sample: _SampledMedia, plan: EncodePlan) -> int | None:
    limit = plan.config.limit
    if None in media.values():
        return None
    known = {medium: count or 0 for medium, count in media.items()}
    total = sum(
        count * sample.codes[medium] / max(1, sample.tried[medium])
        for medium, count in known.items()
    )
    share = 1.0 if limit is None else min(1.0, limit / max(1, sum(known.values())))
    return round(total * share) * plan.num_variants
