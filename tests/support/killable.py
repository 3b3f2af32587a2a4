"""Run commands in this process, and let them die at their n-th change of the disk.

    run_here(config, cache)               as `dataprep tokenize`, without processes
    run_here(config, cache, dies_at=7)    raises Killed before the seventh fsync, rename …
    with without_processes(), dying(7):   any command

What a dying run leaves is what SIGKILL leaves, since no code of the product catches `Killed`
and nothing cleans up after a failed write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.jobs import make
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.tokenize import tokenize


class Killed(BaseException):
    """The run is dead."""


def execute_here(
    jobs: Sequence[int],
    *,
    worker: str,
    work: Path,
    on_message: Callable[[Mapping[str, Any]], None],
    **others: Any,
) -> None:
    """An executor of one process, this one."""
    run = import_module(worker).begin(work)

    def send(message: Mapping[str, Any]) -> None:
        if message["type"] in ("progress", "sample"):  # others are for whoever watches workers
            on_message(message)

    for job in jobs:
        run(job, send)()


CHANGES = ("replace", "rename", "link", "unlink", "mkdir", "rmdir")


@contextmanager
def dying(at: int = 1 << 30) -> Iterator[None]:
    """Raise Killed at the n-th change of the disk; nothing waits for the disk: no power fails."""
    left = at

    def before(act: Callable[..., Any]) -> Callable[..., Any]:
        def acts_or_dies(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed
            return act(*args, **options)

        return acts_or_dies

    acts = {name: before(getattr(os, name)) for name in CHANGES}
    with mock.patch.multiple(os, **acts, fsync=before(lambda descriptor: None)):
        yield


@contextmanager
def without_processes() -> Iterator[None]:
    with mock.patch.dict(make.EXECUTORS, {"local": execute_here}):
        yield


def run_here(
    config: TokenizeConfig, cache: Path, *, overwrite: bool = False, dies_at: int = 1 << 30
) -> Outcome:
    with without_processes(), dying(dies_at):
        return tokenize(config, cache_dir=cache, overwrite=overwrite)
