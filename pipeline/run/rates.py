"""How fast this machine is: tokens that one core tokenizes, and packs, in a second.

    tokenize    of the sample of the inputs, by the engine that a run would take without a new proof
    pack        of documents of about the same lengths, made up, tokenized and packed in a temporary
                folder: by the worker of `pack`, called here
    plan_rows   of these: the strategy, which runs before the workers and by itself

A file gives what was measured elsewhere, all or some of it:

    {"tokenize": 2.1e6, "pack": 3.0e8, "plan_rows": 5.0e8}
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.pack.recipe import recipe_of
from dataprep.pipeline.tokenize import tokenize
from dataprep.pipeline.typed import decode_as

MEASURED_TOKENS = 2_000_000  # that are packed: enough for a fifth of a second
LONGEST = 1 << 20  # tokens of a made-up document
IDS = 250  # ids of made-up documents are below it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Tokens that one core works off in a second; None: to be measured."""

    tokenize: float | None = None
    pack: float | None = None
    plan_rows: float | None = None


def read_rates(path: str) -> Rates:
    """Return the rates in a file of JSON, which may lack some."""
    try:
        data = read_bounded(path)
        values = json.loads(data)
        rates = decode_as(data, Rates)
    except OSError as error:
        raise ConfigError(f"cannot read --rates {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ConfigError(f"--rates {path} is not a table of rates: {error}") from None
    known = asdict(Rates())
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(
            f"--rates {path} has the unknown rate {unknown[0]!r}; known: {', '.join(known)}"
        )
    for name, value in asdict(rates).items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"--rates {path}: {name} is {value}, but must be above 0")
    return rates


def measure_packing(lengths: NDArray[Any], config: PackConfig) -> Rates:
    """Return how fast documents of these lengths are packed here, by one core."""
    with tempfile.TemporaryDirectory(prefix="dataprep-rates-") as name:
        folder = Path(name)
        tokens = _make_dataset(lengths, folder)
        updates = {"inputs": (str(folder / "tokens"),), "out": str(folder / "rows"), "select": None}
        if config.overflow == "turns":  # made-up documents have no turns
            updates["overflow"] = "truncate"
        recipe, work = recipe_of(config.model_copy(update=updates)), folder / "work"
        work.mkdir()
        corpus = recipe.plan()
        began = time.process_time()
        jobs = recipe.begin(corpus, work, silent)
        planned = time.process_time()
        run = import_module(jobs.worker).begin(work)
        ready = time.process_time()
        for job in jobs.markers.left():
            run(job, lambda message: None)()
        ended = time.process_time()
    return Rates(
        pack=tokens / max(ended - ready, 1e-6), plan_rows=tokens / max(planned - began, 1e-6)
    )


def _make_dataset(lengths: NDArray[Any], folder: Path) -> int:
    """Tokenize made-up documents of these lengths, over and over, up to MEASURED_TOKENS; return
    their tokens."""
    known = np.minimum(lengths[lengths > 0], LONGEST)
    known = known if len(known) else np.array([1000])
    times = max(1, MEASURED_TOKENS // int(known.sum()))
    every = np.tile(known, times)
    every = every[: int(np.searchsorted(np.cumsum(every), MEASURED_TOKENS)) + 1]
    path = folder / "ids.jsonl"
    with open(path, "w", encoding="ascii") as file:
        for length in every.tolist():
            ids = np.arange(length) % IDS
            file.write('{"ids": [' + ",".join(map(str, ids.tolist())) + "]}\n")
    settings = {
        "inputs": [str(path)],
        "tokenizer": "bytes",
        "pretokenized": {"tokens": "ids"},
        "out": str(folder / "tokens"),
        "workers": 1,
    }
    outcome = tokenize(TokenizeConfig.model_validate(settings), cache_dir=folder / "cache")
    return outcome.manifest.counts["tokens"]
