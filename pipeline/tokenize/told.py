"""What workers are told: the plan, in files of which each reads as little as it needs.

    plan.json     config, vocabulary, masks …                 all workers, as they begin
    tasks.plan    task 0 with its sources │ task 1 │ … │ sources of no task

A plan of a million sources has hundreds of megabytes, which no worker could hold beside its work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.jobs.plans import TaskPlans, read_plan, write_plan, write_task_plans
from dataprep.pipeline.jobs.workspace import begun_to_continue
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.types import Source, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """A task, with what its worker must know of the sources of its pieces."""

    task: Task | None  # None: of sources that belong to no task, as a limit leaves some out
    sources: dict[int, Source]  # by their numbers in the plan
    inputs: dict[int, int]  # which input each belongs to


def write_whole_plan(work: Path, plan: TokenizePlan) -> None:
    write_plan(work, replace(plan, sources=(), inputs=(), tasks=(), identity={}))
    write_task_plans(work, _parts(plan))


def read_whole_plan(work: Path) -> TokenizePlan:
    """Return the plan of the run that was begun in a work folder."""
    plan, parts = read_plan(work, TokenizePlan), TaskPlans(work, TaskPlan)
    tasks: list[Task] = []
    sources: dict[int, Source] = {}
    inputs: dict[int, int] = {}
    for i in range(len(parts)):
        part = parts[i]
        sources |= part.sources
        inputs |= part.inputs
        tasks += [] if part.task is None else [part.task]
    identity = begun_to_continue(work)
    if identity is None:
        raise CorruptError(f"{work} does not say what is made there; run the same command again")
    # The plan is of who came last, the identity of who began: this key may have changed since.
    config = {**identity["config"], "on_error": plan.config.on_error}
    numbers = range(len(sources))
    return replace(
        plan,
        sources=tuple(sources[i] for i in numbers),
        inputs=tuple(inputs[i] for i in numbers),
        tasks=tuple(tasks),
        identity={**identity, "config": config},
    )


def task_plan(plan: TokenizePlan, task: Task) -> TaskPlan:
    return _part(plan, task, dict.fromkeys(piece.source for piece in task.pieces))


def _parts(plan: TokenizePlan) -> Iterator[TaskPlan]:
    rest = dict.fromkeys(range(len(plan.sources)))
    for task in plan.tasks:
        part = task_plan(plan, task)
        for number in part.sources:
            rest.pop(number, None)
        yield part
    yield _part(plan, None, rest)


def _part(plan: TokenizePlan, task: Task | None, numbers: dict[int, None]) -> TaskPlan:
    return TaskPlan(
        task=task,
        sources={i: plan.sources[i] for i in numbers},
        inputs={i: plan.inputs[i] for i in numbers},
    )
