"""A disk that is full is exit code 6 for every command, wherever it strikes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conftest import RunCli
from dataprep.pipeline.storage.arrayrecord import save_array
from support.encoding import png
from support.inprocess import write_lines
from support.installed import COMMAND, prepared
from support.trees import tree


def test_an_array_is_saved_as_numpy_saves_it_and_a_full_disk_has_its_number(tmp_path: Path) -> None:
    for array in (np.arange(5), np.zeros(0, "<u4"), np.ones((3, 2), np.float32)):
        save_array(tmp_path / "a.npy", array).commit()
        np.save(tmp_path / "b.npy", array)
        assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    if os.path.exists("/dev/full"):
        (tmp_path / "full.npy.tmp").symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left") as caught:
            save_array(tmp_path / "full.npy", np.zeros(1 << 20))
        assert caught.value.errno


OTHER_LIMITS = (("tokenize", 2), ("pack", 2), ("pack", 100))


@pytest.mark.parametrize(
    ("command", "kilobytes"),
    [
        *(("tokenize", 100), ("pack", 20), ("encode", 2)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHER_LIMITS),
    ],
)
def test_no_file_may_grow(run_cli: RunCli, tmp_path: Path, command: str, kilobytes: int) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": f"{i} " * 60} for i in range(2000)])
    tokenized = tmp_path / "tokenized"
    run_cli("tokenize", path, "--tokenizer", "bytes", "--out", tokenized)
    (tmp_path / "pictures").mkdir()
    for i in range(60):
        (tmp_path / "pictures" / f"{i}.png").write_bytes(png(i))
    words = {
        "tokenize": ["tokenize", path, "--tokenizer", "bytes"],
        "pack": ["pack", tokenized, "--seq-len", "128"],
        "encode": ["encode", tmp_path / "pictures", "--encoder", "patches"],
    }[command]
    command_line = [*COMMAND, *map(str, words), "--out", str(tmp_path / "out")]
    size = kilobytes << 10
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    limited = subprocess.run(
        prepared(limit, command_line),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert limited.returncode == 6, limited.stderr
    assert "Traceback" not in limited.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()
    run_cli(*words, "--out", tmp_path / "out")
    run_cli(*words, "--out", tmp_path / "clean")
    assert tree(tmp_path / "out") == tree(tmp_path / "clean")
