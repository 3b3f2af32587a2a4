"""`dataprep clean`: says first, removes what nothing needs, and nothing else, whenever it dies."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.run.clean import UNFINISHED, UNNAMED, clean
from dataprep.pipeline.run.parts import unfinished_parts
from dataprep.pipeline.storage.manifest import read_manifest
from support.grown import grow, replace_part, tokenized
from support.killable import Killed, dying
from support.nights import texts_of, write_config, write_lines

TOKENIZED, PACKED = "out/data/tokenized", "out/data/packed-64"


@pytest.fixture
def config(tmp_path: Path, run_cli: RunCli) -> Path:
    """A run of three nights: three generations, of three parts."""
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"])
    for night in range(3):
        write_lines(tmp_path / f"raw/{night}.jsonl", [f"night {night}, text {i}" for i in range(9)])
        run_cli("run", config, "-q")
    return config


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A dataset whose first part has two later versions, and of which a part was begun."""
    folder = tmp_path / "out"
    grow(folder, tokenized([lines(tmp_path, "a", 9)]))
    grow(folder, tokenized([lines(tmp_path, "b", 5)]))
    replace_part(folder, 0, 1, tokenized([lines(tmp_path, "c", 9)]))
    replace_part(folder, 0, 2, tokenized([lines(tmp_path, "d", 9)]))
    begin(folder / "parts/00002")
    return folder


def lines(home: Path, name: str, count: int) -> Path:
    path = home / f"{name}.jsonl"
    write_lines(path, [f"{name} {i}" for i in range(count)])
    return path


def begin(folder: Path, num_bytes: int = 1000) -> None:
    """Leave what a run that was killed leaves."""
    from dataprep.pipeline.jobs.ownership import make_work

    make_work(folder)
    (folder / ".work/tasks").mkdir()
    (folder / ".work/tasks/000000-1f0c.arrayrecord.tmp").write_bytes(bytes(num_bytes))


def found(run_cli: RunCli, *words: str | Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(run_cli("clean", *words, "--json").stdout)
    return said


def tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def paths(said: dict[str, Any], reason: str, home: Path) -> list[str]:
    items = [item for item in said["leftovers"] if item["reason"] == reason]
    return [str(Path(item["path"]).relative_to(home)) for item in items]


# --- what is found ---


def test_without_a_number_to_keep_only_unfinished_work_is_left_over(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    assert "nothing to clean" in run_cli("clean", tmp_path / "out").stdout
    begin(tmp_path / TOKENIZED / "parts/00003")
    (tmp_path / PACKED / "generations/00003.json").write_text("of a run that was killed")
    said = found(run_cli, tmp_path / "out")
    assert sorted(paths(said, UNFINISHED, tmp_path)) == [
        f"{PACKED}/generations/00003.json",
        f"{TOKENIZED}/parts/00003",
    ]
    assert len(said["leftovers"]) == 2


def test_it_says_first_and_removes_only_when_told(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    begin(tmp_path / TOKENIZED / "parts/00003")
    before = tree(tmp_path / "out")
    said = run_cli("clean", tmp_path / "out", "--keep", "1").stdout
    assert tree(tmp_path / "out") == before
    assert f"next: dataprep clean {tmp_path}/out --keep 1 --go\n" in said
    assert "can be freed; nothing was removed" in said
    freed = found(run_cli, tmp_path / "out", "--keep", "1", "--go")
    after = tree(tmp_path / "out")
    gone = {name: data for name, data in before.items() if name not in after}
    assert freed["was_removed"]
    assert freed["bytes"] == sum(map(len, gone.values())) > 0
    assert after.items() <= before.items()
    assert found(run_cli, tmp_path / "out", "--keep", "1", "--go")["leftovers"] == []
    assert tree(tmp_path / "out") == after


@pytest.mark.parametrize("command", ["clean", "forget"])
def test_buckets_are_refused_by_the_name_that_was_given(
    run_cli: RunCli, tmp_path: Path, command: str
) -> None:
    (tmp_path / "list.txt").write_text("a.jsonl:1\n")
    more = ["--documents", "list.txt"] if command == "forget" else []
    refused = run_cli(command, "s3://bucket/out", *more, check=False)
    assert refused.code == 2
    assert "s3://bucket/out must be a local folder" in refused.stderr


def test_the_newest_generations_are_kept_and_all_of_their_parts(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    said = found(run_cli, tmp_path / "out", "--keep", "2", "--go")
    assert said["leftovers"] == []  # later generations have all parts of earlier ones
    assert len(texts_of(tmp_path / TOKENIZED, generation=0)) < 18
    assert len(texts_of(tmp_path / TOKENIZED, generation=1)) == 18
    for folder in (TOKENIZED, PACKED):
        run_cli("verify", tmp_path / folder)
    why = json.loads(run_cli("run", config, "--why", "--json").stdout)
    assert [step["why"] for step in why] == [[], []]


def test_parts_of_settings_that_were_given_up_go_with_their_generations(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    write_config(config, inputs=["raw/*.jsonl"], prepend_text="> ")
    run_cli("run", config, "-q")
    assert found(run_cli, tmp_path / "out")["leftovers"] == []
    said = found(run_cli, tmp_path / TOKENIZED, "--keep", "1", "--go")
    assert paths(said, UNNAMED, tmp_path / TOKENIZED) == [f"parts/0000{i}" for i in range(3)]
    assert texts_of(tmp_path / TOKENIZED)[0] == "> night 0, text 0"
    gone = run_cli("inspect", tmp_path / TOKENIZED, "--generation", "0", "--doc", "0", check=False)
    assert gone.code == 2
    assert "generation 0" in gone.stderr
    run_cli("verify", tmp_path / TOKENIZED)
    run_cli("run", config, "-q")
    assert read_manifest(tmp_path / TOKENIZED).fingerprint


def test_what_was_forgotten_is_gone_when_only_the_newest_is_kept(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    (tmp_path / "gone.txt").write_text(f"{tmp_path}/raw/1.jsonl:3\n")
    run_cli("forget", tmp_path / "out", "--documents", tmp_path / "gone.txt")
    before = {p.stat().st_ino: p.stat().st_size for p in (tmp_path / "out").rglob("*.*")}
    freed = found(run_cli, tmp_path / "out", "--keep", "1", "--go")
    after = {p.stat().st_ino: p.stat().st_size for p in (tmp_path / "out").rglob("*.*")}
    # Files that the new version of a part is linked to are still there, so they free nothing.
    assert freed["bytes"] == sum(before.values()) - sum(after.values())
    secret = b"night 1, text 2"
    assert not any(secret in data for data in tree(tmp_path / "out").values())
    for folder in (TOKENIZED, PACKED):
        run_cli("verify", tmp_path / folder)
    why = json.loads(run_cli("run", config, "--why", "--json").stdout)
    assert [step["why"] for step in why] == [[], []]


def test_a_dataset_made_at_once_has_its_work_cleaned(run_cli: RunCli, tmp_path: Path) -> None:
    file = lines(tmp_path, "a", 3)
    run_cli("tokenize", file, "--tokenizer", "bytes", "--out", tmp_path / "one")
    before = tree(tmp_path / "one")
    begin(tmp_path / "one")
    assert found(run_cli, tmp_path / "one", "--go")["bytes"] > 1000
    assert tree(tmp_path / "one") == before
    begin(tmp_path / "begun")
    assert found(run_cli, tmp_path / "begun", "--go")["bytes"] > 1000
    assert list((tmp_path / "begun").iterdir()) == []


# --- what is never touched ---


def test_what_is_not_ours_is_left_alone(run_cli: RunCli, tmp_path: Path, config: Path) -> None:
    parts = tmp_path / TOKENIZED / "parts"
    begin(parts / "00003")
    (parts / "00003/notes.txt").write_text("mine")
    (parts / "00004/shards").mkdir(parents=True)
    (parts / "00004/shards/mine.txt").write_text("mine")
    (parts / "readme.txt").write_text("mine")
    (parts / "00005").symlink_to(tmp_path / "raw")
    (tmp_path / TOKENIZED / "generations/notes.json").write_text("mine")
    before = tree(tmp_path)
    said = found(run_cli, tmp_path / "out", "--go")
    assert said["leftovers"] == []
    assert len(said["left_alone"]) == 3
    assert "notes.txt" in said["left_alone"][0]
    assert tree(tmp_path) == before


def test_what_a_part_links_to_is_left_alone(out: Path, tmp_path: Path) -> None:
    """It may be a dataset of dataprep, and needed where it is."""
    elsewhere = Path(shutil.copytree(out / "parts/00001", tmp_path / "elsewhere"))
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    (out / "parts/00009").symlink_to(elsewhere)
    done = clean(out, keep=1, go=True)
    assert "parts/00009 is a link" in "".join(done.kept_back)
    assert before == {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    assert unfinished_parts(out) == []
    (elsewhere / "manifest.json").unlink()  # now it looks begun
    assert unfinished_parts(out) == []


def test_generations_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    files = ["generations/00000.json", "generations/00003.json.tmp", "manifest.json.tmp"]
    for name in (*files, "parts/00000/mine", ".work/mine"):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_text("{}")
    done = clean(tmp_path / "x", keep=1, go=True)
    assert not done.leftovers
    assert sum(name in text for name in files for text in done.kept_back) == 3
    assert (tmp_path / "x/generations/00000.json").read_text() == "{}"


def test_nothing_is_removed_if_a_generation_cannot_be_read(out: Path) -> None:
    before = tree(out)
    file = out / "generations/00002.json"
    file.write_bytes(file.read_bytes().replace(b"parts/00000", b"parts/00009"))
    with pytest.raises(CorruptError):
        clean(out, go=True)
    with pytest.raises(CorruptError):
        clean(out, keep=2, go=True)
    assert tree(out).keys() == before.keys()


@pytest.mark.parametrize("path", ["out", "out/data", TOKENIZED, f"{TOKENIZED}/parts/00003"])
def test_a_run_at_work_is_not_disturbed(
    path: str, run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    begin(tmp_path / TOKENIZED / "parts/00003")
    descriptor = os.open(tmp_path / "out", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        for words in ([], ["--go"]):
            done = run_cli("clean", tmp_path / path, *words, check=False)
            assert (done.code, "another run holds" in done.stderr) == (75, True)
    finally:
        os.close(descriptor)
    assert (tmp_path / TOKENIZED / "parts/00003/.work").exists()


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("")])
def test_what_is_no_dataset_is_an_error(
    make: Callable[[Path], object], run_cli: RunCli, tmp_path: Path
) -> None:
    make(tmp_path / "x")
    done = run_cli("clean", tmp_path / "x", check=False)
    assert (done.code, "name a dataset or the out folder of a run" in done.stderr) == (2, True)
    assert run_cli("clean", tmp_path, "--keep", "0", check=False).code == 2


# --- kills ---


def test_a_kill_at_any_moment_leaves_whole_datasets_and_the_next_call_ends_it(
    out: Path, tmp_path: Path
) -> None:
    expected = tmp_path / "expected"
    shutil.copytree(out, expected)
    clean(expected, keep=1, go=True)
    assert {path.name for path in (expected / "parts").iterdir()} == {"00000-2", "00001"}
    kills = 0
    while True:
        copy = tmp_path / f"copy-{kills}"
        shutil.copytree(out, copy)
        try:
            with dying(kills + 1):
                clean(copy, keep=1, go=True)
        except Killed:
            kills += 1
        else:
            break
        verify(copy)
        assert texts_of(copy) == texts_of(out)
        clean(copy, keep=1, go=True)
        assert tree(copy) == tree(expected)
        assert {p.name for p in copy.rglob("*")} == {p.name for p in expected.rglob("*")}
        shutil.rmtree(copy)
    assert kills > 40
