"""How a worker reports its progress, and the first bad records of a task."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from dataprep.pipeline.jobs.worker import Send

PROGRESS_SECONDS = 0.3
EXAMPLES = 3  # bad records of a task that are told to the parent

Example = tuple[int, int, str]  # piece, by its place in the task; line of that piece; reason


class Reporter:
    """Add up what happens in a task and report it to the parent a few times a second."""

    def __init__(
        self, task: int, send: Send, *, errors: int = 0, examples: Iterable[Example] = ()
    ) -> None:
        """`errors` and `examples` are those that an earlier run has found in the task."""
        self._task = task
        self._send = send
        self._sums = Counter[str]()
        # Of the task so far, not since the last report: a task that is retried counts once.
        self._errors = errors
        self._examples: list[Example] = list(islice(examples, EXAMPLES))
        self._last = time.monotonic()

    def count(self, *, errors: int = 0, examples: Iterable[Example] = (), **counts: int) -> None:
        """Add `counts` (documents, tokens, rows, num_bytes) since the last call.

        `examples` are bad records among the `errors`, in order; only the first are taken.
        """
        self._sums.update(counts)
        self._errors += errors
        self._examples += islice(examples, EXAMPLES - len(self._examples))
        if time.monotonic() - self._last >= PROGRESS_SECONDS:
            self.flush()

    def flush(self) -> None:
        message = {"type": "progress", "task": self._task, "task_errors": self._errors}
        self._send({**message, "examples": self._examples, **self._sums})
        self._sums.clear()
        self._last = time.monotonic()
