"""Examples of different lengths to a batch, as TrainScale's collate functions make them.

    {"input_ids": [5, 6, 7], "attention_mask": [1, 1, 1], "labels": [5, 6, 7]}     padded right:
    {"input_ids": [8],       "attention_mask": [1],       "labels": [8]}

    input_ids 5 6 7    attention_mask 1 1 1    labels 5    6    7      causal:   6    7 -100
              8 0 0                   1 0 0           8 -100 -100             -100 -100 -100

Where TrainScale is wrong, this is right: return_tensors=False gives arrays of numpy; types of a
schema count for every key; lists are padded like tensors; `chosen_labels` and the like are masked,
too; under padding on the left no pad predicts the first token; decoder_start_token_id is used where
an example has labels alone. Its causal form shifts to the left, whatever its documentation says,
and so does this: models of transformers, which shift by themselves, want create_collate_fn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.compat.trainscale.arrays import (
    Side,
    array_of,
    check_dtype,
    check_padding,
    dtype_of,
    padded,
    tensors_of,
)
from dataprep.loaders.schedule import whole_number
from dataprep.pipeline.errors import InputError

Example = Mapping[str, Any]
Collate = Callable[[Sequence[Example]], dict[str, Any]]

IGNORED = -100


@dataclass(frozen=True)
class TensorSpec:
    """The type of an array, and what it is padded with."""

    dtype: str = "long"
    pad_value: int | None = None
    requires_grad: bool = False

    def __post_init__(self) -> None:
        check_dtype(self.dtype)


@dataclass(frozen=True)
class OutputSchema:
    """The types of a batch; those of TrainScale's own are taken, too."""

    input_ids: TensorSpec = field(default_factory=TensorSpec)
    attention_mask: TensorSpec = field(default_factory=TensorSpec)
    labels: TensorSpec = field(default_factory=TensorSpec)
    extras: dict[str, TensorSpec] = field(default_factory=dict)


@dataclass(frozen=True)
class CollateFn:
    """What `create_collate_fn` makes; it can be pickled, as workers of torch need it."""

    pad_token_id: int
    label_pad_token_id: int
    padding_side: Side
    max_length: int | None
    output_schema: Any  # OutputSchema, or one of TrainScale's
    return_tensors: bool
    shift: bool = False  # labels one to the left

    def __call__(self, batch: Sequence[Example]) -> dict[str, Any]:
        if not batch:
            return {}
        found = {name: self._padded(name, batch) for name in batch[0]}
        if self.shift and "labels" not in found and "input_ids" in found:
            found["labels"] = found["input_ids"].copy()
        for name in [name for name in found if name.endswith("labels")]:
            found[name] = self._masked(name, found)
        found = {name: self._typed(name, value) for name, value in found.items()}
        return tensors_of(found) if self.return_tensors else found

    def _padded(self, name: str, batch: Sequence[Example]) -> Any:
        """Return the values of a name as rows, or as they are if they are no numbers."""
        values = values_of(name, batch)
        arrays = [array_of(value) for value in values]
        if any(array is None for array in arrays):
            return values
        if all(array.ndim == 0 for array in arrays if array is not None):
            return np.array(values)
        rows = [np.atleast_1d(array) for array in arrays if array is not None]
        return padded(rows, self._pad_value(name), self.max_length, self.padding_side)

    def _pad_value(self, name: str) -> int:
        if name.endswith("input_ids"):
            return self.pad_token_id
        if name.endswith("labels"):
            return self.label_pad_token_id
        spec = self._spec(name)
        return (spec.pad_value if spec else None) or 0

    def _masked(self, name: str, found: Mapping[str, Any]) -> Any:
        """Return labels that are ignored where the attention mask of the same prefix is 0."""
        labels, mask = found[name], found.get(name.removesuffix("labels") + "attention_mask")
        if not isinstance(labels, np.ndarray):
            return labels
        if mask is not None and mask.shape != labels.shape:
            raise InputError(
                f"{name} are {labels.shape}, but their attention_mask is {mask.shape}: "
                "an example must have as many labels as tokens"
            )
        is_out = np.zeros(labels.shape, bool) if mask is None else mask == 0
        labels = np.where(is_out, self.label_pad_token_id, labels)
        if self.shift and name == "labels":  # what is masked neither predicts nor is predicted
            labels = shifted(labels, self.label_pad_token_id)
            labels = np.where(is_out, self.label_pad_token_id, labels)
        return labels

    def _typed(self, name: str, value: Any) -> Any:
        spec = self._spec(name)
        if spec is None and name.endswith("labels"):
            spec = getattr(self.output_schema, "labels", None) or TensorSpec()
        if spec is None or not isinstance(value, np.ndarray):
            return value
        return value.astype(dtype_of(spec.dtype), copy=False)

    def _spec(self, name: str) -> Any:
        """Return what the schema says of a name; None if nothing."""
        if self.output_schema is None:
            return None
        extras = self.output_schema.extras
        return extras[name] if name in extras else getattr(self.output_schema, name, None)


@dataclass(frozen=True)
class Seq2SeqCollate:
    """What `create_seq2seq_collate` makes."""

    pad_token_id: int
    decoder_start_token_id: int
    max_length: int | None
    max_target_length: int | None
    return_tensors: bool = True

    def __call__(self, batch: Sequence[Example]) -> dict[str, Any]:
        if not batch:
            return {}
        ids = self._rows("input_ids", batch)
        masks = self._rows("attention_mask", batch, ones_like=ids)
        found = {
            "input_ids": self._pad(ids, self.pad_token_id, self.max_length),
            "attention_mask": self._pad(masks, 0, self.max_length),
        }
        labels = self._rows("labels", batch) if "labels" in batch[0] else None
        found |= self._decoder(batch, labels)
        if labels is not None:
            found["labels"] = self._pad(labels, IGNORED, self.max_target_length)
        return tensors_of(found) if self.return_tensors else found

    def _decoder(
        self, batch: Sequence[Example], labels: Sequence[NDArray[Any]] | None
    ) -> dict[str, Any]:
        """Return the inputs of the decoder, as the examples have them, or labels after a start."""
        if "decoder_input_ids" in batch[0]:
            ids = self._rows("decoder_input_ids", batch)
        elif labels is not None:
            ids = [self._after_start(one) for one in labels]
        else:
            return {}
        masks = self._rows("decoder_attention_mask", batch, ones_like=ids)
        return {
            "decoder_input_ids": self._pad(ids, self.pad_token_id, self.max_target_length),
            "decoder_attention_mask": self._pad(masks, 0, self.max_target_length),
        }

    def _after_start(self, labels: NDArray[Any]) -> NDArray[Any]:
        moved = np.concatenate([[self.decoder_start_token_id], labels[:-1]])[: len(labels)]
        return np.where(moved == IGNORED, self.pad_token_id, moved)

    def _rows(
        self, name: str, batch: Sequence[Example], ones_like: Sequence[NDArray[Any]] = ()
    ) -> list[NDArray[Any]]:
        """Return the sequences of a name; `ones_like`: where an example lacks it."""
        if not ones_like:
            return [sequence_of(name, i, v) for i, v in enumerate(values_of(name, batch))]
        return [
            sequence_of(name, i, one[name]) if name in one else np.ones(len(ids), np.int64)
            for i, (one, ids) in enumerate(zip(batch, ones_like, strict=True))
        ]

    def _pad(self, rows: Sequence[NDArray[Any]], value: int, length: int | None) -> NDArray[Any]:
        return padded(rows, value, length, "right")


def create_collate_fn(
    pad_token_id: int = 0,
    label_pad_token_id: int = IGNORED,
    padding_side: Side = "right",
    max_length: int | None = None,
    output_schema: Any = None,
    return_tensors: bool = True,
) -> Collate:
    """Return a function that pads examples to the longest of them, or to `max_length`."""
    whole_number("pad_token_id", pad_token_id)
    check_padding(padding_side, max_length=max_length)
    return CollateFn(
        pad_token_id, label_pad_token_id, padding_side, max_length, output_schema, return_tensors
    )


def create_causal_lm_collate(
    pad_token_id: int = 0,
    max_length: int | None = None,
    padding_side: Side = "right",
    *,
    return_tensors: bool = True,
) -> Collate:
    """Return the same, with labels that are the next token, for models that do not shift them."""
    whole_number("pad_token_id", pad_token_id)
    check_padding(padding_side, max_length=max_length)
    return CollateFn(
        pad_token_id, IGNORED, padding_side, max_length, None, return_tensors, shift=True
    )


def create_seq2seq_collate(
    pad_token_id: int = 0,
    decoder_start_token_id: int = 0,
    max_length: int | None = None,
    max_target_length: int | None = None,
    *,
    return_tensors: bool = True,
) -> Collate:
    """Return a function that pads inputs of an encoder and of a decoder, each to a length."""
    whole_number("pad_token_id", pad_token_id)
    check_padding("right", max_length=max_length, max_target_length=max_target_length)
    return Seq2SeqCollate(
        pad_token_id, decoder_start_token_id, max_length, max_target_length, return_tensors
    )


def pad_sequence_right(
    sequences: Sequence[Any], padding_value: int = 0, max_length: int | None = None
) -> Any:
    """Return sequences as one tensor, padded and cut on the right."""
    return _padded_tensor(sequences, padding_value, max_length, "right")


def pad_sequence_left(
    sequences: Sequence[Any], padding_value: int = 0, max_length: int | None = None
) -> Any:
    """Return sequences as one tensor, padded and cut on the left."""
    return _padded_tensor(sequences, padding_value, max_length, "left")


def _padded_tensor(sequences: Sequence[Any], value: int, length: int | None, side: Side) -> Any:
    check_padding(side, max_length=length)
    rows = [sequence_of("sequences", i, one) for i, one in enumerate(sequences)]
    return tensors_of({"": padded(rows, value, length, side)})[""]


def shifted(labels: NDArray[Any], ignored: int) -> NDArray[Any]:
    """
    >>> shifted(np.array([[5, 6, 7]]), -100)
    array([[   6,    7, -100]])
    """
    out = np.full_like(labels, ignored)
    out[:, :-1] = labels[:, 1:]
    return out


def values_of(name: str, batch: Sequence[Example]) -> list[Any]:
    for i, example in enumerate(batch):
        if name not in example:
            raise InputError(
                f"example {i} of the batch has no {name!r} (keys: {', '.join(example)}), which "
                "others have"
            )
    return [example[name] for example in batch]


def sequence_of(name: str, i: int, value: Any) -> NDArray[Any]:
    array = array_of(value)
    if array is None or array.ndim != 1:
        raise InputError(f"{name} of example {i} is no sequence of numbers: {value!r:.80}")
    return array
