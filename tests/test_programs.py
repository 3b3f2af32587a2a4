"""The programs of examples/ run, and check what they show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.modules import ROOT

# The last line of each, printed after its own checks.
SAYS = {
    "train": "equal to the last bit",
    "multi_host": "the batches and the state of a single host",
    "multimodal": "102 of the inputs are codes, 27 of the targets have loss",
}


def test_every_program_is_run_here() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(SAYS)


SLOW = ("train", "multi_host")  # tests/loaders has the same, in small


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SAYS]
)
def test_a_program_runs_and_shows_what_it_says(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", ROOT / "examples" / f"{name}.py", "--out", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == SAYS[name]


def test_a_checkout_without_the_package_is_not_measured_by_the_installed_one(
    tmp_path: Path,
) -> None:
    words = ["scripts/bench_start.py", tmp_path, "--against", tmp_path]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{tmp_path} has no package in src/dataprep, so that " in done.stderr
