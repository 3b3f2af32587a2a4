"""`tokenize`: plan -> execute -> manifest.

    out/.work/plan.json, engine.json      what workers are told
    out/.work/tasks/*                     shards as tasks commit them, each with its marker
    out/shards, index, provenance, …      moved there when every task is done
    out/manifest.json                     last; then .work goes

Running the same command again goes on from the markers; on a finished dataset it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dataprep.configs import TokenizeConfig
from dataprep.pipeline.documents.rules import (
    Tags,
    Vocabulary,
    adds_special_tokens,
    modalities_of,
    named_modalities,
)
from dataprep.pipeline.engine import (
    Engine,
    Selection,
    TokenizerFiles,
    check_sample,
    load_reference,
    resolve_tokenizer,
    rule_out,
    select_engine,
    single_threaded_environment,
    template_ids,
    with_special,
)
from dataprep.pipeline.errors import ConfigError, DataprepError, InputError
from dataprep.pipeline.files import disk_errors_named, write_atomic
from dataprep.pipeline.jobs.executors import EXECUTORS, Message, usable_cores
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    locked,
    prepare,
    refuse_inside,
    remove_dataset,
)
from dataprep.pipeline.sources import changed_sources
from dataprep.pipeline.tokenize.adopt import adopt_encoders
from dataprep.pipeline.tokenize.manifest import finish, make_manifest
from dataprep.pipeline.tokenize.plan import Plan, find_all_sources, make_plan
from dataprep.pipeline.tokenize.sink import committed_shards
from dataprep.pipeline.tokenize.worker import ENGINE, PLAN, TASKS, task_stem

Report = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    out: Path
    manifest: dict[str, Any]
    was_complete: bool  # there was nothing to do


def tokenize(
    config: TokenizeConfig,
    *,
    cache_dir: Path,
    overwrite: bool = False,
    report: Report = lambda kind, values: None,
) -> Outcome:
    """Make the dataset, or go on with it, or find that it is there."""
    out = check_out(config.out)
    plan = plan_of(config, cache_dir)
    refuse_inside(out, [source.path for source in plan.sources])
    with disk_errors_named(out), locked(out):
        if overwrite:
            remove_dataset(out)
        names = [source.path for source in plan.sources]
        manifest = complete_manifest(out, plan.identity, names)
        if manifest is not None:
            return Outcome(out=out, manifest=manifest, was_complete=True)
        # Shards are the same whatever becomes of bad records.
        work = prepare(out, plan.identity, names, may_change=["on_error"])
        (work / TASKS).mkdir(exist_ok=True)
        write_atomic(work / PLAN, msgspec.json.encode(plan))
        selection = _execute(plan, config, work, cache_dir, report)
        changed = changed_sources(plan.sources, cache_dir)
        if changed:
            remove_dataset(out)
            raise InputError(
                f"{changed[0].path} changed while it was read, so the work was thrown away; "
                "run again when nothing writes to it"
            )
        manifest = make_manifest(plan, work, msgspec.to_builtins(selection))
        _check_counts(manifest["counts"], config)
        finish(plan, out, work, manifest)
    return Outcome(out=out, manifest=manifest, was_complete=False)


def plan_of(config: TokenizeConfig, cache_dir: Path) -> Plan:
    if not config.inputs:
        raise ConfigError("no input; name files, folders, globs, hf:NAME or synthetic:text")
    if not config.tokenizer:
        raise ConfigError("no tokenizer; set --tokenizer to a tokenizer.json, a folder or bytes")
    values = config.model_dump(mode="json")
    vocabulary = vocabulary_of(config, values)
    sources, inputs = find_all_sources(values, cache_dir)
    # Encoders have a say about frames and codebooks, none about the vocabulary.
    adopted = adopt_encoders(config, sources, inputs)
    return make_plan(adopted.model_dump(mode="json"), vocabulary, sources, inputs)


def vocabulary_of(config: TokenizeConfig, values: Mapping[str, Any]) -> Vocabulary:
    """Special ids and tags, by the tokenizer's files and what the config says of them."""
    files = with_special(
        resolve_tokenizer(config.tokenizer),
        bos=config.bos_token,
        eos=config.eos_token,
        pad=config.pad_token,
    )
    # Both load the tokenizer itself, which takes a second and half a gigabyte: only if needed.
    wraps = any(adds_special_tokens(values, i) for i in range(len(config.inputs)))
    prefix, suffix = template_ids(files) if wraps else ((), ())
    return Vocabulary(
        files=files,
        tags=_tags(values, files),
        text_prefix=tuple(prefix),
        text_suffix=tuple(suffix),
    )


def _tags(values: Mapping[str, Any], files: TokenizerFiles) -> dict[str, Tags]:
    """Of each modality that may occur; an empty text or list is no tag."""
    modalities = modalities_of(values)
    tags = {
        (m, name): values["modalities"][m][name] for m in modalities for name in ("start", "end")
    }
    spelled = _spelled([tag for tag in tags.values() if isinstance(tag, str)], files)
    ids = {
        place: spelled[tag] if isinstance(tag, str) else tuple(tag) for place, tag in tags.items()
    }
    lost = {m: name for (m, name), tag in tags.items() if tag and not ids[m, name]}
    for modality in named_modalities(values) & lost.keys():
        name = lost[modality]
        raise ConfigError(
            f"modalities.{modality}.{name}: the tokenizer makes no id of "
            f"{tags[modality, name]!r}; set another text, a list of ids, or [] for no tag"
        )
    # One that nobody named may never occur; if it does, its records are errors.
    return {m: Tags(start=ids[m, "start"], end=ids[m, "end"]) for m in modalities if m not in lost}


def _spelled(texts: Sequence[str], files: TokenizerFiles) -> dict[str, tuple[int, ...]]:
    """The ids of each text; the tokenizer is loaded once, and only if there is any text."""
    wanted = sorted({*texts} - {""})
    if not wanted:
        return {"": ()}
    ids, offsets = load_reference(files).encode(wanted)
    parts = np.split(ids, offsets[1:-1])
    return {"": (), **{t: tuple(part.tolist()) for t, part in zip(wanted, parts, strict=True)}}


def _execute(
    plan: Plan, config: TokenizeConfig, work: Path, cache_dir: Path, report: Report
) -> Selection:
    left = []
    for task in plan.tasks:
        done = committed_shards(task_stem(work, task))
        if not (done and done[-1].final):
            left.append(task)
    chosen = work / ENGINE
    selection = (
        msgspec.json.decode(chosen.read_bytes(), type=Selection) if chosen.exists() else None
    )
    # A run keeps its engine, whatever was installed meanwhile, unless another one is asked for.
    if selection is None or config.engine not in ("auto", selection.name):
        report("engine", {})
        selection = select_engine(config.engine, plan.vocabulary.files, cache_dir=cache_dir)
        write_atomic(chosen, msgspec.json.encode(selection))
    report("start", _start_values(plan, left, selection, config))
    limit = ErrorLimit(config.max_errors)
    check = SampleCheck(plan.vocabulary.files, selection)

    def on_message(message: Message) -> None:
        if message["type"] == "progress":
            report("progress", message)
            limit.count(message["task"], message["task_errors"])
        elif message["type"] == "sample":
            check(message["sample"])

    try:
        EXECUTORS["local"](
            [task.index for task in left],
            worker="dataprep.pipeline.tokenize.worker",
            work=work,
            environment=single_threaded_environment(),
            num_workers=config.workers or usable_cores(),
            describe=lambda i: f"task {i} ({plan.sources[plan.tasks[i].pieces[0].source].path})",
            on_message=on_message,
        )
    except InexactEngineError as error:
        # The workers are gone by now, so that nothing is written any more.
        remove_dataset(work.parent)
        with suppress(OSError):
            rule_out(selection, plan.vocabulary.files, str(error), cache_dir=cache_dir)
        raise DataprepError(
            f"engine {selection.name} {selection.version} is not exact: {error}; it is ruled out "
            "for this tokenizer and the work was thrown away; run the same command again"
        ) from None
    return selection


def _start_values(
    plan: Plan, left: list[Any], selection: Selection, config: TokenizeConfig
) -> dict[str, Any]:
    return {
        "engine": f"{selection.name} {selection.version}",
        "sources": len(plan.sources),
        "tasks": len(plan.tasks),
        "tasks_done": len(plan.tasks) - len(left),
        "num_bytes": sum(task.num_bytes for task in left),
        "workers": min(config.workers or usable_cores(), max(len(left), 1)),
    }


class InexactEngineError(DataprepError):
    """A fast engine gave other ids than the reference."""


class SampleCheck:
    """Encodes samples again with the reference, which is loaded for the first."""

    def __init__(self, files: TokenizerFiles, selection: Selection) -> None:
        self._files = files
        self._needed = selection.proof is not None
        self._reference: Engine | None = None

    def __call__(self, sample: list[tuple[str, list[int]]]) -> None:
        if not sample or not self._needed:
            return
        if self._reference is None:
            self._reference = load_reference(self._files)
        try:
            check_sample(self._reference, [t for t, _ in sample], [ids for _, ids in sample])
        except DataprepError as error:
            raise InexactEngineError(str(error)) from None


class ErrorLimit:
    """Ends the run when too many records are bad: more than N at once, more than P% at the end.

    A share is of all that was read: before the end it would depend on who read what first.
    """

    def __init__(self, limit: str | None) -> None:
        self._limit = limit
        self._by_task: dict[int, int] = {}

    def count(self, task: int, errors: int) -> None:
        """`errors` of a task so far; a task that is tried again begins anew."""
        self._by_task[task] = errors
        if self._limit and not self._limit.endswith("%"):
            self.check(0, sum(self._by_task.values()))

    def check(self, read: int, bad: int) -> None:
        if not self._limit:
            return
        share = self._limit.endswith("%")
        allowed = float(self._limit[:-1]) / 100 * read if share else float(self._limit)
        if bad > allowed:
            raise InputError(
                f"{bad} bad records, more than --max-errors {self._limit} allows; "
                "see what is wrong with --on-error fail"
            )


def _check_counts(counts: Mapping[str, int], config: TokenizeConfig) -> None:
    read = counts["documents_read"]
    bad = counts["documents_quarantined"] + counts["documents_dropped"]
    ErrorLimit(config.max_errors).check(read, bad)
    if read == 0 and not config.allow_empty:
        raise InputError("the inputs hold no record at all; allow that with --allow-empty")
    if counts["documents_written"] == 0 and not config.allow_empty:
        raise InputError(
            f"of {read} records none gave a document ({bad} bad, {counts['documents_empty']} "
            "empty); allow that with --allow-empty"
        )
