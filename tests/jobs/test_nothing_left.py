"""A run that failed at its end, with nothing in it that is worth keeping."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import RunCli
from support.inprocess import write_lines


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}, {"text": "b"}])
    return ["tokenize", str(path), "--tokenizer", "bytes", "--out", str(tmp_path / "out")]


def test_a_run_that_gave_no_document_says_why_and_does_not_block_its_correction(
    run_cli: RunCli, words: list[str], tmp_path: Path
) -> None:
    failed = run_cli(*words, "--fields", "txet?", check=False)
    assert failed.code == 3
    assert (
        "hold 2 records, but none gave a document (0 bad, 2 empty); empty ones have nothing in "
        "their fields; --allow-empty allows it; no record of "
    ) in failed.stderr
    assert "has the optional field 'txet'; is it spelled right?" in failed.stderr
    assert "--on-error" not in failed.stderr  # nothing is bad
    run_cli(*words, "--fields", "text,hint?")
    run_cli("verify", tmp_path / "out")


@pytest.mark.parametrize("limit", ["1", "50%"])
def test_a_run_of_bad_records_alone_does_not_block_its_correction(
    run_cli: RunCli, words: list[str], tmp_path: Path, limit: str
) -> None:
    flags = ["--on-error", "skip", "--max-errors", limit]
    failed = run_cli(*words, *flags, "--fields", "body", check=False)
    assert failed.code == 3
    assert "too many bad records" in failed.stderr
    run_cli(*words, *flags, "--fields", "text")
    run_cli("verify", tmp_path / "out")


def test_documents_of_a_run_with_too_many_bad_records_are_kept(
    run_cli: RunCli, words: list[str], tmp_path: Path
) -> None:
    write_lines(tmp_path / "in.jsonl", [{"text": "a"}, {"txet": "b"}])
    flags = ["--on-error", "skip", "--max-errors", "10%"]
    assert run_cli(*words, *flags, check=False).code == 3
    refused = run_cli(*words, *flags, "--fields", "text?", check=False)
    assert refused.code == 4
    assert "throw it away with --overwrite" in refused.stderr
    went_on = run_cli(*words, "--on-error", "skip", "--max-errors", "60%")
    assert "1 done before" in went_on.stderr
