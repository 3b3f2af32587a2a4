"""Plans as files, by which the parent tells workers what to do.

A plan is a frozen record; the config in it is the validated model, in the parent and in workers.
What only one task needs is apart, so that no worker reads the plan of 100,000 tasks for one:

    plan.json     the config, the vocabulary …     read by each worker as it begins
    tasks.plan    task 0 │ task 1 │ … │ where each begins     one task is read by its number
"""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from pydantic import BaseModel

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import (
    NewFile,
    read_sealed,
    sealed,
    sync_folder,
    unsealed,
    write_sealed,
)
from dataprep.pipeline.guards.opening import open_regular
from dataprep.pipeline.typed import decode_as

PLAN = "plan.json"
TASK_PLANS = "tasks.plan"
MADE_OBJECTS = 100_000  # after which garbage is looked for

P = TypeVar("P")


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage rarely in this block, which makes millions of objects that stay: looking
    takes a fifth of the time of planning."""
    before = gc.get_threshold()
    if before[0]:  # else it is switched off
        gc.set_threshold(max(before[0], MADE_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def write_plan(work: Path, plan: object, name: str = PLAN) -> None:
    """Write a plan durably, unless it is there already: there may be thousands of them."""
    data = msgspec.json.encode(plan, enc_hook=_values_of)
    if read_sealed(work / name) != data:
        write_sealed(work / name, data)


def find_plan(work: Path, kind: type[P], name: str = PLAN) -> P | None:
    """Return the plan; None if there is none, or only what is left of a damaged one."""
    data = read_sealed(work / name)
    return None if data is None else decode_as(data, kind, _model_of)


def read_plan(work: Path, kind: type[P], name: str = PLAN) -> P:
    plan = find_plan(work, kind, name)
    if plan is None:
        raise CorruptError(f"{work / name} is missing or damaged; run the same command again")
    return plan


def write_task_plans(work: Path, plans: Iterable[object], name: str = TASK_PLANS) -> None:
    """Write what each task needs, in the order of their numbers, unless it is there already: on a
    network disk a file that is replaced is lost to the workers of other machines that read it."""
    file, ends = NewFile(work / name), [0]
    for plan in plans:
        ends.append(ends[-1] + file.write(sealed(msgspec.json.encode(plan, enc_hook=_values_of))))
    file.write(sealed(np.array(ends, "<u8").tobytes() + len(ends).to_bytes(8, "little")))
    file.commit_if_new()
    sync_folder(work)


class TaskPlans(Generic[P]):
    """The plans of tasks in a file; only those that are asked for are read."""

    def __init__(self, work: Path, kind: type[P], name: str = TASK_PLANS) -> None:
        self._path, self._kind = work / name, kind
        try:
            with open_regular(self._path) as file:
                self._descriptor = os.dup(file.fileno())
        except OSError:
            raise self._damaged() from None
        weakref.finalize(self, os.close, self._descriptor)
        size = os.fstat(self._descriptor).st_size
        seal = len(sealed(b""))
        count = int.from_bytes(self._bytes(size - seal - 8, size - seal), "little")
        index = self._part(size - seal - 8 - 8 * count, size)
        self._ends = np.frombuffer(index[:-8], "<u8")

    def __getitem__(self, task: int) -> P:
        start, stop = self._ends[task : task + 2].tolist()
        return decode_as(self._part(start, stop), self._kind, _model_of)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def _part(self, start: int, stop: int) -> bytes:
        data = unsealed(self._bytes(start, stop))
        if data is None:
            raise self._damaged()
        return data

    def _bytes(self, start: int, stop: int) -> bytes:
        data = os.pread(self._descriptor, stop - start, start) if 0 <= start < stop else b""
        if len(data) != stop - start:
            raise self._damaged()
        return data

    def _damaged(self) -> CorruptError:
        return CorruptError(f"{self._path} is missing or damaged; run the same command again")


def _values_of(value: Any) -> Any:
    assert isinstance(value, BaseModel), type(value)
    return value.model_dump(mode="json")


def _model_of(kind: type[Any], values: Any) -> Any:
    assert issubclass(kind, BaseModel), kind
    return kind.model_validate(values)
