"""No row is made of a damaged file, and no file is read twice to know it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.jobs.executors import EXECUTORS, run_local
from dataprep.pipeline.pack import inputs, pack, pack_plan_of, worker
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.inputs import FileChecks
from dataprep.pipeline.pack.plan import ROW_ARRAYS
from dataprep.pipeline.storage.entries import DocumentShard, FileEntry
from dataprep.pipeline.storage.kinds import AnyFile
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from support.datasets import make_all, pack_here
from support.here import make_here
from support.installed import python_path
from support.manifests import edit_manifest
from support.trees import tree


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_all(tmp_path_factory.mktemp("made"))["tokenized"]


@pytest.fixture
def tokenized(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "tokenized"))


def shard_of(folder: Path) -> DocumentShard:
    manifest = read_manifest(folder)
    assert isinstance(manifest, TokenizedManifest)
    return manifest.shards[1]


def flip(path: Path, rng: random.Random) -> bytes:
    """Flip a bit; return the bytes as they were."""
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(flipped)
    return data


def change(path: Path, how: str) -> None:
    if how == "replaced":
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        os.replace(copy, path)
    elif how == "removed":
        path.unlink()
    else:
        flip(path, random.Random(0))


@pytest.mark.parametrize("part", ["shards", "index"])
def test_no_flipped_bit_gets_into_a_row(tokenized: Path, tmp_path: Path, part: str) -> None:
    rng = random.Random(part)
    for i in range(40):
        path = rng.choice(sorted((tokenized / part).iterdir()))
        data = flip(path, rng)
        with pytest.raises(CorruptError, match=path.name):
            pack_here(tmp_path / f"out-{i}", tokenized, seq_len=100)
        path.write_bytes(data)
    pack_here(tmp_path / "out", tokenized, seq_len=100)


@pytest.mark.parametrize("part", ["shards", "index"])
def test_a_damaged_input_ends_pack_with_5(
    run_cli: RunCli, tokenized: Path, tmp_path: Path, part: str
) -> None:
    path = max((tokenized / part).iterdir())
    whole = flip(path, random.Random(0))
    words = ("pack", tokenized, "--seq-len", "100", "--out", tmp_path / "out", "--workers", "2")
    done = run_cli(*words, check=False)
    assert done.code == 5
    assert f"{path} is damaged" in done.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()
    # The file is put back, and the run goes on to the same bytes as one without the fault.
    path.write_bytes(whole)
    run_cli(*words)
    pack_here(tmp_path / "clean", tokenized, seq_len=100)
    found, clean = tree(tmp_path / "out"), tree(tmp_path / "clean")
    assert found.keys() == clean.keys()
    shards = [name for name in found if name.startswith("shards/")]
    assert shards
    assert all(found[name] == clean[name] for name in shards)


@pytest.mark.parametrize("part", ["shards", "index"])
def test_a_link_or_a_missing_file_is_no_input(tokenized: Path, tmp_path: Path, part: str) -> None:
    path = min((tokenized / part).iterdir())
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(CorruptError, match=rf"{path.name} is missing"):
        pack_here(tmp_path / "a", tokenized, seq_len=100)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CorruptError, match=rf"{path.name} is or lies behind a link"):
        pack_here(tmp_path / "b", tokenized, seq_len=100)


def test_a_plan_alone_checks_what_it_reads(tokenized: Path) -> None:
    flip(min((tokenized / "index").iterdir()), random.Random(0))
    with pytest.raises(CorruptError, match="is damaged"):
        pack_plan_of(PackConfig(inputs=(str(tokenized),), seq_len=100))


def test_record_sizes_that_are_not_those_of_the_file_are_found(
    tokenized: Path, tmp_path: Path
) -> None:
    """The sum still fits, so that only the records themselves can tell."""

    def change(values: dict[str, object]) -> None:
        (shard, *_) = values["shards"]  # type: ignore[misc]
        shard["record_bytes"][0] -= 8  # type: ignore[has-type]

    edit_manifest(tokenized, change)
    with pytest.raises(CorruptError, match="does not hold the records that its manifest lists"):
        pack_here(tmp_path / "out", tokenized, seq_len=100)


# --- once ---


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were hashed, in order."""
    paths: list[str] = []
    check_file = inputs.check_file

    def count(folder: Path, entry: AnyFile) -> None:
        time.sleep(0.05)  # so that others come to wait
        paths.append(entry.path)
        check_file(folder, entry)

    monkeypatch.setattr(inputs, "check_file", count)
    return paths


def test_many_readers_hash_a_file_once(tokenized: Path, tmp_path: Path, hashed: list[str]) -> None:
    shard = shard_of(tokenized)
    readers = [FileChecks(tmp_path / "marks") for _ in range(4)]
    threads = [
        threading.Thread(target=reader.check, args=(tokenized, entry))
        for reader in readers
        for entry in (shard, shard.index, shard)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(hashed) == sorted((shard.path, shard.index.path))


def test_a_run_hashes_every_file_once(tokenized: Path, tmp_path: Path, hashed: list[str]) -> None:
    """The parent plans, then a worker reads; they are the same process here, but not one object."""
    pack_here(tmp_path / "out", tokenized, seq_len=100)
    manifest = read_manifest(tokenized)
    wanted = [entry.path for s in manifest.shards for entry in (s, s.index)]  # type: ignore[union-attr]
    plan = [f"rows/00000-{name}.npy" for name in ROW_ARRAYS]
    assert sorted(hashed) == sorted([*wanted, *plan])


def test_a_damaged_file_is_not_marked(tokenized: Path, tmp_path: Path, hashed: list[str]) -> None:
    shard = shard_of(tokenized)
    flip(tokenized / shard.path, random.Random(0))
    for _ in range(2):
        with pytest.raises(CorruptError, match="is damaged"):
            FileChecks(tmp_path / "marks").check(tokenized, shard)
    assert len(hashed) == 2


def test_a_file_that_changed_since_it_was_marked_is_hashed_again(
    tokenized: Path, tmp_path: Path, hashed: list[str]
) -> None:
    shard = shard_of(tokenized)
    path = tokenized / shard.path
    FileChecks(tmp_path / "marks").check(tokenized, shard)
    before = path.stat()
    flip(path, random.Random(0))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if nothing had happened
    with pytest.raises(CorruptError, match="is damaged"):
        FileChecks(tmp_path / "marks").check(tokenized, shard)
    assert len(hashed) == 2


@pytest.mark.parametrize("content", [b"", b"x", b"\xff\xfe", b"0" * 100])
def test_a_mark_that_is_damaged_proves_nothing(
    tokenized: Path, tmp_path: Path, hashed: list[str], content: bytes
) -> None:
    entry: FileEntry = shard_of(tokenized).index
    FileChecks(tmp_path / "marks").check(tokenized, entry)
    (mark,) = (tmp_path / "marks").iterdir()
    whole = mark.read_bytes()
    mark.write_bytes(content)
    FileChecks(tmp_path / "marks").check(tokenized, entry)
    assert len(hashed) == 2
    assert mark.read_bytes() == whole


# --- inputs that come and go ---


def test_a_dataset_that_was_made_again_meanwhile_is_noticed(tokenized: Path) -> None:
    corpus = Corpus([tokenized])
    assert corpus.changed() == ""
    edit_manifest(tokenized, lambda values: values["config"].update(workers=3))
    assert corpus.changed() == str(tokenized)
    (tokenized / "manifest.json").unlink()
    assert corpus.changed() == str(tokenized)


def test_an_output_that_is_being_written_cannot_be_packed(run_cli: RunCli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("tokenize", "synthetic:text?n=2000000", "--tokenizer", "bytes", "--out", str(out))
    running = subprocess.Popen(
        [sys.executable, "-m", "dataprep.cli.main", *words],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not any(out.glob(".work/tasks/*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGSTOP)  # so that it is still running when asked
        assert running.poll() is None
        for asked in (("verify", out), ("pack", out, "--seq-len", "8", "--out", tmp_path / "p")):
            done = run_cli(*asked, check=False)
            assert done.code == 5
            assert f"{out} is unfinished" in done.stderr
        assert not (tmp_path / "p").exists()
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@pytest.mark.parametrize("part", ["shards", "index"])
@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
def test_a_file_that_changes_after_it_was_checked_gets_into_no_row(
    tokenized: Path, tmp_path: Path, part: str, how: str
) -> None:
    path = max((tokenized / part).iterdir())
    whole = path.read_bytes()
    build, out = worker.build_rows, tmp_path / "out"
    changes = [path]

    def build_late(*args: Any, **options: Any) -> Any:
        rows = build(*args, **options)  # of all shards, in one batch
        while changes:
            change(changes.pop(), how)
        return rows

    values = {"inputs": [str(tokenized)], "seq_len": 100, "shard_rows": 60}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "build_rows", build_late)
        with pytest.raises(InputError, match=rf"{path.name} changed while it was read"):
            make_here("pack", out, values)
    assert not list((out / ".work" / "tasks").glob("*.done"))
    path.write_bytes(whole)
    make_here("pack", out, values)
    make_here("pack", tmp_path / "clean", values)
    assert tree(out) == tree(tmp_path / "clean")


def test_a_file_that_changes_while_rows_are_planned_gets_into_no_plan(
    tokenized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = Corpus.lengths

    def change_afterwards(self: Corpus, shard: int) -> Any:
        found = lengths(self, shard)
        if shard == self.num_shards - 1:
            flip(min((tokenized / "index").iterdir()), random.Random(0))
        return found

    monkeypatch.setattr(Corpus, "lengths", change_afterwards)
    with pytest.raises(InputError, match="changed while it was read"):
        make_here("pack", tmp_path / "out", {"inputs": [str(tokenized)], "seq_len": 100})
    assert not (tmp_path / "out" / ".work" / "plan.json").exists()


@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
def test_a_plan_that_changes_while_rows_are_made_gets_into_no_row(
    tokenized: Path, tmp_path: Path, how: str
) -> None:
    build, out = worker.build_rows, tmp_path / "out"
    path = out / ".work" / "rows" / "00000-start.npy"
    changes = [path]

    def build_late(*args: Any, **options: Any) -> Any:
        while changes:
            change(changes.pop(), how)
        return build(*args, **options)

    values = {"inputs": [str(tokenized)], "seq_len": 100, "shard_rows": 60}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "build_rows", build_late)
        with pytest.raises(CorruptError, match=rf"{path.name} was lost or changed"):
            make_here("pack", out, values)
    assert not changes
    assert not list((out / ".work" / "tasks").glob("*.done"))
    make_here("pack", out, values)
    make_here("pack", tmp_path / "clean", values)
    assert tree(out) == tree(tmp_path / "clean")


CHANGES = {
    "emptied": lambda path: os.truncate(path, 0),
    "an archive": lambda path: path.write_bytes(b"PK" + path.read_bytes()[2:]),
    "cut": lambda path: os.truncate(path, 40),
    "other numbers": lambda path: path.write_bytes(path.read_bytes()[:128] + b"\xff" * 4096),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", ROW_ARRAYS)
@pytest.mark.parametrize("how", CHANGES)
def test_a_plan_that_changes_between_two_tasks_is_named(
    made: Path, tmp_path: Path, how: str, name: str
) -> None:
    out = tmp_path / "out"
    path = out / ".work" / "rows" / f"00000-{name}.npy"
    values = {"inputs": [str(made)], "seq_len": 100, "shard_rows": 60}
    changes = [path]

    def change_once(work: Path) -> None:
        while changes:
            CHANGES[how](changes.pop())

    with pytest.raises(CorruptError, match=rf"{path.name} was lost or changed"):
        make_here("pack", out, values, after_job=change_once)
    assert not changes
    assert len(list((out / ".work" / "tasks").glob("*.done"))) == 1


CUTTING = """
import os
from pathlib import Path
from dataprep.pipeline.pack import worker

build, file, fired = worker.build_rows, Path({file!r}), Path({fired!r})

def build_and_cut(*args, **options):
    rows = build(*args, **options)  # from here on the file is mapped
    if not fired.exists():
        fired.write_text("cut")
        os.truncate(file, 0)
        build(*args, **options)
        fired.write_text("survived")
    return rows

worker.build_rows = build_and_cut
begin = worker.begin
"""


@pytest.mark.parametrize("part", ["shards", "index"])
def test_a_file_that_is_cut_short_under_a_worker_is_named(
    tokenized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The worker dies of it, and the one after it finds out why."""
    file, fired = max((tokenized / part).iterdir()), tmp_path / "fired"
    (tmp_path / "cutting.py").write_text(CUTTING.format(file=str(file), fired=str(fired)))

    def run_cutting(jobs: Any, **options: Any) -> None:
        path = {"PYTHONPATH": python_path(tmp_path)}
        environment = {**options["environment"], **path}
        run_local(jobs, **{**options, "worker": "cutting", "environment": environment})

    monkeypatch.setitem(EXECUTORS, "local", run_cutting)
    config = PackConfig(inputs=[str(tokenized)], seq_len=100, out=str(tmp_path / "out"), workers=1)
    with pytest.raises(CorruptError, match=rf"{file.name} has 0 bytes, the manifest says"):
        pack(config)
    assert fired.read_text() == "cut"
    assert not (tmp_path / "out" / "manifest.json").exists()


PLANNING = """
import os, sys
from dataprep.cli.main import main
from dataprep.pipeline.pack import blocks

find = blocks.find_blocks

def find_and_cut(*args):
    find(*args)  # from here on the files are open
    os.truncate({file!r}, 0)
    return find(*args)

blocks.find_blocks = find_and_cut
sys.argv = ["dataprep", "pack", {tokenized!r}, "--seq-len", "100", "--out", {out!r}]
main()
"""


@pytest.mark.parametrize("part", ["shards", "index"])
def test_a_file_that_is_cut_short_while_blocks_are_planned_ends_pack_with_5(
    tokenized: Path, tmp_path: Path, part: str
) -> None:
    """The parent reads it; a map of it would end the process with SIGBUS."""
    file = max((tokenized / part).iterdir())
    names = {"file": str(file), "tokenized": str(tokenized), "out": str(tmp_path / "out")}
    ended = subprocess.run(
        [sys.executable, "-c", PLANNING.format(**names)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 5, ended.stderr
    assert file.name in ended.stderr
    assert "Traceback" not in ended.stderr
