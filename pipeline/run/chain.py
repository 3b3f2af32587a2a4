"""The chain: for each corpus tokenize, then pack, each a dataset that grows.

    out/web/tokenized                 every document of the corpus, once
    out/web/packed-2048               its rows, for each length
    out/web/packed-2048/validation    … and for each split, if there are splits

A step looks at what is there, says why that is not what it should be, and makes what is missing.
So a run that is killed goes on where it was, and one that finds nothing new does nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.configs.pack import PackConfig, SelectConfig
from dataprep.configs.run import RunConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.run.forgotten import ForgetRequest, read_ledger
from dataprep.pipeline.run.packed import PackOf, plan_packed
from dataprep.pipeline.run.parts import PlannedParts, current, finished_parts, settle
from dataprep.pipeline.run.selections import REASONS, Selections
from dataprep.pipeline.run.tokenized import plan_tokenized
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.parts import Growing, parts_of
from dataprep.pipeline.storage.provenance import forgotten_in

TOKENIZED, PACKED = "tokenized", "packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStep:
    """One dataset of the chain."""

    verb: str  # tokenize | pack
    corpus: str
    folder: str  # below `out`
    pack: PackConfig | None = None
    split: str = ""

    @property
    def names(self) -> tuple[str, str, str]:
        """Return what the step can be called by."""
        return self.verb, self.corpus, self.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """What a step would do."""

    step: ChainStep
    reasons: tuple[str, ...]  # none: nothing
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a step did."""

    todo: Todo
    out: Path
    manifest: Growing
    seconds: float


# Called when a step is about to work; returns what its progress is reported to.
Begin = Callable[[Todo], Report]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChain:
    """All steps of a config."""

    config: RunConfig
    cache_dir: Path
    only: Sequence[str] = ()  # verbs, corpora or folders; none: every step

    def __post_init__(self) -> None:
        known = [name for step in self.steps() for name in step.names]
        unknown = [name for name in self.only if name not in known]
        if unknown:
            there = ", ".join(dict.fromkeys(known))
            raise ConfigError(f"--only {unknown[0]}: there is no such step; there are {there}")

        for name in self.config.names:
            for item in self.config.tokenize(name).inputs:
                _refuse_around(Path(self.config.out), item.path)

    def steps(self) -> Iterator[ChainStep]:
        """Yield the steps, in order."""
        for corpus in self.config.names:
            yield ChainStep(verb="tokenize", corpus=corpus, folder=f"{corpus}/{TOKENIZED}")
            for pack in self.config.pack_all(corpus):
                for split in self.config.splits or ("",):
                    folder = f"{corpus}/{PACKED}-{pack.seq_len}" + (split and f"/{split}")
                    yield ChainStep(
                        verb="pack", corpus=corpus, folder=folder, pack=pack, split=split
                    )

    def foresee(self) -> Iterator[Todo]:
        """Yield what each step would do; nothing is written."""
        changing: set[str] = set()  # corpora whose documents are about to change
        for step in self._chosen():
            if step.corpus in changing:
                yield Todo(step=step, reasons=(f"{step.corpus}/{TOKENIZED} changes",))
                continue
            planned = self._plan(step, writes=False)
            if planned.reasons and step.verb == "tokenize":
                changing.add(step.corpus)
            yield Todo(step=step, reasons=planned.reasons, notes=planned.notes)

    def run(self, begin: Begin) -> Iterator[Done]:
        """Do what is to be done; yield each step when it is done. The caller holds the lock."""
        for step in self._chosen():
            began = time.monotonic()
            planned = self._plan(step, writes=True)
            todo = Todo(step=step, reasons=planned.reasons, notes=planned.notes)
            out = self._place(step.folder)
            report = begin(todo) if planned.reasons else silent
            with disk_errors_named(out):
                manifest = settle(out, planned, report)
            seconds = time.monotonic() - began
            yield Done(todo=todo, out=out, manifest=manifest, seconds=seconds)

    def _chosen(self) -> Iterator[ChainStep]:
        return (step for step in self.steps() if not self.only or {*step.names} & {*self.only})

    def _place(self, folder: str) -> Path:
        return Path(self.config.out) / folder

    def _plan(self, step: ChainStep, *, writes: bool) -> PlannedParts[Any]:
        """Return what a step is to make; `writes` what that needs, too."""
        if step.pack is None:
            return self._plan_tokenized(step)
        return self._plan_packed(step, writes=writes)

    def _plan_tokenized(self, step: ChainStep) -> PlannedParts[TokenizedManifest]:
        return plan_tokenized(
            self._place(step.folder),
            self.config.tokenize(step.corpus),
            self.config,
            self._ledger(),
            self.cache_dir,
        )

    def _plan_packed(self, step: ChainStep, *, writes: bool) -> PlannedParts[PackedManifest]:
        place = self._place(f"{step.corpus}/{TOKENIZED}")
        documents = current(place, TokenizedManifest)
        if documents is None:
            raise ConfigError(f"{place} is not there yet; run its step first: --only tokenize")
        assert step.pack is not None
        wanted = []
        finished = finished_parts(place, TokenizedManifest)
        originals = {part.fingerprint: place / name for name, part in finished}
        for folder, part in parts_of(place, documents):
            chosen = self._selected(step, folder, part, writes=writes)
            if chosen is None:
                return PlannedParts(
                    kind=PackedManifest, parts=(), reasons=("documents that are not selected yet",)
                )
            now, before = (
                step.pack.model_copy(
                    update={"inputs": (str(folder),), "all_masks": True, "select": select}
                )
                for select in chosen
            )
            gone = forgotten_in(folder, part)
            original = originals.get(origin_of(part)["fingerprint"]) if len(gone) else None
            wanted.append(PackOf(config=now, before=before, forgotten=gone, original=original))
        return plan_packed(self._place(step.folder), wanted)

    def _selected(
        self, step: ChainStep, folder: Path, part: TokenizedManifest, *, writes: bool
    ) -> tuple[SelectConfig | None, SelectConfig | None] | None:
        """Return which documents of a part are packed: now, and before some were forgotten."""
        selections = Selections(config=self.config)
        if not selections.are_needed:
            return None, None
        find = selections.make if writes else selections.find
        found = find(step.corpus, folder, part)
        if found is None:
            return None
        value = [*self.config.splits].index(step.split) if step.split else 0
        now, before = (
            SelectConfig(file=str(path), value=value, reasons=REASONS)
            for path in (found.now, found.before)
        )
        return now, before

    def _ledger(self) -> tuple[ForgetRequest, ...]:
        return read_ledger(Path(self.config.out))


def _refuse_around(out: Path, given: str) -> None:
    """Raise a ConfigError if an input is a folder, or all files below one, that `out` lies in."""
    above, stars, _ = given.partition("**")
    folder = os.path.realpath(os.path.expanduser((above or os.curdir) if stars else given))
    is_folder = os.path.isdir(folder)
    if is_folder and Path(os.path.realpath(out)).is_relative_to(folder):
        raise ConfigError(
            f"out {out} lies in the input {given}, so that a run would read what the last one "
            "wrote; name another out, or the files: /*.jsonl"
        )
