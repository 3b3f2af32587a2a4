"""`estimate` tells what a run then makes; the tolerances stand in the tests."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli

RATES = {"tokenize": 1e4, "pack": 1e5, "plan_rows": 1e6}  # tokens a second


def write_corpora(folder: Path) -> Path:
    """Two corpora, the second of many small files, and a config that packs both in two lengths."""
    rng = random.Random(0)
    letters = "etaoin shrdlu ü中"

    def text(most: int) -> str:
        return "".join(rng.choices(letters, k=rng.randrange(20, most)))

    (folder / "many").mkdir()
    lines = [json.dumps({"text": text(2000)}, ensure_ascii=False) + "\n" for _ in range(1500)]
    (folder / "one.jsonl").write_text("".join(lines), encoding="utf-8")
    for i in range(40):
        line = json.dumps({"text": text(4000)}, ensure_ascii=False) + "\n"
        (folder / f"many/{i:03d}.jsonl").write_text(line, encoding="utf-8")
    config = folder / "c.yaml"
    config.write_text(
        "tokenizer: bytes\nout: out\nseq_lens: [256, 1024]\ncorpora:\n"
        "  one: {inputs: [one.jsonl]}\n  many: {inputs: [many]}\n"
    )
    return config


def test_an_estimate_is_near_what_the_run_makes(run_cli: RunCli, tmp_path: Path) -> None:
    config = write_corpora(tmp_path)
    told = json.loads(run_cli("estimate", config, "--json").stdout)
    assert not (tmp_path / "out").exists()
    run_cli("run", config, "-q")
    made = {
        name: json.loads((tmp_path / f"out/{name}/manifest.json").read_text())["counts"]
        for corpus in ("one", "many")
        for name in (f"{corpus}/tokenized", f"{corpus}/packed-256", f"{corpus}/packed-1024")
    }
    for corpus in told["corpora"]:
        counts = made[f"{corpus['name']}/tokenized"]
        assert corpus["tokens"] == pytest.approx(counts["tokens"], rel=0.05)
        assert corpus["documents"] == pytest.approx(counts["documents_written"], rel=0.1)
        assert corpus["places"] > 1
        for packed in corpus["packed"]:
            rows = made[f"{corpus['name']}/packed-{packed['seq_len']}"]["rows"]
            assert packed["rows"] == pytest.approx(rows, rel=0.1, abs=2)
    tokens = sum(made[f"{name}/tokenized"]["tokens"] for name in ("one", "many"))
    least, most = told["tokens_between"]
    assert least * 0.98 <= tokens <= most * 1.02
    files = ("arrayrecord", "npy")
    found = [p for p in (tmp_path / "out").rglob("*") if p.suffix[1:] in files and p.is_file()]
    assert told["disk_bytes"] == pytest.approx(sum(p.stat().st_size for p in found), rel=0.25)
    assert told["seconds"] > 0
    assert all(rate > 0 for corpus in told["corpora"] for rate in corpus["rates"].values())


def test_time_and_cost_follow_from_the_rates(run_cli: RunCli, tmp_path: Path) -> None:
    config = write_corpora(tmp_path)
    (tmp_path / "rates.json").write_text(json.dumps(RATES))
    words = ("estimate", config, "--rates", tmp_path / "rates.json", "--set", "seq_lens=[256]")

    def told(*more: Any) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(run_cli(*words, "--json", *more).stdout)
        return values

    alone = told("--workers", 1)
    tokens = alone["tokens"]
    assert alone["cost"] is None
    assert alone["seconds"] == pytest.approx(sum(tokens / rate for rate in RATES.values()))
    several = told("--workers", 4, "--nodes", 2, "--price-per-node-hour", 3)
    # Each corpus is one task, so that tokenizing it takes as long; packing is shared.
    shared = tokens / RATES["tokenize"] + tokens / RATES["pack"] / 8 + tokens / RATES["plan_rows"]
    assert {corpus["tasks"] for corpus in several["corpora"]} == {1}
    assert several["seconds"] == pytest.approx(shared)
    assert several["cost"] == pytest.approx(shared / 3600 * 2 * 3)
    assert several["core_seconds"] == pytest.approx(alone["core_seconds"])
    (tmp_path / "rates.json").write_text('{"tokenise": 1}')
    refused = run_cli(*words, check=False)
    assert refused.code == 2
    assert "unknown rate 'tokenise'; known: tokenize, pack, plan_rows" in refused.stderr
