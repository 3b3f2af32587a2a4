"""Take one safeguard out of dataprep: imported by every Python that has this folder on its path.

    DATAPREP_MUTANT=fsync PYTHONPATH=tests/support/mutants pytest tests/faults/test_power.py

A mutant that finds nothing to take out ends the process, and one that was made is noted in the
file DATAPREP_MUTANT_LOG, so that a test cannot fail for another reason and count as proof.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def _note() -> None:
    with open(os.environ["DATAPREP_MUTANT_LOG"], "a", encoding="utf-8") as file:
        file.write(f"{os.environ['DATAPREP_MUTANT']}\n")


def _replace(module: Any, name: str, other: Callable[..., Any]) -> None:
    if not hasattr(module, name):
        os.write(2, f"there is no {module.__name__}.{name} to take out\n".encode())
        os._exit(99)
    setattr(module, name, other)
    _note()


# By mutant: the module to wait for, and the change.
MUTANTS: dict[str, tuple[str, Callable[[ModuleType], None]]] = {
    "fsync": ("os", lambda m: _replace(m, "fsync", lambda descriptor: None)),
    "rename": (
        "dataprep.pipeline.files",
        lambda m: _replace(m, "temporary", lambda path: path),  # written in place
    ),
    "hash": (
        "dataprep.pipeline.storage.checked",
        lambda m: _replace(m, "check_hash", lambda path, entry, digest: None),
    ),
    "marker": (
        "dataprep.pipeline.jobs.commits",
        lambda m: _replace(m, "is_done", bool),  # one shard is taken for all of its task
    ),
    "comparison": (  # of committed files with their hashes, before a run goes on or publishes them
        "dataprep.pipeline.files",
        lambda m: _replace(m.Written, "is_at", lambda self, path: path.exists()),
    ),
}


class _AfterImport(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name, self._change = name, change

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            self._change(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


if chosen := os.environ.get("DATAPREP_MUTANT"):
    _name, _change = MUTANTS[chosen]
    if _name in sys.modules:
        _change(sys.modules[_name])
    else:
        sys.meta_path.insert(0, _AfterImport(_name, _change))
