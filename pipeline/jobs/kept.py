"""Workers that are kept from one run to the next, since a new interpreter takes a while to start.

    with workers_kept():
        tokenize(…)      worker A starts, does its jobs, and rests
        pack(…)          A again: what it has imported is there
                         A ends

Outside of `workers_kept` none is kept. A worker can do the jobs of another run if it has the
environment that these need, and knows all the addresses (`secrets`) that may occur in messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataprep.pipeline.jobs.processes import WorkerProcess


class KeptWorkers:
    """Workers that have nothing to do."""

    def __init__(self, *, may_keep: bool) -> None:
        self._may_keep = may_keep
        self._resting: list[tuple[WorkerProcess, bytes]] = []  # with the addresses that it knows
        self._open = ExitStack()

    def keep(self, process: WorkerProcess, known: bytes) -> bool:
        """Let a worker without a job rest; return whether it is kept."""
        if self._may_keep:
            self._resting.append((process, known))
            process.rest()
        return self._may_keep

    def take(self, environment: Mapping[str, str], known: bytes) -> WorkerProcess | None:
        """Return a worker that rests, if one is alive and fits."""
        for resting in [*self._resting]:
            process, knows = resting
            if knows == known and environment.items() <= process.environment.items():
                self._resting.remove(resting)
                if not process.receive()[1]:
                    return process
                process.reap()
        return None

    @contextmanager
    def open(self) -> Iterator[ExitStack]:
        """What is entered here stays open as long as workers are kept."""
        if self._may_keep:
            yield self._open
        else:
            with ExitStack() as stack:
                yield stack

    def dismiss(self) -> None:
        """End all workers: they have nothing in hand."""
        for process, _ in self._resting:
            process.kill()
        while self._resting:
            self._resting.pop()[0].reap()
        self._open.close()


_NONE = KeptWorkers(may_keep=False)
_kept: ContextVar[KeptWorkers] = ContextVar("kept", default=_NONE)


def kept_workers() -> KeptWorkers:
    return _kept.get()


@contextmanager
def workers_kept() -> Iterator[None]:
    """Keep workers until the end of this block, in this thread."""
    kept = KeptWorkers(may_keep=True)
    before = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(before)
        kept.dismiss()
