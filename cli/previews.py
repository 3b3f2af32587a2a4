"""What `dataprep tokenize --dry-run` shows: what is read, one document, what all of it will be."""

from __future__ import annotations

import sys
from typing import Any

import typer

from dataprep.cli.items import paint
from dataprep.cli.show import (
    echo,
    free_bytes,
    megabytes,
    print_json,
    scaled,
    show_sources,
    use_colour,
)
from dataprep.cli.tokenize import say_complete
from dataprep.pipeline.engine import load_decoder
from dataprep.pipeline.engine.fast import ADAPTERS
from dataprep.pipeline.engine.select import REFERENCE
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.executors import usable_cores
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.look.inspect import spans_of
from dataprep.pipeline.tokenize.notes import notes_of
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.tokenize.preview import Example, Preview, preview_of

SAMPLED = ("documents", "tokens", "empty", "bad", "first_bad", "never_there")


def show_plan(plan: TokenizePlan, outcome: Outcome | None, *, as_json: bool) -> None:
    """Show what would be done; `outcome` if that is nothing."""
    if outcome is not None and not as_json:
        say_complete(outcome)
        return
    preview = preview_of(plan)
    summary: dict[str, Any] = {
        "sources": [{"path": s.path, "kind": s.kind, "bytes": s.num_bytes} for s in plan.sources],
        "left_out": plan.left_out,
        "tasks": len(plan.tasks),
        "bytes": sum(task.num_bytes for task in plan.tasks),
        "masks": list(plan.masks),
        "token_dtype": plan.token_dtype,
        "fingerprint": plan.fingerprint,
        "was_complete": outcome is not None,
        "notes": notes_of(plan),
        "sample": {key: getattr(preview, key) for key in SAMPLED},
        "estimated_tokens": preview.all_tokens,
        "estimated_bytes": preview.all_bytes,
        "estimated_cpu_seconds": preview.cpu_seconds,
        "free_bytes": free_bytes(plan.config.out),
    }
    if as_json:
        print_json(summary)
        return
    show_sources(plan.sources, plan.left_out)
    for note in summary["notes"]:
        echo(f"note: {note}")
    typer.echo(
        f"{counted(len(plan.sources), 'source')}, {megabytes(summary['bytes'])} in "
        f"{counted(len(plan.tasks), 'task')}; tokens as {plan.token_dtype}, "
        f"masks {', '.join(plan.masks)}; nothing written"
    )
    show_preview(plan, preview)


def show_preview(plan: TokenizePlan, preview: Preview) -> None:
    """Show the first document, and what the sampled records tell of all."""
    if preview.example is not None:
        show_example(plan, preview.example)
    typer.echo(
        f"sampled: {counted(preview.documents, 'document')}, "
        f"{counted(preview.tokens, 'token')}, {preview.empty:,} empty, {preview.bad:,} bad"
    )
    if preview.first_bad:
        echo(f"the first bad one: {preview.first_bad}")
    for key in preview.never_there:
        echo(f"note: none of these records has the optional field {key!r}")
    free = free_bytes(plan.config.out)
    if preview.all_tokens is None or preview.all_bytes is None or preview.cpu_seconds is None:
        typer.echo(f"in all: not known before it is read; {scaled(free, 'B')} free")
        return
    workers = min(plan.config.workers or usable_cores(), max(1, len(plan.tasks)))
    seconds = preview.cpu_seconds / workers
    shown = f"{seconds:,.0f} s" if seconds >= 1 else "less than 1 s"
    kind = plan.vocabulary.files.kind
    may_be_fast = plan.config.engine != REFERENCE and any(
        kind in a.loads for a in ADAPTERS.values()
    )
    faster = ", less with a fast engine" if may_be_fast else ""
    typer.echo(
        f"in all, about: {scaled(preview.all_tokens, '')} tokens, "
        f"{scaled(preview.all_bytes, 'B')} on disk ({scaled(free, 'B')} free), "
        f"{shown} with {counted(workers, 'worker')}{faster}"
    )
    if preview.all_bytes > free:
        typer.echo(f"note: that is more than is free at {plan.config.out}; name another folder")


def show_example(plan: TokenizePlan, example: Example) -> None:
    decode = load_decoder(plan.vocabulary.files)
    spans = spans_of(example.arrays, decode, [example])
    colour = use_colour(sys.stdout)
    rest = example.num_tokens - len(example.arrays["tokens"])
    more = f" … and {counted(rest, 'token')} more" if rest else ""
    echo(f"{example.place}, {counted(example.num_tokens, 'token')}; [no loss on this]:")
    typer.echo("".join(paint(span, colour) for span in spans) + more, color=colour)
