"""Where a trainer is in its data, as a small dict that JSON can hold.

    {"version": 4, "step": 1200, "seed": 0, "shuffle": true, "batch_size": {"0": 256},
     "datasets": {"code": {"0": [0, "sha256:…"]}, "web": {"0": [3, "sha256:…"], "900": [5, "…"]}},
     "phases": [[0, [3, 7]], [230400, [3, 7]]], "epoch_rows": null, "rows": null, "epochs": null,
     "exhausted": "stop"}

It holds everything that decided the batches before `step`. A loader takes a state if it would have
made the same batches up to there. What comes after may differ: batch sizes, weights and generations
may change at that step. `datasets` has the generations that were read, with their fingerprints, by
the step from which on. `rows` is where the rows end, null if they never do; it decides how many
rows a padded batch has, so it may differ as long as both ends come after the batches before `step`.
`epochs` and `exhausted` are there to name what made phases or rows differ; by themselves they may.
Where batches follow from the lengths of documents, `batch` has what decides them:

    "batch": {"kind": "ByTokens", "max_tokens": 16384, "multiple_of": 128, …, "more_columns": 0}

Of ByTokens and Buckets, a batch takes the place of a row in `batch_size`, `phases` and `rows`.

Where rows are shuffled in blocks, the state has "shuffle": "blocks", "window_shards": 32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dataprep.loaders.mixture import Mixture
from dataprep.loaders.schedule import MAX_ROWS, BatchSizes, shown
from dataprep.pipeline.errors import ConflictError, short

VERSION = 4
BATCH = "batch"  # the key of what decides the shape of batches, which states of packed rows lack


class State(dict[str, Any]):
    """The state of a loader, a plain dict but for `decode`."""

    def decode(self) -> str:
        """Return JSON; checkpoint handlers that expect bytes (grain, MaxText) call this."""
        return json.dumps(self)


def make_state(
    step: int,
    sizes: BatchSizes,
    mixture: Mixture,
    datasets: Mapping[str, Any],
    batch: Mapping[str, Any] | None,
) -> State:
    """Return the state of a loader that has handed out the batches before `step`."""
    rows = sizes.first_row(step)
    return State(
        version=VERSION,
        step=step,
        seed=mixture.seed,
        **_order_of(mixture),
        batch_size={str(s): size for s, size in sizes.before(step).items()},
        **({} if batch is None else {BATCH: dict(batch)}),
        datasets=dict(datasets),
        phases=[
            [phase.first_row, list(phase.shares.weights)]
            for phase in mixture.phases
            if phase.first_row < rows
        ],
        epoch_rows=mixture.epoch_rows,
        rows=None if mixture.num_rows is None else min(mixture.num_rows, MAX_ROWS),
        epochs=mixture.epochs,
        exhausted=mixture.exhausted,
    )


def _order_of(mixture: Mixture) -> dict[str, Any]:
    if mixture.window_shards is None:
        return {"shuffle": mixture.shuffled}
    return {"shuffle": "blocks", "window_shards": mixture.window_shards}


def parse_state(state: Mapping[str, Any] | bytes | str) -> State:
    """Return a state, given itself or its JSON; anything else is a ConflictError."""
    try:
        text = json.dumps(dict(state)) if isinstance(state, Mapping) else state
        found = State(json.loads(text))
        step, version = found["step"], found["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        cause = short(f"{type(error).__name__}: {error}", 200)
        raise ConflictError(f"this is not the state of a loader ({cause})") from None
    if type(version) is not int or version != VERSION:
        raise ConflictError(
            f"the state has version {shown(version)}, this dataprep knows {VERSION}; "
            "use the dataprep that made it"
        )
    if type(step) is not int or step < 0:
        raise ConflictError(f"the state has step {shown(step)}, which is not a number of steps")
    return found


_FIXES = {
    "datasets": "open the dataset that the state is of, or start anew",
    "seed": "set the seed that the state has",
    "shuffle": "set shuffle as the state has it (true: 'global')",
    "window_shards": "set window_shards as the state has it",
    BATCH: "set batch_size, and a view of as many columns, as the state has them",
    "epoch_rows": "set max_steps_per_epoch, and the last batch_size, as the state has them",
    "batch_size": "sizes may change from a step on: batch_size={sizes}",
    "phases": "weights may change from a step on: (path, {{0: share before, {step}: share now}})",
    "rows": "the last batch before was padded: set the epochs that the state was made with",
}
_CAUSES = {  # of phases or rows that differ
    "exhausted": "a dataset was used up before: set exhausted as the state has it",
    "epochs": "a dataset was used up before: set the epochs that the state has",
}


def check_state(state: State, expected: State, places: int) -> None:
    """Raise a ConflictError unless a state equals the loader's own at that step, `expected`.

    `places` is how many rows the batches before the step have, padding included.
    """
    for key, fix in _FIXES.items():
        found, wanted = state.get(key), expected.get(key)
        if key in ("rows", "epoch_rows"):  # what ends after the batches before has not mattered
            found, wanted = _filled(found, places), _filled(wanted, places)
        if _differ(found, wanted):
            key, fix = _cause(key, fix, state, expected)
            step, sizes = state["step"], _changed_sizes(state, expected)
            raise ConflictError(
                f"the state at step {step} was made with {key} {shown(state.get(key))}, "
                f"this loader has {shown(expected.get(key))}; {fix.format(step=step, sizes=sizes)}"
            )


def _cause(key: str, fix: str, state: State, expected: State) -> tuple[str, str]:
    """Return the setting that made a key differ, and what to do about it."""
    if key == "phases" and _first(state.get(key)) != _first(expected[key]):
        return key, fix  # no dataset is used up in the first phase: the weights themselves
    if key in ("phases", "rows"):
        for cause, its_fix in _CAUSES.items():
            if _differ(state.get(cause), expected[cause]):
                return cause, fix if key == "rows" and cause == "epochs" else its_fix
    return key, fix


def _changed_sizes(state: State, expected: State) -> str:
    """Return the batch sizes of the state up to its step, then that of the loader.

    >>> _changed_sizes(State(step=9, batch_size={"0": 8}), State(batch_size={"0": 16}))
    '{0: 8, 9: 16}'
    """
    before, own = state.get("batch_size"), [*expected["batch_size"].values()]
    if not isinstance(before, dict) or not own:
        return "{0: size before, step: size now}"
    pairs = [*before.items(), (state["step"], own[-1])]
    return short(f"{{{', '.join(f'{key}: {size}' for key, size in pairs)}}}", 200)


def _first(phases: Any) -> Any:
    return phases[0] if isinstance(phases, list) and phases else None


def _differ(found: Any, wanted: Any) -> bool:
    """Compare as JSON: in Python, True == 1 == 1.0."""
    return json.dumps(found, sort_keys=True) != json.dumps(wanted, sort_keys=True)


def _filled(rows: Any, places: int) -> Any:
    """Return how many of the first places have a row, if rows end there (None: never)."""
    if rows is None:
        return places
    return min(rows, places) if type(rows) is int else rows
