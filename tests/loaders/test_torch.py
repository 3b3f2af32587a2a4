"""Epochs, states and trainers of torch over our batches."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import ConflictError
from support.packed import Packed, write_packed

torch = pytest.importorskip("torch")

OPTIONS: dict[str, Any] = {"batch_size": 8, "epochs": 1, "seed": 3}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("torch") / "d", num_rows=60, seq_len=8)


def made(kind: str, folder: Path, **options: Any) -> Any:
    from dataprep.loaders.torch import PackedBatches, PackedStream

    return {"batches": PackedBatches, "rows": PackedStream}[kind](folder, **OPTIONS | options)


def tokens(items: Any) -> list[Any]:
    return [item["inputs"].tolist() for item in items]


def test_rows_are_those_of_the_batches_in_order(packed: Packed) -> None:
    ours = tokens(DataLoader(packed.folder, **OPTIONS, prefetch=0))
    assert tokens(made("batches", packed.folder)) == ours
    stream = made("rows", packed.folder)
    assert tokens(stream) == [row for batch in ours for row in batch]
    assert len(stream) == 56
    parts = [made("rows", packed.folder, rank=r, world_size=2) for r in range(2)]
    assert [len(part) for part in parts] == [28, 28]
    assert tokens(parts[1])[:4] == ours[0][4:]


@pytest.mark.parametrize("kind", ["batches", "rows"])
def test_every_epoch_has_every_row_in_an_order_of_its_own(packed: Packed, kind: str) -> None:
    data = made(kind, packed.folder, batch_size=10)
    seen = []
    for epoch in range(3):
        data.set_epoch(epoch)
        data = pickle.loads(pickle.dumps(data))  # as it goes to workers
        ours = tokens(DataLoader(packed.folder, batch_size=10, epochs=1, seed=3 + epoch))
        whole = [row for batch in ours for row in batch]
        assert np.reshape(tokens(data), (60, 8)).tolist() == whole
        seen.append(whole)
    assert seen[0] != seen[1] != seen[2]
    assert sorted(seen[0]) == sorted(seen[1]) == sorted(seen[2])


@pytest.mark.parametrize("kind", ["batches", "rows"])
def test_a_state_goes_on_after_any_item(packed: Packed, kind: str) -> None:
    data = made(kind, packed.folder)
    data.set_epoch(2)
    whole = tokens(data)
    for count in range(0, len(whole) + 1, 5):
        items = iter(data)
        for _ in range(count):
            next(items)
        state = json.loads(json.dumps(data.state_dict()))
        again = made(kind, packed.folder)
        again.load_state_dict(state)
        assert again.state_dict() == state
        again.set_epoch(2)  # which trainers do after they have loaded
        assert tokens(again) == whole[count:]
        assert tokens(again) == whole  # the next loop starts over
    with pytest.raises(ConflictError, match="seed"):
        made(kind, packed.folder, seed=4).load_state_dict(state)
    with pytest.raises(ConflictError, match="not the state"):
        made(kind, packed.folder).load_state_dict({"step": 3})


@pytest.mark.parametrize("kind", ["batches", "rows"])
def test_a_state_between_two_epochs_is_of_the_one_that_comes(packed: Packed, kind: str) -> None:
    data = made(kind, packed.folder)
    tokens(data)
    data.set_epoch(1)
    again = made(kind, packed.folder)
    again.load_state_dict(json.loads(json.dumps(data.state_dict())))
    assert tokens(again) == tokens(data) != []


class Worker:
    """What torch says to a dataset in a worker."""

    def __init__(self, number: int, count: int) -> None:
        self.id, self.num_workers = number, count


def test_each_worker_goes_on_from_its_own_state(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataprep.loaders.torch as ours

    whole = tokens(made("batches", packed.folder))
    states, found = [], []
    for number in range(3):
        monkeypatch.setattr(ours, "get_worker_info", lambda n=number: Worker(n, 3))
        data = made("batches", packed.folder)
        next(iter(data))
        states.append(data.state_dict())
        again = made("batches", packed.folder)
        again.load_state_dict(states[-1])
        found.append(tokens(again))
    assert found == [whole[3::3], whole[4::3], whole[5::3]]
    monkeypatch.setattr(ours, "get_worker_info", lambda: Worker(0, 2))
    again.load_state_dict(states[0])
    with pytest.raises(ConflictError, match="one of 3 workers, there are 2 now"):
        iter(again)


def test_the_trainer_of_transformers_trains_on_our_rows_in_our_order(
    packed: Packed, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.LlamaConfig(
        vocab_size=1000,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    seen: list[Any] = []

    class Model(transformers.LlamaForCausalLM):  # type: ignore[misc,name-defined]
        def forward(self, input_ids: Any, labels: Any, position_ids: Any, **more: Any) -> Any:
            seen.append(input_ids.tolist())
            return super().forward(
                input_ids=input_ids, labels=labels, position_ids=position_ids, **more
            )

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        num_train_epochs=2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    data = made("rows", packed.folder, batch_size=4, view="hf")
    transformers.Trainer(model=Model(config), args=arguments, train_dataset=data).train()
    expected = [
        batch["input_ids"].tolist()
        for epoch in range(2)
        for batch in DataLoader(
            packed.folder, batch_size=4, epochs=1, seed=3 + epoch, view="hf", prefetch=0
        )
    ]
    assert seen == expected
