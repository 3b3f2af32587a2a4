"""How a worker reports its progress, and the first bad records of a task.

    {"type": "progress", "task": 4, "task_errors": 2, "examples": [(0, 17, "not JSON"), …],
     "documents": 120, "tokens": 54321, "rows": 0, "num_bytes": 260000, "by_reference": 0}

Every message has every key, also one that has nothing new to tell, as at the end of a task.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Literal, TypedDict

from dataprep.pipeline.jobs.worker import Send

PROGRESS_SECONDS = 0.3
EXAMPLES = 3  # bad records of a task that are told to the parent

Example = tuple[int, int, str]  # piece, by its place in the task; line of that piece; reason


class ProgressMessage(TypedDict):
    """What a worker did since its last message, and how many bad records its task has so far."""

    type: Literal["progress"]
    task: int
    task_errors: int  # of the task so far: a task that is retried counts once
    examples: list[Example]  # the first of these
    documents: int
    tokens: int
    rows: int
    num_bytes: int  # of what is read; of pack, of what is written
    by_reference: int  # texts that the reference encoded for a fast engine


class Reporter:
    """Add up what happens in a task and report it to the parent a few times a second."""

    def __init__(
        self, task: int, send: Send, *, errors: int = 0, examples: Iterable[Example] = ()
    ) -> None:
        """`errors` and `examples` are those that an earlier run has found in the task."""
        self._task = task
        self._send = send
        self._sums = Counter[str]()
        self._errors = errors
        self._examples: list[Example] = list(islice(examples, EXAMPLES))
        self._last = time.monotonic()

    def count(
        self,
        *,
        documents: int = 0,
        tokens: int = 0,
        rows: int = 0,
        num_bytes: int = 0,
        by_reference: int = 0,
        errors: int = 0,
        examples: Iterable[Example] = (),
    ) -> None:
        """Add what was done since the last call.

        `examples` are bad records among the `errors`, in order; only the first are taken.
        """
        done = {"documents": documents, "tokens": tokens, "rows": rows}
        self._sums.update({**done, "num_bytes": num_bytes, "by_reference": by_reference})
        self._errors += errors
        self._examples += islice(examples, EXAMPLES - len(self._examples))
        if time.monotonic() - self._last >= PROGRESS_SECONDS:
            self.flush()

    def flush(self) -> None:
        message = ProgressMessage(
            type="progress",
            task=self._task,
            task_errors=self._errors,
            examples=self._examples,
            documents=self._sums["documents"],
            tokens=self._sums["tokens"],
            rows=self._sums["rows"],
            num_bytes=self._sums["num_bytes"],
            by_reference=self._sums["by_reference"],
        )
        self._send(message)
        self._sums.clear()
        self._last = time.monotonic()
