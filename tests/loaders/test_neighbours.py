"""Other loaders over our rows: grain's, torch's, and what saves our state."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from dataprep.loaders import DataLoader, PackedDataset, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines
from support.packed import Packed, write_packed


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("neighbours") / "d"
    return write_packed(folder, num_rows=60, seq_len=8, masks=("loss", "vision"))


def opened(packed: Packed) -> PackedDataset:
    dataset = open_dataset(packed.folder)
    assert isinstance(dataset, PackedDataset)
    return dataset


# --- grain ---


def test_grain_reads_our_rows_as_a_source(packed: Packed) -> None:
    import grain

    dataset = opened(packed)
    assert isinstance(dataset, grain.sources.RandomAccessDataSource)
    rows = grain.MapDataset.source(dataset).shuffle(seed=1).batch(10)
    found = np.concatenate([batch["tokens"] for batch in rows])
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, packed.tokens.tolist()))
    again = [batch["segment_ids"].tolist() for batch in rows.to_iter_dataset()]
    assert len(again) == 6


def test_grain_asks_for_whole_batches(packed: Packed, monkeypatch: pytest.MonkeyPatch) -> None:
    import grain

    asked: list[int] = []
    read = PackedDataset.__getitems__

    def count(self: PackedDataset, keys: Any) -> Any:
        asked.append(len(keys))
        return read(self, keys)

    monkeypatch.setattr(PackedDataset, "_getitems", count)
    found = grain.MapDataset.source(opened(packed))._getitems([3, 1, 59])
    assert asked == [3]
    assert [row["tokens"].tolist() for row in found] == packed.tokens[[3, 1, 59]].tolist()


def test_the_loader_of_grain_goes_through_our_rows_and_resumes(packed: Packed) -> None:
    import grain
    import grain.python as python

    def loader() -> Any:
        sampler = python.IndexSampler(
            num_records=60,
            shard_options=grain.sharding.NoSharding(),
            shuffle=True,
            num_epochs=1,
            seed=2,
        )
        batch = python.Batch(10, drop_remainder=True)
        return iter(
            python.DataLoader(
                data_source=opened(packed), sampler=sampler, operations=[batch], worker_count=0
            )
        )

    whole = [batch["tokens"].tolist() for batch in loader()]
    assert sorted(row for batch in whole for row in batch) == sorted(packed.tokens.tolist())
    iterator = loader()
    next(iterator)
    state = iterator.get_state()
    rest = loader()
    rest.set_state(state)
    assert [batch["tokens"].tolist() for batch in rest] == whole[1:]


def test_the_checkpoint_handler_of_grain_saves_our_state(packed: Packed, tmp_path: Path) -> None:
    import grain

    loader, again = (DataLoader(packed.folder, batch_size=6) for _ in range(2))
    next(loader)
    handler = grain.checkpoint.CheckpointHandler()
    handler.save(tmp_path, item=loader)
    handler.restore(tmp_path, item=again)
    assert again.get_state() == loader.get_state()
    assert np.array_equal(next(again)["inputs"], next(loader)["inputs"])
    loader.close()
    again.close()


def test_the_json_handler_of_orbax_saves_our_state(packed: Packed, tmp_path: Path) -> None:
    orbax = pytest.importorskip("orbax.checkpoint")
    loader, again = (DataLoader(packed.folder, batch_size=6, prefetch=0) for _ in range(2))
    next(loader)
    with orbax.Checkpointer(orbax.JsonCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "s", args=orbax.args.JsonSave(loader.get_state()))
        again.set_state(checkpointer.restore(tmp_path / "s"))
    assert again.get_state() == loader.get_state()


def test_grain_reads_our_documents_and_resumes_where_they_have_moved(tmp_path: Path) -> None:
    import grain

    lines = write_lines(tmp_path / "in.jsonl", [{"text": "a" * n} for n in range(1, 20)])
    tokenize_here(tmp_path / "one", inputs=[str(lines)], tokenizer="bytes", fields="text")

    def batches(folder: Path) -> Any:
        source = grain.MapDataset.source(cast(Any, open_dataset(folder)))
        return iter(source.shuffle(seed=1).map(lambda d: d["tokens"]).to_iter_dataset())

    found = batches(tmp_path / "one")
    next(found)
    state = found.get_state()
    rest = [tokens.tolist() for tokens in found]
    before = open_dataset(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    after = open_dataset(tmp_path / "two")
    assert repr(before) == repr(after)  # which grain compares
    assert before.manifest["fingerprint"] in repr(after)
    assert str(tmp_path / "two") in str(after)
    again = batches(tmp_path / "two")
    again.set_state(state)
    assert [tokens.tolist() for tokens in again] == rest
    assert after[3]["tokens"].dtype == np.int32


@pytest.mark.parametrize("kind", ["tokenized", "packed"])
def test_a_dataset_goes_to_another_process_by_its_folder(tmp_path: Path, kind: str) -> None:
    lines = write_lines(tmp_path / "in.jsonl", [{"text": "ab" * n} for n in range(1, 20)])
    folders = {name: tmp_path / name for name in ("tokenized", "packed")}
    tokenize_here(folders["tokenized"], inputs=[str(lines)], tokenizer="bytes", fields="text")
    pack_here(folders["packed"], folders["tokenized"], seq_len=40)
    dataset = open_dataset(folders[kind])
    dataset[1]
    sent = pickle.dumps(dataset)
    arrived = pickle.loads(sent)
    assert repr(arrived) == repr(dataset)
    for one, other in zip(arrived.__getitems__([1, 0]), dataset.__getitems__([1, 0]), strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    # Other data at the same place is not taken for it.
    shard = folders[kind] / dataset.about.shards[0].path
    shard.write_bytes(shard.read_bytes()[::-1])
    with pytest.raises(CorruptError):
        pickle.loads(sent)[0]


def test_what_cannot_be_pickled_says_what_to_do(packed: Packed) -> None:
    with pytest.raises(TypeError, match=r"pickle its get_state\(\)"):
        pickle.dumps(DataLoader(packed.folder, batch_size=4))


# --- torch ---


def test_torch_reads_rows_by_number(packed: Packed) -> None:
    torch = pytest.importorskip("torch")
    from dataprep.loaders.torch import PackedRows

    rows = PackedRows(packed.folder)
    assert len(rows) == 60
    expected = packed.expected([5])
    for name, tensor in rows[5].items():
        assert tensor.tolist() == expected[name][0].tolist()
    assert rows[5]["inputs"].dtype == torch.int64
    assert rows[5]["loss_mask"].dtype == torch.bool
    with pytest.raises(IndexError):
        rows[60]
    with pytest.raises(ConfigError, match="verify 'x' is not one of"):
        PackedRows(packed.folder, verify="x")  # type: ignore[arg-type]
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(
            rows, batch_size=7, shuffle=True, num_workers=workers, **spawned(workers)
        )
        found = torch.cat([batch["inputs"] for batch in loader])
        assert sorted(found.tolist()) == sorted(packed.tokens[:, :-1].tolist())


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
@pytest.mark.parametrize("workers", [0, 2, 4])
def test_torch_has_our_batches_in_our_order_with_any_workers(packed: Packed, workers: int) -> None:
    torch = pytest.importorskip("torch")
    from dataprep.loaders.torch import PackedBatches

    options: dict[str, Any] = {"batch_size": 8, "epochs": 2, "seed": 3, "view": "hf"}
    ours = DataLoader(packed.folder, **options, prefetch=0)
    batches = PackedBatches(packed.folder, **options)
    assert len(batches) == 15
    loader = torch.utils.data.DataLoader(
        batches, batch_size=None, num_workers=workers, **spawned(workers)
    )
    found = [batch["input_ids"].tolist() for batch in loader]
    assert found == [ours[step]["input_ids"].tolist() for step in range(15)]


def test_torch_ranks_have_parts_of_every_batch_and_go_on_at_a_step(packed: Packed) -> None:
    pytest.importorskip("torch")
    from dataprep.loaders.torch import PackedBatches

    ours = DataLoader(packed.folder, batch_size=8, epochs=1, prefetch=0)
    ranks = [
        list(
            PackedBatches(packed.folder, batch_size=8, epochs=1, rank=r, world_size=2, start_step=3)
        )
        for r in range(2)
    ]
    for step, (first, second) in enumerate(zip(*ranks, strict=True), start=3):
        both = [*first["targets"].tolist(), *second["targets"].tolist()]
        assert both == ours[step]["targets"].tolist()
    assert len(ranks[0]) == len(ours) - 3


def spawned(workers: int) -> dict[str, Any]:
    """Forking would warn: this process has threads."""
    return {"multiprocessing_context": "spawn"} if workers else {}


def test_torch_rows_can_be_verified_when_they_are_opened(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from dataprep.loaders.torch import PackedBatches, PackedRows

    folder = write_packed(tmp_path / "d", num_rows=20).folder
    shard = next((folder / "shards").glob("*.arrayrecord"))
    data = bytearray(shard.read_bytes())
    data[-3] ^= 1  # where no row is
    shard.write_bytes(data)
    PackedRows(folder)
    PackedRows(folder, verify="off")[0]
    with pytest.raises(CorruptError, match=shard.name):
        PackedRows(folder, verify="open")
    with pytest.raises(CorruptError, match=shard.name):
        PackedBatches(folder, batch_size=2, verify="open")


class AwaitedFolder:
    """As orbax passes it: a folder that may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def await_creation(self) -> Path:
        self._path.mkdir(parents=True)
        return self._path


def test_a_loader_saves_and_loads_itself_as_orbax_asks(packed: Packed, tmp_path: Path) -> None:
    """Its protocol of version 1: `save` and `load` return what is left to do."""
    loader = DataLoader(packed.folder, batch_size=4)
    next(loader)
    state = loader.get_state()

    async def save() -> None:
        rest = await loader.save(AwaitedFolder(tmp_path / "data"))
        next(loader)  # which the state does not know of
        await rest

    async def load(into: Any, folder: Path) -> None:
        await (await into.load(folder))

    asyncio.run(save())
    again = DataLoader(packed.folder, batch_size=4)
    asyncio.run(load(iter(again), tmp_path / "data"))
    assert again.get_state() == state
    assert np.array_equal(next(iter(again))["inputs"], loader[1]["inputs"])
    (tmp_path / "none").mkdir()
    with pytest.raises(ConflictError, match="holds no state of a loader"):
        asyncio.run(load(again, tmp_path / "none"))
    for one in (loader, again):
        one.close()


def test_orbax_saves_a_loader_beside_a_model(packed: Packed, tmp_path: Path) -> None:
    orbax = pytest.importorskip("orbax.checkpoint.experimental.v1")
    loader = DataLoader(packed.folder, batch_size=4)
    next(loader)
    for name, item in (("a", loader), ("b", iter(loader))):
        next(item)
        orbax.save_checkpointables(tmp_path / name, {"data": item, "model": {"w": np.ones(3)}})
        again = DataLoader(packed.folder, batch_size=4)
        orbax.load_checkpointables(tmp_path / name, {"data": again})
        assert again.get_state() == loader.get_state()
        assert np.array_equal(next(iter(again))["inputs"], next(loader)["inputs"])
        again.close()
    loader.close()
