"""A manifest with one wrong value, and a checksum that fits it, is refused or changes nothing.

    `shards.1.num_tokens`  ×  -1, 2^63, true, "x", [], deleted, …  ─►  verify, read, stats, pack …

Every reader must end with an error of ours, or with what it gave before. The exceptions are values
that a reader merely shows, listed in SHOWN.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.cli.inspect import inspect_command
from dataprep.configs.pack import PackConfig
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import CorruptError, DataprepError
from dataprep.pipeline.look.stats import stats
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.pack import pack_plan_of
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, read_manifest, sealed
from support.datasets import KINDS, copies, make_all

Place = tuple[str | int, ...]
Reader = Callable[[Path], Any]

DELETED = object()
HOSTILE: tuple[Any, ...] = (
    *(DELETED, None, True, False, -1, 0, 1, 7, 2**31, 2**53 + 1, 2**63, 2**64, 1.5, -0.0, 1e308),
    *("", "x", "a\0b", "../x", "/etc/passwd", "shards", "sha256:0", "é\u202e", "x" * 5000),
    *([], [1], [[]], ["x", "x"], {}, {"x": 1}),
)
# What readers show as the manifest says it, without using it.
SHOWN = {
    "stats": ("counts.*", "max_id", "masks*"),
    "inspect": ("sources.*.path", "sources.*.kind", "config.modalities.*", "*.first_piece"),
}
# What a reader counts on without a way to know better; `verify` counts it.
COUNTED = ("counts.weighted_tokens", "counts.vision_tokens", "files.*")


# --- readers ---


def read_all(folder: Path) -> Any:
    dataset = open_dataset(folder)
    every = range(len(dataset))
    items = [dataset[i] for i in (*every[:3], *every[-3:])]
    return [{name: array.tolist() for name, array in item.items()} for item in items]


def load(folder: Path) -> Any:
    with DataLoader(folder, batch_size=4, seed=1) as loader:
        return {name: np.asarray(array).tolist() for name, array in loader[3].items()}


def plan(folder: Path) -> Any:
    return pack_plan_of(PackConfig(inputs=(str(folder),), out="nowhere", seq_len=50))


def count(folder: Path) -> Any:
    return stats(folder, read_manifest(folder))


READERS: dict[str, dict[str, Reader]] = {
    "tokenized": {"verify": verify, "read": read_all, "stats": count, "plan": plan},
    "packed": {"verify": verify, "read": read_all, "stats": count, "load": load},
    "encoded": {"verify": verify},
}


def inspect(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    inspect_command(str(folder), tokenizer="bytes", as_json=True)  # not one by its name on the hub
    return capsys.readouterr().out


# --- mutations ---


def places_in(value: Any, above: Place = ()) -> Iterator[Place]:
    """Yield where every value is, leaves and what holds them."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in inner:
        yield (*above, key)
        if isinstance(below, dict | list):
            yield from places_in(below, (*above, key))


def changed(values: Any, place: Place, new: Any) -> Any:
    values = json.loads(json.dumps(values))
    holder = values
    for key in place[:-1]:
        holder = holder[key]
    if new is DELETED:
        del holder[place[-1]]
    else:
        holder[place[-1]] = new
    return values


def reordered(values: Any) -> Iterator[tuple[Place, Any]]:
    """Yield lists of records in another order, doubled, and cut short."""
    for place in places_in(values):
        held = values
        for key in place:
            held = held[key]
        if isinstance(held, list) and held:
            for new in (held[::-1], [*held, held[-1]], held[:-1]):
                if new != held:
                    yield place, new


def mutations(values: Any) -> list[tuple[Place, Any]]:
    found = [(place, new) for place in places_in(values) for new in HOSTILE]
    return [*found, *reordered(values)]


def named(place: Place) -> str:
    return ".".join(map(str, place))


# --- tests ---


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_all(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def scratch(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return copies(folders, tmp_path_factory.mktemp("scratch"))


class Trial:
    """Readers of one dataset, what they gave at first, and what they give now."""

    def __init__(self, folder: Path, readers: dict[str, Reader]) -> None:
        self.folder, self.readers = folder, readers
        self.path = folder / "manifest.json"
        self.whole = self.path.read_bytes()
        self.values = json.loads(self.whole)
        del self.values["checksum"]
        self.expected = {name: reader(folder) for name, reader in readers.items()}
        self.refused = self.same = 0

    def check(self, place: Place, new: Any) -> None:
        values = changed(self.values, place, new)
        if values == self.values and repr(values) == repr(self.values):
            return
        self.path.write_bytes(sealed(values))
        try:
            read_manifest(self.folder)
            for name, reader in self.readers.items():
                self._check_reader(name, reader, place, new)
        except CorruptError:
            self.refused += 1  # by all readers: it is the first thing that they do
        finally:
            self.path.write_bytes(self.whole)

    def _check_reader(self, name: str, reader: Reader, place: Place, new: Any) -> None:
        try:
            found = reader(self.folder)
        except DataprepError:
            self.refused += 1
            return
        if any(fnmatchcase(named(place), shown) for shown in SHOWN.get(name, ())):
            return
        is_counted = any(fnmatchcase(named(place), each) for each in COUNTED)
        if found != self.expected[name] and is_counted:
            with pytest.raises(CorruptError):
                verify(self.folder)
            return
        assert found == self.expected[name], f"{name} with {named(place)} = {new!r}"
        self.same += 1


def trial_of(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Trial:
    readers = dict(READERS[kind])
    if kind != "encoded":
        readers["inspect"] = lambda folder: inspect(folder, capsys)
    return Trial(folder, readers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_value_is_refused_or_changes_nothing(
    scratch: dict[str, Path], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = trial_of(kind, scratch[kind], capsys)
    every = mutations(trial.values)
    for place, new in random.Random(kind).sample(every, 80):
        trial.check(place, new)
    assert trial.refused > 32


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_wrong_value_is_refused_or_changes_nothing(
    scratch: dict[str, Path], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = trial_of(kind, scratch[kind], capsys)
    every = mutations(trial.values)
    assert len(every) > 2000
    for place, new in every:
        trial.check(place, new)
    assert trial.refused > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_every_missing_key_outside_of_config_is_refused(
    scratch: dict[str, Path], kind: str
) -> None:
    trial = Trial(scratch[kind], {"verify": verify})
    for place in places_in(trial.values):
        is_free = place[0] in ("config", "made_with") or "engine" in place or "made_with" in place
        if isinstance(place[-1], str) and not is_free:
            trial.check(place, DELETED)
            known = place[0] == "counts"  # some are only told
            assert trial.refused or known, named(place)
            trial.refused = 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_cannot_be_an_integer_is_no_version(
    scratch: dict[str, Path], kind: str
) -> None:
    path = scratch[kind] / "manifest.json"
    whole = path.read_bytes()
    values = json.loads(whole)
    del values["checksum"]
    for version in (True, 1.5, "1", 1, FORMAT_VERSION + 1, None, [1]):
        path.write_bytes(sealed({**values, "format_version": version}))
        with pytest.raises(CorruptError, match=r"format_version|format version"):
            verify(scratch[kind])
    path.write_bytes(whole)
    verify(scratch[kind])
