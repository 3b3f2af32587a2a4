"""Batches by lengths are a function of the settings and the step, whatever the settings are: of one
document or of many, of selections, mixtures and grown datasets, at the ends of epochs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.loaders import Buckets, ByTokens, DataLoader, Longest, open_dataset
from dataprep.pipeline.errors import ConfigError
from support.grown import grow, tokenized
from support.inprocess import write_lines
from support.lengths import pieces_of, write_documents
from support.sweeps import few_and_many

MANY = [*range(1, 30), 300, 7, 64, 65, 66, 1, 1, 129]
FEW = [2, 3, 40]

overflows = st.sampled_from(["split", "truncate", "drop"])
batchings = st.one_of(
    st.builds(
        ByTokens,
        st.integers(32, 400),
        multiple_of=st.sampled_from([1, 8, 32]),
        max_length=st.sampled_from([None, 20, 32]),
        overflow=overflows,
    ),
    st.builds(
        Buckets,
        st.dictionaries(st.sampled_from([2, 8, 31, 65, 300]), st.integers(1, 9), min_size=1),
        overflow=overflows,
    ),
    st.builds(
        Longest,
        st.one_of(st.integers(1, 50), st.just({0: 2, 3: 5})),
        multiple_of=st.sampled_from([1, 16]),
        max_length=st.sampled_from([2, 31, 64, 400]),
        overflow=overflows,
    ),
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pure")
    many, few = write_documents(folder / "many", MANY), write_documents(folder / "few", FEW)
    for number, size in enumerate((9, 4)):
        lines = [{"text": "x" * (1 + 7 * i + number)} for i in range(size)]
        grow(folder / "grown", tokenized([write_lines(folder / f"{number}.jsonl", lines)]))
    documents: Any = open_dataset(many)
    return {
        "many": many,
        "one": write_documents(folder / "one", [17]),
        "one token": write_documents(folder / "least", [1]),
        "selected": documents.select([33, 2, 2, 29, 5, 0]),
        "selected one": documents.select([29]),
        "mixed": {"a": (many, 2), "b": (few, 1)},
        "selections": {"a": (documents.select(range(0, 37, 2)), 1), "b": (few, 3)},
        "grown": folder / "grown",
    }


def rows_of_all(loader: DataLoader, steps: range) -> list[Any]:
    return [loader.rows_of(step) for step in steps]


def assert_equal(batch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(batch) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(batch[name], array), name


def check_settings(sources: dict[str, Any], data: Any) -> None:
    name = data.draw(st.sampled_from([*sources]))
    options: dict[str, Any] = {
        "batch_size": data.draw(batchings),
        "shuffle": data.draw(st.booleans()),
        "seed": data.draw(st.integers(0, 3)),
        "epochs": data.draw(st.sampled_from([None, 1, 2, 3])),
        "max_steps_per_epoch": data.draw(st.sampled_from([None, 1, 2, 5])),
        "remainder": data.draw(st.sampled_from(["drop", "pad"])),
        "max_steps": 25,
    }
    if isinstance(sources[name], dict):
        options["exhausted"] = data.draw(st.sampled_from(["stop", "repeat", "drop"]))
    if name == "grown" and options["epochs"] is None:
        options["generation"] = data.draw(st.sampled_from([0, 1, {0: 0, 3: 1}, {0: 0, 1: 1}]))

    def made(**others: Any) -> DataLoader:
        return DataLoader(sources[name], **{"prefetch": 0, **options, **others})

    loader = made_or_refused(made)
    if loader is None:
        return
    count = len(loader)
    assert count <= 25
    with made(prefetch=2) as ahead:
        batches = [{key: np.array(array) for key, array in batch.items()} for batch in ahead]
        assert ahead.get_state()["step"] == count
    assert len(batches) == count
    with pytest.raises(IndexError):
        loader[count]
    assert loader.has(count - 1) is (count > 0)
    assert not loader.has(count)
    rows = rows_of_all(loader, range(count))
    for step in data.draw(st.permutations(range(count)))[:4]:
        other = made()
        assert_equal(other[step], batches[step])
        assert other.rows_of(step) == rows[step]
        assert batches[step]["inputs"].shape in loader.shapes
        assert (batches[step]["segment_ids"] > 0).any(1).sum() == len(rows[step])
    start, hosts = data.draw(st.integers(0, count)), data.draw(st.sampled_from([1, 2, 3]))
    again = made()
    again.set_state(json.loads(json.dumps(loader.state_at(start))))
    for step in range(start, min(count, start + 3)):
        total = len(batches[step]["inputs"])
        if isinstance(options["batch_size"], Longest) and total % hosts:
            continue
        parts = [again.part(step, host, hosts) for host in range(hosts)]
        for key, array in batches[step].items():
            assert np.array_equal(np.concatenate([part[key] for part in parts])[:total], array)
    assert [len(batch["inputs"]) for batch in again] == [
        len(batch["inputs"]) for batch in batches[start:]
    ]
    check_epochs(name, options, loader, rows)


(
    test_any_step_of_any_settings_is_the_same_however_it_is_come_by,
    test_any_step_of_many_settings_is_the_same,
) = few_and_many(check_settings, given(data=st.data()), few=12, many=150)


def made_or_refused(make: Any) -> Any:
    """None where no batch can be made, which must be said."""
    wanted = "none is left|fill no batch|not fill a batch|split needs rows|without epochs"
    try:
        return make()
    except ConfigError:
        with pytest.raises(ConfigError, match=wanted):
            make()
        return None


def check_epochs(name: str, options: dict[str, Any], loader: DataLoader, rows: list[Any]) -> None:
    """Every piece comes once an epoch, whole epochs of one dataset only."""
    lengths = {"many": MANY, "one": [17], "one token": [1]}.get(name)
    batching = options["batch_size"]
    if lengths is None or options["max_steps_per_epoch"] or options["remainder"] == "drop":
        return
    counts = loader.counts[""]
    every = Counter(
        doc for doc, _, _ in pieces_of(lengths, batching.longest + 1, batching.overflow)
    )
    if isinstance(batching, Longest):
        if not isinstance(batching.batch_size, int):
            return
        found = [doc for batch in rows for _, doc in batch]
        for first in range(0, len(found) - counts["pieces"] + 1, counts["pieces"]):
            assert Counter(found[first : first + counts["pieces"]]) == every
        return
    steps = counts["batches"]
    for epoch in range(len(rows) // steps):
        part = rows[epoch * steps : (epoch + 1) * steps]
        assert Counter(doc for batch in part for _, doc in batch) == every
