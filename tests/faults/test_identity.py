"""Rows 35 to 44: what changed is a conflict, what must not matter does not, no code from data."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import RunCli, Sample
from support.forks import ForkServer
from support.inprocess import write_lines
from support.installed import python_path, started, wait_for
from support.jobs import Job, wait_for_work
from support.modules import FOLDERS, modules_of
from support.trees import tree

COMMANDS = ("tokenize", "pack", "encode", "export")


def names_in(path: Path) -> set[str]:
    """Every name, attribute, argument and imported module of a file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Import(names=names):
                found |= {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.split(".")[0])
    return found


PRODUCT = [path for folder in FOLDERS for path in modules_of(folder).values()]


def test_35_no_code_from_data_is_ever_asked_for() -> None:
    assert len(PRODUCT) > 100
    for path in PRODUCT:
        # A tape makes a function of names alone, and checks that it does.
        allowed = {"exec"} if path.name == "tape.py" else set()
        found = names_in(path) & {"trust_remote_code", "eval", "exec", "marshal", "shelve"}
        assert not found - allowed, path


def test_35_the_control_finds_such_names(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import marshal\nload(trust_remote_code=True)\neval('1')\n")
    assert {"trust_remote_code", "marshal", "eval"} <= names_in(tmp_path / "a.py")


@pytest.mark.parametrize("is_finished", [False, True])
def test_37_a_changed_tokenizer_is_a_conflict_that_shows_both_hashes(
    server: ForkServer, sample: Sample, tmp_path: Path, is_finished: bool
) -> None:
    folder, out = tmp_path / "tokenizer", tmp_path / "out"
    shutil.copytree(sample.tokenizer.parent, folder)
    for part in range(20):
        write_lines(tmp_path / f"in-{part}.jsonl", [{"text": f"a {i} " * 9} for i in range(1500)])
    words = ["tokenize", tmp_path / "in-*.jsonl", "--tokenizer", folder, "--out", out]
    words += ["--engine", "tokenizers", "--shard-bytes", "65536", "--workers", "1"]
    run = server.start(words)
    if is_finished:
        assert run.wait().code == 0
    else:
        # Before the first commit there is nothing to lose, and a correction may go on.
        wait_for(lambda: list(out.glob(".work/tasks/*.done")), "it did not commit")
        assert run.kill().was_killed
    before = tree(out)
    model = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    model["added_tokens"][0]["special"] = not model["added_tokens"][0]["special"]
    (folder / "tokenizer.json").write_text(json.dumps(model), "utf-8")
    ended = server.run(words)
    assert ended.code == 4, ended.stderr
    assert ended.stderr.count("sha256") >= 1
    assert " -> " in ended.stderr
    assert tree(out) == before


# By command and flag: what the error must name.
CHANGES = {
    ("tokenize", "--fields=text,text"): "fields",
    ("tokenize", "--no-add-bos"): "add_bos",
    ("tokenize", "--shard-bytes=70000"): "shard_bytes",
    ("tokenize", "--limit=50"): "limit",
    ("pack", "--seq-len=127"): "seq_len",
    ("pack", "--seed=1"): "seed",
    ("pack", "--strategy=first_fit"): "strategy",
    ("pack", "--shard-rows=90"): "shard_rows",
    ("export", "--to=megatron"): "to",
    ("export", "--shard-bytes=70000"): "shard_bytes",
    ("encode", "--shard-records=5"): "shard_records",
    ("encode", "--set=settings.size=64"): "size",
    ("encode", "--into=codes"): "into",
    ("encode", "--resize=nearest"): "resize",
    ("encode", "--set=augment.flip=0.5"): "augment",
    ("encode", "--limit=7"): "limit",
}


@pytest.mark.parametrize(("name", "change"), CHANGES)
@pytest.mark.parametrize("is_finished", [False, True])
def test_38_a_changed_config_is_a_conflict(
    server: ForkServer,
    jobs: Mapping[str, Job],
    tmp_path: Path,
    name: str,
    change: str,
    is_finished: bool,
) -> None:
    job, out = jobs[name], tmp_path / "out"
    if is_finished:
        shutil.copytree(job.folder, out)
    else:
        run = server.start(job.command(out, 1))
        # Before the first commit there is nothing to lose, and a correction may go on.
        wait_for(lambda: list(out.glob(".work/tasks/*.done")), "it did not commit")
        assert run.kill().was_killed
    before = tree(out)
    ended = server.run(job.command(out, 1, change))
    assert ended.code == 4, ended.stderr
    assert CHANGES[name, change] in ended.stderr
    assert tree(out) == before
    assert server.run(job.command(out, 1)).code == 0  # the control: the old config goes on
    assert job.verdict(out) == "equal"


@pytest.mark.parametrize("change", ["appended", "edited", "removed", "added"])
def test_39_a_changed_input_is_a_conflict(server: ForkServer, tmp_path: Path, change: str) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in ("a", "b"):
        write_lines(folder / f"{name}.jsonl", [{"text": f"{name} {i}"} for i in range(50)])
    words = ["tokenize", folder, "--tokenizer", "bytes", "--out", out]
    server.check(words)
    before = tree(out)
    path = folder / "a.jsonl"
    if change == "appended":
        path.write_text(path.read_text() + '{"text": "new"}\n')
    elif change == "edited":
        path.write_text(path.read_text().replace("a 7", "A 7"))
    elif change == "removed":
        path.unlink()
    else:
        write_lines(folder / "c.jsonl", [{"text": "c"}])
    ended = server.run(words)
    assert ended.code == 4, ended.stderr
    assert tree(out) == before


@pytest.mark.parametrize("name", ["tokenize", "encode"])
def test_40_an_input_that_changes_while_it_is_read_ends_the_run(
    server: ForkServer, tmp_path: Path, name: str
) -> None:
    """The writer waits until the run has planned, and is done before it ends."""
    path, out = tmp_path / "in.jsonl", tmp_path / "out"
    if name == "tokenize":
        write_lines(path, [{"text": f"line {i} " * 40} for i in range(20_000)])
        words = ["tokenize", path, "--tokenizer", "bytes", "--shard-bytes", "65536"]
    else:
        from support.jobs import write_table

        path = write_table(tmp_path, 150)
        words = ["encode", path, "--encoder", "patches", "--shard-records", "8"]
    run = server.start([*words, "--out", out])
    wait_for(lambda: list(out.glob(".work/tasks/*.done")), "nothing was committed")
    with open(path, "ab") as file:
        file.write(b'{"text": "late", "image": ""}\n')
    changed_in_time = not (out / "manifest.json").exists()
    ended = run.wait()
    assert changed_in_time, "the run ended before the change"
    assert ended.code == 3, ended.stderr
    assert str(path) in ended.stderr
    assert not (out / "manifest.json").exists()


def test_41_a_second_run_exits_75_at_once(
    server: ForkServer, jobs: Mapping[str, Job], run_cli: RunCli, tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    run = server.start(job.command(out, 1))
    wait_for_work(run, out)
    os.kill(run.pid, signal.SIGSTOP)  # it holds the lock for as long as it takes
    second = run_cli(*job.command(out, 1), check=False)  # would wait for ever
    assert second.code == 75
    assert str(out) in second.stderr
    os.kill(run.pid, signal.SIGCONT)
    assert run.wait().code == 0
    assert job.verdict(out) == "equal"


CLOCK = """
import time
back = 400 * 24 * 3600
now, now_ns = time.time, time.time_ns
time.time = lambda: now() - back
time.time_ns = lambda: now_ns() - back * 10**9
with open({log!r}, "a") as file:
    file.write("set back\\n")
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_43_the_clock_and_the_time_zone_do_not_matter(
    run_cli: RunCli, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    job, out, hook = small_jobs[name], tmp_path / "out", tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(CLOCK.format(log=str(hook / "fired")))
    environment = {"PYTHONPATH": python_path(hook), "TZ": "Pacific/Chatham"}
    # Killed under one clock, finished under another.
    with started(job.command(out, 1), env=environment) as process:
        wait_for(lambda: (out / ".work" / "plan.json").exists(), "it did not begin")
        process.kill()
    assert (hook / "fired").exists()
    run_cli(*job.command(out, 2), env={"TZ": "America/Sao_Paulo"})
    assert job.verdict(out) == "equal"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("seed", "locale", "workers"), [("1", "C", 1), ("424242", "tr_TR.UTF-8", 3)]
)
def test_44_locale_hash_seed_and_workers_do_not_matter(
    run_cli: RunCli,
    small_jobs: Mapping[str, Job],
    tmp_path: Path,
    name: str,
    seed: str,
    locale: str,
    workers: int,
) -> None:
    job, out = small_jobs[name], tmp_path / "out"
    environment = {"PYTHONHASHSEED": seed, "LC_ALL": locale, "LANG": locale}
    run_cli(*job.command(out, workers), env=environment)
    assert job.verdict(out) == "equal"
