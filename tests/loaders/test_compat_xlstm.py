"""xlstm-jax's data pipeline: its batches, epochs, mixtures and states, on our data and its own."""

from __future__ import annotations

import pickle
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grain
import jax
import numpy as np
import pytest
from array_record.python import array_record_module
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.loaders import DataLoader, open_dataset
from dataprep.loaders.compat import xlstm
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError, InputError
from dataprep.pipeline.storage.objects import open_objects
from support.packed import Packed, write_packed
from support.stores import S3
from support.xlstm_rules import NAMES, batches_of

LENGTH, EOD = 12, 1
MESH = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("dp",))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("xlstm") / "data" / "train"
    return write_packed(folder, num_rows=50, seq_len=LENGTH - 1)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("xlstm") / "o"
    return write_packed(folder, num_rows=20, seq_len=LENGTH - 1, seed=1)


def config_of(path: Path, **told: Any) -> Any:
    """As xlstm-jax's GrainArrayRecordsDataConfig has it."""
    values = {
        "data_path": path,
        "split": "train",
        "global_batch_size": 8,
        "max_target_length": LENGTH,
        "shuffle_data": False,
        "data_shuffle_seed": 42,
        "drop_remainder": True,
        "max_steps_per_epoch": None,
        "batch_rampup_factors": None,
        "worker_count": 1,
        "worker_buffer_size": 1,
        "tokenize_data": True,
        "add_eod": True,
    }
    return SimpleNamespace(**(values | told))


def write_records(folder: Path, records: list[list[int]], files: tuple[int, ...]) -> Path:
    """Files with these numbers in their names, in this order on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = np.array_split(np.arange(len(records)), len(files))
    for number, part in zip(sorted(files), parts, strict=True):
        path = folder / f"train_{number:06d}.arecord"
        writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
        for i in part.tolist():
            writer.write(np.array(records[i], "<i4").tobytes())
        writer.close()
    return folder


def arrays_of(batch: Any) -> dict[str, Any]:
    return {name: np.asarray(getattr(batch, name)) for name in NAMES}


def assert_same(batch: Any, wanted: dict[str, Any]) -> None:
    for name, array in arrays_of(batch).items():
        assert array.dtype == np.int32
        np.testing.assert_array_equal(array, wanted[name], name)


# --- records of token ids ---


@given(
    records=st.lists(
        st.lists(st.integers(0, 5), min_size=1, max_size=LENGTH), min_size=9, max_size=40
    ),
    hosts=st.sampled_from([1, 2, 3]),
    add_eod=st.booleans(),
    drop_remainder=st.booleans(),
    max_steps=st.sampled_from([None, 1, 3]),
)
@settings(max_examples=40, deadline=None)
def test_records_become_the_rows_of_xlstm_jax(
    records: list[list[int]], hosts: int, add_eod: bool, drop_remainder: bool, max_steps: int | None
) -> None:
    told = {"drop_remainder": drop_remainder, "add_eod": add_eod}
    source = [np.array(record, "<i4").tobytes() for record in records]
    for host in range(hosts):
        rows, left = xlstm.preprocess_dataset(
            host,
            hosts,
            source,
            "text",
            False,
            6,
            LENGTH,
            False,
            0,
            num_epochs=1,
            max_steps_per_epoch=max_steps,
            eod_token_id=EOD,
            **told,
        )
        iterator = xlstm.make_grain_multihost_iterator(
            rows, len(left), MESH, 6, hosts, worker_count=0, drop_remainder=drop_remainder
        )
        expected = batches_of(
            records, LENGTH, EOD, host=host, hosts=hosts, batch=6, max_steps=max_steps, **told
        )
        found = list(iterator)
        assert len(found) == len(expected)
        for batch, wanted in zip(found, expected, strict=True):
            assert_same(batch, wanted)
        singles = list(rows)  # one after another, as grain's dataset gives them
        assert len(singles) == len(rows)
        wanted = {name: np.stack([row[name] for row in singles]) for name in NAMES}
        count = sum(len(one["inputs"]) for one in expected)
        for name in NAMES:
            joined = np.concatenate([one[name] for one in expected])
            np.testing.assert_array_equal(wanted[name][:count], joined)


def test_files_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    records = [[i, i] for i in range(30)]
    folder = write_records(tmp_path / "train", records, (10, 2, 1))
    dataset = xlstm.load_array_record_dataset(folder)
    found = [np.frombuffer(dataset[i], "<i4").tolist() for i in range(len(dataset))]
    assert found == records
    assert pickle.loads(pickle.dumps(dataset))[29] == dataset[29]
    with pytest.raises(IndexError):
        dataset[30]
    for file in folder.iterdir():
        file.rename(file.with_suffix(".ar"))
    renamed = xlstm.load_array_record_dataset(folder, file_extension=".ar")
    assert renamed[29] == dataset[29]


def test_files_without_a_number_or_of_another_kind_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        xlstm.load_array_record_dataset(tmp_path / "none")
    with pytest.raises(ConfigError, match="has no files"):
        xlstm.load_array_record_dataset(tmp_path)
    (tmp_path / "train.arecord").write_bytes(b"x" * 99)
    with pytest.raises(ConfigError, match="no number"):
        xlstm.load_array_record_dataset(tmp_path)
    (tmp_path / "train.arecord").rename(tmp_path / "train_1.arecord")
    with pytest.raises(CorruptError, match="damaged"):
        xlstm.load_array_record_dataset(tmp_path)


def test_packed_records_fill_rows_in_order() -> None:
    records = [np.full(n, 10 + n, np.int32) for n in (5, 4, 4, 12, 3, 3, 3, 3)]
    source = [{"inputs": record, "targets": record} for record in records]
    rows = xlstm.make_grain_llm_dataset(
        0,
        1,
        source,
        4,
        LENGTH,
        False,
        0,
        num_epochs=1,
        grain_packing=True,
        shift_target=False,
        eod_token_id=EOD,
    )
    found = [row["targets"].tolist() for row in rows]
    assert found == [
        [15] * 5 + [14] * 4 + [0] * 3,
        [14] * 4 + [0] * 8,
        [22] * 12,
        [13] * 12,
    ]
    few = xlstm.PaddedDataset(source, 3, "text")
    only = xlstm.make_grain_llm_dataset(
        0, 1, few, 4, LENGTH, False, 0, num_epochs=1, grain_packing=True, shift_target=False
    )
    assert [row["targets"].tolist() for row in only] == found[:2]
    segments = [row["targets_segmentation"].tolist() for row in rows]
    assert segments[0] == [1] * 5 + [2] * 4 + [0] * 3
    assert segments[3] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_targets_may_be_shifted_to_the_left_or_not_at_all() -> None:
    source = [{"inputs": np.arange(2, 8), "targets": np.arange(2, 8)}]
    for shift, left in ((False, False), (True, True)):
        rows = xlstm.make_grain_llm_dataset(
            0,
            1,
            source,
            1,
            LENGTH,
            False,
            0,
            num_epochs=1,
            shift=shift,
            shift_target=left,
            eod_token_id=EOD,
        )
        (row,) = rows
        assert row["inputs"].tolist() == [2, 3, 4, 5, 6, 7, *[0] * 6]
        assert (
            row["targets"].tolist()
            == ([3, 4, 5, 6, 7, 0] if left else [2, 3, 4, 5, 6, 7]) + [0] * 6
        )
        # Unshifted, the first token has the loss that it has in the document.
        loss = [1] * 5 + [0] * 7 if left else [1] * 6 + [0] * 6
        assert row["targets_segmentation"].tolist() == loss


def test_operations_of_grain_are_applied() -> None:
    class Double:
        def map(self, record: Any) -> Any:
            return {"inputs": record * 2, "targets": record * 2}

    rows = xlstm.make_grain_llm_dataset(
        0,
        1,
        [np.arange(2, 5)],
        1,
        LENGTH,
        False,
        0,
        num_epochs=1,
        operations=[Double(), dict],
        shift_target=False,
        eod_token_id=EOD,
    )
    assert next(iter(rows))["targets"].tolist() == [4, 6, 8, *[0] * 9]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (np.arange(LENGTH + 1), "max_target_length is 12"),
        (b"abc", "no int32"),
        (np.array([-1]), "token ids"),
        (np.array([1 << 32]), "token ids"),
        ({"inputs": np.arange(3), "targets": np.arange(4)}, "be the same"),
        (np.array([0.5]), "token ids"),
    ],
)
def test_records_that_are_no_rows_are_errors(record: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        xlstm.make_grain_llm_dataset(0, 1, [record], 1, LENGTH, False, 0)


def test_text_is_an_error_that_says_what_to_do() -> None:
    args: Any = (0, 1, [b"some text"], "text", True, 1, LENGTH, False, 0)
    with pytest.raises(ConfigError, match="dataprep tokenize"):
        xlstm.preprocess_dataset(*args)
    with pytest.raises(ConfigError, match="eod_token_id"):
        xlstm.preprocess_dataset(0, 1, [b"1234"], "text", False, 1, LENGTH, False, 0)
    with pytest.raises(ConfigError, match="divisible"):
        xlstm.preprocess_dataset(0, 3, [b"1234"], "text", False, 4, LENGTH, False, 0)
    settings: Any = {"num_epochs": 1, "grain_packing": True, "eod_token_id": 0}
    with pytest.raises(InputError, match=r"must be bytes of int32 or an array, got one with \['x'"):
        xlstm.preprocess_dataset(0, 1, [{"x": [1]}], "x", False, 1, LENGTH, False, 0, **settings)


# --- padding ---


def test_a_padded_dataset_has_empty_elements_at_its_end(packed: Packed) -> None:
    dataset = xlstm.pad_dataset([b"a", b"b", b"c"], 4, "text")
    assert (len(dataset), dataset[2], dataset[3]) == (4, b"c", b"")
    assert dataset.full_dataset_length == 4
    assert (dataset.dataset, dataset.column_name) == ([b"a", b"b", b"c"], "text")
    assert len(xlstm.PaddedDataset([b"a", b"b"], 1, "text")) == 1
    assert "full_dataset_length=4" in repr(dataset)
    texts = SimpleNamespace(select_columns=None, __len__=lambda: 0)
    assert xlstm.PaddedDataset(texts, 4, "text").empty_sequence == {"text": ""}
    rows = open_dataset(packed.folder)
    row = xlstm.PaddedDataset(rows, 60, "text")[55]
    assert not row["segment_ids"].any()
    assert not row["loss_mask"].any()
    with pytest.raises(ValueError, match="Unsupported"):
        _ = xlstm.PaddedDataset([1], 4, "text").empty_sequence
    with pytest.raises(IndexError):
        dataset[4]


# --- packed datasets ---


def rows_of(packed: Packed, rows: Any) -> dict[str, Any]:
    """The rows of a dataset as the view of the loader has them."""
    with DataLoader(
        packed.folder, batch_size=50, view="xlstm", shuffle=False, prefetch=0
    ) as loader:
        return {name: array[rows] for name, array in loader[0].items()}


def test_batches_are_those_of_the_view_and_epochs_go_on(packed: Packed) -> None:
    iterator = xlstm.make_grain_iterator(config_of(packed.folder.parent), MESH, [0])
    assert len(iterator) == iterator.iterator_length == 6  # of 50 rows
    assert iterator.dataset_size == 50
    for epoch in range(3):
        for step, batch in enumerate(iterator):
            assert isinstance(batch, xlstm.LLMBatch)
            begin = (epoch * 6 + step) * 8
            assert_same(batch, rows_of(packed, np.arange(begin, begin + 8) % 50))
        assert step == 5


def test_an_evaluation_is_padded_and_the_same_every_time(packed: Packed) -> None:
    config = config_of(packed.folder, drop_remainder=False, split=None)
    for resets in (False, True):
        iterator = xlstm.make_grain_iterator(config, MESH, [0], reset_after_epoch=resets)
        assert len(iterator) == 7
        for _ in range(2):
            batches = list(iterator)
            whole = {n: np.concatenate([arrays_of(b)[n] for b in batches]) for n in NAMES}
            for name in NAMES:
                np.testing.assert_array_equal(whole[name][:50], rows_of(packed, slice(None))[name])
            assert not whole["targets_segmentation"][50:].any()
            assert not whole["inputs_segmentation"][50:].any()


@pytest.mark.parametrize("shuffle", [False, True])
def test_epochs_may_be_limited(packed: Packed, shuffle: bool) -> None:
    config = config_of(packed.folder.parent, max_steps_per_epoch=2, shuffle_data=shuffle)
    iterator = xlstm.create_data_iterator(config, MESH)
    assert len(iterator) == 2
    seen = [[arrays_of(batch)["targets"] for batch in iterator] for _ in range(12)]
    rows = {row.tobytes() for epoch in seen for batch in epoch for row in batch}
    if shuffle:  # every epoch has other rows
        assert len(rows) > 40
    else:
        assert len(rows) == 16
        np.testing.assert_array_equal(np.array(seen[0]), np.array(seen[11]))


def test_an_iterator_may_start_every_epoch_anew(packed: Packed) -> None:
    config = config_of(packed.folder.parent, shuffle_data=True, max_steps_per_epoch=3)
    iterator = xlstm.make_grain_iterator(config, MESH, [0], reset_after_epoch=True)
    first, second = (np.array([b.targets for b in iterator]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_mixture_has_exact_weights_and_equal_ones_without(packed: Packed, other: Packed) -> None:
    configs = [config_of(packed.folder.parent), config_of(other.folder)]
    for weights, share in ((None, 4), ([3, 1], 6), ([0.25, 0.75], 2)):
        iterator = xlstm.create_mixed_data_iterator(configs, MESH, weights)
        own = {row.tobytes() for row in rows_of(packed, slice(None))["targets"]}
        for batch in islice(iterator, 20):
            assert sum(row.tobytes() in own for row in arrays_of(batch)["targets"]) == share
    only = xlstm.create_mixed_data_iterator(configs, MESH, [1, 0])
    assert (len(only), only.dataset_size) == (6, 50)
    configs[1].global_batch_size = 4
    with pytest.warns(UserWarning, match=r"config 1 of the mixture has global_batch_size=4.* 8"):
        xlstm.create_mixed_data_iterator(configs, MESH)
    configs[1].global_batch_size = 8
    # until the longest is read once: 50 of every second row, 20 of every second
    assert xlstm.create_mixed_data_iterator(configs, MESH).iterator_length == 100 // 8


def test_batches_ramp_up(packed: Packed) -> None:
    config = config_of(packed.folder.parent, batch_rampup_factors={0: 0.25, 2: 0.5, 4: 1.0})
    iterator = xlstm.create_data_iterator(config, MESH)
    assert [len(batch.inputs) for batch in islice(iterator, 6)] == [2, 2, 4, 4, 8, 8]


@pytest.mark.parametrize("step", [0, 3, 6, 8, 13])
def test_a_state_goes_on_in_its_epoch(packed: Packed, step: int) -> None:
    def fresh() -> xlstm.MultiHostDataLoadIterator:
        config = config_of(packed.folder.parent, shuffle_data=True)
        return xlstm.create_data_iterator(config, MESH)

    whole = fresh()
    batches = [batch for _ in range(3) for batch in whole]
    one, count = fresh(), 0
    for _ in range(3):
        for _ in one if count < step else ():
            count += 1
            if count == step:
                break
    state = pickle.loads(pickle.dumps(one.get_state()))
    assert state["iterator_length"] == 6
    again = fresh()
    again.set_state(state)
    rest = [batch for _ in range(3) for batch in again]
    for batch, wanted in zip(rest, batches[step:], strict=False):
        assert_same(batch, arrays_of(wanted))


def test_a_state_of_other_rows_is_an_error(packed: Packed, tmp_path: Path) -> None:
    folder = packed.folder.parent
    one = xlstm.create_data_iterator(config_of(folder, max_steps_per_epoch=2), MESH)
    padded = config_of(folder, max_steps_per_epoch=2, drop_remainder=False)
    with pytest.raises(ConflictError, match="made with datasets"):
        xlstm.create_data_iterator(padded, MESH).set_state(one.get_state())
    files = write_records(tmp_path / "train", [[2 + i, 3] for i in range(40)], (1,))

    def iterator(**told: Any) -> Any:
        config = config_of(files.parent, tokenize_data=False, **told)
        return xlstm.create_data_iterator(config, MESH)

    state = iterator(eod_token_id=EOD).get_state()
    iterator(eod_token_id=EOD).set_state(state)
    for told in ({"eod_token_id": 3}, {"eod_token_id": EOD, "add_eod": False}):
        with pytest.raises(ConflictError, match="made with datasets"):
            iterator(**told).set_state(state)


def test_a_state_of_other_epochs_is_an_error(packed: Packed) -> None:
    one = xlstm.create_data_iterator(config_of(packed.folder.parent), MESH)
    limited = config_of(packed.folder.parent, max_steps_per_epoch=2)
    with pytest.raises(ConflictError, match="epochs of 6 batches"):
        xlstm.create_data_iterator(limited, MESH).set_state(one.get_state())


def test_a_host_has_its_part_of_a_packed_dataset(packed: Packed) -> None:
    dataset = open_dataset(packed.folder)
    for host, (start, stop) in enumerate([(0, 17), (17, 34), (34, 50)]):
        rows, source = xlstm.preprocess_dataset(
            host, 3, dataset, "text", False, 6, LENGTH, False, 0, num_epochs=1
        )
        assert source is dataset
        found = [row["targets"] for row in rows]
        np.testing.assert_array_equal(found, rows_of(packed, slice(start, stop))["targets"])


def test_the_rows_of_a_host_are_a_source_of_grain(packed: Packed) -> None:
    rows, _ = xlstm.preprocess_dataset(
        1, 2, open_dataset(packed.folder), "text", False, 8, LENGTH, True, 3, num_epochs=1
    )
    batches = list(grain.MapDataset.source(rows).batch(5).to_iter_dataset())
    found = np.concatenate([batch["targets"] for batch in batches])
    np.testing.assert_array_equal(found, [row["targets"] for row in rows])
    with pytest.raises(IndexError):
        rows[len(rows)]


@pytest.mark.parametrize("kind", ["packed", "records", "files"])
def test_other_processes_have_the_rows_of_the_host(
    packed: Packed, tmp_path: Path, kind: str
) -> None:
    records = [[2 + i, 3] for i in range(20)]
    sources: dict[str, Any] = {
        "packed": open_dataset(packed.folder),
        "records": [np.array(record, "<i4").tobytes() for record in records],
    }
    if kind == "files":
        sources["files"] = xlstm.load_array_record_dataset(write_records(tmp_path, records, (1,)))
    told: dict[str, Any] = {"num_epochs": 1, "eod_token_id": None if kind == "packed" else EOD}
    rows, _ = xlstm.preprocess_dataset(
        1, 2, sources[kind], "text", False, 4, LENGTH, False, 0, **told
    )
    before = [row["targets"].tolist() for row in rows]
    assert rows[0]["targets"].tolist() == before[0]  # by number, for which a loader is open
    again = pickle.loads(pickle.dumps(rows))
    assert len(again) == len(rows)
    assert [again[i]["targets"].tolist() for i in range(len(again))] == before


@pytest.mark.parametrize("which", [[3, 0, -1], range(2, 9, 3), slice(4, None)], ids=str)
def test_some_of_the_rows_of_a_host_are_those_of_its_part(packed: Packed, which: Any) -> None:
    told: Any = ("text", False, 6, LENGTH, False, 0)
    host, _ = xlstm.preprocess_dataset(1, 3, open_dataset(packed.folder), *told)
    found = host.rows.select(which)[:]["tokens"]
    np.testing.assert_array_equal(found, packed.tokens[np.arange(17, 34)[which]])
    records = [[i + 2, 3] for i in range(50)]
    own, _ = xlstm.preprocess_dataset(1, 3, records, *told, eod_token_id=EOD)
    found = own.rows.select(which)[:]["tokens"][:, 0]
    assert found.tolist() == (np.arange(17, 34)[which] + 2).tolist()
    padded, _ = xlstm.preprocess_dataset(
        2, 3, open_dataset(packed.folder), *told, drop_remainder=False
    )
    with pytest.raises(IndexError, match="outside of a dataset of 50"):
        padded.rows.select([17])


def test_a_host_has_its_part_of_a_dataset_in_a_store(
    packed: Packed, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    s3.make_bucket("xlstm")
    objects = open_objects("s3://xlstm/rows")
    for path in filter(Path.is_file, packed.folder.rglob("*")):
        objects.put(str(path.relative_to(packed.folder)), path.read_bytes())
    rows, _ = xlstm.preprocess_dataset(
        1, 3, open_dataset("s3://xlstm/rows"), "text", False, 6, LENGTH, False, 0, num_epochs=1
    )
    found = [row["targets"] for row in rows]
    np.testing.assert_array_equal(found, rows_of(packed, slice(17, 34))["targets"])


def test_records_on_disk_are_read_by_a_config_too(tmp_path: Path) -> None:
    records = [[i + 2] * (i % 9 + 1) for i in range(40)]
    write_records(tmp_path / "train", records, (0, 1))
    config = config_of(tmp_path, tokenize_data=False, eod_token_id=EOD)
    batches = list(xlstm.create_data_iterator(config, MESH))
    expected = batches_of(
        records,
        LENGTH,
        EOD,
        host=0,
        hosts=1,
        batch=8,
        add_eod=True,
        drop_remainder=True,
        max_steps=None,
    )
    for batch, wanted in zip(batches, expected, strict=True):
        assert_same(batch, wanted)


def test_mistakes_say_what_to_do(packed: Packed, tmp_path: Path) -> None:
    good = packed.folder.parent
    wrong: list[tuple[str, Any]] = [
        ("--seq-len 15", config_of(good, max_target_length=16)),
        ("dataprep tokenize hf:", config_of(tmp_path / "none")),
        (
            "dataprep tokenize hf:c4",
            SimpleNamespace(hf_path="c4", split="train", max_target_length=9, global_batch_size=1),
        ),
        (
            "neither data_path nor hf_path",
            SimpleNamespace(global_batch_size=1, max_target_length=9),
        ),
        ("max_target_length must be", SimpleNamespace(global_batch_size=1)),
        ("an epoch of 50 rows has no batch of 60", config_of(good, global_batch_size=60)),
    ]
    for message, config in wrong:
        with pytest.raises(ConfigError, match=message):
            xlstm.create_data_iterator(config, MESH)
    with pytest.raises(ConfigError, match="process 0 is not among"):
        xlstm.make_grain_iterator(config_of(good), MESH, [1, 2])
    with pytest.raises(ConflictError, match="has no 'step'"):
        xlstm.create_data_iterator(config_of(good), MESH).set_state({"a": 1})
    with pytest.raises(ConfigError, match="host 5 is not among 2"):
        xlstm.make_grain_llm_dataset(5, 2, [[1]] * 4, 2, LENGTH, False, 0)
    with pytest.raises(ConfigError, match="host 4 of 5 has no row: there are 4 in all"):
        xlstm.make_grain_llm_dataset(4, 5, [[1]] * 4, 5, LENGTH, False, 0)
    alike = [config_of(good), config_of(good, shuffle_data=True)]
    with pytest.raises(ConfigError, match="shuffled and limited alike"):
        xlstm.create_mixed_data_iterator(alike, MESH)
    with pytest.raises(ConfigError, match="2 datasets, 2 lengths and 1 weights"):
        xlstm.create_mixed_data_iterator([config_of(good)] * 2, MESH, [1])
    with pytest.raises(ConfigError, match="eod_token_id=7"):
        xlstm.preprocess_dataset(
            0, 1, open_dataset(packed.folder), "text", False, 6, LENGTH, False, 0, eod_token_id=7
        )


def test_weights_that_xlstm_jax_would_not_hear_of_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    write_packed(folder, num_rows=9, seq_len=LENGTH - 1, masks=("loss", "weight"))
    rows = xlstm.load_array_record_dataset(folder)
    with pytest.raises(ConfigError, match="has loss weights, which xlstm-jax does not look at"):
        xlstm.preprocess_dataset(0, 1, rows, "text", False, 4, LENGTH, False, 0)


def test_an_iterator_without_a_length_says_so() -> None:
    iterator = xlstm.MultiHostDataLoadIterator([{"a": np.zeros((2, 3))}], MESH)
    with pytest.raises(TypeError, match="no length"):
        len(iterator)
    assert [batch["a"].shape for batch in iterator] == [(2, 3)]
    with pytest.raises(ConfigError, match="set_state"):
        iterator.set_state({"step": 0, "iterator_length": None, "iterator": {}})


# --- batches ---


def test_document_borders_are_where_a_segment_begins(packed: Packed) -> None:
    batch = next(iter(xlstm.create_data_iterator(config_of(packed.folder.parent), MESH)))
    segments = np.asarray(batch.inputs_segmentation)
    borders = np.asarray(batch.get_document_borders())
    np.testing.assert_array_equal(borders, xlstm.get_document_borders(segments))
    assert borders[:, 0].all()
    for row, column in zip(*np.nonzero(borders[:, 1:]), strict=True):
        assert segments[row, column] != segments[row, column + 1]
    part = batch[:, 3:9]
    np.testing.assert_array_equal(part.get_document_borders(), borders[:, 3:9])
    np.testing.assert_array_equal(part[2:4].inputs, np.asarray(batch.inputs)[2:4, 3:9])


def test_a_batch_is_a_tree_of_arrays() -> None:
    sample = xlstm.LLMBatch.get_sample(2, 5)
    assert [leaf.shape for leaf in jax.tree.leaves(sample)] == [(2, 5)] * 6
    shapes = xlstm.LLMIndexedBatch.get_dtype_struct(2, 5)
    assert shapes.document_idx.shape == (2,)
    made = xlstm.LLMBatch.from_inputs(np.array([[4, 5, 6]]))
    assert (made.inputs.tolist(), made.targets.tolist()) == ([[0, 4, 5]], [[4, 5, 6]])
    doubled = jax.jit(lambda batch: batch.replace(inputs=batch.inputs * 2))(made)
    assert doubled.inputs.tolist() == [[0, 8, 10]]
    indexed = xlstm.LLMIndexedBatch.from_inputs(
        made.inputs, made.targets, document_idx=np.array([3]), sequence_idx=np.array([0])
    )
    assert indexed.document_idx.tolist() == [3]
