"""Rows 13, 14, 15, 18, 19, and the work folder: damage is found or redone, never passed on."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import CorruptError, DataprepError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.look.verify import verify
from support.damage import Found, damage_dataset, damage_work, flip_dataset
from support.forks import ForkServer
from support.jobs import Job
from support.losses import record_job
from support.straced import needs_strace
from support.trees import tree

COMMANDS = ("tokenize", "pack", "encode", "export")
STEPS = (
    ("tokenize", "pack"),
    ("tokenize", "export"),
    ("encode", "tokenize"),
    ("export", "tokenize"),
)


def following_of(step: str, made: Path, then: str) -> list[str | Path]:
    """The command that reads what another made."""
    ids = ("--pretokenized", "tokens", "--set", "pretokenized.loss_mask=loss_mask")
    words: dict[tuple[str, str], tuple[str, ...]] = {
        ("tokenize", "pack"): ("--seq-len", "128"),
        ("tokenize", "export"): ("--to", "datatrove"),
        ("encode", "tokenize"): ("--tokenizer", "bytes", "--fields", "text,[vision]"),
        ("export", "tokenize"): ("--tokenizer", "bytes", *ids),
    }
    return [then, made, *words[step, then]]


@pytest.fixture
def copied(small_jobs: Mapping[str, Job], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(small_jobs[name].folder, tmp_path / name))


@pytest.mark.parametrize("name", COMMANDS)
def test_14_damage_of_any_file_is_found(
    small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen = Found()
    copy = tmp_path / "copy"
    damage_dataset(small_jobs[name].folder, copy, times=1, rng=random.Random(0), seen=seen)
    assert seen.missed == []
    assert seen.found >= 20


@pytest.mark.parametrize("name", COMMANDS)
def test_14_every_flipped_bit_is_found(
    small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen = Found()
    copy = tmp_path / "copy"
    flip_dataset(small_jobs[name].folder, copy, flips=110, rng=random.Random(1), seen=seen)
    assert seen.missed == []
    assert seen.found == 110


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_14_ten_thousand_flipped_bits_are_found(
    small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen = Found()
    copy = tmp_path / "copy"
    flip_dataset(small_jobs[name].folder, copy, flips=3400, rng=random.Random(2), seen=seen)
    assert seen.missed == []


@pytest.mark.parametrize("name", ["tokenize", "pack"])
def test_13_a_shard_cut_at_any_page_is_refused_when_it_is_opened(
    copied: Callable[[str], Path], name: str
) -> None:
    copy = copied(name)
    shard = next((copy / "shards").iterdir())
    whole = shard.read_bytes()
    open_dataset(copy)  # the control
    for size in range(0, len(whole), 4096):
        shard.write_bytes(whole[:size])
        with pytest.raises(CorruptError, match=shard.name):
            open_dataset(copy)


@pytest.mark.parametrize("name", COMMANDS)
def test_15_swapped_and_replaced_shards_are_found(copied: Callable[[str], Path], name: str) -> None:
    copy = copied(name)
    first, second = sorted((copy / "shards").iterdir())[:2]
    first.rename(copy / "x")
    second.rename(first)
    (copy / "x").rename(second)
    with pytest.raises(CorruptError, match=f"{first.stem}|{second.stem}"):
        verify(copy)


@pytest.mark.parametrize("place", ["shards", "index", "provenance", ""])
def test_15_a_foreign_file_is_found(copied: Callable[[str], Path], place: str) -> None:
    for name in COMMANDS:
        copy = copied(name)
        if not (copy / place).is_dir() or not place:
            continue
        some = next((copy / place).iterdir())
        shutil.copy(some, copy / place / f"another{some.suffix}")
        with pytest.raises(CorruptError, match="another"):
            verify(copy)


@pytest.mark.parametrize(("step", "then"), STEPS)
def test_14_damage_does_not_go_on_into_the_next_step(
    server: ForkServer,
    small_jobs: Mapping[str, Job],
    copied: Callable[[str], Path],
    tmp_path: Path,
    step: str,
    then: str,
) -> None:
    """A flipped bit of what pack, export or tokenize reads: exit 5 (or 3), or the same bytes."""
    rng = random.Random(3)
    copy = copied(step)
    following = following_of(step, copy, then)
    clean = tmp_path / "clean"
    server.check([*following, "--out", clean])
    expected = tree(clean)
    files = sorted(p for folder in ("shards", "index") for p in copy.glob(f"{folder}/*"))
    ends, wrong = [], []
    for number in range(16):
        path = files[number % len(files)]
        whole = path.read_bytes()
        place = rng.randrange(len(whole) * 8)
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        ended = server.run([*following, "--out", tmp_path / f"out-{number}"])
        ends.append(ended.code)
        if ended.code == 0 and tree(tmp_path / f"out-{number}") != expected:
            wrong.append(f"bit {place} of {path.name}: other bytes")
        elif not ended.is_clean or ended.code not in (0, 3, 5):
            wrong.append(f"bit {place} of {path.name}: exit {ended.code}: {ended.stderr[-200:]}")
        path.write_bytes(whole)
    assert wrong == []
    assert 5 in ends or 3 in ends


@pytest.mark.parametrize(("step", "then"), STEPS)
@pytest.mark.parametrize("change", ["deleted", "copied"])
def test_15_a_missing_or_extra_shard_does_not_change_the_next_step(
    server: ForkServer,
    copied: Callable[[str], Path],
    tmp_path: Path,
    step: str,
    then: str,
    change: str,
) -> None:
    copy = copied(step)
    shard = sorted((copy / "shards").iterdir())[0]
    if change == "deleted":
        shard.unlink()
    else:
        shutil.copy(shard, shard.with_name(f"a{shard.name}"))
    following = following_of(step, copy, then)
    ended = server.run([*following, "--out", tmp_path / "out"])
    assert ended.code in (3, 5) or (change, step) == ("copied", "tokenize"), ended.stderr
    assert ended.is_clean, ended.stderr


def changed(copy: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    change(manifest)
    manifest.pop("checksum", None)
    whole = {**manifest, "checksum": fingerprint(manifest)}
    (copy / "manifest.json").write_text(json.dumps(whole), "utf-8")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "{}", '{"kind": "packed"}', "\0" * 50, "[" * 100_000]
)
def test_18_a_damaged_manifest_is_corrupt(
    copied: Callable[[str], Path], name: str, text: str
) -> None:
    copy = copied(name)
    (copy / "manifest.json").write_text(text, "utf-8")
    for read in (verify, open_dataset):
        with pytest.raises(CorruptError):
            read(copy)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("version", [0, 99, True, "1", None, 1.5])
def test_18_another_format_version_is_refused(
    copied: Callable[[str], Path], name: str, version: Any
) -> None:
    copy = copied(name)
    changed(copy, lambda m: m.update(format_version=version))
    for read in (verify, open_dataset):
        with pytest.raises(CorruptError):
            read(copy)


def test_18_a_dataset_without_a_manifest_is_unfinished(
    server: ForkServer, copied: Callable[[str], Path]
) -> None:
    copy = copied("pack")
    (copy / "manifest.json").unlink()
    ended = server.run(["verify", copy])
    assert ended.code == 5
    assert "manifest.json" in ended.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "shards/../../x", "", ".", "a\\..\\b"])
def test_19_a_path_out_of_the_dataset_is_refused(
    copied: Callable[[str], Path], name: str, path: str
) -> None:
    copy = copied(name)
    changed(copy, lambda m: m["shards"][0].update(path=path))
    for read in (verify, open_dataset):
        with pytest.raises(CorruptError):
            read(copy)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("what", ["shard", "folder"])
def test_19_a_link_out_of_the_dataset_is_refused(
    copied: Callable[[str], Path], tmp_path: Path, name: str, what: str
) -> None:
    copy = copied(name)
    target = copy / "shards" if what == "folder" else next((copy / "shards").iterdir())
    outside = tmp_path / "outside"
    shutil.move(target, outside)
    os.symlink(outside, target)
    with pytest.raises(CorruptError):
        verify(copy)


@needs_strace
@pytest.mark.parametrize("name", COMMANDS)
def test_14_damage_of_an_unfinished_run_is_redone_or_refused(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen, job = Found(), small_jobs[name]
    calls = record_job(job, tmp_path / "recorded")
    rng = random.Random(4)
    damage_work(server, job, calls, tmp_path, most=20, rng=rng, seen=seen)
    assert seen.missed == []
    assert seen.found + seen.redone >= 10


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_14_any_damage_of_an_unfinished_run_is_redone_or_refused(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    seen, job = Found(), small_jobs[name]
    calls = record_job(job, tmp_path / "recorded")
    rng = random.Random(5)
    for turn in range(3):
        damage_work(server, job, calls, tmp_path / str(turn), most=None, rng=rng, seen=seen)
    assert seen.missed == []


def test_14_a_damaged_dataset_is_not_nothing_to_do(
    server: ForkServer, small_jobs: Mapping[str, Job], copied: Callable[[str], Path]
) -> None:
    """The same command on a finished dataset looks at its files, if not at every byte."""
    copy = copied("pack")
    shard = next((copy / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1])
    ended = server.run(small_jobs["pack"].command(copy, 1))
    assert ended.code == 5
    assert shard.name in ended.stderr
    with pytest.raises(DataprepError):
        open_dataset(copy)
