"""Files that are read whole have a largest size; what is no file is named, with the fix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.loaders import DataLoader
from dataprep.pipeline.engine import resolve_tokenizer
from dataprep.pipeline.errors import ConfigError, DataprepError, InputError
from dataprep.pipeline.files import read_sealed
from dataprep.pipeline.guards.opening import MAX_BYTES, TooLargeError, near_path, read_bounded
from dataprep.pipeline.jobs.ownership import check_ours
from dataprep.pipeline.jobs.workspace import check_out
from dataprep.pipeline.media.find import find_media
from dataprep.pipeline.sources import find_sources
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


def test_what_is_neither_a_file_nor_a_folder_is_named_with_the_fix(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "circle.jsonl").symlink_to("circle.jsonl")
    (tmp_path / "broken.jsonl").symlink_to("/nowhere")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    said = {
        "fifo.jsonl": "is a FIFO, not a file on a disk; write what it gives to a file",
        "circle.jsonl": "is a link that leads back to itself; remove it",
        "broken.jsonl": r"is a broken link \(to /nowhere\); remove it or mend it",
        "zero.jsonl": "is a device, not a file on a disk; write",
    }
    for name, words in said.items():
        for given in (name, f"[{name[0]}]{name[1:]}"):  # by name, and by a pattern
            with pytest.raises(InputError, match=words):
                find_sources(str(tmp_path / given))
        with pytest.raises(InputError, match=words):
            find_media(str(tmp_path / name), "vision", "image", None)
    for name in ("circle.jsonl", "broken.jsonl"):
        for out in (tmp_path / name, tmp_path / name / "below"):
            with pytest.raises(ConfigError, match=f"cannot use --out .*{name} {said[name]}"):
                check_out(str(out))


def test_a_file_that_has_only_the_ending_in_common_is_not_meant(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").touch()
    assert near_path(str(tmp_path / "nosuch.jsonl")) == ""
    near = tmp_path / "chat.jsonl"
    for name in ("caht.jsonl", "chat.json", "chats.jsonl", "chat.jsonl.gz"):
        assert near_path(str(tmp_path / name)) == f"; did you mean {near}?"
