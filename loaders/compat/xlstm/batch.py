"""xlstm-jax's batches: records of arrays that jax maps over.

targets               1 2 3 E 4 5 E 0
inputs                E 1 2 3 E 4 5 E
segmentation (both)   1 1 1 1 2 2 2 0
position     (both)   0 1 2 3 0 1 2 0
document borders      1 0 0 0 1 0 0 1
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

ARRAYS = (
    "inputs",
    "targets",
    "inputs_position",
    "inputs_segmentation",
    "targets_position",
    "targets_segmentation",
)


def get_document_borders(segmentation: Any) -> Any:
    """Return where documents begin, the first column included: where a recurrent state is reset.

    >>> get_document_borders(np.array([[1, 1, 2, 2, 0]]))
    array([[ True, False,  True, False,  True]])
    """
    kind = np if isinstance(segmentation, np.ndarray) else jnp
    changes = segmentation[:, :-1] != segmentation[:, 1:]
    return kind.pad(changes, ((0, 0), (1, 0)), constant_values=True)


class _Slices:
    """Slicing all arrays at once, and replacing some."""

    def __getitem__(self, key: Any) -> Self:
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        if "_document_borders" in values:
            values["_document_borders"] = self.get_document_borders()  # type: ignore[attr-defined]
        return type(self)(**{name: _cut(value, key) for name, value in values.items()})

    def replace(self, **changes: Any) -> Self:
        return replace(self, **changes)  # type: ignore[type-var]


def _cut(value: Any, key: Any) -> Any:
    if not isinstance(value, np.ndarray | jax.Array):
        return value
    return value[key[: value.ndim] if isinstance(key, tuple | list) else key]


@dataclass(frozen=True)
class Batch(_Slices):
    inputs: Any
    targets: Any


@dataclass(frozen=True, kw_only=True)
class LLMBatch(Batch):
    inputs_position: Any  # i32[B, L], as all of them
    inputs_segmentation: Any  # 0: padding
    targets_position: Any
    targets_segmentation: Any  # 0: no loss
    _document_borders: Any = None  # of a slice, which cannot tell them

    def get_document_borders(self) -> Any:
        if self._document_borders is not None:
            return self._document_borders
        return get_document_borders(self.inputs_segmentation)

    @classmethod
    def from_inputs(cls, inputs: Any, targets: Any = None, **more: Any) -> Self:
        """Return a batch of rows that are one document each; without targets, inputs are those."""
        if targets is None:
            targets = inputs
            inputs = np.pad(inputs, ((0, 0), (1, 0)))[:, :-1]
        position = jnp.broadcast_to(jnp.arange(inputs.shape[1], dtype=jnp.int32), inputs.shape)
        ones = jnp.ones(inputs.shape, jnp.int32)
        return cls(
            inputs=inputs,
            targets=targets,
            inputs_position=position,
            inputs_segmentation=ones,
            targets_position=position,
            targets_segmentation=ones,
            **more,
        )

    @classmethod
    def get_dtype_struct(cls, batch_size: int, max_length: int) -> Self:
        """Return the shapes and types of a batch."""
        return cls(**dict.fromkeys(ARRAYS, _shape(batch_size, max_length)))

    @classmethod
    def get_sample(cls, batch_size: int, max_length: int) -> Self:
        """Return a batch of zeros."""
        shapes = cls.get_dtype_struct(batch_size, max_length)
        sample: Self = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)
        return sample


@dataclass(frozen=True, kw_only=True)
class LLMIndexedBatch(LLMBatch):
    """A batch that knows which document, and which part of it, each row is; document 0: padding."""

    document_idx: Any
    sequence_idx: Any

    @classmethod
    def get_dtype_struct(cls, batch_size: int, max_length: int) -> Self:
        arrays = dict.fromkeys(ARRAYS, _shape(batch_size, max_length))
        return cls(**arrays, document_idx=_shape(batch_size), sequence_idx=_shape(batch_size))


def _shape(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


for _kind in (Batch, LLMBatch, LLMIndexedBatch):
    jax.tree_util.register_dataclass(_kind, [one.name for one in fields(_kind)], [])
