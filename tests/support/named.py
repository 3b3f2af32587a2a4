"""Tests by name, for tables that say which of them show what."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from support.forks import TESTS


@cache
def names_in_file(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in found if name.startswith("test_"))


def exists(test: str) -> bool:
    """Return whether there is a test `folder/test_file.py::test_name`."""
    path, _, name = test.partition("::")
    return name in names_in_file(TESTS / path)
