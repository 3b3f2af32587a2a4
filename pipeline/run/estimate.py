"""What a config will make, how long it takes and what it costs, told by a sample of its inputs.

    sample   of each corpus, as `tokenize --dry-run` reads it    tokens ± how much its places differ
    rows     of the sample's lengths, by the strategy itself     rows and bytes in that proportion
    rates    measured here, or given                             seconds of one core
    time     = seconds of cores / (workers x nodes, at most one a task) + what only one process does

Nothing is written. Inputs are not hashed, and only their sample is read. What is not in it: the
start of processes, waiting for disks or a network, encoders of media.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.pack import PackConfig
from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.engine import Selection, reference_selection, select_engine
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.pack.strategies import (
    STRATEGIES,
    FittedPieces,
    Window,
    cut_windows,
    fit_pieces,
)
from dataprep.pipeline.run.rates import Rates, measure_packing
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, ends_dtype
from dataprep.pipeline.storage.provenance import ROW_PIECE
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.tokenize.plan import FoundSources, TokenizePlan, find_all_sources
from dataprep.pipeline.tokenize.preview import MOST_PIECES, Preview, preview_of
from dataprep.pipeline.tokenize.recipe import plan_of

ENOUGH_DOCUMENTS = 50_000  # that are packed for the estimate: the sample's, over and over
ENOUGH_ROWS = 500_000  # of these, if documents are longer than rows
PLACES = 64  # that are sampled of a corpus, if it is cut into so many
SAMPLE_BYTES = 1 << 18  # at each place: long documents are in it, too
LEAST_PIECE = 2 * SAMPLE_BYTES
# Standard errors on either side, in 19 cases of 20, by how many places were sampled (Student's t).
SURE = {2: 12.7, 3: 4.3, 4: 3.2, 5: 2.8, 6: 2.6, 7: 2.5, 8: 2.4, 9: 2.3, 10: 2.3}
RUN_BYTES = 4  # of a mask of a row, for each document in it


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEstimate:
    """What packing a corpus in one length will give."""

    seq_len: int
    rows: int
    disk_bytes: int
    core_seconds: float
    alone_seconds: float  # of planning, which is done by one process


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusEstimate:
    name: str
    sources: int
    tasks: int
    input_bytes: int
    documents: int
    tokens: int
    error: float | None  # how far off the tokens are at most in 19 cases of 20, as a part of them
    places: int  # that were sampled
    engine: str
    rates: Rates
    disk_bytes: int
    core_seconds: float  # of tokenizing
    packed: tuple[RowsEstimate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What all corpora will give."""

    corpora: tuple[CorpusEstimate, ...]
    workers: int  # of each node
    nodes: int
    price_per_node_hour: float | None
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(corpus.tokens for corpus in self.corpora)

    @property
    def rows(self) -> int:
        return sum(packed.rows for corpus in self.corpora for packed in corpus.packed)

    @property
    def disk_bytes(self) -> int:
        own = sum(corpus.disk_bytes for corpus in self.corpora)
        return own + sum(packed.disk_bytes for corpus in self.corpora for packed in corpus.packed)

    @property
    def core_seconds(self) -> float:
        own = sum(corpus.core_seconds for corpus in self.corpora)
        return own + sum(p.core_seconds + p.alone_seconds for c in self.corpora for p in c.packed)

    @property
    def seconds(self) -> float:
        """Return how long it takes, corpus after corpus, as `run` does them."""
        total = 0.0
        for corpus in self.corpora:
            total += corpus.core_seconds / min(self.workers * self.nodes, max(1, corpus.tasks))
            for packed in corpus.packed:
                total += packed.core_seconds / (self.workers * self.nodes) + packed.alone_seconds
        return total

    @property
    def cost(self) -> float | None:
        if self.price_per_node_hour is None:
            return None
        return self.seconds / 3600 * self.nodes * self.price_per_node_hour

    @property
    def error(self) -> float | None:
        """Return how far off all tokens are at most in 19 cases of 20, as a part of them."""
        known = [(corpus.error, corpus.tokens) for corpus in self.corpora]
        if any(error is None for error, _ in known) or not self.tokens:
            return None
        return float(np.sqrt(sum(((error or 0.0) * n) ** 2 for error, n in known))) / self.tokens

    @property
    def tokens_between(self) -> tuple[int, int] | None:
        """Return between which numbers the tokens are in 19 cases of 20."""
        if self.error is None:
            return None
        return round(self.tokens * max(0.0, 1 - self.error)), round(self.tokens * (1 + self.error))


def estimate(
    config: RunConfig,
    *,
    cache_dir: Path,
    workers: int,
    nodes: int = 1,
    price_per_node_hour: float | None = None,
    rates: Rates | None = None,
) -> Estimate:
    """Look at a sample of every corpus; InputError for one of which nothing can be made."""
    corpora = [
        _of_corpus(name, config.tokenize(name), config.pack_all(name), rates or Rates(), cache_dir)
        for name in config.names
    ]
    return Estimate(
        corpora=tuple(corpora),
        workers=workers,
        nodes=nodes,
        price_per_node_hour=price_per_node_hour,
        notes=tuple(_notes(config)),
    )


def _notes(config: RunConfig) -> Iterator[str]:
    if config.dedup != "none":
        yield "documents that dedup leaves out are counted: nobody knows them before all are read"
    if len(config.splits) > 1:
        yield "splits are estimated as one dataset"


def _of_corpus(
    name: str, config: TokenizeConfig, packs: Sequence[PackConfig], given: Rates, cache_dir: Path
) -> CorpusEstimate:
    if config.encode.inputs:
        raise ConfigError(
            f"corpus {name} has media to encode, and how long an encoder takes is not known; "
            "estimate it without encode.inputs, or from the codes"
        )
    found = find_all_sources(config, cache_dir, None, hashed=False)
    plan = plan_of(config, cache_dir, found=found)
    selection = _engine_of(plan, cache_dir)
    preview = _preview_of(plan, found, cache_dir, selection)
    if preview.all_tokens is None or preview.all_bytes is None:
        raise InputError(
            f"how much is in corpus {name} is not known before it is read; name files of a known "
            "size, or set --limit"
        )
    if not preview.tokens:
        why = preview.first_bad or "all sampled records are empty"
        raise InputError(f"no document can be made of corpus {name}: {why}")
    rates = given
    if rates.tokenize is None:
        rates = replace(rates, tokenize=preview.tokens / max(preview.encoding_seconds, 1e-6))
    if packs and (rates.pack is None or rates.plan_rows is None):
        measured = measure_packing(preview.lengths, packs[0])
        rates = replace(
            rates,
            pack=rates.pack or measured.pack,
            plan_rows=rates.plan_rows or measured.plan_rows,
        )
    return CorpusEstimate(
        name=name,
        sources=len(plan.sources),
        tasks=len(plan.tasks),
        input_bytes=sum(task.num_bytes for task in plan.tasks),
        documents=round(preview.all_tokens * preview.documents / preview.tokens),
        tokens=preview.all_tokens,
        error=_error_of(preview),
        places=preview.places,
        engine=selection.name,
        rates=rates,
        disk_bytes=preview.all_bytes,
        core_seconds=preview.all_tokens / (rates.tokenize or 1.0),
        packed=tuple(
            _rows_of(pack, plan, preview.lengths, preview.all_tokens, rates) for pack in packs
        ),
    )


def _preview_of(
    plan: TokenizePlan, found: FoundSources, cache_dir: Path, selection: Selection
) -> Preview:
    """Read a sample of enough places; a few large pieces are cut finer for that."""
    total = sum(task.num_bytes for task in plan.tasks)
    if len(plan.sources) < PLACES and len(plan.tasks) < PLACES and plan.config.limit is None:
        fine = plan.config.model_copy(
            update={"shard_bytes": max(2 * total // PLACES, 2 * LEAST_PIECE)}
        )
        plan = plan_of(fine, cache_dir, found=found)
    most = max(MOST_PIECES, -(-PLACES // max(1, len(plan.sources))))
    return preview_of(plan, SAMPLE_BYTES, most_pieces=most, selection=selection)


def _error_of(preview: Preview) -> float | None:
    if preview.tokens == preview.all_tokens:  # all of it was read
        return 0.0
    return None if preview.error is None else SURE.get(preview.places, 2.0) * preview.error


def _engine_of(plan: TokenizePlan, cache_dir: Path) -> Selection:
    """Return the engine of a run, as far as that is known without a new proof."""
    files = plan.vocabulary.files
    if not plan.has_texts:
        return reference_selection(files)
    return select_engine(plan.config.engine, files, cache_dir=cache_dir, proves=False)


def _rows_of(
    config: PackConfig, plan: TokenizePlan, lengths: NDArray[Any], tokens: int, rates: Rates
) -> RowsEstimate:
    """Return what rows these lengths give, in proportion to all tokens."""
    every = repeated(lengths[lengths > 0], config.seq_len + 1)
    rows, pieces = _packed(every, config)
    factor = tokens / int(every.sum())
    layout = RowLayout(
        capacity=config.seq_len + 1,
        masks=plan.masks,
        tokens=TOKEN_DTYPES[plan.token_dtype],
        ends=TOKEN_DTYPES[ends_dtype(config.seq_len)],
    )
    of_piece = layout.ends.itemsize + RUN_BYTES * len(plan.masks) + ROW_PIECE.itemsize
    return RowsEstimate(
        seq_len=config.seq_len,
        rows=round(rows * factor),
        disk_bytes=round((rows * layout.tail_start + pieces * of_piece) * factor),
        core_seconds=tokens / (rates.pack or 1.0),
        alone_seconds=tokens / (rates.plan_rows or 1.0),
    )


def repeated(lengths: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Return the lengths over and over, until they are packed as those of a large corpus would be.

    >>> len(repeated(np.array([100, 200]), 4096)), len(repeated(np.array([1 << 20]), 256))
    (50000, 122)
    """
    enough_tokens = ENOUGH_ROWS * capacity
    times = min(ENOUGH_DOCUMENTS // len(lengths), enough_tokens // int(lengths.sum()))
    return np.tile(lengths, max(1, times))


def _packed(lengths: NDArray[Any], config: PackConfig) -> tuple[int, int]:
    """Return the rows of documents of these lengths, and the pieces in them."""

    def fit(window: Window) -> FittedPieces:
        # Which turns are kept is not known; about as much as when the end is cut off.
        overflow = "truncate" if config.overflow == "turns" else config.overflow
        return fit_pieces(
            window.lengths,
            config.seq_len + 1,
            overflow=overflow,
            truncate_side=config.truncate_side,
        )

    windows = cut_windows([lengths], config.seq_len + 1, window=config.window)
    plans = list(STRATEGIES[config.strategy].plan(windows, config, fit))
    return sum(p.num_rows for p in plans), sum(len(p.length) for p in plans)
