"""URLs and chains of them are held to the rules of local files: regular ones, and bounded."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import find_sources, growth, read_piece, split_source
from dataprep.pipeline.sources.stream import ByteStream
from dataprep.pipeline.types import Source

LINE = b'{"text": "abc"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A FIFO, a link to a device, and references to both."""
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for name in ("fifo", "zero"):
        target = f"file://{tmp_path}/{name}.jsonl"
        (tmp_path / f"{name}.json").write_text(json.dumps({"a.jsonl": [target, 0, 1 << 40]}))
    return tmp_path


@pytest.mark.parametrize("name", ["fifo", "zero"])
@pytest.mark.parametrize(
    "url",
    [
        "zip://a.jsonl::{folder}/{name}.jsonl",
        "tar://a.jsonl::{folder}/{name}.jsonl",
        "zip://a.jsonl::file://{folder}/{name}.jsonl",
        "zip://*.jsonl::local://{folder}/{name}.jsonl",
        "local://{folder}/{name}.jsonl",
        "dir://{name}.jsonl::file://{folder}",
        "blockcache::file://{folder}/{name}.jsonl",
        "filecache::file://{folder}/{name}.jsonl",
        "simplecache::{folder}/{name}.jsonl",
        "simplecache::dir://{name}.jsonl::{folder}",
        "reference://a.jsonl::file://{folder}/{name}.jsonl",
        "reference://a.jsonl::file://{folder}/{name}.json",
    ],
)
def test_no_chain_leads_to_a_device_or_a_fifo(folder: Path, url: str, name: str) -> None:
    spec = url.format(folder=folder, name=name)
    # In planning, and in a worker, which opens what it is told to.
    uses = [lambda: find_sources(spec), lambda: next(iter(ByteStream(spec, "", chunk_bytes=9)))]
    for use in uses[url.endswith(".json") :]:  # a plan does not read what references lead to
        with pytest.raises(InputError, match="not a file on a disk; write what it gives to a file"):
            use()


def archive(path: Path, content: bytes) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("a.jsonl", content)
    else:
        with tarfile.open(path, "w:gz") as file:
            member = tarfile.TarInfo("a.jsonl")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def num_records(source: Source) -> int:
    pieces = split_source(source, 0, 1 << 30, None, False)
    return sum(len(b.lines) for piece, _ in pieces for b in read_piece(source, piece, None))


@pytest.mark.parametrize(("scheme", "name"), [("zip", "a.zip"), ("tar", "a.tar.gz")])
def test_the_ratio_of_a_member_of_an_archive_is_bounded(
    tmp_path: Path, scheme: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "FREE_BYTES", 4 << 20)
    small = archive(tmp_path / f"small-{name}", LINE * 100)
    (source,) = find_sources(f"{scheme}://a.jsonl::{small}")
    assert num_records(source) == 100
    large = archive(tmp_path / name, LINE[:-1] + b" " * (5 << 20) + b"\n")
    for spec in (f"{scheme}://a.jsonl::{large}", f"{scheme}://*.jsonl::file://{large}"):
        with pytest.raises(
            InputError, match=r"grows from .* times; if that is right, raise --max-r"
        ):
            find_sources(spec, max_ratio=200)
        assert len(find_sources(spec, max_ratio=2000)) == 1


def test_an_archive_in_an_archive_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "FREE_BYTES", 4 << 20)
    inner = archive(tmp_path / "inner.zip", LINE)
    with zipfile.ZipFile(tmp_path / "outer.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("inner.zip", bytes(5 << 20) + inner.read_bytes())
    spec = f"zip://a.jsonl::zip://inner.zip::{tmp_path}/outer.zip"
    with pytest.raises(InputError, match="grows from"):
        find_sources(spec)
    assert num_records(find_sources(spec, max_ratio=2000)[0]) == 1


def test_a_file_that_a_store_lacks_is_said_to_be_missing() -> None:
    with pytest.raises(InputError, match=r"cannot read memory://x\.jsonl: there is no such file"):
        find_sources("memory://x.jsonl")


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of fsspec's blockcache
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
def test_a_file_behind_a_cache_is_read(tmp_path: Path, cache: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    (source,) = find_sources(f"{cache}::file://{tmp_path}/a.jsonl")
    assert num_records(source) == 2
