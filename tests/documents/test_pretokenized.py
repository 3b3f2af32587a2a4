"""Token ids come in as they are, from every kind of source, or are refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.tokenize import plan_of
from support.inprocess import Seen, documents_of, tokenize_here, write_lines
from support.toy import write_toy_tokenizer

VOCAB = 126


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def test_ids_are_taken_as_they_are(tmp_path: Path, tokenizer: Path) -> None:
    records = [{"ids": [100, 101, 2]}, {"ids": []}, {"ids": [1, 102]}]
    assert documents_of(tmp_path, tokenizer, records, pretokenized="ids") == [
        Seen(tokens=[100, 101, 2], loss=[1, 1, 1]),
        Seen(tokens=[1, 102], loss=[1, 1]),
    ]
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["counts"]["documents_empty"], manifest["masks"]) == (1, ["loss"])


def test_labels_masks_and_weights_say_what_has_loss(tmp_path: Path, tokenizer: Path) -> None:
    record = {
        "ids": [100, 101, 102, 103],
        "labels": [-100, 101, -100, 103],
        "mask": [0, 1, 1, 0],
        "flags": [True, False, True, True],
        "weights": [0, 0.5, 1, 2],
    }

    def loss_of(name: str, **keys: str) -> list[int]:
        own = {"tokens": "ids", **keys}
        (document,) = documents_of(tmp_path / name, tokenizer, [record], pretokenized=own)
        assert document.tokens == record["ids"]
        return document.loss

    assert loss_of("labels", labels="labels") == [0, 1, 0, 1]
    assert loss_of("mask", loss_mask="mask") == [0, 1, 1, 0]
    assert loss_of("flags", loss_mask="flags") == [1, 0, 1, 1]
    assert loss_of("weights", weights="weights") == [0, 1, 1, 1]
    assert loss_of("both", weights="weights", labels="labels") == [0, 1, 0, 1]
    weights = open_dataset(tmp_path / "weights/out")[0]["loss_weights"]
    assert weights[1:].tolist() == [0.5, 1, 2]


def test_padding_is_left_out_by_the_attention_mask(tmp_path: Path, tokenizer: Path) -> None:
    records = [
        {"ids": [0, 0, 100, 2], "a": [0, 0, 1, 1], "labels": [0, 0, -100, 2]},
        {"ids": [101, 0, 0, 0], "a": [1, 0, 0, 0], "labels": [101, 0, 0, 0]},
        {"ids": [0, 0, 0, 0], "a": [0, 0, 0, 0], "labels": [0, 0, 0, 0]},
        {"ids": [100, 2, -1, VOCAB], "a": [1, 1, 0, 0], "labels": [-100, 2, -7, 8]},
    ]
    keys = {"tokens": "ids", "attention_mask": "a", "labels": "labels"}
    assert documents_of(tmp_path, tokenizer, records, pretokenized=keys, keys="content") == [
        Seen(tokens=[100, 2], loss=[0, 1]),
        Seen(tokens=[101], loss=[1]),
        Seen(tokens=[100, 2], loss=[0, 1]),
    ]
    (shard,) = json.loads((tmp_path / "out/manifest.json").read_text())["shards"]
    contents = np.load(tmp_path / "out" / shard["keys"]["path"])["content"].tolist()
    assert contents[0] == contents[2] != contents[1]  # however much padding there was


def test_bos_and_eos_are_added_only_if_that_is_said(tmp_path: Path, tokenizer: Path) -> None:
    records = [{"ids": [100], "w": [0.5]}, {"ids": [101, 102], "w": [0, 3]}]
    keys = {"tokens": "ids", "weights": "w"}
    settings = {"pretokenized": keys, "add_bos": True, "add_eos": True}
    assert documents_of(tmp_path, tokenizer, records, **settings) == [
        Seen(tokens=[1, 100, 2], loss=[0, 1, 1]),
        Seen(tokens=[1, 101, 102, 2], loss=[0, 0, 1, 1]),
    ]
    assert open_dataset(tmp_path / "out")[1]["loss_weights"].tolist() == [0, 0, 3, 1]


BAD: list[tuple[Any, str]] = [
    ({"ids": [100, VOCAB]}, "field 'ids' has id 126 at position 1, outside the vocabulary of 126"),
    ({"ids": [100, -1]}, "field 'ids' has id -1 at position 1, outside the vocabulary"),
    ({"ids": [100, 1.0]}, "field 'ids' holds float 1.0 at position 1; token ids are whole"),
    ({"ids": [100, None]}, "field 'ids' holds null at position 1; token ids are whole numbers"),
    ({"ids": [100, True]}, "field 'ids' holds bool True at position 1"),
    ({"ids": ["100"]}, "field 'ids' holds str '100' at position 0"),
    ({"ids": [[100]]}, "field 'ids' is a nested list; give the token ids of a record as one flat"),
    ({"ids": None}, "field 'ids' must be a list of token ids, got null"),
    ({"ids": "abc"}, "field 'ids' must be a list of token ids, got str 'abc'"),
    ({"ids": [1 << 70]}, "field 'ids' holds "),
    ({"other": [1]}, "field 'ids' is missing (keys: l, m, other, w); set --pretokenized"),
    ({"l": [100, 101, 102]}, "field 'l' has 3 values for 2 tokens of 'ids'; give one for each"),
    ({"l": [100, 100]}, "field 'l' has 100 at position 1, where the token is 101; a label is its"),
    ({"l": [101, -100]}, "they look shifted by one: move them back"),
    ({"l": [-1, -100]}, "field 'l' has -1 at position 0, where the token is 100"),
    ({"w": [1, -1]}, "field 'w' has -1 at position 1; weights are 0, or within"),
    ({"w": [1, 1e9]}, "field 'w' has 1e+09 at position 1"),
    ({"m": [1, 2]}, "field 'm' has 2 at position 1; use 1 for tokens, 0 for padding"),
    ({"m": [1]}, "field 'm' has 1 value for 2 tokens of 'ids'"),
    ({"ids": [100, 101, 1], "l": [-100] * 3, "w": [1] * 3, "m": [1, 0, 1]}, "has padding between"),
]
GOOD = {"ids": [100, 101], "l": [-100, 101], "w": [0.0, 1.0], "m": [1, 1]}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_bad_record_is_refused_with_the_reason(
    form: str, tmp_path: Path, tokenizer: Path
) -> None:
    bad = [({k: v for k, v in GOOD.items() if k != "ids" or "other" not in r} | r) for r, _ in BAD]
    keys = {"tokens": "ids", "labels": "l", "weights": "w", "attention_mask": "m"}
    told: list[str] = []
    for i, record in enumerate(bad):
        path = tmp_path / f"{i}.{form}"
        if form == "jsonl":
            write_lines(path, [GOOD, record])
        else:
            try:
                pq.write_table(pa.Table.from_pylist([record]), path)
            except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError):
                told.append(BAD[i][1])  # no table can hold it
                continue
        settings = {"inputs": [str(path)], "tokenizer": str(tokenizer), "pretokenized": keys}
        with pytest.raises(InputError) as error:
            tokenize_here(tmp_path / f"out{i}", **settings)
        assert f"{i}.{form}" in str(error.value)
        told.append(str(error.value))
    if form == "jsonl":
        assert all("line 2 of" in each for each in told)
    # A table has types for its columns, so that a whole column is wrong.
    of_tables = {
        "holds float 1.0": "field 'ids' holds float64 numbers; token ids are whole numbers",
        "is missing": "column 'ids' not in",
    }
    for (_, reason), text in zip(BAD, told, strict=True):
        other = [v for k, v in of_tables.items() if k in reason and form == "parquet"]
        assert any(each in text for each in [*other, reason]), text


def test_bad_records_are_quarantined_one_by_one(tmp_path: Path, tokenizer: Path) -> None:
    records = [{"ids": [100]}, {"ids": [500]}, {"ids": [101]}, {"ids": [1.5]}, {"ids": [102]}]
    settings = {"pretokenized": "ids", "on_error": "quarantine"}
    seen = documents_of(tmp_path, tokenizer, records, **settings)
    assert [document.tokens for document in seen] == [[100], [101], [102]]
    lines = (tmp_path / "out/errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines] == [2, 4]


def numpy_documents(records: list[dict[str, Any]]) -> list[Seen]:
    """What the documents must be, one record and token at a time."""
    found = []
    for record in records:
        kept = [i for i, own in enumerate(record["a"]) if own]
        if kept:
            tokens = [record["ids"][i] for i in kept]
            found.append(Seen(tokens=tokens, loss=[int(record["labels"][i] != -100) for i in kept]))
    return found


@st.composite
def one_record(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(st.integers(0, VOCAB - 1), max_size=9))
    left, right = draw(st.integers(0, len(ids))), draw(st.integers(0, len(ids)))
    return {
        "ids": ids,
        "labels": [i if draw(st.booleans()) else -100 for i in ids],
        "a": [int(left <= place < len(ids) - right) for place in range(len(ids))],
    }


@settings(max_examples=8, deadline=None)
@given(records=st.lists(one_record(), min_size=1, max_size=8))
def test_every_source_gives_the_same_documents(tokenizer: Path, records: list[Any]) -> None:
    keys = {"tokens": "ids", "labels": "labels", "attention_mask": "a"}
    expected = numpy_documents(records)
    table = pa.Table.from_pylist(
        records, pa.schema([(key, pa.list_(pa.int32())) for key in ("ids", "labels", "a")])
    )
    with TemporaryDirectory() as folder:
        top = Path(folder)
        write_lines(top / "a.jsonl", records)
        (top / "a.json").write_text(json.dumps(records, indent=1))
        pq.write_table(table, top / "a.parquet", row_group_size=3)
        with pa.ipc.new_file(top / "a.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=2)
        for name in ("a.jsonl", "a.json", "a.parquet", "a.arrow"):
            out = top / f"out-{name}"
            settings = {"inputs": [str(top / name)], "tokenizer": str(tokenizer)}
            tokenize_here(out, **settings, pretokenized=keys, allow_empty=True, keys="content")
            documents = open_dataset(out)
            found = [documents[i] for i in range(len(documents))]
            assert [
                Seen(tokens=d["tokens"].tolist(), loss=d["loss_mask"].astype(int).tolist())
                for d in found
            ] == expected, name


def test_a_folder_that_datasets_saved_comes_in(tmp_path: Path, tokenizer: Path) -> None:
    import datasets

    saved = datasets.Dataset.from_dict(
        {"input_ids": [[100, 101], [102]], "labels": [[-100, 101], [102]], "text": ["ab", "c"]}
    )
    saved.save_to_disk(str(tmp_path / "saved"))
    settings: dict[str, Any] = {
        "inputs": [{"path": str(tmp_path / "saved"), "pretokenized": {"tokens": "input_ids"}}],
        "tokenizer": str(tokenizer),
    }
    tokenize_here(tmp_path / "out", **settings)
    documents = open_dataset(tmp_path / "out")
    assert [documents[i]["tokens"].tolist() for i in range(2)] == [[100, 101], [102]]


def test_equal_ids_have_equal_keys_unless_their_loss_differs(
    tmp_path: Path, tokenizer: Path
) -> None:
    from dataprep.pipeline.storage.keys import read_keys
    from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest

    records = [
        {"ids": [100, 101], "m": [1, 1]},
        {"ids": [100, 101], "m": [1, 1]},
        {"ids": [100, 101], "m": [0, 1]},
    ]
    keys = {"tokens": "ids", "loss_mask": "m"}
    documents_of(tmp_path, tokenizer, records, pretokenized=keys, keys="content")
    manifest = read_manifest(tmp_path / "out")
    assert isinstance(manifest, TokenizedManifest)
    content = read_keys(tmp_path / "out", manifest.shards[0])["content"]
    assert np.array_equal(content[0], content[1])
    assert not np.array_equal(content[1], content[2])


def test_texts_and_ids_may_be_inputs_of_one_dataset(tmp_path: Path, tokenizer: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"text": "ab"}])
    write_lines(tmp_path / "b.jsonl", [{"ids": [102]}])
    ids = {"path": str(tmp_path / "b.jsonl"), "pretokenized": "ids"}
    settings: dict[str, Any] = {"inputs": [str(tmp_path / "a.jsonl"), ids]}
    tokenize_here(tmp_path / "out", **settings, tokenizer=str(tokenizer))
    documents = open_dataset(tmp_path / "out")
    assert [documents[i]["tokens"].tolist() for i in range(2)] == [[1, 100, 101, 2], [102]]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"fields": "a"}, "has both pretokenized and fields 'a': records are token ids"),
        ({"chat": {}}, "has both pretokenized and chat"),
        ({"objective": {"kind": "fim"}}, "has both pretokenized and objective"),
        ({"prepend_text": "x"}, "has both pretokenized and prepend_text 'x'"),
        ({"pretokenized": {"tokens": "a", "labels": "b", "loss_mask": "c"}}, "has both labels 'b'"),
        ({"pretokenized": {"tokens": "a", "weights": "a"}}, "weights 'a' is the key of ids"),
        ({"pretokenized": {"labels": "b"}}, "tokens"),
        ({"pretokenized": ""}, "at least 1 character"),
    ],
)
def test_settings_that_do_not_go_with_ids_are_refused(settings: Any, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason.replace("(", r"\(")):
        TokenizeConfig.model_validate({"pretokenized": "ids", **settings})


def test_an_input_of_ids_has_no_objective(tmp_path: Path, tokenizer: Path) -> None:
    path = write_lines(tmp_path / "b.jsonl", [{"ids": [102]}])
    config = TokenizeConfig.model_validate(
        {
            "inputs": [{"path": str(path), "pretokenized": "ids"}],
            "tokenizer": str(tokenizer),
            "objective": {"kind": "fim"},
        }
    )
    with pytest.raises(ConfigError, match=r"objective|fim"):
        plan_of(config, tmp_path / "cache")


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ([1, 2], "has lengths of 3 tokens in all, but 'ids' has 2"),
        ([2, 0], "has 0 at position 1; documents have 1 token or more"),
        ([3, -1], "has 3 at position 0"),
        # In 64 bits they add up to 2.
        ([1 << 62, 1 << 62, 1 << 62, 1 << 62, 2], "has 4611686018427387904 at position 0"),
    ],
)
def test_lengths_that_no_document_has_are_refused(
    lengths: list[int], reason: str, tmp_path: Path, tokenizer: Path
) -> None:
    record = {"ids": [100, 101], "n": lengths}
    keys = {"tokens": "ids", "lengths": "n"}
    with pytest.raises(InputError, match=reason):
        documents_of(tmp_path, tokenizer, [record], pretokenized=keys)
