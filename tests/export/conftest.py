"""Small datasets to export: plain texts, questions without loss, weights and pictures."""

from __future__ import annotations

import numpy as np
import pytest

from support.datasets import WORDS, pack_here
from support.exporting import Home
from support.inprocess import tokenize_here, write_lines


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("exports")
    rng = np.random.default_rng(3)
    records = [
        {
            "q": " ".join(rng.choice(WORDS, 1 + i % 9)),
            "a": " ".join(rng.choice(WORDS, int(rng.integers(1, 60)))),
            "vision": rng.integers(0, 50, 2 * int(rng.integers(1, 4))).tolist(),
        }
        for i in range(900)
    ]
    source = str(write_lines(folder / "a.jsonl", records))
    common = {"inputs": [source], "tokenizer": "bytes", "shard_bytes": 1 << 16}
    tokenize_here(folder / "plain", fields="a", **common)
    tokenize_here(folder / "masked", fields="[q],a", **common)
    tokenize_here(
        folder / "rich",
        fields="[q],a*0.5,vision",
        modalities={"vision": {"tokens_per_frame": 2, "start": [1], "end": [2, 3]}},
        **common,
    )
    for name, seq_len in (("plain", 400), ("masked", 120), ("rich", 200)):
        out = folder / f"packed_{name}"
        pack_here(out, folder / name, seq_len=seq_len, shard_rows=300, shard_bytes=1 << 16)
    return Home(
        plain=folder / "plain",
        masked=folder / "masked",
        rich=folder / "rich",
        packed=folder / "packed_plain",
        packed_masked=folder / "packed_masked",
        packed_rich=folder / "packed_rich",
    )
