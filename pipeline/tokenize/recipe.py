"""`tokenize` as a recipe.

out/.work/plan.json, engine.json      what workers read
out/.work/tasks/*                     committed shards, each with its marker
out/shards, index, provenance, …      moved there when every task is done
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import Vocabulary
from dataprep.pipeline.engine import (
    Selection,
    TokenizerFiles,
    rule_out,
    single_threaded_environment,
    why_ruled_out,
)
from dataprep.pipeline.errors import ConfigError, DataprepError, short
from dataprep.pipeline.jobs import make_dataset, silent
from dataprep.pipeline.jobs.accounts import bad_by_task, num_bad
from dataprep.pipeline.jobs.commits import (
    TASKS,
    Markers,
    make_tasks_folder,
    stem_of,
    trusted_markers,
)
from dataprep.pipeline.jobs.executors import Message, keeps_memory
from dataprep.pipeline.jobs.foresee import foresee
from dataprep.pipeline.jobs.limits import Limits
from dataprep.pipeline.jobs.plans import find_plan, write_plan
from dataprep.pipeline.jobs.poison import forget_poison
from dataprep.pipeline.jobs.publish import Draft
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, UntrustedWorkError, Work
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.sources import Spools, changed_sources, spooled
from dataprep.pipeline.tokenize.adopt import adopt_encoders
from dataprep.pipeline.tokenize.chats import ChatPlan, find_chats, template_files
from dataprep.pipeline.tokenize.engines import choose_engine, workers_for
from dataprep.pipeline.tokenize.manifest import make_draft
from dataprep.pipeline.tokenize.notes import note_on_engine, notes_of
from dataprep.pipeline.tokenize.plan import (
    FoundSources,
    TokenizePlan,
    find_all_sources,
    identity_of,
    make_plan,
)
from dataprep.pipeline.tokenize.reading import with_ends
from dataprep.pipeline.tokenize.sample import InexactEngineError, SampleCheck
from dataprep.pipeline.tokenize.sink import FILES, DocumentsMarker
from dataprep.pipeline.tokenize.vocabulary import vocabulary_of
from dataprep.pipeline.tokenize.worker import ENGINE, name_record


def tokenize(
    config: TokenizeConfig,
    *,
    cache_dir: Path,
    overwrite: bool = False,
    report: Report = silent,
    reads: Sequence[str] = (),
    found: FoundSources | None = None,
    spools: Spools | None = None,
) -> Outcome:
    """Make the tokenized dataset, or continue an interrupted run, or find it complete.

    `found` are the sources, if they are known; else all that the inputs name. `spools` keep inputs
    that are no files.
    """
    with spooled([item.path for item in config.inputs]) as stdin:
        recipe = recipe_of(config, cache_dir, {**stdin, **(spools or {})}, found)
        return make_dataset(recipe, overwrite=overwrite, report=report, reads=reads)


@contextmanager
def planned(
    config: TokenizeConfig, cache_dir: Path, *, overwrite: bool = False, reads: Sequence[str] = ()
) -> Iterator[tuple[TokenizePlan, Outcome | None]]:
    """Plan what `tokenize` would do; the sources can be read meanwhile, stdin too.

    With the plan comes the outcome, if there is nothing to do; a conflict is raised.
    """
    with spooled([item.path for item in config.inputs]) as stdin:
        recipe = recipe_of(config, cache_dir, stdin)
        plan = recipe.plan()
        yield plan, foresee(recipe, plan, overwrite=overwrite, reads=reads)


def recipe_of(
    config: TokenizeConfig,
    cache_dir: Path,
    spools: Spools | None = None,
    found: FoundSources | None = None,
) -> Recipe[TokenizePlan, DocumentsMarker]:
    return Recipe(
        out=config.out,
        plan=partial(plan_of, config, cache_dir, spools, found),
        identity=lambda plan: plan.identity,
        names=_paths,
        reads=lambda plan: [*_paths(plan), plan.vocabulary.files.path, *template_files(config)],
        begin=partial(_begin, config, cache_dir),
        changed=partial(_changed, cache_dir),
        draft=_draft,
        limits=Limits(max_errors=config.max_errors, allow_empty=config.allow_empty),
        may_change=("on_error",),  # it does not change the shards that are kept
    )


def plan_of(
    config: TokenizeConfig,
    cache_dir: Path,
    spools: Spools | None = None,
    found: FoundSources | None = None,
) -> TokenizePlan:
    """Return the plan, for which inputs are looked at; `spools` keep those that are no files."""
    if not config.inputs:
        raise ConfigError("no input; name files, folders, globs, hf:NAME or synthetic:text")
    if not config.tokenizer:
        raise ConfigError("no tokenizer; set --tokenizer to a tokenizer.json, a folder or bytes")
    vocabulary = vocabulary_of(config, cache_dir)
    found = found or find_all_sources(config, cache_dir, spools)
    return make_plan(*_told_by(config, vocabulary, found))


def identity_told(
    config: TokenizeConfig, vocabulary: Vocabulary, found: FoundSources
) -> dict[str, Any]:
    """Return the identity of the dataset that `tokenize` would make of these sources."""
    return identity_of(*_told_by(config, vocabulary, found))


def _told_by(
    config: TokenizeConfig, vocabulary: Vocabulary, found: FoundSources
) -> tuple[TokenizeConfig, Vocabulary, FoundSources, tuple[ChatPlan | None, ...]]:
    """Return with the config what the sources tell: how codes were made, what form chats have."""
    found = replace(found, sources=with_ends(found.sources, vocabulary.files))
    # Encoders set frames and codebooks, which the vocabulary does not depend on.
    adopted = adopt_encoders(config, found.sources, found.inputs)
    chats = find_chats(adopted, vocabulary.files, found.sources, found.inputs)
    return adopted, vocabulary, found, chats


def _paths(plan: TokenizePlan) -> list[str]:
    return [source.path for source in plan.sources]


def _changed(cache_dir: Path, plan: TokenizePlan) -> str:
    changed = changed_sources(plan.sources, cache_dir)
    return changed[0].path if changed else ""


def _draft(plan: TokenizePlan, work: Path, markers: Markers[DocumentsMarker]) -> Draft:
    return make_draft(plan, work, markers)


def _begin(
    config: TokenizeConfig, cache_dir: Path, plan: TokenizePlan, work: Path, report: Report
) -> Work[DocumentsMarker]:
    notes = [*notes_of(plan), *_discard_untrusted(plan, work, cache_dir)]
    make_tasks_folder(work)
    write_plan(work, plan)
    fails = config.on_error == "fail"
    if fails:
        forget_poison(work)
    stems = [stem_of(work, task_name(task)) for task in plan.tasks]
    # A run that left bad records out may be continued by one that must stop at the first.
    markers = trusted_markers(
        stems,
        DocumentsMarker,
        FILES,
        is_wanted=lambda marker: not (fails and num_bad([marker])),
    )
    left = markers.left()
    selection = _selection(config, plan, left, work, cache_dir, report)
    tasks = [plan.tasks[i] for i in left]
    num_workers = config.workers or workers_for(selection, plan, tasks)
    return Work(
        worker="dataprep.pipeline.tokenize.worker",
        markers=markers,
        num_workers=num_workers,
        task_timeout=config.task_timeout,
        known_bad=bad_by_task(markers, left),
        name_record=partial(name_record, plan),
        describe=lambda i: f"task {i} ({plan.sources[plan.tasks[i].pieces[0].source].path})",
        environment=single_threaded_environment() if plan.has_texts else keeps_memory(),
        on_message=_sample_checker(selection, plan.vocabulary.files, cache_dir),
        begun={
            "engine": f"{selection.name} {selection.version}",
            "notes": [*notes, *note_on_engine(selection)],
            "rejected": [f"{other.engine}: {other.why}" for other in selection.rejected],
            "sources": len(plan.sources),
            "left_out": plan.left_out,
            "tasks": len(plan.tasks),
            "tasks_done": len(plan.tasks) - len(left),
            "num_bytes": sum(plan.tasks[i].num_bytes for i in left),
            "workers": min(num_workers, max(len(left), 1)),
        },
    )


def _sample_checker(
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


def _discard_untrusted(plan: TokenizePlan, work: Path, cache_dir: Path) -> list[str]:
    """Throw away what an engine did that another run has ruled out since; return what to say."""
    begun = find_plan(work, Selection, ENGINE)
    why = begun and why_ruled_out(begun, plan.vocabulary.files, cache_dir=cache_dir)
    if begun is None or not why:
        return []
    if (work / TASKS).exists():
        shutil.rmtree(work / TASKS)
    (work / ENGINE).unlink()
    engine = f"engine {begun.name} {begun.version}"
    why = short(why, 100)
    return [f"{engine} was ruled out since this run began ({why}), so its work was thrown away"]


def _selection(
    config: TokenizeConfig,
    plan: TokenizePlan,
    left: Sequence[int],
    work: Path,
    cache_dir: Path,
    report: Report,
) -> Selection:
    """Return the engine for the tasks that are left: that of the interrupted run, unless the config
    asks for another. Under auto the reference is not kept: there may be a fast engine by now."""
    begun = find_plan(work, Selection, ENGINE)
    if begun is not None:
        is_fast = begun.proof is not None
        if config.engine == begun.name or (config.engine == "auto" and is_fast):
            return begun
    tasks = [plan.tasks[i] for i in left]
    selection = choose_engine(config.engine, plan, tasks, cache_dir, report)
    write_plan(work, selection, ENGINE)
    return selection
