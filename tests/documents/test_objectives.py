"""Objectives invert to the original, equal a slow oracle, and depend on the document alone."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.configs.objective import ObjectiveConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.documents.objectives import OBJECTIVES
from dataprep.pipeline.documents.objectives.draws import (
    GAMMA,
    RecordPlaces,
    below,
    happens,
    lengths_of_parts,
    mixed,
    subsets,
)
from dataprep.pipeline.documents.objectives.objective import Ends, Objective
from dataprep.pipeline.documents.objectives.spans import counts_of
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import dense_mask, runs_of_parts
from support.inprocess import tokenize_here, write_lines
from support.toy import write_toy_tokenizer

PRE, MID, SUF, EOT, BOS, EOS = 900, 901, 902, 903, 1, 2
FIRST_SENTINEL = 1000
MASKS = ("loss", "encoder")
LIMIT = 1 << 64
keys_of = st.integers(0, LIMIT - 1)
bodies = st.lists(st.integers(0, 40), min_size=1, max_size=8)


# --- a slow oracle: plain integers, one document after another ---


def number(key: int, counter: int) -> int:
    z = (key + (counter + 1) * GAMMA) % LIMIT
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % LIMIT
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % LIMIT
    return z ^ (z >> 31)


def number_below(key: int, counter: int, limit: int) -> int:
    return ((number(key, counter) >> 32) * limit) >> 32


def is_chosen(key: int, counter: int, rate: float) -> bool:
    return (number(key, counter) >> 11) * 2.0**-53 < rate


def some_of(key: int, size: int, count: int) -> set[int]:
    wanted = size - count if count > size // 2 else count
    found: set[int] = set()
    counter = 0
    while len(found) < wanted:
        for _ in range(wanted - len(found)):
            found.add(number_below(key, counter, size))
            counter += 1
    return found if wanted == count and count <= size // 2 else {*range(size)} - found


def parts_of(key: int, total: int, parts: int) -> list[int]:
    cuts = sorted(some_of(key, max(total - 1, 0), max(parts - 1, 0)))
    places = [0, *(cut + 1 for cut in cuts), total]
    return [b - a for a, b in pairwise(places)][:parts]


def pieces_of(body: list[int], most: int | None) -> list[list[int]]:
    count = 1 if most is None else max(-(-len(body) // most), 1)
    places = [i * len(body) // count for i in range(count + 1)]
    return [body[a:b] for a, b in pairwise(places)]


def slow_fim(body: list[int], key: int, *, rate: float, spm_rate: float) -> list[int]:
    if not body or not is_chosen(key, 0, rate):
        return body
    a, b = sorted(number_below(key, counter, len(body) + 1) for counter in (2, 3))
    prefix, middle, suffix = body[:a], body[a:b], body[b:]
    if is_chosen(key, 1, spm_rate):
        return [PRE, SUF, *suffix, MID, *prefix, *middle, EOT]
    return [PRE, *prefix, SUF, *suffix, MID, *middle, EOT]


def slow_spans(body: list[int], key: int, density: float, mean: float) -> tuple[list[int], ...]:
    (masked,), (spans,) = counts_of(np.array([len(body)]), density, mean)
    kept = parts_of(number(key, 0), len(body) - int(masked), int(spans))
    gone = parts_of(number(key, 1), int(masked), int(spans))
    encoder, decoder, place = [], [], 0
    for i, (keep, mask) in enumerate(zip(kept, gone, strict=True)):
        encoder += [*body[place : place + keep], FIRST_SENTINEL + i]
        decoder += [FIRST_SENTINEL + i, *body[place + keep : place + keep + mask]]
        place += keep + mask
    assert place == len(body)
    return [BOS, *encoder, EOS], [*decoder, EOS]


# --- inverses ---


def unfim(tokens: list[int]) -> list[int]:
    """The document that was rearranged."""
    if PRE not in tokens:
        return tokens
    start = tokens.index(PRE)
    suf, mid, eot = tokens.index(SUF), tokens.index(MID), tokens.index(EOT)
    prefix, suffix, middle = tokens[start + 1 : suf], tokens[suf + 1 : mid], tokens[mid + 1 : eot]
    return [*tokens[:start], *prefix, *middle, *suffix, *tokens[eot + 1 :]]


def unspan(encoder: list[int], decoder: list[int]) -> list[int]:
    """The document whose spans were masked."""
    spans: dict[int, list[int]] = {}
    for token in decoder:
        if token >= FIRST_SENTINEL:
            spans[token] = last = []
        else:
            last.append(token)
    return [t for token in encoder for t in spans.get(token, [token])]


# --- documents of numbers from 10 on ---


def documents_of(lengths: list[int], loss: list[bool] | None = None) -> Documents:
    texts = [[BOS, *range(10, 10 + length), EOS] for length in lengths]
    tokens = np.array([token for text in texts for token in text], np.uint16)
    flags = np.ones(len(tokens), bool) if loss is None else np.resize(np.array(loss), len(tokens))
    ones = np.ones(len(tokens), np.int64)
    return Documents(
        tokens=tokens,
        ends=np.cumsum([len(text) for text in texts]),
        masks=(runs_of_parts(flags, ones), runs_of_parts(np.zeros(len(tokens), bool), ones)),
    )


def lists_of(documents: Documents) -> list[list[int]]:
    return [part.tolist() for part in np.split(documents.tokens, documents.ends[:-1])]


def made_by(**config: Any) -> Objective:
    whole = ObjectiveConfig.model_validate(config)
    named = {
        "prefix": (PRE,),
        "middle": (MID,),
        "suffix": (SUF,),
        "eot": (EOT,),
        "sentinels": tuple(range(FIRST_SENTINEL, FIRST_SENTINEL + 100)),
    }
    ends = Ends(bos=np.array([BOS], np.uint32), eos=np.array([EOS], np.uint32))
    return OBJECTIVES[whole.kind].make(whole, named, ends)


# --- random numbers ---


@given(st.lists(keys_of, min_size=1, max_size=5), st.integers(0, 1 << 40), st.integers(1, 1 << 32))
def test_numbers_are_those_of_plain_integers(keys: list[int], counter: int, limit: int) -> None:
    array = np.array(keys, np.uint64)
    assert mixed(array, counter).tolist() == [number(key, counter) for key in keys]
    limits = np.full(len(keys), limit)
    expected = [number_below(key, counter, limit) for key in keys]
    assert below(array, counter, limits).tolist() == expected
    assert happens(array, counter, 0.3).tolist() == [is_chosen(key, counter, 0.3) for key in keys]


@given(st.lists(st.tuples(keys_of, st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6))
def test_subsets_are_those_of_the_oracle(wanted: list[tuple[int, int, int]]) -> None:
    keys = np.array([key for key, _, _ in wanted], np.uint64)
    sizes = np.array([size for _, size, _ in wanted])
    counts = np.array([min(count, size) for _, size, count in wanted])
    chosen = np.split(subsets(keys, sizes, counts, 0), np.cumsum(sizes)[:-1])
    for (key, size, count), flags in zip(wanted, chosen, strict=True):
        assert {*np.flatnonzero(flags).tolist()} == some_of(key, size, min(count, size))
        assert flags.sum() == min(count, size)


@pytest.mark.parametrize(("size", "count"), [(5, 2), (5, 3), (4, 4), (6, 1)])
def test_every_subset_is_equally_likely(size: int, count: int) -> None:
    tries = 20_000
    keys = mixed(np.array([7], np.uint64), np.arange(tries))
    flags = subsets(keys, np.full(tries, size), np.full(tries, count), 0).reshape(tries, size)
    _, seen = np.unique(flags @ (1 << np.arange(size)), return_counts=True)
    assert np.ptp(seen) < 6 * np.sqrt(tries / len(seen)) + 1


@given(st.lists(st.tuples(keys_of, st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6))
def test_parts_add_up(wanted: list[tuple[int, int, int]]) -> None:
    keys = np.array([key for key, _, _ in wanted], np.uint64)
    totals = np.array([total for _, total, _ in wanted])
    parts = np.array([min(count, total) for _, total, count in wanted])
    lengths = np.split(lengths_of_parts(keys, totals, parts, 0), np.cumsum(parts)[:-1])
    for (key, total, count), found in zip(wanted, lengths, strict=True):
        assert found.tolist() == parts_of(key, total, min(count, total))
        assert found.sum() == total
        assert (found > 0).all()


def test_a_key_is_of_the_source_and_the_byte_or_the_row_and_not_of_the_piece() -> None:
    def keys(firsts: list[int], rows: list[int], lines: list[int], at: list[int]) -> list[int]:
        places = RecordPlaces(
            firsts=np.array(firsts),
            sources=["a"] * len(firsts),
            first_lines=np.array(rows),
            starts=np.arange(len(rows)) * 1000,
        )
        return places.keys(3, np.array(lines), np.array(at)).tolist()

    # By rows: one piece of 4, or two of 2 that a batch joins.
    assert keys([0], [0], [0, 1, 2, 3], [-1] * 4) == keys([0, 2], [0, 2], [0, 1, 2, 3], [-1] * 4)
    # By bytes: in whatever piece.
    assert keys([0], [-1], [5], [77]) == keys([0, 4], [-1, -1], [9], [77])
    assert len({*keys([0, 2], [-1, -1], [0, 1, 2, 3], [-1] * 4)}) == 4


# --- fill in the middle ---


@given(bodies, st.data(), st.sampled_from([None, 16, 20]))
def test_fim_of_tokens_equals_the_oracle_and_inverts(
    lengths: list[int], data: st.DataObject, context: int | None
) -> None:
    keys = [data.draw(keys_of) for _ in lengths]
    objective = made_by(kind="fim", unit="token", rate=0.7, spm_rate=0.5, context=context)
    documents = documents_of(lengths)
    made = objective.of_documents(documents, MASKS, np.array(keys, np.uint64))
    most = None if context is None else context - 6
    expected, owner, originals = [], [], []
    for i, (document, key) in enumerate(zip(lists_of(documents), keys, strict=True)):
        parts = pieces_of(document[1:-1], most)
        for n, part in enumerate(parts):
            fim = slow_fim(part, number(key, n), rate=0.7, spm_rate=0.5)
            ends = [EOS] if n == len(parts) - 1 else []
            expected.append([*([BOS] if n == 0 else []), *fim, *ends])
            owner.append(i)
        originals.append(document)
    found = lists_of(made.documents)
    assert found == expected
    assert made.owner.tolist() == owner
    assert context is None or max(map(len, found)) <= context
    again = [
        [t for d, o in zip(found, owner, strict=True) if o == i for t in unfim(d)]
        for i in range(len(lengths))
    ]
    assert again == originals


@given(bodies, st.lists(st.booleans(), min_size=3, max_size=9), st.integers(0, 99))
def test_the_loss_of_a_token_moves_with_it_and_added_tokens_have_it(
    lengths: list[int], loss: list[bool], seed: int
) -> None:
    documents = documents_of(lengths, loss)
    objective = made_by(kind="fim", unit="token", rate=0.8)
    keys = mixed(np.array([seed], np.uint64), np.arange(len(lengths)))
    made = objective.of_documents(documents, MASKS, keys).documents
    old = np.split(dense_mask(documents.masks[0]), documents.ends[:-1])
    new = np.split(dense_mask(made.masks[0]), made.ends[:-1])
    for before, after, was, tokens in zip(
        lists_of(documents), lists_of(made), old, new, strict=True
    ):
        flags = dict(zip(before, was.tolist(), strict=True))
        assert [flags.get(token, True) for token in after] == tokens.tolist()


# --- span corruption ---


@given(bodies, st.data(), st.sampled_from([0.15, 0.5, 0.9]), st.sampled_from([1.0, 3.0, 8.0]))
def test_span_corruption_equals_the_oracle_and_inverts(
    lengths: list[int], data: st.DataObject, density: float, mean: float
) -> None:
    keys = [data.draw(keys_of) for _ in lengths]
    objective = made_by(kind="spans", noise_density=density, mean_span=mean, context=40)
    documents = documents_of(lengths)
    made = objective.of_documents(documents, MASKS, np.array(keys, np.uint64))
    expected, originals = [], []
    for document, key in zip(lists_of(documents), keys, strict=True):
        for n, part in enumerate(pieces_of(document[1:-1], objective.most)):  # type: ignore[attr-defined]
            expected.append(slow_spans(part, number(key, n), density, mean))
            originals.append(part)
    encoder_flags, loss = dense_mask(made.documents.masks[1]), dense_mask(made.documents.masks[0])
    assert (encoder_flags == ~loss).all()
    found = lists_of(made.documents)
    assert found == [[*encoder, *decoder] for encoder, decoder in expected]
    assert max(map(len, found)) <= 40
    flags = np.split(encoder_flags, made.documents.ends[:-1])
    for tokens, is_encoder, original in zip(found, flags, originals, strict=True):
        array = np.array(tokens)
        encoder, decoder = array[is_encoder].tolist(), array[~is_encoder].tolist()
        assert unspan(encoder[1:-1], decoder[:-1]) == original


def test_t5s_own_numbers() -> None:
    """568 tokens become 512 of encoder and 114 of decoder, EOS included, as in T5's code."""
    (masked,), (spans,) = counts_of(np.array([568]), 0.15, 3.0)
    assert (568 - masked + spans + 1, masked + spans + 1) == (512, 114)


# --- prefix-LM and seq2seq ---


@given(bodies, st.integers(0, 99), st.sampled_from([None, 16]))
def test_a_prefix_is_the_encoder_side_and_the_rest_has_loss(
    lengths: list[int], seed: int, context: int | None
) -> None:
    documents = documents_of(lengths)
    keys = mixed(np.array([seed], np.uint64), np.arange(len(lengths)))
    made = made_by(kind="prefix", context=context).of_documents(documents, MASKS, keys).documents
    assert made.tokens.tolist() == documents.tokens.tolist()
    assert {*documents.ends.tolist()} <= {*made.ends.tolist()}
    loss, encoder = dense_mask(made.masks[0]), dense_mask(made.masks[1])
    assert (loss == ~encoder).all()
    for flags in np.split(encoder, made.ends[:-1]):
        assert flags[0]
        assert (np.diff(flags.astype(int)) <= 0).all()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def tokenized(folder: Path, toy: Path, records: list[Any], **config: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer=str(toy), **config)
    return open_dataset(folder / "out")


def test_fields_without_loss_are_the_encoder_side(tmp_path: Path, toy: Path) -> None:
    records = [{"q": "ab", "a": "cd"}, {"q": "", "a": "e"}, {"q": "f", "a": ""}]
    dataset = tokenized(tmp_path, toy, records, fields="[q],a", objective={"kind": "seq2seq"})
    assert dataset[0]["tokens"].tolist() == [1, 100, 101, 102, 103, 2]
    assert dataset[0]["encoder_mask"].tolist() == [True] * 3 + [False] * 3
    assert dataset[1]["encoder_mask"].tolist() == [True, False, False]
    assert dataset.manifest["masks"] == ["loss", "encoder"]
    assert dataset.manifest["counts"]["encoder_tokens"] == 6


def test_a_record_without_an_encoder_side_is_bad(tmp_path: Path, toy: Path) -> None:
    records = [{"q": "ab", "a": "cd"}, {"q": "", "a": "e"}]
    dataset = tokenized(
        tmp_path,
        toy,
        records,
        fields="[q],a",
        objective={"kind": "seq2seq"},
        add_bos=False,
        on_error="quarantine",
    )
    assert len(dataset) == 1
    (line,) = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert json.loads(line)["line"] == 2
    assert "no encoder side" in json.loads(line)["reason"]


# --- characters, through the whole of tokenize ---

FIM: dict[str, Any] = {
    "kind": "fim",
    "rate": 0.8,
    "tokens": {"prefix": PRE, "middle": MID, "suffix": SUF, "eot": EOT},
}


@settings(max_examples=25)
@given(
    st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=12), st.integers(0, 9)
)
def test_fim_of_characters_equals_the_oracle_and_inverts(
    tmp_path_factory: pytest.TempPathFactory, toy_folder: Path, texts: list[str], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("fim")
    records = [{"text": text} for text in texts]
    dataset = tokenized(folder, toy_folder, records, objective={**FIM, "seed": seed})
    found = [dataset[i]["tokens"].tolist() for i in range(len(texts))]
    plain = [[BOS, *(100 + ord(c) - 97 for c in text), EOS] for text in texts]
    assert [unfim(tokens) for tokens in found] == plain
    lines = (folder / "in.jsonl").read_bytes().splitlines(keepends=True)
    source = dataset.manifest["sources"][0]["fingerprint"]
    places = RecordPlaces(
        firsts=np.zeros(1, np.int64),
        sources=[source],
        first_lines=np.array([-1]),
        starts=np.zeros(1, np.int64),
    )
    offsets = np.cumsum([0, *map(len, lines[:-1])])
    keys = places.keys(seed, np.arange(len(lines)), offsets).tolist()
    for tokens, body, key in zip(found, plain, keys, strict=True):
        assert tokens[1:-1] == slow_fim(body[1:-1], key, rate=0.8, spm_rate=0.5)


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"objective": {"kind": "fim"}}, "none of the tokens that are common"),
        ({"objective": {"kind": "fim", "tokens": {"prefix": 3}}}, "set all three"),
        ({"objective": {**FIM, "tokens": {"prefix": "<x>", "middle": 3, "suffix": 4}}}, "'<x>'"),
        ({"objective": FIM, "fields": "a,b"}, "objective.unit to token"),
        ({"objective": FIM, "fields_from": "f"}, "blocks of codes"),
        ({"objective": {**FIM, "unit": "token"}, "fields": "text,vision"}, "blocks of codes"),
        ({"objective": {"kind": "spans"}}, "no token '<extra_id_0>'"),
        ({"objective": {"kind": "spans", "sentinels": [3, 3]}}, "different ids"),
        ({"objective": {"kind": "spans", "sentinels": [3]}}, "set objective.context to 35"),
    ],
)
def test_objectives_that_do_not_suit_are_refused(
    tmp_path: Path, toy: Path, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        tokenized(tmp_path, toy, [{"text": "abc"}], **config)


def test_one_input_may_have_an_objective_of_its_own(tmp_path: Path, toy: Path) -> None:
    for name in ("a", "b"):
        write_lines(tmp_path / f"{name}.jsonl", [{"text": "abcdef"}] * 3)
    one = {"path": str(tmp_path / "a.jsonl"), "objective": {**FIM, "rate": 1}}
    inputs = [one, str(tmp_path / "b.jsonl")]
    tokenize_here(tmp_path / "out", inputs=inputs, tokenizer=str(toy))
    dataset: Any = open_dataset(tmp_path / "out")
    assert [PRE in dataset[i]["tokens"] for i in range(6)] == [True] * 3 + [False] * 3
