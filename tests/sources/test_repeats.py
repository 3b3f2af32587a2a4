"""A key that is read and stands twice in an object inside a record is an error, on both ways."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dataprep.pipeline.ragged import Holds
from dataprep.pipeline.sources import Keys, find_sources, read_piece, split_source

GOOD = '{"text": "t", "meta": {"url": "u", "in": {"id": 1}}, "doc": {"segments": [{"text": "s"}]}}'
# The value of `meta`, and which key of it is read twice.
TWICE = {
    '{"url": "a", "url": "b"}': "url",
    '{"url": "a", "\\u0075rl": "b"}': "url",
    '{"url": "a:b", "in": {}, "in": {"id": 1}}': "in",
    '{"url": "a", "in": {"id": 1, "id": 1}}': "id",
    '{"url": "a", "in.id": 1, "in.id": 2}': "in.id",
}
FINE = (
    '{"url": "a", "other": 1, "other": 2}',
    '{"url": "a", "in": {"id": 1, "x": 1, "x": 2}}',
    '{"url": "a", "deep": {"url": 1, "url": 2}}',
    '{"url": "a:b", "a:b": ":"}',
    "null",
    "[]",
)
NAMES = frozenset({"text", "meta.url", "meta.in.id", "doc.segments"})


def held_by(key: str) -> Holds:
    return "segments" if key == "doc.segments" else ""


def reasons(folder: Path, lines: list[str], keys: Keys | None) -> tuple[list[int], list[str]]:
    """Return the lines that are records, and what is wrong with the others."""
    path = folder / "a.jsonl"
    path.write_text("\n".join(lines))
    (source,) = find_sources(str(path))
    ((piece, _),) = split_source(source, 0, sys.maxsize, keys, False)
    read = list(read_piece(source, piece, keys, held_by=held_by))
    good = [line for batch in read for line in batch.lines.tolist()]
    return good, [error.reason for batch in read for error in batch.errors]


def both_ways(folder: Path, line: str, keys: Keys | None) -> tuple[list[int], list[str]]:
    """Read it beside a whole block of good lines, beside a bad one, and beside a NaN."""
    found = reasons(folder, [GOOD, line], keys)
    good, wrong = reasons(folder, [GOOD, line, "{bad"], keys)
    assert (good, wrong[:-1]) == found
    if keys is not None:
        odd = line.replace("{", '{"x": NaN, ', 1)
        assert reasons(folder, [GOOD, odd], keys) == found
    return found


@pytest.mark.parametrize(("meta", "name"), TWICE.items())
@pytest.mark.parametrize("is_needed", [True, False])
def test_a_key_on_a_path_that_is_read_must_not_stand_twice(
    tmp_path: Path, meta: str, name: str, is_needed: bool
) -> None:
    line = GOOD.replace('{"url": "u", "in": {"id": 1}}', meta)
    keys = Keys(needed=NAMES, nested=True)
    if not is_needed:
        keys = Keys(needed=frozenset({"text"}), maybe=NAMES - {"text"}, nested=True)
    assert both_ways(tmp_path, line, keys) == ([0], [f"key {name!r} appears twice in the object"])
    # Nobody reads it.
    assert both_ways(tmp_path, line, Keys(needed=frozenset({"text"}), nested=True))[0] == [0, 1]


@pytest.mark.parametrize("meta", FINE)
def test_a_key_that_nobody_reads_may_stand_twice(tmp_path: Path, meta: str) -> None:
    line = GOOD.replace('{"url": "u", "in": {"id": 1}}', meta)
    assert both_ways(tmp_path, line, Keys(needed=NAMES, nested=True)) == ([0, 1], [])


def test_a_key_must_not_stand_twice_in_segments_that_a_path_leads_to(tmp_path: Path) -> None:
    line = GOOD.replace('"text": "s"', '"text": "s", "loss": true, "loss": false')
    keys = Keys(needed=NAMES, nested=True)
    assert both_ways(tmp_path, line, keys) == ([0], ["key 'loss' appears twice in the object"])


@pytest.mark.parametrize(
    "value", [*TWICE, '[1, {"a": [{"b": 1, "b": 2}]}]', '{"a": {"b": {"c": 1, "c": 1}}}']
)
def test_where_all_keys_are_read_none_may_stand_twice(tmp_path: Path, value: str) -> None:
    good, wrong = both_ways(tmp_path, f'{{"text": "t", "x": {value}}}', None)
    assert good == [0]
    assert len(wrong) == 1
    assert wrong[0].endswith("appears twice in the object")
