"""TrainScale's wrappers of datasets, and loaders of torch over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest

import dataprep
from dataprep.loaders.compat import trainscale
from dataprep.pipeline.errors import ConfigError, InputError

torch = pytest.importorskip("torch")

# Workers of torch are forks; jax, which other tests start in this process, warns of every fork.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


def test_sequences_are_padded_alone() -> None:
    rows = [[1, 2, 3], torch.tensor([4])]
    assert trainscale.pad_sequence_right(rows, 9).tolist() == [[1, 2, 3], [4, 9, 9]]
    assert trainscale.pad_sequence_left(rows, 9, 2).tolist() == [[2, 3], [9, 4]]


def test_batches_are_tensors() -> None:
    spec = trainscale.TensorSpec
    schema = trainscale.OutputSchema(labels=spec("int"), extras={"scores": spec("bfloat16")})
    examples = [{"labels": torch.tensor([5, 6]), "scores": [0.5]}, {"labels": [7], "scores": [1]}]
    batch = trainscale.create_collate_fn(output_schema=schema)(examples)
    assert batch["labels"].tolist() == [[5, 6], [7, -100]]
    assert batch["labels"].dtype == torch.int32
    assert batch["scores"].dtype == torch.bfloat16


# --- wrappers ---


def ids_of(record: Any) -> list[int]:
    return [*record["text"].encode()]


@dataclass
class Processed:
    input_ids: list[int]
    attention_mask: list[int]
    labels: list[int]
    input_length: int  # which models do not take
    kto_tag: bool  # which TrainScale leaves out of batches, though it is what KTO learns from


class Ok(SimpleNamespace):
    """As TrainScale's engine returns its results."""


class Engine:
    """What TrainScale's PromptEngine looks like from outside."""

    def process(self, record: Any) -> Ok:
        if not record["text"]:
            return Ok(error="no text")
        ids = ids_of(record)
        return Ok(value=Processed(ids, [1] * len(ids), [-100, *ids[1:]], len(ids), True))


TEXTS = [f"text {i}" for i in range(23)]
RECORDS = [{"text": text, "number": i} for i, text in enumerate(TEXTS)]


def plain(example: dict[str, Any]) -> dict[str, list[int]]:
    return {name: tensor.tolist() for name, tensor in example.items()}


def texts_of(examples: Any) -> list[str]:
    return [bytes(example["input_ids"].tolist()).decode() for example in examples]


def document(record: Any) -> dict[str, Any]:
    """As dataprep makes documents."""
    ids = np.array(ids_of(record), np.int32)
    return {"tokens": ids, "loss_mask": np.arange(len(ids)) > 0, "vision_mask": ids < 0}


@pytest.mark.parametrize("make", [Engine(), document, ids_of], ids=["theirs", "ours", "ids"])
def test_any_engine_makes_examples(make: Any) -> None:
    wrapped = trainscale.PreprocessedDataset(datasets.Dataset.from_list(RECORDS), make)
    ids = [*b"text 3"]
    labels = ids if make is ids_of else [-100, *ids[1:]]
    wanted = {"input_ids": ids, "attention_mask": [1] * 6, "labels": labels}
    found = plain(wrapped[3])
    own = {"kto_tag": 1} if isinstance(make, Engine) else {}
    assert {name: found[name] for name in found if name != "vision_mask"} == wanted | own
    assert all(tensor.dtype == torch.int64 for tensor in wrapped[3].values())
    assert len(wrapped) == 23
    assert plain(wrapped[-20]) == found
    assert found.get("vision_mask", [0] * 6) == [0] * 6


def test_a_processor_makes_what_tokenize_would_write() -> None:
    engine = dataprep.processor(tokenizer="bytes", fields="[title],text", add_bos=True)
    record = {"title": "a", "text": "bc"}
    wrapped = trainscale.PreprocessedDataset([record], engine)
    wanted = engine.process(record)
    assert wrapped[0]["input_ids"].tolist() == wanted["tokens"].tolist()
    kept = wrapped[0]["labels"] != -100
    assert kept.tolist() == wanted["loss_mask"].tolist()
    loader = torch.utils.data.DataLoader(
        trainscale.create_preprocessed_dataset(Stream([record] * 5), engine),
        batch_size=5,
        num_workers=1,
        collate_fn=trainscale.create_collate_fn(),
    )
    (batch,) = loader
    assert batch["input_ids"].tolist() == [wanted["tokens"].tolist()] * 5


def test_examples_are_made_once_and_a_caller_cannot_change_them() -> None:
    calls: Counter[str] = Counter()

    def engine(record: Any) -> list[int]:
        calls[record["text"]] += 1
        return ids_of(record)

    kept = trainscale.PreprocessedDataset(RECORDS, engine)
    kept[2]["input_ids"].zero_()
    assert texts_of([kept[2], kept[-21]]) == ["text 2"] * 2
    assert calls == {"text 2": 1}
    kept.clear_cache()
    again = trainscale.PreprocessedDataset(RECORDS, engine, cache_enabled=False)
    assert texts_of([kept[2], again[2], again[2]]) == ["text 2"] * 3
    assert calls == {"text 2": 4}


@pytest.mark.parametrize("records", [RECORDS, datasets.Dataset.from_list(RECORDS)])
def test_a_selection_is_lazy(records: Any) -> None:
    read: list[str] = []

    def transform(record: Any) -> Any:
        read.append(record["text"])
        return record

    some = trainscale.PreprocessedDataset(records, ids_of, transform=transform).select([5, 1, 7])
    assert len(some) == 3
    assert not read
    assert texts_of(some.select([2, 0])[i] for i in range(2)) == ["text 7", "text 5"]
    assert read == ["text 7", "text 5"]
    with pytest.raises(IndexError):
        some[3]


@pytest.mark.parametrize("mapping", [{"text": "body"}, {"body": "text"}])
def test_columns_are_renamed_in_the_direction_that_the_record_tells(mapping: Any) -> None:
    wrapped = trainscale.PreprocessedDataset([{"body": "hi", "id": 3}], ids_of, mapping)
    assert texts_of([wrapped[0]]) == ["hi"]


def test_a_mapping_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(InputError, match=r"record 0: .*'boddy'.*columns: body, id"):
        trainscale.PreprocessedDataset([{"body": "hi", "id": 3}], ids_of, {"text": "boddy"})[0]
    with pytest.raises(InputError, match="'id', which the record has already"):
        trainscale.PreprocessedDataset([{"body": "hi", "id": 3}], ids_of, {"id": "body"})[0]


def test_bad_records_and_engines_are_errors_that_say_which() -> None:
    bad = [{"text": "a"}, {"text": ""}, {}]
    wrapped = trainscale.PreprocessedDataset(bad, Engine())
    with pytest.raises(InputError, match="record 1: no text"):
        wrapped[1]
    with pytest.raises(InputError, match="record 2: KeyError: 'text'"):
        wrapped[2]
    with pytest.raises(InputError, match="must return ids, or a mapping"):
        trainscale.PreprocessedDataset(bad, lambda record: {"x": 1})[0]
    with pytest.raises(ConfigError, match="is no prompt engine"):
        trainscale.PreprocessedDataset(bad, 3)


class Stream:
    """Records that have no numbers."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)


def test_the_factory_picks_the_wrapper() -> None:
    make = trainscale.create_preprocessed_dataset
    table = datasets.Dataset.from_list(RECORDS)
    by_number, in_turn = trainscale.PreprocessedDataset, trainscale.StreamingPreprocessedDataset
    assert isinstance(make(table, ids_of, cache_enabled=False), by_number)
    assert isinstance(make(table, ids_of, streaming=True), in_turn)
    assert isinstance(make(table.to_iterable_dataset(), ids_of), in_turn)
    assert isinstance(make(Stream(RECORDS), ids_of, buffer_size=5), in_turn)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("num_shards", [1, 4])
def test_workers_share_a_stream_and_lose_nothing(workers: int, num_shards: int) -> None:
    table = datasets.Dataset.from_list(RECORDS).to_iterable_dataset(num_shards=num_shards)
    wrapped = trainscale.StreamingPreprocessedDataset(table, ids_of)
    loader = torch.utils.data.DataLoader(wrapped, batch_size=None, num_workers=workers)
    assert texts_of(loader) == TEXTS


def test_bad_records_of_a_stream_are_skipped_and_counted() -> None:
    records = Stream([{"text": "a"}, {}, {"text": "b"}, {"text": ""}])
    wrapped = trainscale.StreamingPreprocessedDataset(records, Engine(), skip_errors=True)
    with pytest.warns(UserWarning, match="skipped 2 records; the first: record 1: KeyError"):
        assert texts_of(wrapped) == ["a", "b"]
    assert wrapped.skipped == 2
    with pytest.raises(InputError, match="record 1"):
        list(trainscale.StreamingPreprocessedDataset(records, Engine()))


def test_a_stream_that_is_spent_is_an_error_in_its_second_epoch() -> None:
    spent = trainscale.StreamingPreprocessedDataset(iter([{"text": "a"}]), ids_of)
    assert len(list(spent)) == 1
    with pytest.raises(ConfigError, match="can be read only once"):
        next(iter(spent))


def test_shuffling_has_a_seed_and_epochs() -> None:
    wrapped = trainscale.StreamingPreprocessedDataset(Stream(RECORDS), ids_of, buffer_size=7)
    assert texts_of(wrapped) == TEXTS
    shuffled = wrapped.shuffle(seed=3)
    first = texts_of(shuffled)
    assert first != TEXTS
    assert sorted(first) == sorted(TEXTS)
    assert texts_of(shuffled) == texts_of(wrapped.shuffle(7, seed=3)) == first
    shuffled.set_epoch(1)
    second = texts_of(shuffled)
    assert second != first
    assert sorted(second) == sorted(TEXTS)
    assert second != texts_of(wrapped.shuffle(7, seed=4))


# --- loaders ---


def rows_of(loader: Any) -> list[list[str]]:
    return [
        [bytes(i for i in row if i).decode() for row in batch["input_ids"].tolist()]
        for batch in loader
    ]


def builder_of(wrapped: Any) -> Any:
    return trainscale.DataLoaderBuilder().with_dataset(wrapped).with_workers(0, pin_memory=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_built_loader_has_an_order_for_every_epoch(workers: int) -> None:
    wrapped = trainscale.create_preprocessed_dataset(RECORDS, ids_of)
    builder = builder_of(wrapped).with_batch_size(4).with_num_workers(workers).with_seed(5)
    loader = builder.build()
    first, second = rows_of(loader), rows_of(loader)
    assert [len(rows) for rows in first] == [4, 4, 4, 4, 4, 3]
    assert sorted(chain(*first)) == sorted(chain(*second)) == sorted(TEXTS)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(5)).tolist()
    assert [*chain(*first)] == [TEXTS[i] for i in order]  # as TrainScale's first epoch has it
    assert second != first
    loader.set_epoch(1)
    assert rows_of(loader) == second
    assert [len(rows) for rows in rows_of(builder.with_drop_last(True).build())] == [4] * 5
    in_order = builder.with_drop_last(False).with_shuffle(False).build()
    assert [*chain(*rows_of(in_order))] == TEXTS


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_of_a_stream_read_different_records(
    workers: int, world_size: int, drop_last: bool
) -> None:
    wrapped = trainscale.create_preprocessed_dataset(Stream(RECORDS), ids_of)
    ranks = [
        rows_of(loader)
        for loader in trainscale.build_distributed_dataloaders(
            wrapped,
            world_size,
            batch_size=4,
            num_workers=workers,
            pin_memory=False,
            drop_last=drop_last,
        )
    ]
    lengths = [[len(rows) for rows in batches] for batches in ranks]
    assert all(one == lengths[0] for one in lengths)
    seen = Counter(text for batches in ranks for rows in batches for text in rows)
    size = 4 * world_size
    if drop_last:
        assert {*seen} == {*TEXTS[: 23 // size * size]}
        assert {*seen.values()} == {1}
    else:
        assert {*seen} == {*TEXTS}
        assert seen.total() == -(-23 // world_size) * world_size


def test_workers_that_stay_see_the_epoch() -> None:
    wrapped = trainscale.create_preprocessed_dataset(Stream(RECORDS), ids_of).shuffle(10)
    found = []
    for workers in (0, 2):
        loader = builder_of(wrapped).with_num_workers(workers).build()
        found.append([rows_of(loader) for _ in range(3)])
    assert found[0] == found[1]
    assert found[0][0] != found[0][1] != found[0][2]


def test_settings_of_a_builder_reach_the_batches() -> None:
    wrapped = trainscale.create_preprocessed_dataset(RECORDS, ids_of)
    config = SimpleNamespace(
        batch_size=2,
        num_workers=0,
        pin_memory=False,
        drop_last=True,
        shuffle=False,
        prefetch_factor=2,
        persistent_workers=True,
    )
    schema = trainscale.OutputSchema(input_ids=trainscale.TensorSpec("int"))
    builder = trainscale.DataLoaderBuilder().with_dataset(wrapped).with_config(config)
    padding = builder.with_padding(9, -1, "left", 8).with_output_schema(schema)
    batch = next(iter(padding.build()))
    assert batch["input_ids"].dtype == torch.int32
    assert batch["input_ids"].tolist() == [[9, 9, *b"text 0"], [9, 9, *b"text 1"]]
    assert batch["labels"].tolist()[0][:2] == [-1, -1]
    own = builder.with_collate_fn(len).with_sampler(range(3)).with_drop_last(False)
    assert list(own.build()) == [2, 1]
    assert list(trainscale.build_dataloader(wrapped, 23, config=config, collate_fn=len)) == [2] * 11


def test_a_builder_refuses_what_would_go_wrong() -> None:
    with pytest.raises(ConfigError, match="call with_dataset"):
        trainscale.DataLoaderBuilder().build()
    wrapped = trainscale.create_preprocessed_dataset(RECORDS, ids_of)
    with pytest.raises(ConfigError, match="rank 2 is not below world_size 2"):
        builder_of(wrapped).with_distributed(rank=2, world_size=2).build()
    stream = trainscale.StreamingPreprocessedDataset(Stream(RECORDS), ids_of, skip_errors=True)
    with pytest.raises(ConfigError, match="leave with_sampler out"):
        trainscale.DataLoaderBuilder().with_dataset(stream).with_sampler(range(3)).build()
    with pytest.raises(ConfigError, match="skip_errors with several ranks"):
        builder_of(stream).with_distributed(0, 2).build()

    class Own(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[Any]:
            return iter(())

    with pytest.raises(ConfigError, match="every rank would read all"):
        builder_of(Own()).with_distributed(0, 2).build()
