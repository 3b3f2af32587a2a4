"""A record whose fields yield no token is empty: BOS and EOS that are added make no document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from support.inprocess import documents_of, tokenize_here, write_lines
from support.toy import write_toy_tokenizer

BOS, EOS = 1, 2
A, B = 100, 101


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def test_a_run_counts_records_without_text_as_empty(
    toy: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in.jsonl", [{"text": ""}, {"text": "a"}, {"text": ""}])
    run_cli("tokenize", "in.jsonl", "--tokenizer", toy, "--out", "d")
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
    counts = {key: manifest["counts"][f"documents_{key}"] for key in ("read", "written", "empty")}
    assert counts == {"read": 3, "written": 1, "empty": 2}
    assert manifest["counts"]["tokens"] == 3
    assert "2 empty" in run_cli("tokenize", "in.jsonl", "--tokenizer", toy, "--out", "e").stdout


def test_tokens_and_masks_around_empty_records_are_those_of_the_others(
    toy: Path, tmp_path: Path
) -> None:
    """By columns, by the classes of optional fields, and record by record."""
    records: list[Any] = [
        {"q": "", "a": ""},
        {"q": "a", "a": "b", "h": ""},
        {"q": "", "a": "", "h": ""},
        {"q": "", "a": "b"},
        {"q": "", "a": ""},
    ]
    for number, spec in enumerate(("[q],a", "[q],h?,a", "[q],{ids?},a")):
        seen = documents_of(tmp_path / str(number), toy, records, fields=spec)
        assert [(s.tokens, s.loss) for s in seen] == [
            ([BOS, A, B, EOS], [0, 0, 1, 1]),
            ([BOS, B, EOS], [0, 1, 1]),
        ]


@pytest.mark.parametrize(
    ("spec", "tokens"),
    [
        ("text,<|7|>", [BOS, 7, EOS]),
        ("<|bos|>,text", [BOS, BOS, EOS]),
        ("['a'],text", [BOS, A, EOS]),
    ],
)
def test_ids_and_texts_that_the_spec_names_are_tokens(
    toy: Path, tmp_path: Path, spec: str, tokens: list[int]
) -> None:
    (seen,) = documents_of(tmp_path, toy, [{"text": ""}], fields=spec)
    assert seen.tokens == tokens


def test_text_that_is_put_before_every_record_is_text(toy: Path, tmp_path: Path) -> None:
    (seen,) = documents_of(tmp_path, toy, [{"text": ""}], prepend_text="a")
    assert seen.tokens == [BOS, A, EOS]


def test_lwm_writes_a_document_of_bos_and_eos(toy: Path, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.jsonl", [{"text": ""}])
    made = tokenize_here(
        tmp_path / "d", inputs=[str(file)], tokenizer=str(toy), fields="text", compat="lwm"
    )
    assert (made["counts"]["documents_written"], made["counts"]["tokens"]) == (1, 2)
