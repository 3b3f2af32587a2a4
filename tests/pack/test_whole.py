"""Whatever the strategy and its options, the packed dataset is whole and its counts add up."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from dataprep.configs.base import StrategyName
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.pack.strategies import STRATEGIES
from dataprep.pipeline.storage.manifest import read_manifest
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines

LENGTHS = (1, 2, 3, 30, 31, 32, 33, 64, 65, 200, 7, 5)


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents around the length of a row; some have no loss, so that rows have no target."""
    home = tmp_path_factory.mktemp("whole")
    records = [
        {"fields": fields, "a": "x" * length, "q": "y"}
        for fields, length in product(("a", "[a]", "[q],a"), LENGTHS)
    ]
    path = write_lines(home / "in.jsonl", records)
    out = home / "out"
    tokenize_here(out, inputs=[str(path)], tokenizer="bytes", fields_from="fields")
    return out


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"drop_empty_targets": True},
    {"max_segments": 2},
    {"drop_tail": True},
    {"pad_side": "left", "truncate_side": "left"},
    {"compat": "lwm"},
    {"compression": "zstd", "window": 5},
    {"pad_id": 3, "shard_bytes": 1 << 16, "shard_rows": 7},
)


def test_overflow_goes_with_every_strategy_that_does_not_cut_anywhere() -> None:
    need = PackConfig.goes_with["overflow"]
    takes = {name for name in STRATEGIES if need.is_given(PackConfig(strategy=name))}
    assert takes == {name for name, strategy in STRATEGIES.items() if strategy.keeps_blocks}
    assert set(STRATEGIES) == {*get_args(StrategyName)}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("overflow", ["split", "truncate", "drop"])
def test_a_packed_dataset_is_whole(
    tokenized: Path, tmp_path: Path, strategy: str, overflow: str
) -> None:
    for number, options in enumerate(OPTIONS):
        out = tmp_path / str(number)
        config = {"seq_len": 31, "strategy": strategy, "overflow": overflow, **options}
        PackConfig.model_validate(config)
        pack_here(out, tokenized, **config)
        assert verify(out).num_items == read_manifest(out).counts["rows"] > 0
