"""Tokens that packing leaves out are said loudly, and the documents they are of are listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.pack.corpus import DocumentPieces
from dataprep.pipeline.pack.lost import find_lost
from dataprep.pipeline.pack.strategies import STRATEGIES, cut_windows
from support.inprocess import write_lines


class Lengths:
    """As much of a corpus as is asked for."""

    def __init__(self, lengths: list[int]) -> None:
        self._lengths = np.array(lengths, np.int64)

    @property
    def num_documents(self) -> int:
        return len(self._lengths)

    def lengths_of(self, document: np.ndarray) -> np.ndarray:
        return self._lengths[document]


@settings(max_examples=300, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), max_size=30),
    seq_len=st.integers(1, 12),
    strategy=st.sampled_from(list(STRATEGIES)),
    overflow=st.sampled_from(["split", "truncate", "drop"]),
    truncate_side=st.sampled_from(["left", "right"]),
    drop_tail=st.booleans(),
    window=st.sampled_from([1, 3, 7, 1 << 22]),
)
def test_every_document_with_lost_tokens_is_found_and_no_other(
    lengths: list[int], window: int, **config: Any
) -> None:
    settings = PackConfig.model_validate({**config, "window": window})
    chunks = [np.array(lengths[i : i + 4], np.int64) for i in range(0, len(lengths), 4)]
    windows = cut_windows(chunks, settings.seq_len + 1, window=window)
    plans = list(STRATEGIES[settings.strategy].plan(windows, settings, lambda window: None))
    in_rows: list[set[int]] = [set() for _ in lengths]
    for plan in plans:
        for document, start, length in zip(plan.document, plan.start, plan.length, strict=True):
            in_rows[document].update(range(start, start + length))
    pieces = [DocumentPieces(document=p.document, start=p.start, length=p.length) for p in plans]
    found = list(find_lost(Lengths(lengths), pieces))
    listed = [row for part in found for row in zip(*(c.tolist() for c in part[:3]), strict=True)]
    kept = [len(tokens) for tokens in in_rows]
    every = enumerate(zip(kept, lengths, strict=True))
    assert listed == [(i, k, n - k) for i, (k, n) in every if k < n]
    counts = [plan.counts for plan in plans]
    assert len(listed) == sum(c.documents_truncated + c.documents_dropped for c in counts)
    lost = sum(c.tokens_truncated + c.tokens_dropped for c in counts)
    assert sum(n for _, _, n in listed) == lost
    assert sum(part.num_split for part in found) == sum(c.documents_split for c in counts)


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), max_size=30),
    seq_len=st.integers(1, 12),
    strategy=st.sampled_from(list(STRATEGIES)),
    window=st.sampled_from([1, 3, 7, 1 << 22]),
    data=st.data(),
)
def test_what_is_lost_with_rows_that_are_left_out_is_found(
    lengths: list[int], window: int, data: st.DataObject, **config: Any
) -> None:
    settings = PackConfig.model_validate({**config, "window": window})
    windows = cut_windows([np.array(lengths, np.int64)], settings.seq_len + 1, window=window)
    in_rows: list[set[int]] = [set() for _ in lengths]
    longest = [0] * len(lengths)
    pieces = []
    for plan in STRATEGIES[settings.strategy].plan(windows, settings, lambda window: None):
        rows = data.draw(st.lists(st.booleans(), min_size=plan.num_rows, max_size=plan.num_rows))
        stays = np.repeat(np.array(rows, bool), np.diff(plan.row_offsets))
        columns = (plan.document[stays], plan.start[stays], plan.length[stays])
        pieces.append(DocumentPieces(document=columns[0], start=columns[1], length=columns[2]))
        for document, start, length in zip(*columns, strict=True):
            in_rows[document].update(range(start, start + length))
            longest[document] = max(longest[document], length)
    found = list(find_lost(Lengths(lengths), pieces))
    listed = [row for part in found for row in zip(*(c.tolist() for c in part[:3]), strict=True)]
    every = list(enumerate(zip(map(len, in_rows), lengths, strict=True)))
    assert listed == [(i, k, n - k) for i, (k, n) in every if k < n]
    num_split = sum(longest[i] < n for i, (k, n) in every if k == n)
    assert sum(part.num_split for part in found) == num_split


@pytest.mark.parametrize(
    ("overflow", "said", "kept"),
    [
        ("truncate", "2 documents truncated, 80 tokens (50.0%) lost", 17),
        ("drop", "2 documents dropped, 114 tokens (71.2%) lost", 0),
    ],
)
def test_truncation_says_tokens_and_share_and_lists_the_documents(
    run_cli: RunCli, tmp_path: Path, overflow: str, said: str, kept: int
) -> None:
    for name, sizes in (("a", [10, 40, 8]), ("b", [7, 70, 13])):
        path = write_lines(tmp_path / f"{name}.jsonl", [{"text": "x" * n} for n in sizes])
        run_cli("tokenize", path, "--tokenizer", "bytes", "--out", name)
    words = ["pack", "a", "b", "--seq-len", "16", "--overflow", overflow, "--out", "p"]
    assert said in run_cli(*words, "--dry-run").stdout
    ran = run_cli(*words)
    assert said in ran.stdout
    assert "listed in p/provenance/lost.jsonl" in ran.stdout
    path = tmp_path / "p" / "provenance" / "lost.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"dataset": "a", "document": 1, "kept": kept, "lost": 42 - kept},
        {"dataset": "b", "document": 1, "kept": kept, "lost": 72 - kept},
    ]
    assert "p/provenance/lost.jsonl" in run_cli("stats", "p").stdout
    run_cli("verify", "p")
    path.write_text("")
    assert run_cli("verify", "p", check=False).code == 5


def test_nothing_is_said_or_listed_if_nothing_is_lost(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "x" * 40}])
    run_cli("tokenize", path, "--tokenizer", "bytes", "--out", "a")
    ran = run_cli("pack", "a", "--seq-len", "16", "--out", "p")
    assert "; 1 document split; " in ran.stdout
    assert "lost" not in ran.stdout
    assert not (tmp_path / "p" / "provenance" / "lost.jsonl").exists()


def test_rows_that_are_left_out_say_their_tokens(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"a": "xx", "b": ""}, {"a": "y", "b": "zzzzzzz"}])
    flags = ["--fields", "[a],b", "--no-add-bos", "--no-add-eos"]
    run_cli("tokenize", path, "--tokenizer", "bytes", "--out", "a", *flags)
    words = ["pack", "a", "--seq-len", "7", "--strategy", "pad", "--drop-empty-targets"]
    said = run_cli(*words, "--out", "p").stdout
    assert "1 row without a target, 2 tokens (20.0%) lost" in said
    run_cli("verify", "p")


@pytest.mark.parametrize("strategy", ["best_fit", "concat", "pad"])
def test_documents_are_counted_and_listed_alike_if_rows_are_left_out(
    run_cli: RunCli, tmp_path: Path, strategy: str
) -> None:
    """Of some, all rows lack a target; of others, some do."""
    sizes = [(3, 0), (40, 0), (40, 40), (0, 40), (5, 5), (60, 3), (2, 2)]
    rows = [{"a": "x" * a, "b": "y" * b} for a, b in sizes]
    flags = ["--fields", "[a],b", "--no-add-bos", "--no-add-eos", "--tokenizer", "bytes"]
    run_cli("tokenize", write_lines(tmp_path / "in.jsonl", rows), "--out", "a", *flags)
    words = ["pack", "a", "--seq-len", "7", "--strategy", strategy, "--drop-empty-targets"]
    counts = json.loads(run_cli(*words, "--out", "p", "--json").stdout)["counts"]
    assert counts["rows_dropped"]
    run_cli("verify", "p")
    lists = {
        fate: json.loads(run_cli("inspect", "p", "--list", fate, "--json").stdout)
        for fate in ("truncated", "dropped", "split")
    }
    for fate, found in lists.items():
        assert len(found) == counts[f"documents_{fate}"], fate
    assert 1 in {one["document"] for one in lists["dropped"]}  # 40 tokens without a target
    assert counts["documents_written"] == len(sizes) - len(lists["dropped"])
    groups = json.loads(run_cli("stats", "p", "--by", "file", "--json").stdout)["groups"]
    assert sum(group["documents"] for group in groups) == counts["documents_written"]
