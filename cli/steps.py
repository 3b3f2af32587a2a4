"""The rows of a step: by the settings of the trainer's loader, or by a state that it saved.

--step 17 --batch-size 256 --seed 0                    the settings of DataLoader
--step 17 --batch-size 256 --mix web=0.7@data/web --mix code=0.3@data/code
--step 17 --batch-size 256 --generation 0:3,1200:5     moved on to a newer generation
--step 17 --state state.json                           json.dump(loader.get_state(), file)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dataprep.loaders import DataLoader, PackedDataset
from dataprep.loaders.mixture import Exhausted
from dataprep.loaders.open import open_packed
from dataprep.loaders.replay import replay_of
from dataprep.pipeline.errors import ConfigError, ConflictError
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.storage.parts import LATEST

V = TypeVar("V")
_SETTING = re.compile(r"\b(batch_size|epochs|exhausted)\b(?:='(\w+)')?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSettings:
    """What the flags say about the trainer's loader; None: not given."""

    batch_size: str | None
    seed: int | None
    shuffle: bool | None
    epochs: int | None
    exhausted: Exhausted | None
    mix: Sequence[str]
    state: str | None
    generation: str | None

    def given(self) -> list[str]:
        """Return the flags that were given, besides --state."""
        flags = {
            "--batch-size": self.batch_size,
            "--seed": self.seed,
            "--no-shuffle": self.shuffle,
            "--epochs": self.epochs,
            "--exhausted": self.exhausted,
            "--mix": self.mix or None,
            "--generation": self.generation,
        }
        return [flag for flag, value in flags.items() if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch: its rows, and the datasets that are open."""

    step: int
    rows: list[tuple[str, int | None]]  # dataset by its name, row in it; None: it is not open
    datasets: Mapping[str, PackedDataset]
    epochs: Mapping[str, float]  # how often each was read before this step
    note: str = ""


def find_step(folder: str, step: int | None, settings: LoaderSettings) -> Step:
    """Return the rows of a step; without one, of the last that the state knows."""
    if settings.state is not None:
        return _by_state(folder, step, settings)
    if step is None or settings.batch_size is None:
        raise ConfigError(
            "the rows of a step follow from the loader's settings: give --step and --batch-size "
            "(and --seed, --no-shuffle, --epochs, --mix as the trainer has them), or --state FILE, "
            "the state that it saved"
        )
    loader = _loader(folder, settings)
    if not loader.has(step):
        steps = "have no such step" if settings.epochs is None else f"give {len(loader)} steps"
        raise ConfigError(f"--step {step}: these settings {steps}; the first is 0")
    rows: list[tuple[str, int | None]] = [*loader.rows_of(step)]
    return Step(
        step=step,
        rows=rows,
        datasets={
            name: one
            for name, one in loader.datasets_at(step).items()
            if isinstance(one, PackedDataset)
        },
        epochs=loader.epochs_at(step),
    )


def _loader(folder: str, settings: LoaderSettings) -> DataLoader:
    """Open the loader that the flags describe."""
    data: Any = _mixture(settings.mix, folder) if settings.mix else folder
    try:
        return DataLoader(
            data,
            batch_size=schedule("--batch-size", str(settings.batch_size), int),
            seed=settings.seed or 0,
            shuffle=settings.shuffle is not False,
            epochs=settings.epochs,
            exhausted=settings.exhausted or "stop",
            generation=generation_of(settings.generation),
            # So that the last batch is there, if there is one; a trainer that drops it has no such.
            remainder="drop" if settings.epochs is None else "pad",
            prefetch=0,
        )
    except ConfigError as error:
        raise ConfigError(in_flags(str(error))) from None


def in_flags(message: str) -> str:
    """Return what the loader says of a setting as it was typed.

    >>> in_flags("exhausted='drop' has no effect without epochs"), in_flags("batch_size {0: 0}: no")
    ('--exhausted drop has no effect without --epochs', '--batch-size 0:0: no')
    """
    if not _SETTING.match(message):
        return message
    typed = _SETTING.sub(
        lambda m: f"--{m[1].replace('_', '-')}{f' {m[2]}' if m[2] else ''}", message
    )
    return re.sub(r"\{([\w:, ]+)\}", lambda m: m[1].replace(" ", ""), typed)


def _by_state(folder: str, step: int | None, settings: LoaderSettings) -> Step:
    if settings.given():
        raise ConfigError(f"{settings.given()[0]} has no effect with --state, which says it")
    path = Path(str(settings.state))
    try:
        text = read_bounded(path)
    except OSError as error:
        raise ConfigError(f"--state: cannot read {path}: {error.strerror}") from None
    try:
        replay = replay_of(text)
    except ConflictError as error:
        raise ConflictError(f"--state {path}: {error}") from None
    number = replay.step - 1 if step is None else step
    if not 0 <= number < replay.num_steps:
        raise ConfigError(
            f"--step {number}: the loader of {path} has {replay.num_steps} steps; the first is 0"
        )
    datasets = _datasets_read(folder, replay.read_at(number))
    if not datasets:
        raise ConflictError(f"{path} is the state of a loader of other datasets than {folder}")
    later = f"step {number} comes after the state: shown as if nothing changes at {replay.step}"
    counts = {
        name: [shard.num_records for shard in dataset.about.shards]
        for name, dataset in datasets.items()
    }
    return Step(
        step=number,
        rows=replay.rows_of(number, counts),
        datasets=datasets,
        epochs=replay.epochs_at(number, counts),
        note=later if number >= replay.step else "",
    )


def _datasets_read(folder: str, read: Mapping[str, tuple[int, str]]) -> dict[str, PackedDataset]:
    """Return those of a state's datasets, by their names, that are generations of this one."""
    newest = open_packed(folder)
    opened = {newest.about.generation: newest}
    for generation in {generation for generation, _ in read.values()} - set(opened):
        if generation < newest.about.generation:
            opened[generation] = open_packed(folder, generation=generation)
    return {
        name: opened[generation]
        for name, (generation, fingerprint) in read.items()
        if generation in opened and opened[generation].fingerprint == fingerprint
    }


def _mixture(mix: Sequence[str], folder: str) -> dict[str, Any]:
    """Return the mixture in the loader's form; `folder`, if there is one, must be in it."""
    found: dict[str, Any] = {}
    for text in mix:
        name, _, rest = text.partition("=")
        shares, at, place = rest.partition("@")
        if not (name and shares and at and place):
            raise ConfigError(
                f"--mix {text}: must be NAME=SHARE@FOLDER, such as web=0.7@data/web, or "
                "web=0:0.7,1000:0.5@data/web for shares that change"
            )
        if name in found:
            raise ConfigError(f"--mix: {name} is there twice")
        found[name] = (place, schedule("--mix", shares, str))
    places = {Path(place).resolve() for place, _ in found.values()}
    if folder and Path(folder).resolve() not in places:
        raise ConfigError(f"--mix does not have {folder}; give all datasets of the mixture")
    return found


def generation_of(text: str | None) -> Any:
    """Return --generation as the loader takes it: a number, "latest", or these by step."""
    if text is None:
        return None
    return schedule("--generation", text, lambda own: own if own == LATEST else int(own))


def schedule(flag: str, text: str, kind: Callable[[str], V]) -> V | dict[int, V]:
    """Return one value, or values by the step from which on they hold.

    >>> schedule("--batch-size", "64", int), schedule("--batch-size", "0:64,1000:256", int)
    (64, {0: 64, 1000: 256})
    """
    try:
        if ":" not in text:
            return kind(text)
        pairs = [part.split(":") for part in text.split(",")]
        return {int(step): kind(value) for step, value in pairs}
    except ValueError:
        raise ConfigError(
            f"{flag} {text}: must be a number, or STEP:NUMBER,… such as 0:64,1000:256"
        ) from None
