"""Choose the engine of a run, and check it; and how many workers it has, by how much is left.

    below  2 MB    the reference: a fast engine takes a second longer to load
    below 50 MB    an engine whose proof is there already, else the reference
    above          an engine; its proof takes half a minute, once for a tokenizer

    each 32 MB     one more worker, up to the cores: a fast engine encodes as much plain text while
                   a worker starts. All cores for what takes longer.

The output does not depend on it: engines are proven equal to the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dataprep.pipeline.engine import (
    Selection,
    TokenizerFiles,
    reference_selection,
    rule_out,
    select_engine,
)
from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.jobs.executors import Message, workers_worth
from dataprep.pipeline.jobs.recipes import Report, UntrustedWorkError
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.tokenize.sample import InexactEngineError, SampleCheck
from dataprep.pipeline.types import Source, Task

TINY_BYTES = 2_000_000
SMALL_BYTES = 50_000_000
BYTES_PER_WORKER = 32 << 20
BYTES_PER_RECORD = 10_000  # a guess, for tasks that read only some records of their pieces


def choose_engine(
    requested: str, plan: TokenizePlan, tasks: Sequence[Task], cache_dir: Path, report: Report
) -> Selection:
    """Return the engine for these tasks of a plan."""
    files = plan.vocabulary.files
    if not plan.has_texts:
        return reference_selection(files)
    size = sum(_bytes_of(task, plan.sources) for task in tasks)
    if requested == "auto" and size < TINY_BYTES:
        return reference_selection(files)

    def tell(engine: str, done: int, total: int) -> None:
        report("proof", {"proving": engine, "done": done, "total": total})

    return select_engine(
        requested, files, cache_dir=cache_dir, proves=size >= SMALL_BYTES, tell=tell
    )


def workers_for(selection: Selection, plan: TokenizePlan, tasks: Sequence[Task], most: int) -> int:
    """Return how many workers these tasks are worth, unless the config says it; at most `most`."""
    is_fast = selection.proof is not None and not any(plan.chats)
    if not is_fast or not all(map(_is_plain, plan.sources)):
        return most
    size = sum(_bytes_of(task, plan.sources) for task in tasks)
    return workers_worth(size, BYTES_PER_WORKER, most)


def _is_plain(source: Source) -> bool:
    """Return whether what a source holds takes as many bytes as its file."""
    return format_of(source.kind).has_offsets and not source.compression


def _bytes_of(task: Task, sources: Sequence[Source]) -> float:
    """Return about how many bytes a task reads; infinitely many where the size is not known."""
    is_known = all(sources[piece.source].num_bytes >= 0 for piece in task.pieces)
    size = task.num_bytes if is_known else math.inf
    return size if task.limit < 0 else min(size, task.limit * BYTES_PER_RECORD)


def sample_checker(
    selection: Selection, files: TokenizerFiles, cache_dir: Path
) -> Callable[[Message], None]:
    """Return the function that ends the run if the engine gave other ids than the reference."""
    check = SampleCheck(files, selection)

    def on_message(message: Message) -> None:
        try:
            check(message["sample"])
        except InexactEngineError as error:
            with suppress(OSError):
                rule_out(selection, files, str(error), cache_dir=cache_dir)
            raise UntrustedWorkError(
                DataprepError(
                    f"engine {selection.name} {selection.version} is not exact: {error}; it is "
                    "ruled out for this tokenizer and the work was thrown away; run the same "
                    "command again"
                )
            ) from None

    return on_message
