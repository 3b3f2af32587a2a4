"""MaxText's iterators: its six arrays on the mesh, resets, padding batches, checkpoints."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from dataprep.loaders import DataLoader
from dataprep.loaders.compat import maxtext
from dataprep.pipeline.errors import ConfigError
from support.packed import Packed, write_packed

MESH = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("maxtext") / "d", num_rows=30, seq_len=16)


def config_of(packed: Packed, **told: Any) -> Any:
    values = {
        "grain_train_files": str(packed.folder),
        "grain_eval_files": str(packed.folder),
        "grain_train_mixture_config_path": "",
        "global_batch_size_to_load": 4,
        "global_batch_size_to_load_eval": 8,
        "max_target_length": 16,
        "enable_data_shuffling": True,
        "data_shuffle_seed": 5,
        "num_epoch": 2,
        "eval_interval": 10,
        "expansion_factor_real_data": -1,
        "generate_padding_batch_train": False,
        "generate_padding_batch_eval": False,
    }
    return SimpleNamespace(**(values | told))


def tokens(batches: Any) -> list[Any]:
    return [np.asarray(batch["inputs"]).tolist() for batch in batches]


def test_batches_are_those_of_the_view(packed: Packed) -> None:
    train, evaluation = maxtext.create_data_iterator(config_of(packed), MESH)
    with DataLoader(packed.folder, batch_size=4, view="maxtext", seed=5, epochs=2) as loader:
        for batch, wanted in zip(train, loader, strict=True):
            assert {*batch} == {*wanted}
            for name, array in batch.items():
                assert array.dtype == np.int32
                assert array.sharding.spec == jax.sharding.PartitionSpec(("data",))
                np.testing.assert_array_equal(array, wanted[name])
            np.testing.assert_array_equal(batch["targets_position"], batch["inputs_position"])
    first = list(evaluation)
    assert [batch["inputs"].shape for batch in first] == [(8, 16)] * 4  # 30 rows, the last padded
    assert not np.asarray(first[-1]["targets_segmentation"])[6:].any()
    evaluation.reset()
    assert tokens(evaluation) == tokens(first)


def test_there_is_no_evaluation_unless_it_is_asked_for(packed: Packed) -> None:
    assert maxtext.create_data_iterator(config_of(packed, eval_interval=-1), MESH)[1] is None


class Directory:
    """What orbax passes to `save`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def await_creation(self) -> Path:
        self.path.mkdir(exist_ok=True)
        return self.path


@pytest.mark.parametrize("way", ["text", "folder"])
def test_checkpoints_hold_what_was_handed_out(packed: Packed, tmp_path: Path, way: str) -> None:
    """By `get_state().decode()` and `set_state(bytes)`, or `save` and `load`: MaxText has both."""
    train, _ = maxtext.create_data_iterator(config_of(packed), MESH)
    whole = tokens(train)
    for step in (0, 1, 9):
        one, _ = maxtext.create_data_iterator(config_of(packed), MESH)
        for _ in range(step):
            next(one)
        again, _ = maxtext.create_data_iterator(config_of(packed), MESH)
        if way == "text":
            text = one.local_iterator.get_state().decode()
            assert json.loads(text)["step"] == step
            again.local_iterator.set_state(text.encode())
        else:
            asyncio.run(_saved(one.local_iterator, Directory(tmp_path / str(step))))
            asyncio.run(_loaded(again.local_iterator, tmp_path / str(step)))
        assert tokens(next(again) for _ in range(5)) == whole[step : step + 5]


async def _saved(iterator: Any, directory: Directory) -> None:
    await (await iterator.save(directory))


async def _loaded(iterator: Any, path: Path) -> None:
    await (await iterator.load(path))


def test_empty_batches_may_follow_the_last(packed: Packed) -> None:
    told = {"generate_padding_batch_train": True, "num_epoch": 1}
    train, _ = maxtext.create_data_iterator(config_of(packed, **told), MESH)
    for _ in range(7):
        assert np.asarray(next(train)["inputs_segmentation"]).any()
    for _ in range(3):
        assert not any(np.asarray(array).any() for array in next(train).values())
    plain, _ = maxtext.create_data_iterator(config_of(packed, num_epoch=1), MESH)
    assert len(list(plain)) == 7


def test_with_fewer_hosts_the_iterators_of_all_are_one(packed: Packed) -> None:
    """MaxText restores a list of iterators, and takes batches from one after another."""
    whole = tokens(maxtext.create_data_iterator(config_of(packed), MESH)[0])
    config = config_of(packed, expansion_factor_real_data=0.5)
    several, _ = maxtext.create_data_iterator(config, MESH)
    assert len(several) == 2
    found = tokens(next(several[i % 2]) for i in range(6))
    assert found == whole[:6]


def test_mixtures_are_written_as_maxtext_writes_them(packed: Packed, tmp_path: Path) -> None:
    other = write_packed(tmp_path / "o", num_rows=30, seq_len=16, seed=1)
    files = f"{packed.folder},0.75;{other.folder},0.25"
    named = tmp_path / "mixture.json"
    named.write_text(
        json.dumps(
            {
                "a": {"path": str(packed.folder), "weight": 3},
                "b": {"path": str(other.folder), "weight": 1},
            }
        )
    )
    for told in ({"grain_train_files": files}, {"grain_train_mixture_config_path": str(named)}):
        train, _ = maxtext.create_data_iterator(config_of(packed, **told), MESH)
        names = [name for name, _ in train.dataloader.rows_of(0)]
        assert sorted(names.count(name) for name in {*names}) == [1, 3]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"max_target_length": 8}, "--seq-len 8"),
        ({"grain_train_files": "a;b"}, "has no weight"),
        ({"expansion_factor_real_data": 2}, "leave it out"),
        ({"grain_eval_files": ""}, "eval_interval=-1"),
        ({"grain_train_files": "data/*.arrayrecord"}, "the folder of a packed dataset"),
    ],
)
def test_mistakes_say_what_to_do(packed: Packed, told: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        maxtext.create_data_iterator(config_of(packed, **told), MESH)


def test_a_file_that_is_no_mixture_says_what_one_is(packed: Packed, tmp_path: Path) -> None:
    (tmp_path / "mix.json").write_text('{"web": {"path": "data/web"}}')
    for name, reason in (("mix.json", "KeyError: 'weight'"), ("none.json", "FileNotFoundError")):
        told = config_of(packed, grain_train_mixture_config_path=str(tmp_path / name))
        with pytest.raises(ConfigError, match=rf"{name} is not a mixture \({reason}.* write"):
            maxtext.create_data_iterator(told, MESH)


def test_weights_that_maxtext_would_not_hear_of_are_refused(tmp_path: Path) -> None:
    weighted = write_packed(tmp_path / "d", num_rows=9, seq_len=16, masks=("loss", "weight"))
    with pytest.raises(ConfigError, match="has loss weights, which MaxText does not look at"):
        maxtext.create_data_iterator(config_of(weighted), MESH)
