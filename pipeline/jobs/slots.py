"""A worker on a machine of a cluster: an actor of Ray, and behind it a process as everywhere.

    driver                     node
    RemoteWorker   turn ─►     Slot ─► WorkerProcess      jobs out, messages back; no data
                   ◄─ report

The actor only passes on what goes between a crew and a worker process of its machine: who died, of
what, and on which record is known there, and decided by the crew as ever. It keeps nothing. If it
is lost with its machine, its jobs go to others; if the driver is lost, Ray ends the actor, and the
kernel the process behind it.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep import __version__
from dataprep.pipeline.errors import BY_NAME, ConfigError, DataprepError
from dataprep.pipeline.files import disk_errors_named, write_atomic
from dataprep.pipeline.jobs.deaths import Death
from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.joined import join
from dataprep.pipeline.jobs.poison import poison_name
from dataprep.pipeline.jobs.processes import WorkerProcess, wait_for
from dataprep.pipeline.jobs.trail import Doing
from dataprep.pipeline.jobs.worker import Message, die_with_parent

TURN_SECONDS = 0.5  # that a turn takes if there is nothing but progress to tell
LEASE_SECONDS = 120.0  # without a turn, after which the driver is taken to be lost
END_SECONDS = 10.0  # that an actor may take to end
CLOSE = -1  # in the place of a job

_NOWHERE = Doing(steps=0, job=None, span=None, alone=False)
_SUMMED = ("documents", "tokens", "rows", "num_bytes", "by_reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a slot is to run, whichever machine it is on."""

    worker: str
    work: Path
    environment: Mapping[str, str]
    addresses: bytes
    folder: str  # the working folder of the driver: names of inputs may be relative to it
    # The address, the run and this start of it, if work is kept in a bucket: see `joined`.
    store: tuple[str, str, str] | None = None
    version: str = __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotReport:
    """What a slot has to report."""

    messages: Sequence[Message] = ()
    doing: Doing = _NOWHERE
    is_stopped: bool = False
    death: Death | None = None  # of its process
    error: tuple[str, str] | None = None  # why it cannot work on this machine: class and message


class Slot:
    """The actor. One call at a time: each gives jobs and waits for what comes of them."""

    def __init__(self, order: Order) -> None:
        self._order, self._work = order, order.work
        self._process: WorkerProcess | None = None
        self._in_hand = 0
        self._is_closed = False
        self._heard = time.monotonic()
        die_with_parent(os.getppid())  # Ray's process of this machine: Ray takes seconds for that
        threading.Thread(target=self._leave_if_alone, daemon=True).start()

    def turn(self, jobs: Sequence[int], poison: Mapping[str, bytes]) -> SlotReport:
        """Give jobs to the worker, with the files that say what is poison in them."""
        self._heard = float("inf")  # the driver waits for this
        try:
            with disk_errors_named(self._work):
                return self._turn(jobs, poison)
        except DataprepError as error:  # Ray would put a traceback around it
            return SlotReport(error=(type(error).__name__, f"{platform.node()}: {error}"))
        finally:
            self._heard = time.monotonic()

    def _check_machine(self) -> None:
        """Raise a ConfigError if this machine cannot do the work."""
        order = self._order
        if __version__ != order.version:
            raise ConfigError(f"has dataprep {__version__}, not {order.version}; install the same")
        if not order.work.is_dir() and order.store is None:
            raise ConfigError(
                f"does not see {order.work}; put --out on a disk that all machines of the cluster "
                "share, or into a bucket"
            )

    def _turn(self, jobs: Sequence[int], poison: Mapping[str, bytes]) -> SlotReport:
        process = self._process or self._start()
        for name, data in poison.items() if self._work != self._order.work else ():
            write_atomic(self._work / name, data)
        for job in jobs:
            if job == CLOSE:
                self._is_closed = True
                process.close()
            else:
                self._in_hand += 1
                process.give(job)
        messages: list[Message] = []
        is_dead, deadline = False, time.monotonic() + TURN_SECONDS
        while self._in_hand or self._is_closed:
            wait_for([process], max(deadline - time.monotonic(), 0))
            found, is_dead = process.receive()
            self._in_hand -= sum(message["type"] == "done" for message in found)
            messages += found
            is_news = any(message["type"] != "progress" for message in found)
            if is_dead or is_news or time.monotonic() >= deadline:
                break
        if is_dead:
            death, doing = process.reap()
            return SlotReport(messages=together(messages), doing=doing, death=death)
        is_stopped, doing = process.is_stopped(), process.doing()
        return SlotReport(messages=together(messages), doing=doing, is_stopped=is_stopped)

    def _start(self) -> WorkerProcess:
        self._check_machine()
        with suppress(OSError):  # on a machine without it, absolute names and URLs do
            os.chdir(self._order.folder)
        order = self._order
        addresses = Handed(order.addresses)
        if not order.work.is_dir() and order.store is not None:
            self._work = join(*order.store)
        self._process = WorkerProcess(order.worker, self._work, order.environment, addresses)
        self._process.start()
        addresses.close()
        return self._process

    def _leave_if_alone(self) -> None:
        """End if nobody has asked for long: another run may have the folder by now."""
        while time.monotonic() - self._heard < LEASE_SECONDS:
            time.sleep(1.0)
        os._exit(1)


def together(messages: Iterable[Message]) -> list[Message]:
    """Return messages with those of a task's progress, one after the other, added up."""
    found: list[dict[str, Any]] = []
    for message in messages:
        last = found[-1] if found else {"type": ""}
        if message["type"] == last["type"] == "progress" and message["task"] == last["task"]:
            sums = {name: last[name] + message[name] for name in _SUMMED}
            found[-1] = {**message, **sums}
        else:
            found.append({**message})
    return list(found)


class RemoteWorker:
    """The driver's side: what a crew does with a worker process, done with the actor's."""

    def __init__(self, new_actor: Callable[[], Any], work: Path, ray: Any) -> None:
        self.jobs: deque[int] = deque()
        self.is_closed = self.has_failed = self.is_up = False
        self._new_actor, self._work, self._ray = new_actor, work, ray
        self._actor: Any = None
        self._orders: list[int] = []
        self._doing, self._is_stopped = _NOWHERE, False
        self._death: Death | None = None
        self.turn: Any = None  # what Ray is to bring, if anything is on its way

    def start(self) -> None:
        self._actor = self._new_actor()
        self._go_on()

    def give(self, job: int) -> None:
        self.jobs.append(job)
        self._orders.append(job)
        self._go_on()

    def close(self) -> None:
        self.is_closed = True
        self._orders.append(CLOSE)
        self._go_on()

    def _go_on(self) -> None:
        if self.turn is None:
            files = [self._work / poison_name(job) for job in self._orders if job != CLOSE]
            poison = {path.name: path.read_bytes() for path in files if path.exists()}
            self.turn = self._actor.turn.remote(self._orders, poison)
            self._orders = []

    def receive(self) -> tuple[list[Message], bool]:
        """Return the messages that have come, and whether the worker is gone."""
        came, self.turn = self.turn, None
        try:
            report: SlotReport = self._ray.get(came)
        except self._ray.exceptions.RayTaskError:
            raise  # of our own code
        except self._ray.exceptions.RayError as error:
            if getattr(error, "actor_init_failed", False):
                why = str(error).strip().rpartition("\n")[2]
                raise ConfigError(
                    f"a worker cannot begin on the cluster ({why}); install the same dataprep on "
                    "all its machines"
                ) from None
            self._death = loss_of(error)
            return [], True
        if report.error:
            name, message = report.error
            raise BY_NAME.get(name, DataprepError)(message)
        self._doing, self._is_stopped = report.doing, report.is_stopped
        self.is_up = True
        if report.death is not None:
            self._death = self._death or report.death
            return [*report.messages], True
        done = sum(message["type"] == "done" for message in report.messages)
        if self._orders or self.is_closed or len(self.jobs) > done:
            self._go_on()
        return [*report.messages], False

    def doing(self) -> Doing:
        return self._doing

    def is_stopped(self) -> bool:
        return self._is_stopped

    def kill(self, cause: Death | None = None) -> None:
        self._death = cause or self._death
        if self._actor is not None:
            self._ray.kill(self._actor)

    def reap(self) -> tuple[Death, Doing]:
        """End the actor; return the death of its worker, and what it was doing."""
        if self._actor is not None:
            self.kill(self._death)
            # A call to an actor fails when it has ended: it writes nothing any more.
            left = self._actor.turn.remote([], {}) if self.turn is None else self.turn
            self._ray.wait([left], timeout=END_SECONDS)
        return self._death or loss_of(None), self._doing


def loss_of(error: Exception | None) -> Death:
    """Return the death of a worker of which nothing more is known than that its actor is gone."""
    first = str(error or "").strip().partition("\n")[0][:200].rstrip(".")
    return Death(
        cause=f"lost by Ray: {first}" if first else "lost by Ray",
        reason="was lost",
        may_be_poison=False,
        is_loss=True,
    )
