"""TrainScale's collate functions, as arrays of numpy; its wrappers need torch."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.loaders.compat import trainscale
from dataprep.pipeline.errors import ConfigError, InputError

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
SIDES = st.sampled_from(["left", "right"])
CUTS = st.none() | st.integers(1, 12)


def examples_of(lengths: list[int]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(len(lengths))
    found = []
    for length in lengths:
        ids = rng.integers(1, 99, length)
        labels = np.where(np.arange(length) < length // 3, -100, ids)
        found.append({"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": labels})
    return found


def padded(rows: list[Any], value: int, length: int | None, side: str) -> Any:
    """TrainScale's rule, a token at a time."""
    width = length or max(map(len, rows))
    found = []
    for row in [list(map(int, row)) for row in rows]:
        blank = [value] * (width - len(row))
        found.append(row[:width] + blank if side == "right" else blank + row[-width:])
    return found


@given(LENGTHS, SIDES, CUTS, st.sampled_from([-100, -1]))
def test_examples_are_padded_to_the_longest_or_to_a_length(
    lengths: list[int], side: Any, cut: int | None, ignored: int
) -> None:
    examples = examples_of(lengths)
    batch = trainscale.create_collate_fn(7, ignored, side, cut, return_tensors=False)(examples)
    values = {"input_ids": 7, "attention_mask": 0, "labels": ignored}
    for name, value in values.items():
        assert batch[name].dtype == np.int64
        wanted = padded([one[name] for one in examples], value, cut, side)
        assert batch[name].tolist() == wanted


@given(LENGTHS, SIDES, CUTS)
def test_causal_labels_are_the_next_token_and_no_pad_predicts(
    lengths: list[int], side: Any, cut: int | None
) -> None:
    examples = examples_of(lengths)
    plain = trainscale.create_collate_fn(0, -100, side, cut, return_tensors=False)(examples)
    batch = trainscale.create_causal_lm_collate(0, cut, side, return_tensors=False)(examples)
    wanted = np.full_like(plain["labels"], -100)
    wanted[:, :-1] = plain["labels"][:, 1:]
    wanted[plain["attention_mask"] == 0] = -100
    assert batch["labels"].tolist() == wanted.tolist()
    assert batch["input_ids"].tolist() == plain["input_ids"].tolist()


def test_tokens_that_a_mask_leaves_out_neither_predict_nor_are_predicted() -> None:
    ids = [5, 6, 7, 8, 9]
    examples = [{"input_ids": ids, "attention_mask": [1, 1, 0, 1, 1], "labels": ids}]
    batch = trainscale.create_causal_lm_collate(return_tensors=False)(examples)
    assert batch["labels"].tolist() == [[6, -100, -100, 9, -100]]


def test_unsigned_labels_are_padded_with_a_negative_number() -> None:
    examples = [{"labels": np.array(ids, np.uint16)} for ids in ([1, 2], [3])]
    batch = trainscale.create_collate_fn(return_tensors=False)(examples)
    assert batch["labels"].tolist() == [[1, 2], [3, -100]]


def test_a_causal_batch_without_labels_predicts_its_tokens() -> None:
    examples = [{"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1]}]
    batch = trainscale.create_causal_lm_collate(return_tensors=False)(examples)
    assert batch["labels"].tolist() == [[6, 7, -100]]


def test_a_decoder_begins_with_its_start_token() -> None:
    examples = [
        {"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1], "labels": [8, 9, 2]},
        {"input_ids": [5], "labels": [4]},
    ]
    collate = trainscale.create_seq2seq_collate(0, 99, 2, 4, return_tensors=False)
    batch = {name: tensor.tolist() for name, tensor in collate(examples).items()}
    assert batch == {
        "input_ids": [[5, 6], [5, 0]],
        "attention_mask": [[1, 1], [1, 0]],
        "decoder_input_ids": [[99, 8, 9, 0], [99, 0, 0, 0]],
        "decoder_attention_mask": [[1, 1, 1, 0], [1, 0, 0, 0]],
        "labels": [[8, 9, 2, -100], [4, -100, -100, -100]],
    }


def test_inputs_of_a_decoder_that_are_given_stay() -> None:
    examples = [
        {"input_ids": [5], "decoder_input_ids": [1, 8], "labels": [8, 9]},
        {"input_ids": [6], "decoder_input_ids": [1], "labels": [8]},
    ]
    collate = trainscale.create_seq2seq_collate(0, 99, return_tensors=False)
    batch = collate(examples)
    assert batch["decoder_input_ids"].tolist() == [[1, 8], [1, 0]]
    assert batch["labels"].tolist() == [[8, 9], [8, -100]]
    assert {*collate([{"input_ids": [5]}])} == {"input_ids", "attention_mask"}


def test_types_of_a_schema_count_for_every_array() -> None:
    spec = trainscale.TensorSpec
    schema = trainscale.OutputSchema(
        input_ids=spec("int"),
        attention_mask=spec("bool"),
        labels=spec("int"),
        extras={"position_ids": spec("int", pad_value=-1), "scores": spec("bfloat16")},
    )
    example = {"position_ids": [0, 1], "scores": [0.5, 1.0], "text": "kept", "number": 3}
    examples = [{**one, **example} for one in examples_of([2, 2])]
    examples[1]["position_ids"] = [0]
    batch = trainscale.create_collate_fn(output_schema=schema, return_tensors=False)(examples)
    assert batch.pop("text") == ["kept", "kept"]
    assert {name: array.dtype.name for name, array in batch.items()} == {
        "input_ids": "int32",
        "attention_mask": "bool",
        "labels": "int32",
        "position_ids": "int32",
        "scores": "bfloat16",
        "number": "int64",
    }
    assert batch["position_ids"].tolist() == [[0, 1], [0, -1]]
    assert batch["number"].tolist() == [3, 3]


def test_labels_of_preference_pairs_are_masked_by_their_own_mask() -> None:
    pairs = [
        {"chosen_labels": [5, 6], "chosen_attention_mask": [0, 1], "chosen_input_ids": [5, 6]},
        {"chosen_labels": [7], "chosen_attention_mask": [1], "chosen_input_ids": [7]},
    ]
    batch = trainscale.create_collate_fn(3, return_tensors=False)(pairs)
    assert batch["chosen_labels"].tolist() == [[-100, 6], [7, -100]]
    assert batch["chosen_input_ids"].tolist() == [[5, 6], [7, 3]]


def test_a_collate_function_can_be_pickled() -> None:
    for make in ("create_collate_fn", "create_causal_lm_collate", "create_seq2seq_collate"):
        collate = getattr(trainscale, make)(pad_token_id=3)
        copy = pickle.loads(pickle.dumps(collate))
        assert copy == collate
        assert copy([]) == {}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([{"input_ids": [1]}, {"ids": [1]}], "example 1 of the batch has no 'input_ids'"),
        ([{"labels": [1, 2], "attention_mask": [1]}], "as many labels as tokens"),
    ],
)
def test_examples_that_do_not_fit_are_errors(batch: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        trainscale.create_collate_fn(return_tensors=False)(batch)


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(ConfigError, match="padding_side must be left or right"):
        trainscale.create_collate_fn(padding_side="both")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_length must be at least 1"):
        trainscale.create_collate_fn(max_length=0)
    with pytest.raises(ConfigError, match="pad_token_id must be a whole number, got None"):
        trainscale.create_causal_lm_collate(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="dtype 'double' is not one of long, int"):
        trainscale.TensorSpec("double")
    theirs = SimpleNamespace(labels=SimpleNamespace(dtype="complex", pad_value=None), extras={})
    collate = trainscale.create_collate_fn(output_schema=theirs)
    with pytest.raises(ConfigError, match="is not one of long, int"):
        collate(examples_of([1]))
