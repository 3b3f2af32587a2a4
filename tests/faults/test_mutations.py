"""With one safeguard taken out, a test of this folder fails: the tests are worth something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.forks import TESTS
from support.installed import python_path
from support.straced import needs_strace

MUTANTS = TESTS / "support" / "mutants"
KILLED = "test_9_a_run_killed_after_each_of_its_commits_ends_in_the_same_bytes"
# By what is taken out: a test that must fail then, and what it must say. All of them pass with
# nothing taken out.
CAUGHT_BY = {
    "fsync": (
        "test_power.py::test_10_a_dataset_is_on_the_disk_when_its_command_ends[encode]",
        r"assert None == b'\{.*where None = .*out/manifest\.json",
    ),
    "rename": (
        "test_power.py::test_10_a_run_goes_on_from_what_a_power_failure_left[encode]",
        "a manifest, but other bytes in",
    ),
    "hash": (
        "test_damage.py::test_14_every_flipped_bit_is_found[tokenize]",
        "item: 'flip of shards/",
    ),
    "marker": (
        f"test_kills.py::{KILLED}[encode]",
        "other bytes in .* != 'equal'",
    ),
    "comparison": (
        "test_damage.py::test_14_damage_of_an_unfinished_run_is_redone_or_refused[tokenize]",
        r"item: 'tokenize, half done: (flip|NUL) of \.work/.*: exit 0, other bytes in",
    ),
}


@needs_strace
@pytest.mark.parametrize(
    "safeguard",
    ["hash", *(pytest.param(n, marks=pytest.mark.slow) for n in CAUGHT_BY if n != "hash")],
)
def test_without_a_safeguard_a_test_fails(safeguard: str, tmp_path: Path) -> None:
    log = tmp_path / "mutants"
    test, said = CAUGHT_BY[safeguard]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""),
            str(TESTS / "faults" / test),
        ],
        cwd=TESTS.parent,
        env={
            **os.environ,
            "PYTHONPATH": python_path(MUTANTS),
            "DATAPREP_MUTANT": safeguard,
            "DATAPREP_MUTANT_LOG": str(log),
        },
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert log.read_text().splitlines().count(safeguard) >= 1
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-1000:]
    assert "1 failed" in done.stdout
    failure = " ".join(line for line in done.stdout.splitlines() if line.startswith("E "))
    assert re.search(said, failure), done.stdout[-3000:]
