"""A state as files of a checkpoint, for what calls `save(directory)` and `load(directory)`.

    checkpoint/data/process_0-of-2.json      what a loader of each process had handed out: the same
    checkpoint/data/process_1-of-2.json

Orbax calls them (`StatefulCheckpointable` of its version 1). All processes write, since they may
see different disks; any of the files will do, since their number may change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dataprep.loaders.state import State
from dataprep.pipeline.errors import ConflictError


async def write_state(directory: Any, state: State) -> None:
    """Write a state into a folder, once it is there: `directory` is what orbax passes."""
    import jax  # which orbax has imported

    folder = await directory.await_creation()
    name = f"process_{jax.process_index()}-of-{jax.process_count()}.json"
    (folder / name).write_text(state.decode())


async def read_state(directory: Any, set_state: Callable[[str], None]) -> None:
    """Pass on the state that a folder holds."""
    found = sorted(path for path in directory.iterdir() if path.name.endswith(".json"))
    if not found:
        raise ConflictError(f"{directory} holds no state of a loader")
    set_state(found[0].read_text())
