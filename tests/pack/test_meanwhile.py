"""Inputs, plans and committed files that something else writes to while pack runs: they are named,
whatever was made of them, and get into no dataset."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.pack import blocks, manifest, pack_plan_of, worker
from dataprep.pipeline.storage import checked
from dataprep.pipeline.storage.manifest import read_manifest
from dataprep.pipeline.storage.origins import iter_media, write_media
from dataprep.pipeline.storage.provenance import LOST, MEDIA
from support.datasets import make_all
from support.here import make_here
from support.inprocess import tokenize_here, write_lines
from support.installed import started, wait_for
from support.manifests import edit_manifest
from support.parents import workers_of
from support.trees import tree


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_all(tmp_path_factory.mktemp("made"))["tokenized"]


@pytest.fixture
def tokenized(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "tokenized"))


@pytest.fixture(scope="module")
def clean(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The dataset that nothing disturbs."""
    out = tmp_path_factory.mktemp("clean") / "out"
    make_here("pack", out, values_for(made))
    return without_paths(out)


def without_paths(folder: Path) -> dict[str, bytes]:
    """Return all files but those that say where the tokenized dataset was."""
    return {n: d for n, d in tree(folder).items() if n not in ("manifest.json", LOST)}


def values_for(tokenized: Path, **more: Any) -> dict[str, Any]:
    defaults = {"seq_len": 100, "shard_rows": 60, "overflow": "truncate"}
    return {"inputs": [str(tokenized)], **defaults, **more}


def overwrite(path: Path) -> None:
    """Write other numbers into a file: its length and inode stay."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 512)


def once(call: Callable[..., Any], change: Callable[[], None]) -> Callable[..., Any]:
    """Call, change something, and call again: the second call uses what the first has opened."""
    changes = [change]

    def twice(*args: Any, **options: Any) -> Any:
        call(*args, **options)
        while changes:
            changes.pop()()
        return call(*args, **options)

    return twice


@pytest.mark.parametrize("part", ["shards", "index"])
def test_other_numbers_in_a_file_that_is_open_are_told_as_its_change(
    tokenized: Path, tmp_path: Path, clean: dict[str, bytes], part: str
) -> None:
    """They may point anywhere: what comes of that is nothing that a user should read."""
    path, out = min((tokenized / part).iterdir()), tmp_path / "out"
    whole = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "build_rows", once(worker.build_rows, lambda: overwrite(path)))
        with pytest.raises(InputError, match=rf"{path.name} changed while it was read"):
            make_here("pack", out, values_for(tokenized))
    assert not list((out / ".work" / "tasks").glob("*.done"))
    path.write_bytes(whole)
    make_here("pack", out, values_for(tokenized))
    assert without_paths(out) == clean


@pytest.mark.parametrize("part", ["shards", "index"])
def test_the_same_while_blocks_are_planned(
    tokenized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    path = min((tokenized / part).iterdir())
    monkeypatch.setattr(blocks, "find_blocks", once(blocks.find_blocks, lambda: overwrite(path)))
    with pytest.raises(InputError, match=rf"{path.name} changed while it was read"):
        make_here("pack", tmp_path / "out", values_for(tokenized, overflow="split"))
    assert not (tmp_path / "out" / ".work" / "plan.json").exists()


def test_the_same_while_rows_are_only_counted(
    tokenized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = min((tokenized / "index").iterdir())
    monkeypatch.setattr(blocks, "find_blocks", once(blocks.find_blocks, lambda: overwrite(path)))
    with pytest.raises(InputError, match=rf"{path.name} changed while it was read"):
        pack_plan_of(PackConfig(inputs=[str(tokenized)], seq_len=100))


def test_the_same_while_lost_documents_are_listed(
    tokenized: Path, tmp_path: Path, clean: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = min((tokenized / "index").iterdir())
    whole = path.read_bytes()
    find = manifest.find_lost

    def find_and_change(*args: Any) -> Any:
        for part in find(*args):
            overwrite(path)
            yield part

    monkeypatch.setattr(manifest, "find_lost", find_and_change)
    values = values_for(tokenized)
    with pytest.raises(InputError, match=rf"{path.name} changed while it was read"):
        make_here("pack", tmp_path / "out", values)
    assert not (tmp_path / "out" / "manifest.json").exists()
    monkeypatch.undo()
    path.write_bytes(whole)
    make_here("pack", tmp_path / "out", values)
    assert without_paths(tmp_path / "out") == clean


def test_a_dataset_that_was_made_again_is_not_packed_by_the_plan_of_the_old_one(
    tokenized: Path, tmp_path: Path
) -> None:
    """Both are whole: no hash can tell that the plan is of another dataset."""
    other, old = tmp_path / "other", tmp_path / "old"
    lines = write_lines(tmp_path / "in.jsonl", [{"text": f"another {i}"} for i in range(50)])
    tokenize_here(other, inputs=[str(lines)], tokenizer="bytes")

    def exchange(work: Path) -> None:
        tokenized.rename(old)
        other.rename(tokenized)

    with pytest.raises(InputError, match=f"{tokenized} changed while it was read"):
        make_here("pack", tmp_path / "out", values_for(tokenized), before=exchange)
    assert not list((tmp_path / "out" / ".work" / "tasks").glob("*.done"))


# --- what the run itself has committed ---


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        ("tasks/*.arrayrecord", overwrite),
        ("tasks/*.index.npy", os.unlink),
        ("tasks/*.provenance.npy", overwrite),
        ("tasks/*.provenance.npy", lambda path: os.truncate(path, 9)),
        ("provenance/*", overwrite),
    ],
)
def test_a_committed_file_that_changes_before_it_is_published_gets_into_no_dataset(
    tokenized: Path,
    tmp_path: Path,
    clean: dict[str, bytes],
    pattern: str,
    how: Callable[[Path], None],
) -> None:
    out = tmp_path / "out"
    values = values_for(tokenized)
    with pytest.raises(CorruptError, match="was lost or changed by something else"):
        make_here(
            "pack", out, values, after_jobs=lambda work: how(min(work.glob(pattern), key=str))
        )
    assert not (out / "manifest.json").exists()
    make_here("pack", out, values)
    assert without_paths(out) == clean


def test_committed_files_that_were_copied_are_known_by_their_hashes(
    tokenized: Path, tmp_path: Path, clean: dict[str, bytes]
) -> None:
    def copy(work: Path) -> None:
        for path in [*work.glob("tasks/*.arrayrecord")]:
            shutil.copy(path, path.with_name("copy"))
            os.replace(path.with_name("copy"), path)

    make_here("pack", tmp_path / "out", values_for(tokenized), after_jobs=copy)
    assert without_paths(tmp_path / "out") == clean


# --- provenance ---


def test_names_of_media_that_change_while_they_are_read_are_not_used(
    tokenized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read in parts, after the file was hashed; most Parquet files have no checksums."""
    path = tokenized / MEDIA
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dataprep.pipeline.storage.origins.MOST_NAMES", 10)
        media = write_media(path, iter([(0, [f"{i}.png" for i in range(40)])]))
        assert media
        media.commit()
        entry = {"path": MEDIA, "num_bytes": path.stat().st_size}
        entry["xxh3_128"] = checked.hash_file(path)
        edit_manifest(tokenized, lambda values: values["files"].append(entry))
        names = iter_media(tokenized, read_manifest(tokenized))
        assert len(next(names)[1]) == 10
        overwrite(path)
        with pytest.raises(CorruptError, match=r"media\.parquet (changed|cannot be read)"):
            list(names)


def test_pieces_are_those_bytes_that_were_hashed(
    tokenized: Path, tmp_path: Path, clean: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tokenized / "provenance" / "pieces.json"
    hash_bytes = checked.hash_bytes
    whole = path.read_bytes()

    def hash_and_change(data: bytes) -> str:
        digest = hash_bytes(data)
        if data == whole:
            path.write_bytes(whole.replace(b"225", b"226"))
        return digest

    monkeypatch.setattr(checked, "hash_bytes", hash_and_change)
    make_here("pack", tmp_path / "out", values_for(tokenized))
    assert path.read_bytes() != whole
    monkeypatch.undo()
    path.write_bytes(whole)
    assert without_paths(tmp_path / "out") == clean


# --- a run of processes ---


@pytest.mark.parametrize("part", ["tokenized/shards", "tokenized/index", "out/.work/rows"])
def test_a_file_that_is_overwritten_under_a_stopped_worker_gets_into_no_dataset(
    tokenized: Path, tmp_path: Path, part: str
) -> None:
    out = tmp_path / "out"
    words = ["pack", str(tokenized), "--seq-len", "100", "--set", "shard_rows=20", "-j", "1"]
    with started([*words, "--out", str(out)]) as process:
        wait_for(lambda: [*out.glob(".work/tasks/*.done")], "nothing was committed")
        (stopped,) = workers_of(process.pid)
        stopped.suspend()
        assert not (out / "manifest.json").exists(), "too late"
        for path in sorted((tmp_path / part).iterdir()):
            overwrite(path)
        stopped.resume()
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (3, 5), errors
    assert "changed" in errors or "is damaged" in errors
    assert "Traceback" not in errors
    assert not (out / "manifest.json").exists()
