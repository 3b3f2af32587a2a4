"""`dataprep run`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from dataprep.cli.help import Flags, choice, in_sections
from dataprep.cli.options import (
    MESSAGES_SECTION,
    Json,
    Log,
    Quiet,
    Set,
    Verbose,
)
from dataprep.cli.show import Progress, columns, echo, print_json, say_settings, scaled
from dataprep.cli.tables import table
from dataprep.configs.base import ExecutorName
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import DataprepError, LockedError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.run.chain import ChainStep, Done, StepChain, Todo
from dataprep.pipeline.run.summary import (
    RunOutcome,
    check_metrics,
    figures_of,
    foresee_all,
    run_all,
    summary_of,
    write_metrics,
)
from dataprep.pipeline.storage.alike import difference_among
from dataprep.pipeline.storage.manifest import PackedManifest

EXAMPLE = "Example: dataprep run dataprep.yaml"
IfLocked = Literal["fail", "wait", "skip"]
flag = Flags(RunConfig)
SECTIONS = {
    "What to do": ("config", "only", "why"),
    "How to work": ("sets", "out", "workers", "executor", "ray_address", "if_locked"),
    "What to say": ("metrics", *MESSAGES_SECTION),
}


def add_commands(app: typer.Typer) -> None:
    app.command("run", cls=in_sections(SECTIONS), epilog=EXAMPLE)(run_command)


def run_command(
    config: Annotated[
        list[str],
        typer.Argument(metavar="CONFIG", help="YAML or TOML file; of several, later ones win."),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            help="Do only these steps: encode, tokenize or pack, a corpus, or a folder such as "
            "web/tokenized; may be given several times.",
        ),
    ] = None,
    why: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            "--why",
            help="Say what each step would do and the reason, and write nothing; two names of one "
            "flag.",
        ),
    ] = False,
    sets: Set = None,
    out: Annotated[str | None, flag("out")] = None,
    workers: Annotated[int | None, flag("workers")] = None,
    executor: Annotated[ExecutorName | None, flag("executor")] = None,
    ray_address: Annotated[str | None, flag("ray_address", metavar="ADDRESS")] = None,
    if_locked: Annotated[
        IfLocked,
        choice(
            IfLocked,
            "--if-locked",
            help="If another run is at work: exit with code 75, wait for it, or exit 0.",
        ),
    ] = "fail",
    metrics: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write figures for Prometheus' textfile collector."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = "text",
) -> None:
    """Encode, tokenize and pack every corpus of a config; do only what is new since the last run.

    New input files become a new generation of each dataset; old shards stay as they are. Run it
    again to continue after an interruption. Where nothing is new, nothing is done.
    """
    flags = {"out": out, "workers": workers, "executor": executor, "ray_address": ray_address}
    settings = load_config(RunConfig, files=config, sets=sets or (), flags=flags)
    if verbose and not quiet:
        say_settings(settings)
    chain = StepChain(config=settings, cache_dir=default_cache(), only=only or ())
    if why:
        todos, failure = foresee_all(chain)
        show_plan(todos, as_json=as_json)
        if failure is not None:
            raise failure
        return
    if metrics is not None:
        check_metrics(Path(metrics))
    try:
        made = run_shown(chain, if_locked == "wait", quiet, verbose, log_format)
    except LockedError as locked:
        if if_locked != "skip":
            raise
        if as_json:
            print_json({"skipped": str(locked), "steps": []})
        elif not quiet:
            Progress(quiet=False, log_format=log_format).say(f"skipped: {locked}")
        return
    if metrics is not None:
        with disk_errors_named(Path(metrics)):
            write_metrics(Path(metrics), made.steps)
    if as_json:
        print_json(summary_of(made))
    elif not quiet:
        show_table(made.steps, chain)


def run_shown(
    chain: StepChain, wait: bool, quiet: bool, verbose: bool, log_format: str
) -> RunOutcome:
    """Do what is to be done, and show it on stderr."""
    with ExitStack() as shown:

        def begin(todo: Todo) -> Report:
            shown.close()
            progress = Progress(quiet=quiet, log_format=log_format, verbose=verbose)
            if not quiet:
                progress.say(f"{todo.step.folder}: {'; '.join(todo.reasons)}")
            return shown.enter_context(progress)

        def end(done: Done) -> None:
            shown.close()
            if not quiet:
                show_step(done, Progress(quiet=False, log_format=log_format))

        def fail(step: ChainStep, error: DataprepError) -> None:
            shown.close()
            if len(chain.config.names) > 1 and not quiet:
                progress = Progress(quiet=quiet, log_format=log_format)
                progress.say(f"{step.folder}: failed, as is told at the end; other corpora go on")

        return run_all(chain, begin, end, fail, wait=wait)


def show_plan(todos: Sequence[Todo], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"step": todo.step.folder, "why": list(todo.reasons), "notes": list(todo.notes)}
                for todo in todos
            ]
        )
        return
    for todo in todos:
        echo(f"{todo.step.folder}: {'; '.join(todo.reasons) or 'nothing to do'}")
        for note in todo.notes:
            echo(f"  note: {note}")


def show_step(done: Done, progress: Progress) -> None:
    """Say on stderr what a step did, and what became of records that are no documents."""
    made = "made" if done.generation is None else f"generation {done.generation}"
    what = made if done.todo.reasons else "nothing to do"
    left = [f"{count:,} {fate}" for fate, count in _left_out(done).items() if count]
    bad = f"; in all {', '.join(left)}" if left else ""
    progress.say(f"{done.todo.step.folder}: {what}, {done.seconds:.1f} s{bad}")
    for note in done.todo.notes:
        progress.say(f"  note: {note}")


def _left_out(done: Done) -> dict[str, int]:
    fates = ("quarantined", "dropped", "empty", "duplicate", "forgotten")
    return {fate: done.counts.get(f"documents_{fate}", 0) for fate in fates}


def show_table(steps: Sequence[Done], chain: StepChain) -> None:
    """Print what there is now, and how it is loaded."""
    heads = ("step", "documents", "tokens", "rows", "padding", "on disk", "generation", "seconds")
    for line in table([heads, *map(_cells, steps)], columns()):
        echo(line)
    lines = python_lines(steps, chain)
    if lines:
        print("load it:")
        for line in lines:
            echo(f"  {line}")


def _cells(done: Done) -> tuple[str, ...]:
    figures = figures_of(done)
    is_packed = "rows" in figures
    seq_len = getattr(done.manifests[0], "seq_len", None) or 0
    places = figures.get("rows", 0) * (seq_len + 1)
    tokens = f"{figures['tokens']:,}" if "tokens" in figures else f"{figures['codes']:,} codes"
    return (
        done.todo.step.folder,
        f"{figures['documents']:,}",
        tokens,
        f"{figures['rows']:,}" if is_packed else "",
        f"{figures['padding'] / max(places, 1):.2%}" if is_packed else "",
        scaled(figures["bytes"], "B"),
        str(figures.get("generation", "")),
        f"{done.seconds:.1f}",
    )


def python_lines(steps: Sequence[Done], chain: StepChain) -> list[str]:
    """Return the lines of Python that load what was packed: the first length and split that have
    rows, of all corpora that go together, by the shares of the mixture; none if there is nothing to
    load."""
    packed = [done for done in steps if done.counts.get("rows")]
    shares = chain.config.mixture
    mixed = [done for done in packed if shares.get(done.todo.step.corpus, 0)] if shares else packed
    together = _together(mixed or packed[:1])
    if not together:
        return []
    weights = {
        done.todo.step.corpus: (
            str(done.out),
            shares[done.todo.step.corpus] if mixed and shares else done.counts["rows"],
        )
        for done in together
    }
    (only, _), *more = weights.values()
    return [
        "import dataprep",
        f"loader = dataprep.DataLoader({weights if more else only!r}, batch_size=8)",
        "batch = next(iter(loader))",
    ]


def _together(packed: Sequence[Done]) -> list[Done]:
    """Return the first of these, and all others that a loader can mix with it."""
    found: list[Done] = []
    for done in packed:
        each = (one.manifests[0] for one in (*found, done))
        manifests = [manifest for manifest in each if isinstance(manifest, PackedManifest)]
        if _kind_of_rows(done) == _kind_of_rows(packed[0]) and not difference_among(manifests):
            found.append(done)
    return found


def _kind_of_rows(done: Done) -> tuple[str, int | None]:
    step = done.todo.step
    return step.split, step.pack.seq_len if step.pack else None
