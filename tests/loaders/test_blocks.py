"""A shuffle of shards, and of rows within windows of them: pure, a permutation in every epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.loaders import DataLoader, open_dataset
from dataprep.loaders.blocks import ShardBlocks, spans
from dataprep.loaders.order import OrderKey
from dataprep.loaders.replay import replay_of
from dataprep.pipeline.errors import ConfigError, ConflictError
from support.packed import Packed, write_packed

KEY = OrderKey(seed=7, name="web", generation=None)
SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any)


@given(SIZES, st.integers(1, 14), st.integers(0, 10**9), st.integers(0, 2**63), st.text(max_size=4))
def test_every_epoch_has_every_row_once(
    sizes: list[int], window: int, epoch: int, seed: int, name: str
) -> None:
    n = sum(sizes)
    key = OrderKey(seed=seed, name=name, generation=None)
    rows = ShardBlocks(sizes, window).rows(np.arange(n) + epoch * n, key)
    assert sorted(rows.tolist()) == list(range(n))


@settings(max_examples=30)
@given(SIZES, st.integers(1, 14), st.lists(st.integers(0, 10**15), max_size=20))
def test_a_row_depends_on_its_position_alone(
    sizes: list[int], window: int, positions: list[int]
) -> None:
    together = ShardBlocks(sizes, window).rows(np.array(positions, np.int64), KEY)
    alone = [int(ShardBlocks(sizes, window).rows(np.array([p]), KEY)[0]) for p in positions]
    assert together.tolist() == alone


@given(SIZES, st.integers(1, 14), st.integers(0, 3))
def test_the_rows_of_a_window_are_those_of_its_shards(
    sizes: list[int], window: int, epoch: int
) -> None:
    blocks, n, starts = ShardBlocks(sizes, window), sum(sizes), np.cumsum([0, *sizes])
    found = blocks.windows(epoch, KEY)
    rows = blocks.rows(np.arange(n) + epoch * n, KEY)
    edges = [*found.places.tolist()]
    seen = []
    for (first, shards), stop in zip(spans(found), edges[1:], strict=True):
        assert 1 <= len(shards) <= window
        wanted = [r for s in shards.tolist() for r in range(starts[s], starts[s] + sizes[s])]
        assert sorted(rows[first:stop].tolist()) == sorted(wanted)
        seen += shards.tolist()
    assert sorted(seen) == [s for s, size in enumerate(sizes) if size]
    lengths = np.diff(found.first_shards)
    assert lengths.max() - lengths.min() <= 1


def test_the_order_never_changes() -> None:
    """Checkpoints rely on these numbers."""
    key = OrderKey(seed=0, name="", generation=None)
    assert ShardBlocks([2, 3, 1, 4], 2).rows(np.arange(20), key).tolist() == [
        *(9, 6, 5, 8, 7, 0, 3, 4, 2, 1),
        *(1, 3, 0, 4, 2, 8, 6, 5, 9, 7),
    ]


def test_shards_and_rows_have_an_order_of_their_own_in_every_epoch() -> None:
    blocks = ShardBlocks([50] * 10, 4)
    assert len({tuple(blocks.windows(epoch, KEY).shards.tolist()) for epoch in range(20)}) == 20
    one = ShardBlocks([500], 1).rows(np.arange(1000), KEY)
    assert one[:500].tolist() != one[500:].tolist()


def test_a_window_over_all_shards_mixes_all_of_them() -> None:
    rows = ShardBlocks([100] * 8, 8).rows(np.arange(800), KEY)
    counts = np.bincount(rows[:100] // 100, minlength=8)
    assert counts.min() >= 3


# --- in the loader ---


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("blocks") / "d", num_rows=100, rows_per_shard=7)


def loader_of(data: Any, **options: Any) -> DataLoader:
    options = {"batch_size": 8, "seed": 3, "shuffle": "blocks", "window_shards": 3, **options}
    return DataLoader(data, **options)


def test_batches_are_those_of_the_order_wherever_a_loader_starts(packed: Packed) -> None:
    order = ShardBlocks([7] * 14 + [2], 3).rows(
        np.arange(300), OrderKey(seed=3, name="", generation=None)
    )
    with loader_of(packed.folder, epochs=3) as loader:
        batches = list(loader)
        for step, batch in enumerate(batches):
            wanted = packed.expected(order[step * 8 : step * 8 + 8])
            assert all((batch[name] == array).all() for name, array in wanted.items())
    again = loader_of(packed.folder, epochs=3)
    again.set_state(loader.state_at(20))
    with again:
        assert all(
            (batch[name] == batches[20 + i][name]).all()
            for i, batch in enumerate(again)
            for name in batch
        )


def test_a_state_says_the_order_and_another_is_refused(packed: Packed) -> None:
    state = loader_of(packed.folder).state_at(5)
    assert (state["shuffle"], state["window_shards"]) == ("blocks", 3)
    loader_of(packed.folder).set_state(json.loads(state.decode()))
    with pytest.raises(ConflictError, match="window_shards 3, this loader has 4; set window_sh"):
        loader_of(packed.folder, window_shards=4).set_state(state)
    for other in (True, "global", False):
        own = DataLoader(packed.folder, batch_size=8, seed=3, shuffle=other)  # type: ignore[arg-type]
        with pytest.raises(ConflictError, match="was made with shuffle 'blocks'"):
            own.set_state(state)
        with pytest.raises(ConflictError, match="this loader has 'blocks'"):
            loader_of(packed.folder).set_state(own.state_at(5))


def test_rows_of_a_step_follow_from_the_state(packed: Packed, tmp_path: Path) -> None:
    write_packed(tmp_path / "b", num_rows=41, rows_per_shard=5, seed=1)
    mix: Any = {"a": (packed.folder, 0.6), "b": (tmp_path / "b", 0.4)}
    loader = loader_of(mix, window_shards=2)
    sizes = {"a": [7] * 14 + [2], "b": [5] * 8 + [1]}
    replay = replay_of(loader.state_at(30))
    for step in (0, 11, 29):
        assert replay.rows_of(step, sizes) == loader.rows_of(step)


def test_what_cannot_be_shuffled_in_blocks_is_refused(packed: Packed) -> None:
    with pytest.raises(ConfigError, match="needs whole shards, and this is a selection of"):
        loader_of(open_dataset(packed.folder).select(range(50)))
    with pytest.raises(ConfigError, match="window_shards=3 has no effect with shuffle=False"):
        loader_of(packed.folder, shuffle=False)
    with pytest.raises(ConfigError, match="window_shards must be at least 1, got 0"):
        loader_of(packed.folder, window_shards=0)
    with pytest.raises(ConfigError, match="shuffle must be True, False, 'global' or 'blocks'"):
        loader_of(packed.folder, shuffle="block")


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 16), st.integers(1, 4), st.integers(1, 20))
def test_parts_of_a_batch_are_the_batch_on_any_number_of_hosts(
    packed: Packed, window: int, hosts: int, step: int
) -> None:
    loader = loader_of(packed.folder, window_shards=window, batch_size=12)
    whole = loader[step]
    parts = [loader.part(step, host, hosts) for host in range(hosts) if 12 % hosts == 0]
    for name in whole if parts else ():
        joined = np.concatenate([part[name] for part in parts])
        assert (joined == whole[name]).all()
