"""Row 10: after a power failure a manifest means a whole dataset, and any other state goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.forks import ForkServer
from support.jobs import Job
from support.losses import lose_power
from support.power import check_record, losses, state_after
from support.recorded import record, record_command
from support.straced import needs_strace

pytestmark = needs_strace
COMMANDS = ("tokenize", "pack", "encode", "export")


@pytest.mark.parametrize("name", COMMANDS)
def test_10_a_run_goes_on_from_what_a_power_failure_left(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen = lose_power(server, small_jobs[name], tmp_path, most=20)
    assert seen.wrong == []
    assert seen.tried >= 12
    assert seen.with_manifest  # some of them came after the end
    assert seen.refused == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_10_a_run_goes_on_from_every_state_that_a_power_failure_can_leave(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen = lose_power(server, small_jobs[name], tmp_path)
    assert seen.wrong == []
    assert seen.tried > 60
    assert seen.refused == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_10_a_dataset_is_on_the_disk_when_its_command_ends(
    small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    job, root = small_jobs[name], tmp_path / "root"
    root.mkdir()
    # The folders on the way to --out are new, too.
    calls = record_command(job.command(root / "a" / "out", 1), root, tmp_path / "strace.log")
    left = state_after(calls, "strict")
    assert left.get("a/out/manifest.json") == job.clean["manifest.json"]
    lost = [n for n, data in job.clean.items() if left.get(f"a/out/{n}") != data]
    assert lost == []


# A program that commits a file and then a manifest; what it forgets is left to the test.
COMMITS = """
import os, sys
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
root, forgets = sys.argv[1:]
os.mkdir(f"{root}/shards")
for folder, name, data in (("shards", "a", b"x" * 9000), (".", "manifest", b"a: 9000 bytes")):
    path = os.path.normpath(f"{root}/{folder}/{name}")
    place = path if forgets == "rename" else path + ".tmp"
    with open(place, "wb") as file:
        file.write(data)
    if forgets != f"sync of {name}":
        sync(place)
    os.replace(place, path)
    if forgets != f"sync of {folder}":
        sync(os.path.dirname(path))
"""


@pytest.mark.parametrize(
    ("forgets", "is_safe"),
    [
        ("nothing", True),
        ("sync of a", False),
        ("sync of shards", False),
        ("sync of manifest", False),
        ("rename", False),
        ("sync of .", True),  # the manifest may be late, but is right when it is there
    ],
)
def test_10_the_replay_finds_what_a_program_forgets(
    tmp_path: Path, forgets: str, is_safe: bool
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    words = [sys.executable, "-I", "-c", COMMITS, str(root), forgets]
    calls = record(words, root, tmp_path / "strace.log")
    check_record(calls, root)
    wrong = [
        loss.name
        for loss in losses(calls)
        if "manifest" in loss.world
        and (loss.world["manifest"], loss.world.get("shards/a")) != (b"a: 9000 bytes", b"x" * 9000)
    ]
    assert bool(wrong) != is_safe
    assert state_after(calls, "killed")["shards/a"] == b"x" * 9000
