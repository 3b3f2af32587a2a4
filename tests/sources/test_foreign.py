"""Old datasets come in: files of other trainers are read whole, however cut, or refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError, DataprepError, InputError
from dataprep.pipeline.sources import (
    Keys,
    changed_sources,
    count_records,
    find_sources,
    format_of,
    lines_before,
    read_piece,
    split_source,
)
from dataprep.pipeline.tokenize import plan_of
from dataprep.pipeline.tokenize.notes import notes_of
from support.foreign import (
    example_bytes,
    mds_array,
    mds_shard,
    write_array_record,
    write_datatrove,
    write_megatron,
)
from support.inprocess import tokenize_here
from support.toy import write_toy_tokenizer

TOKENS = Keys(needed=frozenset({"tokens"}))
Documents = list[list[int]]


def numbers(key: str) -> Any:
    return "numbers"


def read_all(
    path: Path, *, keys: Keys = TOKENS, target: int = 1 << 30, batch: int = 1 << 20, **options: Any
) -> list[dict[str, Any]]:
    """All records of a file, read in pieces and batches of these sizes; places are checked."""
    found: list[dict[str, Any]] = []
    for source in find_sources(str(path), options=options):
        before = 0
        for piece, _ in split_source(source, 0, target, keys, count_lines=True):
            assert piece.first_line == before == lines_before(source, piece)
            rows: list[dict[str, Any]] = []
            next_line = 0
            for records in read_piece(source, piece, keys, batch_bytes=batch, held_by=numbers):
                assert not records.errors
                assert records.lines.tolist() == list(
                    range(len(rows), len(rows) + len(records.lines))
                )
                rows += [dict(row) for row in records.as_rows()]
                next_line = records.next_line
            assert next_line == len(rows) == count_records(source, piece, sys.maxsize)
            skipped = len(rows) // 2
            again = read_piece(source, piece, keys, from_line=skipped, held_by=numbers)
            assert sum(len(records.lines) for records in again) == len(rows) - skipped
            before += len(rows)
            found += rows
    return found


def ids_of(rows: Sequence[dict[str, Any]], key: str = "tokens") -> Documents:
    return [row[key].tolist() for row in rows]


Write = Callable[[Path, Documents], tuple[Path, dict[str, str]]]


def _array_record(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    records = [np.array(ids, "<i4").tobytes() for ids in documents]
    return write_array_record(folder / "a.arecord", records), {"records": "tokens_int32"}


def _grouped(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    records = [np.array(ids, "<u2").tobytes() for ids in documents]
    path = write_array_record(folder / "a.array_record", records, "group_size:3,zstd:3")
    return path, {"records": "tokens_uint16"}


def _megatron(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    halves = [[ids[: len(ids) // 2], ids[len(ids) // 2 :]] for ids in documents]
    return write_megatron(folder / "m", halves, "<i4", 4), {}


def _sequences(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    write_megatron(folder / "m", [documents])
    return folder / "m.bin", {"records": "sequences"}


def _mds(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    filled = [[mds_array(ids), b"x"] for ids in documents]
    columns = {"tokens": "ndarray:int32", "name": "str"}
    (folder / "shard.mds").write_bytes(mds_shard(filled, columns))
    return folder / "shard.mds", {}


def _mds_zstd(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    raw = mds_shard([[np.array(ids, "<i8").tobytes()] for ids in documents], {"tokens": "bytes"})
    (folder / "shard.mds.zstd").write_bytes(zstandard.compress(raw))
    return folder / "shard.mds.zstd", {"records": "tokens_int64"}


def _datatrove(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    return write_datatrove(folder / "a.ds", documents), {}


def _wide_datatrove(folder: Path, documents: Documents) -> tuple[Path, dict[str, str]]:
    return write_datatrove(folder / "a.ds", documents, "<u4"), {}


@pytest.mark.parametrize(
    "write",
    [_array_record, _grouped, _megatron, _sequences, _mds, _mds_zstd, _datatrove, _wide_datatrove],
)
@settings(max_examples=12, deadline=None)
@given(
    documents=st.lists(st.lists(st.integers(0, 60_000), max_size=7), max_size=9),
    target=st.sampled_from([1, 30, 1 << 20]),
    batch=st.sampled_from([1, 30, 1 << 20]),
)
def test_documents_are_the_same_however_a_file_is_cut(
    write: Write, documents: Documents, target: int, batch: int
) -> None:
    with TemporaryDirectory() as folder:
        path, options = write(Path(folder), documents)
        assert ids_of(read_all(path, target=target, batch=batch, **options)) == documents


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.integers(0, 3), max_size=40),
    starts=st.booleans(),
    target=st.sampled_from([1, 2, 6, 20, 1 << 20]),
    batch=st.sampled_from([1, 4, 10, 1 << 20]),
)
def test_flat_files_are_cut_at_a_token(
    ids: list[int], starts: bool, target: int, batch: int
) -> None:
    expected: Documents = []
    for place, each in enumerate(ids):
        is_new = each == 0 if starts else place > 0 and ids[place - 1] == 0
        if place == 0 or is_new:
            expected.append([])
        expected[-1].append(each)
    name = "document_start" if starts else "document_end"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "part.npy"
        path.write_bytes(np.array(ids, "<u2").tobytes() or b"")
        options = {name: "0" if 0 in ids else "none", "records": "tokens_uint16"}
        assert ids_of(read_all(path, target=target, batch=batch, **options)) == expected


@settings(max_examples=25, deadline=None)
@given(
    documents=st.lists(st.lists(st.integers(1, 9), max_size=5), min_size=1, max_size=9),
    form=st.sampled_from(["datatrove", "flat"]),
    target=st.sampled_from([1, 6, 1 << 20]),
    batch=st.sampled_from([1, 10, 1 << 20]),
    data=st.data(),
)
def test_masks_in_files_of_their_own_are_those_of_their_tokens(
    documents: Documents, form: str, target: int, batch: int, data: st.DataObject
) -> None:
    documents = [[*ids, 0] for ids in documents]
    flags = [[data.draw(st.integers(0, 1)) for _ in ids] for ids in documents]
    options: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        if form == "flat":
            path, mask = Path(folder) / "shards.npy", Path(folder) / "masks.npy"
            path.write_bytes(np.array([i for ids in documents for i in ids], "<u2").tobytes())
            options = {
                "records": "tokens_uint16",
                "document_end": "0",
                "loss_masks": "shards=masks",
            }
        else:
            path = write_datatrove(Path(folder) / "a.ds", documents)
            mask = Path(folder) / "a.ds.loss"
        mask.write_bytes(bytes(flag for each in flags for flag in each))
        keys = Keys(needed=frozenset({"tokens", "loss_mask"}))
        rows = read_all(path, keys=keys, target=target, batch=batch, **options)
        assert (ids_of(rows), ids_of(rows, "loss_mask")) == (documents, flags)
        (source,) = find_sources(str(path), options=options)
        mask.write_bytes(mask.read_bytes()[:-1])
        (cut_short,) = find_sources(str(path), options=options)
        assert source.fingerprint != cut_short.fingerprint
        with pytest.raises(InputError, match="one for each of the"):
            read_all(path, keys=keys, **options)


def test_a_mask_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "shards.npy").write_bytes(b"\1\0\0\0")
    options = {"records": "tokens_uint16", "document_end": "0", "loss_masks": "shards=masks"}
    with pytest.raises(InputError, match=r"masks\.npy"):
        read_all(tmp_path / "shards.npy", **options)
    with pytest.raises(InputError, match=r"loss_masks ids=masks .* has none in it"):
        read_all(tmp_path / "shards.npy", **{**options, "loss_masks": "ids=masks"})


@pytest.mark.parametrize(
    ("ids", "options", "doubt"),
    [
        ([5, 9, 0, 7, 0], {"document_end": "0"}, ""),
        ([0, 5, 9, 0, 7], {"document_start": "0"}, ""),
        ([0, 5, 9, 0, 7], {"document_end": "0"}, "begins with 0: .* Then document_start=0"),
        ([5, 9, 0, 7, 8], {"document_end": "9"}, "ends with 8, not with 9: does another token"),
        ([5, 9, 0, 7, 0], {"document_start": "0"}, "does not begin .* document_end=0 meant"),
        ([5, 9, 0, 7, 8], {"document_start": "0"}, "does not begin with 0"),
        ([5, 9, 0, 7, 8], {"document_end": "none"}, ""),
    ],
)
def test_documents_that_end_strangely_are_told(
    ids: list[int], options: dict[str, str], doubt: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(np.array(ids, "<u2").tobytes())
    sources = find_sources(str(path), options={"records": "tokens_uint16", **options})
    found = list(format_of("tokens").doubts(sources))
    assert len(found) == bool(doubt)
    assert all(re.search(doubt, each) for each in found), found


@pytest.mark.parametrize("name", ["document_end", "document_start"])
def test_a_token_at_which_no_document_ends_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(np.arange(1, 9, dtype="<u2").tobytes())
    options = {"records": "tokens_uint16", name: "0"}
    with pytest.raises(InputError, match=r"a\.bin has 8 ids, but none is 0.*document_end=none"):
        read_all(path, **options)
    options = {"records": "tokens_uint16", "document_end": "none"}
    assert ids_of(read_all(path, **options)) == [[*range(1, 9)]]


def test_masks_beside_flat_files_are_told_if_they_are_not_read(tmp_path: Path) -> None:
    for name, size in (("token_ids_0.npy", 8), ("labels_mask_0.npy", 4), ("token_ids_1.npy", 8)):
        (tmp_path / name).write_bytes(bytes(size))
    options = {"records": "tokens_uint16", "document_end": "0"}
    sources = find_sources(str(tmp_path / "token_ids_0.npy"), options=options)
    (note,) = format_of("tokens").doubts(sources)
    assert "labels_mask_0.npy has a byte for each id" in note
    assert "--set loss_masks=token_ids=labels_mask" in note
    assert not list(
        format_of("tokens").doubts(find_sources(str(tmp_path / "token_ids_1.npy"), options=options))
    )


@pytest.mark.parametrize(
    ("ending", "stored", "said"),
    [
        ("mds", "<i8", "int32"),  # of ArrayRecord, that is the answer where nothing tells
        *(("mds", "<i8", "uint16"), ("mds", "<i4", "uint16")),
        *(("arecord", "<i8", "uint32"), ("arecord", "<i4", "uint16")),
    ],
)
def test_ids_in_bytes_are_not_read_as_halves(
    ending: str, stored: str, said: str, tmp_path: Path
) -> None:
    rows = [np.array(ids, stored).tobytes() for ids in ([7, 900, 42, 5], [], range(1, 30))]
    path = tmp_path / f"a.{ending}"
    if ending == "mds":
        path.write_bytes(mds_shard([[row] for row in rows], {"tokens": "bytes"}))
    else:
        write_array_record(path, rows)
    with pytest.raises(InputError, match=rf"every second id of {path} is 0 or nearly so"):
        read_all(path, records=f"tokens_{said}")
    rows_found = read_all(path, records={"<i8": "tokens_int64", "<i4": "tokens_int32"}[stored])
    assert ids_of(rows_found)[0] == [7, 900, 42, 5]


def test_ids_between_small_ones_are_no_halves_of_ids_beyond_any_vocabulary(tmp_path: Path) -> None:
    notes = [number for i in range(99) for number in (600 + i, i % 5)]  # a pitch, its length
    path = tmp_path / "a.mds"
    row = np.array(notes, "<i4").tobytes()
    path.write_bytes(mds_shard([[row]], {"tokens": "bytes"}))
    assert ids_of(read_all(path, records="tokens_int32")) == [notes]
    with pytest.raises(InputError, match="every second id"):
        read_all(path, records="tokens_uint16")


def test_a_pair_of_megatron_behind_a_url_is_read_once(tmp_path: Path) -> None:
    import fsspec

    write_megatron(tmp_path / "a", [[[1, 2]], [[3]]])
    store = fsspec.filesystem("memory")
    for name in ("a.idx", "a.bin"):
        store.pipe(f"/pairs/{name}", (tmp_path / name).read_bytes())
    (source,) = find_sources("memory://pairs/*")
    store.pipe("/pairs/a.bin", b"\1\0\2\0\4\0")
    assert changed_sources([source], None) == [source]


@pytest.mark.parametrize("write", [_megatron, _datatrove])
def test_files_beside_one_in_an_archive_are_in_it(write: Write, tmp_path: Path) -> None:
    path, options = write(tmp_path, [[1, 2, 3], [4]])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in sorted(tmp_path.glob(f"{path.stem}.*")):
            archive.write(file, f"in/{file.name}")
            file.unlink()
    url = f"zip://in/{path.name}::{tmp_path}/all.zip"
    (source,) = find_sources(url, options=options)
    pieces = split_source(source, 0, 1 << 20, TOKENS, count_lines=False)
    batches = [read_piece(source, piece, TOKENS, held_by=numbers) for piece, _ in pieces]
    rows = [dict(row) for each in batches for records in each for row in records.as_rows()]
    assert ids_of(rows) == [[1, 2, 3], [4]]
    assert len(find_sources(f"zip://in/{path.stem}.*::{tmp_path}/all.zip")) == 1


def test_headers_tell_the_type_of_ids(tmp_path: Path) -> None:
    ids = np.array([5, 9, 0, 7, 8], np.int64)
    np.save(tmp_path / "a.npy", ids)
    head = np.zeros(256, "<i4")
    head[:3] = 20240801, 7, len(ids)
    (tmp_path / "b.bin").write_bytes(head.tobytes() + ids.astype("<u4").tobytes())
    for name in ("a.npy", "b.bin"):
        assert ids_of(read_all(tmp_path / name, document_end="0")) == [[5, 9, 0], [7, 8]]
    (source,) = find_sources(str(tmp_path / "b.bin"), options={"document_end": "0"})
    (piece, _), *_ = split_source(source, 0, 1 << 20, TOKENS, count_lines=False)
    records = next(iter(read_piece(source, piece, TOKENS)))
    assert records.offsets.tolist()[0] == 1024


@pytest.mark.parametrize(
    ("name", "content", "options", "reason"),
    [
        ("a.bin", b"\1\0\2\0", {"document_end": "0"}, "no header that tells the type of its ids"),
        ("a.bin", b"\1\0\2\0", {"records": "tokens_uint16"}, "say which token ends a document"),
        ("a.bin", b"\1\0\2", {"records": "tokens_uint16", "document_end": "0"}, "it has 3 bytes"),
        (
            "a.bin",
            b"\1\0\0\0" * 20,
            {"records": "tokens_uint16", "document_end": "9"},
            "seem to have four bytes, not two",
        ),
        (
            "a.bin",
            b"\1\0\0\0\0\0\0\0" * 20,
            {"records": "tokens_int32", "document_end": "9"},
            "seem to have eight bytes, not four; set records to tokens_int64",
        ),
        (
            "a.bin",
            np.arange(60_000, 60_200, dtype="<u4").tobytes()
            + np.arange(70_000, 70_200, dtype="<u4").tobytes(),
            {"records": "tokens_uint16", "document_end": "1"},
            "seem to have four bytes, not two",
        ),
        ("a.bin", b"", {"records": "text", "document_end": "0"}, "is tokens, of which records may"),
        ("a.idx", b"", {}, "a.bin"),
        ("a.arecord", b"", {}, "as ArrayRecord"),
        ("a.arecord", b"x" * 70_000, {}, "as ArrayRecord"),
        ("a.mds", b"", {}, "as MDS: it is too short"),
        ("a.mds", b"\xff\xff\xff\xff" * 3, {}, "as MDS: it ends within the places"),
        ("a.mds.gz", gzip.compress(b"\1\0", mtime=0), {}, "as MDS: it is too short"),
        ("a.mds.zstd", b"abc", {}, "is not a whole"),
    ],
)
def test_files_that_are_no_such_are_refused(
    name: str, content: bytes, options: dict[str, str], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_all(path, **options)


DOCUMENTS = [[5, 9, 2], [7] * 300, [1, 2]]


@pytest.mark.parametrize("write", [_array_record, _megatron, _mds, _mds_zstd, _datatrove])
def test_a_file_that_was_cut_off_is_refused(write: Write, tmp_path: Path) -> None:
    path, options = write(tmp_path, DOCUMENTS)
    whole = path.read_bytes()
    for size in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=path.name):
            read_all(path, **options)
    path.write_bytes(whole)
    assert ids_of(read_all(path, **options)) == DOCUMENTS


@pytest.mark.parametrize("write", [_array_record, _grouped, _megatron, _mds, _datatrove])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_damaged_file_gives_documents_or_an_error_that_names_it(
    write: Write, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        path, options = write(Path(folder), DOCUMENTS)
        files = sorted(Path(folder).iterdir())
        damaged = files[data.draw(st.integers(0, len(files) - 1))]
        content = bytearray(damaged.read_bytes())
        place = data.draw(st.integers(0, min(len(content), 400) - 1))  # heads, above all
        content[place] ^= 1 << data.draw(st.integers(0, 7))
        damaged.write_bytes(content)
        told = path.name  # what an error must name; where there is none, nothing is asked
        try:
            for source in find_sources(str(path), options=options):
                for piece, _ in split_source(source, 0, 1 << 20, TOKENS, count_lines=True):
                    for records in read_piece(source, piece, TOKENS, held_by=numbers):
                        records.as_rows()
        except InputError as error:
            told = str(error)
        assert str(Path(folder) / path.stem) in told or told == path.name


def test_a_bin_that_does_not_fit_its_index_is_refused(tmp_path: Path) -> None:
    idx = write_megatron(tmp_path / "a", [[[1, 2]], [[3]]])
    whole = idx.read_bytes()
    (tmp_path / "a.bin").write_bytes(b"\1\0\2\0")
    with pytest.raises(InputError, match=r"a\.bin .* has 4 bytes, but the .idx needs 6"):
        read_all(idx)
    (tmp_path / "a.bin").write_bytes(b"\1\0\2\0\3\0")
    for place, reason in ((34, "do not follow each other"), (42, "do not follow each other")):
        idx.write_bytes(whole[:place] + b"\5" + whole[place + 1 :])
        with pytest.raises(InputError, match=reason):
            read_all(idx)
    idx.write_bytes(whole[:-8] + b"\1" + whole[-7:])
    with pytest.raises(InputError, match="documents are not all of its sequences"):
        read_all(idx)
    idx.write_bytes(whole + b"\0\1")
    with pytest.raises(InputError, match="multimodal"):
        read_all(idx)


def test_a_flipped_bit_of_an_array_record_is_told(tmp_path: Path) -> None:
    path, options = _array_record(tmp_path, DOCUMENTS)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.arecord as ArrayRecord: records? "):
        read_all(path, **options)


def test_the_form_of_records_is_told_by_them(tmp_path: Path) -> None:
    ids = [np.array(ids, "<i4").tobytes() for ids in ([5, 9], [], [0])]
    assert ids_of(read_all(write_array_record(tmp_path / "a.arecord", ids))) == [[5, 9], [], [0]]
    texts = ["Once\nupon", "", "a timé"]
    path = write_array_record(tmp_path / "b.arrayrecord", [text.encode() for text in texts])
    text = Keys(needed=frozenset({"text"}))
    assert [row["text"] for row in read_all(path, keys=text)] == texts
    records = [{"text": [5, 300], "id": [b"a"], "w": [0.5, 1.0]}, {"text": [7], "w": [0.0]}]
    path = write_array_record(tmp_path / "c.arrayrecord", [example_bytes(r) for r in records])
    rows = read_all(path, keys=Keys(needed=frozenset({"text", "w"})))
    assert ids_of(rows, "text") == [[5, 300], [7]]
    assert [row["w"].tolist() for row in rows] == [[0.5, 1.0], [0.0]]
    for name, content in (("d", [b"\xff\xfe\xfd"]), ("e", [b"", b""])):
        path = write_array_record(tmp_path / f"{name}.arecord", content)
        with pytest.raises(InputError, match="say what they are: --set records=FORM"):
            read_all(path)
    assert read_all(write_array_record(tmp_path / "f.arecord", []), keys=text) == []


def test_wide_ids_are_not_taken_for_narrow_ones_with_zeros_between(tmp_path: Path) -> None:
    wide = [np.array(ids, "<i8").tobytes() for ids in ([5, 9], [7])]
    path = write_array_record(tmp_path / "a.arecord", wide)
    with pytest.raises(InputError, match=r"a\.arecord may be int64 .*--set records=tokens_int64"):
        read_all(path)
    assert ids_of(read_all(path, records="tokens_int64")) == [[5, 9], [7]]
    assert ids_of(read_all(path, records="tokens_int32")) == [[5, 0, 9, 0], [7, 0]]

    def doubts(path: Path, said: str) -> list[str]:
        sources = find_sources(str(path), options={"records": said})
        return list(format_of("arrayrecord").doubts(sources))

    (note,) = doubts(path, "tokens_int32")
    assert str(path) in note
    assert "set records to tokens_int64" in note
    narrow = write_array_record(tmp_path / "b.arecord", [np.array([5, 9], "<i4").tobytes()])
    empty = write_array_record(tmp_path / "c.arecord", [b""])
    none = write_array_record(tmp_path / "d.arecord", [])
    assert doubts(narrow, "tokens_int32") == doubts(path, "tokens_int64") == []
    assert doubts(empty, "tokens_int32") == doubts(none, "tokens_int32") == []


def test_a_bad_record_is_bad_by_itself(tmp_path: Path) -> None:
    good = example_bytes({"tokens": [5]})
    short = example_bytes({"tokens": [300]})[:-1] + b"\xff"  # a number that does not end
    for number, bad in enumerate((b"\xff\xff", short)):
        path = write_array_record(tmp_path / f"{number}.arecord", [good, bad, good])
        (source,) = find_sources(str(path), options={"records": "example"})
        ((piece, _),) = split_source(source, 0, 1 << 20, TOKENS, count_lines=False)
        (records,) = read_piece(source, piece, TOKENS, held_by=numbers)
        assert (records.lines.tolist(), [e.line for e in records.errors]) == ([0, 2], [1])
        assert "is no tf.train.Example" in records.errors[0].reason
        rows = records.as_rows()
        assert [list(row["tokens"]) for row in rows] == [[5], [5]]


# --- folders ---


def mds_folder(folder: Path, *, hashes: bool = True) -> Path:
    folder.mkdir()
    entries = []
    for i in range(2):
        raw = mds_shard([[mds_array([i, 5])]], {"tokens": "ndarray:int32"})
        name = f"shard.{i:05}.mds"
        (folder / name).write_bytes(raw)
        told = {"sha1": hashlib.sha1(raw).hexdigest()} if hashes else {}
        raw_data = {"basename": name, "bytes": len(raw), "hashes": told}
        entries.append({"version": 2, "format": "mds", "raw_data": raw_data, "zip_data": None})
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
    return folder


def test_a_folder_of_mds_is_what_its_index_lists(tmp_path: Path) -> None:
    folder = mds_folder(tmp_path / "mds")
    (folder / "stray.mds").write_bytes(b"left from another run")
    for named in (folder, tmp_path, folder / "index.json", folder / "shard*", folder / "i*"):
        assert ids_of(read_all(named)) == [[0, 5], [1, 5]]
    shard = folder / "shard.00001.mds"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + b"\1")
    with pytest.raises(InputError, match=r"shard\.00001\.mds as MDS: its sha1 is not that of"):
        find_sources(str(folder))
    shard.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"bytes, but index.json says"):
        find_sources(str(folder))
    shard.unlink()
    with pytest.raises(InputError, match=r"lists .*shard\.00001\.mds, which is not there"):
        find_sources(str(folder))
    index = (folder / "index.json").read_text().replace("shard.00001.mds", "../../etc/a.mds")
    (folder / "index.json").write_text(index)
    with pytest.raises(InputError, match="which is not in its folder"):
        find_sources(str(folder))


def tfds_folder(folder: Path, kind: str = "array_record") -> Path:
    folder.mkdir()
    splits = [{"name": name, "shardLengths": ["1"]} for name in ("train", "test")]
    info = {"name": "d", "fileFormat": kind, "splits": splits}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    (folder / "features.json").write_text("{}")
    for number, name in enumerate(("train", "test")):
        path = folder / f"d-{name}.array_record-00000-of-00001"
        write_array_record(path, [example_bytes({"tokens": [number]})])
    return folder


def test_a_folder_of_tfds_is_read_by_its_splits(tmp_path: Path) -> None:
    folder = tfds_folder(tmp_path / "tfds")
    assert ids_of(read_all(Path(f"{folder}@test"))) == [[1]]
    with pytest.raises(InputError, match="has several splits; add @SPLIT, one of: test, train"):
        find_sources(str(folder))
    (folder / "d-train.array_record-00000-of-00001").unlink()
    with pytest.raises(InputError, match="which is not there"):
        find_sources(f"{folder}@train")
    with pytest.raises(InputError, match="prepared as tfrecord; prepare it again with file_format"):
        find_sources(f"{tfds_folder(tmp_path / 'other', 'tfrecord')}@train")


def test_a_folder_above_those_of_tfds_names_them(tmp_path: Path) -> None:
    (tmp_path / "lm1b").mkdir()
    folder = tfds_folder(tmp_path / "lm1b/1.1.0")
    with pytest.raises(InputError, match=rf"lm1b@test does not exist; .*: name {folder}@test"):
        find_sources(f"{tmp_path}/lm1b@test")


def test_tfds_by_name_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(InputError, match=r"tfds:lm1b needs tensorflow_datasets"):
        find_sources("tfds:lm1b")


def test_tfds_by_name_reads_what_the_package_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tfds_folder(tmp_path / "tfds")

    class Builder:  # of tensorflow_datasets, as far as it is asked
        data_path = folder

        def download_and_prepare(self) -> None: ...

    class Package:
        @staticmethod
        def builder(name: str, file_format: str) -> Builder:
            if name != "d":
                raise ValueError(f"no dataset {name}")
            return Builder()

    monkeypatch.setitem(sys.modules, "tensorflow_datasets", Package)
    (source,) = find_sources("tfds:d/test")
    assert source.path.endswith("d-test.array_record-00000-of-00001")
    with pytest.raises(InputError, match=r"cannot load tfds:e: ValueError: no dataset e"):
        find_sources("tfds:e")


def test_a_dataset_of_megatron_is_one_source(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1, 2]], [[3]]])
    by_glob = find_sources(f"{tmp_path}/a.*")
    by_folder = find_sources(str(tmp_path))
    by_bin = find_sources(str(tmp_path / "a.bin"))
    assert [len(found) for found in (by_glob, by_folder, by_bin)] == [1, 1, 1]
    fingerprints = {found[0].fingerprint for found in (by_glob, by_folder, by_bin)}
    assert len(fingerprints) == 1
    assert changed_sources(by_bin, None) == []
    (tmp_path / "a.bin").write_bytes(b"\1\0\2\0\4\0")
    assert changed_sources(by_folder, None) == by_folder


# --- whole runs ---


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def tokenized(out: Path, tokenizer: Path, inputs: list[Any], **config: Any) -> Documents:
    tokenize_here(out, inputs=inputs, tokenizer=str(tokenizer), **config)
    documents = open_dataset(out)
    return [documents[i]["tokens"].tolist() for i in range(len(documents))]


def test_a_shard_without_records_is_no_error_beside_others(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "in").mkdir()
    write_array_record(tmp_path / "in/a.arecord", [np.array([100, 2], "<i4").tobytes()])
    write_array_record(tmp_path / "in/b.arecord", [])
    settings: dict[str, Any] = {"pretokenized": "tokens"}
    assert tokenized(tmp_path / "out", tokenizer, [str(tmp_path / "in")], **settings) == [[100, 2]]


def test_inputs_of_every_format_become_one_dataset(tmp_path: Path, tokenizer: Path) -> None:
    documents = [[100, 101, 2], [102, 2]]
    flat = np.array([i for ids in documents for i in ids], "<u2")
    (tmp_path / "part.npy").write_bytes(flat.tobytes())
    path, _ = _array_record(tmp_path, documents)
    inputs = [
        {"path": str(path), "pretokenized": "tokens"},
        {"path": str(write_megatron(tmp_path / "m", [[ids] for ids in documents]))},
        {
            "path": str(tmp_path / "part.npy"),
            "records": "tokens_uint16",
            "document_end": "eos",
        },
        {"path": str(mds_folder(tmp_path / "mds", hashes=False))},
    ]
    settings: dict[str, Any] = {"pretokenized": "tokens"}
    assert tokenized(tmp_path / "out", tokenizer, inputs, **settings) == [
        *documents * 3,
        *([0, 5], [1, 5]),
    ]
    counts = json.loads((tmp_path / "out/manifest.json").read_text())["sources"]
    assert [source["records"] for source in counts] == [2, 2, 2, 1, 1]


@pytest.mark.parametrize(
    ("inputs", "twice"),
    [
        # as a shell expands shards/*
        (["a.idx", "a.bin"], r"a\.bin is read with .*a\.idx and with .*a\.bin, .*quote it\)"),
        (["b.bin", "b.*"], r"b\.bin .*is the same file as .*b\.bin"),
        (["a.idx", "link.bin"], r"link\.bin is read with .*a\.idx and with .*link\.bin"),
    ],
)
def test_a_source_of_several_files_is_refused_if_two_inputs_name_it(
    inputs: list[str], twice: str, tmp_path: Path, tokenizer: Path
) -> None:
    for name in ("a", "b"):
        write_megatron(tmp_path / name, [[[100, 101]], [[2]]])
    (tmp_path / "link.idx").hardlink_to(tmp_path / "a.idx")
    (tmp_path / "link.bin").symlink_to(tmp_path / "a.bin")
    named = [str(tmp_path / name) for name in inputs]
    settings: dict[str, Any] = {"pretokenized": "tokens"}
    with pytest.raises(ConfigError, match=rf"{twice}.*; leave one out"):
        tokenized(tmp_path.parent / "refused", tokenizer, named, **settings)


def test_a_document_cannot_end_at_an_id_outside_the_vocabulary(
    tmp_path: Path, tokenizer: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(np.array([100, 2, 101, 2], "<u2").tobytes())
    settings = {"pretokenized": "tokens", "records": "tokens_uint16", "document_end": 99_999}
    with pytest.raises(ConfigError, match=r"document_end is 99999, outside the vocabulary of \d+;"):
        tokenized(tmp_path / "out", tokenizer, [str(tmp_path / "a.bin")], **settings)


@pytest.mark.parametrize(
    ("ids", "notes"),
    [
        ({"tokens": "ids"}, ["attention_mask=attention_mask", "labels=labels"]),
        ({"tokens": "ids", "labels": "labels"}, ["attention_mask=attention_mask"]),
        ({"tokens": "ids", "loss_mask": "m", "attention_mask": "attention_mask"}, []),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_masks_that_are_not_read_are_told(
    ids: dict[str, str], notes: list[str], ending: str, tmp_path: Path, tokenizer: Path
) -> None:
    record = {"ids": [100, 2], "labels": [-100, 2], "attention_mask": [1, 1], "m": [0, 1]}
    path = tmp_path / f"a.{ending}"
    if ending == "jsonl":
        path.write_text(json.dumps(record))
    else:
        pq.write_table(pa.Table.from_pylist([record]), path)
    config = TokenizeConfig(
        inputs=str(path), tokenizer=str(tokenizer), out=str(tmp_path / "out"), pretokenized=ids
    )
    told = notes_of(plan_of(config, tmp_path))
    assert [note.split("pretokenized.")[1] for note in told if "not read" in note] == notes


def test_masks_that_ids_cannot_come_in_with_are_told(tmp_path: Path, tokenizer: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"ids": [100, 2], "vision_mask": [1, 0]}))
    values = {"inputs": str(path), "tokenizer": str(tokenizer), "pretokenized": "ids"}
    config = TokenizeConfig.model_validate({**values, "out": str(tmp_path / "out")})
    assert any("has 'vision_mask', which" in note for note in notes_of(plan_of(config, tmp_path)))


def test_texts_of_examples_have_fields(tmp_path: Path, tokenizer: Path) -> None:
    record = {"q": [b"ab"], "n": [3], "a": [b"c"]}
    path = write_array_record(tmp_path / "a.arrayrecord", [example_bytes(record)])
    assert tokenized(tmp_path / "out", tokenizer, [str(path)], fields="[q],a") == [
        [1, 100, 101, 102, 2]
    ]


def test_shards_of_our_own_are_no_raw_data(tmp_path: Path, tokenizer: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.jsonl").write_text('{"text": "ab"}\n')
    tokenized(data / "out", tokenizer, [str(data / "a.jsonl")])
    (shard,) = (data / "out/shards").iterdir()
    with pytest.raises(InputError, match=r"is a shard of .*/out, a dataset of dataprep"):
        find_sources(str(shard))
    left_out: list[str] = []
    found = find_sources(str(data), left_out=left_out)
    assert (left_out, {source.kind for source in found} & {"arrayrecord"}) == (["out/"], set())


@pytest.mark.parametrize(
    ("settings", "error", "reason"),
    [
        ({"records": "text"}, ConfigError, "records text has no effect on the inputs"),
        ({"document_end": 0}, ConfigError, "document_end 0 has no effect"),
        ({"pretokenized": "tokens"}, InputError, "field 'tokens' is missing"),
    ],
)
def test_settings_that_do_nothing_are_refused(
    settings: dict[str, Any],
    error: type[DataprepError],
    reason: str,
    tmp_path: Path,
    tokenizer: Path,
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n')
    with pytest.raises(error, match=reason):
        tokenized(tmp_path / "out", tokenizer, [str(tmp_path / "a.jsonl")], **settings)


def test_an_end_that_the_tokenizer_lacks_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\1\0")
    config = TokenizeConfig.model_validate(
        {
            "inputs": [str(tmp_path / "a.bin")],
            "tokenizer": str(write_toy_tokenizer(tmp_path / "toy")),
            "pretokenized": "tokens",
            "records": "tokens_uint16",
            "document_end": "eos",
        }
    )
    (tmp_path / "toy/tokenizer_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"the tokenizer names none; set --eos-token, or doc"):
        plan_of(config, tmp_path / "cache")


def test_files_that_are_read_with_others_are_not_left_out(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1]]])
    write_datatrove(tmp_path / "b.ds", [[2]])
    (tmp_path / "c.md").write_text("")
    left_out: list[str] = []
    assert len(find_sources(str(tmp_path), left_out=left_out)) == 2
    assert left_out == ["c.md"]


def test_a_folder_of_mds_without_a_right_index_is_refused(tmp_path: Path) -> None:
    folder = mds_folder(tmp_path / "mds", hashes=False)
    index = folder / "index.json"
    whole = index.read_text()
    wrong = [whole.replace(*pair) for pair in (('"mds"', '"jsonl"'), ("raw_data", "raw_dat"))]
    for text in ("", whole[: len(whole) // 2], "{}", "[]", *wrong):
        index.write_text(text)
        for place in (folder, tmp_path):
            with pytest.raises(InputError, match=r"index\.json is no index of MDS.*\*\.mds"):
                find_sources(str(place))
    index.unlink()
    for place in (folder, tmp_path):
        with pytest.raises(InputError, match=r"shard\.00000\.mds .* has no index\.json.*\*\.mds"):
            find_sources(str(place))
    assert ids_of(read_all(folder / "*.mds")) == [[0, 5], [1, 5]]
    (folder / "index.json").write_text('{"text": "some data"}')
    for shard in folder.glob("*.mds"):
        shard.unlink()
    assert [s.kind for s in find_sources(str(folder))] == ["jsonl"]  # it is no index at all


def test_an_index_of_other_shards_is_refused(tmp_path: Path) -> None:
    folder = mds_folder(tmp_path / "mds", hashes=False)
    index = json.loads((folder / "index.json").read_text())
    wrong: list[dict[str, Any]] = [
        {"samples": 2},
        {"column_names": ["ids"]},
        {"column_encodings": ["ndarray:int64"]},
    ]
    for change in wrong:
        shards = [index["shards"][0], {**index["shards"][1], **change}]
        (folder / "index.json").write_text(json.dumps({**index, "shards": shards}))
        with pytest.raises(InputError, match=rf"00001\.mds.*its {next(iter(change))} are"):
            find_sources(str(folder))


def test_shards_that_an_index_above_lists_are_checked(tmp_path: Path) -> None:
    """As `merge_index` of MosaicML streaming joins the folders of several writers."""
    folder = mds_folder(tmp_path / "0")
    index = json.loads((folder / "index.json").read_text())
    for shard in index["shards"]:
        shard["raw_data"]["basename"] = f"0/{shard['raw_data']['basename']}"
    (folder / "index.json").unlink()
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert ids_of(read_all(tmp_path)) == [[0, 5], [1, 5]]
    shard = folder / "shard.00001.mds"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\1")
    with pytest.raises(InputError, match="its sha1 is not that of"):
        find_sources(str(tmp_path))


def test_a_column_that_nobody_can_read_is_an_error_of_its_file(tmp_path: Path) -> None:
    shard = mds_shard([[mds_array([1])]], {"tokens": "ndarray:complex64"})
    (tmp_path / "a.mds").write_bytes(shard)
    with pytest.raises(InputError, match=r"column 'tokens' of .*a\.mds has the encoding"):
        read_all(tmp_path / "a.mds")
