"""Parquet and Arrow files."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import count_records, find_sources, read_piece, split_source
from dataprep.pipeline.sources.sizes import row_sizes
from dataprep.pipeline.types import Piece, Source

TEXT = frozenset({"text"})
VALUES: list[dict[str, Any]] = [
    {"text": f"text {i} é" * (i % 7), "n": None if i % 5 == 0 else i, "codes": list(range(i % 4))}
    for i in range(100)
]
TABLE = pa.Table.from_pylist(VALUES)
FORMATS = ["t.parquet", "stream.arrow", "file.arrow"]


def write(table: pa.Table, path: Path, rows_per_group: int = 10, **options: Any) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows_per_group, **options)
        return
    new = pa.ipc.new_stream if path.name.startswith("stream") else pa.ipc.new_file
    with new(path, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=rows_per_group)


def source_of(path: Path) -> Source:
    (source,) = find_sources(str(path))
    return source


def rows_of(source: Source, piece: Piece, keys: frozenset[str] | None, **kwargs: Any) -> list[Any]:
    """[(line, record)] of a piece without bad rows."""
    rows: list[Any] = []
    for batch in read_piece(source, piece, keys, **kwargs):
        assert not batch.errors
        assert set(batch.offsets.tolist()) <= {-1}
        if batch.columns is not None:
            names = list(batch.columns)
            columns = zip(*batch.columns.values(), strict=True)
            records = [dict(zip(names, row, strict=True)) for row in columns]
        else:
            records = list(batch.as_rows())
        rows += zip(batch.lines.tolist(), records, strict=True)
    return rows


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("keys", [None, TEXT, frozenset({"n", "codes"})])
def test_pieces_together_hold_every_row_once(
    tmp_path: Path, name: str, keys: frozenset[str] | None
) -> None:
    write(TABLE, tmp_path / name)
    source = source_of(tmp_path / name)
    expected = [{k: v for k, v in row.items() if keys is None or k in keys} for row in VALUES]
    for target_bytes in (1, 1000, 1 << 20):
        for batch_bytes in (1, 300, 1 << 20):
            rows = []
            for piece, _ in split_source(source, 0, target_bytes, keys, True):
                found = rows_of(source, piece, keys, batch_bytes=batch_bytes)
                rows += [(piece.first_line + line, row) for line, row in found]
            assert rows == list(enumerate(expected))


@pytest.mark.parametrize("name", FORMATS)
def test_row_groups_are_put_together_by_the_size_of_the_wanted_columns(
    tmp_path: Path, name: str
) -> None:
    table = pa.table({"text": ["x"] * 40, "large": ["y" * 10_000 + str(i) for i in range(40)]})
    write(table, tmp_path / name)
    source = source_of(tmp_path / name)
    ((piece, size),) = split_source(source, 2, 20_000, TEXT, False)
    assert (piece.source, piece.start, piece.stop, piece.first_line) == (2, 0, 4, -1)
    assert 0 < size < 1000
    pieces = split_source(source, 2, 20_000, frozenset({"large"}), True)
    assert [(p.start, p.stop, p.first_line) for p, _ in pieces] == [
        (0, 1, 0),
        (1, 2, 10),
        (2, 3, 20),
        (3, 4, 30),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_reading_continues_exactly_at_any_row(tmp_path: Path, name: str) -> None:
    write(TABLE, tmp_path / name)
    source = source_of(tmp_path / name)
    piece = Piece(source=0, start=2, stop=5)
    batches = list(read_piece(source, piece, TEXT, batch_bytes=200))
    rows = rows_of(source, piece, TEXT, batch_bytes=200)
    assert [line for line, _ in rows] == list(range(30))
    for from_line in range(32):
        rest = list(read_piece(source, piece, TEXT, from_line=from_line, batch_bytes=200))
        assert rest[-1].next_line == 30
        assert rows_of(source, piece, TEXT, from_line=from_line) == rows[from_line:]
    assert sum(batch.num_bytes for batch in batches) > 0


@pytest.mark.parametrize("name", FORMATS)
def test_batches_hold_about_batch_bytes(tmp_path: Path, name: str) -> None:
    write(pa.table({"text": [str(i) * 300 for i in range(1000)]}), tmp_path / name, 1000)
    source = source_of(tmp_path / name)
    batches = list(read_piece(source, Piece(source=0, start=0, stop=1), TEXT, batch_bytes=50_000))
    assert all(batch.num_bytes < 80_000 for batch in batches)
    sizes = [sum(map(len, (batch.columns or {})["text"])) for batch in batches]
    assert max(sizes) < 80_000
    assert sum(len(batch.lines) for batch in batches) == 1000


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_counted(tmp_path: Path, name: str) -> None:
    write(TABLE, tmp_path / name)
    source = source_of(tmp_path / name)
    assert count_records(source, Piece(source=0, start=1, stop=4), 1000) == 30
    assert count_records(source, Piece(source=0, start=1, stop=4), 7) == 7


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_without_rows_gives_one_empty_batch(tmp_path: Path, name: str) -> None:
    write(TABLE.slice(0, 0), tmp_path / name)
    source = source_of(tmp_path / name)
    ((piece, size),) = split_source(source, 0, 100, TEXT, True)
    (batch,) = read_piece(source, piece, TEXT)
    assert (piece.first_line, batch.next_line, len(batch.lines)) == (0, 0, 0)
    assert size < 100


@pytest.mark.parametrize("name", FORMATS)
def test_a_wanted_key_that_is_no_column_is_an_input_error(tmp_path: Path, name: str) -> None:
    write(TABLE, tmp_path / name)
    source = source_of(tmp_path / name)
    pattern = rf"column 'body' not in .*{name} \(columns: text, n, codes\)"
    with pytest.raises(InputError, match=pattern):
        split_source(source, 0, 100, frozenset({"body"}), False)
    with pytest.raises(InputError, match=pattern):
        list(read_piece(source, Piece(source=0, start=0, stop=1), frozenset({"body", "text"})))


@pytest.mark.parametrize("name", FORMATS)
def test_invalid_utf8_is_an_error_of_its_row_only(tmp_path: Path, name: str) -> None:
    offsets = np.array([0, 2, 5, 6], np.int32)
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"aab\xffdc")]
    )
    write(pa.table({"text": bad, "n": [1, 2, 3]}), tmp_path / name)
    source = source_of(tmp_path / name)
    piece = Piece(source=0, start=0, stop=1)
    (batch,) = read_piece(source, piece, frozenset({"text", "n"}))
    assert batch.columns == {"text": ["aa", "c"], "n": [1, 3]}
    assert batch.lines.tolist() == [0, 2]
    assert [(error.line, error.offset, error.reason) for error in batch.errors] == [
        (1, -1, "invalid UTF-8: byte 0xff at byte 1 of the column 'text'")
    ]
    (batch,) = read_piece(source, piece, None)
    assert batch.as_rows() == [{"text": "aa", "n": 1}, {"text": "c", "n": 3}]
    assert len(batch.errors) == 1


def test_a_value_that_python_cannot_hold_is_an_error_of_its_row(tmp_path: Path) -> None:
    days = pa.array([0, 2**31 - 1, 1], pa.int32()).cast(pa.date32())
    write(pa.table({"day": days}), tmp_path / "t.parquet")
    source = source_of(tmp_path / "t.parquet")
    (batch,) = read_piece(source, Piece(source=0, start=0, stop=1), frozenset({"day"}))
    assert batch.lines.tolist() == [0, 2]
    assert "column 'day' holds a value that cannot be read" in batch.errors[0].reason


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path, name: str) -> None:
    write(TABLE.slice(0, 30), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    source = source_of(tmp_path / name)
    # Arrow reads in units of 8 bytes; a stream cut between two batches is among these.
    for length in range(0, len(content), 8):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(InputError, match=name):
            split_source(source, 0, 1, TEXT, False)
        with pytest.raises(InputError, match=name):
            list(read_piece(source, Piece(source=0, start=0, stop=3), TEXT))


def test_offsets_that_point_nowhere_are_an_input_error_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "stream.arrow"
    write(pa.table({"text": ["abcd", "efgh", "ijkl"]}), path)
    content = path.read_bytes()
    place = content.index(np.array([0, 4, 8, 12], np.int32).tobytes())
    path.write_bytes(
        content[:place] + np.array([0, 4, 2**30, 12], np.int32).tobytes() + content[place + 16 :]
    )
    with pytest.raises(InputError, match=r"cannot read .*stream\.arrow as Arrow: column 'text'"):
        list(read_piece(source_of(path), Piece(source=0, start=0, stop=1), TEXT))


@pytest.mark.parametrize("name", FORMATS[1:])
def test_a_name_of_a_column_of_arrow_that_is_not_utf8_is_an_input_error(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    write(pa.table({"text": ["a", "b"], "other": ["c", "d"]}), path)
    path.write_bytes(path.read_bytes().replace(b"other", b"\xffther"))
    with pytest.raises(InputError, match=rf"cannot read .*{name} as Arrow: "):
        split_source(source_of(path), 0, 1, TEXT, False)


class Keys(pe.KmsClient):
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return b64encode(key_bytes)


def test_encrypted_columns_are_an_input_error_and_do_not_end_the_process(tmp_path: Path) -> None:
    """pyarrow calls abort() when it looks at one without its key; the footer is not encrypted."""
    settings = pe.EncryptionConfiguration("a", column_keys={"b": ["text"]}, plaintext_footer=True)
    keys = pe.CryptoFactory(lambda settings: Keys())
    encrypted = keys.file_encryption_properties(pe.KmsConnectionConfig(), settings)
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, TABLE.schema, encryption_properties=encrypted) as writer:
        writer.write_table(TABLE)
    with pytest.raises(InputError, match=r"t\.parquet has encrypted columns; write it again"):
        split_source(source_of(path), 0, 1, TEXT, False)


def test_a_name_of_a_column_that_is_not_utf8_is_an_input_error_or_no_matter(tmp_path: Path) -> None:
    """It stands in the schema, and again in each row group, where nobody needs it."""
    path = tmp_path / "t.parquet"
    for name in (b"text", b"other"):
        write(pa.table({"text": ["a", "b"], "other": ["c", "d"]}), path)
        data = path.read_bytes()
        in_schema, in_group = (found.start() for found in re.finditer(name, data))
        path.write_bytes(data[:in_schema] + b"\xff" + data[in_schema + 1 :])
        with pytest.raises(InputError, match=r"cannot read .*t\.parquet as Parquet: 'utf-8'"):
            split_source(source_of(path), 0, 1, TEXT, False)
        path.write_bytes(data[:in_group] + b"\xff" + data[in_group + 1 :])
        ((piece, _),) = split_source(source_of(path), 0, 1, TEXT, False)
        rows = rows_of(source_of(path), piece, TEXT)
        assert [row["text"] for _, row in rows] == ["a", "b"]


def test_a_file_with_fewer_row_groups_than_planned_is_an_input_error(tmp_path: Path) -> None:
    for name in FORMATS:
        write(TABLE.slice(0, 20), tmp_path / name)
        with pytest.raises(InputError, match="no longer exists"):
            list(read_piece(source_of(tmp_path / name), Piece(source=0, start=1, stop=4), TEXT))


def test_repeated_values_do_not_fill_the_memory(tmp_path: Path) -> None:
    write(pa.table({"text": ["x" * 100_000] * 400}), tmp_path / "t.parquet", 400)
    source = source_of(tmp_path / "t.parquet")
    assert source.num_bytes < 100_000
    batches = read_piece(source, Piece(source=0, start=0, stop=1), TEXT, batch_bytes=1 << 20)
    assert max(len(batch.lines) for batch in batches) <= 11


@pytest.mark.parametrize("name", FORMATS)
def test_columns_of_many_types_come_as_python_values(tmp_path: Path, name: str) -> None:
    table = pa.table(
        {
            "large": pa.array(["a", None], pa.large_string()),
            "words": pa.array(["b", "b"]).dictionary_encode(),
            "turns": [[{"role": "user", "content": "hi"}], []],
            "raw": [b"\xff", None],
            "a.b": [1.5, 2.5],
        }
    )
    write(table, tmp_path / name)
    source = source_of(tmp_path / name)
    piece = Piece(source=0, start=0, stop=1)
    assert [row for _, row in rows_of(source, piece, None)] == table.to_pylist()
    for key in table.column_names:
        rows = rows_of(source, piece, frozenset({key}))
        assert [row[key] for _, row in rows] == table[key].to_pylist()


def test_a_column_that_stands_twice_is_an_input_error(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    write(table, tmp_path / "stream.arrow")
    for keys in (TEXT, None):
        with pytest.raises(InputError, match="column 'text' appears twice"):
            split_source(source_of(tmp_path / "stream.arrow"), 0, 1, keys, False)


def test_wanting_no_column_still_counts_the_rows(tmp_path: Path) -> None:
    for name in FORMATS:
        write(TABLE, tmp_path / name)
        source = source_of(tmp_path / name)
        batches = list(read_piece(source, Piece(source=0, start=0, stop=10), frozenset()))
        assert sum(len(batch.lines) for batch in batches) == batches[-1].next_line == 100


BIG = "a" * (1 << 20)
REPEATED = pa.DictionaryArray.from_arrays(pa.array(np.zeros(8192, np.int32)), pa.array([BIG]))
IN_ONE_LIST = pa.ListArray.from_arrays(pa.array([0, 0, 8192], pa.int32()), REPEATED)
RUN = pa.RunEndEncodedArray.from_arrays(pa.array([8192], pa.int32()), pa.array([BIG]))
ZEROS = pa.ListArray.from_arrays(pa.array([0, 1 << 26], pa.int32()), pa.nulls(1 << 26, pa.int8()))
NESTED = pa.array([BIG])
for _ in range(4):  # a thousand times what it had before, each time
    everything = pa.array([0] * 1000, pa.int32()), pa.array([len(NESTED)] * 1000, pa.int32())
    NESTED = pa.ListViewArray.from_arrays(*everything, NESTED)
GROWN = {
    "plain.parquet": pa.table({"text": [BIG] * 200}),
    "dictionary.parquet": pa.table({"text": REPEATED}),
    "nested.parquet": pa.table({"text": IN_ONE_LIST}),
    "zeros.parquet": pa.table({"text": ZEROS}),
    "dictionary.arrow": pa.table({"text": REPEATED}),
    "stream-dictionary.arrow": pa.table({"text": REPEATED}),
    "nested.arrow": pa.table({"text": IN_ONE_LIST}),
    "runs.arrow": pa.table({"text": RUN}),
    "views.arrow": pa.table({"text": NESTED}),
}


def read_within(source: Source, num_bytes: int) -> None:
    """Read all rows; Arrow must never hold more than `num_bytes`."""
    before = pa.total_allocated_bytes()
    whole = Piece(source=0, start=0, stop=1)
    for batch in read_piece(source, whole, TEXT, max_record_bytes=1 << 62):
        assert len(batch.lines) <= 65
        assert pa.total_allocated_bytes() - before < num_bytes


@pytest.mark.parametrize("name", GROWN)
def test_values_that_are_stored_once_and_repeated_often_are_refused_before_they_are_made(
    tmp_path: Path, name: str
) -> None:
    write(GROWN[name], tmp_path / name, 8192)
    source = source_of(tmp_path / name)
    with pytest.raises(InputError, match=rf"of .*{name} grows from .* more than 200 times"):
        read_within(source, 100 << 20)


@pytest.mark.parametrize("longest", [100, 200_000])
def test_a_few_long_texts_are_no_reason_to_hold_a_row_group_in_memory(
    tmp_path: Path, longest: int
) -> None:
    """pyarrow begins with a dictionary, which then could be repeated often, for all it says."""
    texts = ["x" * longest, *(f"{i} " + "lorem ipsum " * 40 for i in range(60_000))]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=1 << 30)
    source, whole = source_of(tmp_path / "a.parquet"), Piece(source=0, start=0, stop=1)
    before, held, found = pa.total_allocated_bytes(), 0, []
    for batch in read_piece(source, whole, TEXT):
        held = max(held, pa.total_allocated_bytes() - before)
        found += [row["text"] for row in batch.as_rows()]
    assert found == texts
    assert held < sum(map(len, texts)) / 3


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("name", ["stream.arrow", "file.arrow"])
@pytest.mark.parametrize("in_dictionary", [False, True])
def test_an_arrow_message_that_grows_too_much_is_refused_before_it_is_decompressed(
    tmp_path: Path, name: str, compression: str, in_dictionary: bool
) -> None:
    column = pa.array(["a" * (256 << 20)])
    table = pa.table({"text": column.dictionary_encode() if in_dictionary else column})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    write(table, tmp_path / name, options=options)
    del column, table
    source = source_of(tmp_path / name)
    before = pa.total_allocated_bytes()
    for read in (
        lambda: split_source(source, 0, 1000, TEXT, False),
        lambda: list(read_piece(source, Piece(source=0, start=0, stop=1), TEXT)),
    ):
        with pytest.raises(InputError, match=rf"{name} grows from .* more than 200 times"):
            read()
        assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_parquet_page_that_grows_too_much_is_refused_before_it_is_decompressed(
    tmp_path: Path,
) -> None:
    table = pa.table({"text": ["a" * (100 << 20)]})
    write(table, tmp_path / "t.parquet", compression="zstd", use_dictionary=False)
    (source,) = find_sources(str(tmp_path / "t.parquet"))
    with pytest.raises(InputError, match=r"row group 0 of .* grows from"):
        list(read_piece(source, Piece(source=0, start=0, stop=1), TEXT))
    (source,) = find_sources(str(tmp_path / "t.parquet"), max_ratio=1 << 20)
    assert len(rows_of(source, Piece(source=0, start=0, stop=1), TEXT)) == 1


def test_values_that_repeat_the_one_before_them_do_not_fill_the_memory(tmp_path: Path) -> None:
    table = pa.table({"text": [BIG + str(i) for i in range(300)]})
    encoding = {"text": "DELTA_BYTE_ARRAY"}
    path = tmp_path / "t.parquet"
    write(table, path, 300, use_dictionary=False, column_encoding=encoding)
    with pytest.raises(InputError, match=r"row group 0 of .* grows from"):
        read_within(source_of(path), 200 << 20)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_coded", [False, True])
def test_a_row_longer_than_the_limit_is_an_error_of_its_row_only(
    tmp_path: Path, name: str, is_coded: bool
) -> None:
    texts = pa.array(["a" * 2000, "b", "c" * 2001, "d" * 1500, None, "e" * 2500])
    column = texts.dictionary_encode() if is_coded else texts
    write(pa.table({"text": column, "n": range(6)}), tmp_path / name, 6)
    source = source_of(tmp_path / name)
    for batch_bytes in (1, 3000, 1 << 20):
        lines: list[int] = []
        errors = []
        for batch in read_piece(
            source,
            Piece(source=0, start=0, stop=1),
            TEXT,
            batch_bytes=batch_bytes,
            max_record_bytes=2000,
        ):
            lines += batch.lines.tolist()
            assert list((batch.columns or {}).get("text", [])) == [
                texts[i].as_py() for i in batch.lines.tolist()
            ]
            errors += [(error.line, error.reason) for error in batch.errors]
        assert lines == [0, 1, 3, 4]
        assert errors == [
            (2, "record of 2001 bytes is longer than the limit of 2000"),
            (5, "record of 2500 bytes is longer than the limit of 2000"),
        ]


def test_a_buffer_may_be_longer_than_its_array_by_any_number_of_bytes() -> None:
    """One flipped bit says so in a file that pyarrow reads all the same."""
    arrays = [
        (pa.array(["abc", "defgh"]), [3, 5]),
        (pa.array(["abc", "defgh"], pa.large_string()), [3, 5]),
        (pa.array(["abc", "defgh"], pa.string_view()), [3, 5]),
    ]
    for array, sizes in arrays:
        buffers = array.buffers()
        longer = pa.py_buffer(buffers[1].to_pybytes()[: 16 * len(array)] + b"?")
        grown = pa.Array.from_buffers(array.type, 2, [None, longer, *buffers[2:]])
        grown.validate(full=True)
        assert row_sizes(grown).tolist() == sizes
        assert row_sizes(grown.slice(1)).tolist() == sizes[1:]


def test_rows_of_every_arrow_type_are_measured_without_being_made() -> None:
    arrays = [
        (pa.array(["ab", None, "", "xyz"]), [2, 1, 1, 3]),
        (pa.array(["ab", None, "x" * 100], pa.string_view()), [2, 1, 100]),
        (pa.array([[1, 2], None, [], [3]]), [16, 1, 1, 8]),
        (pa.array([["abc", "d"], ["e"]], pa.large_list(pa.string())), [4, 1]),
        (pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2)), [8, 8, 1]),
        (pa.array([{"a": "xx", "b": 1}, None]), [10, 1]),
        (pa.array([[("k", "vvv")], [], None], pa.map_(pa.string(), pa.string())), [4, 1, 1]),
        (pa.array(["aaaa", "b", "aaaa", None]).dictionary_encode(), [4, 1, 4, 1]),
        (pa.array([[None, None], []], pa.list_(pa.null())), [2, 1]),
        (pa.array([True, None]), [1, 1]),
        (
            pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["aa", "b"])),
            [2, 2, 1],
        ),
        (
            pa.UnionArray.from_sparse(
                pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["abc", "defg"])]
            ),
            [8, 4],
        ),
        (
            pa.UnionArray.from_dense(
                pa.array([0, 1, 1], pa.int8()),
                pa.array([0, 0, 1], pa.int32()),
                [pa.array([1]), pa.array(["abc", "defg"])],
            ),
            [8, 3, 4],
        ),
        (
            pa.ListViewArray.from_arrays(
                pa.array([0, 0, 1], pa.int32()),
                pa.array([3, 3, 0], pa.int32()),
                pa.array(["aa", "b", "c"]),
            ),
            [4, 4, 1],
        ),
    ]
    for array, expected in arrays:
        for start in range(len(array) + 1):
            for length in range(len(array) + 1 - start):
                part = array.slice(start, length)
                assert row_sizes(part).tolist() == expected[start : start + length], array.type
