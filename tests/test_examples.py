"""The `>>>` examples in docstrings are true."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from support.modules import FOLDERS, OPTIONAL, modules_of

FEWEST = 18  # modules with examples: with fewer, the search would have gone wrong
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def count_examples() -> dict[str, int]:
    """How many examples each module has: {"dataprep.pipeline.ragged": 2, …}; none are left out."""
    found = {}
    for name, path in (module for folder in FOLDERS for module in modules_of(folder).items()):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[name] = sum(line.lstrip().startswith(">>> ") for line in lines)
    return {name: count for name, count in found.items() if count}


EXAMPLES = count_examples()


def test_many_modules_have_examples() -> None:
    assert len(EXAMPLES) >= FEWEST


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_a_module_runs_and_is_true(name: str) -> None:
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    ran = doctest.testmod(module, optionflags=OPTIONS)
    assert ran.failed == 0
    assert ran.attempted == EXAMPLES[name]  # doctest cannot see into, say, nested functions
