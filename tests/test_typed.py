"""Classes are decoded by many threads at once, also when it is the first time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A process can meet a class for the first time once only, so each try is a fork.
RACE = """
import os, sys, threading
from dataprep.pipeline.encode.tables import CodesMarker
from dataprep.pipeline.typed import decode_as

DATA = (
    b'{"num_records":4,"num_codes":4,"tallies":{},"examples":[],"files":{"shards":{"num_bytes":1,'
    b'"xxh3_128":"a"}},"schema":"","cursor":{"piece":0,"line":0},"final":true}'
)

def race():
    sys.setswitchinterval(1e-6)
    gate = threading.Barrier(8)
    def decode():
        gate.wait()
        decode_as(DATA, CodesMarker)
    threads = [threading.Thread(target=decode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

ends = []
for _ in range(80):
    pid = os.fork()
    if not pid:
        race()
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(sorted(set(ends)))
"""


def test_threads_that_decode_a_class_for_the_first_time_at_once_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("[0]\n", 0), done.stderr


def test_whatever_is_decoded_as_a_class_is_decoded_there() -> None:
    found = []
    for folder in ("pipeline", "loaders", "cli", "configs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "msgspec.json.decode":
                    found += [str(path)] if any(k.arg == "type" for k in node.keywords) else []
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "msgspec.convert":
                    found += [str(path)] if path.name != "typed.py" else []
    assert found == []
