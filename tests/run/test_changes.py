"""What became of inputs since they were read: which have grown, whatever they are called now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dataprep.pipeline.run.changes import changes_since


@dataclass(frozen=True)
class File:
    path: str
    fingerprint: str


def test_all_that_are_unknown_are_looked_for_at_once() -> None:
    """There may be a million of them, and as many that are gone."""
    asked: list[tuple[int, int]] = []

    def tails(
        sources: Mapping[int, File], olds: Collection[File]
    ) -> Iterator[tuple[int, File, File]]:
        asked.append((len(sources), len(olds)))
        for (place, source), old in zip(sources.items(), olds, strict=False):
            yield place, old, source

    recorded = [File(f"{i}.log", f"{i}") for i in range(50)]
    found = [File(f"{i}.log.1", f"{i} and more") for i in range(60)]
    changes = changes_since(recorded, found, tails, names_kept=True)
    assert asked == [(60, 50)]
    assert len(changes.appended) == 50
    assert not changes.gone
    assert [*changes.new] == [*range(60)]


def test_names_may_be_exchanged_though_one_file_begins_with_the_other() -> None:
    """A file that was empty, or is a copy that grew, is not taken for what has its name now."""

    def tails(
        sources: Mapping[int, File], olds: Collection[File]
    ) -> Iterator[tuple[int, File, File]]:
        for place, source in sources.items():
            for old in olds:
                if source.fingerprint.startswith(old.fingerprint):
                    yield place, old, source

    recorded = [File("empty", ""), File("log", "a b"), File("copy", "a b c")]
    found = [File("empty", "a b"), File("log", "a b c"), File("copy", "")]
    changes = changes_since(recorded, found, tails, names_kept=True)
    assert changes.same == {"log": 0, "copy": 1, "empty": 2}
    assert not changes.new
    # A copy of what a file was before it grew is new: the file is still the one that grew.
    changes = changes_since(
        [File("log", "a")], [File("log", "a b"), File("old", "a")], tails, names_kept=True
    )
    assert (changes.appended, [*changes.new]) == (("log",), [0, 1])
