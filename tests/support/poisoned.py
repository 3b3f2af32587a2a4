"""A document that kills or stops whoever encodes it: a `sitecustomize` for workers.

with_poison(folder, "abort")     the environment in which any text with POISON in it aborts
"""

from __future__ import annotations

from pathlib import Path

from support.installed import python_path

WORD = "POISON"

# Engines are called with the texts of many documents; the reference of `bytes` is the simplest.
HOOK = """
import importlib.abc, importlib.util, os, sys, time

def act(kind):
    with open({log!r}, "a") as file:
        file.write(kind + "\\n")
    if kind == "abort": os.abort()
    if kind == "segv": os.kill(os.getpid(), 11)
    if kind == "exit": os._exit(7)
    if kind == "panic": raise type("PanicException", (BaseException,), {{}})("a panic of a library")
    if kind == "memory": raise MemoryError
    while kind == "loop": time.sleep(0.01)

class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "dataprep.pipeline.engine.models.utf8":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def changed(module):
            execute(module)
            encode = module.BytesEngine.encode
            def poisoned(self, texts):
                if any({word!r} in text for text in texts):
                    act({kind!r})
                return encode(self, texts)
            module.BytesEngine.encode = poisoned
        spec.loader.exec_module = changed
        return spec

sys.meta_path.insert(0, Hook())
"""


def with_poison(folder: Path, kind: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    text = HOOK.format(word=WORD, kind=kind, log=str(folder / "fired"))
    (folder / "sitecustomize.py").write_text(text, "utf-8")
    return {"PYTHONPATH": python_path(folder)}


def times_fired(folder: Path) -> int:
    path = folder / "fired"
    return len(path.read_text().splitlines()) if path.exists() else 0
