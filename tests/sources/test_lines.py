"""JSONL and text: which records are where, whatever the ranges, batches and compression."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import count_records, find_sources, read_piece, split_source
from dataprep.pipeline.types import Piece, Records, Source

TEXT = frozenset({"text"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


def source_of(folder: Path, content: bytes, name: str = "data.jsonl", **kwargs: Any) -> Source:
    path = folder / name
    path.write_bytes(content)
    (source,) = find_sources(str(path), **kwargs)
    return source


def flat(batches: list[Records]) -> tuple[list[Any], list[Any]]:
    """([(line, offset, record)], [(line, offset, reason)])"""
    records, errors = [], []
    for batch in batches:
        assert (batch.columns is None) != (batch.rows is None)
        if batch.rows is not None:
            rows = list(batch.rows)
        else:
            assert batch.columns is not None
            names = list(batch.columns)
            rows = [
                dict(zip(names, row, strict=True))
                for row in zip(*batch.columns.values(), strict=True)
            ]
        places = zip(batch.lines.tolist(), batch.offsets.tolist(), rows, strict=True)
        records += [(line, offset, row) for line, offset, row in places]
        errors += [(error.line, error.offset, error.reason) for error in batch.errors]
    return records, errors


def read_all(
    source: Source,
    keys: frozenset[str] | None = TEXT,
    *,
    target_bytes: int = 1 << 20,
    **kwargs: Any,
) -> tuple[list[Any], list[Any], int]:
    """Every piece, one after the other; lines counted from the source's start."""
    records: list[Any] = []
    errors: list[Any] = []
    num_lines = 0
    for piece, _ in split_source(source, 0, target_bytes, keys, True):
        assert piece.first_line == num_lines
        batches = list(read_piece(source, piece, keys, **kwargs))
        assert batches
        found, bad = flat(batches)
        records += [(num_lines + line, offset, row) for line, offset, row in found]
        errors += [(num_lines + line, offset, reason) for line, offset, reason in bad]
        num_lines += batches[-1].next_line
    return records, errors, num_lines


def naive(content: bytes, separator: bytes = b"\n") -> Iterator[tuple[int, int, bytes]]:
    """(line, offset, bytes) of every line that is not empty."""
    offset = 0
    for line, data in enumerate(content.split(separator)):
        if data:
            bom = 3 if offset == 0 and data.startswith(b"\xef\xbb\xbf") else 0
            yield line, offset + bom, data[bom:]
        offset += len(data) + len(separator)


good = st.builds(
    lambda text, ascii, extra: json.dumps(
        {"text": text, **({"n": extra} if extra else {})}, ensure_ascii=ascii
    ).encode(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.just("long " * 50),
    st.booleans(),
    st.integers(0, 3),
)
odd = st.sampled_from(
    [
        b"",
        b"  \t",
        b"\x0c",
        b"null",
        b"[1]",
        b'{"text": "a"',
        b'{"text":',
        b'"b"}',
        b'{"text": {"text": 1}}',
        b'{"other": 1}',
        b'{"text": 1}{"text": 2}',
        b'{"text": 1, "text": 2}',
        b'{"x": {}, "text": 5,',
        b"{}",
        b'{"text": "\\ud800"}',
        b'{"text": "\xff"}',
        b'{"x": "\xff", "text": 3}',
        b' {"text": 4} ',
        b'{"te\\u0078t": 6}',
        '{"text": "\u2028\u0085"}'.encode(),
    ]
)
newline = st.sampled_from([b"\n", b"\r\n"])
contents = st.builds(
    lambda bom, lines, ended: (
        bom + b"".join(line + end for line, end in lines)[: None if ended else -1]
    ),
    st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(good | good | odd, newline), max_size=12),
    st.booleans(),
)


@settings(max_examples=80, deadline=None)
@given(contents, st.integers(1, 200), st.integers(1, 200))
def test_ranges_and_batches_do_not_change_what_is_read(
    folder: Path, content: bytes, target_bytes: int, batch_bytes: int
) -> None:
    source = source_of(folder, content)
    whole = read_all(source)
    assert read_all(source, target_bytes=target_bytes, batch_bytes=batch_bytes) == whole
    records, errors, num_lines = whole
    expected = [place for place in naive(content) if place[2].strip(b" \t\r")]
    found = sorted([place[:2] for place in records] + [place[:2] for place in errors])
    assert found == [(line, offset) for line, offset, _ in expected]
    assert num_lines == content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@settings(max_examples=80, deadline=None)
@given(contents, st.integers(1, 200), st.integers(1, 200))
def test_records_are_those_of_a_naive_reading(
    folder: Path, content: bytes, target_bytes: int, batch_bytes: int
) -> None:
    source = source_of(folder, content)
    records, errors, _ = read_all(source, target_bytes=target_bytes, batch_bytes=batch_bytes)
    read = {(line, offset): row.get("text") for line, offset, row in records}
    refused = {(line, offset) for line, offset, _ in errors}
    for line, offset, data in naive(content):
        if not data.strip(b" \t\r"):
            continue
        try:
            value = json.loads(data.decode("utf-8", "surrogateescape"))
        except ValueError:
            assert (line, offset) in refused
            continue
        if (line, offset) in refused:
            assert not isinstance(value, dict) or b"text" in data
        else:
            assert read[line, offset] == value.get("text")


@settings(max_examples=40, deadline=None)
@given(contents, st.integers(1, 200))
def test_whole_records_do_not_depend_on_ranges_either(
    folder: Path, content: bytes, target_bytes: int
) -> None:
    source = source_of(folder, content)
    assert read_all(source, None, target_bytes=target_bytes, batch_bytes=50) == read_all(
        source, None
    )


@settings(max_examples=40, deadline=None)
@given(contents, st.integers(20, 300), st.integers(1, 100))
def test_reading_continues_exactly_at_any_line(
    folder: Path, content: bytes, target_bytes: int, batch_bytes: int
) -> None:
    source = source_of(folder, content)
    for piece, _ in split_source(source, 0, target_bytes, TEXT, False):
        batches = list(read_piece(source, piece, TEXT, batch_bytes=batch_bytes))
        records, errors = flat(batches)
        num_lines = batches[-1].next_line
        for from_line in range(num_lines + 2):
            rest = list(
                read_piece(source, piece, TEXT, from_line=from_line, batch_bytes=batch_bytes)
            )
            assert rest[-1].next_line == num_lines
            assert flat(rest) == (
                [place for place in records if place[0] >= from_line],
                [place for place in errors if place[0] >= from_line],
            )
            assert sum(batch.num_bytes for batch in rest) == sum(
                batch.num_bytes for batch in batches
            )


@settings(max_examples=40, deadline=None)
@given(contents, st.integers(1, 200), st.integers(1, 3))
def test_compressed_files_read_like_plain_ones(
    folder: Path, content: bytes, batch_bytes: int, num_parts: int
) -> None:
    whole = read_all(source_of(folder, content))
    step = max(1, -(-len(content) // num_parts))
    parts = [content[i : i + step] for i in range(0, len(content), step)] or [b""]
    gz = source_of(folder, b"".join(map(gzip.compress, parts)), "data.jsonl.gz")
    zst = b"".join(map(zstandard.ZstdCompressor().compress, parts))
    for source in (gz, source_of(folder, zst, "data.jsonl.zst")):
        assert split_source(source, 3, 10, TEXT, True) == [
            (Piece(source=3, start=0, stop=1, first_line=0), source.num_bytes)
        ]
        assert read_all(source, batch_bytes=batch_bytes) == whole
        piece = Piece(source=0, start=0, stop=1)
        batches = list(read_piece(source, piece, TEXT, batch_bytes=batch_bytes))
        assert sum(batch.num_bytes for batch in batches) == source.num_bytes


@settings(max_examples=70, deadline=None)
@given(
    st.text("ab-é\n", max_size=60),
    st.sampled_from(["\n", "-", "ab", "ab-", "é", "\n\n", "aba", "--"]),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_texts_between_separators_are_those_of_split(
    folder: Path, text: str, separator: str, target_bytes: int, batch_bytes: int
) -> None:
    content = text.encode()
    source = source_of(folder, content, "data.txt", separator=separator)
    expected = [
        (line, offset, {"text": data.decode()})
        for line, offset, data in naive(content, separator.encode())
    ]
    records, errors, num_lines = read_all(
        source, target_bytes=target_bytes, batch_bytes=batch_bytes
    )
    assert (records, errors) == (expected, [])
    parts = text.split(separator)
    assert num_lines == len(parts) - (parts[-1] == "")
    assert read_all(source, None) == (expected, [], num_lines)
    if separator in ("\n\n", "aba", "--"):
        assert len(split_source(source, 0, target_bytes, TEXT, False)) == 1


@settings(max_examples=40, deadline=None)
@given(contents, st.integers(1, 300), st.integers(0, 15))
def test_records_are_counted_without_decoding(
    folder: Path, content: bytes, target_bytes: int, stop_after: int
) -> None:
    source = source_of(folder, content)
    for piece, _ in split_source(source, 0, target_bytes, TEXT, False):
        records, errors = flat(list(read_piece(source, piece, TEXT)))
        assert count_records(source, piece, stop_after) == min(
            stop_after, len(records) + len(errors)
        )


def test_pieces_cover_the_file_in_steps_of_the_target(folder: Path) -> None:
    source = source_of(folder, b'{"text": 1}\n' * 10)
    pieces = split_source(source, 7, 50, TEXT, True)
    assert [(piece.start, piece.stop, size) for piece, size in pieces] == [
        (0, 50, 50),
        (50, 100, 50),
        (100, 120, 20),
    ]
    assert [piece.first_line for piece, _ in pieces] == [0, 5, 9]
    assert {piece.source for piece, _ in pieces} == {7}
    assert split_source(source, 7, 50, TEXT, False)[1][0].first_line == -1


def test_an_empty_file_gives_one_empty_batch(folder: Path) -> None:
    for name in ("e.jsonl", "e.json", "e.txt"):
        source = source_of(folder, b"", name)
        ((piece, size),) = split_source(source, 0, 100, TEXT, True)
        (batch,) = read_piece(source, piece, TEXT)
        assert (size, batch.next_line, len(batch.lines), batch.errors) == (0, 0, 0, ())


def test_a_range_without_a_line_start_gives_one_empty_batch(folder: Path) -> None:
    source = source_of(folder, b'{"text": "' + b"x" * 100 + b'"}\n{"text": "y"}')
    (batch,) = read_piece(source, Piece(source=0, start=50, stop=60), TEXT)
    assert (batch.next_line, len(batch.lines)) == (0, 0)


def test_trailing_blank_lines_are_in_the_line_count(folder: Path) -> None:
    source = source_of(folder, b'{"text": "a"}\n' + b"\n" * 100)
    batches = list(read_piece(source, Piece(source=0, start=0, stop=114), TEXT, batch_bytes=20))
    assert [len(batch.lines) for batch in batches] == [1, 0]
    assert batches[-1].next_line == 101
    assert sum(batch.num_bytes for batch in batches) == 114


def test_batches_hold_about_batch_bytes(folder: Path) -> None:
    line = b'{"text": "' + b"x" * 88 + b'"}\n'
    source = source_of(folder, line * 100)
    sizes = [
        b.num_bytes
        for b in read_piece(source, Piece(source=0, start=0, stop=10100), TEXT, batch_bytes=1000)
    ]
    assert sum(sizes) == 10100
    assert max(sizes) <= 1100


def test_a_record_bigger_than_a_batch_is_a_batch_of_its_own(folder: Path) -> None:
    small = b'{"text": "s"}\n'
    big = json.dumps({"text": "b" * 5000}).encode() + b"\n"
    source = source_of(folder, small * 3 + big + small * 3)
    piece = Piece(source=0, start=0, stop=source.num_bytes)
    batches = list(read_piece(source, piece, TEXT, batch_bytes=100))
    assert [len(b.lines) for b in batches if b.num_bytes > 200] == [1]


def test_all_wanted_keys_present_give_columns_and_one_missing_gives_rows(folder: Path) -> None:
    source = source_of(folder, b'{"text": "a", "n": 1}\n{"text": "b", "n": [2]}\n')
    piece = Piece(source=0, start=0, stop=source.num_bytes)
    (batch,) = read_piece(source, piece, frozenset({"text", "n"}))
    assert batch.columns == {"text": ["a", "b"], "n": [1, [2]]}
    (batch,) = read_piece(source, piece, frozenset({"text", "m"}))
    assert batch.as_rows() == [{"text": "a", "n": 1}, {"text": "b", "n": [2]}]
    (batch,) = read_piece(source, piece, frozenset())
    assert (batch.columns, batch.lines.tolist()) == ({}, [0, 1])


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\nb", "é", "", "a b", "\x00", "self"])
def test_any_string_can_be_a_key(folder: Path, key: str) -> None:
    source = source_of(folder, json.dumps({key: 1, "z": 2}).encode() + b"\n")
    (batch,) = read_piece(source, Piece(source=0, start=0, stop=99), frozenset({key}))
    assert batch.columns == {key: [1]}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{bad}", "not valid JSON: "),
        (b'{"text": "a"', "not valid JSON: Input data was truncated"),
        (b'{"text": "a"} {"text": "b"}', "not valid JSON: trailing characters"),
        (b'{"text": NaN}', "not valid JSON: invalid character (byte 9)"),
        (b"null", "not an object but null"),
        (b"[1, 2]", "not an object but a list"),
        (b'"x"', "not an object but a string"),
        (b"1.5", "not an object but a number"),
        (b"true", "not an object but a boolean"),
        (b'{"text": "a\xffb"}', "invalid UTF-8: byte 0xff at byte 11 of the record"),
        (b'{"text": "a\\ud800"}', "lone surrogate \\ud800 at byte 11 of the record"),
        (b'{"text": "\\udc00\\ud83d\\ude00"}', "lone surrogate \\udc00 at byte 10 of the record"),
        (b'{"text": 1, "text": 2}', "key 'text' appears twice in the object"),
        (b'{"text": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
        (b'{"text": ' + b"1" * 5000 + b"}", "out of range"),
        (b'{"text": "a\x00b"}', "not valid JSON: invalid character"),
    ],
)
def test_a_bad_line_is_an_error_of_that_line_with_its_reason(
    folder: Path, line: bytes, reason: str
) -> None:
    before, after = b'{"text": "before"}\n\n', b'\n{"text": "after"}\n'
    source = source_of(folder, before + line + after)
    for keys in (TEXT, None):
        records, errors, num_lines = read_all(source, keys)
        assert [(line, row["text"]) for line, _, row in records] == [(0, "before"), (3, "after")]
        ((number, offset, found),) = errors
        assert (number, offset, num_lines) == (2, len(before), 4)
        assert reason in found


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text": "a\\u0000b"}', "a\0b"),
        ('{"text": "a\u2028b\u0085"}'.encode(), "a\u2028b\u0085"),
        (b'{"text": "\\ud83d\\ude00"}', "😀"),
        (b'{"text": "a\\\\ud800"}', "a\\ud800"),
        (b'\t{"text": "x"} \r', "x"),
        (b'{"text": 123456789012345678901234567890}', 123456789012345678901234567890),
    ],
)
def test_unusual_lines_that_are_right(folder: Path, line: bytes, text: object) -> None:
    source = source_of(folder, line)
    for keys in (TEXT, None):
        assert read_all(source, keys) == ([(0, 0, {"text": text})], [], 1)


@pytest.mark.parametrize("name", ["odd.jsonl", "odd.json"])
@pytest.mark.parametrize(
    "value",
    [
        *(b"NaN", b"Infinity", b"-Infinity", b"[NaN]", b'{"a": {"a": NaN}}', b"1e999", b"1" * 5000),
        *(b'"\\ud800"', b'"\\udc00x"', b'"\xff"', b'{"b": 1, "b": "\\ud800"}'),
    ],
)
def test_what_is_not_quite_json_under_a_key_that_nobody_wants_does_no_harm(
    folder: Path, value: bytes, name: str
) -> None:
    odd = b'{"x": ' + value + b', "text": "a", "vision": [1, 2], "a\\"b": 3, "segments": []}'
    plain = b'{"text": "b", "vision": [3], "a\\"b": 4, "segments": [], "x": 0}'
    lines = odd + b"\n" + plain + b"\n"
    content = b"[" + odd + b",\n" + plain + b"]" if name == "odd.json" else lines
    source = source_of(folder, content, name)
    for keys in ({"text"}, {"text", "vision"}, {"text", 'a"b'}, {"text", "segments"}, {"vision"}):
        for held in ("", "codes"):
            kinds = {"vision": held, "segments": "segments" if held else ""}
            records, errors, _ = read_all(
                source, frozenset(keys), held_by=lambda key, kinds=kinds: kinds.get(key, "")
            )
            assert not errors
            rows = [{key: _plain(row[key]) for key in keys} for _, _, row in records]
            first = {"text": "a", "vision": [1, 2], 'a"b': 3, "segments": []}
            second = {"text": "b", "vision": [3], 'a"b': 4, "segments": []}
            assert rows == [{key: row[key] for key in keys} for row in (first, second)]
    for keys in (frozenset({"text", "x"}), None):
        _, errors, _ = read_all(source, keys)
        assert errors


def _plain(value: Any) -> Any:
    return [int(code) for code in value] if isinstance(value, np.ndarray) else value


def test_a_wanted_key_that_is_repeated_beside_nan_is_still_found(folder: Path) -> None:
    source = source_of(folder, b'{"text": "a", "x": NaN, "text": "b"}\n')
    assert [reason for _, _, reason in read_all(source)[1]] == [
        "key 'text' appears twice in the object"
    ]
    segments = b'{"segments": [{"type": "text", "text": "a", "text": "b"}], "x": NaN}\n'
    source = source_of(folder, segments)
    _, ((_, _, reason),), _ = read_all(
        source, frozenset({"segments"}), held_by=lambda key: "segments"
    )
    assert reason == "key 'text' appears twice in the object"


def test_an_object_over_two_lines_beside_two_in_one_line_is_not_taken_for_three_records(
    folder: Path,
) -> None:
    source = source_of(folder, b'{"text": 1}{"text": 2}\n{"text":\n3}\n')
    records, errors, num_lines = read_all(source)
    assert (records, [line for line, _, _ in errors], num_lines) == ([], [0, 1, 2], 3)


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("batch_bytes", [10, 100, 100_000])
def test_a_record_over_the_limit_is_an_error_and_the_rest_is_read(
    folder: Path, compression: str, batch_bytes: int
) -> None:
    long = json.dumps({"text": "x" * 1000}).encode()
    content = b'{"text": "a"}\n' + long + b'\n{"text": "b"}\n' + b" " * 600 + b"\n" + long
    data = gzip.compress(content) if compression else content
    source = source_of(folder, data, f"data.jsonl{compression}")
    records, errors, num_lines = read_all(source, batch_bytes=batch_bytes, max_record_bytes=500)
    assert [(line, row["text"]) for line, _, row in records] == [(0, "a"), (2, "b")]
    assert errors == [
        (1, 14, f"record of {len(long)} bytes is longer than the limit of 500"),
        (3, 14 + len(long) + 15, "record of 600 bytes is longer than the limit of 500"),
        (4, 14 + len(long) + 616, f"record of {len(long)} bytes is longer than the limit of 500"),
    ]
    assert num_lines == 5
    exactly = read_all(source, batch_bytes=batch_bytes, max_record_bytes=len(long))
    assert [line for line, _, _ in exactly[0]] == [0, 1, 2, 4]


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz", "data.jsonl.zst", "data.txt"])
def test_memory_is_bounded_also_for_an_endless_line(folder: Path, name: str) -> None:
    content = b"[" + bytes(32 << 20)
    if name.endswith(".gz"):
        content = gzip.compress(content, 1) * 4
    if name.endswith(".zst"):
        content = zstandard.ZstdCompressor().compress(content) * 16
    source = source_of(folder, content, name, max_ratio=1 << 20)
    tracemalloc.start()
    _, errors, _ = read_all(source, batch_bytes=1 << 18, max_record_bytes=1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line for line, _, _ in errors] == [0]
    # 1 KiB of zstd can be 32 MiB of content, which exist up to three times for a moment.
    assert peak < (110 << 20 if name.endswith("zst") else 6 << 20)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be", "utf-32-be"])
@pytest.mark.parametrize("name", ["u.jsonl", "u.json", "u.txt", "u.jsonl.gz"])
def test_utf16_and_utf32_are_errors_of_the_file_with_the_fix(
    folder: Path, encoding: str, name: str
) -> None:
    bom = "" if encoding in ("utf-16", "utf-32") else "\ufeff"
    content = (bom + '{"text": "a"}\n').encode(encoding)
    with pytest.raises(InputError, match=r"u\..* is UTF-(16|32).*iconv -f UTF-(16|32)"):
        read_all(source_of(folder, gzip.compress(content) if name[-1] == "z" else content, name))


def test_a_byte_order_mark_is_stripped_once(folder: Path) -> None:
    bom = b"\xef\xbb\xbf"
    for name in ("b.txt", "b.txt.gz"):
        content = bom + bom + b"a"
        content = gzip.compress(content) if name.endswith("gz") else content
        assert read_all(source_of(folder, content, name))[0] == [(0, 3, {"text": "\ufeffa"})]
    records, errors, _ = read_all(source_of(folder, bom + b'{"text": 1}\n'), target_bytes=1)
    assert (records, errors) == ([(0, 3, {"text": 1})], [])


def test_a_text_without_separator_is_one_record_to_the_byte(folder: Path) -> None:
    text = "  first\r\n\r\nsecond \u2028\x00 é\n\n"
    source = source_of(folder, text.encode(), "whole.txt")
    assert read_all(source, batch_bytes=3) == ([(0, 0, {"text": text})], [], 1)
    assert read_all(source, frozenset({"body"}))[0] == [(0, 0, {"text": text})]


def test_invalid_utf8_in_a_text_is_an_error_with_its_place(folder: Path) -> None:
    source = source_of(folder, b"ab;c\xffd;e", "bad.txt", separator=";")
    records, errors, _ = read_all(source)
    assert [row["text"] for _, _, row in records] == ["ab", "e"]
    assert errors == [(1, 3, "invalid UTF-8: byte 0xff at byte 1 of the text")]


def test_a_whole_text_over_the_limit_is_an_error(folder: Path) -> None:
    source = source_of(folder, b"x" * 1000, "big.txt")
    assert read_all(source, max_record_bytes=999, batch_bytes=10) == (
        [],
        [(0, 0, "record of 1000 bytes is longer than the limit of 999")],
        1,
    )


def test_a_file_that_vanished_is_an_input_error_that_names_it(tmp_path: Path) -> None:
    source = source_of(tmp_path, b'{"text": 1}\n')
    Path(source.path).unlink()
    with pytest.raises(InputError, match=r"cannot read .*data\.jsonl: No such file"):
        list(read_piece(source, Piece(source=0, start=0, stop=12), TEXT))


def test_lines_and_offsets_are_int64(folder: Path) -> None:
    source = source_of(folder, b'{"text": 1}\n{bad\n')
    for keys in (TEXT, None):
        for batch in read_piece(source, Piece(source=0, start=0, stop=17), keys):
            assert batch.lines.dtype == batch.offsets.dtype == np.int64
