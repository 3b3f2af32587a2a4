"""Quarantined records: why, how many, where, and how they begin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.pipeline.guards.excerpts import LIMIT, excerpt_of, excerpt_of_bytes
from support.encoding import png
from support.inprocess import tokenize_here, write_lines

BAD = [
    {"text": "good"},
    "{bad ftp://me:secret@host/a",
    {"text": [5]},
    {"text": [17]},
    {"body": "x", "url": "https://me:secret@host/b?token=123"},
    '{"text": "' + "é" * 3000,
    {"text": "good too"},
]


def errors_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "errors.jsonl").read_text("utf-8").splitlines()]


def test_the_summary_says_why_records_were_quarantined_and_where_they_are(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", BAD)
    flags = ["--tokenizer", "bytes", "--on-error", "quarantine"]
    said = run_cli("tokenize", path, *flags, "--out", "a").stdout.splitlines()
    assert said[1].startswith("  2 × field 'text' must be text, got a list of 1 value; ")
    assert said[1].endswith(f"; the first: line 3 of {path}")
    assert said[-2] == "  quarantined records: a/errors.jsonl"
    assert len(said) == 7
    found = json.loads(run_cli("tokenize", path, *flags, "--out", "b", "--json").stdout)
    assert found["errors"] == "b/errors.jsonl"
    assert [reason["count"] for reason in found["reasons"]] == [2, 1, 1, 1]
    run_cli("verify", "a")


def test_damaged_reasons_are_an_error_of_the_dataset(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", BAD)
    words = ["tokenize", path, "--tokenizer", "bytes", "--on-error", "quarantine", "--out", "a"]
    run_cli(*words)
    errors = tmp_path / "a" / "errors.jsonl"
    whole = errors.read_bytes()
    for damaged in (b"\x00" + whole[1:], whole.replace(b"list", b"LIST", 1), whole[:-5]):
        errors.write_bytes(damaged)
        done = run_cli(*words, "--json", check=False)
        assert (done.code, "Traceback" in done.stderr) == (5, False)
        assert "a/errors.jsonl" in done.stderr


def test_encode_says_why_too(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(png(1))
    (tmp_path / "pictures" / "b.png").write_bytes(b"none")
    flags = ["--encoder", "patches", "--on-error", "quarantine", "--out", "codes"]
    said = run_cli("encode", "pictures", *flags).stdout
    place = tmp_path / "pictures" / "b.png"
    assert f"  1 × is not a picture of a known kind; the first: {place}" in said
    assert "quarantined records: codes/errors.jsonl" in said


def test_every_quarantined_record_has_an_excerpt_without_credentials(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", BAD)
    for out in ("a", "b"):
        tokenize_here(tmp_path / out, inputs=[str(path)], tokenizer="bytes", on_error="quarantine")
    excerpts = [error["excerpt"] for error in errors_in(tmp_path / "a")]
    assert excerpts[:4] == [
        "{bad ftp://***@host/a",
        '{"text": [5]}',
        '{"text": [17]}',
        '{"body": "x", "url": "https://***@host/b?token=***"}',
    ]
    assert excerpts[4] == ('{"text": "' + "é" * LIMIT)[: LIMIT - 3] + "..."
    assert "secret" not in json.dumps(excerpts)
    same = [(tmp_path / out / "errors.jsonl").read_bytes() for out in ("a", "b")]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (rb'{"u": "https:\/\/me:pw-1@host\/a', '{"u": "https://***@host/a'),
        (rb'{"u": "https:\u002f\u002Fme:pw-1@host', '{"u": "https://***@host'),
        (rb'{"u": "https://me\u003apw-1\u0040host', '{"u": "https://***@host'),
        (rb'{"u": "https://me:x\u0022pw-1@host', '{"u": "https://***@host'),
        (rb'{"u": "{\"v\": \"https:\\\/\\\/me:pw-1@host', r'{"u": "{\"v\": \"https://***@host'),
        (
            rb'{"u": "https:\/\/h\/a?X-Amz-Signature=pw-1\u0026id=1',
            '{"u": "https://h/a?X-Amz-Signature=***&id=1',
        ),
        ('{"u": "https://me:pw-1@host'.encode("utf-16-le"), '{"u": "https://***@host'),
        ('{"u": "https://me:pw-1@host'.encode("utf-16-be"), '{"u": "https://***@host'),
    ],
)
def test_escaped_credentials_are_hidden_too(line: bytes, wanted: str) -> None:
    assert excerpt_of_bytes(line) == wanted
    shown = excerpt_of({"a": line.decode("latin-1")})
    assert "***" in shown
    assert "pw-1" not in shown


@pytest.mark.parametrize("ending", ["csv", "txt", "parquet"])
def test_other_formats_have_excerpts_too(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"in.{ending}"
    if ending == "csv":
        path.write_text("text,n\ngood,1\nbad,2,3\n")
    elif ending == "txt":
        path.write_bytes(b"good\n\nbad\xff\n\nmore")
    else:
        pq.write_table(pa.table({"text": ["good", None], "n": [1, 2]}), path)
    tokenize_here(
        tmp_path / "out",
        inputs=[str(path)],
        tokenizer="bytes",
        on_error="quarantine",
        text_separator="\n\n",
    )
    wanted = {"csv": "bad,2,3", "txt": "bad\ufffd", "parquet": '{"text": null}'}
    assert [error["excerpt"] for error in errors_in(tmp_path / "out")] == [wanted[ending]]


@given(st.binary(max_size=6000))
def test_an_excerpt_of_bytes_is_short_utf8(data: bytes) -> None:
    excerpt = excerpt_of_bytes(data)
    assert len(excerpt.encode("utf-8")) <= 4 * LIMIT
    assert len(excerpt) <= LIMIT


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.integers() | st.text() | st.binary(max_size=5),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
            max_leaves=20,
        ),
        max_size=5,
    )
)
def test_an_excerpt_of_a_record_is_short_and_the_same_in_any_order(record: dict[str, Any]) -> None:
    excerpt = excerpt_of(record)
    assert len(excerpt) <= LIMIT
    assert excerpt == excerpt_of(dict(reversed(record.items())))
    json.dumps(excerpt, ensure_ascii=False).encode("utf-8")


def test_a_lone_surrogate_and_an_array_of_codes_do_not_trouble_an_excerpt() -> None:
    import numpy as np

    assert excerpt_of({"a": "\ud800"}) == '{"a": "?"}'
    codes = list(range(10_000))
    assert excerpt_of({"c": np.array(codes)}) == excerpt_of({"c": codes})


def test_the_stop_at_max_errors_names_the_first_bad_records(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", BAD)
    flags = ["--tokenizer", "bytes", "--on-error", "quarantine", "--max-errors", "2"]
    done = run_cli("tokenize", path, *flags, "--out", "a", check=False)
    assert done.code == 3
    for line in (2, 3, 4):
        assert f"line {line} of {path}: " in done.stderr
