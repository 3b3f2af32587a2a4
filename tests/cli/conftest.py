"""How commands start and end: with the installed command, in an interpreter of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import Finished, RunCli, checked, run_for_real


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> Finished:
        words = list(map(str, args))
        finished = run_for_real(words, env or {}, cwd or tmp_path, timeout)
        return checked(finished, words) if check else finished

    return run
