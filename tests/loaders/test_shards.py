"""Rows straight from mapped files: the official reader's bytes, and no damaged file gets by."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python import array_record_module

from dataprep.loaders import PackedDataset, open_dataset
from dataprep.loaders import expand as with_numpy
from dataprep.loaders import expand_numba as with_numba
from dataprep.loaders.expand import ABSENT, Request
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.packed import Expand, empty_arrays
from dataprep.loaders.shards import open_shards
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.manifest import sealed
from dataprep.pipeline.storage.riegeli import record_starts
from dataprep.pipeline.storage.rows import BITS
from support.packed import Packed, manifest_of, write_packed


def opened(packed: Packed) -> PackedDataset:
    dataset = open_dataset(packed.folder)
    assert isinstance(dataset, PackedDataset)
    return dataset


def check_rows(packed: Packed, rows: list[int]) -> None:
    found = opened(packed)[rows]
    assert found["tokens"].tolist() == packed.tokens[rows].tolist()
    assert found["segment_ids"].tolist() == packed.segment_ids[rows].tolist()
    assert found["positions"].tolist() == packed.positions[rows].tolist()
    for name, mask in packed.masks.items():
        assert found[f"{name}_mask"].tolist() == mask[rows].tolist()


# --- rows ---


@pytest.mark.parametrize("pad_side", ["right", "left"])
@pytest.mark.parametrize("token_dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("seq_len", [1, 15, 700, 40_000])
def test_every_row_is_what_was_written(
    tmp_path: Path, seq_len: int, token_dtype: str, pad_side: str
) -> None:
    packed = write_packed(
        tmp_path / "d",
        num_rows=150 if seq_len < 1000 else 9,
        seq_len=seq_len,
        masks=("loss", "vision"),
        token_dtype=token_dtype,
        pad_side=pad_side,
        max_documents=1 if seq_len == 1 else 40,
    )
    check_rows(packed, list(range(len(packed.tokens)))[::-1])


def test_a_row_longer_than_several_blocks_is_whole(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=5, seq_len=100_000, token_dtype="uint32")
    check_rows(packed, [4, 0, 2])


def test_compressed_shards_give_the_same_rows(tmp_path: Path) -> None:
    plain = write_packed(tmp_path / "a", num_rows=150, masks=("loss", "vision"))
    compressed = write_packed(
        tmp_path / "b", num_rows=150, masks=("loss", "vision"), compression="zstd"
    )
    rows = [149, 3, 64, 63, 3]
    a, b = opened(plain)[rows], opened(compressed)[rows]
    assert {name: array.tolist() for name, array in a.items()} == {
        name: array.tolist() for name, array in b.items()
    }
    check_rows(compressed, rows)


def test_where_files_cannot_be_mapped_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = write_packed(tmp_path / "d", num_rows=100)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENODEV, "no such device")

    monkeypatch.setattr("mmap.mmap", refuse)
    with pytest.warns(UserWarning, match="cannot map .*no such device"):
        check_rows(packed, [99, 0, 70])


def test_rows_are_numbered_as_python_numbers_them(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=70)
    dataset = opened(packed)
    assert len(dataset) == 70
    assert dataset[-1]["tokens"].tolist() == packed.tokens[69].tolist()
    assert dataset[np.int64(5)]["tokens"].shape == (17,)
    assert dataset[np.array([5, -70])]["tokens"].tolist() == packed.tokens[[5, 0]].tolist()
    assert dataset[[]]["tokens"].shape == (0, 17)
    for wrong in (70, -71, [0, 70]):
        with pytest.raises(IndexError, match="of a dataset of 70"):
            dataset[wrong]
    with pytest.raises(TypeError):
        dataset[1.5]  # type: ignore[index]


def test_a_dataset_survives_pickling(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=5)
    again = pickle.loads(pickle.dumps(opened(packed)))
    assert again[3]["tokens"].tolist() == packed.tokens[3].tolist()
    assert repr(again) == repr(opened(packed))


def test_a_mapping_outlives_its_dataset_as_long_as_it_is_used(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=5)
    manifest = manifest_of(packed)
    found = open_shards(packed.folder, manifest, 1).fetch(np.array([0]))
    assert int(found.memory[found.first[0] : found.first[0] + 4].view("<u4")[0]) == int(
        packed.segment_ids[0].max()
    )


def test_no_file_stays_open(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=300, rows_per_shard=5)
    before = len(os.listdir("/proc/self/fd"))
    dataset = opened(packed)
    dataset[list(range(300))]
    assert len(os.listdir("/proc/self/fd")) <= before + 1


# --- both ways to expand ---


def expansions() -> list[Any]:
    compiled = pytest.param(with_numba.expand, id="numba")
    return [pytest.param(with_numpy.expand, id="numpy"), compiled]


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("varied") / "d"
    return write_packed(
        folder,
        num_rows=90,
        seq_len=2000,
        masks=("loss", "vision"),
        max_documents=300,
        pad_side="left",
        seed=5,
    )


@pytest.mark.parametrize("expand", expansions())
@pytest.mark.parametrize(("start", "width"), [(0, 2001), (0, 2000), (500, 250), (1999, 1)])
def test_any_columns_and_shifts_of_scattered_rows_are_right(
    varied: Packed, expand: Expand, start: int, width: int
) -> None:
    shifts = (0,) if start + width > 2000 else (1, 0)
    request = Request(
        start=start,
        width=width,
        tokens=shifts,
        segments=shifts,
        positions=shifts,
        masks=((1, shifts[0]), (ABSENT, 0), (0, 0)),
    )
    rows = np.random.default_rng(0).permutation(90)[:67]
    manifest = manifest_of(varied)
    found = open_shards(varied.folder, manifest, 1).fetch(rows)
    places = np.sort(np.random.default_rng(1).permutation(80)[:67])
    out = empty_arrays(request, 80)
    expand(found, opened(varied).layout, request, out, places)
    for i, shift in enumerate(shifts):
        columns = slice(start + shift, start + shift + width)
        assert np.array_equal(out.tokens[i, places], varied.tokens[rows, columns])
        assert np.array_equal(out.segments[i, places], varied.segment_ids[rows, columns])
        assert np.array_equal(out.positions[i, places], varied.positions[rows, columns])
    columns = slice(start + shifts[0], start + shifts[0] + width)
    assert np.array_equal(out.masks[0, places], varied.masks["vision"][rows, columns])
    assert not out.masks[1, places].any()
    assert np.array_equal(out.masks[2, places], varied.masks["loss"][rows, start : start + width])
    request = replace(request, first_loss=True)
    expand(found, opened(varied).layout, request, out, places)
    assert np.array_equal(out.masks[0, places], varied.masks["vision"][rows, columns])
    assert not out.masks[1, places].any()
    assert np.array_equal(out.masks[2, places], varied.own_loss[rows, start : start + width])


@pytest.mark.parametrize("expand", expansions())
@pytest.mark.parametrize("damage", ["head", "left", "ends", "runs"])
def test_a_row_that_does_not_fit_together_is_an_error(
    varied: Packed, expand: Expand, damage: str
) -> None:
    dataset = opened(varied)
    manifest = manifest_of(varied)
    reader = array_record_module.ArrayRecordReader(str(varied.folder / manifest.shards[0].path))
    payload = np.frombuffer(reader.read([4])[0], np.uint8).copy()
    ends = payload[dataset.layout.tail_start :].view("<u2")
    if damage == "head":
        payload[0] ^= 1
    elif damage == "left":  # more padding than the row is wide, and no document
        head = payload[:8].view(np.uint32)
        num_ends = int(head[0])
        gone = 2 * (num_ends + -(-num_ends // BITS))
        start = dataset.layout.tail_start
        head[:] = 0, 65535
        payload = np.delete(payload, np.s_[start : start + gone])
    elif damage == "ends":
        ends[0] = 65535
    else:
        ends[-1] = 7
    size = np.array([len(payload)])
    rows = RowBytes(memory=payload, first=np.zeros(1, np.int64), size=size, in_blocks=False)
    request = Request(start=0, width=5, segments=(0,), masks=((0, 0), (1, 0)))
    with pytest.raises(CorruptError, match="of a row do"):
        expand(rows, dataset.layout, request, empty_arrays(request, 1), np.zeros(1, np.int64))


# --- damage ---


@pytest.fixture
def whole(tmp_path: Path) -> Packed:
    return write_packed(tmp_path / "d", num_rows=200, seq_len=100)


def shard_paths(packed: Packed) -> list[Path]:
    return sorted((packed.folder / "shards").glob("*.arrayrecord"))


def check_refused(packed: Packed, *, naming: Path | str) -> None:
    with pytest.raises(CorruptError) as error:
        open_dataset(packed.folder)
    assert str(naming) in str(error.value)


def test_a_missing_shard_is_named(whole: Packed) -> None:
    path = shard_paths(whole)[1]
    path.unlink()
    check_refused(whole, naming=path)


def test_a_truncated_shard_is_named(whole: Packed) -> None:
    path = shard_paths(whole)[1]
    os.truncate(path, path.stat().st_size - 1)
    check_refused(whole, naming=path)


def test_a_shard_of_the_right_size_without_its_end_is_named(whole: Packed) -> None:
    path = shard_paths(whole)[2]
    size = path.stat().st_size
    os.truncate(path, size // 2)
    os.truncate(path, size)
    check_refused(whole, naming=path)


def test_a_shard_of_another_dataset_is_named(whole: Packed, tmp_path: Path) -> None:
    other = write_packed(tmp_path / "other", num_rows=200, seq_len=100, seed=1)
    path = shard_paths(whole)[0]
    foreign = shard_paths(other)[0]
    assert foreign.stat().st_size == path.stat().st_size
    shutil.copy(foreign, path)
    check_refused(whole, naming=path)


def test_a_missing_or_foreign_index_is_named(whole: Packed) -> None:
    path = shard_paths(whole)[1].with_suffix(".npy")
    sizes = np.load(path)
    data = path.read_bytes()
    np.save(path, sizes.astype("<i4"))
    check_refused(whole, naming=path)
    sizes[3] = 1
    np.save(path, sizes)
    check_refused(whole, naming=path)
    path.write_bytes(b"x" * len(data))
    check_refused(whole, naming=path)
    path.unlink()
    check_refused(whole, naming=path)


def test_a_damaged_row_is_named_when_it_is_read(whole: Packed) -> None:
    path = shard_paths(whole)[1]
    manifest = manifest_of(whole)
    sizes = np.load(whole.folder / manifest.shards[1].index.path)
    starts, _ = record_starts(sizes)
    data = bytearray(path.read_bytes())
    data[int(starts[9])] ^= 0x40  # of the number of its documents
    path.write_bytes(data)
    with pytest.raises(CorruptError, match=r"rows-00001.* is damaged: its xxh3-128 is"):
        opened(whole)[64 + 8]
    dataset = open_dataset(whole.folder, verify="off")
    dataset[[64 + 8, 64 + 10]]
    with pytest.raises(CorruptError, match=r"record 9 of .*rows-00001"):
        dataset[[64 + 8, 64 + 9]]


def test_a_truncated_compressed_shard_is_named(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=100, compression="zstd")
    path = shard_paths(packed)[0]
    size = path.stat().st_size
    os.truncate(path, 100)
    os.truncate(path, size)
    with pytest.raises(CorruptError, match="rows-00000"):
        opened(packed)[0]


def test_an_unfinished_dataset_cannot_be_opened(whole: Packed) -> None:
    (whole.folder / "manifest.json").unlink()
    check_refused(whole, naming="manifest.json")


@pytest.mark.parametrize("key", ["seq_len", "pad", "ends_dtype", "compression"])
def test_a_manifest_that_lacks_something_is_named(whole: Packed, key: str) -> None:
    path = whole.folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    del manifest[key]
    path.write_text(json.dumps(manifest))
    check_refused(whole, naming=key)


# --- cost of opening ---


def test_a_thousand_shards_cost_twelve_bytes_a_row(tmp_path: Path) -> None:
    """Counted where nothing else allocates; the files are links to one shard."""
    packed = write_packed(tmp_path / "d", num_rows=400, seq_len=4, rows_per_shard=400)
    manifest = json.loads((packed.folder / "manifest.json").read_bytes())
    (entry,) = manifest["shards"]
    names = [f"copy-{i:05d}-of-01000" for i in range(1000)]
    for name in names:
        for key in ("arrayrecord", "npy"):
            source = (packed.folder / entry["path"]).with_suffix(f".{key}")
            os.link(source, packed.folder / f"shards/{name}.{key}")
    manifest["shards"] = [
        {
            **entry,
            "path": f"shards/{name}.arrayrecord",
            "index": {**entry["index"], "path": f"shards/{name}.npy"},
            "provenance": {**entry["provenance"], "path": f"provenance/{name}.npy"},
        }
        for name in names
    ]
    for count in ("rows", "tokens"):
        manifest["counts"][count] *= 1000
    del manifest["checksum"]
    (packed.folder / "manifest.json").write_bytes(sealed(manifest))
    code = """
import sys, tracemalloc
import numpy as np
from dataprep.loaders.shards import open_shards
from dataprep.pipeline.storage.manifest import read_manifest
from pathlib import Path
folder = Path(sys.argv[1])
manifest = read_manifest(folder)
tracemalloc.start()
shards = open_shards(folder, manifest, 1, "lazy")
used, _ = tracemalloc.get_traced_memory()
assert shards.fetch(np.array([399_999])).size[0] > 0
print(used)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, packed.folder], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 * 400_000
