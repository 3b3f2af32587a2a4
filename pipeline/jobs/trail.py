"""A few numbers that a worker writes into shared memory, so that its parent sees what it is doing.

    steps 4711    job 7    records from (piece 0, line 3200) to (piece 0, line 3941)    together
    passed 12              batches before these, since the job began or a poison record was left out

A message costs a system call and the parent's time; this costs neither, so that the worker's loop
can write it for every batch, and it outlives the worker. Steps are the sign of life: they come from
progress in the work itself, so that an endless loop is noticed too.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from mmap import mmap
from typing import Any

from dataprep.pipeline.jobs.handed import anonymous_file

Place = tuple[int, int]  # a piece of a task, by its place in the task, and a line of that piece
Span = tuple[Place, Place]  # the records from the first place up to the second, which is left out

# Steps, job, piece, line, piece, line, whether one record is alone, batches that went through.
_NUMBERS = struct.Struct("<8q")
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a worker was doing when it was last heard of."""

    steps: int
    job: int | None  # None: it was loading, committing or waiting
    span: Span | None  # None: none of the records
    alone: bool  # the span is one record, and nothing else was being done
    passed: int = 0  # batches that went through, since the last known poison record


class Trail:
    """The shared numbers of one worker; the parent makes them and gives them to its process."""

    def __init__(self) -> None:
        self._attach(anonymous_file("trail"))
        self.rest()

    def rest(self) -> None:
        """Note that no job has begun yet."""
        self._write(0, _NONE, None, alone=False, passed=0)

    def begin(self, job: int | None) -> None:
        """Note that a job begins; None: that it was run, and is being committed."""
        number = _NONE if job is None else job
        self._write(self.read().steps + 1, number, None, alone=False, passed=0)

    def at(self, span: Span | None, *, alone: bool, skips: bool = False) -> None:
        """Note which records of the job are being worked on; `skips`: one is left out as poison."""
        before = self.read()
        # Records that are worked on together may still be on their way when the next are taken.
        is_over = before.span not in (None, span) and (span is None or before.alone)
        passed = 0 if skips else before.passed + is_over
        job = _NONE if before.job is None else before.job
        self._write(before.steps + 1, job, span, alone, passed)

    def read(self) -> Doing:
        steps, job, *places, alone, passed = _NUMBERS.unpack_from(self._memory)
        first, line, last, end = places
        return Doing(
            steps=steps,
            job=None if job == _NONE else job,
            span=None if first == _NONE else ((first, line), (last, end)),
            alone=bool(alone),
            passed=passed,
        )

    def close(self) -> None:
        self._memory.close()
        os.close(self._descriptor)

    def _write(self, steps: int, job: int, span: Span | None, alone: bool, passed: int) -> None:
        (first, line), (last, end) = span or ((_NONE, 0), (0, 0))
        _NUMBERS.pack_into(self._memory, 0, steps, job, first, line, last, end, alone, passed)

    def _attach(self, descriptor: int) -> None:
        os.ftruncate(descriptor, _NUMBERS.size)
        self._descriptor = descriptor
        self._memory = mmap(descriptor, _NUMBERS.size)

    def __getstate__(self) -> Any:
        from multiprocess.reduction import DupFd

        return DupFd(self._descriptor)  # of the process that is being started

    def __setstate__(self, descriptor: Any) -> None:
        self._attach(descriptor.detach())
