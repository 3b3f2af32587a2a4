"""`tokenize`: plan -> execute -> manifest.

    out/.work/plan.json, engine.json      what workers are told
    out/.work/tasks/*                     shards as tasks commit them, each with its marker
    out/shards, index, provenance, …      moved there when every task is done
    out/manifest.json                     last; then .work goes

Running the same command again goes on from the markers; on a finished dataset it does nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from dataprep.configs import TokenizeConfig
from dataprep.pipeline.engine import (
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
from dataprep.pipeline.execute import Message, run_jobs, usable_cores
from dataprep.pipeline.files import disk_errors_named, write_atomic
from dataprep.pipeline.finish import finish, make_manifest
from dataprep.pipeline.plan import (
    Plan,
    Vocabulary,
    adds_special_tokens,
    fields_of,
    make_plan,
    may_have_vision,
)
from dataprep.pipeline.shards import committed_shards
from dataprep.pipeline.worker import ENGINE, PLAN, TASKS, task_stem
from dataprep.pipeline.workspace import (
    check_out,
    complete_manifest,
    locked,
    prepare,
    remove_dataset,
)

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
    seen = _stat_inputs(plan)
    with disk_errors_named(out), locked(out):
        if overwrite:
            remove_dataset(out)
        names = [source.path for source in plan.sources]
        manifest = complete_manifest(out, plan.identity, names)
        if manifest is not None:
            return Outcome(out=out, manifest=manifest, was_complete=True)
        work = prepare(out, plan.identity, names)
        (work / TASKS).mkdir(exist_ok=True)
        write_atomic(work / PLAN, msgspec.json.encode(plan))
        selection = _execute(plan, config, work, cache_dir, report)
        if _stat_inputs(plan) != seen:
            shutil.rmtree(work)
            raise InputError(
                "an input changed while it was read, so the work was thrown away; "
                "run again when nothing writes to it"
            )
        manifest = make_manifest(plan, work, msgspec.to_builtins(selection))
        _check_counts(manifest["counts"], config)
        finish(plan, out, work, manifest)
    return Outcome(out=out, manifest=manifest, was_complete=False)


def plan_of(config: TokenizeConfig, cache_dir: Path) -> Plan:
    values = config.model_dump(mode="json")
    if not config.inputs:
        raise ConfigError("no input; name files, folders, globs, hf:NAME or synthetic:text")
    if not config.tokenizer:
        raise ConfigError("no tokenizer; set --tokenizer to a tokenizer.json, a folder or bytes")
    return make_plan(values, vocabulary_of(config, values), cache_dir)


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
    vision = config.modalities.vision
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    if any(may_have_vision(fields_of(values, i)) for i in range(len(config.inputs))):
        start, end = (_tag_ids(tag, files) for tag in (vision.start, vision.end))
    return Vocabulary(
        files=files,
        vision_start=start,
        vision_end=end,
        text_prefix=tuple(prefix),
        text_suffix=tuple(suffix),
    )


def _tag_ids(tag: str | tuple[int, ...], files: TokenizerFiles) -> tuple[int, ...]:
    if not isinstance(tag, str):
        return tag
    ids, _ = load_reference(files).encode([tag])
    return tuple(ids.tolist())


def _stat_inputs(plan: Plan) -> list[tuple[int, int] | None]:
    """Size and time of every local input: cheap to compare."""
    stats: list[tuple[int, int] | None] = []
    for source in plan.sources:
        try:
            stat = os.stat(source.path)
            stats.append((stat.st_size, stat.st_mtime_ns))
        except (OSError, ValueError):
            stats.append(None)
    return stats


def _execute(
    plan: Plan, config: TokenizeConfig, work: Path, cache_dir: Path, report: Report
) -> Selection:
    left = []
    for task in plan.tasks:
        done = committed_shards(task_stem(work, task))
        if not (done and done[-1].final):
            left.append(task)
    chosen = work / ENGINE
    if chosen.exists():
        # A run keeps its engine, whatever was installed meanwhile.
        selection = msgspec.json.decode(chosen.read_bytes(), type=Selection)
    else:
        report("engine", {})
        selection = select_engine(config.engine, plan.vocabulary.files, cache_dir=cache_dir)
        write_atomic(chosen, msgspec.json.encode(selection))
    report("start", _start_values(plan, left, selection, config))
    limit = ErrorLimit(config.max_errors)
    check = SampleCheck(plan, selection, work, cache_dir)

    def on_message(message: Message) -> None:
        if message["type"] == "progress":
            report("progress", message)
            limit.add(message["documents"], message["errors"])
        elif message["type"] == "sample":
            check.add(message["sample"])

    run_jobs(
        [asdict(task) for task in left],
        module="dataprep.pipeline.worker",
        arguments=[str(work), str(os.getpid())],
        environment=single_threaded_environment(),
        num_workers=config.workers or usable_cores(),
        describe=lambda i: f"{plan.sources[left[i].pieces[0].source].path} (task {left[i].index})",
        on_message=on_message,
    )
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
        "workers": config.workers or usable_cores(),
    }


class SampleCheck:
    """Encodes samples again with the reference; a difference ends the run and its engine."""

    def __init__(self, plan: Plan, selection: Selection, work: Path, cache_dir: Path) -> None:
        self._files = plan.vocabulary.files
        self._selection = selection
        self._work = work
        self._cache_dir = cache_dir
        self._reference: Any = None

    def add(self, sample: list[tuple[str, list[int]]]) -> None:
        if not sample or self._selection.proof is None:
            return
        if self._reference is None:
            self._reference = load_reference(self._files)
        try:
            check_sample(self._reference, [t for t, _ in sample], [ids for _, ids in sample])
        except DataprepError as error:
            rule_out(self._selection, self._files, str(error), cache_dir=self._cache_dir)
            shutil.rmtree(self._work)
            raise DataprepError(
                f"engine {self._selection.name} {self._selection.version} is not exact: {error}; "
                "it is ruled out for this tokenizer from now on and the work was thrown away; "
                "run the same command again"
            ) from None


class ErrorLimit:
    """Ends the run when more records than allowed are bad: N, or P% of what was read."""

    def __init__(self, limit: str | None) -> None:
        self._share = float(limit[:-1]) / 100 if limit and limit.endswith("%") else None
        self._count = float(limit) if limit and self._share is None else None
        self._text = limit
        self._good = self._bad = 0

    def add(self, good: int, bad: int) -> None:
        self._good += good
        self._bad += bad
        if self._count is not None and self._bad > self._count:
            self._stop()
        # A share means little before there is something to share.
        if self._share is not None and self._good + self._bad >= 1000:
            self.check(self._good + self._bad, self._bad)

    def check(self, read: int, bad: int) -> None:
        self._bad = bad
        if (self._count is not None and bad > self._count) or (
            self._share is not None and bad > self._share * read
        ):
            self._stop()

    def _stop(self) -> None:
        raise InputError(
            f"{self._bad} bad records, more than --max-errors {self._text} allows; "
            "see what is wrong with --on-error fail"
        )


def _check_counts(counts: Mapping[str, int], config: TokenizeConfig) -> None:
    read = counts["documents_read"]
    bad = counts["documents_quarantined"] + counts["documents_dropped"]
    ErrorLimit(config.max_errors).check(read, bad)
    if read == 0 and not config.allow_empty:
        raise InputError("the inputs hold no record at all; allow that with --allow-empty")
