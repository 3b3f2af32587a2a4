"""Which generation of a dataset is read from which step on.

    generation=3                                     generation 3, in all batches
    generation={0: 3, 1200: "latest"}                from step 1200 on, the newest that there is
    generation={"web": 3, "code": {0: 2, 900: 4}}    of each dataset of a mixture

A batch is of one generation of each dataset, so that the step alone says which. Files of a
generation that a schedule has left behind may be gone: then only its batches cannot be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import shown, whole_number
from dataprep.loaders.shards import RemovedShards
from dataprep.loaders.sources import RowSource
from dataprep.loaders.whole import Verify
from dataprep.pipeline.errors import ConfigError, ConflictError
from dataprep.pipeline.storage.manifest import Manifest, PackedManifest
from dataprep.pipeline.storage.parts import LATEST, check_parts_there, read_generation

Generation = int | Literal["latest"]
Generations = Generation | Mapping[int, Generation]
GenerationsOf = Generations | Mapping[str, Generations]  # by the names of a mixture
Schedule = dict[int, Generation]  # from step 0 on


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedDataset:
    """A dataset of a loader, in every generation that it reads."""

    steps: tuple[int, ...]  # from which on each is read; the first is 0
    datasets: tuple[RowSource, ...]

    def at(self, step: int) -> RowSource:
        return self.datasets[bisect_right(self.steps, step) - 1]

    def before(self, step: int) -> dict[str, list[Any]]:
        """Return what the batches before a step are of, as a state has it: {step: [generation,
        fingerprint]}; the first generation is told before any batch."""
        return {
            str(first): [dataset.about.generation, dataset.fingerprint]
            for first, dataset in zip(self.steps, self.datasets, strict=True)
            if first < max(step, 1)
        }


def checked_generation(generation: Any) -> Generation:
    """Return a generation that was asked for; anything but a number or "latest" is an error."""
    if isinstance(generation, str):
        if generation != LATEST:
            raise ConfigError(f"generation {shown(generation)}: must be a number or {LATEST!r}")
        return "latest"
    return whole_number("generation", generation, least=0)


def schedules_of(generation: Any, names: list[str]) -> dict[str, Schedule | None]:
    """Return from which step on which generation of each dataset is wanted; None: it is not said.

    >>> schedules_of({"web": 3}, ["code", "web"])
    {'code': None, 'web': {0: 3}}
    """
    by_name = isinstance(generation, Mapping) and any(isinstance(key, str) for key in generation)
    for name in generation if by_name else ():
        if name not in names:
            known = ", ".join(map(repr, names))
            raise ConfigError(f"generation of {shown(name)}: the mixture has {known}")
    wanted = generation if by_name else dict.fromkeys(names, generation)
    return {name: _schedule_of(wanted.get(name)) for name in names}


def _schedule_of(generation: Any) -> Schedule | None:
    if generation is None:
        return None
    given = generation if isinstance(generation, Mapping) else {0: generation}
    steps = {
        whole_number("a step of generation", step, least=0): checked_generation(wanted)
        for step, wanted in given.items()
    }
    if 0 not in steps:
        raise ConfigError(
            f"generation {shown(generation)}: needs a number, {LATEST!r}, or {{step: generation}} "
            "from step 0 on, such as {0: 3, 1200: 5}"
        )
    return dict(sorted(steps.items()))


def manifests_of(folder: Path, schedule: Schedule | None) -> dict[int, Manifest]:
    """Read the manifests of the generations that are asked for, by the step that they begin at."""
    wanted: Schedule = {0: "latest"} if schedule is None else schedule
    found = {step: read_generation(folder, generation) for step, generation in wanted.items()}
    numbers = {step: getattr(manifest, "generation", 0) for step, manifest in found.items()}
    for (_, before), (step, after) in pairwise(numbers.items()):
        if after < before:
            raise ConfigError(
                f"generation {shown(schedule)} of {folder}: goes back from {before} to {after} at "
                f"step {step}; a schedule goes on to newer ones only"
            )
    steps = list(numbers)
    same = {step for last, step in pairwise(steps) if numbers[last] == numbers[step]}
    return {step: manifest for step, manifest in found.items() if step not in same}


def open_past(folder: Path, manifest: PackedManifest, verify: Verify) -> PackedDataset:
    """Open a generation that the loader moves on from, whose files may be gone."""
    try:
        check_parts_there(folder, manifest)
    except ConfigError:
        return PackedDataset(folder, manifest, verify, RemovedShards(folder, manifest))
    return PackedDataset(folder, manifest, verify)


# --- states ---


def check_generations(state: Mapping[str, Any], members: Mapping[str, MixedDataset]) -> None:
    """Raise a ConflictError if a state is of other generations of the same datasets, with what to
    write to go on from it. What else may be wrong with its datasets, `state` says."""
    step, told = state["step"], state.get("datasets")
    if not isinstance(told, dict) or sorted(told) != sorted(members):
        return
    if all(told[name] == member.before(step) for name, member in members.items()):
        return
    known = {name: _known(told[name], member, step) for name, member in members.items()}
    grown = {name: own for name, own in known.items() if members[name].datasets[0].about.parts}
    if not grown or not all(known.values()):
        return
    now = {name: members[name].at(step).about.generation for name in grown}
    last = {name: own[max(own)] for name, own in grown.items()}
    folders = ", ".join(str(member.datasets[0].folder) for member in members.values())
    differs = (
        f"was made on generation {shown_numbers(last)} of {folders}, this loader is on "
        f"{shown_numbers(now)}"
        if last != now
        else f"came to generation {shown_numbers(last)} of {folders} at another step than this "
        "loader, or from another generation"
    )
    as_before = f"write generation={_argument(grown)} to go on as before"
    message = f"the state at step {step} {differs}; {as_before}"
    moved = {
        name: {**own, step: now[name]} if now[name] > last[name] else own
        for name, own in grown.items()
    }
    if step and moved != grown:
        message += f", or generation={_argument(moved)} to move on from there"
    raise ConflictError(message)


def _known(told: Any, member: MixedDataset, step: int) -> dict[int, int]:
    """Return {step: generation} as a state tells it, if it is of this dataset; else nothing."""
    folder = member.datasets[0].folder
    try:
        stages = {int(first): (number, own) for first, (number, own) in told.items()}
        fingerprints = {
            first: _fingerprint(member, number) for first, (number, _) in stages.items()
        }
    except (AttributeError, TypeError, ValueError):  # it is not as `MixedDataset.before` has it
        return {}
    except ConfigError as error:
        raise ConflictError(
            f"the state at step {step} cannot be gone on from with what is in {folder}: {error}"
        ) from None
    if any(own != fingerprints[first] for first, (_, own) in stages.items()):
        return {}
    return {first: number for first, (number, _) in stages.items()}


def _fingerprint(member: MixedDataset, generation: int) -> str:
    for dataset in member.datasets:
        if dataset.about.generation == generation:
            return dataset.fingerprint
    return read_generation(member.datasets[0].folder, generation).fingerprint


def _argument(schedules: Mapping[str, dict[int, int]]) -> str:
    """Return what to write after `generation=`.

    >>> _argument({"": {0: 3, 1200: 5}}), _argument({"code": {0: 2}, "web": {0: 3, 9: 5}})
    ('{0: 3, 1200: 5}', "{'code': 2, 'web': {0: 3, 9: 5}}")
    """
    short: dict[str, Any] = {
        name: own[0] if list(own) == [0] else own for name, own in schedules.items()
    }
    return repr(short[""] if list(short) == [""] else short)


def shown_numbers(numbers: Mapping[str, int]) -> str:
    """Return the generation of the only dataset, or of each by its name."""
    return str(numbers[""] if list(numbers) == [""] else dict(numbers))
