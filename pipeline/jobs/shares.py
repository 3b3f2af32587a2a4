"""A share of the jobs: what one element of a task array does.

    jobs by size   0: 9   1: 4   2: 4   3: 3      --task 0/2 does 0    --task 1/2 does 1 2 3
                                                               9                   11

The largest go first, each to the element that has the least so far, so that elements end at about
the same time. Who does what depends on the sizes and the number of elements alone: an element that
is started again does the same jobs, and any other number of elements goes on with what is left.

    --task 3/16     the fourth of sixteen
    --task auto     as Slurm or a Kubernetes Indexed Job says in the environment
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.jobs.plans import find_plan, write_plan
from dataprep.pipeline.jobs.workspace import turn

AUTO = "auto"
COUNT = "DATAPREP_TASKS"  # how many elements there are, for engines that do not say it
ARRAY = "array.json"
_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")
_STEP = "SLURM_ARRAY_TASK_STEP"  # 2 of --array=0-6:2
_INDEX = "JOB_COMPLETION_INDEX"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShare:
    number: int  # from 0
    count: int  # of elements

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, sizes: Sequence[float]) -> list[int]:
        """Return the jobs of this element, in order."""
        owners = owners_of(sizes, self.count)
        return [job for job, owner in enumerate(owners) if owner == self.number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """What a task array leaves in the work folder for `finalize`."""

    count: int  # of elements
    folder: str  # in which they ran: names of inputs may be relative to it


def owners_of(sizes: Sequence[float], count: int) -> list[int]:
    """Return which element does each job.

    >>> owners_of([9, 4, 4, 3], 2)
    [0, 1, 1, 1]
    """
    owners = [0] * len(sizes)
    loads = [(0.0, 0, element) for element in range(count)]  # size and number of jobs so far
    for job in sorted(range(len(sizes)), key=lambda job: (-sizes[job], job)):
        size, number, element = loads[0]
        owners[job] = element
        heapq.heapreplace(loads, (size + max(sizes[job], 0), number + 1, element))
    return owners


def own_jobs(share: JobShare | None, sizes: Sequence[float]) -> list[int] | None:
    """Return the jobs of a share; None: all."""
    return None if share is None else share.of(sizes)


def own_turn(share: JobShare | None, work: Path) -> AbstractContextManager[None]:
    """Wait until no other element prepares; a run that has the folder to itself need not."""
    return nullcontext() if share is None else turn(work)


def note_array(work: Path, share: JobShare, folder: str) -> None:
    """Write down what `finalize` must know; the caller has its turn."""
    write_plan(work, Array(count=share.count, folder=folder), ARRAY)


def array_of(work: Path) -> Array | None:
    return find_plan(work, Array, ARRAY)


def parse_share(text: str, environment: Mapping[str, str]) -> JobShare:
    """
    >>> parse_share("3/16", {})
    JobShare(number=3, count=16)
    >>> parse_share("auto", {"JOB_COMPLETION_INDEX": "3", "DATAPREP_TASKS": "16"})
    JobShare(number=3, count=16)
    """
    if text == AUTO:
        return _share_in(environment)
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if found is None:
        raise ConfigError(f"--task {text}: must be I/N, such as 0/16 for the first of 16, or auto")
    return _checked(f"--task {text}", int(found[1]), int(found[2]))


def _share_in(environment: Mapping[str, str]) -> JobShare:
    """Return the share that Slurm or Kubernetes gives to this process."""
    count = environment.get(COUNT, "")
    if count and not re.fullmatch(r"\d{1,9}", count):
        raise ConfigError(f"{COUNT}={count} must be the number of elements")
    values = [environment.get(name, "") for name in _SLURM]
    index = environment.get(_INDEX, "")
    if values[0].isdecimal() and count:
        # Numbers are used as they are: of 0-15, only 3 and 7 may run again.
        return _checked(f"--task auto: {_SLURM[0]}={values[0]}", int(values[0]), int(count))
    if all(value.isdecimal() for value in values):
        number, first, there = map(int, values)
        step = max(1, int(environment.get(_STEP) or 1))
        return _checked(f"--task auto: {_SLURM[0]}={number}", (number - first) // step, there)
    if values[0].isdecimal():
        raise ConfigError(
            f"--task auto: {_SLURM[0]}={values[0]}, but neither {COUNT} nor {_SLURM[1]} and "
            f"{_SLURM[2]} say of how many"
        )
    if index.isdecimal() and count:
        return _checked(f"--task auto: {_INDEX}={index}", int(index), int(count))
    if index.isdecimal():
        raise ConfigError(f"--task auto: {_INDEX}={index}, but {COUNT} does not say of how many")
    raise ConfigError(
        f"--task auto: neither {_SLURM[0]} nor {_INDEX} is set, so this is no element of a Slurm "
        "array or of an Indexed Job; give --task I/N"
    )


def _checked(what: str, number: int, count: int) -> JobShare:
    if not number < count:
        raise ConfigError(
            f"{what}: there are {count} elements, numbered from 0 to {count - 1}; set {COUNT} to "
            "their number if only some of an array run"
            if count
            else f"{what}: there must be at least one element"
        )
    return JobShare(number=number, count=count)
