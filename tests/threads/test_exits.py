"""What other threads do here ends before the interpreter does, and they go no further."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import atexit, os, sys, threading, time
from pathlib import Path
here = Path(sys.argv[1])
# Registered first, so it runs last: what threads do after they were stopped shows meanwhile.
atexit.register(time.sleep, 0.3)
from dataprep.pipeline.threads import exits
begun = threading.Event()
def in_another(function, daemon=True):
    def run():
        try:
            function()
        finally:
            (here / "went-on").touch()
    threading.Thread(target=run, daemon=daemon).start()
    assert begun.wait(20)
"""


def run(program: str, folder: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-c", HEAD + program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_thread_puts_its_things_in_order_and_goes_no_further(tmp_path: Path) -> None:
    program = """
@exits.stopped_at_exit
def work():
    try:
        begun.set()
        while True: time.sleep(0.01)
    finally:
        (here / "in-order").touch()
in_another(work)
"""
    assert run(program, tmp_path) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["in-order"]


@pytest.mark.parametrize("ending", ["return", "raise ValueError"])
def test_a_thread_that_is_done_meanwhile_goes_no_further_either(
    tmp_path: Path, ending: str
) -> None:
    program = f"""
@exits.stopped_at_exit
def work():
    begun.set()
    try:
        while not exits._is_leaving: pass
        while True: time.sleep(0.01)
    except exits.Leaving:
        {ending}
in_another(work)
"""
    assert run(program, tmp_path) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_a_thread_that_comes_during_the_exit_does_nothing(tmp_path: Path) -> None:
    program = """
@exits.stopped_at_exit
def work():
    (here / "worked").touch()
def late():
    begun.set()
    while not exits._is_leaving: time.sleep(0.001)
    work()
atexit.register(exits.leave)
in_another(late)
"""
    assert run(program, tmp_path) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_what_must_not_be_broken_off_is_not(tmp_path: Path) -> None:
    program = """
@exits.stopped_at_exit
def work():
    while True:
        with exits.UNBROKEN:
            assert begin()
            (here / "whole").unlink(missing_ok=True)
            begun.set()
            for _ in range(20000): pass
            (here / "whole").touch()
def begin():
    return True
in_another(work)
"""
    for _ in range(5):
        assert run(program, tmp_path) == (0, "", "")
        assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_a_long_call_into_c_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    program = """
exits.PATIENCE = 0.2
@exits.stopped_at_exit
def work():
    begun.set()
    time.sleep(3600)
in_another(work)
"""
    assert run(program, tmp_path) == (0, "", "")


def test_the_main_thread_is_left_alone_and_so_is_a_thread_that_python_waits_for(
    tmp_path: Path,
) -> None:
    program = """
@exits.stopped_at_exit
def work(seconds):
    begun.set()
    time.sleep(seconds)
    return seconds
def plain():
    print(work(0.3))
threading.Thread(target=plain).start()
begun.wait()
print(work(0))
atexit.register(lambda: print(work(0.1)))
"""
    assert run(program, tmp_path) == (0, "0\n0.3\n0.1\n", "")


def test_a_forked_process_does_not_wait_for_threads_that_it_has_not(tmp_path: Path) -> None:
    program = """
@exits.stopped_at_exit
def work():
    begun.set()
    while True: time.sleep(0.01)
in_another(work)
child = os.fork()
before = time.monotonic()
if child == 0:
    sys.exit(5 if exits._inside else 4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - before < 5)
"""
    assert run(program, tmp_path) == (0, "4 True\n", "")


AT_EVERY_INSTRUCTION = """
came_out, tried = [], 0
@exits.stopped_at_exit
def work():
    for _ in range(3): pass

class Trial:
    '''The interpreter exits at instruction `number` of a stay, and tells it `delay` later.'''
    def __init__(self, number, delay):
        self.number, self.delay, self.count, self.is_told = number, delay, 0, False

    def trace(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith(("exits.py", "bells.py", "<string>")):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if self.count or threading.get_ident() in exits._inside:
                self.count += 1
            if self.count == self.number:
                # Who is out by now is not told.
                self.is_told = threading.get_ident() in exits._inside
                exits._is_leaving = True
            if self.is_told and self.count == self.number + self.delay:
                raise exits.Leaving
        return self.trace

    def run(self):
        sys.settrace(self.trace)
        try:
            work()
        finally:
            sys.settrace(None)
            self.returned = True

def fired(number, delay):
    exits._is_leaving, trial = False, Trial(number, delay)
    trial.returned = False
    exits._inside.clear()
    thread = threading.Thread(target=trial.run, daemon=True)
    thread.start()
    while thread.is_alive() and not rests(thread): time.sleep(0.0005)
    if trial.is_told and trial.returned: came_out.append((number, delay))
    return trial.count >= number

def rests(thread):
    frame = sys._current_frames().get(thread.ident)
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name); frame = frame.f_back
    return names[:2] == ["wait", "_rest"] and time.sleep(0.001) is None

for delay in (0, 1, 2, 3, 5, 8, 13, 21, 34):
    number = 1
    while fired(number, delay):
        number += 1; tried += 1
exits._is_leaving = False
exits._inside.clear()
sys.stdout.write(f"{tried > 200} {came_out}")
sys.stdout.flush()
os._exit(0)
"""


def test_nobody_who_is_told_comes_out_whatever_instruction_he_was_at(tmp_path: Path) -> None:
    assert run(AT_EVERY_INSTRUCTION, tmp_path) == (0, "True []", "")
