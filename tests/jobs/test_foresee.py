"""`--dry-run` says what the run would say of its output folder, and changes nothing in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import RunCli
from support.datasets import pack_here
from support.encoding import encode_here, png
from support.here import make_here
from support.inprocess import tokenize_here, write_lines
from support.trees import tree


@pytest.fixture
def made(tmp_path: Path) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The words that made each dataset, and words that ask for another."""
    file = str(write_lines(tmp_path / "a.jsonl", [{"text": "some words"}] * 9))
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(png(1))
    pictures, out = str(tmp_path / "pictures"), tmp_path
    tokenize_here(out / "tok", inputs=[file], tokenizer="bytes")
    pack_here(out / "packed", out / "tok", seq_len=8)
    encode_here(out / "codes", out / "pictures", encoder="patches")
    tokenize = ("tokenize", file, "--tokenizer", "bytes", "--out", str(out / "tok"))
    pack = ("pack", str(out / "tok"), "--seq-len", "8", "--out", str(out / "packed"))
    encode = ("encode", pictures, "--encoder", "patches", "--out", str(out / "codes"))
    return {
        "tokenize": (tokenize, (*tokenize, "--no-add-eos")),
        "pack": (pack, (*pack, "--seed", "7")),
        "encode": (encode, (*encode, "--shard-records", "3")),
    }


@pytest.mark.parametrize("command", ["tokenize", "pack", "encode"])
def test_a_dry_run_finds_a_dataset_complete_or_in_conflict_as_the_run_does(
    run_cli: RunCli,
    tmp_path: Path,
    made: dict[str, tuple[tuple[str, ...], tuple[str, ...]]],
    command: str,
) -> None:
    same, other = made[command]
    before = tree(tmp_path)
    said = run_cli(*same, "--dry-run").stdout
    assert said.startswith("nothing to do: ")
    assert said == run_cli(*same).stdout
    assert json.loads(run_cli(*same, "--dry-run", "--json").stdout)["was_complete"] is True
    refused = run_cli(*other, "--dry-run", check=False)
    run = run_cli(*other, check=False)
    assert (refused.code, run.code) == (4, 4)
    assert "was made from something else" in refused.stderr
    assert refused.stderr == run.stderr
    told = json.loads(run_cli(*other, "--dry-run", "--overwrite", "--json").stdout)
    assert told["was_complete"] is False
    assert tree(tmp_path) == before


def test_a_dry_run_sees_the_unfinished_run_of_something_else(
    run_cli: RunCli, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "a.jsonl", [{"text": "some words"}])
    out = tmp_path / "out"

    def stop(work: Path) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        make_here("tokenize", out, {"inputs": [str(file)], "tokenizer": "bytes"}, after_job=stop)
    before = tree(out)
    words = ("tokenize", file, "--tokenizer", "bytes", "--out", out)
    refused = run_cli(*words, "--no-add-eos", "--dry-run", check=False)
    run = run_cli(*words, "--no-add-eos", check=False)
    assert (refused.code, run.code) == (4, 4)
    assert "unfinished run of something else (add_eos: 'auto' -> False)" in refused.stderr
    assert refused.stderr == run.stderr
    run_cli(*words, "--dry-run")  # which would go on
    assert tree(out) == before
