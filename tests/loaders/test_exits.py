"""The interpreter exits while batches are made or asked for: in order, and with nothing said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.packed import Packed, write_packed

ASKING = """
import atexit, sys, threading, time
counts, ended = [0], []
def look():
    '''Registered first, so it runs last: nothing more may come, however long it takes.'''
    before = counts[0]
    time.sleep(0.3)
    print(counts[0] - before, ended)
atexit.register(look)
{jax}
from dataprep.loaders import DataLoader, open_dataset
def slow(rows):
    time.sleep(0.01)
    return {{"x": rows["tokens"]}}
def ask():
    loader = DataLoader(sys.argv[1], batch_size=4, {options})
    dataset = open_dataset(sys.argv[1])
    try:
        while True:
            {ask}
            counts[0] += 1
    finally:
        ended.append(sys.exc_info()[0])
threading.Thread(target=ask, daemon=True).start()
while counts[0] < 3: time.sleep(0.001)
"""
JAX = """
import jax
from jax.sharding import Mesh
mesh = Mesh(jax.devices(), ("data",))
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("exits") / "d", num_rows=24, seq_len=8)


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("ask", "options", "jax"),
    [
        ("next(loader)", "view=slow", ""),  # waits for the thread that makes batches
        ("next(loader)", "prefetch=0, view=slow", ""),
        ("next(loader)", "mesh=mesh", JAX),
        ("loader[counts[0] % 6]", "view=slow", ""),
        ("loader.part(0, 1, 2)", "", ""),
        ("dataset[counts[0] % 24]", "", ""),
    ],
    ids=["next", "no prefetch", "mesh", "item", "part", "dataset"],
)
def test_a_daemon_thread_that_asks_gets_nothing_more_not_even_the_end(
    packed: Packed, ask: str, options: str, jax: str
) -> None:
    done = run(ASKING.format(ask=ask, options=options, jax=jax), packed.folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 []\n", "")


STUCK = """
import sys, threading
from dataprep.loaders import DataLoader, prefetch
prefetch._PATIENCE = 0.2
begun = threading.Event()
def view(rows):
    begun.set()
    threading.Event().wait()
loader = DataLoader(sys.argv[1], batch_size=4, view=view)
loader.start_prefetch()
begun.wait()
print("done")
"""


def test_exit_does_not_wait_for_ever_for_a_view_that_never_returns(packed: Packed) -> None:
    done = run(STUCK, packed.folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


AT_EXIT = """
import atexit, sys
def late():
    print(next(loader)["inputs"].shape)
    loader.close()
atexit.register(late)
from dataprep.loaders import DataLoader
loader = DataLoader(sys.argv[1], batch_size=4)
next(loader)
"""


def test_a_generator_that_was_left_in_the_middle_says_nothing_at_exit(packed: Packed) -> None:
    # jax keeps the program's module, whose names go after those of the modules that it imported.
    program = f"""
import sys
{JAX}
from dataprep.loaders import DataLoader
def batches():
    with DataLoader(sys.argv[1], batch_size=4, mesh=mesh) as loader:
        yield from loader
left = batches()
next(left)
"""
    found = run(program, packed.folder)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_hook_of_the_users_own_may_still_ask(packed: Packed) -> None:
    done = run(AT_EXIT, packed.folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(4, 8)\n", "")


@pytest.mark.parametrize("ending", ["sys.exit(3)", "1 / 0"])
@pytest.mark.parametrize("close", ["loader.close()", "pass"])
def test_a_program_ends_with_its_own_exit_code(packed: Packed, close: str, ending: str) -> None:
    program = f"""
import sys
from dataprep.loaders import DataLoader
loader = DataLoader(sys.argv[1], batch_size=4)
next(loader)
{close}
{ending}
"""
    done = run(program, packed.folder)
    assert done.returncode == (1 if ending == "1 / 0" else 3)
    assert done.stderr.count("Traceback") == (ending == "1 / 0")
