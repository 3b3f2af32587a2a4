"""How a worker reports its progress."""

from __future__ import annotations

import time
from collections import Counter

from dataprep.pipeline.jobs.worker import Send

PROGRESS_SECONDS = 0.3


class Reporter:
    """Add up what happens in a task and report it to the parent a few times a second."""

    def __init__(self, task: int, send: Send) -> None:
        self._task = task
        self._send = send
        self._sums = Counter[str]()
        self._errors = (
            0  # of the task so far, not since the last report: a task that is retried counts once
        )
        self._last = time.monotonic()

    def count(self, *, errors: int = 0, **counts: int) -> None:
        """Add `counts` (documents, tokens, rows, num_bytes) since the last call."""
        self._sums.update(counts)
        self._errors += errors
        if time.monotonic() - self._last >= PROGRESS_SECONDS:
            self.flush()

    def flush(self) -> None:
        message = {"type": "progress", "task": self._task, "task_errors": self._errors}
        self._send({**message, **self._sums})
        self._sums.clear()
        self._last = time.monotonic()
