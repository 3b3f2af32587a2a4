"""Documents as rows: NumPy and numba agree to the bit, also on what is damaged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataprep.loaders import DataLoader, Longest, expand_documents, expand_numba, open_dataset
from dataprep.loaders.document_kernels import expand_documents as kernel
from dataprep.loaders.document_rows import fastest_expand_documents
from dataprep.loaders.expand import ABSENT, Arrays, Request
from dataprep.loaders.expand_documents import DocumentLayout, MisfitError
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.packed import empty_arrays, fastest_expand
from dataprep.loaders.pieces import Pieces, Places
from dataprep.loaders.shards import open_document_shards
from dataprep.pipeline.errors import CorruptError
from support.datasets import make_all
from support.lengths import write_documents
from support.packed import write_packed

LENGTHS = [*range(1, 70), 70_001, 3, 200, 1, 64, *range(1, 40, 3)]
few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Stored:
    """The documents of a dataset, as they lie in its mapped files."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.dataset: Any = open_dataset(folder)
        self.layout = DocumentLayout.of_manifest(self.dataset.about)
        self.pieces = Pieces(self.dataset, Longest(1, **options), 0)
        shards = open_document_shards(folder, self.dataset.about, "off")
        self.places = self.pieces.locate(np.arange(len(self.pieces)))
        starts = np.cumsum([0, *(shard.num_records for shard in self.dataset.about.shards)])
        self.bytes = shards.fetch(starts[self.places.shard] + self.places.entry["record"])

    def part(self, which: list[int]) -> tuple[RowBytes, Places]:
        numbers = np.array(which, np.int64)
        return self.bytes.part(numbers), Places(*(array[numbers] for array in self.places))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Stored]:
    folder = tmp_path_factory.mktemp("documents")
    cut: dict[str, Any] = {"max_length": 60, "overflow": "split"}
    return [
        Stored(write_documents(folder, LENGTHS)),
        Stored(folder / "tokenized", **cut),
        Stored(make_all(folder / "all")["tokenized"]),
    ]


def outs_of(
    bytes_: RowBytes, places: Places, layout: DocumentLayout, request: Request
) -> list[Arrays | None]:
    """What NumPy and numba write; None where the index does not fit."""
    found: list[Arrays | None] = []
    rows = np.arange(len(places.start))[::-1] * 2  # not all rows, and in another order
    for module in (expand_documents, expand_numba):
        out = empty_arrays(request, 2 * len(rows))
        for array in (out.tokens, out.segments, out.positions, out.masks, out.weights):
            array[...] = 1
        try:
            module.expand_documents(bytes_, places, layout, request, out, rows)
        except MisfitError:
            found.append(None)
        else:
            found.append(out)
    return found


def assert_same(outs: list[Arrays | None]) -> None:
    one, other = outs
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        for name in ("tokens", "segments", "positions", "masks", "weights"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


shifts = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@few
@given(st.data())
def test_numpy_and_numba_give_the_same(stored: list[Stored], data: Any) -> None:
    one = data.draw(st.sampled_from(stored))
    masks = one.layout.masks
    marks = st.sampled_from([ABSENT, *(i for i, name in enumerate(masks) if name != "weight")])
    weights = st.sampled_from([ABSENT, *(i for i, name in enumerate(masks) if name == "weight")])
    request = Request(
        start=data.draw(st.sampled_from([0, 1, 17, 59, 65_530])),
        width=data.draw(st.sampled_from([1, 2, 33, 100, 300])),
        tokens=data.draw(shifts),
        segments=data.draw(shifts),
        positions=data.draw(shifts),
        masks=tuple(data.draw(st.lists(st.tuples(marks, st.integers(0, 3)), max_size=4))),
        weights=tuple(data.draw(st.lists(st.tuples(weights, st.integers(0, 3)), max_size=2))),
        first_loss=data.draw(st.booleans()),
    )
    which = data.draw(st.lists(st.integers(0, len(one.pieces) - 1), min_size=1, max_size=12))
    assert_same(outs_of(*one.part(which), one.layout, request))


@few
@given(st.data())
def test_an_index_or_a_record_that_lies_is_found_by_both_and_never_read_beyond(
    stored: list[Stored], data: Any
) -> None:
    one = stored[0]
    bytes_, places = one.part([5, 40, 12])
    entry = places.entry.copy()
    fields = st.sampled_from([n for n in entry.dtype.names or () if n != "record"])
    values = st.sampled_from([0, 1, 3, 1000, (1 << 31) - 1, (1 << 32) - 1])
    lies = st.lists(st.tuples(fields, values), min_size=1, max_size=3)
    row = data.draw(st.integers(0, 2))
    for field, value in data.draw(lies):
        entry[field][row] = value
    memory = bytes_.memory.copy()
    if data.draw(st.booleans()):
        at = int(bytes_.first[0]) + data.draw(st.integers(0, 40))
        memory[at] ^= data.draw(st.integers(1, 255))
    memory.flags.writeable = bytes_.memory.flags.writeable  # else numba compiles anew
    damaged = RowBytes(memory=memory, first=bytes_.first, size=bytes_.size, in_blocks=True)
    length = np.where(entry["length"] != places.entry["length"], entry["length"], places.length)
    lying = Places(places.document, places.start, length.astype(np.int64), places.shard, entry)
    request = Request(start=0, width=64, tokens=(0, 1), masks=((0, 1),), weights=((1, 1),))
    assert_same(outs_of(damaged, lying, one.layout, request))


def test_a_document_without_tokens_has_no_runs_and_is_refused_by_both(stored: list[Stored]) -> None:
    bytes_, places = stored[0].part([5, 40, 12])
    entry = places.entry.copy()
    entry["loss_runs"][1] = 0
    lengths = places.length * [1, 0, 1]
    lying = Places(places.document, places.start, lengths, places.shard, entry)
    request = Request(start=0, width=64, masks=((0, 1),))
    assert outs_of(bytes_, lying, stored[0].layout, request) == [None, None]


def test_an_index_that_lies_is_told_before_the_system_reads_ahead_by_it(tmp_path: Path) -> None:
    folder = write_documents(tmp_path, [5, 40, 12])
    (path,) = (folder / "index").iterdir()
    index = np.load(path)
    index["start"] = (1 << 32) - 1
    np.save(path, index)
    loader = DataLoader(folder, batch_size=Longest(3), verify="off", prefetch=0)
    with loader, pytest.raises(CorruptError, match="does not fit its shards"):
        next(loader)


def test_a_record_without_a_head_is_refused_before_it_is_read(stored: list[Stored]) -> None:
    _, places = stored[0].part([5])
    last = RowBytes(
        memory=np.zeros(20, np.uint8),
        first=np.array([18]),
        size=np.array([2]),
        in_blocks=False,
    )
    request = Request(start=0, width=64, masks=((0, 1),))
    assert outs_of(last, places, stored[0].layout, request) == [None, None]


def test_the_thread_compiles_nothing_for_documents_either(tmp_path: Path) -> None:
    with DataLoader(
        write_documents(tmp_path, [5, 9, 30]), batch_size=Longest(2), prefetch=2
    ) as loader:
        loader.start_prefetch()
        known = len(kernel.signatures)  # type: ignore[attr-defined]
        next(loader)
        assert len(kernel.signatures) == known > 0  # type: ignore[attr-defined]


def test_without_numba_a_loader_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: dict[str, Any] = {
        "documents": (write_documents(tmp_path, [5, 9, 30]), Longest(2)),
        "mapped": (write_packed(tmp_path / "none", num_rows=4).folder, 2),
        "read": (write_packed(tmp_path / "zstd", num_rows=4, compression="zstd").folder, 2),
    }

    def found() -> list[str]:
        batches = []
        for folder, size in folders.values():
            with DataLoader(folder, batch_size=size, epochs=1, prefetch=2) as loader:
                batches += [repr(batch) for batch in loader]
        return batches

    with_numba = found()
    monkeypatch.setitem(sys.modules, "dataprep.loaders.expand_numba", None)
    for fastest in (fastest_expand, fastest_expand_documents):
        fastest.cache_clear()
    try:
        assert fastest_expand_documents() is expand_documents.expand_documents
        assert found() == with_numba
    finally:
        for fastest in (fastest_expand, fastest_expand_documents):
            fastest.cache_clear()
