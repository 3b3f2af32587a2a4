"""Run jobs on a cluster of Ray: one that is named, or one that is started on this machine.

    driver     the crew: who gets which job, who is stuck, whose record is poison
    slots      one for each worker, on whatever machine has a core free (see `slots`)

Ray starts slots and says which are gone. It is given no data, restarts nothing and tries nothing
again: what is done stands in markers, so that the same command goes on after any loss.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, ResourceError, short
from dataprep.pipeline.guards import secrets
from dataprep.pipeline.guards.extras import how_to_install
from dataprep.pipeline.jobs.crew import Crew
from dataprep.pipeline.jobs.executors import run_crew, signals_held_back, usable_cores
from dataprep.pipeline.jobs.kept import kept_workers
from dataprep.pipeline.jobs.poison import Deaths
from dataprep.pipeline.jobs.slots import Order, RemoteWorker, Slot
from dataprep.pipeline.jobs.stored import stored_work
from dataprep.pipeline.jobs.worker import Message

LOST_SECONDS = 5.0  # without a worker, after which the machine of the driver may be the cause
COMING_SECONDS = 600.0  # to wait for the first worker: clusters that grow start machines for it
REACHED_SECONDS = 20.0  # to reach a cluster that is named
STORE_BYTES = 80 << 20  # the least that Ray allows; nothing of size goes through it
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
# Of a cluster on this machine alone: nobody else is to reach it, and the kernel ends the worker
# that takes too much, as without Ray, instead of the actor that could say on which record. Workers
# are as urgent as those without Ray.
ALONE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0",
}

OF_RAY = ("PYTHONBREAKPOINT",)  # that Ray sets besides those with its name


def run_on_cluster(
    jobs: Sequence[int],
    *,
    sizes: Sequence[float],
    worker: str,
    work: Path,
    environment: Mapping[str, str],
    num_workers: int,
    task_timeout: float | None = None,
    describe: Callable[[int], str],
    on_message: Callable[[Message], None],
    address: str | None = None,
    asked: int | None = None,
) -> None:
    """Run the jobs, the largest first. `asked` is how many workers the user wants; None: as many
    as they are worth, up to the cores that the cluster has now."""
    if not jobs:
        return
    with kept_workers().open() as stack:
        ray = stack.enter_context(connected(address, asked or min(num_workers, usable_cores())))
        cores = int(ray.cluster_resources().get("CPU", 0))
        stored = stored_work(work)
        order = Order(
            store=(stored.objects.url, stored.run, os.urandom(8).hex()) if stored else None,
            worker=worker,
            work=work.absolute(),
            environment=environment,
            addresses=secrets.packed(),
            folder=os.getcwd(),
        )
        slot = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Slot)
        spread = slot.options(scheduling_strategy="SPREAD")
        crew = Crew(
            waiting=sorted(jobs, key=lambda job: (-sizes[job], job)),
            order=lambda job: (-sizes[job], job),
            size=asked or max(1, min(num_workers, cores)),
            new_process=lambda: RemoteWorker(lambda: spread.remote(order), work, ray),
            keep=lambda process: False,
            describe=describe,
            deaths=Deaths(work),
            timeout=task_timeout,
        )
        run_crew(crew, Waiter(ray), on_message)


class Waiter:
    """Wait for workers; for none of them longer than it may take to start one."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._seen = ray, time.monotonic()
        self._looked = self._seen

    def __call__(self, workers: Iterable[RemoteWorker], timeout: float) -> list[RemoteWorker]:
        by_turn = {worker.turn: worker for worker in workers if worker.turn is not None}
        if any(worker.is_up for worker in by_turn.values()):
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > COMING_SECONDS:
            raise ResourceError(
                f"no worker came up in {COMING_SECONDS:.0f} s: the cluster has no core free; "
                "run again when it has"
            )
        elif time.monotonic() - self._looked > LOST_SECONDS:
            self._looked = time.monotonic()
            self._check_own_node()
        if not by_turn:
            return []
        self._ray.wait([*by_turn], num_returns=1, timeout=timeout)
        ready, _ = self._ray.wait([*by_turn], num_returns=len(by_turn), timeout=0)
        return [by_turn[turn] for turn in ready]

    def _check_own_node(self) -> None:
        """Raise a ResourceError if Ray gives nothing to this process any more: it asks by the
        node that it is connected to, and goes on asking when that is lost."""
        own = self._ray.get_runtime_context().get_node_id()
        if any(node["NodeID"] == own and not node["Alive"] for node in self._ray.nodes()):
            raise ResourceError(
                "Ray has lost its node on the machine of this command; run the same command again "
                "when Ray is up there, and it goes on"
            )


@contextmanager
def connected(address: str | None, num_cores: int) -> Iterator[Any]:
    """Connect to the cluster, or start one of so many cores here; it is left, or ends, at the end.

    A program that is connected already stays so.
    """
    place = address or os.environ.get("RAY_ADDRESS") or "local"
    before = {*os.environ}
    for name, value in {**QUIET, **(ALONE if place == "local" else {})}.items():
        os.environ.setdefault(name, value)
    with signals_held_back():  # Ray sets handlers of its own
        ray = _imported()
        is_ours = not ray.is_initialized()
        if is_ours:
            _connect(ray, place, num_cores)
    try:
        yield ray
    finally:
        if is_ours:
            ray.shutdown()
            # Whatever runs next in this process gets none of what Ray and we have set for it.
            for name in {*os.environ} - before:
                if name.startswith("RAY_") or name in OF_RAY:
                    del os.environ[name]


def _connect(ray: Any, place: str, num_cores: int) -> None:
    of_ours = {
        "num_cpus": num_cores,
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
    }
    _refuse_if_nobody_listens(place)
    try:
        ray.init(
            address=place,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **(of_ours if place == "local" else {}),
        )
    except (ConnectionError, ValueError, RuntimeError) as error:  # RuntimeError: another version
        raise _no_cluster(place, short(" ".join(str(error).split()), 300)) from None


def _refuse_if_nobody_listens(place: str) -> None:
    """Raise ConfigError if there is nothing at an address: Ray tries for many minutes."""
    found = re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:(\d{1,5})", place)
    if found is not None:
        try:
            socket.create_connection((found[1], int(found[2])), REACHED_SECONDS).close()
        except (OSError, OverflowError) as error:  # OverflowError: no number of a port
            raise _no_cluster(place, getattr(error, "strerror", None) or str(error)) from None


def _no_cluster(place: str, why: str) -> ConfigError:
    return ConfigError(
        f"cannot connect to a Ray cluster at {place}: {why}; "
        "start one (ray start --head), set RAY_AUTH_MODE=token if it asks for a token, or "
        "leave --ray-address out to start one here"
    )


def _imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ConfigError(f"executor ray needs the package ray; {how_to_install('ray')}") from None
    return ray
