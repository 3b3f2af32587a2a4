"""The table of formats."""

from __future__ import annotations

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from dataprep.pipeline import sources
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.sources.endings import kind_by_name, unknown_ending
from dataprep.pipeline.sources.format import Format
from dataprep.pipeline.sources.known import FORMATS

PIPELINE = Path(sources.__file__).parents[1]


def test_every_format_of_the_room_has_an_entry() -> None:
    for module in walk_packages(sources.__path__, f"{sources.__name__}."):
        import_module(module.name)
    subclasses = Format.__subclasses__()
    defined = {c for c in subclasses if c.__module__.startswith(sources.__name__)}
    assert defined == {type(known) for known in FORMATS.values()}


def test_an_ending_belongs_to_one_format_alone() -> None:
    counts = Counter(ending for known in FORMATS.values() for ending in known.endings)
    assert max(counts.values()) == 1
    for kind, known in FORMATS.items():
        assert known.kind == kind
        for ending in known.endings:
            assert re.fullmatch(r"\.[a-z0-9_]+", ending)
            assert kind_by_name(f"a{ending}") == (kind, "")
            packed = kind_by_name(f"a{ending}.gz")
            assert packed == ((kind, "gz") if known.may_be_compressed else None)


@pytest.mark.parametrize("query", ["?x", "?raw=1", "?sig=a/b.csv", "#part", "?x#y", "?", ""])
def test_a_query_of_any_kind_is_not_part_of_the_ending(query: str) -> None:
    assert kind_by_name(f"https://h/a.jsonl.gz{query}") == ("jsonl", "gz")
    assert kind_by_name(f"simplecache::https://h/a.jsonl{query}") == ("jsonl", "")


@pytest.mark.parametrize("mark", ["?", "#", "?x=1&"])
def test_a_mark_of_a_query_may_be_part_of_the_name(mark: str) -> None:
    assert kind_by_name(f"s3://b/a{mark}b.jsonl") == ("jsonl", "")
    assert kind_by_name(f"a{mark}b.jsonl") == ("jsonl", "")
    assert kind_by_name(f"a.jsonl{mark}") is None


def test_an_unknown_ending_is_told_all_that_are_known() -> None:
    told = str(unknown_ending("a.md"))
    assert all(ending in told for known in FORMATS.values() for ending in known.endings)


def test_a_kind_that_nobody_knows_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(InputError, match=r"'bson'.*jsonl"):
        format_of("bson")


def test_only_the_rooms_of_sources_and_media_compare_kinds_of_sources() -> None:
    outside = [
        path
        for path in PIPELINE.rglob("*.py")
        if path.relative_to(PIPELINE).parts[0] not in ("sources", "media")
    ]
    assert outside
    for path in outside:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("source.kind"):
                raise AssertionError(f"{path}:{node.lineno}: {ast.unparse(node)}: ask its format")
