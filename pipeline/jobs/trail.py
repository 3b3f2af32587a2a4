"""A few numbers that a worker writes into shared memory, so that its parent sees what it is doing.

    steps 4711    job 7    records from (piece 0, line 3200) to (piece 0, line 3941)    together

A message costs a system call and the parent's time; this costs neither, so that the worker's loop
can write it for every batch, and it outlives the worker. Steps are the sign of life: they come from
progress in the work itself, so that an endless loop is noticed too.
"""

from __future__ import annotations

import os
import struct
import tempfile
from dataclasses import dataclass
from mmap import mmap
from typing import Any

Place = tuple[int, int]  # a piece of a task, by its place in the task, and a line of that piece
Span = tuple[Place, Place]  # the records from the first place up to the second, which is left out

_NUMBERS = struct.Struct("<7q")  # steps, job, piece, line, piece, line, whether one record is alone
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a worker was doing when it was last heard of."""

    steps: int
    job: int | None  # None: it was loading, committing or waiting
    span: Span | None  # None: none of the records
    alone: bool  # the span is one record, and nothing else was being done


class Trail:
    """The shared numbers of one worker; the parent makes them and gives them to its process."""

    def __init__(self) -> None:
        make = getattr(os, "memfd_create", None)
        if make is not None:
            self._attach(make("trail"))
        else:  # not Linux
            with tempfile.TemporaryFile() as file:
                self._attach(os.dup(file.fileno()))
        self._write(0, _NONE, None, alone=False)

    def begin(self, job: int | None) -> None:
        """Note that a job begins; None: that it was run, and is being committed."""
        self._write(self.read().steps + 1, _NONE if job is None else job, None, alone=False)

    def at(self, span: Span | None, *, alone: bool) -> None:
        """Note which records of the job are being worked on."""
        before = self.read()
        self._write(before.steps + 1, _NONE if before.job is None else before.job, span, alone)

    def read(self) -> Doing:
        steps, job, *places, alone = _NUMBERS.unpack_from(self._memory)
        first, line, last, end = places
        return Doing(
            steps=steps,
            job=None if job == _NONE else job,
            span=None if first == _NONE else ((first, line), (last, end)),
            alone=bool(alone),
        )

    def close(self) -> None:
        self._memory.close()
        os.close(self._descriptor)

    def _write(self, steps: int, job: int, span: Span | None, alone: bool) -> None:
        (first, line), (last, end) = span or ((_NONE, 0), (0, 0))
        _NUMBERS.pack_into(self._memory, 0, steps, job, first, line, last, end, alone)

    def _attach(self, descriptor: int) -> None:
        os.ftruncate(descriptor, _NUMBERS.size)
        self._descriptor = descriptor
        self._memory = mmap(descriptor, _NUMBERS.size)

    def __getstate__(self) -> Any:
        from multiprocess.reduction import DupFd

        return DupFd(self._descriptor)  # of the process that is being started

    def __setstate__(self, descriptor: Any) -> None:
        self._attach(descriptor.detach())
