"""`stats --by KEY`: values of a key in the raw records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from support.inprocess import tokenize_here, write_lines


def documents_by(run_cli: RunCli, dataset: str, key: str) -> dict[str, int]:
    groups = json.loads(run_cli("stats", dataset, "--by", key, "--json").stdout)["groups"]
    found = {group["name"]: group["documents"] for group in groups}
    assert len(found) == len(groups)
    return found


def test_values_that_look_alike_are_different_groups(run_cli: RunCli, tmp_path: Path) -> None:
    long = "x" * 100
    values = [
        long + "a",
        long + "b",
        long + "b",
        "3",
        3,
        3,
        "(none)",
        None,
        True,
        "true",
        [3],
        "null",
    ]
    path = write_lines(tmp_path / "in.jsonl", [{"text": "t", "k": value} for value in values])
    tokenize_here(tmp_path / "tok", inputs=[str(path)], tokenizer="bytes")
    wanted = {long + "a": 1, long + "b": 2, '"3"': 1, "3": 2, '"(none)"': 1, "(none)": 1}
    assert documents_by(run_cli, "tok", "k") == {
        **wanted,
        "true": 1,
        '"true"': 1,
        "[3]": 1,
        "null": 1,
    }
    assert run_cli("stats", "tok", "--by", "k").stdout.count("x" * 77 + "... ") == 2


def test_values_are_shown_without_credentials(run_cli: RunCli, tmp_path: Path) -> None:
    urls = ["https://me:pw-1@host/a", "https://me:pw-2@host/a", "https://host/b?token=pw-3"]
    records = [{"text": "t", "url": url, "in": {"url": url}} for url in urls]
    path = write_lines(tmp_path / "in.jsonl", records)
    tokenize_here(tmp_path / "tok", inputs=[str(path)], tokenizer="bytes")
    wanted = ["https://***@host/a", "https://***@host/a (2)", "https://host/b?token=***"]
    assert list(documents_by(run_cli, "tok", "url")) == wanted
    for key in ("url", "in"):
        for flags in ((), ("--json",)):
            assert "pw-" not in run_cli("stats", "tok", "--by", key, *flags).stdout


def test_a_key_is_read_from_texts_with_a_separator(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n\none")
    (tmp_path / "b.txt").write_text("one==three")
    inputs = [str(tmp_path / "a.txt"), {"path": str(tmp_path / "b.txt"), "text_separator": "=="}]
    options: dict[str, Any] = {"tokenizer": "bytes", "text_separator": "\n\n"}
    tokenize_here(tmp_path / "tok", inputs=inputs, **options)
    assert documents_by(run_cli, "tok", "text") == {"one": 3, "two": 1, "three": 1}
    (tmp_path / "c.txt").write_text("one--four")
    options["text_separator"] = "--"
    tokenize_here(tmp_path / "other", inputs=[str(tmp_path / "c.txt")], **options)
    run_cli("pack", "tok", "other", "--seq-len", 8, "--out", "p", "-q")
    assert documents_by(run_cli, "p", "text") == {"one": 4, "two": 1, "three": 1, "four": 1}
    shutil.rmtree(tmp_path / "other")
    done = run_cli("stats", "p", "--by", "text", check=False)
    assert (done.code, "how " in done.stderr and "was split" in done.stderr) == (3, True)


def test_a_key_is_read_with_the_limits_of_each_dataset(run_cli: RunCli, tmp_path: Path) -> None:
    records = [[{"text": "a", "k": 1}], [{"text": "b" * 3000, "k": 2}]]
    for name, own, limit in zip("ab", records, (1024, 1 << 20), strict=True):
        path = write_lines(tmp_path / f"{name}.jsonl", own)
        options: dict[str, Any] = {"tokenizer": "bytes", "max_record_bytes": limit}
        tokenize_here(tmp_path / f"tok-{name}", inputs=[str(path)], **options)
    run_cli("pack", "tok-a", "tok-b", "--seq-len", 4096, "--out", "p", "-q")
    assert documents_by(run_cli, "p", "k") == {"1": 1, "2": 1}
    shutil.rmtree(tmp_path / "tok-b")
    assert documents_by(run_cli, "p", "k") == {"1": 1, "2": 1}


@pytest.mark.parametrize("value", ['"\\ud800"', "1e999", "NaN"])
def test_a_value_that_cannot_be_read_is_a_group(
    run_cli: RunCli, tmp_path: Path, value: str
) -> None:
    bad = f'{{"text": "a", "k": {value}}}'
    other = f'{{"text": "a", "z": {value}}}'  # nothing is wrong with its k
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a", "k": "x"}, bad, other])
    counts = tokenize_here(
        tmp_path / "tok", inputs=[str(path)], tokenizer="bytes", on_error="quarantine"
    )["counts"]
    assert counts["documents_written"] == 3
    assert documents_by(run_cli, "tok", "k") == {"x": 1, "(unreadable)": 1, "(none)": 1}


def test_names_and_values_do_not_act_on_the_terminal(run_cli: RunCli, tmp_path: Path) -> None:
    records = [{"text": "t", "k": "\x1b[2J\x1b]0;evil\x07x\ny"}, {"text": [5]}]
    path = write_lines(tmp_path / "in\x1b[2J\n.jsonl", records)
    flags = ["--tokenizer", "bytes", "--on-error", "quarantine"]
    shown = [
        run_cli("tokenize", path, *flags, "--dry-run"),
        run_cli("tokenize", path, *flags, "--out", "tok"),
    ]
    table = run_cli("stats", "tok", "--by", "k")
    assert "\n\\x1b[2J\\x1b]0;evil\\x07x\\x0ay  " in table.stdout
    run_cli("pack", "tok", "--seq-len", 8, "--out", "p", "-q")
    step = ("--step", 0, "--batch-size", 1)
    shown += [
        table,
        run_cli("stats", "p", "--by", "file"),
        run_cli("inspect", "tok"),
        run_cli("inspect", "p"),
        run_cli("inspect", "p", *map(str, step)),
    ]
    path.unlink()
    shown.append(run_cli("stats", "tok", "--by", "k", check=False))
    for done in shown:
        assert "\\x1b[2J" in done.stdout + done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert "\n.jsonl" not in done.stdout


def test_a_key_that_is_called_source_or_file_can_be_asked_for(
    run_cli: RunCli, tmp_path: Path
) -> None:
    rows = [
        {"text": "a", "source": "web", "file": 1, "key:x": 2},
        {"text": "b", "source": "books", "file": 1, "key:x": 2},
    ]
    path = write_lines(tmp_path / "in.jsonl", rows)
    tokenize_here(tmp_path / "tok", inputs=[str(path)], tokenizer="bytes")
    assert documents_by(run_cli, "tok", "key:source") == {"web": 1, "books": 1}
    assert documents_by(run_cli, "tok", "key:file") == {"1": 2}
    assert documents_by(run_cli, "tok", "key:text") == {"a": 1, "b": 1}
    assert documents_by(run_cli, "tok", "key:key:x") == {"2": 2}
    assert documents_by(run_cli, "tok", "source") == {str(path): 2}
