"""A dataset of each kind, small, with all that a kind can have: masks, weights, padding, errors."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.publish import carry_out, prepare_publication
from dataprep.pipeline.pack.recipe import recipe_of
from dataprep.pipeline.pack.worker import begin
from support.encoding import encode_here, png
from support.inprocess import tokenize_here, write_lines

KINDS = ("tokenized", "packed", "encoded")
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")


def pack_here(out: Path, *inputs: Path, **config: Any) -> None:
    """Pack without processes."""
    values = {**config, "inputs": list(map(str, inputs)), "out": str(out)}
    recipe = recipe_of(PackConfig.model_validate(values))
    corpus, work = recipe.plan(), out / ".work"
    work.mkdir(parents=True)
    markers = recipe.begin(corpus, work, silent).markers
    run = begin(work)
    for job in markers.left():
        run(job, lambda message: None)()
    carry_out(prepare_publication(recipe.draft(corpus, work, markers), work), out, work)
    shutil.rmtree(work)


def make_all(home: Path) -> dict[str, Path]:
    """Return a dataset of each kind; the packed one is made from the tokenized one."""
    home.mkdir(parents=True, exist_ok=True)
    folders = {kind: home / kind for kind in KINDS}
    rng = np.random.default_rng(0)
    inputs = [write_lines(home / f"{n}.jsonl", _records(rng, n)) for n in (400, 700)]
    tokenize_here(
        folders["tokenized"],
        inputs=list(map(str, inputs)),
        tokenizer="bytes",
        fields="[q],a*0.5,vision",
        modalities={"vision": {"tokens_per_frame": 2, "start": [1], "end": [2, 3]}},
        shard_bytes=1 << 17,
        on_error="quarantine",
        keys="content",
    )
    pack_here(
        folders["packed"], folders["tokenized"], seq_len=100, shard_rows=500, shard_bytes=1 << 16
    )
    (home / "pictures").mkdir()
    for i in range(5):
        (home / "pictures" / f"{i}.png").write_bytes(png(i))
    (home / "pictures" / "bad.png").write_bytes(b"none")
    encode_here(
        folders["encoded"],
        home / "pictures",
        shard_records=2,
        on_error="quarantine",
        settings={"size": 8, "cells": 2},
    )
    return folders


def _records(rng: np.random.Generator, count: int) -> Sequence[Any]:
    made: list[Any] = [
        {
            "q": " ".join(rng.choice(WORDS, 8)),
            "a": " ".join(rng.choice(WORDS, int(rng.integers(1, 60)))),
            "vision": rng.integers(0, 50, 2 * int(rng.integers(1, 4))).tolist(),
        }
        for _ in range(count)
    ]
    made[count // 2] = "{bad"
    return made


def copies(folders: dict[str, Path], home: Path) -> dict[str, Path]:
    """Copy datasets, to damage them."""
    return {kind: Path(shutil.copytree(path, home / kind)) for kind, path in folders.items()}
