"""`tokenize` as a recipe.

out/.work/plan.json, engine.json      what workers read
out/.work/tasks/*                     committed shards, each with its marker
out/shards, index, provenance, …      moved there when every task is done
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import Vocabulary
from dataprep.pipeline.engine import (
    Selection,
    single_threaded_environment,
    why_ruled_out,
)
from dataprep.pipeline.errors import ConfigError, CorruptError, DataprepError, short
from dataprep.pipeline.jobs import make_dataset, silent
from dataprep.pipeline.jobs.accounts import bad_by_task, num_bad
from dataprep.pipeline.jobs.commits import (
    Markers,
    make_tasks_folder,
    stem_of,
    trusted_markers,
)
from dataprep.pipeline.jobs.elements import ShareDone, do_share, refuse_streams
from dataprep.pipeline.jobs.executors import keeps_memory, most_workers, options_of
from dataprep.pipeline.jobs.foresee import foresee
from dataprep.pipeline.jobs.limits import Limits
from dataprep.pipeline.jobs.plans import find_plan, rare_collections, write_plan
from dataprep.pipeline.jobs.poison import forget_poison
from dataprep.pipeline.jobs.publish import Draft
from dataprep.pipeline.jobs.recipes import (
    Outcome,
    Recipe,
    Report,
    UntrustedWorkError,
    Work,
    done_by_others,
)
from dataprep.pipeline.jobs.shares import JobShare, own_jobs, own_turn
from dataprep.pipeline.jobs.stored import TASKS
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.sources import Spools, changed_sources, spooled
from dataprep.pipeline.tokenize.adopt import adopt_encoders
from dataprep.pipeline.tokenize.chats import ChatPlan, find_chats, template_files
from dataprep.pipeline.tokenize.engines import choose_engine, sample_checker, workers_for
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
from dataprep.pipeline.tokenize.sink import FILES, DocumentsMarker
from dataprep.pipeline.tokenize.told import read_whole_plan, write_whole_plan
from dataprep.pipeline.tokenize.vocabulary import vocabulary_of
from dataprep.pipeline.tokenize.worker import ENGINE, name_record

WORKER = "dataprep.pipeline.tokenize.worker"


def tokenize(
    config: TokenizeConfig,
    *,
    cache_dir: Path,
    overwrite: bool = False,
    report: Report = silent,
    reads: Sequence[str] = (),
    found: FoundSources | None = None,
    vocabulary: Vocabulary | None = None,
    spools: Spools | None = None,
) -> Outcome:
    """Make the tokenized dataset, or continue an interrupted run, or find it complete.

    `found` are the sources, if they are known; else all that the inputs name. `vocabulary` is that
    of the config, if it is known. `spools` keep inputs that are no files.
    """
    with spooled([item.path for item in config.inputs]) as stdin:
        recipe = recipe_of(
            config, cache_dir, {**stdin, **(spools or {})}, found, vocabulary=vocabulary
        )
        return make_dataset(recipe, overwrite=overwrite, report=report, reads=reads)


def tokenize_share(
    config: TokenizeConfig,
    share: JobShare,
    *,
    cache_dir: Path,
    report: Report = silent,
    reads: Sequence[str] = (),
) -> ShareDone:
    """Do the jobs of one element of a task array."""
    refuse_streams([item.path for item in config.inputs])
    return do_share(recipe_of(config, cache_dir, share=share), report=report, reads=reads)


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
    share: JobShare | None = None,
    vocabulary: Vocabulary | None = None,
) -> Recipe[TokenizePlan, DocumentsMarker]:
    return Recipe(
        out=config.out,
        plan=partial(plan_of, config, cache_dir, spools, found, vocabulary),
        identity=lambda plan: plan.identity,
        names=_paths,
        prints=lambda plan: [source.fingerprint for source in plan.sources],
        reads=lambda plan: [*_paths(plan), plan.vocabulary.files.path, *template_files(config)],
        begin=partial(_begin, config, cache_dir, share),
        changed=partial(_changed, cache_dir),
        draft=_draft,
        limits=Limits(max_errors=config.max_errors, allow_empty=config.allow_empty),
        may_change=("on_error",),  # it does not change the shards that are kept
        share=share,
        executor=config.executor,
        executor_options=options_of(config.executor, config.ray_address, config.workers),
    )


def recipe_begun(
    out: Path | str, work: Path, cache_dir: Path
) -> Recipe[TokenizePlan, DocumentsMarker]:
    """Return the recipe of the run that was begun in a folder, to publish what it has made."""
    plan = read_whole_plan(work)
    config = plan.config.model_copy(update={"out": str(out)})
    return replace(
        recipe_of(config, cache_dir),
        executor="local",
        executor_options={},
        plan=lambda: plan,
        begin=partial(_gather, cache_dir),
    )


def plan_of(
    config: TokenizeConfig,
    cache_dir: Path,
    spools: Spools | None = None,
    found: FoundSources | None = None,
    vocabulary: Vocabulary | None = None,
) -> TokenizePlan:
    """Return the plan, for which inputs are looked at; `spools` keep those that are no files."""
    if not config.inputs:
        raise ConfigError("no input; name files, folders, globs, hf:NAME or synthetic:text")
    if not config.tokenizer:
        raise ConfigError("no tokenizer; set --tokenizer to a tokenizer.json, a folder or bytes")
    vocabulary = vocabulary or vocabulary_of(config, cache_dir)
    with rare_collections():
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
    config: TokenizeConfig,
    cache_dir: Path,
    share: JobShare | None,
    plan: TokenizePlan,
    work: Path,
    report: Report,
) -> Work[DocumentsMarker]:
    sizes = _sizes(plan)
    own = own_jobs(share, sizes)
    with own_turn(share, work):
        notes = [*notes_of(plan), *_discard_untrusted(plan, work, cache_dir, share)]
        make_tasks_folder(work)
        write_whole_plan(work, plan)
        if config.on_error == "fail":
            forget_poison(work, range(len(plan.tasks)) if own is None else own)
    markers = _markers(plan, work, own=own)
    left = markers.left()
    tasks = [plan.tasks[i] for i in left]
    with own_turn(share, work):
        selection = _selection(config, plan, left, work, cache_dir, report)
    num_workers = config.workers or workers_for(
        selection, plan, tasks, most_workers(config.executor)
    )
    return Work(
        worker=WORKER,
        markers=markers,
        sizes=sizes,
        num_workers=num_workers,
        task_timeout=config.task_timeout,
        known_bad=bad_by_task(markers, left),
        name_record=lambda task, *at: name_record(plan.sources, plan.tasks[task], *at),
        describe=partial(_describe, plan),
        environment=single_threaded_environment() if plan.has_texts else keeps_memory(),
        on_message=sample_checker(selection, plan.vocabulary.files, cache_dir),
        begun={
            "engine": f"{selection.name} {selection.version}",
            "notes": [*notes, *note_on_engine(selection)],
            "rejected": [f"{other.engine}: {other.why}" for other in selection.rejected],
            "sources": len(plan.sources),
            "left_out": plan.left_out,
            "tasks": len(markers.own),
            "tasks_done": len(markers.own) - len(left),
            "num_bytes": sum(plan.tasks[i].num_bytes for i in left),
            "workers": min(num_workers, max(len(left), 1)),
        },
    )


def _gather(
    cache_dir: Path, plan: TokenizePlan, work: Path, report: Report
) -> Work[DocumentsMarker]:
    """Return the work that others have done, with nothing prepared for workers."""
    begun = find_plan(work, Selection, ENGINE)
    why = begun and why_ruled_out(begun, plan.vocabulary.files, cache_dir=cache_dir)
    if begun is not None and why:
        raise CorruptError(
            f"engine {begun.name} {begun.version} was ruled out since the work began "
            f"({short(why, 100)}), so it cannot be used; throw it away (dataprep clean) and run "
            "all elements again"
        )
    markers = _markers(plan, work, rehash=False)
    describe = partial(_describe, plan)
    return done_by_others(WORKER, markers, _sizes(plan), describe)


def _markers(
    plan: TokenizePlan, work: Path, *, own: Sequence[int] | None = None, rehash: bool = True
) -> Markers[DocumentsMarker]:
    fails = plan.config.on_error == "fail"
    return trusted_markers(
        [stem_of(work, task_name(task)) for task in plan.tasks],
        DocumentsMarker,
        FILES,
        # A run that left bad records out may be continued by one that must stop at the first.
        is_wanted=lambda marker: not (fails and num_bad([marker])),
        own=own,
        rehash=rehash,
    )


def _sizes(plan: TokenizePlan) -> list[int]:
    return [task.num_bytes for task in plan.tasks]


def _describe(plan: TokenizePlan, task: int) -> str:
    return f"task {task} ({plan.sources[plan.tasks[task].pieces[0].source].path})"


def _discard_untrusted(
    plan: TokenizePlan, work: Path, cache_dir: Path, share: JobShare | None
) -> list[str]:
    """Throw away what an engine did that another run has ruled out since; return what to say."""
    begun = find_plan(work, Selection, ENGINE)
    why = begun and why_ruled_out(begun, plan.vocabulary.files, cache_dir=cache_dir)
    if begun is None or not why:
        return []
    engine = f"engine {begun.name} {begun.version}"
    why = short(why, 100)
    if share is not None:
        raise UntrustedWorkError(
            DataprepError(f"{engine} was ruled out since this array began ({why})")
        )
    if (work / TASKS).exists():
        shutil.rmtree(work / TASKS)
    (work / ENGINE).unlink()
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
