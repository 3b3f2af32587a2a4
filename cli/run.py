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
    DryRun,
    Json,
    Log,
    Quiet,
    Set,
    Verbose,
)
from dataprep.cli.show import Progress, columns, echo, print_json, say_settings, scaled
from dataprep.cli.tables import table
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

EXAMPLE = "Example: dataprep run dataprep.yaml"
IfLocked = Literal["fail", "wait", "skip"]
flag = Flags(RunConfig)
SECTIONS = {
    "What to do": ("config", "only", "dry_run", "why"),
    "How to work": ("sets", "out", "workers", "if_locked"),
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
    dry_run: DryRun = False,
    why: Annotated[
        bool, typer.Option("--why", help="Say what each step would do, and the reason.")
    ] = False,
    sets: Set = None,
    out: Annotated[str | None, flag("out")] = None,
    workers: Annotated[int | None, flag("workers")] = None,
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
    settings = load_config(
        RunConfig, files=config, sets=sets or (), flags={"out": out, "workers": workers}
    )
    if verbose and not quiet:
        say_settings(settings)
    chain = StepChain(config=settings, cache_dir=default_cache(), only=only or ())
    if dry_run or why:
        todos, failure = foresee_all(chain)
        show_plan(todos, as_json=as_json)
        if failure is not None:
            raise failure
        return
    if metrics is not None:
        check_metrics(Path(metrics))
    try:
        made = run_shown(chain, if_locked == "wait", quiet, verbose, log_format)
    except LockedError:
        if if_locked != "skip":
            raise
        if not quiet:
            echo(f"another run holds {settings.out}; nothing done", err=True)
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
                progress.say(f"{step.folder}: failed, the other corpora go on: {error}")

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
    """Return the lines of Python that load what was packed: the first length, the first split."""
    packed = [done for done in steps if "rows" in done.counts]
    if not packed:
        return []
    first = packed[0].todo.step
    assert first.pack is not None
    alike = [
        done
        for done in packed
        if done.todo.step.split == first.split
        and done.todo.step.pack is not None
        and done.todo.step.pack.seq_len == first.pack.seq_len
        and done.counts["rows"]
    ]
    shares = chain.config.mixture
    weights = {
        done.todo.step.corpus: shares.get(
            done.todo.step.corpus, 0 if shares else done.counts["rows"]
        )
        for done in alike
    }
    if len(alike) == 1:
        data = repr(str(alike[0].out))
    else:
        pairs = [
            f"{done.todo.step.corpus!r}: ({str(done.out)!r}, {weights[done.todo.step.corpus]})"
            for done in alike
            if weights[done.todo.step.corpus]
        ]
        data = "{" + ", ".join(pairs) + "}"
    return [
        "import dataprep",
        f"loader = dataprep.DataLoader({data}, batch_size=8)",
        "batch = next(iter(loader))",
    ]
