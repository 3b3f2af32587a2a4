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
