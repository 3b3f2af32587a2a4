"""What is lost or changed in the work folder while a run is on never ends in a dataset."""

from __future__ import annotations

import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.verify import verify
from support.encoding import png
from support.here import make_here
from support.inprocess import write_lines
from support.trees import tree

ENDINGS = {
    "tokenize": (".arrayrecord", ".index.npy", ".provenance.npy", ".errors.jsonl", ".done"),
    "pack": (".arrayrecord", ".index.npy", ".provenance.npy", ".done"),
    "encode": (".parquet", ".errors.jsonl", ".done"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[dict[str, Any], Path]]:
    """Return the config of a command and the dataset that it gives, with several tasks."""
    home = tmp_path_factory.mktemp("made")
    corpus = []
    for name in "ab":
        lines = [{"text": f"{name} {i} " + "w" * 60} for i in range(300)]
        corpus.append(str(write_lines(home / f"{name}.jsonl", [*lines, "{bad"])))
    image = [b64encode(png(i)).decode() for i in range(6)]
    # The column `score` is of two types, so that shards are written again with the one of both.
    rows: list[Any] = [
        {"image": data, "score": 1 if i < 3 else 0.5} for i, data in enumerate(image)
    ]
    table = write_lines(home / "t.jsonl", [*rows, {"image": "none", "score": 1}])
    configs: dict[str, dict[str, Any]] = {
        "tokenize": {
            "inputs": corpus,
            "tokenizer": "bytes",
            "shard_bytes": 1 << 16,
            "on_error": "quarantine",
        },
        "pack": {"inputs": [str(home / "tokenize")], "seq_len": 64, "shard_rows": 400},
        "encode": {
            "inputs": [str(table)],
            "encoder": "patches",
            "shard_records": 3,
            "on_error": "quarantine",
        },
    }
    for command, values in configs.items():
        make_here(command, home / command, values)
    return lambda command: (configs[command], home / command)


def first(work: Path, ending: str) -> Path:
    return min((work / "tasks").glob(f"*{ending}"))


def removed(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] if path.stat().st_size else b"{")


CASES = [
    *((command, ending, removed) for command in ENDINGS for ending in ENDINGS[command]),
    *((command, endings[0], cut) for command, endings in ENDINGS.items()),
    ("tokenize", ".errors.jsonl", cut),
]


@pytest.mark.parametrize(("command", "ending", "lose"), CASES)
def test_a_committed_file_that_is_lost_while_the_run_is_on_is_made_again_by_the_next(
    made: Callable[[str], tuple[dict[str, Any], Path]],
    tmp_path: Path,
    command: str,
    ending: str,
    lose: Callable[[Path], None],
) -> None:
    values, clean = made(command)
    out = tmp_path / "out"

    def lose_one(work: Path) -> None:
        lose(first(work, ending))

    with pytest.raises(CorruptError, match="while the run was on; run the same command again"):
        make_here(command, out, values, after_jobs=lose_one)
    assert not (out / "manifest.json").exists()
    make_here(command, out, values)
    assert tree(out) == tree(clean)
    verify(out)


def test_a_link_to_a_committed_file_is_not_published(
    made: Callable[[str], tuple[dict[str, Any], Path]], tmp_path: Path
) -> None:
    def link(work: Path) -> None:
        path = first(work, ".arrayrecord")
        os.replace(path, tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CorruptError, match="run the same command again"):
        make_here("tokenize", tmp_path / "out", made("tokenize")[0], after_jobs=link)
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("command", ENDINGS)
def test_a_work_folder_that_is_removed_while_the_run_is_on_is_no_fault_of_ours(
    made: Callable[[str], tuple[dict[str, Any], Path]], tmp_path: Path, command: str
) -> None:
    values, clean = made(command)
    out = tmp_path / "out"
    for name in ("after_job", "after_jobs"):
        with pytest.raises(CorruptError, match="run the same command again"):
            make_here(command, out, values, **{name: shutil.rmtree})
        make_here(command, out, values)
        assert tree(out) == tree(clean)
        shutil.rmtree(out)


def test_the_shards_of_the_codes_are_of_two_types_before_they_are_published(
    made: Callable[[str], tuple[dict[str, Any], Path]],
) -> None:
    """Else nothing above tries a shard that is written again."""
    _, clean = made("encode")
    columns = json.loads((clean / "manifest.json").read_text())["columns"]
    assert "double" in str(columns["score"])
