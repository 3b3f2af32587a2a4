"""What the end of a run says: why records were skipped, and what may be a mistake of the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dataprep
from conftest import RunCli
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.tokenize.notes import notes_of
from dataprep.pipeline.tokenize.recipe import plan_of
from support.encoding import png
from support.inprocess import write_lines
from support.trees import tree

BYTES = ("--tokenizer", "bytes")


def test_an_optional_field_that_no_record_of_an_input_has_is_told_by_the_run(
    run_cli: RunCli, tmp_path: Path
) -> None:
    write_lines(tmp_path / "a.jsonl", [{"text": "a", "m": {"u": "x"}}, {"text": "b", "hint": "h"}])
    write_lines(tmp_path / "b.jsonl", [{"text": "a", "hint": None}, {"text": "b", "m.u": "y"}])
    words = ("tokenize", "a.jsonl", "b.jsonl", *BYTES, "--fields", "text,hint?,m.u?,hnt?")
    said = run_cli(*words, "--out", "d").stdout
    notes = [
        "no record of a.jsonl has the optional field 'hnt'; is it spelled right?",
        "no record of b.jsonl has the optional field 'hint'; is it spelled right?",
        "no record of b.jsonl has the optional field 'hnt'; is it spelled right?",
    ]
    assert [line for line in said.splitlines() if line.startswith("note: ")] == [
        f"note: {note}" for note in notes
    ]
    assert json.loads(run_cli(*words, "--out", "e", "--json").stdout)["notes"] == notes
    assert tree(tmp_path / "d") == tree(tmp_path / "e")


@pytest.mark.parametrize("spec", ["text,hint?", "text,{hint?}"])
def test_an_optional_field_of_one_record_in_many_batches_is_there(
    run_cli: RunCli, tmp_path: Path, spec: str
) -> None:
    """By columns, and record by record."""
    records: list[Any] = [{"text": "x" * 2000} for _ in range(1500)]
    records[700]["hint"] = "AQAAAA=="
    write_lines(tmp_path / "a.jsonl", records)
    write_lines(tmp_path / "b.jsonl", records[:3])
    for files in (["a.jsonl"], ["*.jsonl"]):
        words = ("tokenize", *files, *BYTES, "--fields", spec, "--json")
        told = json.loads(run_cli(*words, "--out", f"d{files[0][0]}").stdout)
        assert told["notes"] == []


def test_skipped_records_are_told_with_their_reasons(run_cli: RunCli, tmp_path: Path) -> None:
    bad: list[Any] = [{"text": "good"}, {"text": [5]}, {"text": [17]}, "{bad"]
    write_lines(tmp_path / "a.jsonl", bad)
    words = ("tokenize", "a.jsonl", *BYTES, "--on-error", "skip")
    said = run_cli(*words, "--out", "d").stdout.splitlines()
    assert "3 dropped" in said[0]
    assert said[1].startswith("  2 × field 'text' must be text, got a list of 1 value; ")
    assert said[1].endswith(f"; the first: line 2 of {tmp_path / 'a.jsonl'}")
    assert said[2].startswith("  1 × not valid JSON")
    assert said[3] == "  dropped records are listed by --on-error quarantine alone"
    assert not (tmp_path / "d" / "errors.jsonl").exists()
    told = json.loads(run_cli(*words, "--out", "e", "--json").stdout)
    assert [reason["count"] for reason in told["reasons"]] == [2, 1]
    assert "errors" not in told


def test_sources_that_gave_no_document_are_named(run_cli: RunCli, tmp_path: Path) -> None:
    files: dict[str, list[Any]] = {
        "a": [{"text": "good"}],
        "b": [{"txt": "bad"}, {"text": ""}],
        "c": [],
        "d": [{"txt": "bad"}],
        "e": [{"text": ""}],
    }
    (tmp_path / "in").mkdir()
    for name, records in files.items():
        write_lines(tmp_path / "in" / f"{name}.jsonl", records)
    words = ("tokenize", "in", *BYTES, "--on-error", "skip")
    place = tmp_path / "in"
    note = (
        f"4 sources of 5 gave nothing: {place / 'b.jsonl'} (1 bad, 1 empty), "
        f"{place / 'c.jsonl'} (no records), {place / 'd.jsonl'} (1 bad) and 1 more"
    )
    assert f"note: {note}" in run_cli(*words, "--out", "d").stdout.splitlines()
    assert json.loads(run_cli(*words, "--out", "e", "--json").stdout)["notes"] == [note]
    limited = run_cli(*words, "--out", "f", "--json", "--limit", "1")
    assert json.loads(limited.stdout)["notes"] == []


def test_codes_that_no_field_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").write_bytes(png(1))
    (tmp_path / "in" / "x.txt").write_text("a picture")
    codes = tmp_path / "codes"
    dataprep.encode(inputs=tmp_path / "in", encoder="patches", out=codes, workers=1)
    values = {"inputs": [str(codes)], "tokenizer": "bytes", "out": str(tmp_path / "out")}
    configs = {
        fields: TokenizeConfig.model_validate({**values, "fields": fields})
        for fields in ("text", "[vision],text")
    }
    told = {name: notes_of(plan_of(config, tmp_path)) for name, config in configs.items()}
    unread = f"{codes} holds codes (vision) that are not read, since no field names them: --fields"
    assert f"{unread} '[vision],text'" in told["text"]
    assert not [note for note in told["[vision],text"] if "holds codes" in note]


def test_encode_tells_the_same(run_cli: RunCli, tmp_path: Path) -> None:
    for name, data in (("a", png(1)), ("b", b"none")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(data)
    words = ("encode", "a", "b", "--encoder", "patches", "--on-error", "skip")
    said = run_cli(*words, "--out", "codes").stdout
    bad = tmp_path / "b" / "x.png"
    assert f"  1 × is not a picture of a known kind; the first: {bad}" in said
    assert "note: 1 source of 2 gave nothing: " in said
    told = json.loads(run_cli(*words, "--out", "more", "--json").stdout)
    assert told["reasons"][0]["file"] == str(bad)
