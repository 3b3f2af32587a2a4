"""Records that kill their worker: a `sitecustomize` that makes workers choke on them.

    environment = poisoned(tmp_path / "poison", "segv")      for `run_cli(..., env=environment)`
    a record whose text, or whose name as a file, holds POISON then segfaults its worker

Each time leaves a line in a file, so that a test can assert that the fault fired.
"""

from __future__ import annotations

import os
from pathlib import Path

POISON = "POISON-7f3a"
MODES = ("abort", "segv", "exit", "panic", "mem", "hang")

SOURCE = """
import os, sys

def choke():
    mode = os.environ["POISON_MODE"]
    with open(os.environ["POISON_LOG"], "a") as file:
        file.write(mode + "\\n")
    if mode == "abort":
        os.abort()
    elif mode == "segv":
        import signal
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "exit":
        os._exit(7)
    elif mode == "panic":
        raise type("PanicException", (BaseException,), {})("stand-in for a panic of Rust")
    elif mode == "mem":
        raise MemoryError
    elif mode == "oom":
        os.kill(os.getpid(), 9)
    elif mode == "hang":
        import time
        time.sleep(600)

def patch_tokenize(module):
    process = module.process
    def choking(records, *args):
        for row in records.as_rows():
            if any("%(poison)s" in str(value) for value in row.values()):
                choke()
        return process(records, *args)
    module.process = choking

def patch_encode(module):
    decode_item = module.decode_item
    def choking(item, rules):
        told = item.source + str(item.columns)
        if "%(poison)s" in told and not item.reason:
            choke()
        return decode_item(item, rules)
    module.decode_item = choking

PATCHES = {
    "dataprep.pipeline.documents.together": patch_tokenize,
    "dataprep.pipeline.media.decode": patch_encode,
}

class Loader:
    def __init__(self, loader, patch):
        self.loader, self.patch = loader, patch
    def create_module(self, spec):
        return self.loader.create_module(spec)
    def exec_module(self, module):
        self.loader.exec_module(module)
        self.patch(module)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in PATCHES:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = Loader(spec.loader, PATCHES[name])
                return spec

if "POISON_MODE" in os.environ:
    sys.meta_path.insert(0, Finder())
"""


def poisoned(folder: Path, mode: str) -> dict[str, str]:
    """Return the environment in which workers choke on POISON."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(SOURCE % {"poison": POISON})
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "POISON_MODE": mode,
        "POISON_LOG": str(folder / "deaths"),
    }


def deaths(folder: Path) -> int:
    """Return how often a worker choked."""
    log = folder / "deaths"
    return len(log.read_text().splitlines()) if log.exists() else 0
