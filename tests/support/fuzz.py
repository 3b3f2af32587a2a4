"""Bytes that somebody else wrote, given to whatever reads them: only declared errors may come.

    TARGETS     jsonl, arrow, zst, manifest, state …: bytes -> nothing, or a DataprepError
    mutants     a valid example ─► flipped, cut, doubled, spliced with words that formats know

`coverage` gives the same targets to atheris, for as long as it is told. Parquet is none of them:
pyarrow itself ends the process (abort) at some footers, about one of 5,000 that are damaged.
"""

from __future__ import annotations

import io
import json
import random
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from dataprep.configs.load import load_config
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.sources import find_sources, read_piece, split_source
from support.inprocess import tokenize_here, write_lines
from support.packed import write_packed

Target = Callable[[bytes], None]


@lru_cache(maxsize=1)
def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def _read_all(name: str, data: bytes, keys: frozenset[str] | None) -> None:
    path = scratch() / name
    path.write_bytes(data)
    for source in find_sources(str(path)):
        for piece, _ in split_source(source, 0, 1 << 16, keys, False):
            for batch in read_piece(source, piece, keys, max_record_bytes=1 << 20):
                assert len(batch.lines) == len(batch.offsets)


def read_jsonl(data: bytes) -> None:
    _read_all("a.jsonl", data, frozenset({"text"}))
    _read_all("a.jsonl", data, None)


def read_npy(data: bytes) -> None:
    _read_all("a.npy", data, frozenset({"codes"}))


def read_texts(ending: str) -> Target:
    """Return the target that reads the key `text` of files with this ending."""
    return lambda data: _read_all(f"a.{ending}", data, frozenset({"text"}))


def read_config(data: bytes) -> None:
    path = scratch() / "config.yaml"
    path.write_bytes(data)
    load_config(TokenizeConfig, files=[str(path)])


@lru_cache(maxsize=1)
def _dataset() -> Path:
    path = write_lines(scratch() / "in.jsonl", [{"text": f"document {i}"} for i in range(20)])
    tokenize_here(scratch() / "dataset", inputs=[str(path)], tokenizer="bytes")
    return scratch() / "dataset"


def read_manifest(data: bytes) -> None:
    (_dataset() / "manifest.json").write_bytes(data)
    verify(_dataset())


def read_changed_manifest(data: bytes) -> None:
    """The same with a checksum that fits, so that all that comes after it is reached."""
    try:
        values = json.loads(data)
        values.pop("checksum", None)
        data = json.dumps({**values, "checksum": fingerprint(values)}).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        return  # not a manifest by any name: `read_manifest` has those
    read_manifest(data)


@lru_cache(maxsize=1)
def _loader() -> DataLoader:
    write_packed(scratch() / "packed", num_rows=40)
    return DataLoader(scratch() / "packed", batch_size=4, epochs=3, prefetch=0)


def read_state(data: bytes) -> None:
    _loader().set_state(data)
    next(iter(_loader()), None)


TARGETS: dict[str, Target] = {
    "jsonl": read_jsonl,
    "npy": read_npy,
    "zst": read_texts("jsonl.zst"),
    **{ending: read_texts(ending) for ending in ("arrow", "csv", "tar")},
    "config": read_config,
    "manifest": read_manifest,
    "changed manifest": read_changed_manifest,
    "state": read_state,
}


def examples(target: str) -> list[bytes]:
    """Valid inputs to start from."""
    lines = (
        b'{"text": "a \\u00e9 b", "n": [1, 2.5, null]}\n{"text": ""}\n\n{"id": 7, "text": "x"}\n'
    )
    if target == "jsonl":
        return [lines, b"\xef\xbb\xbf" + lines.replace(b"\n", b"\r\n"), b"[" * 40]
    if target == "zst":
        frame = zstandard.ZstdCompressor(write_checksum=True).compress(lines)
        return [frame, frame * 2, zstandard.ZstdCompressor().compress(lines * 100)]
    if target == "arrow":
        return [_arrow(pa.ipc.new_stream), _arrow(pa.ipc.new_file)]
    if target == "csv":
        return [b'text,n\n"a ""q""\n x",2\nb,3\n', b"\xef\xbb\xbfn,text\r\n1,a\r\n"]
    if target == "tar":
        return [_tar({f"{i}.{end}": b'{"text": "a"}' for i in range(3) for end in ("json", "txt")})]
    if target == "npy":
        arrays = np.arange(24).reshape(4, 6), np.zeros((0, 3), np.int32), np.array([[1.5]])
        return [_npy(array) for array in arrays]
    if target == "config":
        return [
            b"inputs: [a.jsonl]\ntokenizer: bytes\nfields: '[p],a'\npack: {seq_len: 8}\n",
            b"modalities:\n  vision: {start: <v>, max_frames: null}\nmax_errors: 1%\nx: &a [*a]\n",
        ]
    if target == "state":
        return [_loader().state_at(step).decode().encode() for step in (0, 7)]
    return [_whole_manifest()]


@lru_cache(maxsize=1)
def _whole_manifest() -> bytes:
    return (_dataset() / "manifest.json").read_bytes()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _arrow(new: Callable[..., Any]) -> bytes:
    table, file = pa.table({"text": ["a", "é"] * 20, "l": [[1, 2]] * 40}), io.BytesIO()
    with new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=15)
    return file.getvalue()


def _tar(members: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return file.getvalue()


SPLICES = (
    *(
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b'"',
        b"\\",
        b"{",
        b"[" * 2000,
        b"\n",
        b"null",
        b"true",
        b"-1",
    ),
    *(b"1e999", b"NaN", b"9" * 5000, b"18446744073709551616", b'"\\ud800"', b"../../x", b"[[]]"),
    *(b"{}", b"*a", b"&a", b"!!python/object:os.system", b"? [1]\n: 2\n", b"'", b"(1" * 300, b"|O"),
)


def mutants(example: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """Yield damaged forms of an example, one to four changes each."""
    for _ in range(count):
        data = bytearray(example)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(data) + 1)
            stop = min(len(data), start + rng.choice((0, 1, 2, 8, 64)))
            change = rng.randrange(5)
            if change == 0 and data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            elif change == 1:
                del data[start:stop]
            elif change == 2:
                data[start:start] = data[start:stop] * rng.randint(1, 3)
            elif change == 3:
                data[start:stop] = rng.choice(SPLICES)
            else:
                del data[start:]
        yield bytes(data)


def values_changed(example: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """Yield a JSON object with one value replaced or left out, anywhere in it."""
    others = (
        None,
        True,
        -1,
        1 << 62,
        1 << 70,
        1.5,
        "",
        "../x",
        "a\0b",
        [],
        [1],
        {},
        {"a": 1},
        [[]],
    )
    for _ in range(count):
        values = json.loads(example)
        node: Any = values
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = rng.choice(keys)
            inner = node[key]
            if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
                break
            node = inner
        if rng.random() < 0.2:
            del node[key]
        else:
            node[key] = rng.choice(others)
        yield json.dumps(values).encode()


def inputs_of(target: str, count: int, rng: random.Random) -> Iterator[bytes]:
    whole = examples(target)
    yield from whole
    by_value = target in ("changed manifest", "state", "manifest")
    for example in whole:
        share = count // len(whole)
        yield from mutants(example, share // 2 if by_value else share, rng)
        if by_value:
            yield from values_changed(example, share // 2, rng)


def fuzz(target: str, count: int, *, seed: int = 0) -> tuple[int, list[str]]:
    """Return how many inputs were tried, and what raised anything that is not declared."""
    rng = random.Random(f"{seed} {target}")
    tried, undeclared = 0, []
    for data in inputs_of(target, count, rng):
        tried += 1
        try:
            TARGETS[target](data)
        except DataprepError:
            pass
        except Exception as error:
            undeclared.append(f"{type(error).__name__}: {str(error)[:120]} for {data[:80]!r}")
    return tried, undeclared
