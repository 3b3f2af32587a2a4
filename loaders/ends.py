"""Where the batches of a loader end, and settings of an end that cannot be.

10 rows, batches of 4     drop 2 steps     pad 3 steps     read for ever: None
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataprep.loaders.schedule import MAX_ROWS, BatchSizes, Remainder, shown, whole_number
from dataprep.pipeline.errors import ConfigError


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} {value!r} is not one of {', '.join(choices)}")


def check_flags(**flags: Any) -> None:
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            raise ConfigError(f"{name} must be True or False, got {shown(flag)}")


def check_end(epochs: int | None, remainder: str | None, exhausted: str, num_datasets: int) -> None:
    """Raise for settings of an end that never comes, or that all datasets reach at once; remainder
    None: every epoch has an end."""
    given = {"remainder": remainder} if remainder not in ("drop", None) else {}
    given |= {"exhausted": exhausted} if exhausted != "stop" else {}
    for name, value in given.items() if epochs is None else ():
        raise ConfigError(
            f"{name}={value!r} has no effect without epochs: data is read for ever; set epochs, or "
            f"leave {name} out"
        )
    if "exhausted" in given and num_datasets == 1:
        raise ConfigError(
            f"exhausted={exhausted!r} has no effect for one dataset, which ends by itself; "
            "leave it out"
        )


def rows_of_epochs(max_steps: Any, sizes: BatchSizes) -> int | None:
    """Return how many rows an epoch has at most, if it has at most so many steps; None: no end."""
    if max_steps is None:
        return None
    steps = whole_number("max_steps_per_epoch", max_steps, least=1)
    return min(MAX_ROWS, steps * sizes.sizes[-1])


def last_step(sizes: BatchSizes) -> int:
    """Return how many steps can be counted."""
    return sizes.num_steps(MAX_ROWS, "drop")


def count_steps(
    rows: int | None, sizes: BatchSizes, remainder: Remainder, max_steps: int | None
) -> int | None:
    """Return how many steps so many rows fill, None where they never end."""
    if rows is None:
        return None if max_steps is None else min(max_steps, last_step(sizes))
    steps = sizes.num_steps(rows, remainder)
    if not steps:
        noun = "row does" if rows == 1 else "rows do"
        raise ConfigError(
            f"{rows} {noun} not fill a batch of {sizes.size(0)}; "
            "set a smaller batch_size, or remainder='pad'"
        )
    steps = min(steps, last_step(sizes))
    return steps if max_steps is None else min(steps, max_steps)
