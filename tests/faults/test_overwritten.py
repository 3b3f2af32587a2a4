"""What a run wrote is what it hashes: bytes that change before that, under a temporary name, are
found, whether another process wrote to the file or a page of it went bad."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dataprep
from dataprep.pipeline import files
from dataprep.pipeline.errors import CorruptError, ResourceError
from dataprep.pipeline.export.formats import EXPORTS
from dataprep.pipeline.files import NewFile, temporary
from dataprep.pipeline.storage.arrayrecord import MAPPABLE, RecordWriter, open_records, save_array
from support.encoding import png
from support.inprocess import write_lines
from support.killable import without_processes
from support.trees import tree

Make = Callable[[Path, Path], None]  # given where the inputs are, and the out

RECORDS = [random.Random(i).randbytes(900 + i) for i in range(90)]


def overwrite(path: Path) -> None:
    """Change a byte as another process would; of a shard, one of its first record."""
    with open(path, "r+b", buffering=0) as file:
        data = file.read()
        place = min(150, max(0, len(data) - 1))
        os.pwrite(file.fileno(), bytes([data[place] ^ 4]) if data else b"{}", place)


@contextmanager
def overwriting(name: str) -> Iterator[list[Path]]:
    """Overwrite the first temporary file of this name right before it is hashed, and note it."""
    fired: list[Path] = []
    state_of = files._state_of

    def overwrite_first(path: Path) -> tuple[int, int]:
        if not fired and re.search(rf"{name}\.tmp$", str(path)):
            overwrite(path)
            fired.append(path)
        return state_of(path)

    with mock.patch.object(files, "_state_of", overwrite_first):
        yield fired


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_lines(folder / "in.jsonl", [*({"text": f"{i} " * 9} for i in range(60)), "{bad", "7"])
    (folder / "pictures").mkdir()
    for i in range(3):
        (folder / "pictures" / f"{i}.png").write_bytes(png(i))
    with without_processes():
        make_tokenized(folder, folder / "tokenized")
        make_masked(folder, folder / "masked")
        make_packed(folder, folder / "packed")
        make_codes(folder, folder / "codes")
        make_seen(folder, folder / "seen")
    return folder


def make_tokenized(home: Path, out: Path) -> None:
    settings = {"tokenizer": "bytes", "on_error": "quarantine", "keys": "content"}
    dataprep.tokenize(inputs=str(home / "in.jsonl"), out=str(out), **settings)


def make_masked(home: Path, out: Path) -> None:
    settings = {"tokenizer": "bytes", "on_error": "skip", "fields": "[text],text"}
    dataprep.tokenize(inputs=str(home / "in.jsonl"), out=str(out), **settings)


def make_codes(home: Path, out: Path) -> None:
    dataprep.encode(inputs=str(home / "pictures"), encoder="patches", out=str(out))


def make_seen(home: Path, out: Path) -> None:
    dataprep.tokenize(inputs=str(home / "codes"), tokenizer="bytes", fields="vision", out=str(out))


def make_packed(home: Path, out: Path) -> None:
    inputs = [str(home / "tokenized")]
    dataprep.pack(inputs=inputs, seq_len=64, out=str(out))


def make_rows_of_codes(home: Path, out: Path) -> None:
    dataprep.pack(inputs=[str(home / "seen")], seq_len=4096, out=str(out))


def exported(to: str, *, dataset: str = "masked", **config: Any) -> Make:
    def make(home: Path, out: Path) -> None:
        settings = config if to in WITH_LOSS else {**config, "drop_masks": True}
        dataprep.export(dataset=str(home / dataset), to=to, out=str(out), **settings)

    make.__name__ = to
    return make


WITH_LOSS = ("olmo", "datatrove", "mds", "hf")
SETTINGS: dict[str, dict[str, Any]] = {
    "maxtext": {"max_length": 64},
    "xlstm": {"max_length": 64},
    "nanogpt": {"header": "llm.c"},
    "megatron-bridge": {"dataset": "packed"},
}
WRITTEN = {
    make_tokenized: (
        *(r"\.arrayrecord", r"\.index\.npy", r"\.provenance\.npy", r"\.keys\.npy"),
        *(r"tasks/.*\.errors\.jsonl", r"texts/errors\.jsonl"),
    ),
    make_codes: (r"\.parquet", r"\.errors\.jsonl"),
    make_seen: (r"provenance/media\.parquet",),
    make_packed: (
        *(r"\.arrayrecord", r"\.index\.npy", r"tasks/.*\.provenance\.npy", r"rows/.*start\.npy"),
        *(r"rows/.*row_offsets\.npy", r"origins\.npy", r"provenance/files-00000\.json"),
    ),
    make_rows_of_codes: (r"provenance/media\.parquet",),
    **{
        exported(name, **SETTINGS.get(name, {})): tuple(map(re.escape, format.endings.values()))
        for name, format in EXPORTS.items()
    },
}


@pytest.mark.parametrize(
    ("make", "name"), [(make, name) for make, names in WRITTEN.items() for name in names]
)
def test_a_file_that_changes_before_it_is_hashed_is_not_published(
    home: Path, tmp_path: Path, make: Make, name: str
) -> None:
    out, clean = tmp_path / "out", tmp_path / "clean"
    with without_processes():
        with overwriting(name) as fired, pytest.raises(CorruptError, match="was lost or changed"):
            make(home, out)
        assert len(fired) == 1
        assert not (out / "manifest.json").exists()
        make(home, out)
        make(home, clean)
    assert tree(out) == tree(clean)


def test_a_head_that_is_written_last_does_not_hide_a_change(tmp_path: Path) -> None:
    file = NewFile(tmp_path / "a", head_bytes=4)
    file.write(b"some bytes")
    file.write_head(b"head")
    file.commit()
    assert (tmp_path / "a").read_bytes() == b"headsome bytes"
    for place in range(15):  # the last is a byte more
        for is_head_there in (False, True):
            file = NewFile(tmp_path / "b", head_bytes=4)
            file.write(b"some bytes")
            if is_head_there:
                file.write_head(b"head")
            with open(temporary(tmp_path / "b"), "r+b", buffering=0) as other:
                os.pwrite(other.fileno(), b"#", place)
            if not is_head_there:
                file.write_head(b"head")  # over what was changed of it
            if is_head_there or place >= 4:
                with pytest.raises(CorruptError):
                    file.commit()
                assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("options", [MAPPABLE, "group_size:1,zstd:3"])
def test_whatever_byte_of_a_shard_changes_its_records_are_those_that_were_written(
    tmp_path: Path, options: str
) -> None:
    """ArrayRecord writes it, so its records are read back. Padding, which small shards are full of,
    may be anything, and its reader finds what happened to the checksums between records."""
    rng, found, unread = random.Random(0), 0, 0
    for _ in range(200):
        path = tmp_path / "a"
        writer = RecordWriter(path, options)
        for record in RECORDS:
            writer.write(record)
        writer.close()
        with open(temporary(path), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            place = rng.randrange(size - (64 << 10)) if rng.random() < 0.8 else rng.randrange(size)
            file.seek(place)
            was = file.read(1)[0]
            file.seek(place)
            file.write(bytes([was ^ 1 << rng.randrange(8)]))
        try:
            writer.commit()
        except (CorruptError, ResourceError):
            found += 1
            assert not path.exists()
        else:
            reader = open_records(path, len(RECORDS))
            try:
                assert reader.read_all() == RECORDS
            except RuntimeError:
                unread += 1
            reader.close()
            path.unlink()
    assert found > 100
    assert unread < 10


def test_an_array_that_changes_is_found_at_every_byte(tmp_path: Path) -> None:
    for place in range(128 + 24):
        file = save_array(tmp_path / "a.npy", np.arange(3))
        with open(temporary(tmp_path / "a.npy"), "r+b") as other:
            data = bytearray(other.read())
            data[place] ^= 1
            other.seek(0)
            other.write(data)
        with pytest.raises(CorruptError, match="was lost or changed"):
            file.commit()
