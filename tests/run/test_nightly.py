"""What cron and people rely on: what is shown, who waits, and what never makes anything anew."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from conftest import PLAIN, RunCli
from dataprep.pipeline.jobs.workspace import locked
from support.forks import ForkServer
from support.installed import wait_for
from support.nights import whole_texts, write_config, write_lines
from support.terminal import on_terminal
from support.trees import tree


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw/a.jsonl", ["one", "two"])
    return write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"])


def test_a_terminal_shows_a_line_for_each_step_a_bar_beneath_it_and_what_there_is_now(
    tmp_path: Path, config: Path
) -> None:
    seen = on_terminal(["run", config], tmp_path, columns=120)
    assert seen.code == 0, seen.text
    shown = [
        *(r"data/tokenized: it is not there yet\n", r"0%\|", r"data/tokenized: generation 0, \d"),
        *(r"data/packed-64: it is not there yet\n", r"0%\|", r"data/packed-64: generation 0, \d"),
        r"step +documents +tokens +rows +padding +on disk +generation +seconds\n",
        r"data/tokenized +2 +10 .* 0 +\d+\.\d\n",
        r"data/packed-64 +2 +10 +1 +84\.62% .* 0 +\d+\.\d\n",  # 55 of 65 tokens
        r"load it:\n",
        rf" +loader = dataprep\.DataLoader\('{tmp_path}/out/data/packed-64', batch_size=8\)\n",
    ]
    text, place = seen.text.replace("\r\n", "\n"), 0
    for wanted in shown:  # one behind the other
        found = re.compile(wanted).search(text, place)
        assert found, (wanted, text)
        place = found.end()


def test_a_run_may_wait_for_another_to_end(
    commands: ForkServer, tmp_path: Path, config: Path
) -> None:
    with locked(tmp_path / "out"):
        run = commands.start(["run", config, "--if-locked", "wait"], env=PLAIN, cwd=tmp_path)
        wait_for(lambda: _waits_for_a_lock(run.pid), "it does not wait for the lock")
        assert not [*(tmp_path / "out").iterdir()]
    assert run.wait().code == 0
    assert whole_texts(tmp_path / "out/data/packed-64") == ["one", "two"]


def _waits_for_a_lock(pid: int) -> bool:
    """Return whether the kernel lists that: `1: -> FLOCK  ADVISORY  WRITE 4711 …`."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any(re.search(rf" -> FLOCK .* {pid} ", line) for line in lines)


def test_how_and_where_a_run_works_makes_nothing_anew(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    run_cli("run", config)
    os.utime(tmp_path / "raw/a.jsonl", (1, 1))
    (tmp_path / "raw").rename(tmp_path / "moved")
    (tmp_path / "etc").mkdir()
    inputs, out = [f"{tmp_path}/moved/a.jsonl"], f"{tmp_path}/out"
    other = write_config(tmp_path / "etc/other.json", inputs=inputs, out=out)
    how = ["--workers", "3", "--executor", "ray", "--log-format", "json", "--verbose"]
    found = json.loads(run_cli("run", other, "--why", "--json", *how).stdout)
    assert {step["step"]: step["why"] for step in found} == {
        "data/tokenized": [],
        "data/packed-64": [],
    }


def test_duplicates_of_two_corpora_do_not_depend_on_workers_or_hash_seed(
    run_cli: RunCli, tmp_path: Path
) -> None:
    rng = random.Random(0)
    corpora = {name: {"inputs": [f"raw/{name}*.jsonl"]} for name in "ab"}
    config = write_config(tmp_path / "c.json", corpora=corpora, dedup="exact", shard_bytes=65536)

    def live(*words: str, env: dict[str, str] | None = None) -> dict[str, bytes]:
        for night in nights:
            for name, texts in night.items():
                write_lines(tmp_path / f"raw/{name}.jsonl", texts)
            run_cli("run", config, *words, env=env)
        found = tree(tmp_path / "out")
        told = json.loads(found.pop("summary.json"))["steps"]
        assert all(step["counts"]["documents_duplicate"] > 300 for step in told[2:])
        shards = [name for name in found if re.search(r"tokenized/parts/00001/shards/", name)]
        assert len(shards) > 2, shards  # several tasks each
        shutil.rmtree(tmp_path / "out")
        shutil.rmtree(tmp_path / "raw")
        return found

    texts = [f"text {number} " + "x" * rng.randint(0, 40) for number in range(4000)]
    nights = [
        {f"{c}{night}{i}": rng.choices(texts, k=1200) for c in "ab" for i in "01"} for night in "12"
    ]
    one = live("--workers", "1")
    assert live("--workers", "2", env={"PYTHONHASHSEED": "7"}) == one
