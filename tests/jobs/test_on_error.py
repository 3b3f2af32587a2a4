"""Runs that are continued with another --on-error."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.jobs.plans import write_plan
from dataprep.pipeline.jobs.poison import Poison, PoisonRecord, poison_name
from dataprep.pipeline.tokenize import sink
from support.encoding import png
from support.here import make_here
from support.inprocess import write_lines
from support.trees import tree


def stopped(work: Path) -> None:
    raise KeyboardInterrupt


def tokenize_values(tmp_path: Path, records: Sequence[Any]) -> dict[str, Any]:
    """Two tasks, since what is compressed is not cut; the first has several shards."""
    good = [{"text": "x" * 300}] * 1500
    paths = []
    for name, lines in (("a", [*records, *good]), ("b", good)):
        path = write_lines(tmp_path / f"{name}.jsonl", lines)
        paths.append(tmp_path / f"{name}.jsonl.gz")
        paths[-1].write_bytes(gzip.compress(path.read_bytes()))
    return {"inputs": list(map(str, paths)), "tokenizer": "bytes", "shard_bytes": 1 << 16}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "RECORD_TOKENS", 1 << 15)


def encode_values(tmp_path: Path) -> dict[str, Any]:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for i in range(7):
        (pictures / f"{i}.png").write_bytes(b"none" if i == 1 else png(i))
    return {"inputs": [str(pictures)], "encoder": "patches", "shard_records": 2}


@pytest.mark.parametrize("began", ["skip", "quarantine"])
@pytest.mark.parametrize("command", ["tokenize", "encode"])
def test_under_fail_a_continued_run_names_the_bad_record_that_was_left_out_before(
    tmp_path: Path, command: str, began: str
) -> None:
    if command == "tokenize":
        values, bad = tokenize_values(tmp_path, [{"text": "y"}, "{bad"]), "line 2 of"
    else:
        values, bad = encode_values(tmp_path), r"1\.png"
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        make_here(command, out, {**values, "on_error": began}, after_job=stopped)
    assert list((out / ".work" / "tasks").glob("*.done"))
    for _ in range(2):
        with pytest.raises(InputError, match=bad):
            make_here(command, out, {**values, "on_error": "fail"})
        assert not (out / "manifest.json").exists()
    # What was committed before is none of what is written now.
    make_here(command, out, {**values, "on_error": began})
    make_here(command, tmp_path / "clean", {**values, "on_error": began})
    assert tree(out) == tree(tmp_path / "clean")


def test_a_record_that_is_poison_no_more_is_read_under_fail_with_all_after_it(
    tmp_path: Path,
) -> None:
    values = tokenize_values(tmp_path, [{"text": "y" * 300}] * 3)
    out = tmp_path / "out"
    poison = PoisonRecord(task=0, place=(0, 1), reason="a worker died on it", lacks_memory=False)

    def stop_with_markers(work: Path) -> None:
        assert len(list((work / "tasks").glob("000000-*.done"))) > 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_here(
            "tokenize",
            out,
            {**values, "on_error": "skip"},
            after_jobs=stop_with_markers,
            before=lambda work: write_plan(work, Poison(records=(poison,)), poison_name(0)),
        )
    make_here("tokenize", out, {**values, "on_error": "fail"})
    make_here("tokenize", tmp_path / "clean", {**values, "on_error": "fail"})
    assert tree(out) == tree(tmp_path / "clean")


def test_no_marker_is_left_behind_one_that_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a run is killed while it drops them."""
    values = tokenize_values(tmp_path, ["{bad"])
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        make_here("tokenize", out, {**values, "on_error": "skip"}, after_job=stopped)
    tasks = out / ".work" / "tasks"
    before = len(list(tasks.glob("000000-*.done")))
    assert before > 3
    unlink, left = Path.unlink, [2]

    def stop(self: Path, **options: bool) -> None:
        if self.suffix == ".done":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        unlink(self, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stop)
        with pytest.raises(KeyboardInterrupt):
            make_here("tokenize", out, {**values, "on_error": "fail"})
    numbers = sorted(int(path.stem.rpartition("-")[2]) for path in tasks.glob("000000-*.done"))
    assert numbers == list(range(before - 2))
