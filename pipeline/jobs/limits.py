"""Fail a run whose workers all succeeded: too many records are bad, or nothing is left.

--max-errors 100     more than 100 bad records end the run at once
--max-errors 0.1%    a share of all records, so it is checked when all have been read
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dataprep.pipeline.errors import InputError, counted
from dataprep.pipeline.jobs.executors import JobError
from dataprep.pipeline.jobs.progress import EXAMPLES, Example

NameRecord = Callable[[int, int, int], str]  # task, piece, line -> "line 17 of books.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_errors: str | None = None
    allow_empty: bool = False


class TooManyErrors(InputError):
    """More records are bad than --max-errors allows, at this task or in all."""

    def __init__(self, limit: str, *, at_task: int | None = None, examples: str = "") -> None:
        first = f"the first: {examples}" if examples else "see them with --on-error fail"
        super().__init__(f"too many bad records, more than --max-errors {limit} allows; {first}")
        self.limit, self.at_task = limit, at_task


class NothingLeftError(InputError):
    """All was done, but nothing came of it that is worth keeping."""


class ErrorLimit:
    """Counts the bad records of tasks, and finds the first task at which they are too many.

    task      0    1    2    3
    bad      40   50   20    …     --max-errors 100: it is too many at task 2

    Which task that is depends on the records alone, once the tasks before it are done.
    """

    def __init__(
        self, limit: str | None, known: Mapping[int, tuple[int, list[Example]]] | None = None
    ) -> None:
        """`known` are the bad records of tasks that are done, and the first of each."""
        self._limit = limit
        self._by_task = {task: errors for task, (errors, _) in (known or {}).items()}
        self._total = sum(self._by_task.values())
        self._examples = {task: examples for task, (_, examples) in (known or {}).items()}

    def count(self, task: int, errors: int, examples: list[Example]) -> None:
        """Set the number of `errors` of a task so far; a task that is retried starts from 0.

        Raise a JobError of the first task at which there are too many, if there are.
        """
        self._total += errors - self._by_task.get(task, 0)
        self._by_task[task], self._examples[task] = errors, examples
        first = self._first_over()
        if first is not None:
            raise JobError(first, TooManyErrors(str(self._limit), at_task=first))

    def _first_over(self) -> int | None:
        """Return the first task at which there are too many; None: not yet, or it is a share."""
        if not self._limit or self._limit.endswith("%") or self._total <= int(self._limit):
            return None
        bad = 0
        for task in sorted(self._by_task):
            bad += self._by_task[task]
            if bad > int(self._limit):
                return task
        return None

    def named(self, error: TooManyErrors, place: NameRecord) -> TooManyErrors:
        """Return the error with the first bad records, up to the task at which it is."""
        last = self._first_over() if error.at_task is None else error.at_task
        tasks = [task for task in sorted(self._examples) if last is None or task <= last]
        found = [(task, *example) for task in tasks for example in self._examples[task]]
        examples = "; ".join(f"{place(*where)}: {reason}" for *where, reason in found[:EXAMPLES])
        return TooManyErrors(error.limit, examples=examples)


def check_errors(limit: str | None, read: int, bad: int) -> None:
    if not limit:
        return
    allowed = float(limit[:-1]) / 100 * read if limit.endswith("%") else float(limit)
    if bad > allowed:
        raise TooManyErrors(limit)


def check_counts(counts: Mapping[str, int], limits: Limits) -> None:
    """Raise if more records are bad than allowed, or if nothing was written."""
    read = counts.get("records_read", counts["documents_read"])  # may give several documents each
    bad = counts["documents_quarantined"] + counts["documents_dropped"]
    check_errors(limits.max_errors, read, bad)
    if limits.allow_empty:
        return
    if read == 0:
        raise NothingLeftError("the inputs hold no records; allow that with --allow-empty")
    if counts["documents_written"] == 0:
        empty = counts.get("documents_empty", 0)
        why = {
            "--on-error fail says what is wrong with the first bad one": bad,
            "empty ones have nothing in their fields": empty,
        }
        raise NothingLeftError(
            f"the inputs hold {counted(read, 'record')}, but none gave a document "
            f"({bad} bad, {empty} empty); {', '.join(text for text, n in why.items() if n)}; "
            "--allow-empty allows it"
        )
