"""What a loader says of its speed: it counts what was handed out, and changes nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dataprep.loaders import ByTokens, DataLoader
from dataprep.pipeline.errors import ConfigError
from support.lengths import write_documents
from support.packed import Packed, write_packed


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("meter") / "d", num_rows=100, seq_len=8)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_rows_tokens_and_bytes_are_counted(packed: Packed, prefetch: int) -> None:
    with DataLoader(packed.folder, batch_size={0: 4, 3: 8}, prefetch=prefetch) as loader:
        assert loader.metrics()["batches"] == loader.metrics()["tokens_per_second"] == 0
        batches = [next(loader) for _ in range(5)]
        loader[17]  # not handed out
        found = loader.metrics()
    assert [found[name] for name in ("batches", "rows", "tokens")] == [5, 28, 28 * 8]
    assert found["bytes"] == sum(array.nbytes for batch in batches for array in batch.values())


def test_documents_are_counted_by_their_own_shapes(tmp_path: Path) -> None:
    folder = write_documents(tmp_path, [*range(2, 60)])
    with DataLoader(folder, batch_size=ByTokens(300, multiple_of=8)) as loader:
        shapes = [next(loader)["inputs"].shape for _ in range(6)]
        found = loader.metrics()
    assert found["tokens"] == sum(rows * columns for rows, columns in shapes)
    assert found["rows"] == sum(rows for rows, _ in shapes)


def test_rates_are_over_the_last_batches_and_waiting_is_told(packed: Packed) -> None:
    def slow(rows: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)
        return {"x": rows["tokens"][:, 1:]}

    loader = DataLoader(packed.folder, batch_size=4, prefetch=0, view=slow)
    for _ in range(5):
        next(loader)
    waits = loader.metrics()
    assert waits["seconds_waited"] >= 5 * 0.02
    assert 0.5 < waits["share_waited"] <= 1
    assert waits["batches_per_second"] < 1 / 0.02
    assert waits["tokens_per_second"] == pytest.approx(32 * waits["batches_per_second"])
    time.sleep(0.3)  # a trainer at work
    next(loader)
    assert loader.metrics(window=2)["share_waited"] < waits["share_waited"]
    assert loader.metrics(window=1)["batches_per_second"] > 10
    for window in (0, 1001, 2.5):
        with pytest.raises(ConfigError, match="window"):
            loader.metrics(window=window)  # type: ignore[arg-type]


def test_no_state_and_no_batch_knows_of_it(packed: Packed) -> None:
    loader, other = (DataLoader(packed.folder, batch_size=4, prefetch=0) for _ in range(2))
    batch = next(loader)
    next(other)
    other.metrics()
    assert json.dumps(loader.get_state()) == json.dumps(other.get_state())
    assert list(batch) == ["inputs", "targets", "loss_mask", "segment_ids", "positions"]
    again = DataLoader(packed.folder, batch_size=4, prefetch=0)
    again.set_state(loader.get_state())
    assert again.metrics()["batches"] == 0
