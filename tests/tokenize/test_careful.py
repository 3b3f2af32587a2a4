"""Batches may be cut anywhere: suspects change nothing, poison records are bad records."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.jobs.poison import Poison, PoisonRecord
from support.inprocess import tokenize_here, write_lines
from support.trees import tree

TEXTS = [f"document {i}" * (i % 7) for i in range(60)]
FORMATS = ("jsonl", "parquet", "csv", "txt", "many", "fields")


def write(folder: Path, kind: str, bad: tuple[int, ...] = ()) -> dict[str, Any]:
    """Write the texts; return the config that reads them. Those that are `bad` cannot be used."""
    folder.mkdir()
    records: list[Any] = [{"text": [3] if i in bad else text} for i, text in enumerate(TEXTS)]
    if kind == "parquet":
        values = [None if i in bad else text for i, text in enumerate(TEXTS)]
        pq.write_table(pa.table({"text": values}), folder / "in.parquet", row_group_size=20)
    elif kind == "csv":
        (folder / "in.csv").write_text("text\n" + "".join(f"{text or '-'}\n" for text in TEXTS))
    elif kind == "txt":
        (folder / "in.txt").write_text("\n".join(text or "-" for text in TEXTS))
        return {"inputs": [str(folder)], "text_separator": "\n"}
    elif kind == "many":
        for i in range(0, 60, 7):
            write_lines(folder / f"{i:02}.jsonl", records[i : i + 7])
    elif kind == "fields":
        specs = [{"fields": ["text", "[text],text"], **record} for record in records]
        write_lines(folder / "in.jsonl", specs)
        return {"inputs": [str(folder)], "fields_from": "fields"}
    else:
        # A blank line, and a line that is not JSON, are between them.
        write_lines(folder / "in.jsonl", [*records[:20], "", "{", *records[20:]])
    return {"inputs": [str(folder)]}


def made(folder: Path, name: str, config: dict[str, Any], poison: Poison | None) -> Path:
    more: dict[str, Any] = {"tokenizer": "bytes", "on_error": "quarantine", "shard_bytes": 1 << 16}
    tokenize_here(folder / name, poison=poison, **{**more, **config})
    return folder / name


spans = st.tuples(st.integers(0, 62), st.integers(0, 62)).map(sorted)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=5, deadline=None)
@given(lines=spans, limit=st.none() | st.integers(1, 50))
def test_looking_at_suspects_one_by_one_changes_no_byte(
    kind: str, lines: list[int], limit: int | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = {**write(folder / "in", kind), "limit": limit}
        suspects = ((0, lines[0]), (0, lines[1]))
        if kind == "many":
            suspects = ((lines[0] // 10, 2), (lines[1] // 8, 3))
        usual = made(folder, "usual", config, None)
        careful = made(folder, "careful", config, Poison(suspects=suspects))
        assert tree(careful) == tree(usual)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "fields"])
def test_a_poison_record_is_a_bad_record(tmp_path: Path, kind: str) -> None:
    lines = (4, 5, 33, 59)
    reason = "a worker died of SIGSEGV on this record"
    shift = {33: 35, 59: 61} if kind == "jsonl" else {}  # the lines that are no records
    places = [(0, shift.get(line, line)) for line in lines]
    poison = Poison(
        records=tuple(
            PoisonRecord(task=0, place=place, reason=reason, lacks_memory=False) for place in places
        )
    )
    found = made(tmp_path, "poison", write(tmp_path / "in", kind), poison)
    bad = made(tmp_path, "bad", write(tmp_path / "other", kind, bad=lines), None)
    for name in ("shards", "index"):
        assert tree(found / name) == tree(bad / name)
    errors = [json.loads(line) for line in (found / "errors.jsonl").read_text().splitlines()]
    lost = [error["line"] for error in errors if error["reason"] == reason]
    assert lost == [line + 1 for _, line in places]
    assert [json.loads(e)["line"] for e in (bad / "errors.jsonl").read_text().splitlines()] == [
        error["line"] for error in errors
    ]
