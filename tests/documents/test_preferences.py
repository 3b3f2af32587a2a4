"""Preferences: chosen and rejected stay together, from the record to the batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.loaders import DataLoader, Preference, open_dataset
from dataprep.pipeline.documents.objectives.preference import _common
from dataprep.pipeline.errors import ConfigError, InputError
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines
from support.toy import write_toy_tokenizer

# BOS 1, EOS 2, space 99, a..z 100..
PAIR = {"prompt": "ab", "chosen": "c", "rejected": "de"}
TEMPLATE = (
    "{% for m in messages %}{{ '<s>' + m.role[0] + ' ' + m.content + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}<s>a {% endif %}"
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def tokenized(folder: Path, toy: Path, records: list[Any], **config: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer=str(toy), **config)
    return open_dataset(folder / "out")


def test_a_pair_is_one_document_of_two_sides(tmp_path: Path, toy: Path) -> None:
    dataset = tokenized(tmp_path, toy, [PAIR], objective={"kind": "preference"})
    document = dataset[0]
    assert document["tokens"].tolist() == [1, 100, 101, 102, 2, 1, 100, 101, 103, 104, 2]
    assert document["loss_mask"].astype(int).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1]
    assert document["rejected_mask"].astype(int).tolist() == [0] * 5 + [1] * 6
    assert dataset.manifest["masks"] == ["loss", "rejected"]
    counts = dataset.manifest["counts"]
    assert (counts["documents_read"], counts["documents_written"]) == (1, 1)


def test_without_a_prompt_it_is_what_both_begin_with(tmp_path: Path, toy: Path) -> None:
    records = [
        {"chosen": "ab cd", "rejected": "ab ef"},
        {"chosen": "ab", "rejected": "abc"},
        {"chosen": "x", "rejected": "y"},
    ]
    dataset = tokenized(tmp_path, toy, records, objective={"kind": "preference", "prompt": None})
    assert dataset[0]["tokens"].tolist()[:7] == [1, 100, 101, 99, 102, 103, 2]
    assert dataset[0]["loss_mask"].astype(int).tolist()[:7] == [0, 0, 0, 1, 1, 1, 1]
    assert dataset[1]["loss_mask"].astype(int).tolist() == [0, 0, 0, 1, 0, 0, 0, 1, 1]
    assert dataset[2]["loss_mask"].astype(int).tolist() == [0, 1, 1, 0, 1, 1]


@given(st.text("ab ", max_size=8), st.text("ab ", max_size=8))
def test_the_common_beginning_is_that_of_characters_one_by_one(left: str, right: str) -> None:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    assert _common(left, right) == count - (count > 0 and left[count - 1] == " ")
    assert _common(list(left), list(right)) == count


def test_kto_has_one_side_by_its_label(tmp_path: Path, toy: Path) -> None:
    records = [
        {"prompt": "a", "completion": "b", "label": True},
        {"prompt": "a", "completion": "c", "label": False},
    ]
    dataset = tokenized(tmp_path, toy, records, objective={"kind": "kto"})
    assert dataset[0]["tokens"].tolist() == [1, 100, 101, 2]
    assert not dataset[0]["rejected_mask"].any()
    assert dataset[1]["tokens"].tolist() == [1, 100, 102, 2]
    assert dataset[1]["rejected_mask"].all()
    assert dataset[1]["loss_mask"].astype(int).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("record", "objective", "reason"),
    [
        ({"prompt": "a", "chosen": "b"}, {"kind": "preference"}, "'rejected'"),
        ({**PAIR, "rejected": "c"}, {"kind": "preference"}, "are the same"),
        ({**PAIR, "chosen": [{"role": "user"}]}, {"kind": "preference"}, "set --chat"),
        ({"prompt": "a", "completion": "b", "label": "yes"}, {"kind": "kto"}, "true or false"),
    ],
)
def test_bad_records_are_told_once_with_their_line(
    tmp_path: Path, toy: Path, record: Any, objective: Any, reason: str
) -> None:
    good = PAIR if objective["kind"] == "preference" else {**record, "label": True}
    records = [good, record, good]
    dataset = tokenized(tmp_path, toy, records, objective=objective, on_error="quarantine")
    (line,) = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert json.loads(line)["line"] == 2
    assert reason in json.loads(line)["reason"]
    counts = dataset.manifest["counts"]
    assert (counts["documents_read"], counts["documents_written"]) == (3, 2)
    with pytest.raises(InputError, match="line 2 of"):
        tokenized(tmp_path / "again", toy, records, objective=objective)


def test_one_bad_side_makes_the_record_bad(tmp_path: Path, toy: Path) -> None:
    records = [PAIR, {**PAIR, "rejected": "<s>"}, {"prompt": "<s>", "chosen": "a", "rejected": "b"}]
    dataset = tokenized(
        tmp_path,
        toy,
        records,
        objective={"kind": "preference"},
        special_in_text="error",
        on_error="quarantine",
    )
    assert len(dataset) == 1
    lines = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines] == [2, 3]


def turns(*texts: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("record", "prompt"),
    [
        ({"chosen": turns("q", "x", "r", "c"), "rejected": turns("q", "x", "r", "d")}, None),
        (
            {
                "prompt": turns("q", "x", "r"),
                "chosen": [{"role": "assistant", "content": "c"}],
                "rejected": [{"role": "assistant", "content": "d"}],
            },
            "prompt",
        ),
        ({"prompt": turns("q", "x", "r"), "chosen": "c", "rejected": "d"}, "prompt"),
        (
            {
                "prompt": json.dumps(turns("q", "x", "r")),
                "chosen": {"from": "gpt", "value": "c"},
                "rejected": {"from": "gpt", "value": "d"},
            },
            "prompt",
        ),
    ],
)
def test_messages_are_rendered_by_the_template_with_loss_on_what_differs(
    tmp_path: Path, toy: Path, record: Any, prompt: str | None
) -> None:
    (tmp_path / "t.jinja").write_text(TEMPLATE)
    dataset = tokenized(
        tmp_path,
        toy,
        [record],
        objective={"kind": "preference", "prompt": prompt},
        chat={"template": str(tmp_path / "t.jinja")},
    )
    q, x, r, c, d = (100 + ord(letter) - 97 for letter in "qxrcd")
    u, a = 120, 100
    asked = [1, u, 99, q, 2, 1, a, 99, x, 2, 1, u, 99, r, 2]
    document = dataset[0]
    assert document["tokens"].tolist() == [*asked, 1, a, 99, c, 2, *asked, 1, a, 99, d, 2]
    assert document["loss_mask"].astype(int).tolist() == ([0] * 18 + [1, 1]) * 2
    assert document["rejected_mask"].astype(int).tolist() == [0] * 20 + [1] * 20


def test_preferences_name_their_keys_themselves(tmp_path: Path, toy: Path) -> None:
    with pytest.raises(ConfigError, match="leave fields out"):
        tokenized(tmp_path, toy, [PAIR], objective={"kind": "preference"}, fields="chosen")


@pytest.mark.parametrize("strategy", ["best_fit", "pad"])
def test_batches_have_both_sides_of_every_pair(
    tmp_path: Path, toy: Path, strategy: str, run_cli: RunCli
) -> None:
    records = [
        {"prompt": "ab" * (i % 4), "chosen": "c" * (i % 3 + 1), "rejected": "d" * (i % 5 + 1)}
        for i in range(30)
    ]
    tokenized(tmp_path, toy, records, objective={"kind": "preference"}, add_bos=False)
    packed = tmp_path / "packed"
    pack_here(packed, tmp_path / "out", seq_len=63, strategy=strategy)
    run_cli("verify", tmp_path / "out")
    run_cli("verify", packed)
    assert "rejected side" in run_cli("inspect", packed, "--row", "0").stdout
    found = []
    with DataLoader(packed, batch_size=1, epochs=1, view="preference") as loader:
        for batch in loader:
            assert {array.shape for array in batch.values()} == {(1, 63)}
            sides = []
            for side in ("chosen", "rejected"):
                segments = batch[f"{side}_segment_ids"][0]
                tokens, loss = batch[f"{side}_tokens"][0], batch[f"{side}_loss_mask"][0]
                assert not loss[segments == 0].any()
                sides.append(
                    [
                        (tokens[segments == s].tolist(), loss[segments == s].astype(int).tolist())
                        for s in range(1, segments.max() + 1)
                    ]
                )
            found += list(zip(*sides, strict=True))
    expected = []
    for record in records:
        sides = []
        for key in ("chosen", "rejected"):
            ids = [100 + ord(letter) - 97 for letter in record["prompt"] + record[key]]
            loss = [0] * len(record["prompt"]) + [1] * (len(record[key]) + 1)
            sides.append(([*ids, 2], [0, *loss[1:]]))  # nothing predicts the first token
        expected.append(tuple(sides))
    assert sorted(found) == sorted(expected)
    with (
        DataLoader(packed, batch_size=1, view=Preference(length=2)) as loader,
        pytest.raises(ConfigError, match="for length 2"),
    ):
        next(iter(loader))
    for view in ("hf", "lwm", "maxtext", "xlstm"):
        with pytest.raises(ConfigError, match=r"rejected answers.*use view='preference'"):
            DataLoader(packed, batch_size=1, view=view)
    with DataLoader(packed, batch_size=1, view="default") as loader:
        assert next(iter(loader))["rejected_mask"].any()
