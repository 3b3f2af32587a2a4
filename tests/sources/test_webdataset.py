"""WebDataset tars as records: the key rule, fields, pieces, broken members, damaged tars."""

from __future__ import annotations

import io
import json
import re
import tarfile
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import RunCli, Sample
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media.find import find_media
from dataprep.pipeline.ragged import Holds, IntegerLists
from dataprep.pipeline.sources import (
    count_records,
    find_sources,
    format_of,
    lines_before,
    read_piece,
    split_source,
)
from dataprep.pipeline.types import Piece, Source
from support.inprocess import seen_in, write_lines

TEXT = frozenset({"text"})
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
Members = Sequence[tuple[str, bytes]]
Found = tuple[int, int, dict[str, Any]]  # line, offset, record
Fault = tuple[int, int, str]  # line, offset, reason


def npy(values: Any, dtype: Any = np.int32) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(values, dtype))
    return file.getvalue()


def tar_of(members: Members, format: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            tar.addfile(info, io.BytesIO(data))
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tars")


def source_of(folder: Path, content: bytes | Members, name: str = "a.tar") -> Source:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else tar_of(content))
    (source,) = find_sources(str(path))
    return source


def plain(value: Any) -> Any:
    """Arrays as lists, wherever they are."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def held_by(key: str) -> Holds:
    return "codes" if key in ("vision", "npy") else ""


def read_part(
    source: Source, piece: Piece, keys: frozenset[str] | None, **kwargs: Any
) -> tuple[list[Found], list[Fault], int, int]:
    """Records, errors, lines and bytes of a piece; only the wanted keys of each record."""
    found: list[Found] = []
    faults: list[Fault] = []
    num_bytes = lines = 0
    for batch in read_piece(source, piece, keys, held_by=held_by, **kwargs):
        rows = [
            {key: plain(value) for key, value in row.items() if keys is None or key in keys}
            for row in batch.as_rows()
        ]
        found += zip(batch.lines.tolist(), batch.offsets.tolist(), rows, strict=True)
        faults += [(error.line, error.offset, error.reason) for error in batch.errors]
        num_bytes += batch.num_bytes
        lines = batch.next_line
    return found, faults, lines, num_bytes


def read_all(
    source: Source,
    keys: frozenset[str] | None = None,
    target_bytes: int = 1 << 20,
    **kwargs: Any,
) -> tuple[list[Found], list[Fault]]:
    """Of all pieces; lines are those of the source."""
    found: list[Found] = []
    faults: list[Fault] = []
    line = 0
    for piece, size in split_source(source, 0, target_bytes, keys, True):
        assert piece.first_line == line == lines_before(source, piece)
        rows, errors, lines, num_bytes = read_part(source, piece, keys, **kwargs)
        assert (num_bytes, lines) == (size, len(rows) + len(errors))
        assert count_records(source, piece, 1 << 20) == lines
        assert count_records(source, piece, 1) == min(lines, 1)
        found += [(line + at, offset, row) for at, offset, row in rows]
        faults += [(line + at, offset, reason) for at, offset, reason in errors]
        line += lines
    return found, faults


def records_of(folder: Path, members: Members, keys: frozenset[str] | None = None) -> list[Any]:
    found, faults = read_all(source_of(folder, members), keys)
    assert not faults
    return [record for _, _, record in found]


def reason_of(folder: Path, members: Members, keys: frozenset[str] | None = None) -> str:
    """Why the first of two records is none; the second is one."""
    found, faults = read_all(source_of(folder, [*members, ("good.txt", b"fine")]), keys)
    ((line, offset, reason),) = faults
    assert (line, offset) == (0, 0)
    assert [line for line, _, _ in found] == [1]
    return reason


def naive(content: bytes) -> list[Found]:
    """What `tarfile` and the pattern of the webdataset library give."""
    records: list[Found] = []
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", member.name)
            if not member.isreg() or not match or "__MACOSX" in member.name:
                continue
            file = tar.extractfile(member)
            assert file is not None
            if not records or records[-1][2]["__key__"] != match[1]:
                records.append((len(records), member.offset, {"__key__": match[1]}))
            records[-1][2].update(naive_fields(match[2].lower(), file.read()))
    return records


def naive_fields(extension: str, data: bytes) -> dict[str, Any]:
    name, _, kind = extension.rpartition(".")
    if kind == "txt":
        return {name or "text": data.decode().removesuffix("\n")}
    if kind == "json":
        return {name: json.loads(data)} if name else dict(json.loads(data))
    if kind == "npy":
        return {name or "npy": np.load(io.BytesIO(data)).tolist()}
    return {name or "cls": str(int(data))} if kind == "cls" else {}


contents = {
    "txt": st.text("ab é\n", max_size=600).map(str.encode),
    "Caption.txt": st.text("ab é\n", max_size=9).map(str.encode),
    "json": st.dictionaries(
        st.sampled_from(["id", "tags", "a b", ""]), st.none() | st.integers() | st.lists(st.text())
    ).map(lambda value: json.dumps(value, indent=1).encode()),
    "meta.json": (st.integers() | st.lists(st.dictionaries(st.text("ab"), st.none()))).map(
        lambda value: json.dumps(value).encode()
    ),
    "npy": st.lists(st.integers(0, 9)).map(npy),
    "Vision.NPY": st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1).map(npy),
    "audio.npy": st.lists(st.integers(0, 255), max_size=400).map(lambda v: npy(v, ">u2")),
    "cls": st.integers(-9, 99).map(lambda value: f" {value}\n".encode()),
    "jpg": st.binary(max_size=2000),
    "a.b.": st.binary(max_size=9),
}
JUNK = ["README", "d.x/", "d.x/.hidden.txt", ".1.txt", "__MACOSX/._1.txt", "__MACOSX/1.txt"]


@st.composite
def tars(draw: Any) -> bytes:
    """Keys once each, extensions in any order, what belongs to no record anywhere between."""
    members: list[tuple[str, bytes]] = []
    prefix = draw(st.sampled_from(["", "d.x/", "./", "é/", "n" * 60]))
    if draw(st.booleans()):
        prefix = f"{prefix}{'long' * 10}/{'é' * 70}"
    format = draw(st.sampled_from(FORMATS if len(prefix.encode()) < 90 else FORMATS[1:]))
    for number in range(draw(st.integers(0, 7))):
        chosen = draw(st.lists(st.sampled_from(sorted(contents)), min_size=1, unique=True))
        for extension in chosen:
            if draw(st.integers(0, 3)) == 0:
                members.append((draw(st.sampled_from(JUNK)), b""))
            members.append((f"{prefix}{number}.{extension}", draw(contents[extension])))
    return tar_of(members, format)


@settings(max_examples=120, deadline=None)
@given(
    tars(),
    st.integers(1, 9000),
    st.sampled_from([1, 700, 1 << 20]),
    st.sampled_from([None, TEXT, frozenset({"vision", "id"}), frozenset({"__key__", "audio"})]),
)
def test_records_are_those_of_tarfile_and_the_key_rule_however_the_tar_is_cut(
    folder: Path, content: bytes, target_bytes: int, batch_bytes: int, keys: frozenset[str] | None
) -> None:
    expected = [
        (line, offset, {k: v for k, v in record.items() if keys is None or k in keys})
        for line, offset, record in naive(content)
    ]
    found, faults = read_all(
        source_of(folder, content), keys, target_bytes, batch_bytes=batch_bytes
    )
    assert (found, faults) == (expected, [])


@settings(max_examples=40, deadline=None)
@given(tars(), st.integers(1, 9000), st.integers(1, 3000))
def test_reading_continues_exactly_at_any_record(
    folder: Path, content: bytes, target_bytes: int, batch_bytes: int
) -> None:
    source = source_of(folder, content)
    for piece, size in split_source(source, 0, target_bytes, None, False):
        found, _, lines, _ = read_part(source, piece, None)
        for from_line in range(lines + 2):
            assert read_part(source, piece, None, from_line=from_line, batch_bytes=batch_bytes) == (
                found[from_line:],
                [],
                lines,
                size,
            )


def test_pieces_are_about_the_target_in_bytes_that_are_wanted(folder: Path) -> None:
    members = [
        (f"{i}.{end}", bytes(size))
        for i in range(100)
        for end, size in (("txt", 488), ("jpg", 9000))
    ]
    source = source_of(folder, members)
    sizes = [size for _, size in split_source(source, 0, 15_120, TEXT, True)]
    assert sizes == [10 * (2 * 512 + 488)] * 10
    pieces = [piece for piece, _ in split_source(source, 0, 15_120, TEXT, True)]
    assert pieces[0].start == 0
    assert pieces[-1].stop == source.num_bytes
    assert [p.stop for p in pieces[:-1]] == [p.start for p in pieces[1:]]


def test_members_become_fields_as_in_the_files_beside_pictures(folder: Path) -> None:
    (record,) = records_of(
        folder,
        [
            ("cats/1.jpg", b"\xff\xd8"),
            ("cats/1.txt", b"two\nlines\n\n"),
            ("cats/1.json", b'{"id": 7, "text": "two\\nlines\\n"}'),
            ("cats/1.title.txt", b"Tom"),
            ("cats/1.meta.json", b" [1, null]\n"),
            ("cats/1.cls", b"007\n"),
            ("cats/1.coarse.cls", b"-1"),
            ("cats/1.npy", npy([3, 4])),
            ("cats/1.Vision.NPY", npy([[1], [2]])),
        ],
    )
    assert record == {
        "__key__": "cats/1",
        "text": "two\nlines\n",
        "id": 7,
        "title": "Tom",
        "meta": [1, None],
        "cls": "7",
        "coarse": "-1",
        "npy": [3, 4],
        "vision": [[1], [2]],
    }


def test_codes_come_as_one_array_where_all_are_flat(folder: Path) -> None:
    keys = frozenset({"vision"})

    def column(*members: tuple[str, bytes]) -> Any:
        source = source_of(folder, members)
        ((piece, _),) = split_source(source, 0, 1 << 20, keys, False)
        (batch,) = read_piece(source, piece, keys, held_by=held_by)
        assert batch.columns is not None
        return batch.columns["vision"]

    first = ("1.vision.npy", npy([1, 2], np.uint8))
    lists = column(first, ("2.vision.npy", npy([], np.int64)), ("3.json", b'{"vision": [700]}'))
    assert isinstance(lists, IntegerLists)
    assert [codes.tolist() for codes in lists] == [[1, 2], [], [700]]
    assert lists.values.dtype.kind in "iu"
    for other in (npy([[1], [2]]), npy([1 << 63], np.uint64)):
        apart = column(("1.vision.npy", npy([-1])), ("2.vision.npy", other))
        assert [codes.shape for codes in apart] == [(1,), np.load(io.BytesIO(other)).shape]


BAD = [
    ([("1.txt", b"ab\xff")], "1.txt: invalid UTF-8: byte 0xff at byte 2 of the text"),
    ([("1.json", b'{"a": }')], "1.json: not valid JSON: invalid character (byte 6)"),
    ([("1.json", b"[1]")], "1.json: not an object but a list"),
    ([("1.json", b" \n")], "1.json: not valid JSON: it is empty"),
    ([("1.json", b'{"a": 1} {}')], "1.json: not valid JSON: trailing characters"),
    ([("1.json", b'{"a": 1, "a": 1}')], "1.json: key 'a' appears twice in the object"),
    ([("1.x.json", b'1, "y": 2')], "1.x.json: not valid JSON: trailing characters (byte 2)"),
    ([("1.x.json", b"")], "1.x.json: not valid JSON: it is empty"),
    ([("1.npy", b"\x93NUMPY")], "1.npy: an unusable .npy: its header is damaged"),
    ([("1.npy", npy([1.5], np.float32))], "1.npy: an unusable .npy: it holds float32"),
    ([("1.npy", npy([1, 2])[:-1])], "1.npy: an .npy of 135 bytes, but an array of (2,) has 136"),
    ([("1.npy", npy(7))], "1.npy: a single number; save an array"),
    ([("1.npy", npy([{}], object))], "1.npy: an unusable .npy: it holds object"),
    ([("1.cls", b"cat")], "1.cls: must be a class number, got 'cat'"),
    ([("1.cls", b"")], "1.cls: must be a class number, got ''"),
    (
        [("1.txt", b"a"), ("1.TXT", b"a")],
        "1.txt and 1.TXT have the same key and extension; keep one",
    ),
    (
        [("1.txt", b"a"), ("1.json", b'{"text": "b"}')],
        "field 'text' is given by 1.txt and, with another value, by 1.json; keep one",
    ),
    (
        [("1.a.txt", b"5"), ("1.a.cls", b"6")],
        "field 'a' is given by 1.a.txt and, with another value, by 1.a.cls; keep one",
    ),
    (
        [("1.npy", npy([1])), ("1.json", b'{"npy": [1]}')],
        "field 'npy' is given by 1.npy and, with another value, by 1.json; keep one",
    ),
    (
        [("1.json", b'{"__key__": "2"}')],
        "field '__key__' is given by its name and, with another value, by 1.json; keep one",
    ),
]


@pytest.mark.parametrize(("members", "reason"), BAD)
def test_a_broken_member_is_an_error_of_its_record_alone(
    folder: Path, members: Members, reason: str
) -> None:
    assert reason_of(folder, members).startswith(reason)


def test_what_is_not_wanted_is_not_looked_at(folder: Path) -> None:
    members = [
        ("1.txt", b"one"),
        ("1.npy", b"broken"),
        ("1.cls", b"broken"),
        ("1.x.json", b"broken"),
        ("1.json", b'{"npy": 1, "npy": 2, "__key__": 3}'),
        ("1.jpg", b""),
        ("1.jpg", b""),
    ]
    assert records_of(folder, members, TEXT) == [{"text": "one"}]
    assert records_of(folder, members, frozenset({"__key__"})) == [{"__key__": "1"}]
    assert "twice" in reason_of(folder, members[4:], frozenset({"npy"}))


def test_large_contents_that_are_not_wanted_are_never_in_memory(tmp_path: Path) -> None:
    size = 1 << 28
    info = tarfile.TarInfo("1.jpg")
    info.size = size
    with open(tmp_path / "big.tar", "wb") as file:
        file.write(info.tobuf())
        file.seek(size, io.SEEK_CUR)  # a hole
        file.write(tar_of([("1.txt", b"small"), ("2.txt", b"too")]))
        num_bytes = file.tell()
    path = str(tmp_path / "big.tar")
    source = Source(kind="webdataset", path=path, num_bytes=num_bytes, fingerprint="")
    tracemalloc.start()
    found, _ = read_all(source, TEXT, 1000)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert [record["text"] for _, _, record in found] == ["small", "too"]


def test_a_record_over_the_limit_is_an_error_by_what_is_wanted_of_it(folder: Path) -> None:
    members = [("1.txt", b"x" * 99), ("1.jpg", bytes(999)), ("2.txt", b"x" * 101)]
    found, faults = read_all(source_of(folder, members), TEXT, max_record_bytes=100)
    assert [line for line, _, _ in found] == [0]
    assert [(line, reason) for line, _, reason in faults] == [
        (1, "record of 101 bytes is longer than the limit of 100")
    ]


def test_a_record_without_a_wanted_field_names_those_that_it_has(folder: Path) -> None:
    members = [("1.txt", b"\xff"), ("1.a.npy", b"?"), ("1.json", b'{"id": 7}'), ("1.jpg", b"")]
    source = source_of(folder, members)
    ((piece, _),) = split_source(source, 0, 1, frozenset({"body"}), False)
    (batch,) = read_piece(source, piece, frozenset({"body"}))
    assert [set(row) for row in batch.as_rows()] == [{"__key__", "text", "a", "id"}]


def test_what_is_no_file_but_stands_for_a_field_is_an_error_of_its_record(folder: Path) -> None:
    said = {
        **dict.fromkeys((tarfile.SYMTYPE, tarfile.LNKTYPE), "a link"),
        **dict.fromkeys((tarfile.CHRTYPE, tarfile.BLKTYPE), "a device"),
        tarfile.FIFOTYPE: "a FIFO",
    }
    for kind, what in said.items():
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name in ("1.jpg", "1.txt"):
                link = tarfile.TarInfo(name)
                link.type, link.linkname, link.size = kind, "0.txt", 700
                tar.addfile(link)
            info = tarfile.TarInfo("2.txt")
            tar.addfile(info)
        found, faults = read_all(source_of(folder, file.getvalue()), TEXT)
        assert [record for _, _, record in found] == [{"text": ""}]
        assert [reason.partition(",")[0] for _, _, reason in faults] == [f"1.txt: {what}"]


def test_a_key_that_comes_back_is_an_error_that_names_both_places(folder: Path) -> None:
    members = [("a.txt", b"1"), ("d/b.txt", b"2"), ("a.json", b"{}"), ("a.cls", b"3")]
    source = source_of(folder, members)
    message = (
        r"key 'a' of record 1 \(byte 0\) of .*a\.tar appears again in record 3 \(byte 2048\), "
        "after other keys; pack the tar again .* tar --sort=name"
    )
    for target_bytes in (1, 1 << 20):
        with pytest.raises(InputError, match=message):
            split_source(source, 0, target_bytes, TEXT, False)
    assert len(records_of(folder, [("a.txt", b""), ("README", b""), ("a.json", b"{}")])) == 1


WHOLE = tar_of([("1.txt", b"one" * 300), ("l" * 120 + ".txt", b"two"), ("3.json", b'{"a": 1}')])


def test_a_tar_cut_anywhere_is_an_input_error(folder: Path) -> None:
    end = len(WHOLE.rstrip(b"\0")) // 512 * 512 + 512
    assert len(read_all(source_of(folder, WHOLE))[0]) == 3
    assert len(read_all(source_of(folder, WHOLE[: end + 512]))[0]) == 3
    for length in [*range(0, end + 512, 61), *range(0, end + 512, 512), end + 511]:
        source = source_of(folder, WHOLE[:length])
        with pytest.raises(InputError, match=r"cannot read .*a\.tar as tar: .*; copy or pack it"):
            split_source(source, 0, 1000, TEXT, False)


def test_a_damaged_header_is_an_input_error_and_not_the_end(folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(WHOLE)) as tar:
        members = list(tar)
    for member in members:
        for place in (member.offset, member.offset + 20, member.offset_data - 512 + 150):
            damaged = bytearray(WHOLE)
            damaged[place] ^= 0x55
            with pytest.raises(InputError, match=r"cannot read .*a\.tar as tar"):
                read_all(source_of(folder, bytes(damaged)))


def test_damage_since_the_tar_was_cut_is_an_input_error(folder: Path) -> None:
    source = source_of(folder, WHOLE)
    pieces = [piece for piece, _ in split_source(source, 0, 1, TEXT, False)]
    assert len(pieces) == 3
    (folder / "a.tar").write_bytes(WHOLE[: pieces[2].start] + b"x" * 2048)
    for piece in pieces[1:]:
        with pytest.raises(InputError, match="is damaged"):
            list(read_piece(source, piece, TEXT))


def test_tars_joined_into_one_file_are_an_input_error(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"has more data at byte \d+, after its end mark; were tars"
    ):
        read_all(source_of(folder, WHOLE + tar_of([("4.txt", b"")])))


def test_what_is_no_tar_is_an_input_error(folder: Path) -> None:
    for content in (b"", b"text", b"{}" * 999, b"\x1f\x8b" + bytes(2000)):
        with pytest.raises(InputError, match=r"cannot read .*a\.tar as tar"):
            read_all(source_of(folder, content))


def test_a_tar_without_records_gives_none(folder: Path) -> None:
    for members in ([], [("README", b"x"), ("d/", b"")]):
        source = source_of(folder, members)
        assert len(split_source(source, 0, 1, TEXT, True)) == 1
        assert read_all(source) == ([], [])


def test_a_sparse_member_is_refused(folder: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("1.txt")
        info.type = tarfile.GNUTYPE_SPARSE
        tar.addfile(info)
    with pytest.raises(InputError, match=r"1\.txt of .* is a sparse file"):
        read_all(source_of(folder, file.getvalue()))


def test_global_headers_may_comment_but_not_rename(folder: Path) -> None:
    def with_global(headers: dict[str, str]) -> Source:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", pax_headers=headers) as tar:
            for name in ("1.txt", "2.txt"):
                tar.addfile(tarfile.TarInfo(name))
        return source_of(folder, file.getvalue())

    assert len(read_all(with_global({"comment": "a commit"}), TEXT, 1)[0]) == 2
    with pytest.raises(InputError, match="a global header gives all members the same path or size"):
        read_all(with_global({"path": "3.txt"}))


def test_a_name_that_is_not_utf8_is_an_input_error(folder: Path) -> None:
    content = tar_of([("a\udcff.txt", b"")], tarfile.GNU_FORMAT)
    with pytest.raises(InputError, match=r"'a\\udcff\.txt' in .* is not UTF-8; rename it"):
        read_all(source_of(folder, content))


@pytest.mark.parametrize("ending", ["tar.gz", "tgz", "tar.zst", "TAR.XZ", "tar.bz2"])
def test_a_compressed_tar_is_refused_by_name_and_in_a_folder(tmp_path: Path, ending: str) -> None:
    source_of(tmp_path, WHOLE, "b.tar")
    (tmp_path / f"a.{ending}").write_bytes(b"")
    for spec in (f"{tmp_path}/a.{ending}", str(tmp_path), f"{tmp_path}/*"):
        with pytest.raises(InputError, match=rf"a\.{ending} is compressed .*; decompress it"):
            find_sources(spec)


def test_a_folder_gives_its_tars_too(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [{"text": "zero"}])
    source_of(tmp_path, [("1.txt", b"one")], "B.TAR")
    sources = find_sources(str(tmp_path))
    assert [source.kind for source in sources] == ["webdataset", "jsonl"]
    assert [format_of(source.kind).unit for source in sources] == ["record", "line"]


@pytest.fixture
def memory_files() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    for path in filesystem.find("/"):
        filesystem.rm(path)


def test_a_tar_behind_a_url_is_read_like_a_file(folder: Path, memory_files: Any) -> None:
    memory_files.pipe("/t/a.tar", WHOLE)
    (source,) = find_sources("memory://t")
    assert source.kind == "webdataset"
    assert read_all(source, target_bytes=700) == read_all(source_of(folder, WHOLE))
    memory_files.pipe("/t/a.tar", WHOLE[:1000])
    with pytest.raises(InputError, match=r"cannot read memory:.*a\.tar as tar: it ends within"):
        split_source(source, 0, 700, TEXT, False)


def test_encode_still_takes_tables_alone_from_urls(memory_files: Any) -> None:
    memory_files.pipe("/t/a.tar", WHOLE)
    memory_files.pipe("/t/b.jsonl", b'{"image": ""}\n')
    (found,) = find_media("memory://t", "vision", "image", None)
    assert found.source.kind == "jsonl"
    with pytest.raises(InputError, match=r"a\.tar names tars behind a URL"):
        find_media("memory://t/a.tar", "vision", "image", None)


def texts_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def options(sample: Sample, fields: str) -> list[str]:
    # The engine that needs no proof.
    return ["--tokenizer", str(sample.tokenizer), "--fields", fields, "--engine", "tokenizers"]


def test_texts_of_a_tar_are_tokenized_like_those_of_lines(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    texts = [record["text"] for record in texts_of(sample.text)]
    members = [
        member
        for i, text in enumerate(texts)
        for member in ((f"{i:05}.jpg", b"?"), (f"{i:05}.txt", f"{text}\n".encode()))
    ]
    (tmp_path / "x.tar").write_bytes(tar_of(members))
    common = [*options(sample, "text"), "--shard-bytes", "131072"]
    run_cli("tokenize", "x.tar", *common, "--out", "from_tar")
    run_cli("tokenize", sample.text, *common, "--out", "from_lines")
    assert seen_in(tmp_path / "from_tar") == seen_in(tmp_path / "from_lines")
    shown = run_cli("inspect", "from_tar").stdout
    assert re.search(r"record 1 of .*x\.tar", shown), shown


def test_arrays_of_a_tar_are_tokenized_like_lists_in_lines(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    records = texts_of(sample.vision)[:20]
    write_lines(
        tmp_path / "x.jsonl", [{"text": r["caption"], "vision": r["vision"]} for r in records]
    )
    members = [
        member
        for i, r in enumerate(records)
        for member in (
            (f"{i:05}.vision.npy", npy(r["vision"])),
            (f"{i:05}.txt", r["caption"].encode()),
        )
    ]
    (tmp_path / "x.tar").write_bytes(tar_of(members))
    common = options(sample, "[vision],text")
    run_cli("tokenize", "x.tar", *common, "--out", "from_tar")
    run_cli("tokenize", "x.jsonl", *common, "--out", "from_lines")
    from_tar = seen_in(tmp_path / "from_tar")
    assert len(from_tar) == 20
    assert from_tar == seen_in(tmp_path / "from_lines")


def test_bad_records_of_a_tar_are_named_and_can_be_left_out(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    (tmp_path / "x.tar").write_bytes(tar_of([("1.txt", b"one"), ("2.txt", b"\xff")]))
    common = ["tokenize", "x.tar", *options(sample, "text")]
    failed = run_cli(*common, "--out", "out", check=False)
    reason = "2.txt: invalid UTF-8: byte 0xff at byte 0 of the text"
    assert failed.code == 3
    assert f"record 2 of {tmp_path}/x.tar (byte 1024): {reason}" in failed.stderr
    run_cli(*common, "--out", "rest", "--on-error", "quarantine")
    assert len(seen_in(tmp_path / "rest")) == 1
    assert texts_of(tmp_path / "rest" / "errors.jsonl") == [
        {
            "file": f"{tmp_path}/x.tar",
            "line": 2,
            "byte_offset": 1024,
            "reason": reason,
            "excerpt": "2",
        }
    ]
