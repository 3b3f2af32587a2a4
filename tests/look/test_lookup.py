"""Documents by file and line: in tokenized datasets, and in which rows of packed ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.loaders import open_dataset
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets, and one packed of both, in which long documents are split."""
    home = tmp_path_factory.mktemp("lookup")
    for name in ("web/a", "code/a", "code/b"):
        (home / name).parent.mkdir(exist_ok=True)
        records: list[Any] = [{"text": f"{name} {i} " * (1 + i % 7)} for i in range(30)]
        records[4], records[6] = "", {"text": ""}  # a blank line, and an empty record
        write_lines(home / f"{name}.jsonl", records)
    for name in ("web", "code"):
        tokenize_here(home / f"tok-{name}", inputs=[str(home / name)], tokenizer="bytes")
    pack_here(home / "both", home / "tok-web", home / "tok-code", seq_len=24, shard_rows=20)
    pack_here(home / "one", home / "tok-code", seq_len=24, overflow="drop")
    return home


def text_of(home: Path, name: str, line: int) -> str:
    record = json.loads((home / name).read_text().splitlines()[line - 1])
    text: str = record["text"]
    return text


@pytest.mark.parametrize("line", [1, 4, 6, 8, 14, 30])
@pytest.mark.parametrize("name", ["web/a.jsonl", "code/a.jsonl", "code/b.jsonl"])
def test_the_rows_of_a_record_hold_its_tokens(
    run_cli: RunCli, home: Path, tmp_path: Path, name: str, line: int
) -> None:
    """By the packed dataset alone."""
    alone = shutil.copytree(home / "both", tmp_path / "alone")
    words = ("inspect", alone, "--doc", f"{home / name}:{line}")
    (found,) = json.loads(run_cli(*words, "--json").stdout)
    assert (found["origin"]["path"], found["origin"]["line"]) == (str(home / name), line)
    dataset = open_dataset(alone)
    tokens: dict[int, int] = {}
    for place in found["places"]:
        row = dataset[place["row"]]
        own = row["tokens"][row["segment_ids"] == place["segment"]].tolist()
        assert len(own) == place["length"]
        tokens |= {place["start"] + i: token for i, token in enumerate(own)}
    text = text_of(home, name, line).encode()
    assert [tokens[i] for i in sorted(tokens)] == [256, *text, 257]
    said = run_cli(*words).stdout.splitlines()
    assert said[0].startswith(f"line {line} of {home / name}; document ")
    first = found["places"][0]
    assert said[1].startswith(f"  row {first['row']}, segment {first['segment']}: tokens 0..")
    assert said[-1] == f"next: dataprep inspect {alone} --row {first['row']}"


def test_a_document_of_a_tokenized_dataset_is_shown_by_file_and_line(
    run_cli: RunCli, home: Path
) -> None:
    said = run_cli("inspect", home / "tok-code", "--doc", "b.jsonl:9").stdout
    assert f"line 9 of {home / 'code' / 'b.jsonl'}" in said
    assert text_of(home, "code/b.jsonl", 9) in said
    by_number = run_cli("inspect", home / "tok-code", "--doc", "-1").stdout
    assert by_number == run_cli("inspect", home / "tok-code", "--doc", "b.jsonl:30").stdout


def test_a_number_is_enough_where_there_is_one_dataset(run_cli: RunCli, home: Path) -> None:
    (found,) = json.loads(run_cli("inspect", home / "one", "--doc", "7", "--json").stdout)
    assert (found["document"], found["origin"]["line"]) == (7, 10)
    done = run_cli("inspect", home / "both", "--doc", "7", check=False)
    assert done.code == 2
    assert "packed from 2 datasets" in done.stderr
    assert "--doc FILE:LINE" in done.stderr


def test_a_document_that_packing_dropped_is_in_no_row(run_cli: RunCli, home: Path) -> None:
    said = run_cli("inspect", home / "one", "--doc", "b.jsonl:7", check=False)
    assert said.code == 2  # an empty record
    said = run_cli("inspect", home / "one", "--doc", "b.jsonl:14")
    assert said.stdout.rstrip().endswith("in no row, packing left it out")


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        ("a.jsonl:1", "may be any of "),
        ("c.jsonl:1", "was not made from c.jsonl, but from "),
        ("web/a.jsonl:5", "has no document of line 5 of "),
        ("web/a.jsonl:31", "has no document of line 31 of "),
        ("web/a.jsonl:0", "must be the number of a document, from 0, or FILE:LINE"),
        ("web/a.jsonl", "must be the number of a document, from 0, or FILE:LINE"),
    ],
)
def test_what_is_not_there_is_told(run_cli: RunCli, home: Path, doc: str, told: str) -> None:
    done = run_cli("inspect", home / "both", "--doc", doc, check=False)
    assert done.code == 2
    assert told in done.stderr
