"""CSV and TSV. The truth is Python's csv module in its strict mode."""

from __future__ import annotations

import csv
import gzip
import io
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import (
    count_records,
    find_sources,
    lines_before,
    read_piece,
    split_source,
)
from dataprep.pipeline.sources.csv_rows import RowFinder
from dataprep.pipeline.types import RecordError, Source
from support.inprocess import seen_in, tokenize_here
from support.sweeps import few_and_many
from support.toy import write_toy_tokenizer

DELIMITERS = {"csv": ",", "tsv": "\t"}
Rows = list[tuple[int, int, dict[str, str]]]  # line, offset, record


def source_of(folder: Path, content: bytes, name: str = "a.csv") -> Source:
    path = folder / name
    path.write_bytes(content)
    (source,) = find_sources(str(path))
    return source


def read_all(
    source: Source,
    keys: frozenset[str] | None = None,
    target_bytes: int = 1 << 30,
    from_line: int = 0,
    **limits: Any,
) -> tuple[Rows, list[RecordError]]:
    """Records and errors, with lines counted from the file's start; each piece from `from_line`."""
    rows: Rows = []
    errors: list[RecordError] = []
    first_line = 0
    for piece, num_bytes in split_source(source, 0, target_bytes, keys, True):
        assert piece.first_line == first_line == lines_before(source, piece)
        total = before = len(rows) + len(errors)
        for records in read_piece(source, piece, keys, from_line=from_line, **limits):
            total += len(records.lines) + len(records.errors)
            lines = (records.lines + first_line).tolist()
            rows += zip(lines, records.offsets.tolist(), records.as_rows(), strict=True)
            errors += [
                RecordError(line=e.line + first_line, offset=e.offset, reason=e.reason)
                for e in records.errors
            ]
            line = records.next_line
        if not from_line:
            assert count_records(source, piece, 1 << 60) == total - before
        assert source.compression or num_bytes == piece.stop - piece.start
        first_line += line
    return rows, errors


def read_or_message(*how: Any, **limits: Any) -> tuple[Rows, list[RecordError]] | str:
    try:
        return read_all(*how, **limits)
    except InputError as error:
        return str(error)


def truth(content: bytes, delimiter: str) -> list[dict[str, str]]:
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    names, *rows = csv.reader(text, delimiter=delimiter, strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows if row]


CELLS = st.text(st.sampled_from("ab\",\t\n\r é𝄞;'\\"), max_size=6)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        st.lists(st.text('xy",\t z', min_size=1), min_size=width, max_size=width, unique=True),
        st.lists(st.one_of(st.just([]), st.lists(CELLS, min_size=width, max_size=width))),
    )
)


def write_table(rows: list[list[str]], delimiter: str, end: str, quote_all: bool) -> bytes:
    def field(text: str) -> str:
        is_quoted = quote_all or not text or any(c in text for c in f'"\r\n{delimiter}')
        return '"' + text.replace('"', '""') + '"' if is_quoted else text

    return "".join(delimiter.join(map(field, row)) + end for row in rows).encode()


def check_table(
    table: tuple[list[str], list[list[str]]],
    kind: str,
    end: str,
    quote_all: bool,
    mark: bool,
    cut_off: bool,
    target_bytes: int,
    batch_bytes: int,
    from_line: int,
) -> None:
    names, rows = table
    content = write_table([names, *rows], DELIMITERS[kind], end, quote_all)
    if cut_off and rows and rows[-1]:
        content = content.removesuffix(end.encode())
    if mark:
        content = b"\xef\xbb\xbf" + content
    with TemporaryDirectory() as folder:
        source = source_of(Path(folder), content, f"a.{kind}")
        found, errors = read_all(source, None, target_bytes, batch_bytes=batch_bytes)
        assert not errors
        assert [row for _, _, row in found] == truth(content, DELIMITERS[kind])
        assert read_all(source) == (found, [])
        for _, offset, row in found:
            assert offset == 3 * mark or content[offset - 1 : offset] == b"\n"
            rest = content[offset:].decode()
            first = next(csv.reader(io.StringIO(rest, newline=""), delimiter=DELIMITERS[kind]))
            assert first == list(row.values())
        chosen = read_all(source, frozenset(names[:1]), target_bytes, batch_bytes=batch_bytes)
        assert chosen == ([(i, o, {names[0]: row[names[0]]}) for i, o, row in found], [])
        later, _ = read_all(source, None, from_line=from_line, batch_bytes=batch_bytes)
        assert later == [item for item in found if item[0] >= from_line]


(
    test_any_table_reads_as_the_csv_module_reads_it_however_it_is_cut,
    test_many_tables_read_as_the_csv_module_reads_them,
) = few_and_many(
    check_table,
    given(
        table=TABLES,
        kind=st.sampled_from(["csv", "tsv"]),
        end=st.sampled_from(["\n", "\r\n"]),
        quote_all=st.booleans(),
        mark=st.booleans(),
        cut_off=st.booleans(),
        target_bytes=st.integers(1, 60),
        batch_bytes=st.integers(1, 40),
        from_line=st.integers(0, 6),
    ),
    few=40,
    many=300,
)


def check_rows(text: str, cuts: list[int]) -> None:
    lines = text.splitlines(keepends=True)
    reader = csv.reader(lines)
    ends = [0]
    for _ in reader:
        ends.append(len("".join(lines[: reader.line_num])))
    finder = RowFinder(",", 0)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    found = [
        start + place + 1
        for start, stop in pairwise(edges)
        for place in finder.ends(text[start:stop].encode()).tolist()
    ]
    # What follows the last of them is a row that does not end.
    assert found == [end for end in ends[1:] if text[end - 1 : end] == "\n"][: len(found)]
    assert len(found) >= len(ends) - 2


test_rows_are_found_where_a_lenient_reader_finds_them, test_many_rows_are_found = few_and_many(
    check_rows,
    given(st.text(st.sampled_from('a",\n'), max_size=40), st.lists(st.integers(0, 40))),
    few=100,
    many=1000,
)


def check_bad_rows(lines: list[str], target_bytes: int, batch_bytes: int) -> None:
    content = "".join(f"{line}\n" for line in ["x,y", *lines]).encode().replace(b"a", b"\xff", 1)
    with TemporaryDirectory() as folder:
        source = source_of(Path(folder), content)
        expected = read_or_message(source)
        assert read_or_message(source, None, target_bytes, batch_bytes=batch_bytes) == expected
        if isinstance(expected, str):
            assert "is never closed" in expected
            return
        rows, errors = expected
        offsets = {offset: row for _, offset, row in rows} | dict.fromkeys(
            (error.offset for error in errors), None
        )
        for offset, row in offsets.items():
            # Each row by itself, with all that it could swallow: strictly, or it is an error.
            assert content[offset - 1 : offset] == b"\n"
            if row is not None:
                rest = io.StringIO(content[offset:].decode(errors="replace"), newline="\n")
                assert next(csv.reader(rest, strict=True)) == list(row.values())


test_bad_rows_are_the_same_errors_however_the_file_is_cut, test_many_bad_rows_are = few_and_many(
    check_bad_rows,
    given(
        st.lists(st.text(st.sampled_from('ab",\r é'), max_size=8), max_size=8),
        st.integers(1, 40),
        st.integers(1, 30),
    ),
    few=40,
    many=300,
)


def test_a_row_by_itself_is_an_error_that_says_how_to_mend_it(tmp_path: Path) -> None:
    content = b'text,label\none\none,two,three\n"a"b,x\na\rb,x\n\xffa,x\nnul\0,x\ngood,x\n'
    rows, errors = read_all(source_of(tmp_path, content))
    assert rows == [(7, 54, {"text": "good", "label": "x"})]
    assert [(e.line, e.offset) for e in errors] == [
        (1, 11), (2, 15), (3, 29), (4, 36), (5, 42), (6, 47)
    ]  # fmt: skip
    expected = [
        "has 1 column, but row 1 names 2 columns; put quotes around fields that hold ','",
        "has 3 columns, but row 1 names 2 columns",
        "not valid CSV: ',' expected after '\"'; put quotes around fields that hold quotes",
        "not valid CSV: new-line character seen in unquoted field",
        "invalid UTF-8: byte 0xff at byte 0 of the row; write it as UTF-8",
        "has a NUL at byte 3 of the row",
    ]
    for error, reason in zip(errors, expected, strict=True):
        assert error.reason.startswith(reason)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"a\.csv is empty, but row 1 must name the columns; leave the file out"),
        (b"\xef\xbb\xbf", r"row 1 of .*a\.csv \(byte 3\) is blank; begin with the row that names"),
        (b"\na,b\n", r"row 1 of .*a\.csv \(byte 0\) is blank; begin with the row that names"),
        (b"a,a\n1,2\n", r"row 1 of .*a\.csv \(byte 0\) names column 'a' twice; rename one of"),
        (b"a,,b\n1,2,3\n", r"row 1 of .*a\.csv \(byte 0\) has no name for column 2; name it"),
        (b"a,\xff\n", r"row 1 of .*a\.csv \(byte 0\) invalid UTF-8: byte 0xff at byte 2"),
        (b"a,\0\n", r"row 1 of .*a\.csv \(byte 0\) has a NUL at byte 2"),
        (b'"a"b,c\n', r"row 1 of .*a\.csv \(byte 0\) not valid CSV: ',' expected"),
        (b'a,b\n1,"2\n3,4\n', r"row 2 of .*a\.csv has a quote at byte 6 that is never closed"),
        (b'a,"b\n', r"row 1 of .*a\.csv has a quote at byte 2 that is never closed"),
        ("a,b\n1,2\n".encode("utf-16"), r"a\.csv is UTF-16, but only UTF-8 can be read"),
    ],
)
@pytest.mark.parametrize("target_bytes", [2, 1 << 30])
def test_a_file_without_a_usable_header_or_end_is_an_error_of_the_file(
    tmp_path: Path, content: bytes, message: str, target_bytes: int
) -> None:
    source = source_of(tmp_path, content)
    with pytest.raises(InputError, match=message):
        read_all(source, None, target_bytes)


def test_only_wanted_columns_must_have_names_of_their_own(tmp_path: Path) -> None:
    source = source_of(tmp_path, b",a,a,text\n0,1,2,three\n")  # as pandas writes an index
    rows, _ = read_all(source, frozenset({"text"}))
    assert rows == [(1, 10, {"text": "three"})]
    with pytest.raises(InputError, match=r"column 'body' not in .*\(columns: , a, a, text\)"):
        split_source(source, 0, 1 << 20, frozenset({"body"}), False)
    with pytest.raises(InputError, match=r"names column 'a' twice"):
        split_source(source, 0, 1 << 20, frozenset({"a"}), False)


def test_the_quote_that_is_never_closed_is_named_though_others_are_doubled_after_it(
    tmp_path: Path,
) -> None:
    content = b'text\n"a ""b"" c"\n"d ""e"" ' + b'""' * 50
    for batch_bytes in (1, 7, 1 << 20):
        with pytest.raises(InputError, match=r"row 3 of .* a quote at byte 17 that"):
            read_all(source_of(tmp_path, content), batch_bytes=batch_bytes)


def test_a_row_that_is_too_long_is_passed_over_without_being_kept(tmp_path: Path) -> None:
    content = b'text\na\n"' + b"b\n" * 100 + b'"\nc\n'
    source = source_of(tmp_path, content)
    for batch_bytes in (5, 1 << 20):
        rows, errors = read_all(source, max_record_bytes=50, batch_bytes=batch_bytes)
        assert [row["text"] for _, _, row in rows] == ["a", "c"]
        assert [(e.line, e.offset) for e in errors] == [(2, 7)]
        assert errors[0].reason == "record of 202 bytes is longer than the limit of 50"


def test_a_field_may_be_longer_than_the_csv_module_likes(tmp_path: Path) -> None:
    text = "long " * 100_000
    rows, _ = read_all(source_of(tmp_path, f"text\n{text}\n".encode()))
    assert rows[0][2]["text"] == text


def test_compressed_tables_are_one_piece(tmp_path: Path) -> None:
    content = b'text\tn\n"a\nb"\t1\nc\t2\n'
    expected = read_all(source_of(tmp_path, content, "a.tsv"), None, 1)
    packed = {"gz": gzip.compress(content), "zst": zstandard.compress(content)}
    for ending, data in packed.items():
        source = source_of(tmp_path, data, f"a.tsv.{ending}")
        assert len(split_source(source, 0, 1, None, True)) == 1
        assert read_all(source, None, 1) == expected


def test_a_comma_is_text_in_a_tsv_and_the_two_are_of_different_kinds(tmp_path: Path) -> None:
    content = b"a,b\n1,2\n"
    rows, _ = read_all(source_of(tmp_path, content, "a.tsv"))
    assert rows == [(1, 4, {"a,b": "1,2"})]
    kinds = [source_of(tmp_path, content, name).kind for name in ("a.csv", "a.tsv", "b.CSV")]
    assert kinds == ["csv", "tsv", "csv"]


def test_a_csv_tokenizes_as_the_same_records_in_jsonl_do(tmp_path: Path) -> None:
    tokenizer = str(write_toy_tokenizer(tmp_path / "toy"))
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,"ab ""c"""\n2\n3,\n\n4,d\n')
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "ab \\"c\\""}\n{\n{"text": ""}\n{"text": "d"}\n')
    made = {}
    for name in ("a.csv", "a.jsonl"):
        out = tmp_path / f"{name}.out"
        inputs = [str(tmp_path / name)]
        tokenize_here(out, inputs=inputs, tokenizer=tokenizer, on_error="quarantine")
        made[name] = seen_in(out)
    assert made["a.csv"] == made["a.jsonl"]
    errors = (tmp_path / "a.csv.out" / "errors.jsonl").read_text()
    assert '"line": 3, "byte_offset": 21' in errors
    with pytest.raises(InputError, match=r"^row 3 of .*a\.csv \(byte 21\): has 1 column"):
        tokenize_here(tmp_path / "out", inputs=[str(tmp_path / "a.csv")], tokenizer=tokenizer)


def test_a_table_behind_a_url_is_read_as_one_piece() -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/csv/a.csv", b'text\n"a\nb"\nc\n')
    try:
        (source,) = find_sources("memory://csv/a.csv")
        assert len(split_source(source, 0, 1, None, False)) == 1
        rows, _ = read_all(source, None, 1)
    finally:
        files.rm("/csv", recursive=True)
    assert [row["text"] for _, _, row in rows] == ["a\nb", "c"]
