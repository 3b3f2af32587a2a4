"""What became of the inputs since they were read: new, appended to, changed, gone.

recorded   a.jsonl 1f0c…    b.jsonl 99aa…    c.jsonl 0b1d…
now        a.jsonl 1f0c…    b.jsonl 7e02…    d.jsonl 55ce…    moved/c.jsonl 0b1d…
           as it was        changed          new              as it was, under another name

recorded   log 1f0c…
now        log.1 1f0c…      log 7e02…
           as it was        new: the name was left to it

now        log.1 1f0c… + 3 lines    log 7e02…       if files may be appended to
           appended to              new
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import xxhash

from dataprep.configs.run import OnChanged
from dataprep.pipeline.errors import ConflictError, counted
from dataprep.pipeline.sources.fingerprint import PREFIX
from dataprep.pipeline.sources.tail import may_grow, starts_of, tail_of
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.types import Source

MOST_NAMED = 3  # files in a message
NOTHING = f"{PREFIX}{xxhash.xxh3_128_hexdigest(b'')}"  # the fingerprint of an empty file


class Known(Protocol):
    """Something that is or was read."""

    @property
    def path(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


R = TypeVar("R", bound=Known)
S = TypeVar("S", bound=Known)
# Of sources, by place, and things that were read: which source has grown from which of these, each
# from one of its own, and what is new in it.
Tails = Callable[[Mapping[int, S], Collection[R]], Iterator[tuple[int, R, S]]]


def no_tails(sources: Mapping[int, S], olds: Collection[R]) -> Iterator[tuple[int, R, S]]:
    """Yield nothing: what has grown has changed."""
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Generic[S]):
    """Places are those of sources in what the inputs name now."""

    same: dict[str, int]  # recorded path -> the place of that source
    new: dict[int, S]  # by place; of files that were appended to, the new lines
    appended: tuple[str, ...]  # paths of those
    changed: tuple[str, ...]
    gone: tuple[str, ...]

    def new_files(self) -> Iterator[str]:
        """Yield what to say of files that are new or have new lines."""
        grown = set(self.appended)
        added = [source.path for source in self.new.values() if source.path not in grown]
        if added:
            yield f"{counted(len(added), 'new file')}: {_some(added)}"
        if grown:
            yield f"appended to: {_some(sorted(grown))}"


def changes_since(
    recorded: Iterable[R],
    found: Sequence[S],
    tails: Tails[S, R] = no_tails,
    *,
    names_kept: bool = False,
) -> Changes[S]:
    """Compare what was read, in that order, with what is there now.

    `tails` gives what is new in sources that were only appended to, if that may be. `names_kept`:
    the caller remembers what a file is called now, so that another may have the name that it left.
    """
    newest = {source.path: source for source in recorded}  # a file may have grown several times
    matched = _Matched(newest, found)
    matched.match_names()
    if names_kept:  # names may be exchanged, and one of the files begin with what the other was
        matched.match_contents({i for i, source in enumerate(found) if source.path in newest})
    matched.match_grown(tails)
    if not names_kept:
        matched.keep_lost({*newest} - {source.path for source in found})
    matched.match_contents({*range(len(found))})
    matched.match_moved(tails)
    matched.match_grown(tails, from_nothing=True)  # last: any file begins with nothing
    same = matched.same
    # A name whose file is elsewhere now was left to another.
    changed = [s.path for s in matched.left.values() if s.path in newest and s.path not in same]
    is_changed = {*changed}
    new = {place: s for place, s in matched.left.items() if s.path not in is_changed}
    return Changes(
        same=same,
        new=dict(sorted((matched.grown | new).items())),
        appended=tuple(found[place].path for place in matched.grown),
        changed=tuple(changed),
        gone=tuple(path for path in newest if path not in same and path not in is_changed),
    )


class _Matched(Generic[R, S]):
    """What was read, each with what it is now, as far as that is known yet."""

    def __init__(self, recorded: Mapping[str, R], found: Sequence[S]) -> None:
        self.same: dict[str, int] = {}  # recorded path -> place
        self.grown: dict[int, S] = {}  # what is new, by place
        self.lost = dict(recorded)
        self.left = dict(enumerate(found))

    def keep_lost(self, paths: Collection[str]) -> None:
        """Leave only these to be found under other names."""
        self.lost = {path: old for path, old in self.lost.items() if path in paths}

    def match_names(self) -> None:
        """Match what is as it was."""
        for place, source in [*self.left.items()]:
            before = self.lost.get(source.path)
            if before is not None and before.fingerprint == source.fingerprint:
                self._match(before, place)

    def match_contents(self, places: Collection[int]) -> None:
        """Match what has another name now; only sources at these places."""
        olds: dict[str, deque[R]] = {}  # by what they held; many may be empty
        for old in self.lost.values():
            olds.setdefault(old.fingerprint, deque()).append(old)
        for place, source in [*self.left.items()]:
            if place in places and olds.get(source.fingerprint):
                self._match(olds[source.fingerprint].popleft(), place)

    def match_grown(self, tails: Tails[S, R], *, from_nothing: bool = False) -> None:
        """Match what was appended to; what was empty by itself."""
        for place, source in [*self.left.items()]:
            before = self.lost.get(source.path)
            if before is not None and (before.fingerprint == NOTHING) == from_nothing:
                for _, old, more in tails({place: source}, [before]):
                    self._match(old, place, more)

    def match_moved(self, tails: Tails[S, R]) -> None:
        """Match what has another name and was appended to, as logs are."""
        for place, old, more in [*tails(self.left, self.lost.values())]:
            self._match(old, place, more)

    def _match(self, old: R, place: int, more: S | None = None) -> None:
        self.same[old.path] = place
        del self.lost[old.path], self.left[place]
        if more is not None:
            self.grown[place] = more


def tails_since(
    sources: Mapping[int, Source], olds: Collection[TextSource]
) -> Iterator[tuple[int, TextSource, Source]]:
    """Yield which of these files sources were when they were read, the longest that each begins
    with, and what was appended since. One that was empty is known by its name."""
    left: dict[tuple[int, str], list[TextSource]] = {}  # by where they end, and what they held
    for old in olds:
        if old.start + old.bytes or len(olds) == 1:
            left.setdefault((old.start + old.bytes, old.fingerprint), []).append(old)
    ends = sorted({end for end, _ in left})
    for place, source in sources.items() if left else ():
        if not may_grow(source):
            continue
        begins = [left[start] for start in _starts(source, ends, olds) if left.get(start)]
        for old in begins[-1][:1] if begins else ():
            end = old.start + old.bytes
            is_known = end or old.path == source.path
            more = tail_of(source, end, old.fingerprint) if is_known else None
            if more is not None:
                begins[-1].remove(old)
                yield place, old, more


def _starts(
    source: Source, ends: Sequence[int], olds: Collection[TextSource]
) -> Iterable[tuple[int, str]]:
    """Return the places where files ended that this one may begin with, and what it holds up to
    there; it is read once for all. Of one file alone `tail_of` finds that out."""
    if len(olds) == 1:
        return [(old.start + old.bytes, old.fingerprint) for old in olds]
    return starts_of(source.file, ends[: bisect_left(ends, source.num_bytes)]).items()


def as_recorded(source: Source, old: TextSource) -> Source:
    """Return a source as it was when it was read: the same file, perhaps shorter."""
    return replace(source, start=old.start, num_bytes=old.bytes, fingerprint=old.fingerprint)


def judged(
    out: Path, changed: Sequence[str], gone: Sequence[str], on_changed: OnChanged
) -> tuple[list[str], list[str]]:
    """Return why a dataset is made anew, and notes, if inputs changed or are gone; ConflictError
    if that must not be."""
    told = []
    if changed:
        told.append(f"{_some(changed)} changed")
    if gone:
        told.append(f"{_some(gone)} {'is' if len(gone) == 1 else 'are'} gone")
    if not told:
        return [], []
    what = ", ".join(told)
    if on_changed == "error":
        raise ConflictError(
            f"{out} was made from inputs that are not what they were: {what}; restore them, or "
            "set on_changed: rebuild to make it anew, or ignore to keep what was made of them"
        )
    if on_changed == "ignore":
        return [], [f"{what}: ignored, the dataset keeps what was made of them"]
    return [f"{what}; on_changed is rebuild"], []


def refuse_to_lose(
    out: Path,
    changed: Sequence[str],
    gone: Sequence[str],
    reasons: Sequence[str],
    on_changed: OnChanged,
) -> None:
    """Raise ConflictError if a dataset is to be made anew for these reasons, although what was made
    of inputs that are not what they were is to be kept."""
    if on_changed == "ignore" and reasons and (changed or gone):
        raise ConflictError(
            f"{out} would be made anew ({'; '.join(reasons)}), and so lose what was made of "
            f"{_some([*changed, *gone])}, since on_changed is ignore; restore the inputs or the "
            "settings, or set on_changed: rebuild to make it of what is there now"
        )


def refuse_new_weights(identity: Mapping[str, Any], paths: Sequence[str]) -> None:
    """Raise ConflictError if messages have loss weights, for which what was read has no mask."""
    if any(chat and chat["has_weights"] for chat in identity.get("chats", ())):
        raise ConflictError(
            f"messages of {_some(paths)} have loss weights, and none that was read before had "
            "any; set chat.weights: true, and the corpus is made anew with them"
        )


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
