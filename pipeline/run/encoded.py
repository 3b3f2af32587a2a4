"""Codes that grow with the media that they are made of.

media           what the inputs name now, one by one, compared with the lists of what was read
new media       ─► one more part; an unfinished one is continued, as its list says what is in it
new settings    ─► all parts anew
media changed   ─► an error, all parts anew in which they are, or nothing, as `on_changed` says

A part whose media and settings are wanted is used, whichever run made it. Parts are read by
`tokenized`, one by one: they need no manifest in common. What lies where: see `listed`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.run import RunConfig
from dataprep.pipeline.encode.plan import FoundInputs, OpenedEncoder, find_all_media, opened
from dataprep.pipeline.encode.recipe import encode
from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.differences import difference
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.media import only, singles_of
from dataprep.pipeline.run.changes import changes_since, judged, refuse_to_lose
from dataprep.pipeline.run.generations import remove_leftovers
from dataprep.pipeline.run.listed import (
    CURRENT,
    ListedPart,
    current_names,
    finished,
    is_finished,
    list_of,
    lists_in,
    next_name,
    read_part,
    remove_unfinished,
)
from dataprep.pipeline.storage.kinds import EncodedManifest
from dataprep.pipeline.storage.parts import PARTS
from dataprep.pipeline.types import SingleMedia

_BAD = ("documents_quarantined", "documents_dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesPart:
    """A part that is wanted, made or not."""

    name: str  # parts/00000
    listed: ListedPart
    places: tuple[int, ...]  # of its media in what the inputs name now; of a kept one none


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCodes:
    """The parts that a dataset of codes should have, and why those are not what it has."""

    maker: _CodesMaker
    parts: tuple[CodesPart, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


def plan_encoded(out: Path, config: EncodeConfig, run: RunConfig, cache_dir: Path) -> PlannedCodes:
    """Compare the media with what was encoded; decode nothing."""
    maker = _CodesMaker.of(out, config, cache_dir)
    lists, names = dict(lists_in(out)), current_names(out)
    current = [name for name in names or () if name in lists and is_finished(out / name)]
    recorded = [single for name in current for single in lists[name].media]
    changes = changes_since(recorded, maker.singles)
    reasons, notes = judged(out, changes.changed, changes.gone, run.on_changed)
    if names is None:
        reasons = ["it is not there yet"]
    reasons = reasons or list(_other_settings(out, current, lists, maker))
    refuse_to_lose(out, changes.changed, changes.gone, reasons, run.on_changed)
    kept, new = ([], dict(enumerate(maker.singles))) if reasons else (current, changes.new)
    lost = [f"{name} is missing" for name in names or () if name not in current]
    reasons = reasons or lost or list(changes.new_files())
    return PlannedCodes(
        maker=maker,
        parts=tuple(_wanted(out, current, kept, lists, new, maker)),
        reasons=tuple(reasons),
        notes=tuple(notes),
    )


def _wanted(
    out: Path,
    current: Sequence[str],
    kept: Sequence[str],
    lists: Mapping[str, ListedPart],
    new: Mapping[int, SingleMedia],
    maker: _CodesMaker,
) -> Iterator[CodesPart]:
    """Yield what is kept, other parts that were made or begun of the new media, and one of the
    rest."""
    yield from (CodesPart(name=name, listed=lists[name], places=()) for name in kept)
    left: dict[str, list[int]] = {}  # places by fingerprint: paths may change
    for place, single in new.items():
        left.setdefault(single.fingerprint, []).append(place)
    for name in dict.fromkeys((*current, *lists)):
        if name not in kept:
            yield from maker.fitting(name, lists[name], left)
    rest = sorted(place for places in left.values() for place in places)
    if rest:
        yield maker.listed(next_name(out), rest)


def settle_encoded(out: Path, planned: PlannedCodes, report: Report) -> tuple[EncodedManifest, ...]:
    """Return the parts, in order; make those that are missing."""
    make_folder(out / PARTS)
    wanted = [part.name for part in planned.parts]
    missing = [part for part in planned.parts if not is_finished(out / part.name)]
    if missing:
        remove_unfinished(out, wanted)
    for part in missing:
        planned.maker.make(part, may_be_empty=len(wanted) > 1, report=report)
    found = tuple(read_part(out, part.name, part.listed) for part in planned.parts)
    remove_leftovers(out / name for name in wanted)
    if current_names(out) != wanted:
        write_sealed(out / CURRENT, json.dumps(wanted).encode())
    return found


@dataclass(frozen=True, slots=True)
class _CodesMaker:
    """Tells and makes the dataset of some of the media."""

    out: Path
    config: EncodeConfig
    encoder: OpenedEncoder
    found: FoundInputs
    singles: list[SingleMedia]
    cache_dir: Path

    @staticmethod
    def of(out: Path, config: EncodeConfig, cache_dir: Path) -> _CodesMaker:
        encoder = opened(config, cache_dir)
        found = find_all_media(config, encoder.kind, cache_dir)
        return _CodesMaker(out, config, encoder, found, singles_of(found.media), cache_dir)

    def settings(self, on_error: str | None = None) -> dict[str, object]:
        """Return all that decides a dataset, but for its media."""
        identity = self.encoder.identity(())
        if on_error is not None:
            identity["config"] = {**identity["config"], "on_error": on_error}
        return identity

    def listed(self, name: str, places: Sequence[int]) -> CodesPart:
        """Return the part of these media."""
        identity = self.encoder.identity(only(self.found.media, places))
        listed = ListedPart(
            fingerprint=fingerprint(identity),
            settings=fingerprint(self.settings()),
            media=tuple(self.singles[i] for i in places),
        )
        return CodesPart(name=name, listed=listed, places=tuple(places))

    def fitting(
        self, name: str, listed: ListedPart, left: dict[str, list[int]]
    ) -> Iterator[CodesPart]:
        """Yield a part if it was made, or begun, with these settings and of media that are left;
        then they are taken from there."""
        part = finished(self.out, name, listed)
        if listed.settings != fingerprint(self.settings(_on_error_of(part))):
            return
        counts = Counter(single.fingerprint for single in listed.media)
        if any(len(left.get(each, ())) < count for each, count in counts.items()):
            return
        places = sorted(p for each, count in counts.items() for p in left[each][:count])
        if part is None and self.listed(name, places).listed.fingerprint != listed.fingerprint:
            return
        for each, count in counts.items():
            del left[each][:count]
        yield CodesPart(name=name, listed=listed, places=tuple(places))

    def make(self, part: CodesPart, *, may_be_empty: bool, report: Report) -> None:
        """Write the list of a part, and then the part."""
        place = self.out / part.name
        data = json.dumps(asdict(part.listed)).encode()
        if read_sealed(list_of(place)) != data:
            write_sealed(list_of(place), data)
        allow = may_be_empty or self.config.allow_empty
        config = self.config.model_copy(update={"out": str(place), "allow_empty": allow})
        found = FoundInputs(media=only(self.found.media, part.places))
        encode(config, cache_dir=self.cache_dir, report=report, found=found)


def _other_settings(
    out: Path, names: Sequence[str], lists: Mapping[str, ListedPart], maker: _CodesMaker
) -> Iterator[str]:
    """Yield how the settings differ from those that a part was made with, if they do."""
    for name in names:
        part = read_part(out, name, lists[name])
        now = maker.settings(_on_error_of(part))
        if fingerprint(now) != lists[name].settings:
            yield difference({**part.identity, "sources": [], "read_as": []}, now, ())
            return


def _on_error_of(part: EncodedManifest | None) -> str | None:
    """Return what was to be done with bad records if there were none: then it does not matter."""
    if part is None or any(part.counts[name] for name in _BAD):
        return None
    return part.on_error
