"""What xlstm-jax makes of records of token ids, in plain NumPy: the rules for the drop-in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = (
    "inputs",
    "targets",
    "inputs_position",
    "inputs_segmentation",
    "targets_position",
    "targets_segmentation",
)


def row_of(ids: Sequence[int], length: int, eod: int, *, add_eod: bool) -> dict[str, Any]:
    """A record alone in its row: EOD at its end where it fits, a document ends with each EOD."""
    tokens = [*ids, eod] if add_eod and 0 < len(ids) < length else [*ids]
    targets = np.array([*tokens, *[0] * (length - len(tokens))], np.int32)
    inputs = np.concatenate(([eod], targets[:-1])).astype(np.int32)
    segments, positions, document, position = [], [], 0, 0
    for i in range(length):
        if i == 0 or inputs[i] == eod:
            document, position = document + 1, 0
        is_there = i < len(tokens)
        segments.append(document if is_there else 0)
        positions.append(position if is_there else 0)
        position += 1
    arrays = (inputs, targets, positions, segments, positions, segments)
    return {name: np.array(array, np.int32) for name, array in zip(NAMES, arrays, strict=True)}


def batches_of(
    records: Sequence[Sequence[int]],
    length: int,
    eod: int,
    *,
    host: int,
    hosts: int,
    batch: int,
    add_eod: bool,
    drop_remainder: bool,
    max_steps: int | None,
) -> list[dict[str, NDArray[Any]]]:
    """The batches of a host over one epoch; what pads the dataset has no token."""
    own = [*records]
    if not drop_remainder:
        own += [[]] * (-len(own) % batch)
    if max_steps is not None:
        own = own[: max_steps * batch]
    steps = len(own) // batch if drop_remainder else -(-len(own) // batch)
    sizes = [len(own) // hosts + (h < len(own) % hosts) for h in range(hosts)]
    own = own[sum(sizes[:host]) : sum(sizes[: host + 1])]
    rows = [row_of(ids, length, eod, add_eod=add_eod) for ids in own]
    step = batch // hosts
    parts = [rows[i : i + step] for i in range(0, len(rows), step)]
    parts = [part for part in parts if len(part) == step or not drop_remainder][:steps]
    return [{name: np.stack([row[name] for row in part]) for name in NAMES} for part in parts]
