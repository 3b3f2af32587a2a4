"""Nights drawn at random: whatever becomes of files, of the config and of runs that are killed, no
document is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.random_files import Mode
from support.random_nights import live_nights

MODES = (
    Mode("inputs that only grow"),
    Mode("records of one document", several=False),
    Mode("made anew", on_changed="rebuild", append=False),
    Mode("made anew, or appended to", on_changed="rebuild"),
    Mode("what was read stays", on_changed="ignore"),
    Mode("shared inputs", shares=1, leaves=0.5),
    Mode("forgotten and cleaned", on_changed="rebuild", forgets=0.8, cleans=0.8),
)


def test_no_document_is_lost_or_doubled(tmp_path: Path, cache_dir: Path) -> None:
    for seed, mode in enumerate(MODES):
        live_nights(mode, seed, 3, tmp_path, cache_dir)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_no_document_is_lost_or_doubled_on_many_nights(
    mode: Mode, tmp_path: Path, cache_dir: Path
) -> None:
    for seed in range(100, 125):
        live_nights(mode, seed, 6, tmp_path, cache_dir)
