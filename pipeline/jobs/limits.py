"""Fail a run whose workers all succeeded: too many records are bad, or nothing is left.

--max-errors 100     more than 100 bad records end the run at once
--max-errors 0.1%    a share of all records, so it is checked when all have been read
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dataprep.pipeline.errors import InputError, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_errors: str | None = None
    allow_empty: bool = False


class ErrorLimit:
    """Raises when too many records are bad."""

    def __init__(self, limit: str | None) -> None:
        self._limit = limit
        self._by_task: dict[int, int] = {}

    def count(self, task: int, errors: int) -> None:
        """Set the number of `errors` of a task so far; a task that is retried starts from 0."""
        self._by_task[task] = errors
        if self._limit and not self._limit.endswith("%"):
            self.check(0, sum(self._by_task.values()))

    def check(self, read: int, bad: int) -> None:
        if not self._limit:
            return
        share = self._limit.endswith("%")
        allowed = float(self._limit[:-1]) / 100 * read if share else float(self._limit)
        if bad > allowed:
            raise InputError(
                f"{counted(bad, 'bad record')}, more than --max-errors {self._limit} allows; "
                "see what is wrong with --on-error fail"
            )


def check_counts(counts: Mapping[str, int], limits: Limits) -> None:
    """Raise if more records are bad than allowed, or if nothing was written."""
    read = counts["documents_read"]
    bad = counts["documents_quarantined"] + counts["documents_dropped"]
    ErrorLimit(limits.max_errors).check(read, bad)
    if limits.allow_empty:
        return
    if read == 0:
        raise InputError("the inputs hold no records; allow that with --allow-empty")
    if counts["documents_written"] == 0:
        empty = counts.get("documents_empty", 0)
        raise InputError(
            f"the inputs hold {counted(read, 'record')}, but none gave a document "
            f"({bad} bad, {empty} empty); allow that with --allow-empty"
        )
