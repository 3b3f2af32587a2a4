"""`--dry-run` tells the truth: what would go wrong goes wrong, and the estimate is one."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from conftest import RunCli, Sample
from dataprep.configs.chat import ChatConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.tokenize import planned, preview
from support.chat import write_chat_tokenizer
from support.trees import tree

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs"]


def texts(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randrange(20, 60))) for _ in range(count)]


def write_jsonl(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sources of two kinds, of different lengths: the sample is a small part of each."""
    place = tmp_path / "in"
    write_jsonl(place / "a.jsonl", [{"text": text} for text in texts(4000, 0)])
    write_jsonl(place / "b.jsonl", [{"text": text * 9} for text in texts(400, 1)])
    pq.write_table(pa.table({"text": texts(2000, 2)}), place / "c.parquet")
    return place


def test_the_estimate_is_near_what_the_run_makes(
    run_cli: RunCli, sample: Sample, folder: Path, tmp_path: Path
) -> None:
    words = ("tokenize", folder, "--tokenizer", sample.tokenizer, "--out", tmp_path / "out")
    told = json.loads(run_cli(*words, "--dry-run", "--json").stdout)
    assert not (tmp_path / "out").exists()
    counts = json.loads(run_cli(*words, "--json").stdout)["counts"]
    assert told["sample"]["tokens"] < counts["tokens"] / 3
    assert told["estimated_tokens"] == pytest.approx(counts["tokens"], rel=0.1)
    size = sum(p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.suffix != ".json")
    assert told["estimated_bytes"] == pytest.approx(size, rel=0.4)
    assert told["free_bytes"] > 0
    assert told["estimated_cpu_seconds"] > 0


def test_a_corpus_whose_beginning_is_not_like_the_rest_is_estimated_by_all_of_it(
    run_cli: RunCli, tmp_path: Path
) -> None:
    """By its first records alone it would have forty times the tokens."""
    lines = [{"text": "x" * 5000, "meta": ""}] * 100 + [{"text": "y", "meta": "z" * 5000}] * 4000
    write_jsonl(tmp_path / "in.jsonl", lines)
    words = ("tokenize", "in.jsonl", "--tokenizer", "bytes", "--out", tmp_path / "out")
    told = json.loads(run_cli(*words, "--dry-run", "--json").stdout)
    counts = json.loads(run_cli(*words, "--json").stdout)["counts"]
    assert told["tasks"] > 4
    assert told["estimated_tokens"] < 10 * counts["tokens"]


def test_a_bad_record_in_the_middle_of_a_source_is_named_by_its_line(
    run_cli: RunCli, tmp_path: Path
) -> None:
    records: list[dict[str, Any]] = [{"text": "x" * 1000}] * 5000 + [{"txt": "x" * 1000}] * 5000
    write_jsonl(tmp_path / "in.jsonl", records)
    words = ("tokenize", "in.jsonl", "--tokenizer", "bytes", "--out", "o", "--dry-run")
    refused = run_cli(*words, check=False)
    assert refused.code == 3
    number = int(refused.stderr.split("line ")[1].split()[0])
    assert "txt" in records[number - 1]


def test_small_inputs_are_told_exactly(run_cli: RunCli, sample: Sample, tmp_path: Path) -> None:
    words = ("tokenize", sample.chat, "--fields", "[prompt],answer", "--out", tmp_path / "out")
    words = (*words, "--tokenizer", sample.tokenizer)
    told = json.loads(run_cli(*words, "--dry-run", "--json").stdout)
    counts = json.loads(run_cli(*words, "--json").stdout)["counts"]
    assert told["sample"]["documents"] == counts["documents_written"]
    assert told["estimated_tokens"] == told["sample"]["tokens"] == counts["tokens"]


def test_the_first_document_is_shown_with_its_mask(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    words = ("tokenize", sample.chat, "--fields", "[prompt],answer", "--tokenizer")
    shown = run_cli(*words, sample.tokenizer, "--out", tmp_path / "out", "--dry-run").stdout
    first = json.loads(sample.chat.read_text().splitlines()[0])
    assert f"line 1 of {sample.chat}" in shown
    assert f"{first['prompt']}]{first['answer']}" in shown
    assert "in all, about:" in shown
    assert "free" in shown


def test_the_time_is_that_of_the_workers_that_have_work(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    words = ("tokenize", sample.text, "--out", tmp_path / "out", "--dry-run", "-j", "8")
    shown = run_cli(*words, "--tokenizer", sample.tokenizer).stdout
    assert "less than 1 s with 1 worker, less with a fast engine\n" in shown
    shown = run_cli(*words, "--tokenizer", sample.tokenizer, "--engine", "tokenizers").stdout
    assert "less than 1 s with 1 worker\n" in shown
    assert "1 worker\n" in run_cli(*words, "--tokenizer", "bytes").stdout  # has no other engine


@pytest.mark.parametrize("fields", ["question", "text,number"])
def test_wrong_fields_fail_in_a_dry_run(run_cli: RunCli, tmp_path: Path, fields: str) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "number": [1.5]}])
    words = ("tokenize", tmp_path / "a.jsonl", "--tokenizer", "bytes", "--fields", fields)
    done = run_cli(*words, "--out", tmp_path / "out", "--dry-run", check=False)
    assert done.code == 3
    assert "a.jsonl (byte 0): field" in done.stderr
    before = run_cli(*words, "--out", tmp_path / "out", check=False)
    assert before.stderr.splitlines()[-1] == done.stderr.splitlines()[-1]


def test_every_source_is_looked_at(run_cli: RunCli, tmp_path: Path) -> None:
    place = tmp_path / "in"
    for number in range(30):
        write_jsonl(place / f"{number:02}.jsonl", [{"text": "abc"}])
    write_jsonl(place / "30.jsonl", [{"text": "abc"}, {"texts": "abc"}])
    words = ("tokenize", place, "--tokenizer", "bytes", "--out", tmp_path / "out", "--dry-run")
    before = tree(tmp_path)
    done = run_cli(*words, check=False)
    assert done.code == 3
    assert "line 2 of " in done.stderr
    assert "30.jsonl (byte 16): field 'text' is missing" in done.stderr
    told = json.loads(run_cli(*words, "--on-error", "skip", "--json").stdout)
    assert (told["sample"]["documents"], told["sample"]["bad"]) == (31, 1)
    assert "30.jsonl (byte 16): field 'text' is missing" in told["sample"]["first_bad"]
    assert tree(tmp_path) == before


def test_a_limit_bounds_the_estimate(run_cli: RunCli, folder: Path, tmp_path: Path) -> None:
    words = ("tokenize", folder, "--tokenizer", "bytes", "--out", tmp_path / "out", "--json")
    told = json.loads(run_cli(*words, "--dry-run", "--limit", "100").stdout)
    made = json.loads(run_cli(*words, "--limit", "100").stdout)
    assert told["estimated_tokens"] == pytest.approx(made["counts"]["tokens"], rel=0.2)


def test_a_dry_run_reads_no_more_than_the_limit(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"text": "good"}, {"bad": 1}])
    words = ("tokenize", tmp_path / "a.jsonl", "--tokenizer", "bytes", "--out", tmp_path / "out")
    told = json.loads(run_cli(*words, "--limit", "1", "--dry-run", "--json").stdout)
    assert told["sample"]["documents"] == 1
    assert run_cli(*words, "--dry-run", check=False).code == 3


def test_an_optional_field_that_no_record_has_is_told(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "m": {"u": "x"}}, {"text": "b", "hint": "h"}])
    words = ("tokenize", tmp_path / "a.jsonl", "--tokenizer", "bytes", "--out", tmp_path / "out")
    fields = ("--fields", "text,hint?,m.u?,texts?,m.v?", "--dry-run")
    told = json.loads(run_cli(*words, *fields, "--json").stdout)
    assert told["sample"]["never_there"] == ["m.v", "texts"]
    assert "none of these records has the optional field 'texts'" in run_cli(*words, *fields).stdout


def test_the_estimate_of_compressed_files_and_tables_is_near_too(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    """Apart and together: a compressed file grows, a table stores what repeats once."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts(4000, 0)).encode()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "b.jsonl.bz2").write_bytes(bz2.compress(lines))
    (tmp_path / "c.jsonl.xz").write_bytes(lzma.compress(lines))
    (tmp_path / "d.jsonl.zst").write_bytes(zstandard.compress(lines))
    table = pa.table({"text": texts(3000, 1), "more": ["unread" * 50] * 3000})
    pq.write_table(table, tmp_path / "e.parquet", compression="zstd", row_group_size=1000)
    pq.write_table(pa.table({"text": texts(1, 2) * 9000}), tmp_path / "f.parquet")
    files = sorted(tmp_path.glob("?.*"))
    words = ("tokenize", "--tokenizer", "bytes", "--out", "out", "--dry-run", "--json")
    told = {p.name: json.loads(run_cli(*words, p).stdout)["estimated_tokens"] for p in files}
    made = json.loads(run_cli(*words[:-2], *files, "--json").stdout)["counts"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    true = {Path(source["path"]).name: source["tokens"] for source in manifest["sources"]}
    assert told == pytest.approx(true, rel=0.15)
    whole = json.loads(run_cli(*words, *files, "--overwrite").stdout)["estimated_tokens"]
    assert whole == pytest.approx(made["tokens"], rel=0.1)


def test_the_estimate_of_one_compressed_text_is_near(run_cli: RunCli, tmp_path: Path) -> None:
    text = " ".join(texts(3000, 0)).encode()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    words = ("tokenize", tmp_path / "a.txt.gz", "--tokenizer", "bytes", "--out", tmp_path / "out")
    told = json.loads(run_cli(*words, "--dry-run", "--json").stdout)
    assert told["estimated_tokens"] == pytest.approx(len(text), rel=0.1)


def test_a_table_whose_first_rows_are_unlike_the_others_is_estimated_by_its_bytes(
    run_cli: RunCli, tmp_path: Path
) -> None:
    short, long = texts(6000, 0), [text * 20 for text in texts(900, 1)]
    long = [f"{i} {text}" for i, text in enumerate(long)]
    words = ("tokenize", "--tokenizer", "bytes", "--out", "out", "--dry-run", "--json")
    true = sum(len(text) + 2 for text in (*short, *long))
    for rows in (short + long, long + short):
        pq.write_table(pa.table({"text": rows, "id": range(6900)}), tmp_path / "a.parquet")
        told = json.loads(run_cli(*words, "a.parquet").stdout)
        assert told["estimated_tokens"] == pytest.approx(true, rel=0.2)


def test_what_is_learned_of_a_chat_template_once_is_not_counted_for_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "what"}]
    write_jsonl(tmp_path / "in.jsonl", [{"messages": turns}] * 4000)
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer")
    clock = [0.0]
    took = iter((10.0, 0.1))  # seconds, the first time and the second
    process = preview.process_together

    def slow(*args: Any) -> Any:
        clock[0] += next(took)
        return process(*args)

    monkeypatch.setattr(preview, "process_together", slow)
    monkeypatch.setattr(preview.time, "process_time", lambda: clock[0])
    config = TokenizeConfig(
        inputs=(str(tmp_path / "in.jsonl"),),  # type: ignore[arg-type]
        tokenizer=str(tokenizer),
        out=str(tmp_path / "out"),
        chat=ChatConfig(),
    )
    with planned(config, tmp_path / "cache") as (plan, _):
        found = preview.preview_of(plan)
    times = 4000 / found.documents
    assert found.cpu_seconds == pytest.approx(10 + 0.1 * times, abs=0.3)
