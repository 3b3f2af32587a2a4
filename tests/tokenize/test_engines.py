"""Which engine a run takes: small jobs never wait for a proof, and the output does not tell."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import PLAIN, RunCli, Sample
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.engine import Selection
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.plans import read_plan
from dataprep.pipeline.tokenize import engines, recipe
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.tokenize.worker import ENGINE
from support.inprocess import write_lines
from support.installed import COMMAND
from support.proofs import keep_proof
from support.toy import write_toy_tokenizer
from support.trees import tree


@pytest.fixture
def corpus(sample: Sample, tmp_path: Path) -> Path:
    """2.1 MB."""
    text = sample.text.read_bytes()
    path = tmp_path / "in.jsonl"
    path.write_bytes(text * (2_100_000 // len(text) + 1))
    return path


def test_a_small_job_takes_a_proof_that_is_there_and_writes_the_same_bytes(
    run_cli: RunCli, sample: Sample, corpus: Path, tmp_path: Path
) -> None:
    def run(out: str, cache: str, *more: str) -> str:
        words = ("tokenize", corpus, "--tokenizer", sample.tokenizer, "--out", out, "--json", *more)
        done = run_cli(*words, env={"DATAPREP_CACHE": str(tmp_path / cache)})
        assert "proving" not in done.stderr
        engine: str = json.loads(done.stdout)["engine"]
        return engine.split()[0]

    keep_proof(tmp_path / "proven", sample.tokenizer)
    assert run("without", "empty") == "tokenizers"
    assert run("with", "proven") == "fastokens"
    assert run("limited", "proven", "--limit", "10") == "tokenizers"
    assert not (tmp_path / "empty" / "engines").exists()
    assert tree(tmp_path / "without") == tree(tmp_path / "with")


@pytest.fixture
def plan(tmp_path: Path) -> TokenizePlan:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "abc"}])
    tokenizer = write_toy_tokenizer(tmp_path / "toy")
    values = {"inputs": [str(path)], "tokenizer": str(tokenizer), "out": str(tmp_path / "out")}
    return recipe.plan_of(TokenizeConfig.model_validate(values), tmp_path / "cache")


@pytest.mark.parametrize(
    ("num_bytes", "limit", "is_known", "does"),
    [
        (1_999_999, -1, True, "reference"),
        (2_000_000, -1, True, "known"),
        (49_999_999, -1, True, "known"),
        (50_000_000, -1, True, "proven"),
        (10**12, 10, True, "reference"),
        (10**12, 1000, True, "known"),
        (10**12, 10**6, True, "proven"),
        (4 << 20, -1, False, "proven"),  # a stream may be of any size
        (4 << 20, 10, False, "reference"),
    ],
)
def test_how_much_there_is_to_read_decides_whether_an_engine_is_proven(
    num_bytes: int,
    limit: int,
    is_known: bool,
    does: str,
    plan: TokenizePlan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def select(*args: Any, proves: bool, **more: Any) -> Selection:
        asked.append(proves)
        return Selection(name="some", version="1")

    monkeypatch.setattr(engines, "select_engine", select)
    sources = (plan.sources[0] if is_known else replace(plan.sources[0], num_bytes=-1),)
    tasks = (replace(plan.tasks[0], num_bytes=num_bytes, limit=limit),)
    sized = replace(plan, sources=sources, tasks=tasks)
    found = engines.choose_engine("auto", sized, tasks, tmp_path, silent)
    assert asked == {"reference": [], "known": [False], "proven": [True]}[does]
    assert (found.name == "tokenizers") == (does == "reference")


@pytest.mark.parametrize(
    ("num_bytes", "values", "workers"),
    [
        (4 << 20, {}, 1),
        (63 << 20, {}, 1),
        (64 << 20, {}, 2),
        (1 << 40, {}, 8),
        (0, {}, 1),
        (4 << 20, {"kind": "parquet"}, 8),
        (4 << 20, {"compression": "zst"}, 8),
        (4 << 20, {"num_bytes": -1}, 8),
    ],
)
def test_no_worker_starts_that_would_work_for_less_time_than_that_takes(
    num_bytes: int,
    values: dict[str, Any],
    workers: int,
    plan: TokenizePlan,
    tmp_path: Path,
) -> None:
    tasks = (replace(plan.tasks[0], num_bytes=num_bytes),)
    sized = replace(plan, sources=(replace(plan.sources[0], **values),), tasks=tasks)
    keep_proof(tmp_path / "cache", tmp_path / "toy")
    files, cache = plan.vocabulary.files, tmp_path / "cache"
    fast = engines.select_engine("fastokens", files, cache_dir=cache)
    assert engines.workers_for(fast, sized, tasks, 8) == workers
    slow = engines.select_engine("tokenizers", files, cache_dir=cache)
    assert engines.workers_for(slow, sized, tasks, 8) == 8


def test_a_continued_run_takes_a_fast_engine_as_soon_as_it_may(
    plan: TokenizePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "TINY_BYTES", 0)
    made, work = recipe.recipe_of(plan.config, tmp_path / "cache"), tmp_path / "work"
    work.mkdir()
    assert made.begin(plan, work, silent).begun["engine"].split()[0] == "tokenizers"
    keep_proof(tmp_path / "cache", tmp_path / "toy")
    slow = recipe.recipe_of(plan.config.model_copy(update={"engine": "tokenizers"}), tmp_path / "c")
    assert slow.begin(plan, work, silent).begun["engine"].split()[0] == "tokenizers"
    assert made.begin(plan, work, silent).begun["engine"].split()[0] == "fastokens"
    assert read_plan(work, Selection, ENGINE).proof is not None
    # It is kept, whatever else there is by then, but for what is asked for.
    monkeypatch.setattr(engines, "TINY_BYTES", 1 << 40)
    assert made.begin(plan, work, silent).begun["engine"].split()[0] == "fastokens"
    assert slow.begin(plan, work, silent).begun["engine"].split()[0] == "tokenizers"


def test_what_is_left_of_a_run_decides_its_engine(
    plan: TokenizePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "TINY_BYTES", 1)
    keep_proof(tmp_path / "cache", tmp_path / "toy")
    cache = tmp_path / "cache"
    assert engines.choose_engine("auto", plan, plan.tasks, cache, silent).name == "fastokens"
    assert engines.choose_engine("auto", plan, [], cache, silent).name == "tokenizers"


def read_until(is_enough: Callable[[bytes], bool], descriptor: int) -> bytes:
    got = b""
    while not is_enough(got):
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # a terminal that nobody writes to any more
            break
        if not part:
            break
        got += part
    return got


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_proof_shows_how_far_it_is_and_can_be_stopped(
    is_terminal: bool, sample: Sample, run_cli: RunCli, tmp_path: Path
) -> None:
    reading, writing = pty.openpty() if is_terminal else os.pipe()
    if is_terminal:
        termios.tcsetwinsize(writing, (24, 80))  # on one of no size there is no bar
    words = ["tokenize", str(sample.text), "--tokenizer", str(sample.tokenizer), "--out", "out"]
    process = subprocess.Popen(
        [*COMMAND, *words, "--engine", "fastokens"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=writing,
        cwd=tmp_path,
        env={**os.environ, **PLAIN, "DATAPREP_CACHE": str(tmp_path / "cache")},
    )
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0):
        sign = b"proving fastokens:" if is_terminal else b"half a minute"
        said = read_until(lambda got: sign in got, reading)
        process.send_signal(signal.SIGINT)
        said += read_until(lambda got: False, reading)
    assert process.wait(60) == 130, said
    assert b"proving that fastokens gives the ids of the reference, once" in said
    assert b"stopped by SIGINT; run the same command again" in said
    assert b"Traceback" not in said
    assert (b"%|" in said) == is_terminal  # no bar off a terminal
    assert not (tmp_path / "cache" / "engines").exists()
    # What was begun is continued, here by another engine.
    run_cli(*words, "--engine", "tokenizers")
    run_cli("verify", "out")
