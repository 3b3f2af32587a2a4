"""Commands that read everything show how far they are."""

from __future__ import annotations

import io
import sys

import pytest

from dataprep.cli import show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_reading_shows_a_bar_on_a_terminal_and_nothing_if_quiet(
    monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with show.Reading("verify", 1000, quiet=quiet) as read:
        read(500)
    assert ("verify" in terminal.getvalue()) is not quiet


@pytest.mark.parametrize("quiet", [False, True])
def test_reading_says_a_line_now_and_then_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    monkeypatch.setattr(show, "SECONDS_BETWEEN_LINES", 0)
    with show.Reading("stats", 4_000_000, quiet=quiet) as read:
        read(1_000_000)
        read(2_000_000)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == ("" if quiet else "stats: 1.00 MB, 25%\nstats: 3.00 MB, 75%\n")
