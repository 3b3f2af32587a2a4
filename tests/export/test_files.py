"""Files of an export are hashed while they are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.export.files import OutFile
from dataprep.pipeline.files import Content, commit_files, temporary
from dataprep.pipeline.hashes import hash_file


def test_what_is_known_of_a_file_is_what_is_in_it(tmp_path: Path) -> None:
    file = OutFile(tmp_path / "a")
    for data in (b"abc", np.arange(70_000, dtype="<u2"), b"", np.zeros((0, 2))):
        file.write(data)
    known = file.close()
    assert known == Content((tmp_path / "a").stat().st_size, hash_file(tmp_path / "a"))


def test_of_a_file_that_was_written_out_of_order_nothing_is_known(tmp_path: Path) -> None:
    file = OutFile(tmp_path / "a")
    file.seek(2)
    file.write(b"cd")
    file.seek(0)
    file.write(b"ab")
    assert file.close() is None
    assert (tmp_path / "a").read_bytes() == b"abcd"


def test_a_file_that_is_shorter_than_what_was_written_is_not_committed(tmp_path: Path) -> None:
    temporary(tmp_path / "a").write_bytes(b"ab")
    with pytest.raises(CorruptError, match="was lost or changed"):
        commit_files({"main": tmp_path / "a"}, {"main": Content(3, "0" * 32)})
    assert not (tmp_path / "a").exists()
