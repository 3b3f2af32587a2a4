"""A whole run, and what it tells when it is done: summary.json, and figures for Prometheus.

out/summary.json        each step: what was done and why, counts, generation, seconds
--metrics FILE          dataprep_step_documents{step="web/tokenized"} 1200
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, DataprepError
from dataprep.pipeline.files import disk_errors_named, make_folder, write_atomic
from dataprep.pipeline.guards.opening import open_regular
from dataprep.pipeline.jobs.kept import workers_kept
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.run.chain import Begin, ChainStep, Done, Fail, StepChain, Todo
from dataprep.pipeline.run.clean import free_replaced
from dataprep.pipeline.run.datasets import SUMMARY, is_summary
from dataprep.pipeline.storage.manifest import manifests_remembered
from dataprep.pipeline.storage.readme import README, RUN_TEXT

OUR_FIGURES = b"# HELP dataprep_"  # what a file of figures begins with

# Figures of a step, and what they are.
FIGURES: Mapping[str, str] = {
    "documents": "documents in the dataset",
    "frames": "frames in the dataset of codes",
    "codes": "codes in the dataset of codes",
    "tokens": "tokens in the dataset",
    "rows": "rows in the dataset",
    "padding": "tokens of padding in the dataset",
    "bytes": "bytes of the dataset's files",
    "generation": "number of the newest generation",
    "changed": "1 if the run changed the dataset, else 0",
    "seconds": "seconds that the step took",
}
COUNTED = ("frames", "codes", "tokens", "rows", "padding")


def figures_of(done: Done) -> dict[str, float]:
    counts = done.counts
    return {
        "documents": counts["documents_written"],
        **{name: counts[name] for name in COUNTED if name in counts},
        "bytes": done.num_bytes,
        **({} if done.generation is None else {"generation": done.generation}),
        "changed": int(bool(done.todo.reasons)),
        "seconds": round(done.seconds, 3),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What a run did."""

    out: Path
    steps: tuple[Done, ...]
    seconds: float

    @property
    def was_complete(self) -> bool:
        """Return whether there was nothing to do."""
        return not any(done.todo.reasons for done in self.steps)


def run_all(
    chain: StepChain,
    begin: Begin,
    end: Callable[[Done], None] = lambda done: None,
    fail: Fail = lambda step, error: None,
    *,
    wait: bool = False,
) -> RunOutcome:
    """Do the steps of a chain that have something to do, and write the summary.

    `end` is called after each step; `wait` for another run to end, else that is a LockedError.
    If a corpus fails, `fail` is called, and its error is raised when the others are done.
    """
    out, began, steps = Path(chain.config.out), time.monotonic(), list[Done]()
    failed: list[tuple[ChainStep, DataprepError]] = []

    def failing(step: ChainStep, error: DataprepError) -> None:
        failed.append((step, error))
        fail(step, error)

    check_summary(out)
    with locked(out, wait=wait), disk_errors_named(out), workers_kept(), manifests_remembered():
        for done in chain.run(begin, failing):
            steps.append(done)
            end(done)
        if failed:
            raise _in_all(failed)
        if not chain.only:  # else a step that is still to come may need them
            free_replaced(out)
        made = RunOutcome(out=out, steps=tuple(steps), seconds=time.monotonic() - began)
        write_summary(out, summary_of(made))
    return made


def _in_all(failed: Sequence[tuple[ChainStep, DataprepError]]) -> DataprepError:
    """Return the error of the first corpus, which tells of the others, too."""
    (_, first), *more = failed
    if not more:
        return first
    return type(first)("; ".join([str(first), *(f"and of {s.folder}: {e}" for s, e in more)]))


def foresee_all(chain: StepChain) -> tuple[list[Todo], DataprepError | None]:
    """Return what each step would do, and how corpora would fail; nothing is written."""
    failed: list[tuple[ChainStep, DataprepError]] = []
    with manifests_remembered():
        todos = list(chain.foresee(lambda step, error: failed.append((step, error))))
    return todos, _in_all(failed) if failed else None


def summary_of(made: RunOutcome) -> dict[str, Any]:
    return {
        "steps": [
            {
                "step": done.todo.step.folder,
                "out": str(done.out),
                "why": list(done.todo.reasons),
                "notes": list(done.todo.notes),
                "fingerprint": done.fingerprint,
                **figures_of(done),
                "counts": done.counts,
            }
            for done in made.steps
        ],
        "seconds": round(made.seconds, 3),
    }


def check_summary(out: Path) -> None:
    """Raise ConfigError if a file of somebody else stands where the summary goes."""
    path = out / SUMMARY
    if path.is_symlink() or (path.exists() and not is_summary(path)):
        raise ConfigError(
            f"{path} was not written by dataprep run, which would replace it; move it away, or "
            "name another out"
        )


def write_summary(out: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json, with the time at which the run ended, and a card if there is none."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"ended": now, **summary}, indent=1, ensure_ascii=False)
    make_folder(out)
    if not os.path.lexists(out / README):  # else it is ours, or somebody's own
        write_atomic(out / README, RUN_TEXT.encode())
    write_atomic(out / SUMMARY, f"{text}\n".encode())


def check_metrics(path: Path) -> None:
    """Raise ConfigError if a file of somebody else stands where the figures go."""
    if path.is_dir():
        raise ConfigError(f"--metrics {path} is a folder; name a file")
    try:
        begins = _beginning(path) if path.exists() else b""
    except OSError as error:
        raise ConfigError(f"cannot use --metrics {path}: {error.strerror}") from None
    if begins and not begins.startswith(OUR_FIGURES):
        raise ConfigError(
            f"--metrics {path} was not written by dataprep run, which would replace it; move it "
            "away, or name another file"
        )


def _beginning(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(len(OUR_FIGURES)) or b""


def write_metrics(path: Path, steps: Sequence[Done]) -> None:
    """Write the figures for the textfile collector of Prometheus' node exporter, whole or not."""
    make_folder(path.parent)
    write_atomic(path, "".join(f"{line}\n" for line in _lines(steps)).encode())


def _lines(steps: Sequence[Done]) -> Iterator[str]:
    found = [(done.todo.step.folder, figures_of(done)) for done in steps]
    for name, about in FIGURES.items():
        yield f"# HELP dataprep_step_{name} {about}"
        yield f"# TYPE dataprep_step_{name} gauge"
        for step, figures in found:
            if name in figures:
                yield f'dataprep_step_{name}{{step="{step}"}} {figures[name]}'
    yield "# HELP dataprep_run_ended_seconds when the last run ended well, in Unix time"
    yield "# TYPE dataprep_run_ended_seconds gauge"
    yield f"dataprep_run_ended_seconds {datetime.now(UTC).timestamp():.0f}"
