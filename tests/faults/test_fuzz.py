"""Whatever bytes are read, only declared errors come of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.forks import TESTS
from support.fuzz import TARGETS, fuzz
from support.installed import python_path


@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_only_declared_errors_are_raised(target: str) -> None:
    count = 60 if target == "state" else 300  # each state is followed by a batch
    tried, undeclared = fuzz(target, count)
    assert undeclared == []
    assert tried >= count - 10


def test_fuzz_the_control_finds_an_undeclared_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "jsonl", lambda data: {}[data])  # type: ignore[index]
    tried, undeclared = fuzz("jsonl", 30)
    assert len(undeclared) == tried


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
def test_fuzz_for_ten_minutes_with_coverage(target: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "support.coverage", target, "600", str(tmp_path / "corpus")],
        env={**os.environ, "PYTHONPATH": python_path(TESTS)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done" in done.stderr
