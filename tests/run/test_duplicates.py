"""A content is new where it occurs first, however little memory there is."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.run.duplicates import first_of_each
from dataprep.pipeline.storage.checked import FilesRead
from dataprep.pipeline.storage.keys import DOCUMENT_KEY, map_keys
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from support.inprocess import tokenize_here, write_lines

# Few of them, far from each other and near: halves that are equal and halves that are not.
EDGES = [0, 1, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1]
content = st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES[:3]))
arrays = st.lists(st.lists(content, max_size=12), max_size=6)


def oracle(arrays: list[list[tuple[int, int]]], new_from: int) -> list[list[bool]]:
    seen: dict[tuple[int, int], None] = {}
    found = []
    for array in arrays:
        found.append([])
        for each in array:
            found[-1].append(each not in seen)
            seen[each] = None
    return found[new_from:]


@given(arrays, st.integers(0, 6), st.sampled_from([1, 64, 300, 1000, 5000, 256 << 20]))
def test_it_finds_what_a_dictionary_finds_whatever_the_memory(
    given_arrays: list[list[tuple[int, int]]], new_from: int, memory_bytes: int
) -> None:
    keys = [np.array(array, np.uint64).reshape(-1, 2) for array in given_arrays]
    found = first_of_each(keys, new_from, memory_bytes)
    assert [first.tolist() for first in found] == oracle(given_arrays, new_from)


@given(arrays, st.integers(0, 6), st.data())
def test_contents_that_do_not_count_are_as_if_they_were_not_there(
    arrays: list[list[tuple[int, int]]], new_from: int, data: st.DataObject
) -> None:
    known = arrays[:new_from]
    masks = [data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a))) for a in known]
    kept = [
        [x for x, keep in zip(a, m, strict=True) if keep] for a, m in zip(known, masks, strict=True)
    ]
    counted = {i: np.array(mask, bool) for i, mask in enumerate(masks) if not all(mask)}
    found = first_of_each([np.array(a, np.uint64) for a in arrays], new_from, 300, counted=counted)
    assert [each.tolist() for each in found] == oracle([*kept, *arrays[new_from:]], len(kept))


@pytest.mark.parametrize("distinct", [1, 1000, 300_000])
def test_memory_is_bounded_by_what_is_allowed(tmp_path: Path, distinct: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 64, (distinct, 2), np.uint64)
    keys = np.zeros(300_000, DOCUMENT_KEY)
    keys["content"] = values[rng.integers(0, distinct, len(keys))]
    np.save(tmp_path / "keys.npy", keys)
    mapped = np.load(tmp_path / "keys.npy", mmap_mode="r")["content"]
    allowed = 2 << 20
    tracemalloc.start()
    few = first_of_each([mapped, mapped], 0, allowed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - sum(first.nbytes for first in few) < 1.25 * allowed
    many = first_of_each([mapped, mapped], 0)
    assert all(np.array_equal(a, b) for a, b in zip(few, many, strict=True))
    assert few[0].sum() == len(np.unique(keys["content"], axis=0))
    assert not few[1].any()


def test_of_what_was_there_only_what_is_looked_for_is_kept_and_sorted() -> None:
    """Else each night costs as much as all nights before it."""
    rng = np.random.default_rng(0)
    before = rng.integers(0, 1 << 64, (300_000, 2), np.uint64)
    new = np.concatenate((before[7:9], rng.integers(0, 1 << 64, (2, 2), np.uint64)))
    tracemalloc.start()
    (first,) = first_of_each([before, new], 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first.tolist() == [False, False, True, True]
    assert peak < 3 * before.nbytes


def test_equal_records_are_found_by_the_keys_of_their_datasets(tmp_path: Path) -> None:
    def keys_of(name: str, records: list[Any], **config: Any) -> list[Any]:
        path = write_lines(tmp_path / f"{name}.jsonl", records)
        tokenize_here(tmp_path / name, inputs=[str(path)], keys="content", **config)
        manifest = read_manifest(tmp_path / name)
        assert isinstance(manifest, TokenizedManifest)
        return [
            map_keys(tmp_path / name, shard, FilesRead())["content"] for shard in manifest.shards
        ]

    old = keys_of("old", [{"text": t} for t in ("a", "b", "a")], tokenizer="bytes")
    new = keys_of("new", [{"body": t} for t in ("c", "b", "c")], tokenizer="bytes", fields="body")
    assert [x.tolist() for x in first_of_each([*old, *new], len(old))] == [[True, False, False]]
    assert [x.tolist() for x in first_of_each(old, 0)] == [[True, True, False]]
