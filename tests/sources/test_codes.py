"""Codes: lists of integers come as arrays, the same integers as without."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import Holds, IntegerLists
from dataprep.pipeline.sources import count_records, find_sources, read_piece, split_source
from dataprep.pipeline.sources.json import digits
from dataprep.pipeline.sources.json.digits import parse_digit_lists
from dataprep.pipeline.sources.split import lines_before
from dataprep.pipeline.types import Piece, Records, Source

VISION = frozenset({"vision"})
BOTH = frozenset({"vision", "caption"})
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
INTEGERS += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DIGITS = re.compile("[0-9]{1,8}")


def is_codes(key: str) -> bool:
    return key.startswith("vision")


def known_keys(key: str) -> Holds:
    return "codes" if key in ("vision", "audio") else ""


def held_by(key: str) -> Holds:
    if "segments" in key:
        return "segments"
    return "codes" if is_codes(key) else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("codes")


def source_of(path: Path, content: bytes | None = None) -> Source:
    if content is not None:
        path.write_bytes(content)
    (source,) = find_sources(str(path))
    return source


def whole(source: Source) -> Piece:
    return Piece(source=0, start=0, stop=max(1, source.num_bytes))


def plain(value: Any) -> Any:
    """Arrays as lists, wherever they are."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def numbers(value: Any) -> Any:
    """Digit strings in lists as the numbers they are."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [int(v) if isinstance(v, str) and DIGITS.fullmatch(v) else v for v in value]
        return [numbers(item) for item in items]
    return value


def rows_of(batch: Records) -> list[dict[str, Any]]:
    rows: Sequence[Any] = batch.rows or ()
    if batch.columns is not None:
        names = list(batch.columns)
        columns = zip(*batch.columns.values(), strict=True)
        rows = [dict(zip(names, row, strict=True)) for row in columns]
    return [{key: plain(value) for key, value in row.items()} for row in rows]


def read_all(source: Source, keys: frozenset[str] | None, **kwargs: Any) -> tuple[Any, Any, int]:
    """([(line, offset, record)], [(line, offset, reason)], number of lines)"""
    records: list[Any] = []
    errors: list[Any] = []
    for batch in read_piece(source, whole(source), keys, **kwargs):
        places = zip(batch.lines.tolist(), batch.offsets.tolist(), rows_of(batch), strict=True)
        records += places
        errors += [(error.line, error.offset, error.reason) for error in batch.errors]
    return records, errors, batch.next_line


# ── the column itself


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6),
    st.integers(0, 2),
    st.builds(slice, *[st.none() | st.integers(-8, 8)] * 2, st.sampled_from([None, 1, 2, -1, -3])),
)
def test_integer_lists_are_indexed_and_sliced_like_a_list_of_lists(
    lists: list[list[int]], before: int, where: slice
) -> None:
    values = np.array([7] * before + [v for codes in lists for v in codes], np.int16)
    offsets = before + np.cumsum([0, *map(len, lists)], dtype=np.int64)
    column = IntegerLists(values, offsets)
    assert len(column) == len(lists)
    assert [codes.tolist() for codes in column] == lists
    assert [column[i].tolist() for i in range(-len(lists), len(lists))] == lists * 2
    assert [codes.tolist() for codes in column[where]] == lists[where]
    assert column[where].values.dtype == np.int16
    rows = np.arange(len(lists))[::-2]
    assert [codes.tolist() for codes in column.take(rows)] == lists[::-1][::2]
    with pytest.raises(IndexError):
        column[len(lists)]


# ── digits

blank = st.sampled_from(["", "", " ", "  ", "\t", "\r\n"])
number = st.integers(0, 9) | st.integers(0, 9999) | st.integers(0, 10**9) | st.integers(-5, 2**70)
digit_string = st.integers(0, 10**10).map(str) | st.sampled_from(["007", "00000001", "1"])
other = st.sampled_from(["", " 1", "1 ", "1 2", "1,2", "-1", "+1", "1.0", '"', "\\", "é", "١", ","])
element = st.one_of(
    number,
    digit_string,
    other,
    st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
    st.lists(number, max_size=2),
)
value = st.one_of(
    st.lists(number, max_size=6),
    st.lists(digit_string, max_size=6),
    st.lists(number | digit_string, max_size=6),
    st.lists(st.sampled_from(["12", *"1 2", "1,2", "", ",", " "]), max_size=6),
    st.lists(element, max_size=4),
    element,
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """A value, spelled with blanks wherever JSON takes them."""
    content = draw(value)
    if not isinstance(content, list):
        return json.dumps(content)
    space = draw(blank)
    parts = (draw(blank) + json.dumps(v, ensure_ascii=draw(st.booleans())) for v in content)
    return "[" + f"{space},".join(parts) + space + "]"


@settings(max_examples=300, deadline=None)
@given(st.lists(json_texts(), max_size=5))
def test_lists_of_digits_are_read_as_json_reads_them_or_left_alone(texts: list[str]) -> None:
    lists, taken = parse_digit_lists([text.encode() for text in texts])
    assert len(lists) == len(taken) == len(texts)
    for text, codes, was_taken in zip(texts, lists, taken.tolist(), strict=True):
        expected = json.loads(text)
        digits = isinstance(expected, list) and all(
            (type(v) is int or type(v) is str) and DIGITS.fullmatch(str(v)) and str(v).isascii()
            for v in expected
        )
        assert was_taken == digits
        assert codes.tolist() == (numbers(expected) if digits else [])


@pytest.mark.parametrize("digits", range(1, 10))
def test_every_length_of_number_is_read_or_left_alone(digits: int) -> None:
    rng = np.random.default_rng(digits)
    codes = [*rng.integers(0, 10**digits, 3000).tolist(), 10**digits - 1]
    for form in (codes, list(map(str, codes))):
        ((found,), taken) = parse_digit_lists([json.dumps(form).encode()])
        assert taken.tolist() == [digits <= 8]
        assert found.tolist() == (codes if digits <= 8 else [])


def test_many_and_long_lists_are_read_in_parts_that_fit_together() -> None:
    rng = np.random.default_rng(0)
    lengths = [0, 90_000, 3, 0, *rng.integers(0, 3000, 200).tolist(), 40_000, 1]
    lists = [rng.integers(0, 10_000, length).tolist() for length in lengths]
    raws = [json.dumps(codes).encode() for codes in lists]
    raws[7] = b"[-1]"
    found, taken = parse_digit_lists(raws)
    assert np.flatnonzero(~taken).tolist() == [7]
    lists[7] = []
    assert [codes.tolist() for codes in found] == lists
    found, taken = parse_digit_lists([])
    assert (len(found), len(taken), len(found.values)) == (0, 0, 0)


# ── JSON

key = st.sampled_from(["caption", "vision", "vision_2", "text", "vi:sion", "vis\\u0069on", "é", ""])
json_value = json_texts() | st.sampled_from(
    ['"a: b"', '{"vision": [1, 2]}', '{"a": {"b": ":"}, "a": 2}', '"\\u003a"', '"é\\ud83d\\ude00"']
)
pair = st.tuples(key, json_value, blank, blank)
one_line = st.builds(
    lambda pairs, before: (
        before + "{" + ",".join(f'{b}"{k}"{a}:{b}{v}{a}' for k, v, a, b in pairs) + "}"
    ).translate({10: " ", 13: " "}),
    st.lists(pair, max_size=5)
    | st.tuples(*[st.tuples(st.just(k), json_value, blank, blank) for k in sorted(BOTH)]).map(list),
    st.sampled_from(["", "", " "]),
)
broken_line = st.sampled_from(
    ["", "  ", "null", "{bad", '{"vision": [1,]}', '{"vision": [01]}', '{"vision": ["\\ud800"]}']
)


def with_numbers(outcome: Any) -> Any:
    records, errors, num_lines = outcome
    rows = [
        (line, offset, {k: numbers(v) if is_codes(k) else v for k, v in row.items()})
        for line, offset, row in records
    ]
    return repr(rows), errors, num_lines  # by repr, so that 1 and 1.0 are not the same


@settings(max_examples=200, deadline=None)
@given(
    st.lists(one_line | one_line | one_line | broken_line, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([None, VISION, BOTH, frozenset({"vision", "vision_2"})]),
    st.sampled_from([1, 60, 1 << 20]),
)
def test_jsonl_gives_the_same_records_and_errors_whether_codes_are_arrays_or_not(
    folder: Path, lines: list[str], end: str, keys: frozenset[str] | None, batch_bytes: int
) -> None:
    source = source_of(folder / "a.jsonl", end.join(lines).encode())
    found = read_all(source, keys, held_by=held_by, batch_bytes=batch_bytes)
    assert with_numbers(found) == with_numbers(read_all(source, keys))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(one_line, min_size=1, max_size=6),
    st.sampled_from([None, VISION, BOTH]),
    st.sampled_from([1, 60, 1 << 20]),
)
def test_json_arrays_give_the_same_records_and_errors_whether_codes_are_arrays_or_not(
    folder: Path, elements: list[str], keys: frozenset[str] | None, batch_bytes: int
) -> None:
    source = source_of(folder / "a.json", f"[{', '.join(elements)}\n]".encode())
    found = read_all(source, keys, held_by=held_by, batch_bytes=batch_bytes)
    assert with_numbers(found) == with_numbers(read_all(source, keys))


@settings(max_examples=100, deadline=None)
@given(st.lists(one_line, max_size=6), st.sampled_from([None, BOTH]))
def test_lines_of_json_are_read_as_python_reads_them(
    folder: Path, lines: list[str], keys: frozenset[str] | None
) -> None:
    source = source_of(folder / "b.jsonl", "\n".join(lines).encode())
    records, errors, _ = read_all(source, keys, held_by=held_by)
    refused = {line for line, _, _ in errors}
    read = {line: row for line, _, row in records}
    assert len(read) + len(refused) == len(lines)
    for i, line in enumerate(lines):
        objects: list[list[str]] = []  # the names in each, inner objects first

        def note(pairs: list[tuple[str, Any]], objects: list[list[str]] = objects) -> None:
            objects.append([name for name, _ in pairs])

        json.loads(line, object_pairs_hook=note)
        names = objects[-1]
        watched = objects if keys is None else [[name for name in names if name in keys]]
        assert (i in refused) == any(len(set(found)) < len(found) for found in watched)
        if i in read:
            expected = json.loads(line)
            if keys is not None and keys <= set(names):
                expected = {k: expected[k] for k in keys}
            for name, content in expected.items():
                if is_codes(name):
                    assert numbers(read[i][name]) == numbers(content)
                else:
                    assert read[i][name] == content
            assert set(read[i]) == set(expected)


def test_lists_of_numbers_come_as_one_column_of_arrays(folder: Path) -> None:
    lists = [[1, 2, 3], [], [8191], list(range(5000))]
    for form in (lists, [list(map(str, codes)) for codes in lists]):
        for separators in ((",", ":"), (", ", ": ")):
            lines = [json.dumps({"vision": c, "caption": "c"}, separators=separators) for c in form]
            source = source_of(folder / "c.jsonl", "\n".join([*lines, ""]).encode())
            (batch,) = read_piece(source, whole(source), BOTH, held_by=held_by)
            assert batch.columns is not None
            assert isinstance(batch.columns["vision"], IntegerLists)
            assert [codes.tolist() for codes in batch.columns["vision"]] == lists
            assert batch.columns["caption"] == ["c"] * 4
            (batch,) = read_piece(source, whole(source), None, held_by=held_by)
            assert [type(row["vision"]) for row in batch.as_rows()] == [np.ndarray] * 4
            (batch,) = read_piece(source, whole(source), BOTH)
            assert batch.columns == {"vision": form, "caption": ["c"] * 4}


def test_an_array_over_many_lines_is_taken_too(folder: Path) -> None:
    content = json.dumps([{"vision": [1, 2]}, {"vision": ["3"]}], indent=1)
    source = source_of(folder / "d.json", content.encode())
    (batch,) = read_piece(source, whole(source), VISION, held_by=held_by)
    assert batch.columns is not None
    assert isinstance(batch.columns["vision"], IntegerLists)


def test_what_is_no_list_of_digits_stands_among_arrays_as_it_is(folder: Path) -> None:
    odd: list[Any] = [[-1], [1.5], [[1], [2]], None, "AAE=", ["x"], [True], [10**9], ["1", None]]
    lines = [json.dumps({"vision": codes}) for codes in [[1], *odd, ["2"]]]
    source = source_of(folder / "e.jsonl", "\n".join([*lines, ""]).encode())
    (batch,) = read_piece(source, whole(source), VISION, held_by=held_by)
    assert batch.columns is not None
    first, *middle, last = batch.columns["vision"]
    assert isinstance(first, np.ndarray)
    assert (middle, last.tolist()) == (odd, [2])


@pytest.mark.parametrize(
    "text",
    [
        b"[01]",
        b"[1.]",
        b"[.5]",
        b"[1e]",
        b"[--1]",
        b"[-]",
        b"[+1]",
        b"[1,,2]",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1",
        b"[1}",
        b"[nan]",
        b"[NaN]",
        b"[Infinity]",
        b"[tru]",
        b"[1\x00]",
        b"[1\x0c]",
        b"[1e999]",
        b"[" + b"1" * 5000 + b"]",
        b'["\xff"]',
        b'["\\x"]',
        b'["\\ud800"]',
        b'["\\udc00"]',
        b'["\\u12"]',
        b'["a\x01"]',
        b'["1"2]',
        b'[1"2"]',
        b'["1]',
        b'"\xff"',
        b'{"\xff": 1}',
        b'{"a" 1}',
        b"[" * 5000 + b"]" * 5000,
        b'[1], "vision": [2]',
        b'[1], "vis\\u0069on": [2]',
        b'[1], "caption": ":"',
    ],
)
def test_what_is_not_json_within_codes_is_the_same_error_as_elsewhere(
    folder: Path, text: bytes
) -> None:
    good = b'{"caption": "a", "vision": [1, 2]}\n'
    bad = b'{"caption": "b", "vision": ' + text + b"}\n"
    source = source_of(folder / "f.jsonl", good + bad + good)
    for keys in (None, VISION, BOTH):
        records, errors, num_lines = read_all(source, keys, held_by=held_by)
        if not (keys == VISION and b"caption" in text):
            ((line, offset, _),) = errors
            assert (line, offset, len(records), num_lines) == (1, len(good), 2, 3)
        assert (records, errors, num_lines) == read_all(source, keys)


def test_keys_with_colons_are_no_reason_to_take_the_slow_way(folder: Path) -> None:
    line = b'{"a:b": "c:d", "vision": [1], "nested": {"x": [":", {"y": 1}]}}\n'
    source = source_of(folder / "g.jsonl", line * 3)
    (batch,) = read_piece(source, whole(source), None, held_by=held_by)
    assert [type(row["vision"]) for row in batch.as_rows()] == [np.ndarray] * 3


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"a:b": 1, "a\\u003ab": 2, "vision": [1]}', "a:b"),
        (b'{"a\\u003ab": 1, "vision": [1], "vision": [2]}', "vision"),
        (b'{"a": ":", "vision": [1], "c": {"d": 1}, "c": {}}', "c"),
    ],
)
def test_colons_do_not_hide_a_key_that_stands_twice(folder: Path, line: bytes, name: str) -> None:
    source = source_of(folder / "h.jsonl", b'{"vision": [1]}\n' + line)
    records, errors, _ = read_all(source, None, held_by=held_by)
    assert (len(records), errors[0][2]) == (1, f"key {name!r} appears twice in the object")


# ── tables


def write(table: pa.Table, path: Path) -> Source:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=7)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    return source_of(path)


def table_batches(
    source: Source, keys: frozenset[str] | None, batch_bytes: int = 40
) -> list[Records]:
    ((piece, _),) = split_source(source, 0, 1 << 30, keys, False)
    return list(read_piece(source, piece, keys, held_by=held_by, batch_bytes=batch_bytes))


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_columns_of_integer_lists_come_as_arrays_of_their_type(
    tmp_path: Path, name: str, kind: pa.DataType
) -> None:
    top = np.iinfo(kind.to_pandas_dtype()).max
    bottom = np.iinfo(kind.to_pandas_dtype()).min
    lists = [[i, bottom, top][: i % 4] for i in range(20)]
    threes = [[i, bottom, top] for i in range(20)]
    table = pa.table(
        {
            "vision": pa.array(lists, pa.list_(kind)),
            "vision_large": pa.array(lists, pa.large_list(kind)),
            "vision_fixed": pa.array(threes, pa.list_(kind, 3)),
            "caption": [f"c{i}" for i in range(20)],
        }
    )
    source = write(table, tmp_path / name)
    assert len(table_batches(source, None)) > 3  # slices of arrays, then
    for keys in (None, *map(frozenset, ({"vision"}, {"vision_large", "vision_fixed", "caption"}))):
        rows = []
        for batch in table_batches(source, keys):
            for column, values in (batch.columns or {}).items():
                if column != "caption":
                    assert isinstance(values, IntegerLists)
                    assert values.values.dtype == kind.to_pandas_dtype()
                    assert len(values.values) == values.offsets[-1] - values.offsets[0]
            rows += rows_of(batch)
        expected = table if keys is None else table.select(sorted(keys))
        assert rows == expected.to_pylist()


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_columns_with_nulls_and_of_other_types_come_as_python_values(
    tmp_path: Path, name: str
) -> None:
    codes = pa.list_(pa.uint16())
    table = pa.table(
        {
            "vision_no_list": pa.array([[1], None, [2]], codes),
            "vision_no_code": pa.array([[1], [None, 3], [2]], codes),
            "vision_fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
            "vision_floats": pa.array([[1.0], [], [2.5]]),
            "vision_words": pa.array([["1"], [], ["2"]]),
            "vision_flags": pa.array([[True], [], [False]]),
            "vision_deep": pa.array([[[1], [2]], [], [[3]]]),
            "vision_bytes": pa.array([b"\x01\x00", b"", b"\x02\x00"]),
            "vision_number": pa.array([1, 2, 3]),
            "vision_coded": pa.array([1, 2, 1]).dictionary_encode(),
            "vision_none": pa.array([None, None, [None]], codes),
            "vision_segments": pa.array(
                [
                    [{"text": "a", "codes": None}, {"text": None, "codes": [1, 2]}],
                    [],
                    [{"text": "b", "codes": [3]}, None],
                ]
            ),
            "vision_object_segments": pa.array([{"codes": [1]}, {"codes": []}, {"codes": [2, 3]}]),
            "other": pa.array([[1], [], [2]], codes),
        }
    )
    source = write(table, tmp_path / name)
    for keys in (None, *(frozenset({column}) for column in table.column_names)):
        (batch,) = table_batches(source, keys, 1 << 20)
        for values in (batch.columns or {}).values():
            assert isinstance(values, list)
        assert rows_of(batch) == table.select(keys or table.column_names).to_pylist()


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_codes_within_lists_and_objects_are_arrays(tmp_path: Path, name: str) -> None:
    segments = [
        [{"type": "text", "text": "a", "codes": None}, {"type": "v", "text": None, "codes": [1]}],
        [{"type": "v", "text": None, "codes": [2, 3]}],
        [],
    ]
    table = pa.table({"vision_segments": segments, "vision_books": [[[1, 2], [3, 4]], [[5]], []]})
    source = write(table, tmp_path / name)
    for keys in (None, frozenset(table.column_names)):
        rows: list[Any] = []
        for batch in table_batches(source, keys, 1):
            rows += batch.rows or [
                dict(zip(batch.columns or (), row, strict=True))
                for row in zip(*(batch.columns or {}).values(), strict=True)
            ]
        assert [plain(row) for row in rows] == table.to_pylist()
        assert type(rows[0]["vision_segments"][1]["codes"]) is np.ndarray
        assert [type(book) for book in rows[0]["vision_books"]] == [np.ndarray] * 2


@pytest.mark.parametrize("keys", [None, frozenset({"segments"})])
def test_a_key_that_stands_twice_in_a_segment_is_an_error(
    folder: Path, keys: frozenset[str] | None
) -> None:
    segments = [
        '[{"type": "text", "text": "a", "loss": false, "loss": true}]',
        '[{"type": "text", "text": "a:b"}, {"codes": [1], "codes": [1]}]',
        '[{"a:b": 1, "\\u0061:b": 2}]',
        '[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]',
        '[{"a": {"b": 1}}, {"a": 2}]',
        '"a"',
    ]
    lines = [f'{{"segments": {value}}}' for value in segments]
    for some in (lines, *([line] for line in lines)):
        source = source_of(folder / "t.jsonl", "\n".join(some).encode())
        records, errors, _ = read_all(source, keys, held_by=held_by)
        bad = [line for line in some if line in lines[:3]]
        assert len(errors) == len(bad)
        assert all("twice" in reason for _, _, reason in errors)
        assert len(records) == len(some) - len(bad)


def test_codes_in_json_are_arrays_within_lists_and_objects_too(folder: Path) -> None:
    values = [
        [{"type": "text", "text": "[1]"}, {"codes": [1, 2], "loss": False}],
        [[1, 2], ["3", "4"]],
        [3, 4],
        [[1, 2], ["x"]],
        [{"codes": [[7], [8]]}, {}],
        [[]],
        [{}],
    ]
    for key in ("vision", "segments"):
        for some in (*([v] for v in values), values):
            lines = [json.dumps({key: v, "k": i}) for i, v in enumerate(some)]
            source = source_of(folder / "n.jsonl", "\n".join(lines).encode())
            for keys in (None, frozenset({key})):
                records, errors, _ = read_all(source, keys, held_by=held_by)
                assert not errors
                found = [numbers(row[key]) for _, _, row in records]
                assert found == [numbers(v) for v in some]
    for key, value in (("segments", values[0]), ("vision", values[1])):
        source = source_of(folder / "n.jsonl", json.dumps({key: value}).encode())
        (batch,) = read_piece(source, whole(source), frozenset({key}), held_by=held_by)
        assert batch.columns is not None
        last = batch.columns[key][0][-1]
        assert type(last["codes"] if isinstance(last, dict) else last) is np.ndarray


def test_a_null_only_in_another_slice_does_not_matter_to_this_one(tmp_path: Path) -> None:
    table = pa.table({"vision": pa.array([[1, 2]] * 5 + [None, [3, None]], pa.list_(pa.int64()))})
    batches = table_batches(write(table, tmp_path / "t.arrow"), VISION, batch_bytes=16)
    kinds = [isinstance((batch.columns or {})["vision"], IntegerLists) for batch in batches]
    assert kinds == [True] * 5 + [False] * 2
    assert [row for b in batches for row in rows_of(b)] == table.to_pylist()


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_bad_rows_of_another_column_are_taken_out_of_codes(tmp_path: Path, name: str) -> None:
    offsets = np.array([0, 1, 2, 3, 4], np.int32)
    words = pa.Array.from_buffers(
        pa.string(), 4, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xffb\xfed")]
    )
    codes = pa.array([[1], [2, 3], [], [4, 5]], pa.list_(pa.uint16()))
    source = write(pa.table({"caption": words, "vision": codes}), tmp_path / name)
    expected = [{"caption": "b", "vision": [2, 3]}, {"caption": "d", "vision": [4, 5]}]
    for keys in (BOTH, None):
        (batch,) = table_batches(source, keys, 1 << 20)
        assert rows_of(batch) == expected
        assert batch.lines.tolist() == [1, 3]
        assert [error.line for error in batch.errors] == [0, 2]


def test_offsets_of_codes_that_point_nowhere_are_an_input_error(tmp_path: Path) -> None:
    write(pa.table({"vision": pa.array([[1] * 4] * 3, pa.list_(pa.int32()))}), tmp_path / "t.arrow")
    content = (tmp_path / "t.arrow").read_bytes()
    place = content.index(np.array([0, 4, 8, 12], np.int32).tobytes())
    wrong = np.array([0, 4, 2**30, 12], np.int32).tobytes()
    source = source_of(tmp_path / "t.arrow", content[:place] + wrong + content[place + 16 :])
    with pytest.raises(InputError, match=r"cannot read .*t\.arrow as Arrow: column 'vision'"):
        table_batches(source, VISION)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(element, max_size=12), max_size=6), st.integers(0, 40))
def test_it_does_not_matter_where_a_long_text_is_cut(lists: list[Any], window: int) -> None:
    raws = [json.dumps(codes).encode() for codes in lists]
    expected, are_taken = parse_digit_lists(raws)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "_WINDOW_BYTES", window)
        found, taken = parse_digit_lists(raws)
    assert taken.tolist() == are_taken.tolist()
    assert [codes.tolist() for codes in found] == [codes.tolist() for codes in expected]


# ── .npy


def npy(path: Path, array: np.ndarray[Any, Any], **kwargs: Any) -> Source:
    np.save(path, array, **kwargs)
    return source_of(path)


def npy_rows(source: Source, target_bytes: int = 1 << 20, **kwargs: Any) -> list[Any]:
    rows = []
    for piece, _ in split_source(source, 0, target_bytes, VISION, True):
        assert piece.first_line == len(rows) == lines_before(source, piece)
        for batch in read_piece(source, piece, VISION, **kwargs):
            rows += rows_of(batch)
    return [row["vision"] for row in rows]


def test_a_row_of_an_npy_that_is_longer_than_the_limit_is_an_error_and_is_not_read(
    tmp_path: Path,
) -> None:
    source = npy(tmp_path / "a.npy", np.zeros((3, 600), np.int16))
    (piece,) = (piece for piece, _ in split_source(source, 0, 1 << 20, VISION, True))
    assert len(npy_rows(source, max_record_bytes=1200)) == 3
    batches = list(read_piece(source, piece, VISION, from_line=1, max_record_bytes=1199))
    assert [(e.line, e.reason) for batch in batches for e in batch.errors] == [
        (i, "record of 1200 bytes is longer than the limit of 1199") for i in (1, 2)
    ]
    assert batches[-1].next_line == 3
    assert not any(len(batch.lines) for batch in batches)


@pytest.mark.parametrize("dtype", ["i1", "<i2", ">i2", "u2", ">u4", "i4", "i8", ">i8", ">u8"])
@pytest.mark.parametrize("shape", [(10, 6), (10, 2, 3), (1, 60), (60, 1), (60,), (0, 6), (0,)])
def test_rows_of_an_npy_are_records(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(math.prod(shape)) - (2 if "i" in dtype else 0)).reshape(shape).astype(dtype)
    source = npy(tmp_path / "a.npy", array)
    assert source.kind == "npy"
    expected = [array.tolist()] if array.ndim == 1 else array.tolist()
    for target_bytes in (1, 50, 1 << 20):
        for batch_bytes in (1, 50, 1 << 20):
            assert npy_rows(source, target_bytes, batch_bytes=batch_bytes) == expected
    for piece, _ in split_source(source, 0, 50, VISION, False):
        for batch in read_piece(source, piece, VISION):
            for column in (batch.columns or {}).values():
                assert isinstance(column, IntegerLists) == (array.ndim < 3)
                for codes in column:
                    assert codes.dtype == array.dtype.newbyteorder("=")
                    assert codes.dtype.isnative


def test_an_npy_is_cut_into_pieces_of_rows(tmp_path: Path) -> None:
    source = npy(tmp_path / "a.npy", np.zeros((10, 8), np.uint16))
    pieces = split_source(source, 3, 50, VISION, True)
    assert [(p.source, p.start, p.stop, p.first_line, size) for p, size in pieces] == [
        (3, 0, 3, 0, 48),
        (3, 3, 6, 3, 48),
        (3, 6, 9, 6, 48),
        (3, 9, 10, 9, 16),
    ]
    assert count_records(source, pieces[0][0], 99) == 3
    assert count_records(source, pieces[0][0], 2) == 2


def test_reading_an_npy_continues_at_any_row(tmp_path: Path) -> None:
    source = npy(tmp_path / "a.npy", np.arange(60).reshape(20, 3))
    piece = Piece(source=0, start=5, stop=15)
    for from_line in range(12):
        batches = list(read_piece(source, piece, VISION, from_line=from_line, batch_bytes=50))
        assert batches[-1].next_line == 10
        assert sum(batch.num_bytes for batch in batches) == 240
        rows = [row["vision"][0] for batch in batches for row in rows_of(batch)]
        assert rows == list(range(15 + 3 * from_line, 45, 3))
        assert [line for b in batches for line in b.lines.tolist()] == list(range(from_line, 10))


@pytest.mark.parametrize("keys", [None, BOTH])
def test_an_npy_has_one_field_only(tmp_path: Path, keys: frozenset[str] | None) -> None:
    source = npy(tmp_path / "a.npy", np.zeros((2, 3), np.int32))
    pattern = (
        r"a\.npy holds only codes, but .* are wanted from it; use one field, as in --fields vision"
    )
    with pytest.raises(InputError, match=pattern):
        split_source(source, 0, 100, keys, False)
    with pytest.raises(InputError, match=pattern):
        list(read_piece(source, Piece(source=0, start=0, stop=2), keys))


def test_wanting_nothing_of_an_npy_still_counts_its_rows(tmp_path: Path) -> None:
    source = npy(tmp_path / "a.npy", np.zeros((2, 3), np.int32))
    (batch,) = read_piece(source, Piece(source=0, start=0, stop=2), frozenset())
    assert (batch.columns, batch.lines.tolist()) == ({}, [0, 1])


@pytest.mark.parametrize(
    ("array", "pattern"),
    [
        (np.zeros((2, 3)), "holds float64, but codes are integers"),
        (np.zeros((2, 3), bool), "holds bool"),
        (np.array([{}, []], object), "holds object"),
        (np.zeros(3, [("a", "i4")]), "holds .*, but codes are integers"),
        (np.zeros((2, 3), "m8[s]"), "holds timedelta"),
        (np.array(["a"]), "holds <U1"),
        (np.array(3), "a single number"),
        (np.asfortranarray(np.zeros((2, 3), int)), "Fortran order.*np.ascontiguousarray"),
        (np.zeros((3, 0), int), "rows hold no codes"),
    ],
    ids=str,
)
def test_an_npy_of_anything_but_codes_is_an_input_error(
    tmp_path: Path, array: np.ndarray[Any, Any], pattern: str
) -> None:
    source = npy(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=rf"a\.npy.*{pattern}"):
        npy_rows(source)


def test_an_npy_cut_anywhere_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    source = npy(path, np.arange(12).reshape(4, 3))
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"cannot read .*a\.npy as \.npy"):
            npy_rows(source)
        with pytest.raises(InputError, match=r"cannot read .*a\.npy as \.npy"):
            list(read_piece(source, Piece(source=0, start=0, stop=4), VISION))
    path.write_bytes(content + b"\0")
    with pytest.raises(InputError, match=r"a\.npy has more bytes after its array of \(4, 3\)"):
        npy_rows(source)


def test_an_npy_with_fewer_rows_than_planned_is_an_input_error(tmp_path: Path) -> None:
    source = npy(tmp_path / "a.npy", np.zeros((2, 3), int))
    with pytest.raises(InputError, match="row 4 no longer exists"):
        list(read_piece(source, Piece(source=0, start=0, stop=5), VISION))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 127), st.binary(min_size=1, max_size=3))
def test_a_damaged_header_of_an_npy_is_an_input_error_or_says_the_truth(
    folder: Path, place: int, damage: bytes
) -> None:
    path = folder / "h.npy"
    source = npy(path, np.arange(12, dtype=np.int64).reshape(4, 3))
    content = path.read_bytes()
    path.write_bytes(content[:place] + damage + content[place + len(damage) :])
    rows, reason = None, ""
    try:
        rows = npy_rows(source)
    except InputError as error:
        reason = str(error)
    assert (str(path) in reason) == (rows is None)
    if rows is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy has doubts about headers by Python 2
        array = np.load(path, allow_pickle=False)
    assert rows == (array.tolist() if array.ndim > 1 else [array.tolist()])


def test_an_npy_in_a_folder_is_taken_only_if_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    np.save(tmp_path / "embeddings.npy", np.zeros((2, 3)))
    assert [source.kind for source in find_sources(str(tmp_path))] == ["jsonl"]
    assert [source.kind for source in find_sources(f"{tmp_path}/*.npy")] == ["npy"]
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(InputError, match=r"name the files: \S+/\*\.npy .*read only if named"):
        find_sources(str(tmp_path))


def test_an_npy_behind_a_url_is_read(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.uint16).reshape(4, 3)
    np.save(tmp_path / "a.npy", array)
    fsspec.filesystem("memory").pipe("/codes/a.npy", (tmp_path / "a.npy").read_bytes())
    (source,) = find_sources("memory://codes/a.npy")
    assert source.kind == "npy"
    assert npy_rows(source, 6, batch_bytes=1) == array.tolist()


def test_an_npy_that_vanished_is_an_input_error_that_names_it(tmp_path: Path) -> None:
    source = npy(tmp_path / "a.npy", np.zeros((2, 3), int))
    (tmp_path / "a.npy").unlink()
    with pytest.raises(InputError, match=r"cannot read .*a\.npy: No such file"):
        npy_rows(source)


# ── synthetic


def test_synthetic_sounds_are_codes_of_one_codebook() -> None:
    (source,) = find_sources("synthetic:audio?n=300&seed=1")
    ((piece, _),) = split_source(source, 0, 1 << 30, None, True)
    (batch,) = read_piece(source, piece, frozenset({"audio"}))
    assert batch.columns is not None
    lists = batch.columns["audio"]
    assert len(lists) == 300
    assert {min(map(len, lists)) // 10, max(map(len, lists)) // 10} == {7, 29}
    codes = [code for codes in lists for code in codes]
    assert {type(code) for code in codes} == {int}
    assert (min(codes), max(codes)) == (0, 1023)


@pytest.mark.parametrize("what", ["image", "audio", "paired"])
def test_synthetic_codes_are_the_same_as_arrays(what: str) -> None:
    (source,) = find_sources(f"synthetic:{what}?n=5")
    piece = Piece(source=0, start=0, stop=5)
    (as_lists,) = read_piece(source, piece, None)
    (as_arrays,) = read_piece(
        source, piece, None, held_by=lambda key: "codes" if key in ("vision", "audio") else ""
    )
    assert rows_of(as_arrays) == as_lists.rows
    names = {"image": "vision", "audio": "audio", "paired": "vision"}
    assert {type(row[names[what]]) for row in as_arrays.rows or ()} == {np.ndarray}
