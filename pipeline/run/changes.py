"""What became of the inputs since they were read: new, appended to, changed, gone.

recorded   a.jsonl 1f0c…    b.jsonl 99aa…    c.jsonl 0b1d…
now        a.jsonl 1f0c…    b.jsonl 7e02…    d.jsonl 55ce…    moved/c.jsonl 0b1d…
           as it was        changed          new              as it was, under another name
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dataprep.pipeline.sources.tail import tail_of
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.types import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Places are those of sources in what the inputs name now."""

    same: dict[str, int]  # recorded path -> the place of that source
    new: dict[int, Source]  # by place; of files that were appended to, the new lines
    appended: tuple[str, ...]  # paths of those
    changed: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def is_nothing(self) -> bool:
        return not (self.new or self.changed or self.gone)


def changes_since(
    recorded: Iterable[TextSource], found: Sequence[Source], *, append: bool
) -> Changes:
    """Compare what was read, in that order, with what is there now."""
    newest = {source.path: source for source in recorded}  # a file may have grown several times
    by_path = {source.path: place for place, source in enumerate(found)}
    lost = {path: old for path, old in newest.items() if path not in by_path}
    same: dict[str, int] = {}
    new: dict[int, Source] = {}
    appended, changed = [], []
    for place, source in enumerate(found):
        old = newest.get(source.path)
        if old is None:
            name = _under_another_name(source, lost)
            if name is None:
                new[place] = source
            else:
                same[name] = place
                del lost[name]
        elif old.fingerprint == source.fingerprint:
            same[source.path] = place
        else:
            tail = tail_of(source, old.start + old.bytes, old.fingerprint) if append else None
            if tail is None:
                changed.append(source.path)
            else:
                same[source.path], new[place] = place, tail
                appended.append(source.path)
    return Changes(
        same=same,
        new=new,
        appended=tuple(appended),
        changed=tuple(changed),
        gone=tuple(lost),
    )


def as_recorded(source: Source, old: TextSource) -> Source:
    """Return a source as it was when it was read: the same file, perhaps shorter."""
    return replace(source, start=old.start, num_bytes=old.bytes, fingerprint=old.fingerprint)


def _under_another_name(source: Source, lost: dict[str, TextSource]) -> str | None:
    alike = (path for path, old in lost.items() if old.fingerprint == source.fingerprint)
    return next(alike, None)
