"""What a person sees: commands whose streams are a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import RunCli
from dataprep.pipeline.jobs.progress import ProgressMessage, Reporter
from support.terminal import on_terminal, telling_often

KEYS = set(ProgressMessage.__annotations__)


def test_every_progress_message_has_every_key() -> None:
    sent: list[dict[str, object]] = []
    report = Reporter(3, lambda message: sent.append(dict(message)))
    report.count(documents=2, tokens=7, num_bytes=40, errors=1, examples=[(0, 1, "bad")])
    report.flush()
    report.flush()  # nothing is new: the end of a task whose last batch was reported
    assert [set(message) for message in sent] == [KEYS, KEYS]
    assert [(m["documents"], m["num_bytes"], m["task_errors"]) for m in sent] == [
        (2, 40, 1),
        (0, 0, 1),
    ]


@pytest.fixture
def often(tmp_path: Path) -> dict[str, str]:
    return telling_often(tmp_path / "often")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Files that are tasks of their own."""
    folder = tmp_path / "texts"
    folder.mkdir()
    line = f'{{"text": "{"word " * 200}"}}\n'
    for name in "abc":
        (folder / f"{name}.jsonl").write_text(line * 4500)
    return folder


def test_runs_of_several_tasks_have_a_bar_to_their_end(
    run_installed: RunCli, texts: Path, often: dict[str, str], tmp_path: Path
) -> None:
    words = ["tokenize", texts, "--tokenizer", "bytes", "--out", "tokenized", "-j", "2"]
    seen = on_terminal(words, tmp_path, env=often)
    assert seen.code == 0, seen.text
    assert "Traceback" not in seen.text
    assert re.search(r"in [3-9] tasks", seen.text)
    assert re.search(r"\d%\|.*docs", seen.text)  # a bar
    words = ["pack", "tokenized", "--seq-len", "1024", "--shard-rows", "2000", "--out", "packed"]
    seen = on_terminal(words, tmp_path, env=often)
    assert seen.code == 0, seen.text
    assert re.search(r"in [2-9] tasks", seen.text)
    assert re.search(r"\d%\|.*rows", seen.text)
    run_installed("verify", "packed")


def test_an_encode_of_several_tasks_has_a_bar_to_its_end(
    often: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for i in range(12):
        picture = np.full((32, 32, 3), i, np.uint8)
        Image.fromarray(picture).save(tmp_path / "in" / f"{i}.png")
    words = ["encode", "in", "--encoder", "patches", "--out", "out", "--shard-records", "4"]
    seen = on_terminal(words, tmp_path, env=often)
    assert seen.code == 0, seen.text
    assert "in 3 tasks" in seen.text
    assert re.search(r"\d%\|.*docs", seen.text)


def test_bars_and_histograms_fit_a_narrow_terminal(
    run_installed: RunCli, texts: Path, often: dict[str, str], tmp_path: Path
) -> None:
    words = ["tokenize", texts, "--tokenizer", "bytes", "--out", "tokenized", "--limit", "9000"]
    seen = on_terminal(words, tmp_path, env=often, columns=50)
    assert seen.code == 0, seen.text
    bars = re.findall(r"\d+%, [^\r\n]*", seen.text)
    assert any("docs" in bar and "Mtok" in bar for bar in bars)  # to its end, not cut
    shown = on_terminal(["stats", "tokenized"], tmp_path, columns=50).text
    lines = [line for line in shown.splitlines() if "\u2588" in line]
    assert lines
    assert max(map(len, lines)) <= 50


@pytest.mark.parametrize("columns", [60, 120])
def test_long_and_wide_values_leave_the_columns_of_a_table_in_line(
    run_installed: RunCli, tmp_path: Path, columns: int
) -> None:
    values = ["en", "\u6f22\u5b57", "a" * 57, "b" * 200]
    records = [json.dumps({"text": "x", "lang": value}) for value in values]
    (tmp_path / f"{'c' * 70}.jsonl").write_text("\n".join(records))
    name = f"{'c' * 70}.jsonl"
    run_installed("tokenize", name, "--tokenizer", "bytes", "--out", "t")
    shown = on_terminal(["stats", "t", "--by", "lang", "-q"], tmp_path, columns=columns).text
    lines = shown.splitlines()
    assert max(len(line) for line in lines if "..." not in line) <= columns
    counted = [line for line in lines if line.endswith("%")]
    assert len(counted) == len(values)
    assert {len(line) for line in counted if "\u6f22" not in line} == {len(lines[0])}
    assert [len(line) for line in counted if "\u6f22" in line] == [len(lines[0]) - 2]
    shown = on_terminal(["stats", "t", "--by", "file", "-q"], tmp_path, columns=columns).text
    assert str(tmp_path / name) in shown.splitlines()  # whole, on a line of its own


def test_a_dumb_terminal_gets_no_colours(run_installed: RunCli, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "abc"}\n')
    run_installed("tokenize", "a.jsonl", "--tokenizer", "bytes", "--out", "t")
    assert "\x1b[" in on_terminal(["inspect", "t"], tmp_path).text
    assert "\x1b[" not in on_terminal(["inspect", "t"], tmp_path, env={"TERM": "dumb"}).text
