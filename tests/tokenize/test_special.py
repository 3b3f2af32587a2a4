"""Special tokens in documents: those that text spells, BOS that is EOS too, codes with text ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from conftest import RunCli, Sample
from dataprep.loaders import open_dataset
from support.inprocess import documents_of, tokenize_here, write_lines

RECORDS = [{"text": "it ends </s> here"}, {"text": "plain"}, {"text": "<s></s>"}]


@pytest.fixture
def same_ends(sample: Sample, tmp_path: Path) -> Path:
    """The tokenizer of the sample, with one token as BOS and EOS, as GPT-2 has it."""
    folder = tmp_path / "same"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(sample.tokenizer.read_bytes())
    config = {"bos_token": "</s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("engine", ["tokenizers", "auto"])
@pytest.mark.parametrize(
    ("mode", "said"), [("parse", "parsed"), ("text", "kept as text"), ("error", "refused")]
)
def test_text_that_spells_a_special_token_is_counted_and_follows_the_flag(
    run_cli: RunCli, sample: Sample, tmp_path: Path, engine: str, mode: str, said: str
) -> None:
    path = write_lines(tmp_path / "in.jsonl", RECORDS)
    flags = ["--special-in-text", mode, "--engine", engine, "--on-error", "quarantine"]
    ran = run_cli("tokenize", path, "--tokenizer", sample.tokenizer, "--out", "out", *flags)
    assert f"3 special tokens spelled in 2 documents, {said}" in ran.stdout
    dataset = open_dataset(tmp_path / "out")
    counts = dataset.manifest["counts"]
    assert (counts["documents_with_special"], counts["special_in_text"]) == (2, 3)
    truth = Tokenizer.from_file(str(sample.tokenizer))
    truth.encode_special_tokens = mode == "text"
    texts = ["plain"] if mode == "error" else [record["text"] for record in RECORDS]
    ids = [truth.encode(text, add_special_tokens=False).ids for text in texts]
    assert [dataset[i]["tokens"].tolist()[1:-1] for i in range(len(dataset))] == ids
    errors = tmp_path / "out" / "errors.jsonl"
    assert errors.exists() == (mode == "error")
    if mode == "error":
        found = [json.loads(line) for line in errors.read_text().splitlines()]
        assert [error["line"] for error in found] == [1, 3]
        assert "field 'text' spells the special token '</s>' at character 8" in found[0]["reason"]
    run_cli("verify", "out")


def test_error_stops_with_file_line_and_token(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", RECORDS[::-1])
    words = ["tokenize", path, "--tokenizer", sample.tokenizer, "--out", "out"]
    failed = run_cli(*words, "--special-in-text", "error", "--engine", "tokenizers", check=False)
    assert failed.code == 3
    assert f"line 1 of {path}" in failed.stderr
    assert "special token '<s>' at character 0" in failed.stderr


def test_segments_and_joined_fields_follow_the_flag_but_literals_do_not(
    sample: Sample, tmp_path: Path
) -> None:
    def ids_of(text: str, *, plain: bool) -> list[int]:
        tokenizer = Tokenizer.from_file(str(sample.tokenizer))
        tokenizer.encode_special_tokens = plain
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    common: dict[str, Any] = {"special_in_text": "text", "add_bos": False, "add_eos": False}
    (end,) = ids_of("</s>", plain=False)
    segments = {"segments": [{"type": "text", "text": "a</s>"}, {"type": "text", "text": "b"}]}
    (seen,) = documents_of(
        tmp_path / "1", sample.tokenizer, [segments], fields="segments", **common
    )
    assert seen.tokens == ids_of("a</s>", plain=True) + ids_of("b", plain=True)
    assert end not in seen.tokens
    (seen,) = documents_of(
        tmp_path / "2",
        sample.tokenizer,
        [{"a": "one</s>", "b": "two"}],
        fields="a+b",
        prepend_text="</s>",
        subfield_separator="</s>",
        **common,
    )
    assert seen.tokens == [
        end,
        *ids_of("one</s>", plain=True),
        end,
        *ids_of("two", plain=True),
    ]


def test_bos_that_is_eos_too_is_added_once_and_the_run_says_so(
    run_cli: RunCli, same_ends: Path, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    words = ["tokenize", path, "--tokenizer", same_ends, "--engine", "tokenizers"]
    ran = run_cli(*words, "--out", "once")
    assert "BOS and EOS are the same token, '</s>'" in ran.stderr
    assert "BOS" not in ran.stdout  # said once
    assert "BOS and EOS are the same token" in run_cli(*words, "--out", "x", "--dry-run").stdout
    twice = run_cli(*words, "--out", "twice", "--add-bos")
    assert "BOS" not in twice.stdout + twice.stderr
    once, both = (open_dataset(tmp_path / name)[0] for name in ("once", "twice"))
    end = once["tokens"][-1]
    assert both["tokens"].tolist() == [end, *once["tokens"].tolist()]
    assert once["loss_mask"].all()


def test_lwm_puts_bos_and_eos_even_if_they_are_the_same(same_ends: Path, tmp_path: Path) -> None:
    records = [{"text": "a"}]
    (plain,) = documents_of(tmp_path / "1", same_ends, records)
    (lwm,) = documents_of(tmp_path / "2", same_ends, records, compat="lwm")
    assert lwm.tokens == [plain.tokens[-1], *plain.tokens]


def test_bos_without_one_is_an_error_that_says_how_to_name_it(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "tokenizer.json").write_bytes(sample.tokenizer.read_bytes())
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    failed = run_cli(
        "tokenize", path, "--tokenizer", "bare", "--add-bos", "--out", "x", check=False
    )
    assert failed.code == 2
    assert "names no BOS; set bos_token" in failed.stderr


def test_codes_with_the_ids_of_text_say_so_once_unless_that_is_meant(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    record = {"vision": [1, 2], "text": "a", "fields": "vision,text"}
    path = write_lines(tmp_path / "in.jsonl", [record])
    frame = ["--set", "modalities.vision.tokens_per_frame=2"]
    words = ["tokenize", path, "--tokenizer", sample.tokenizer, "--engine", "tokenizers", *frame]
    named = [*words, "--fields", "vision,text", "--out"]
    note = "vision codes are ids 0..8193, which are text ids too"
    ran = run_cli(*named, "a")
    assert ran.stderr.count(note) == 1
    assert run_cli(*named, "b", "--dry-run").stdout.count(note) == 1
    dry = json.loads(run_cli(*named, "b", "--dry-run", "--json").stdout)
    assert any(note in line for line in dry["notes"])
    meant = (
        ["--set", "modalities.vision.code_offset=100000"],
        ["--set", "modalities.vision.code_offset=0"],
        ["--compat", "lwm"],
    )
    for flags in meant:
        assert "text ids too" not in run_cli(*named, "b", "--dry-run", *flags).stdout
    preset = run_cli(*words, "--config", "lwm", "--out", "b", "--dry-run").stdout
    assert "vision codes" not in preset


def test_codes_that_are_left_out_are_said(run_cli: RunCli, sample: Sample, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"vision": [1, 2, 3, 4, 5]}])
    sets = [
        "--set",
        "modalities.vision.tokens_per_frame=2",
        "--set",
        "modalities.vision.max_frames=1",
    ]
    words = ["tokenize", path, "--tokenizer", sample.tokenizer, "--engine", "tokenizers", *sets]
    said = run_cli(*words, "--fields", "vision", "--out", "a").stdout
    assert "1 code left out (of partial frames); 2 codes left out (by max_frames or layout)" in said


def test_a_file_that_fails_the_engine_is_named_by_line(sample: Sample, tmp_path: Path) -> None:
    """A lone surrogate among many texts: only its record is bad, and the field is named."""
    lines = ['{"text": "a"}', '{"text": "\\ud800"}', '{"text": "b"}']
    path = write_lines(tmp_path / "in.jsonl", lines)
    manifest = tokenize_here(
        tmp_path / "out",
        inputs=[str(path)],
        tokenizer=str(sample.tokenizer),
        on_error="quarantine",
    )
    assert manifest["counts"]["documents_written"] == 2
    (error,) = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert json.loads(error)["line"] == 2
    assert "lone surrogate" in json.loads(error)["reason"]


@pytest.mark.parametrize("mode", ["parse", "text"])
@pytest.mark.parametrize("fields", ["a+b", "a+b,c", "c,a+b"])
def test_special_tokens_of_literals_are_not_counted_as_content(
    sample: Sample, tmp_path: Path, mode: str, fields: str
) -> None:
    records: list[Any] = [
        {"a": "one", "b": "two", "c": "three"},
        {"a": "one</s>", "b": "<s>two", "c": "three"},
        {"a": 7, "b": "bad"},
        {"a": "", "b": "", "c": ""},
    ]
    for name, spec in (("static", {"fields": fields}), ("own", {"fields_from": "fields"})):
        path = write_lines(tmp_path / f"{name}.jsonl", [{**r, "fields": fields} for r in records])
        manifest = tokenize_here(
            tmp_path / name,
            inputs=[str(path)],
            tokenizer=str(sample.tokenizer),
            prepend_text="<s>x</s>",
            subfield_separator="</s>",
            special_in_text=mode,
            on_error="skip",
            **spec,
        )
        counts = manifest["counts"]
        assert (counts["documents_with_special"], counts["special_in_text"]) == (1, 2)
