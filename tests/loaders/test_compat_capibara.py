"""Capibara's loader: its three arrays, epochs, states and settings."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import dataprep
from dataprep.loaders import open_dataset
from dataprep.loaders.compat.capibara import CapibaraDataLoader, DataLoaderConfig
from dataprep.pipeline.errors import ConfigError, ConflictError
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines
from support.packed import Packed, write_packed


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("capibara") / "wikitext"
    return write_packed(folder, num_rows=21, seq_len=15)


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(array).tolist() for name, array in batch.items()}


def test_batches_are_tokens_mask_and_labels(packed: Packed) -> None:
    loader = CapibaraDataLoader(
        dataset_name="wikitext", cache_dir=packed.folder.parent, batch_size=4, shuffle=False
    )
    batches = list(loader)
    assert len(batches) == len(loader) == 5
    for k, batch in enumerate(batches):
        rows = slice(4 * k, 4 * k + 4)
        assert all(isinstance(array, jax.Array) for array in batch.values())
        assert {*batch} == {"input_ids", "attention_mask", "labels"}
        np.testing.assert_array_equal(batch["input_ids"], packed.tokens[rows])
        np.testing.assert_array_equal(batch["attention_mask"], packed.segment_ids[rows] > 0)
        labels = np.where(packed.masks["loss"][rows], packed.tokens[rows], -100)
        np.testing.assert_array_equal(batch["labels"], labels.astype(np.int64))


def test_loops_are_epochs_that_differ_and_a_state_goes_on(packed: Packed) -> None:
    def make() -> CapibaraDataLoader:
        return CapibaraDataLoader(dataset_name=packed.folder, batch_size=4, remainder="pad", seed=3)

    loader = make()
    epochs = [[plain(batch) for batch in loader] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 3 == [6] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    first = {row[0] for batch in epochs[1] for row in batch["input_ids"]}
    assert first >= {int(row[0]) for row in packed.tokens}
    again = make()
    next(iter(again))
    again.set_epoch(1)
    found = [plain(batch) for batch in islice(again, 2)]
    state = json.loads(json.dumps(again.get_state()))
    third = make()
    third.set_state(state)
    assert found + [plain(batch) for batch in third] == epochs[1]
    assert [plain(batch) for batch in third] == epochs[2]
    with pytest.raises(ConflictError, match="not the state of a CapibaraDataLoader"):
        third.set_state({"step": 3})
    for one in (loader, again, third):
        one.close()


@pytest.mark.parametrize("form", [SimpleNamespace, DataLoaderConfig, dict])
def test_settings_come_from_the_config_unless_they_are_told(packed: Packed, form: Any) -> None:
    config = form(
        batch_size={0: 2, 3: 4}, dataset_name=str(packed.folder), shuffle=False, max_length=16
    )
    grown = [batch["labels"].shape for batch in CapibaraDataLoader(config)]
    assert grown == [(2, 16)] * 3 + [(4, 16)] * 3
    assert {b["labels"].shape for b in CapibaraDataLoader(config, batch_size=7)} == {(7, 16)}


def test_open_datasets_and_mixtures_are_data_too(packed: Packed) -> None:
    rows = open_dataset(packed.folder)
    mix = {"a": (packed.folder, 2), "b": (packed.folder, 1)}
    for data in (rows, mix):
        loader = CapibaraDataLoader(dataset_name=data, batch_size=3, num_workers=0)  # type: ignore[arg-type]
        assert next(iter(loader))["input_ids"].shape == (3, 16)


def test_batches_of_documents_follow_their_lengths(tmp_path: Path) -> None:
    texts = ["word " * (i % 9 + 1) for i in range(40)]
    dataprep.tokenize(inputs=[texts], tokenizer="bytes", out=tmp_path / "d")
    size = dataprep.Longest(8, multiple_of=8)
    loader = CapibaraDataLoader(
        dataset_name="d", cache_dir=tmp_path, batch_size=size, max_length=64
    )
    shapes = [batch["labels"].shape for batch in loader]
    assert len(shapes) == len(loader) == 5
    assert {rows for rows, _ in shapes} == {8}
    assert max(length for _, length in shapes) <= 64
    with pytest.raises(ConfigError, match=r"max_length=16, but .* at most 15 columns"):
        CapibaraDataLoader(dataset_name=tmp_path / "d", batch_size=size, max_length=16)


def test_a_class_of_ones_own_collates_rows(packed: Packed) -> None:
    class Own(CapibaraDataLoader):
        def _collate_fn(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
            assert {row["labels"].shape for row in batch} == {(16,)}
            return {"rows": len(batch)}

    assert list(Own(dataset_name=packed.folder, batch_size=10)) == [{"rows": 10}] * 2


def test_what_cannot_be_loaded_is_an_error(packed: Packed, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no dataset wikitext; make it with .* hf:wiki"):
        CapibaraDataLoader()
    with pytest.raises(ConfigError, match=r"no dataset .*/c4; make it"):
        CapibaraDataLoader(dataset_name="c4", cache_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"the rows have 16 tokens; .* --seq-len 2047"):
        CapibaraDataLoader(dataset_name=packed.folder, batch_size=4, max_length=2048)
    with pytest.raises(ConfigError, match="num_workers must be at least 0"):
        CapibaraDataLoader(dataset_name=packed.folder, batch_size=4, num_workers=-1)
    with pytest.raises(ConfigError, match="the tokenizer has 7 ids"):
        CapibaraDataLoader(None, range(7), packed.folder, 4)


@pytest.mark.parametrize("mask", ["weight", "rejected"])
def test_masks_that_capibara_would_not_hear_of_are_refused(tmp_path: Path, mask: str) -> None:
    write_packed(tmp_path / "d", num_rows=9, seq_len=15, masks=("loss", mask))
    with pytest.raises(ConfigError, match="which Capibara does not look at"):
        CapibaraDataLoader(dataset_name=tmp_path / "d", batch_size=4)


def test_masks_that_no_record_needed_are_no_reason_to_refuse(tmp_path: Path) -> None:
    """Rows of `dataprep run` have room for what records may say; what is not read yet is told."""

    def made(name: str, specs: list[str]) -> Path:
        records = [{"f": spec, "q": "a", "a": "b"} for spec in specs]
        lines = str(write_lines(tmp_path / f"{name}.jsonl", records))
        documents, out = tmp_path / f"{name}-documents", tmp_path / name
        tokenize_here(documents, inputs=[lines], tokenizer="bytes", fields_from="f")
        pack_here(out, documents, seq_len=7, strategy="pad", all_masks=True)
        assert "weight" in open_dataset(out).masks
        return out

    plain = ["[q],a"] * 20
    size = dataprep.Longest(4)
    CapibaraDataLoader(dataset_name=made("plain", plain), batch_size=4).close()
    CapibaraDataLoader(dataset_name=tmp_path / "plain-documents", batch_size=size).close()
    with pytest.raises(ConfigError, match="has loss weights, which Capibara does not look at"):
        CapibaraDataLoader(dataset_name=made("weighted", [*plain, "[q],a*0.5"]), batch_size=4)
    with pytest.raises(ConfigError, match="has loss weights"):
        CapibaraDataLoader(dataset_name=tmp_path / "weighted-documents", batch_size=size)
    late = made("late", [*plain * 13, "[q],a*0.5"])
    with pytest.warns(UserWarning, match="first 256 rows of .*late.* have no loss weights, but"):
        CapibaraDataLoader(dataset_name=late, batch_size=4).close()
