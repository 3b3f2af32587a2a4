"""After Ctrl-C at any instruction, and after a fork, the loader goes on where its state says."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import dataprep.loaders as loaders
from dataprep.loaders import DataLoader, open_dataset, prefetch, whole
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage import checked
from support.inprocess import tokenize_here, write_lines
from support.packed import Packed, write_packed
from support.toy import write_toy_tokenizer

HERE = str(Path(loaders.__file__).parent)
STEPS = 6


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("interrupts") / "d", num_rows=24, seq_len=8)


def interrupted_at(number: int, act: Callable[[], Any]) -> bool:
    """Run `act`, raising KeyboardInterrupt at its number-th bytecode in our own code.

    Returns False where it has no so many.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == number:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        act()
    except (KeyboardInterrupt, StopIteration):
        pass
    finally:
        sys.settrace(None)
    return count >= number


def within(seconds: float, act: Callable[[], Any]) -> Any:
    """What `act` returns, or a failure where it hangs."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it hangs"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize("before", [0, 2, STEPS])
def test_state_and_next_batch_agree_after_an_interrupt_at_every_bytecode(
    packed: Packed, prefetch: int, before: int
) -> None:
    """Of the first batch, which starts the thread, of one in between, and of the end."""
    whole = [b["inputs"] for b in DataLoader(packed.folder, batch_size=4, epochs=1, prefetch=0)]
    assert len(whole) == STEPS
    dataset = open_dataset(packed.folder)
    dataset[list(range(24))]
    number = 1
    fired = True
    while fired:
        loader = DataLoader(dataset, batch_size=4, epochs=1, prefetch=prefetch)  # type: ignore[arg-type]
        for _ in range(before):
            next(loader)
        fired = interrupted_at(number, lambda: next(loader))  # noqa: B023
        step = loader.get_state()["step"]
        assert step in (before, min(before + 1, STEPS))
        rest = within(20, lambda: [batch["inputs"] for batch in iterate(loader)])  # noqa: B023
        assert np.array_equal(rest, whole[step:]), (number, step)
        within(20, loader.close)
        number += 1 if number < 150 else 41  # making a batch has thousands
    assert number > 10


def iterate(loader: DataLoader) -> Any:
    """The batches that are left; `iter` would start over at the end."""
    while True:
        try:
            yield next(loader)
        except StopIteration:
            return


@pytest.mark.parametrize("act", ["set_state", "close", "getitem"])
def test_an_interrupt_at_every_bytecode_of_other_calls_does_no_harm(
    packed: Packed, act: str
) -> None:
    whole = [b["inputs"] for b in DataLoader(packed.folder, batch_size=4, epochs=1, prefetch=0)]
    number, fired = 1, True
    while fired:
        loader = DataLoader(packed.folder, batch_size=4, epochs=1, prefetch=2)
        next(loader)
        state = {**loader.get_state(), "step": 4}
        acts: dict[str, Callable[[], Any]] = {
            "set_state": lambda: loader.set_state(state),  # noqa: B023
            "close": loader.close,
            "getitem": lambda: loader[3],  # noqa: B023
        }
        fired = interrupted_at(number, acts[act])
        step = loader.get_state()["step"]
        assert step in ((1, 4) if act == "set_state" else (1,))
        if act == "close" and loader._closed:
            with pytest.raises(ConfigError, match="this loader is closed"):
                within(20, lambda: next(loader))  # noqa: B023
        else:
            batch = within(20, lambda: next(loader))  # noqa: B023
            assert np.array_equal(batch["inputs"], whole[step])
        within(20, loader.close)
        number += 1 if number < 60 else 7  # `getitem` has thousands
        if number > 600:
            break
    assert number > 10


STORM = """
import random, signal, sys, time
from dataprep.loaders import DataLoader
loader = DataLoader(sys.argv[1], batch_size=4, seed=1, prefetch=2)
expected = DataLoader(sys.argv[1], batch_size=4, seed=1, prefetch=0)
next(loader); expected[0]
rng = random.Random(0)
interrupts = batches = 0
end = time.monotonic() + float(sys.argv[2])
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.random() * 2e-3)
        while True:
            next(loader)
    except KeyboardInterrupt:
        interrupts += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    step = loader.get_state()["step"]
    batch = next(loader)
    assert (batch["inputs"] == expected[step]["inputs"]).all(), step
    assert loader.get_state()["step"] == step + 1
    batches = step
loader.close()
import threading
assert len(threading.enumerate()) == 1, threading.enumerate()
print("good" if interrupts > 20 and batches > 20 else (interrupts, batches))
"""


def test_a_storm_of_real_signals_loses_nothing(packed: Packed) -> None:
    command = [sys.executable, "-c", STORM, str(packed.folder), "2"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


def test_closing_does_not_wait_until_a_shard_is_hashed(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At exit too: a shard may be large, and its disk slow."""
    parts, closing = itertools.count(), threading.Event()

    def slow(path: Any, between: Any) -> str:
        for _ in parts:
            closing.wait(20)
            between()
        raise AssertionError

    monkeypatch.setattr(whole, "_proven", {})
    monkeypatch.setattr(checked, "hash_file", slow)
    loader = DataLoader(packed.folder, batch_size=4)
    loader.start_prefetch()
    ahead: Any = loader._ahead
    ring = ahead._room.ring
    monkeypatch.setattr(ahead._room, "ring", lambda: (ring(), closing.set()))  # after `_closed`
    within(20, loader.close)
    assert not ahead._thread.is_alive()
    assert ahead._error is None


# --- threads ---


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_of_two_threads_that_ask_at_once_one_is_refused_and_no_batch_comes_twice(
    packed: Packed, prefetch: int
) -> None:
    found: list[tuple[int, ...]] = []
    refused: list[ConfigError] = []

    def ask() -> None:
        while len(found) < 200:
            try:
                found.append(tuple(next(loader)["inputs"][:, 0].tolist()))
            except ConfigError as error:
                refused.append(error)
                time.sleep(1e-4)  # leaves the processor to whoever makes a batch

    with DataLoader(packed.folder, batch_size=4, prefetch=prefetch) as loader:
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads), "it hangs"
        step = loader.get_state()["step"]
        assert step == len(found)
        handed_out = [tuple(loader[i]["inputs"][:, 0].tolist()) for i in range(step)]
    assert sorted(found) == sorted(handed_out)


def test_whoever_asks_while_a_batch_is_made_is_told_what_to_do(packed: Packed) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def view(rows: dict[str, Any]) -> dict[str, Any]:
        inside.set()
        assert go_on.wait(20)
        return {"x": rows["tokens"][:, :-1]}

    with DataLoader(packed.folder, batch_size=4, view=view, prefetch=2) as loader:
        thread = threading.Thread(target=lambda: next(loader))
        thread.start()
        assert inside.wait(20)
        with pytest.raises(ConfigError, match="give each thread a loader of its own"):
            next(loader)
        go_on.set()
        thread.join()
        next(loader)
        assert loader.get_state()["step"] == 2


def test_an_error_of_the_users_own_view_stays_what_it_is(packed: Packed) -> None:
    def view(rows: dict[str, Any]) -> dict[str, Any]:
        if armed:
            raise ValueError("mine")
        return {"x": rows["tokens"][:, :-1]}

    armed: list[int] = []
    with DataLoader(packed.folder, batch_size=4, view=view, prefetch=0) as loader:
        armed.append(1)
        for _ in range(2):
            with pytest.raises(ValueError, match="mine"):
                next(loader)
        armed.clear()
        assert np.array_equal(next(loader)["x"], loader[0]["x"])


# --- forks ---


def in_child(act: Callable[[], None]) -> int:
    """The exit code of a forked process that does this; it dies where it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_parent_and_forked_child_both_go_on(packed: Packed, prefetch: int) -> None:
    with DataLoader(packed.folder, batch_size=4, prefetch=prefetch) as loader:
        expected = [loader[step]["inputs"] for step in range(60)]
        for turn in range(20):
            next(loader)
            if turn % 2:
                time.sleep(0.001 * turn)  # the thread is at work, or waits

            def child() -> None:
                for _ in range(5):
                    step = loader.get_state()["step"]
                    assert np.array_equal(next(loader)["inputs"], expected[step])
                loader.close()

            assert in_child(child) == 0
            step = loader.get_state()["step"]
            assert np.array_equal(next(loader)["inputs"], expected[step])


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_while_a_batch_is_made_waits_for_it(packed: Packed) -> None:
    """A lock that the thread held at the fork would be locked in the child for ever."""
    lock = threading.Lock()
    inside = threading.Event()

    def view(rows: dict[str, Any]) -> dict[str, Any]:
        with lock:
            inside.set()
            time.sleep(0.05)
        return {"x": rows["tokens"][:, :-1]}

    with DataLoader(packed.folder, batch_size=4, view=view, prefetch=2) as loader:
        loader.start_prefetch()
        assert inside.wait(20)
        assert in_child(lambda: [next(loader) for _ in range(3)] and loader.close()) == 0


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_does_not_wait_for_ever_and_the_child_says_why_it_cannot_go_on(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the thread waits for may be held by whoever forks."""
    monkeypatch.setattr(prefetch, "_PATIENCE", 0.1)
    inside, go_on = threading.Event(), threading.Event()

    def view(rows: dict[str, Any]) -> dict[str, Any]:
        inside.set()
        assert go_on.wait(20)
        return {"x": rows["tokens"][:, :-1]}

    def child() -> None:
        for _ in range(2):
            with pytest.raises(ConfigError, match="forked while a batch was made"):
                next(loader)
        loader.close()

    with DataLoader(packed.folder, batch_size=4, view=view, prefetch=2) as loader:
        loader.start_prefetch()
        assert inside.wait(20)
        assert within(20, lambda: in_child(child)) == 0
        go_on.set()
        assert np.array_equal(next(loader)["x"], loader[0]["x"])
        assert in_child(lambda: [next(loader) for _ in range(3)] and loader.close()) == 0


@pytest.mark.filterwarnings("ignore:.*fork")
def test_two_loaders_whose_views_fork_do_not_wait_for_each_other(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def view(rows: dict[str, Any]) -> dict[str, Any]:
        assert in_child(lambda: None) == 0
        return {"x": rows["tokens"][:, :-1]}

    def go() -> None:
        for _ in range(15):
            next(one)
            next(other)

    monkeypatch.setattr(prefetch, "_PATIENCE", 1000)
    with (
        DataLoader(packed.folder, batch_size=1, view=view) as one,
        DataLoader(packed.folder, batch_size=1, view=view) as other,
    ):
        within(60, go)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_an_interrupt_at_every_bytecode_of_a_fork_leaves_no_thread_waiting(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: None)
    dataset: Any = open_dataset(packed.folder)
    dataset[0]
    number, fired = 1, True
    with DataLoader(dataset, batch_size=1) as one, DataLoader(dataset, batch_size=1) as other:
        while fired:
            next(one), next(other)
            fired = interrupted_at(number, fork_and_wait)
            # More than the two that are made ahead.
            within(20, lambda: [next(loader) for loader in (one, other) for _ in range(3)])
            number += 1 if number < 60 else 3
    assert number > 10


def fork_and_wait() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_thread_that_is_started_while_another_forks_begins_after_it(packed: Packed) -> None:
    def child() -> None:
        prefetch._gate.release()
        assert [len(next(loader)["inputs"]) for _ in range(3)] == [4, 4, 4]
        loader.close()

    with DataLoader(packed.folder, batch_size=4, prefetch=1) as loader:
        with prefetch._gate:  # as from before a fork to after it
            thread = threading.Thread(target=loader.start_prefetch)
            thread.start()
            thread.join()
            assert in_child(child) == 0
            assert loader._ahead is not None
            assert not loader._ahead._made
        within(20, lambda: next(loader))


POOL = """
import os, sys, threading, time, warnings
from dataprep.loaders import DataLoader, prefetch
from concurrent.futures import ThreadPoolExecutor
import logging
prefetch._PATIENCE = 1000
warnings.simplefilter("ignore")
pool, forking = ThreadPoolExecutor(2), threading.Event()
def view(rows):
    forking.wait()
    time.sleep(0.2)  # whoever forks has taken what it takes before it asks for us
    logging.getLogger("x").warning("made")
    return {"x": pool.submit(lambda: rows["tokens"]).result()}
loader = DataLoader(sys.argv[1], batch_size=4, view=view)
loader.start_prefetch()
os.register_at_fork(before=forking.set)  # runs first
if os.fork() == 0:
    os._exit(0)
os.wait()
print(len(next(loader)))
"""


def test_a_batch_that_needs_a_pool_or_logs_comes_to_its_end_before_a_fork(packed: Packed) -> None:
    command = [sys.executable, "-c", POOL, str(packed.folder)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_the_thread_compiles_nothing(packed: Packed) -> None:
    """It would hold locks of the compiler, which a child of a fork could wait for for ever."""
    from dataprep.loaders.kernels import expand_rows

    with DataLoader(packed.folder, batch_size=4, prefetch=2) as loader:
        for dataset in loader.datasets.values():
            dataset.prepare()
        compiled: Any = expand_rows.signatures  # type: ignore[attr-defined]
        known = len(compiled)
        next(loader)
        assert len(expand_rows.signatures) == known > 0  # type: ignore[attr-defined]


def test_a_loader_on_a_mesh_says_that_it_cannot_be_forked(packed: Packed) -> None:
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
import jax
from jax.sharding import Mesh
from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import ConfigError
import numpy as np
loader = DataLoader(sys.argv[1], batch_size=4, mesh=Mesh(np.array(jax.devices()), "d"))
next(loader)
child = os.fork()
if child == 0:
    try:
        next(loader)
    except ConfigError as error:
        os._exit(17 if "spawn" in str(error) else 1)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
next(loader)
"""
    command = [sys.executable, "-c", code, str(packed.folder)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr


# --- pickles ---


def test_open_datasets_survive_pickling(packed: Packed, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "abc def"}, {"text": "ghi"}])
    toy = write_toy_tokenizer(tmp_path / "toy")
    tokenize_here(tmp_path / "t", inputs=[str(path)], tokenizer=str(toy))
    for folder, name in ((tmp_path / "t", "tokens"), (packed.folder, "tokens")):
        dataset = open_dataset(folder)
        dataset[0]
        again = pickle.loads(pickle.dumps(dataset))
        assert len(again) == len(dataset)
        assert np.array_equal(again[1][name], dataset[1][name])


def test_a_loader_cannot_be_half_used(packed: Packed) -> None:
    """`has` and `part` take whatever number they are given."""
    with DataLoader(packed.folder, batch_size=4, epochs=1) as loader:
        assert not loader.has(10**30)
        with pytest.raises(ConfigError, match="count must be at least 1"):
            loader.part(0, 0, 0)
