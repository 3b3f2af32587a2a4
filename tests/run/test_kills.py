"""`dataprep run` and `forget` that are killed, meet a full disk, or find damage: they go on to the
same bytes, or say which file is to be restored; never other rows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forks import ForkServer
from support.installed import COMMAND, prepared
from support.killed_nights import Nights, die_at_changes, held, kill_nights


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[ForkServer]:
    with ForkServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Nights:
    made = Nights(tmp_path_factory.mktemp("nights"), server)
    made.undisturbed()
    return made


@pytest.fixture(scope="module")
def small_nights(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Nights:
    made = Nights(tmp_path_factory.mktemp("small"), server, texts=12)
    made.undisturbed()
    return made


def test_the_nights_hold_what_kills_could_harm(nights: Nights) -> None:
    names = {*nights.clean[-1]}
    assert {"a/tokenized/parts/00000-1/manifest.json", ".run/forgotten.json"} <= names
    assert {"b/packed-64-validation/generations/00003.json", ".run/selected.json"} <= names
    assert not [name for name in names if ".work" in name or name.endswith(".tmp")]


def test_killed_nights_end_in_the_same_bytes(nights: Nights) -> None:
    seen = kill_nights(nights, mid_run=20)
    assert not seen.wrong, "\n".join(seen.wrong)
    assert seen.mid_run >= 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_killed_nights_end_in_the_same_bytes(nights: Nights) -> None:
    seen = kill_nights(nights, mid_run=200, seed=1)
    assert not seen.wrong, "\n".join(seen.wrong)
    assert seen.mid_run >= 200


NIGHTS = range(4)


@pytest.mark.parametrize("night", NIGHTS)
def test_a_death_at_some_changes_of_the_disk_ends_in_the_same_bytes(
    small_nights: Nights, cache_dir: Path, night: int
) -> None:
    died, wrong = die_at_changes(small_nights, night, range(night + 1, 2000, 47), cache_dir)
    assert not wrong, "\n".join(wrong)
    assert died >= 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("night", NIGHTS)
def test_a_death_at_any_change_of_the_disk_ends_in_the_same_bytes(
    small_nights: Nights, cache_dir: Path, night: int
) -> None:
    died, wrong = die_at_changes(small_nights, night, range(1, 2000), cache_dir)
    assert not wrong, "\n".join(wrong)
    assert died >= 50


@pytest.mark.parametrize("night", [0, 1, 2])
@pytest.mark.parametrize("kilobytes", [1, 12, 60])
def test_a_full_disk_exits_6_and_the_night_goes_on(
    nights: Nights, night: int, kilobytes: int
) -> None:
    nights.restore(night)
    size = kilobytes << 10
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    command = prepared(limit, [*COMMAND, *nights.words(night)])
    done = subprocess.run(command, cwd=nights.home, capture_output=True, text=True, timeout=90)
    assert "Traceback" not in done.stderr
    assert done.returncode == 6, done.stderr
    ended = nights.server.run(nights.words(night), cwd=nights.home)
    assert ended.code == 0, ended.stderr
    assert held(nights.out) == nights.clean[night]


DAMAGED = [
    "a/tokenized/manifest.json",
    "a/tokenized/parts/00000/manifest.json",
    "b/packed-64-train/manifest.json",
    "b/packed-64-train/parts/00001/manifest.json",
    ".run/forgotten.json",
]


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named(nights: Nights, name: str) -> None:
    nights.restore(3)
    data = (nights.out / name).read_bytes()
    _damage(nights.out / name)
    ended = nights.server.run(nights.words(3), cwd=nights.home)
    assert ended.code == 5, ended.stderr
    assert f"out/{name}" in ended.stderr
    (nights.out / name).write_bytes(data)
    assert nights.server.run(nights.words(3), cwd=nights.home).code == 0
    # While one corpus failed the other went on, so that its new part may have come in first.
    order = ".run/selected.json"
    found, wanted = held(nights.out), nights.clean[3]
    assert sorted(_parts_in(found.pop(order))) == sorted(_parts_in(wanted[order]))
    assert found == {name: data for name, data in wanted.items() if name != order}


@pytest.mark.parametrize("how", ["damaged", "gone"])
@pytest.mark.parametrize("ending", [".npy", ".json"])
def test_selections_are_made_again_as_they_were(nights: Nights, ending: str, how: str) -> None:
    nights.restore(3)
    found = sorted((nights.out / ".run/selections").rglob(f"*{ending}"))
    assert len(found) == 4
    for path in found:
        _damage(path) if how == "damaged" else path.unlink()
    assert nights.server.run(nights.words(3), cwd=nights.home).code == 0
    assert held(nights.out) == nights.clean[3]


def test_the_order_of_parts_is_not_needed_for_selections_that_are_there(nights: Nights) -> None:
    nights.restore(3)
    _damage(nights.out / ".run/selected.json")
    assert nights.server.run(nights.words(3), cwd=nights.home).code == 0
    found = held(nights.out)
    assert {**found, ".run/selected.json": b""} == {**nights.clean[3], ".run/selected.json": b""}


def test_selections_are_not_guessed(nights: Nights) -> None:
    nights.restore(3)
    _damage(nights.out / ".run/selected.json")
    before = held(nights.out / "a/packed-64")
    for path in (nights.out / ".run/selections/a").glob("*.npy"):
        path.unlink()
    ended = nights.server.run(nights.words(3), cwd=nights.home)
    assert ended.code == 5, ended.stderr
    assert "out/.run/selected.json is missing or damaged" in ended.stderr
    assert held(nights.out / "a/packed-64") == before


def _parts_in(order: bytes) -> list[list[object]]:
    """Return the parts that a list names, which ends with its hash."""
    parts: list[list[object]] = json.loads(order.splitlines()[0])
    return parts


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
