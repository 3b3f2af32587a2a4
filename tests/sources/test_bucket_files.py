"""Inputs in buckets give the records of local files, by ranges; contents tell them apart."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import zstandard

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError, InputError, ResourceError
from dataprep.pipeline.sources import find_sources
from dataprep.pipeline.sources.bucket_files import BucketFile
from dataprep.pipeline.sources.stream import open_file
from dataprep.pipeline.storage.objects import ObjectEntry, Objects, open_objects
from dataprep.pipeline.tokenize import tokenize
from support.jobs import write_corpus
from support.killable import without_processes
from support.stores import S3


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One corpus in many forms."""
    home = tmp_path_factory.mktemp("inputs") / "data"
    (path,) = write_corpus(home / "more", files=1, lines=400)
    lines, texts = path.read_bytes(), [f"row {i} " * (i % 9) for i in range(500)]
    (home / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    (home / "b.jsonl.zst").write_bytes(zstandard.compress(lines))
    (home / "c.csv").write_text("text\n" + "".join(f'"{t}"\n' for t in texts))
    table = pa.table({"text": texts})
    pq.write_table(table, home / "d.parquet", row_group_size=100)
    with pa.ipc.new_file(home / "e.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    (home / "f.txt").write_text("\n".join(texts))
    return home


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Objects:
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    s3.make_bucket(name)
    return open_objects(f"s3://{name}")


def put_all(bucket: Objects, home: Path) -> None:
    for path in home.rglob("*"):
        if path.is_file():
            bucket.put(f"data/{path.relative_to(home).as_posix()}", path)


def shards_of(inputs: list[str], out: Path, **more: Any) -> list[bytes]:
    config = TokenizeConfig.model_validate(
        {"inputs": inputs, "tokenizer": "bytes", "out": str(out), **more}
    )
    with without_processes():
        tokenize(config, cache_dir=Path(os.environ["DATAPREP_CACHE"]))
    return [path.read_bytes() for path in sorted((out / "shards").iterdir())]


def test_every_form_gives_the_same_shards_from_a_bucket(
    bucket: Objects, inputs: Path, tmp_path: Path
) -> None:
    put_all(bucket, inputs)
    here = shards_of([str(inputs)], tmp_path / "here", shard_bytes=65536)
    there = shards_of([f"{bucket.url}/data"], tmp_path / "there", shard_bytes=65536)
    assert len(here) > 3
    assert there == here
    by_pattern = [f"{bucket.url}/data/*.jsonl.*", f"s3a://{bucket.url[5:]}/data/**/part-?.jsonl"]
    found = [source.path for spec in by_pattern for source in find_sources(spec)]
    assert [path.rpartition("/")[2] for path in found] == [
        *("a.jsonl.gz", "b.jsonl.zst", "part-0.jsonl"),
    ]


def test_reads_at_random_and_straight_on_give_the_bytes_of_the_file(
    bucket: Objects, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    path.write_bytes(random.Random(0).randbytes(9_500_000))
    bucket.put("data", path)
    rng = random.Random(1)
    with open(path, "rb") as here, open_file(f"{bucket.url}/data") as there:
        for _ in range(60):
            if rng.random() < 0.3:
                place = rng.randrange(9_600_000)
                assert here.seek(place) == there.seek(place)
            size = rng.choice([0, 1, 8, 5000, 70_000, 1_000_000])
            assert there.read(size) == here.read(size)
            assert there.tell() == min(here.tell(), there.tell())


def test_who_goes_straight_on_waits_for_few_requests(
    bucket: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(12 << 20))
    bucket.put("data", path)
    asked: list[tuple[int, int]] = []
    fetch: Callable[..., bytes] = BucketFile._fetch
    monkeypatch.setattr(
        BucketFile, "_fetch", lambda self, *at: asked.append(at) or fetch(self, *at)
    )
    with open_file(f"{bucket.url}/data") as file:
        while file.read(100_000):
            pass
    assert len(asked) <= 6
    asked.clear()
    with open_file(f"{bucket.url}/data") as file:
        file.read(4096)
    assert sum(size for _, size in asked) <= 65536


def test_a_file_that_is_replaced_while_it_is_read_is_an_input_error(bucket: Objects) -> None:
    bucket.put("data", bytes(300_000))
    entry: ObjectEntry = bucket.entry("data")
    with BucketFile(bucket, entry) as file:
        file.read(10)
        bucket.put("data", b"1" * 300_000)
        file.seek(200_000)
        with pytest.raises(InputError, match="was replaced or removed while it was read"):
            file.read(10)


def test_a_fingerprint_tells_contents_apart_and_not_times(bucket: Objects) -> None:
    def fingerprint() -> str:
        (source,) = find_sources(f"{bucket.url}/a.jsonl")
        return source.fingerprint

    bucket.put("a.jsonl", b'{"text": "a"}\n')
    first = fingerprint()
    bucket.put("a.jsonl", b'{"text": "b"}\n')
    assert fingerprint() != first
    bucket.put("a.jsonl", b'{"text": "a"}\n')
    assert fingerprint() == first


def test_errors_of_buckets_name_the_input(
    bucket: Objects, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=rf"{bucket.url}/no.jsonl: there is no such file"):
        find_sources(f"{bucket.url}/no.jsonl")
    with pytest.raises(InputError, match="no file matches"):
        find_sources(f"{bucket.url}/*.jsonl")
    with pytest.raises(ConfigError, match="s3://there-is-no-bucket does not exist"):
        find_sources("s3://there-is-no-bucket/*.jsonl")
    with s3.line() as line:
        for name, value in s3.env(line.port, seconds=0).items():
            monkeypatch.setenv(name, value)
        line.cut()
        with pytest.raises(ResourceError, match=r"no\.jsonl"):
            find_sources(f"{bucket.url}/no.jsonl")
