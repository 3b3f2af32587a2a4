"""The chain: for each corpus encode, tokenize and pack, each a dataset that grows.

    out/web/codes                     its media, if it has any, as codes
    out/web/tokenized                 every document of the corpus, once
    out/web/packed-2048               its rows, for each length
    out/web/packed-2048-validation    … and for each split, if there are splits

A step looks at what is there, says why that is not what it should be, and makes what is missing.
So a run that is killed goes on where it was, and one that finds nothing new does nothing.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.configs.pack import PackConfig, SelectConfig
from dataprep.configs.run import RunConfig, keys_told
from dataprep.pipeline.errors import (
    ConfigError,
    ConflictError,
    CorruptError,
    DataprepError,
    InputError,
)
from dataprep.pipeline.files import disk_errors_named, local_paths
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.overlap import lies_in
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.run.forgotten import keys_needed, read_ledger
from dataprep.pipeline.run.listed import codes_of
from dataprep.pipeline.run.packed import PackOf, plan_packed
from dataprep.pipeline.run.parts import PlannedParts, current, finished_parts, settle
from dataprep.pipeline.run.selections import REASONS, Selections
from dataprep.pipeline.run.tokenized import plan_tokenized
from dataprep.pipeline.run.unselected import DAMAGED, why_unselected
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.kinds import (
    Manifest,
    PackedManifest,
    TokenizedManifest,
    files_of,
)
from dataprep.pipeline.storage.parts import G, parts_of
from dataprep.pipeline.storage.provenance import forgotten_in

CODES, TOKENIZED, PACKED = "codes", "tokenized", "packed"
OF_A_CORPUS = (ConfigError, InputError, ConflictError, CorruptError)  # others can go on


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStep:
    """One dataset of the chain."""

    verb: str  # encode | tokenize | pack
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
    manifests: tuple[Manifest, ...]  # of codes one for each part, else one
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        total = Counter[str]()
        for manifest in self.manifests:
            for name, count in manifest.counts.items():
                total[name] += count  # a count of 0 is kept, too
        return dict(total)

    @property
    def fingerprint(self) -> str:
        """Return what tells the dataset from others."""
        if len(self.manifests) == 1:
            return self.manifests[0].fingerprint
        return fingerprint({"parts": [manifest.fingerprint for manifest in self.manifests]})

    @property
    def num_bytes(self) -> int:
        """Return the size of all files."""
        return sum(entry.num_bytes for each in self.manifests for entry in files_of(each))

    @property
    def generation(self) -> int | None:
        """Return the number of the generation; codes have none."""
        generation: int | None = getattr(self.manifests[0], "generation", None)
        return generation


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """Why a step has something to do, and how it is done."""

    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    settle: Callable[[Report], tuple[Manifest, ...]]


# Called when a step is about to work; returns what its progress is reported to.
Begin = Callable[[Todo], Report]
# Called when a step fails: then the other corpora go on.
Fail = Callable[[ChainStep, DataprepError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChain:
    """All steps of a config."""

    config: RunConfig
    cache_dir: Path
    only: Sequence[str] = ()  # verbs, corpora or folders; none: every step

    def __post_init__(self) -> None:
        if not self.config.out:
            raise ConfigError("no output folder; set out in the config, or --out")
        if "://" in self.config.out:
            raise ConfigError(f"out {self.config.out} must be a local folder; copy it afterwards")
        known = [name for step in self.steps() for name in step.names]
        unknown = [name for name in self.only if name not in known]
        if unknown:
            there = ", ".join(dict.fromkeys(known))
            raise ConfigError(f"--only {unknown[0]}: there is no such step; there are {there}")
        for name in self.config.names:
            config = self.config.tokenize(name)
            for given in (*(item.path for item in config.inputs), *config.encode.inputs):
                _refuse_around(Path(self.config.out), given)
                _refuse_inside(Path(self.config.out), given)

    def steps(self) -> Iterator[ChainStep]:
        """Yield the steps, in order.

        Whether a document is a duplicate is known when all documents are there: then all are
        tokenized before the first are packed.
        """
        found = self._by_corpus()
        is_last = self.config.dedup != "none"
        return iter(sorted(found, key=lambda step: is_last and step.verb == "pack"))

    def _by_corpus(self) -> Iterator[ChainStep]:
        for corpus in self.config.names:
            if self.config.tokenize(corpus).encode.inputs:
                yield ChainStep(verb="encode", corpus=corpus, folder=f"{corpus}/{CODES}")
            yield ChainStep(verb="tokenize", corpus=corpus, folder=f"{corpus}/{TOKENIZED}")
            for pack in self.config.pack_all(corpus):
                for split in self.config.splits or ("",):
                    folder = f"{corpus}/{PACKED}-{pack.seq_len}" + (split and f"-{split}")
                    yield ChainStep(
                        verb="pack", corpus=corpus, folder=folder, pack=pack, split=split
                    )

    def foresee(self, fail: Fail) -> Iterator[Todo]:
        """Yield what each step would do; nothing is written."""
        changing: dict[str, str] = {}  # what is about to change, by corpus
        failed = set[str]()
        for step in self._chosen():
            if step.corpus in failed:
                continue
            if step.corpus in changing:
                todo = Todo(step=step, reasons=(f"{changing[step.corpus]} changes",))
            else:
                try:
                    with keys_told(step.verb):
                        planned = self._plan(step, writes=False)
                except OF_A_CORPUS as error:
                    failed.add(step.corpus)
                    fail(step, error)
                    continue
                todo = Todo(step=step, reasons=planned.reasons, notes=planned.notes)
            yield todo
            if todo.reasons and step.verb != "pack":
                changing[step.corpus] = step.folder

    def run(self, begin: Begin, fail: Fail) -> Iterator[Done]:
        """Do what is to be done; yield each step when it is done. The caller holds the lock."""
        failed = set[str]()
        for step in self._chosen():
            if step.corpus in failed:
                continue
            try:
                done = self._do(step, begin)
            except OF_A_CORPUS as error:
                failed.add(step.corpus)
                fail(step, error)
            else:
                yield done

    def _do(self, step: ChainStep, begin: Begin) -> Done:
        began = time.monotonic()
        with disk_errors_named(Path(self.config.out)), keys_told(step.verb):
            planned = self._plan(step, writes=True)
            todo = Todo(step=step, reasons=planned.reasons, notes=planned.notes)
            manifests = planned.settle(begin(todo) if planned.reasons else silent)
        return Done(
            todo=todo,
            out=self._place(step.folder),
            manifests=manifests,
            seconds=time.monotonic() - began,
        )

    def _chosen(self) -> Iterator[ChainStep]:
        return (step for step in self.steps() if not self.only or {*step.names} & {*self.only})

    def _place(self, folder: str) -> Path:
        return Path(self.config.out) / folder

    def _plan(self, step: ChainStep, *, writes: bool) -> PlannedStep:
        """Return what a step is to make; `writes` what that needs, too."""
        out = self._place(step.folder)
        if step.verb == "encode":
            return self._plan_encoded(step, out)
        if step.verb == "tokenize":
            return _of_parts(out, self._plan_tokenized(step, out))
        return _of_parts(out, self._plan_packed(step, writes=writes))

    def _plan_encoded(self, step: ChainStep, out: Path) -> PlannedStep:
        # Not at the top: most chains have no media, and it brings 50 modules.
        from dataprep.pipeline.run.encoded import plan_encoded, settle_encoded

        config = self.config.tokenize(step.corpus).encode
        planned = plan_encoded(out, config, self.config, self.cache_dir)
        return PlannedStep(
            reasons=planned.reasons,
            notes=planned.notes,
            settle=lambda report: settle_encoded(out, planned, report),
        )

    def _plan_tokenized(self, step: ChainStep, out: Path) -> PlannedParts[TokenizedManifest]:
        config, ledger = self.config.tokenize(step.corpus), read_ledger(Path(self.config.out))
        config = config.model_copy(update={"keys": keys_needed(ledger, config.keys)})
        codes = None
        if config.encode.inputs:
            place = self._place(f"{step.corpus}/{CODES}")
            codes = codes_of(place)
            if codes is None:
                raise ConfigError(f"{place} is not there yet; run its step first: --only encode")
        return plan_tokenized(out, config, self.config, ledger, self.cache_dir, codes)

    def _plan_packed(self, step: ChainStep, *, writes: bool) -> PlannedParts[PackedManifest]:
        place = self._place(f"{step.corpus}/{TOKENIZED}")
        documents = current(place, TokenizedManifest)
        if documents is None:
            raise ConfigError(f"{place} is not there yet; run its step first: --only tokenize")
        assert step.pack is not None
        selections, out = Selections(config=self.config), self._place(step.folder)
        parts, have = [*parts_of(place, documents)], current(out, PackedManifest)
        rows = [part for _, part in parts_of(out, have)] if have else []
        why = why_unselected(selections, step.corpus, parts, rows)
        if writes:
            selections.replace_lost()
        wanted = []
        finished = finished_parts(place, TokenizedManifest)
        originals = {part.fingerprint: place / name for name, part in finished}
        for folder, part in parts:
            chosen = self._selected(step, folder, part, writes=writes)
            if chosen is None:
                return PlannedParts(kind=PackedManifest, parts=(), reasons=(why or DAMAGED,))
            now, before = (
                step.pack.model_copy(
                    update={"inputs": (str(folder),), "all_masks": True, "select": select}
                )
                for select in chosen
            )
            gone = forgotten_in(folder, part)
            original = originals.get(origin_of(part)["fingerprint"]) if len(gone) else None
            wanted.append(PackOf(config=now, before=before, forgotten=gone, original=original))
        planned = plan_packed(out, wanted)
        return replace(planned, reasons=(why,)) if why and planned.reasons else planned

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


def _of_parts(out: Path, planned: PlannedParts[G]) -> PlannedStep:
    return PlannedStep(
        reasons=planned.reasons,
        notes=planned.notes,
        settle=lambda report: (settle(out, planned, report),),
    )


def _refuse_around(out: Path, given: str) -> None:
    """Raise a ConfigError if an input is a folder, or all files below one, that `out` lies in."""
    above, stars, _ = given.partition("**")
    folder = os.path.expanduser((above or os.curdir) if stars else given)
    if os.path.isdir(folder) and lies_in(str(out), folder):
        raise ConfigError(
            f"out {out} lies in the input {given}, so that a run would read what the last one "
            f"wrote; name another out, or the files: {os.path.join(given, '*.jsonl')}"
        )


def _refuse_inside(out: Path, given: str) -> None:
    """Raise a ConfigError if an input lies in `out`, by whatever name."""
    for path in local_paths(given):
        fixed = re.split(r"[*?[]", path)[0]
        place = path if fixed == path else os.path.dirname(fixed)
        if os.path.lexists(place) and out.exists() and lies_in(place or os.curdir, str(out)):
            raise ConfigError(
                f"the input {given} lies in out {out}, whose files are dataprep's; move it away, "
                "or name another out"
            )
