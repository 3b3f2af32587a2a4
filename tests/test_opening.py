"""Files that are read whole have a largest size."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.loaders import DataLoader
from dataprep.pipeline.engine import resolve_tokenizer
from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.files import read_sealed
from dataprep.pipeline.jobs.ownership import check_ours
from dataprep.pipeline.opening import MAX_BYTES, TooLargeError, read_bounded
from dataprep.pipeline.storage.manifest import MANIFEST, read_manifest

HUGE = 1 << 40  # no machine of ours could read it


def huge(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, HUGE)
    return path


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match=f"it has {HUGE:,} bytes, more than any real one"):
        read_bounded(huge(tmp_path / "a.json"))
    assert MAX_BYTES > 20_000 * 10_000  # bytes of the entries of 20,000 shards


@pytest.mark.parametrize(
    ("name", "use", "code"),
    [
        (MANIFEST, read_manifest, 5),
        (MANIFEST, lambda folder: DataLoader(folder, batch_size=1), 5),
        (MANIFEST, check_ours, 2),
        ("tokenizer.json", lambda folder: resolve_tokenizer(str(folder)), 2),
    ],
)
def test_a_huge_file_of_ours_or_of_a_tokenizer_ends_in_an_error_with_its_size(
    tmp_path: Path, name: str, use: Callable[[Path], object], code: int
) -> None:
    huge(tmp_path / name)
    with pytest.raises(DataprepError) as caught:
        use(tmp_path)
    assert caught.value.exit_code == code


def test_a_huge_marker_is_a_damaged_one(tmp_path: Path) -> None:
    assert read_sealed(huge(tmp_path / "marker")) is None
