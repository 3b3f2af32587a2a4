"""Budgets: no document has more tokens than it may, and what is cut is cut at the right places."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from conftest import Sample
from dataprep.configs.budget import FieldBudget
from dataprep.loaders import open_dataset
from dataprep.pipeline.documents.budgets import _Cut, _cut_all, by_priority, by_ratio, cuts_of
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.ragged import offsets_of
from support.inprocess import tokenize_here, write_lines
from support.trees import tree

texts = st.text("ab. \n!?", max_size=60)
fields = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.builds(
            FieldBudget,
            min=st.integers(0, 10),
            priority=st.integers(-2, 2),
            ratio=st.sampled_from([0.5, 1.0, 3.0]),
        ),
    ),
    min_size=1,
    max_size=5,
)


def of_bytes(texts: Sequence[str]) -> tuple[Any, Any]:
    """A tokenizer whose counts are easy: one token a byte."""
    data = [text.encode() for text in texts]
    ids = np.frombuffer(b"".join(data), np.uint8).astype(np.uint32)
    return ids, offsets_of([len(each) for each in data])


# --- shares ---


@given(fields, st.integers(0, 80))
def test_shares_fit_the_room_and_use_all_of_it(given: Any, room: int) -> None:
    needs, limits = [need for need, _ in given], [limit for _, limit in given]
    for share in (by_priority, by_ratio):
        found = share(needs, limits, room)
        assert sum(found) == min(sum(needs), room)
        assert all(0 <= got <= need for got, need in zip(found, needs, strict=True))


@given(fields, st.integers(0, 80))
def test_a_field_gives_way_only_to_higher_priorities_and_least_lengths(
    given: Any, room: int
) -> None:
    needs, limits = [need for need, _ in given], [limit for _, limit in given]
    found = by_priority(needs, limits, room)
    for i, limit in enumerate(limits):
        for j, other in enumerate(limits):
            if found[i] < needs[i] and limit.priority > other.priority:
                assert found[j] <= other.min


@given(fields, st.integers(0, 80))
def test_fields_that_are_cut_have_lengths_by_their_ratios(given: Any, room: int) -> None:
    needs, limits = [need for need, _ in given], [limit for _, limit in given]
    found = by_ratio(needs, limits, room)
    cut = [i for i, got in enumerate(found) if got < needs[i]]
    for i in cut:
        for j in cut:
            assert abs(found[i] / limits[i].ratio - found[j] / limits[j].ratio) <= 2 / 0.5


# --- cuts ---


@given(
    st.lists(st.tuples(texts, st.integers(1, 20)), max_size=5),
    st.integers(0, 3000),
    st.booleans(),
    st.sampled_from(["sentence", "word", "token"]),
)
def test_a_cut_is_the_last_that_fits(
    parts: list[tuple[str, int]], most: int, at_end: bool, truncate: Any
) -> None:
    text = "".join(part * times for part, times in parts)
    ids, _ = of_bytes([text])
    most = most % (len(ids) + 1)
    if most >= len(ids):
        return
    cut = _Cut(text=text, ids=ids, most=most, at_end=at_end)
    _cut_all([cut], truncate, of_bytes)
    expected = None
    for kind in {"sentence": ("sentence", "word"), "word": ("word",), "token": ()}[truncate]:
        found = [text[:c] if at_end else text[c:] for c in cuts_of(text, kind, at_end=at_end)]
        fitting = [part for part in found if 0 < len(part) <= most]
        if fitting:
            expected = max(fitting, key=len)
            break
    if expected is None:
        expected = text[:most] if at_end else text[len(text) - most :]
    assert bytes(cut.kept.astype(np.uint8)).decode() == expected


def test_sentences_words_and_lines() -> None:
    text = 'He said "Go." Then 3.5 left... 日本。終\n\n  End!'
    kept = [text[:c] for c in cuts_of(text, "sentence", at_end=True)]
    assert kept == [
        'He said "Go."',
        'He said "Go." Then 3.5 left...',
        'He said "Go." Then 3.5 left... 日本。',
        'He said "Go." Then 3.5 left... 日本。終',
    ]
    tails = [text[c:] for c in cuts_of(text, "sentence", at_end=False)]
    assert tails[:2] == ["End!", "終\n\n  End!"]


@pytest.mark.parametrize("unit", [".", " ", ".\n", "a", "a  ", "!' "])
def test_cuts_are_found_in_linear_time(unit: str) -> None:
    begun, text = time.process_time(), unit * 300_000
    for kind in ("sentence", "word"):
        for at_end in (True, False):
            cuts_of(text, kind, at_end=at_end)  # type: ignore[arg-type]
    assert time.process_time() - begun < 20


# --- documents ---


def tokenized(folder: Path, tokenizer: str, records: list[Any], **config: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer=tokenizer, **config)
    return open_dataset(folder / "out")


def test_the_field_of_lower_priority_is_cut(tmp_path: Path) -> None:
    records = [
        {"context": "One two. Three four five.", "answer": "Yes it is."},
        {"context": "Short.", "answer": "No."},
        {"answer": "Only this."},
    ]
    dataset = tokenized(
        tmp_path,
        "bytes",
        records,
        fields="[context?],answer",
        budget={"tokens": 24, "truncate": "sentence", "fields": {"answer": {"priority": 1}}},
    )
    documents = [dataset[i] for i in range(3)]
    said = [bytes(d["tokens"][1:-1].astype(np.uint8)).decode() for d in documents]
    assert said == ["One two.Yes it is.", "Short.No.", "Only this."]
    assert int(documents[0]["loss_mask"].sum()) == len("Yes it is.") + 1
    counts = dataset.manifest["counts"]
    assert counts["documents_truncated"] == 1
    assert counts["tokens_truncated"] == len(" Three four five.")


def test_the_end_of_a_field_may_be_kept_and_a_field_have_a_limit_of_its_own(tmp_path: Path) -> None:
    dataset = tokenized(
        tmp_path,
        "bytes",
        [{"a": "one two three", "b": "four five six"}],
        fields="a,b",
        budget={"truncate": "word", "fields": {"a": {"max": 9, "keep": "end"}, "b": {"max": 3}}},
    )
    assert bytes(dataset[0]["tokens"][1:-1].astype(np.uint8)).decode() == "two threefou"


@pytest.mark.parametrize("by", ["priority", "ratio"])
@pytest.mark.parametrize("truncate", ["sentence", "word", "token"])
def test_no_document_has_more_tokens_and_each_is_the_tokens_of_its_text(
    tmp_path: Path, sample: Sample, by: str, truncate: str
) -> None:
    tokenizer = Tokenizer.from_file(str(sample.tokenizer))
    text = "The river ran past the old mill. Nobody had seen it so high! Was it the rain? " * 9
    records = [
        {"q": text[i * 7 : i * 31], "hint": text[: i * 3] or None, "a": text[i * 11 : i * 40]}
        for i in range(1, 13)
    ]
    budget = {"tokens": 90, "by": by, "truncate": truncate, "fields": {"q": {"min": 20}}}
    dataset = tokenized(
        tmp_path, str(sample.tokenizer), records, fields="[q],hint?,a", budget=budget
    )
    whole = tokenized(tmp_path / "whole", str(sample.tokenizer), records, fields="[q],hint?,a")
    cut = 0
    for number in range(len(dataset)):
        document, before = dataset[number]["tokens"], whole[number]["tokens"]
        assert len(document) <= 90
        if len(before) <= 90:
            assert document.tolist() == before.tolist()
        else:
            cut += 1
            loss = dataset[number]["loss_mask"].astype(bool)
            kept = tokenizer.decode(document[~loss][1:].tolist())
            assert records[number]["q"].startswith(kept)
            if truncate != "token" and kept:
                assert tokenizer.encode(kept, add_special_tokens=False).ids == (
                    document[~loss][1:].tolist()
                )
    assert cut > 4
    assert dataset.manifest["counts"]["documents_truncated"] == cut


def test_bytes_do_not_depend_on_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataprep.pipeline.tokenize import worker

    records = [{"text": "One two three. Four five. " * (i % 30)} for i in range(200)]
    path = write_lines(tmp_path / "in.jsonl", records)
    config: dict[str, Any] = {
        "inputs": [str(path)],
        "tokenizer": "bytes",
        "budget": {"tokens": 100, "truncate": "sentence"},
    }
    tokenize_here(tmp_path / "a", **config)
    read = worker.read_piece
    monkeypatch.setattr(
        worker, "read_piece", lambda *args, **kw: read(*args, **{**kw, "batch_bytes": 900})
    )
    tokenize_here(tmp_path / "b", **config)
    assert tree(tmp_path / "a" / "shards") == tree(tmp_path / "b" / "shards")


def test_both_sides_of_a_preference_have_the_budget(tmp_path: Path) -> None:
    record = {"prompt": "abcdefgh", "chosen": "ijkl", "rejected": "mn"}
    dataset = tokenized(
        tmp_path,
        "bytes",
        [record],
        objective={"kind": "preference"},
        budget={"tokens": 10, "fields": {"completion": {"priority": 1}, "prompt": {"keep": "end"}}},
    )
    tokens = dataset[0]["tokens"]
    assert tokens.tolist() == [256, *b"efgh", *b"ijkl", 257, 256, *b"cdefgh", *b"mn", 257]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"budget": {"fields": {"txet": {"max": 3}}}}, "no text field"),
        ({"budget": {"tokens": 3}, "fields_from": "f"}, "fields_from"),
        ({"budget": {"tokens": 3}, "prepend_text": "x"}, "prepend_text"),
        ({"budget": {"tokens": 2}, "fields": "text,'fixed'"}, "cannot be cut"),
    ],
)
def test_budgets_that_do_not_suit_are_refused(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(Exception, match=said) as raised:
        tokenized(tmp_path, "bytes", [{"text": "abc"}], **config)
    assert isinstance(raised.value, ConfigError) or "line 1" in str(raised.value)
