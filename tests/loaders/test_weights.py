"""Loss weights in batches: every view, mixtures, both ways to expand, on a mesh."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import DataLoader, open_dataset
from dataprep.loaders import expand as by_numpy
from dataprep.loaders import expand_numba as by_numba
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.packed import all_of_a_row, empty_arrays
from dataprep.loaders.shards import open_shards
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.rows import RowLayout, Rows, encode_rows
from support.packed import Packed, manifest_of, write_packed

MASKS = ("loss", "vision", "weight")


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("weighted") / "d"
    return write_packed(folder, num_rows=40, seq_len=600, masks=MASKS, rows_per_shard=16)


def test_rows_have_the_weights_of_their_loss(weighted: Packed) -> None:
    dataset: Any = open_dataset(weighted.folder)
    expected = weighted.masks["weight"].astype(np.float32) * weighted.masks["loss"]
    rows = dataset[list(range(40))]
    assert rows["loss_weights"].dtype == np.float32
    assert np.array_equal(rows["loss_weights"], expected)
    assert np.array_equal(rows["vision_mask"], weighted.masks["vision"])


@pytest.mark.parametrize("columns", [(0, 601), (7, 101), (599, 2)])
def test_numpy_and_numba_give_the_same(weighted: Packed, columns: tuple[int, int]) -> None:
    manifest = manifest_of(weighted)
    rows = np.random.default_rng(0).permutation(40)[:23]
    found = open_shards(weighted.folder, manifest, 1).fetch(rows)
    layout = open_dataset(weighted.folder).layout  # type: ignore[union-attr]
    request = all_of_a_row(*columns, MASKS, MASKS)
    outs = [empty_arrays(request, 23) for _ in range(2)]
    for module, out in zip((by_numpy, by_numba), outs, strict=True):
        module.expand(found, layout, request, out, np.arange(23))
    for name in ("tokens", "segments", "positions", "masks", "weights"):
        assert np.array_equal(getattr(outs[0], name), getattr(outs[1], name)), name
    wanted = slice(columns[0], sum(columns))
    assert np.array_equal(outs[0].weights[0], weighted.masks["weight"][rows, wanted])


@pytest.mark.parametrize(
    ("view", "name", "shift"),
    [
        ("default", "loss_weights", 1),
        ("maxtext", "loss_weights", 1),
        ("hf", "loss_weights", 0),
        ("lwm", "loss_masks", 1),
    ],
)
def test_every_view_has_them(weighted: Packed, view: Any, name: str, shift: int) -> None:
    loader = DataLoader(weighted.folder, batch_size=8, shuffle=False, epochs=1, view=view)
    both = weighted.masks["weight"].astype(np.float32) * weighted.masks["loss"]
    assert np.array_equal(loader[1][name], both[8:16, shift:])
    assert loader[1][name].dtype == np.float32
    assert ("loss_weights" in loader[1]) == (view != "lwm")


def test_a_dataset_without_weights_has_none(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "d", num_rows=9)
    batch = DataLoader(packed.folder, batch_size=4, epochs=1)[0]
    assert "loss_weights" not in batch


def test_in_a_mixture_a_dataset_without_weights_has_ones(weighted: Packed, tmp_path: Path) -> None:
    plain = write_packed(tmp_path / "d", num_rows=40, seq_len=600)
    mix = {"plain": (plain.folder, 1), "weighted": (weighted.folder, 1)}
    loader = DataLoader(mix, batch_size=8, epochs=1, shuffle=False)
    batch, rows = loader[0], loader.rows_of(0)
    for i, (name, row) in enumerate(rows):
        own = plain if name == "plain" else weighted
        weights = own.masks.get("weight", np.ones(own.tokens.shape))[row, 1:].astype(np.float32)
        assert np.array_equal(batch["loss_weights"][i], weights * own.masks["loss"][row, 1:])


def test_padding_rows_weigh_nothing(weighted: Packed) -> None:
    loader = DataLoader(weighted.folder, batch_size=32, epochs=1, remainder="pad")
    assert not loader[1]["loss_weights"][8:].any()


NAN, INFINITY, MINUS_ONE = 0x7E00, 0x7C00, 0xBC00


@pytest.mark.parametrize("module", [by_numpy, by_numba])
@pytest.mark.parametrize("wanted", [("loss", "weight"), ("loss",)])
@pytest.mark.parametrize(
    ("ends", "loss", "weight", "cause"),
    [
        ([4], [4], [4, 4_000_000_000], "a loss weight of a row is not a positive number"),
        ([4], [4], [4, NAN], "a loss weight of a row is not a positive number"),
        ([4], [4], [4, INFINITY], "a loss weight of a row is not a positive number"),
        ([4], [4], [4, MINUS_ONE], "a loss weight of a row is not a positive number"),
        ([4], [4], [4, 0], "a loss weight of a row is not a positive number"),
        ([4], [4], [3, 1], "the runs of a mask of a row do not ascend to its end"),
        ([4], [3], [4, 1], "the runs of a mask of a row do not ascend to its end"),
        ([3, 2], [4], [4, 1], "the ends of the documents of a row do not ascend"),
        ([4], [4], [4, 1], ""),
        ([4], [4], [4, 0x7BFF], ""),
    ],
)
def test_both_ways_to_expand_find_the_same_damage_whatever_is_wanted(
    module: Any,
    wanted: tuple[str, ...],
    ends: list[int],
    loss: list[int],
    weight: list[int],
    cause: str,
) -> None:
    own = ("loss", "weight")
    layout = RowLayout(capacity=4, masks=own, tokens=np.dtype("<u2"), ends=np.dtype("<u4"))
    rows = Rows(
        tokens=np.zeros((1, 4), "<u2"),
        left_padding=np.zeros(1, np.int64),
        ends=IntegerLists(np.array(ends), np.array([0, len(ends)])),
        first_loss=np.ones(len(ends), np.bool_),
        masks=tuple(IntegerLists(np.array(m), np.array([0, len(m)])) for m in (loss, weight)),
    )
    (payload,) = encode_rows(rows, layout)
    data = np.frombuffer(payload, np.uint8)
    found = RowBytes(
        memory=data, first=np.zeros(1, np.int64), size=np.array([len(data)]), in_blocks=False
    )
    request = replace(all_of_a_row(0, 4, wanted, own), segments=(), positions=())
    with pytest.raises(CorruptError, match=cause) if cause else nullcontext():
        module.expand(found, layout, request, empty_arrays(request, 1), np.zeros(1, np.int64))


def test_a_view_of_the_users_own_gets_them(weighted: Packed) -> None:
    loader = DataLoader(
        weighted.folder,
        batch_size=4,
        epochs=1,
        view=lambda rows: {"w": rows["loss_weights"][:, 1:]},
    )
    assert loader[0]["w"].shape == (4, 600)
