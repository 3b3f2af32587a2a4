"""What the user names, to sources: paths, globs, folders, URLs, synthetic data; fingerprints."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from dataprep.configs.load import path_in
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import count_records, find_sources, read_piece, split_source
from dataprep.pipeline.sources.fingerprint import fingerprint_file
from dataprep.pipeline.sources.remote import fingerprint_url
from dataprep.pipeline.types import Piece, Source

PINNED = "Laboris incididunt sint minim cupidatat, laboris culpa eu ip"
PINNED_PAIRED = "bf01679e692bcf87"
LINE = b'{"text": "a"}\n'
TEXT = frozenset({"text"})


def names(sources: list[Source], folder: Path) -> list[str]:
    return [os.path.relpath(source.path, folder) for source in sources]


def fill(folder: Path, *paths: str) -> None:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(LINE)


def read_texts(sources: list[Source], target_bytes: int = 20) -> list[Any]:
    texts: list[Any] = []
    for source in sources:
        for piece, _ in split_source(source, 0, target_bytes, TEXT, True):
            for batch in read_piece(source, piece, TEXT):
                assert not batch.errors
                texts += (batch.columns or {"text": []})["text"]
    return texts


def test_a_path_is_one_source_with_a_hash_of_its_content(tmp_path: Path) -> None:
    fill(tmp_path, "a.jsonl")
    (source,) = find_sources(str(tmp_path / "a.jsonl"))
    assert source == Source(
        kind="jsonl",
        path=str(tmp_path / "a.jsonl"),
        num_bytes=len(LINE),
        fingerprint=f"xxh3-128:{xxhash.xxh3_128_hexdigest(LINE)}",
    )


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("a.jsonl", "jsonl", ""),
        ("a.ndjson", "jsonl", ""),
        ("a.JSONL", "jsonl", ""),
        ("a.json", "jsonl", ""),
        ("a.txt", "text", ""),
        ("a.txt.zst", "text", "zst"),
        ("a.ndjson.gz", "jsonl", "gz"),
        ("a.Jsonl.XZ", "jsonl", "xz"),
        ("a.tsv.bz2", "tsv", "bz2"),
        ("a.parquet", "parquet", ""),
        ("a.arrow", "arrow", ""),
        ("a.npy", "npy", ""),
    ],
)
def test_the_kind_is_told_by_the_ending(
    tmp_path: Path, name: str, kind: str, compression: str
) -> None:
    fill(tmp_path, name)
    (source,) = find_sources(str(tmp_path / name), separator="\n")
    assert (source.kind, source.compression) == (kind, compression)
    assert source.separator == ("\n" if kind == "text" else "")


@pytest.mark.parametrize("name", ["a.md", "a", "a.parquet.gz", "a.npy.gz", "a.gz", "jsonl"])
def test_an_unknown_ending_is_an_error_that_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    fill(tmp_path, name)
    with pytest.raises(
        InputError, match=r"cannot tell what .* is by its ending; known endings: \.jsonl"
    ):
        find_sources(str(tmp_path / name))


def test_a_relative_path_is_found_and_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "a.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for spec in ("a.jsonl", "./a.jsonl", "~/a.jsonl", f"file://{tmp_path}/a.jsonl", "*.jsonl"):
        assert [source.path for source in find_sources(spec)] == [str(tmp_path / "a.jsonl")]


def test_a_glob_gives_its_files_sorted(tmp_path: Path) -> None:
    fill(tmp_path, "b.jsonl", "a.jsonl", "d/c.jsonl", "d/e/a.jsonl", "x.md", "a[1].jsonl")
    assert names(find_sources(f"{tmp_path}/*.jsonl"), tmp_path) == [
        "a.jsonl",
        "a[1].jsonl",
        "b.jsonl",
    ]
    assert names(find_sources(f"{tmp_path}/**/[a-c].jsonl"), tmp_path) == [
        "a.jsonl",
        "b.jsonl",
        "d/c.jsonl",
        "d/e/a.jsonl",
    ]
    assert names(find_sources(f"{tmp_path}/a[1].jsonl"), tmp_path) == ["a[1].jsonl"]
    with pytest.raises(InputError, match=r"x\.md"):
        find_sources(f"{tmp_path}/*.*")


@pytest.mark.parametrize("spec", ["missing.jsonl", "*.jsonl", "no/where/*.txt", "missing@train"])
def test_nothing_found_is_an_input_error_that_names_it(tmp_path: Path, spec: str) -> None:
    with pytest.raises(InputError) as error:
        find_sources(f"{tmp_path}/{spec}")
    assert spec in str(error.value)


def test_an_empty_input_is_an_input_error() -> None:
    with pytest.raises(InputError, match="empty"):
        find_sources("")


def test_a_glob_that_matches_folders_only_says_so(tmp_path: Path) -> None:
    fill(tmp_path, "one/a.jsonl", "two/a.jsonl")
    with pytest.raises(InputError, match="only folders"):
        find_sources(f"{tmp_path}/*")


def test_a_folder_gives_all_readable_files_below_it(tmp_path: Path) -> None:
    fill(tmp_path, "z.jsonl", "d/b.txt", "d/e/a.ndjson.gz", "d.jsonl", "README.md", ".hidden.jsonl")
    fill(tmp_path, ".git/a.jsonl", "d/.x/a.jsonl")
    assert names(find_sources(str(tmp_path)), tmp_path) == [
        "d.jsonl",
        "d/b.txt",
        "d/e/a.ndjson.gz",
        "z.jsonl",
    ]


def test_a_folder_with_nothing_readable_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no readable file in {tmp_path}: it is empty"):
        find_sources(str(tmp_path))
    fill(tmp_path, "README.md", ".a.jsonl", "b.docx")
    with pytest.raises(InputError, match=r"no readable file in .*, only README.md and 1 more: "):
        find_sources(str(tmp_path))


def test_linked_folders_are_followed_once(tmp_path: Path) -> None:
    fill(tmp_path, "outside/a.jsonl", "in/b.jsonl")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    assert names(find_sources(str(tmp_path / "in")), tmp_path) == ["in/b.jsonl", "in/link/a.jsonl"]


def test_a_broken_link_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match=r"a\.jsonl is a broken link"):
        find_sources(str(tmp_path))


def test_many_files_are_hashed_in_order(tmp_path: Path) -> None:
    for i in range(30):
        (tmp_path / f"{i:02}.jsonl").write_bytes(LINE * i)
    sources = find_sources(str(tmp_path))
    assert [source.num_bytes for source in sources] == [len(LINE) * i for i in range(30)]
    assert [source.fingerprint for source in sources] == [
        f"xxh3-128:{xxhash.xxh3_128_hexdigest(LINE * i)}" for i in range(30)
    ]


def age(path: Path, seconds: float = 10) -> None:
    then = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(then, then))


def cached(cache: Path) -> list[Path]:
    return list((cache / "hashes").glob("*")) if (cache / "hashes").exists() else []


LARGE = LINE * ((1 << 20) // len(LINE) + 1)  # enough to be remembered


def test_a_fingerprint_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    data, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    data.write_bytes(LARGE)
    age(data)
    (source,) = find_sources(str(data), cache_dir=cache)
    (memory,) = cached(cache)
    assert memory.suffix == ".msgpack"
    # A memory that was tampered with shows that it is used.
    known = msgspec.msgpack.decode(memory.read_bytes())
    memory.write_bytes(msgspec.msgpack.encode({"a.jsonl": (known["a.jsonl"][0], "0")}))
    assert find_sources(str(data), cache_dir=cache)[0].fingerprint == "xxh3-128:0"
    assert find_sources(str(data))[0] == source
    data.write_bytes(LARGE.replace(b"a", b"b"))
    (changed,) = find_sources(str(data), cache_dir=cache)
    assert changed.fingerprint == f"xxh3-128:{xxhash.xxh3_128_hexdigest(data.read_bytes())}"


def test_a_file_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    data, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    data.write_bytes(LARGE)
    age(data, seconds=-100)  # a clock that went back
    find_sources(str(data), cache_dir=cache)
    assert cached(cache) == []


def test_files_that_are_small_together_are_not_remembered(tmp_path: Path) -> None:
    data, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    data.write_bytes(LINE)
    age(data)
    find_sources(str(data), cache_dir=cache)
    assert cached(cache) == []


def test_a_folder_has_one_memory_that_forgets_files_that_are_gone(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "data"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.jsonl").write_bytes(LARGE + name.encode())
        age(folder / f"{name}.jsonl")
    find_sources(str(folder / "a.jsonl"), cache_dir=cache)
    find_sources(str(folder / "b.jsonl"), cache_dir=cache)
    (memory,) = cached(cache)
    assert set(msgspec.msgpack.decode(memory.read_bytes())) == {"a.jsonl", "b.jsonl"}
    (folder / "a.jsonl").unlink()
    find_sources(str(folder), cache_dir=cache)
    assert cached(cache) == [memory]
    assert set(msgspec.msgpack.decode(memory.read_bytes())) == {"b.jsonl", "c.jsonl"}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"identity": 1}', b"\xff"])
def test_a_broken_memory_is_ignored(tmp_path: Path, damage: bytes) -> None:
    data, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    data.write_bytes(LARGE)
    age(data)
    expected = find_sources(str(data), cache_dir=cache)
    (memory,) = cached(cache)
    memory.write_bytes(damage)
    assert find_sources(str(data), cache_dir=cache) == expected
    assert len(cached(cache)) == 1


def test_a_memory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    data, cache = tmp_path / "a.jsonl", tmp_path / "cache"
    data.write_bytes(LARGE)
    age(data)
    cache.write_bytes(b"a file, not a folder")
    assert find_sources(str(data), cache_dir=cache)[0].num_bytes == len(LARGE)


def test_a_file_that_changes_while_it_is_hashed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "a.jsonl"
    data.write_bytes(LINE)
    stat = os.stat

    def stat_before_a_writer(path: str) -> os.stat_result:
        found = stat(path)
        data.write_bytes(LINE * 2)
        return found

    monkeypatch.setattr("dataprep.pipeline.sources.fingerprint.os.stat", stat_before_a_writer)
    with pytest.raises(InputError, match=r"a\.jsonl changed while it was read"):
        fingerprint_file(str(data), None)


@pytest.fixture
def memory_files() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    for path in filesystem.find("/"):
        filesystem.rm(path)


def test_urls_are_read_like_paths(memory_files: Any, tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"text": i}).encode() + b"\n" for i in range(20))
    pq.write_table(pa.table({"text": list(range(40, 60))}), tmp_path / "t.parquet")
    with pa.ipc.new_stream(tmp_path / "t.arrow", pa.schema({"text": pa.int64()})) as writer:
        writer.write_table(pa.table({"text": list(range(20, 40))}), max_chunksize=7)
    memory_files.pipe("/d/a.jsonl", lines)
    memory_files.pipe("/d/b.arrow", (tmp_path / "t.arrow").read_bytes())
    memory_files.pipe("/d/c.parquet", (tmp_path / "t.parquet").read_bytes())
    memory_files.pipe("/d/x.md", b"")
    memory_files.pipe("/d/z.json.gz", gzip.compress(b'[{"text": 60}]'))
    sources = find_sources("memory://d")
    assert [source.kind for source in sources] == ["jsonl", "arrow", "parquet", "json"]
    assert read_texts(sources) == list(range(61))
    assert find_sources("memory://d/*[lw]") == sources[:2]
    (source,) = find_sources("memory://d/a.jsonl")
    assert (source.fingerprint, source.num_bytes) == (sources[0].fingerprint, len(lines))
    assert source.fingerprint.startswith("ukey:")
    memory_files.pipe("/d/a.jsonl", lines * 2)
    assert find_sources("memory://d/a.jsonl")[0].fingerprint != source.fingerprint


@pytest.mark.parametrize("name", ["1", "c", "a.jsonl"])
def test_a_changed_file_has_another_fingerprint_whatever_its_name_is(
    tmp_path: Path, name: str
) -> None:
    when = (2020, 1, 1, 0, 0, 0)
    found = set()
    for number in range(20):  # most checksums have any given digit
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo(name, when), f'{{"text": {number + 10}}}\n')
        found.add(fingerprint_url(f"zip://{name}::{tmp_path}/x.zip"))
    assert len(found) == 20


def test_parameters_that_are_no_credentials_tell_files_apart(memory_files: Any) -> None:
    def fingerprint(query: str) -> str:
        memory_files.pipe_file(f"/get.jsonl?{query}", b"{}")
        memory_files.store[f"/get.jsonl?{query}"].created = 0
        (source,) = find_sources(f"memory://get.jsonl?{query}")
        memory_files.store.clear()  # `rm` takes the name for a pattern
        return source.fingerprint

    marks = ["fileid=1", "fileid=2", "date=2024", "author=a", "keyword=b"]
    assert len(set(map(fingerprint, marks))) == len(marks)
    assert len({fingerprint(f"fileid=1&X-Amz-Signature={i}&se={i}") for i in range(2)}) == 1


def test_files_inside_an_archive_are_read_through_chained_urls(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.jsonl", b'{"text": 1}\n{"text": 2}\n')
        archive.writestr("d/b.jsonl", b'{"text": 3}\n')
    (source,) = find_sources(f"zip://a.jsonl::{tmp_path}/x.zip")
    assert source.num_bytes == 24
    assert read_texts([source], target_bytes=5) == [1, 2]
    sources = find_sources(f"zip://**/*.jsonl::{tmp_path}/x.zip")
    assert [source.path for source in sources] == [
        f"zip://a.jsonl::{tmp_path}/x.zip",
        f"zip://d/b.jsonl::{tmp_path}/x.zip",
    ]
    assert read_texts(sources) == [1, 2, 3]


@pytest.mark.parametrize(
    "spec",
    [
        "memory://nothing/a.jsonl",
        "memory://nothing/*.jsonl",
        "nosuchprotocol://a.jsonl",
        "zip://a.jsonl::/nothing/x.zip",
    ],
)
def test_a_url_that_leads_nowhere_is_an_input_error_that_names_it(spec: str) -> None:
    with pytest.raises(InputError) as error:
        find_sources(spec)
    assert spec in str(error.value)


def test_a_url_that_vanished_is_an_input_error(memory_files: Any) -> None:
    memory_files.pipe("/v/a.jsonl", LINE)
    (source,) = find_sources("memory://v/a.jsonl")
    memory_files.rm("/v/a.jsonl")
    with pytest.raises(InputError, match=r"cannot read memory://v/a\.jsonl"):
        list(read_piece(source, Piece(source=0, start=0, stop=9), TEXT))


def synthetic_rows(spec: str, target_bytes: int, batch_bytes: int = 5000) -> list[Any]:
    (source,) = find_sources(spec)
    rows: list[Any] = []
    for piece, _ in split_source(source, 0, target_bytes, None, True):
        assert piece.first_line == len(rows)
        for batch in read_piece(source, piece, None, batch_bytes=batch_bytes):
            rows += batch.rows or ()
    return rows


@pytest.mark.parametrize("what", ["text", "image", "audio", "paired"])
def test_synthetic_records_depend_on_seed_and_index_alone(what: str) -> None:
    rows = synthetic_rows(f"synthetic:{what}?n=50&seed=3", 10_000)
    assert len(rows) == 50
    assert synthetic_rows(f"synthetic:{what}?seed=3&n=50", 1 << 20, 1) == rows
    assert synthetic_rows(f"synthetic:{what}?n=60&seed=3", 1)[:50] == rows
    assert synthetic_rows(f"synthetic:{what}?n=50&seed=4", 10_000) != rows


def test_synthetic_text_is_pinned() -> None:
    (row,) = synthetic_rows("synthetic:text?n=1&seed=0", 1)
    assert row["text"].startswith(PINNED)
    assert xxhash.xxh3_64_hexdigest(repr(synthetic_rows("synthetic:paired?n=9", 1)).encode()) == (
        PINNED_PAIRED
    )


def test_synthetic_texts_have_many_lengths() -> None:
    texts = [row["text"] for row in synthetic_rows("synthetic:text?n=500", 1 << 20)]
    sizes = sorted(map(len, texts))
    assert sizes[0] < 150
    assert sizes[-1] > 4000
    assert 700 < sum(sizes) / 500 < 1400
    assert all(text[0].isupper() and text.endswith(".") for text in texts)


def test_synthetic_images_are_whole_frames_of_codes() -> None:
    for row in synthetic_rows("synthetic:image?n=50", 1 << 20):
        assert len(row["vision"]) in (256, 512, 768, 1024)
        assert all(type(code) is int and 0 <= code < 8192 for code in row["vision"])
    for row in synthetic_rows("synthetic:paired?n=5", 1 << 20):
        assert list(row) == ["caption", "vision", "fields"]
        assert row["fields"] == "[vision],caption"


def test_synthetic_reading_continues_at_any_record() -> None:
    (source,) = find_sources("synthetic:text?n=20")
    piece = Piece(source=0, start=5, stop=15)
    rows = synthetic_rows("synthetic:text?n=20", 1 << 20)[5:15]
    for from_line in range(12):
        batches = list(read_piece(source, piece, TEXT, from_line=from_line, batch_bytes=2000))
        assert batches[-1].next_line == 10
        texts = [text for b in batches if b.columns is not None for text in b.columns["text"]]
        assert texts == [row["text"] for row in rows[from_line:]]
        assert sum(batch.num_bytes for batch in batches) == 10_000
    assert count_records(source, piece, 99) == 10
    assert [batch.rows is not None for batch in read_piece(source, piece, frozenset({"x"}))]


@pytest.mark.parametrize("spec", ["video", "text?n=x", "text?n=-1", "text?m=1", "text?seed=", ""])
def test_a_wrong_synthetic_name_is_an_input_error(spec: str) -> None:
    with pytest.raises(InputError, match="synthetic:"):
        find_sources(f"synthetic:{spec}")


def test_synthetic_data_of_no_records_gives_one_empty_batch() -> None:
    (source,) = find_sources("synthetic:text?n=0")
    ((piece, _),) = split_source(source, 0, 100, None, True)
    (batch,) = read_piece(source, piece, None)
    assert (batch.next_line, len(batch.lines)) == (0, 0)


def test_sources_do_not_import_what_they_may_not_need(tmp_path: Path) -> None:
    fill(tmp_path, "a.jsonl")
    code = f"""
import sys
from dataprep.pipeline.sources import find_sources, read_piece, split_source
(source,) = find_sources({str(tmp_path / "a.jsonl")!r})
((piece, _),) = split_source(source, 0, 100, None, True)
assert len(list(read_piece(source, piece, None))) == 1
heavy = {{"datasets", "pyarrow", "tokenizers", "fsspec", "jax", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", ["hf:x.jsonl", "synthetic:text.jsonl", "file:x.jsonl"])
def test_a_file_that_exists_is_no_name_of_the_hub_or_of_a_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text('{"text": "a"}\n')
    monkeypatch.chdir(tmp_path)
    (source,) = find_sources(name)
    assert (source.kind, source.path) == ("jsonl", str(tmp_path / name))
    assert path_in("", name) == name
    assert path_in(str(tmp_path), name) == str(tmp_path / name)
    assert path_in(str(tmp_path), f"{name}.absent") != str(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("a.jsonl.lz4", "decompress it, or compress it as .zst"),
        ("a.zip", "unpack it, or name a file in it"),
        ("CC-MAIN.warc", "extract the texts of its pages to JSONL first"),
        ("CC-MAIN.warc.wet.gz", "extract the texts of its pages to JSONL first"),
        ("a.png", "dataprep encode makes codes of it"),
    ],
)
def test_files_that_people_have_and_that_are_not_read_say_what_to_do(
    tmp_path: Path, name: str, cure: str
) -> None:
    fill(tmp_path, name)
    with pytest.raises(InputError, match=re.escape(f"{name} is not read: {cure}")):
        find_sources(str(tmp_path / name))
    with pytest.raises(InputError, match=re.escape(f"only {name}: {name} is not read: {cure}")):
        find_sources(str(tmp_path))


def test_a_folder_of_files_that_cannot_be_read_names_no_pattern_that_matches_nothing(
    tmp_path: Path,
) -> None:
    fill(tmp_path, "a.md")
    with pytest.raises(InputError, match=r"only a\.md: cannot tell what a\.md is") as error:
        find_sources(str(tmp_path))
    assert "*.jsonl" not in str(error.value)
    fill(tmp_path, "b.bin")
    with pytest.raises(InputError, match=r"only a\.md and 1 more; name the files: \S+/\*\.bin "):
        find_sources(str(tmp_path))
