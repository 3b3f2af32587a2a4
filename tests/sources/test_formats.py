"""Compressed files that are damaged; JSON arrays and objects."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import count_records, find_sources, read_piece
from dataprep.pipeline.sources.stream import ByteStream
from dataprep.pipeline.types import Piece, RecordError, Source

PARTS = [
    b"]",
    b",",
    b", ",
    b'{"text": 1}',
    b'{"text": "',
    b'"}',
    b"\\",
    b'"',
    b"{",
    b"}",
    b"[",
    b"x",
]
ONE = Piece(source=0, start=0, stop=1)
TEXT = frozenset({"text"})
COMPRESS: dict[str, Any] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}
LINES = b"".join(json.dumps({"text": f"line {i}"}).encode() + b"\n" for i in range(30))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def source_of(folder: Path, content: bytes, name: str) -> Source:
    path = folder / name
    path.write_bytes(content)
    (source,) = find_sources(str(path))
    return source


def texts(source: Source, **kwargs: Any) -> list[Any]:
    found: list[Any] = []
    for batch in read_piece(source, ONE, TEXT, **kwargs):
        assert not batch.errors
        assert batch.columns is not None or not batch.rows
        found += (batch.columns or {"text": []})["text"]
    return found


def rows_and_errors(
    source: Source, keys: frozenset[str] | None = None, **kwargs: Any
) -> tuple[list[Any], list[RecordError]]:
    rows: list[Any] = []
    errors: list[RecordError] = []
    for batch in read_piece(source, ONE, keys, **kwargs):
        records = (
            batch.as_rows() if keys is None or batch.columns is None else batch.columns["text"]
        )
        assert records is not None
        rows += zip(batch.lines.tolist(), batch.offsets.tolist(), records, strict=True)
        errors += batch.errors
    return rows, errors


def frames(compress: Any) -> tuple[bytes, set[int]]:
    """A file of three frames, and the lengths at which it is whole."""
    parts = [compress(LINES[:300]), compress(LINES[300:400]), compress(LINES[400:])]
    return b"".join(parts), {len(parts[0]), len(parts[0] + parts[1])}


@pytest.mark.parametrize("batch_bytes", [64, 1 << 20])
@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("cut.jsonl.gz", gzip.compress),
        ("cut.jsonl.zst", zstandard.ZstdCompressor(write_checksum=False).compress),
        ("big.jsonl.zst", zstandard.ZstdCompressor(write_content_size=False).compress),
        ("cut.jsonl.xz", lzma.compress),
        ("cut.jsonl.bz2", bz2.compress),
    ],
)
def test_a_compressed_file_cut_anywhere_is_an_input_error(
    folder: Path, name: str, compress: Any, batch_bytes: int
) -> None:
    content, whole_at = frames(compress)
    assert len(texts(source_of(folder, content, name), batch_bytes=batch_bytes)) == 30
    for length in set(range(len(content))) - whole_at:
        source = source_of(folder, content[:length], name)
        with pytest.raises(InputError, match=f"{name} is not a whole .* file"):
            texts(source, batch_bytes=batch_bytes)


def test_a_cut_file_raises_after_the_records_before_the_cut(folder: Path) -> None:
    noise = random.Random(0).randbytes(200_000).hex()
    content = LINES + json.dumps({"text": noise}).encode() + b"\n"
    for name, compress in (
        ("late.jsonl.gz", gzip.compress),
        ("late.jsonl.zst", zstandard.ZstdCompressor().compress),
        ("late.jsonl.xz", lzma.compress),
    ):
        source = source_of(folder, compress(content)[:-1], name)
        batches = read_piece(source, ONE, TEXT, batch_bytes=4096)
        assert len(next(batches).lines) == 30
        with pytest.raises(InputError, match="ends too early"):
            list(batches)


def test_damage_inside_a_gzip_file_is_an_input_error(folder: Path) -> None:
    content = bytearray(gzip.compress(LINES, mtime=0))
    for place in (0, 12, 40, len(content) - 6, len(content) - 2):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        with pytest.raises(InputError, match=r"bad\.jsonl\.gz"):
            texts(source_of(folder, bytes(damaged), "bad.jsonl.gz"))


def test_damage_inside_a_zstd_file_with_checksum_is_an_input_error(folder: Path) -> None:
    content = zstandard.ZstdCompressor(write_checksum=True).compress(LINES)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        if place != 4:  # an unused bit of the header
            with pytest.raises(InputError, match=r"bad\.jsonl\.zst"):
                texts(source_of(folder, bytes(damaged), "bad.jsonl.zst"))


@pytest.mark.parametrize(("ending", "compress"), [("xz", lzma.compress), ("bz2", bz2.compress)])
def test_damage_anywhere_in_an_xz_or_bzip2_file_is_an_input_error(
    folder: Path, ending: str, compress: Any
) -> None:
    content = compress(LINES)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        with pytest.raises(InputError, match=rf"bad\.jsonl\.{ending} is not a whole"):
            texts(source_of(folder, bytes(damaged), f"bad.jsonl.{ending}"))


@pytest.mark.parametrize("ending", COMPRESS)
def test_garbage_is_not_a_compressed_file(folder: Path, ending: str) -> None:
    name, compress = f"g.jsonl.{ending}", COMPRESS[ending]
    for content in (b"", b"garbage", LINES, compress(LINES) + b"garbage"):
        with pytest.raises(InputError, match="is not a whole"):
            texts(source_of(folder, content, name))


def test_padding_and_skippable_frames_are_no_content(folder: Path) -> None:
    padded = gzip.compress(LINES[:100]) + b"\0" * 7 + gzip.compress(LINES[100:]) + b"\0" * 512
    assert len(texts(source_of(folder, padded, "pad.jsonl.gz"), batch_bytes=5)) == 30
    compress = zstandard.ZstdCompressor().compress
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
    content = skippable + compress(LINES[:100]) + skippable + compress(LINES[100:]) + skippable
    assert len(texts(source_of(folder, content, "skip.jsonl.zst"))) == 30


@pytest.mark.parametrize("batch_bytes", [3, 1 << 20])
def test_zeros_between_and_after_xz_streams_come_in_fours(folder: Path, batch_bytes: int) -> None:
    first, second = lzma.compress(LINES[:100]), lzma.compress(LINES[100:])
    for between, after, is_whole in (
        (*(0, 0), True),
        (*(4, 8), True),
        (*(1 << 15, 40_000), True),
        (*(3, 0), False),
        (*(0, 5), False),
    ):
        content = first + b"\0" * between + second + b"\0" * after
        source = source_of(folder, content, "pad.jsonl.xz")
        if is_whole:
            assert len(texts(source, batch_bytes=batch_bytes)) == 30
        else:
            with pytest.raises(InputError, match=r"pad\.jsonl\.xz is not a whole xz .* zeros"):
                texts(source, batch_bytes=batch_bytes)
    with pytest.raises(InputError, match="is not a whole xz file"):
        texts(source_of(folder, b"\0" * 4 + first, "pad.jsonl.xz"))


def test_an_xz_file_that_needs_too_much_memory_is_an_error_that_names_it(folder: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    header = bytearray(lzma.compress(LINES, filters=filters))
    # The block header: its size, flags, the filter's id, one property byte (40 is 4 GiB), padding.
    assert (header[12], header[14:16]) == (2, b"\x21\x01")
    header[16] = 40
    header[20:24] = zlib.crc32(header[12:20]).to_bytes(4, "little")
    with pytest.raises(InputError, match=r"wide\.jsonl\.xz .*[Mm]emory"):
        texts(source_of(folder, bytes(header), "wide.jsonl.xz"))


@pytest.mark.parametrize("ending", ["xz", "bz2"])
def test_a_stream_of_zeros_is_stopped_before_it_fills_the_memory(folder: Path, ending: str) -> None:
    path = folder / f"bomb.{ending}"
    path.write_bytes(COMPRESS[ending](bytes(1 << 22)) * 20)
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    refused = pytest.raises(InputError, match=rf"bomb\.{ending} grows .* raise --max-ratio")
    with ByteStream(str(path), ending, chunk_bytes=1 << 16) as stream, refused:
        sum(map(len, stream))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20  # xz keeps a dictionary of 8 MiB


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.binary(max_size=300) | st.binary(max_size=3).map(lambda b: b * 7000), max_size=4),
    st.sampled_from(["gz", "zst", "xz", "bz2"]),
    st.integers(1, 5000),
)
def test_any_parts_decompress_to_what_their_libraries_say(
    folder: Path, parts: list[bytes], ending: str, chunk_bytes: int
) -> None:
    content = b"".join(map(COMPRESS[ending], parts or [b""]))
    path = folder / f"any.{ending}"
    path.write_bytes(content)
    with ByteStream(str(path), ending, chunk_bytes=chunk_bytes) as stream:
        assert b"".join(stream) == b"".join(parts)
        assert stream.stored_bytes == len(content)
    for module in {"xz": [lzma], "bz2": [bz2], "gz": [gzip]}.get(ending, []):
        assert module.decompress(content) == b"".join(parts)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\[]{},: é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"text": json_values}), max_size=6),
    st.sampled_from([None, 2]),
    st.booleans(),
    st.sampled_from([b"", b"\xef\xbb\xbf", b" \n\t"]),
    st.integers(1, 40),
)
def test_the_elements_of_an_array_are_its_records(
    folder: Path, values: list[Any], indent: int | None, ascii: bool, lead: bytes, batch_bytes: int
) -> None:
    content = lead + json.dumps(values, indent=indent, ensure_ascii=ascii).encode() + b" \n"
    source = source_of(folder, content, "a.json")
    assert source.kind == "json"
    rows, errors = rows_and_errors(source, batch_bytes=batch_bytes)
    assert not errors
    assert [row for _, _, row in rows] == values
    assert [line for line, _, _ in rows] == list(range(len(values)))
    assert all(content[offset : offset + 1] == b"{" for _, offset, _ in rows)
    assert texts(source, batch_bytes=batch_bytes) == [value["text"] for value in values]
    assert count_records(source, ONE, 100) == len(values)
    for from_line in range(len(values) + 1):
        rest, _ = rows_and_errors(source, from_line=from_line, batch_bytes=batch_bytes)
        assert rest == rows[from_line:]


@pytest.mark.parametrize("compression", ["", ".gz"])
def test_a_bad_element_is_an_error_of_its_own(folder: Path, compression: str) -> None:
    elements = [b'{"text": 1}', b"null", b'{"text": x}', b"", b'{"text": "\xff"}', b'{"text": 2}']
    content = b"[" + b", ".join(elements) + b"]"
    places = [content.index(element) for element in elements]
    places[3] = content.index(b", ,") + 2
    content = gzip.compress(content) if compression else content
    source = source_of(folder, content, f"bad.json{compression}")
    for batch_bytes in (1, 20, 1000):
        rows, errors = rows_and_errors(source, batch_bytes=batch_bytes)
        assert rows == [(0, 1, {"text": 1}), (5, places[5], {"text": 2})]
        assert [(error.line, error.offset, error.reason) for error in errors] == [
            (1, places[1], "not an object but null"),
            (2, places[2], "not valid JSON: invalid character (byte 9)"),
            (3, places[3], "not valid JSON: nothing between two commas"),
            (4, places[4], "invalid UTF-8: byte 0xff at byte 10 of the record"),
        ]


def test_two_objects_without_a_comma_are_not_two_records(folder: Path) -> None:
    source = source_of(folder, b'[{"text": 1} {"text": 2}, {"text": 3}]', "two.json")
    rows, errors = rows_and_errors(source, TEXT)
    assert ([row for _, _, row in rows], [error.line for error in errors]) == ([3], [0])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join), st.integers(1, 12))
def test_batches_do_not_change_how_a_broken_array_is_read(
    folder: Path, body: bytes, batch_bytes: int
) -> None:
    source = source_of(folder, b"[" + body, "mixed.json")

    def outcome(**kwargs: Any) -> Any:
        try:
            return rows_and_errors(source, TEXT, **kwargs)
        except InputError as error:
            return str(error)

    assert outcome(batch_bytes=batch_bytes) == outcome()


def test_an_array_cut_anywhere_is_an_input_error(folder: Path) -> None:
    content = json.dumps([{"text": 'a"]\\'}, {"text": [1, {}]}]).encode()
    for length in range(1, len(content)):
        with pytest.raises(InputError, match=r"cut\.json ends before its JSON array does"):
            texts(source_of(folder, content[:length], "cut.json"), batch_bytes=3)


def test_something_after_an_array_is_an_input_error(folder: Path) -> None:
    for rest in (b"]", b'\n[{"text": 1}]', b"  x"):
        source = source_of(folder, b'[{"text": 1}]' + rest, "more.json")
        for batch_bytes in (1, 1000):
            with pytest.raises(InputError, match=r"more\.json has more after its JSON array"):
                texts(source, batch_bytes=batch_bytes)


def test_an_element_over_the_limit_is_an_error_and_the_rest_is_read(folder: Path) -> None:
    long = json.dumps({"text": "\\" * 300})
    source = source_of(folder, f'[{{"text": 1}},{long},{{"text": 2}}]'.encode(), "long.json")
    for batch_bytes in (10, 100_000):
        rows, errors = rows_and_errors(source, batch_bytes=batch_bytes, max_record_bytes=100)
        assert [row for _, _, row in rows] == [{"text": 1}, {"text": 2}]
        assert [(error.line, error.reason) for error in errors] == [
            (1, f"record of {len(long)} bytes is longer than the limit of 100")
        ]


def test_one_object_over_many_lines_is_one_record(folder: Path) -> None:
    value = {"text": "a\nb", "nested": {"x": [1, 2]}}
    content = json.dumps(value, indent=1).encode()
    for name, data in (("one.json", content), ("one.json.gz", gzip.compress(content))):
        source = source_of(folder, data, name)
        assert source.kind == "json"
        assert rows_and_errors(source, batch_bytes=5) == ([(0, 0, value)], [])
        assert count_records(source, ONE, 9) == 1


def test_a_json_file_of_lines_is_read_by_line(folder: Path) -> None:
    for content in (LINES, b"\n\n" + LINES, LINES.rstrip(b"\n"), LINES[:20].rstrip(), b"null\n"):
        assert source_of(folder, content, "lines.json").kind == "jsonl"
    assert source_of(folder, b'{"text": "\\ud800{"}\n' + LINES, "lines.json").kind == "jsonl"
    assert source_of(folder, b"\xef\xbb\xbf\n [", "array.json").kind == "json"
