"""Sequences of different lengths as one array.

    [[5, 6, 7], [8]]   right   5 6 7      left   5 6 7      cut to 2   right  5 6    left  6 7
                               8 0 0             0 0 8                        8 0          0 8

What is too long loses its end if padding is on the right, its start if it is on the left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError

Side = Literal["left", "right"]

# Types as TrainScale names them; both numpy and torch know them by these names.
DTYPES = {
    "long": "int64",
    "int": "int32",
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
}


def padded(
    sequences: Sequence[NDArray[Any]], value: int, length: int | None, side: Side
) -> NDArray[Any]:
    """Return sequences as rows of one length: that of the longest, unless one is given."""
    width = max(map(len, sequences)) if length is None else length
    kind = np.result_type(*sequences)
    if kind.kind == "u" and value < 0:
        kind = np.dtype(np.int64)  # as which TrainScale has all of them
    out = np.full((len(sequences), width), value, kind)
    for row, sequence in zip(out, sequences, strict=True):
        taken = min(len(sequence), width)
        if side == "right":
            row[:taken] = sequence[:taken]
        else:
            row[width - taken :] = sequence[len(sequence) - taken :]
    return out


def array_of(value: Any) -> NDArray[Any] | None:
    """Return numbers as an array of at most one dimension; None if the value is none.

    >>> array_of([1, 2]), array_of("text"), array_of([[1], [2, 3]])
    (array([1, 2]), None, None)
    """
    if isinstance(value, str | bytes | Mapping) or value is None:
        return None
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):  # ragged, or nothing that has numbers
        return None
    if found.ndim > 1 or found.dtype.kind not in "biuf":
        return None
    return found.astype(np.int64) if found.size == 0 and isinstance(value, list) else found


def tensors_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays as tensors of torch; bfloat16 is what numpy has no tensor of."""
    import torch

    found: dict[str, Any] = {}
    for name, value in batch.items():
        if not isinstance(value, np.ndarray):
            found[name] = value
        elif value.dtype.name == DTYPES["bfloat16"]:
            found[name] = torch.from_numpy(value.astype(np.float32)).to(torch.bfloat16)
        else:
            found[name] = torch.from_numpy(value)
    return found


def check_dtype(name: Any) -> None:
    if name not in tuple(DTYPES):
        raise ConfigError(f"dtype {shown(name)} is not one of {', '.join(DTYPES)}")


def dtype_of(name: str) -> np.dtype[Any]:
    """Return a type of numpy by TrainScale's name of it."""
    check_dtype(name)
    if name == "bfloat16":
        import jax.numpy as jnp

        found: np.dtype[Any] = np.dtype(jnp.bfloat16)
        return found
    return np.dtype(DTYPES[name])


def check_padding(side: str, **lengths: int | None) -> None:
    if side not in ("left", "right"):
        raise ConfigError(f"padding_side must be left or right, got {shown(side)}")
    for name, length in lengths.items():
        if length is not None:
            whole_number(name, length, least=1)
