"""`dataprep pack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from dataprep.cli.help import Flags, in_sections
from dataprep.cli.options import (
    CONFIG_SECTION,
    MESSAGES_SECTION,
    Config,
    DryRun,
    Json,
    Log,
    Overwrite,
    Quiet,
    Set,
    Task,
    Verbose,
)
from dataprep.cli.sharing import share_and_show, share_of
from dataprep.cli.show import (
    Progress,
    free_bytes,
    megabytes,
    print_json,
    say_settings,
    show_complete,
    show_next,
    speed_of,
    summary_of,
)
from dataprep.configs.base import (
    Compat,
    Compression,
    ExecutorName,
    Overflow,
    Side,
    StrategyName,
    TurnsKept,
)
from dataprep.configs.load import load_config
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.pack import pack, pack_share, planned
from dataprep.pipeline.pack.strategies import Counts
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.provenance import LOST

EXAMPLE = "Example: dataprep pack data/tokenized --seq-len 4096 --out data/packed"
flag = Flags(PackConfig)
SECTIONS = {
    "What to read": ("inputs", "allow_duplicates"),
    "What to make of it": (
        *("seq_len", "strategy", "overflow", "turns", "truncate_side", "pad_side", "max_segments"),
        *("keep_blocks", "drop_tail", "drop_empty_targets", "open_rows", "window", "seed"),
        *("pad_id", "compat"),
    ),
    "What to write": (
        *("out", "shard_rows", "shard_bytes", "compression", "overwrite", "dry_run"),
    ),
    "How to work": (
        *(*CONFIG_SECTION, "workers", "task_timeout"),
        *("executor", "ray_address", "task"),
    ),
    "What to say": MESSAGES_SECTION,
}

# Counts that are worth a note in the summary: (count, of what, what became of it, tokens lost).
NOTES = (
    ("documents_split", "document", "split", ""),
    ("documents_truncated", "document", "truncated", "tokens_truncated"),
    ("documents_dropped", "document", "dropped", "tokens_dropped"),
    ("rows_without_target", "row", "without a target", "tokens_in_dropped_rows"),
    ("blocks_cut", "block", "cut", ""),
)


def add_commands(app: typer.Typer) -> None:
    app.command("pack", cls=in_sections(SECTIONS), epilog=EXAMPLE)(pack_command)


def pack_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="TOKENIZED", help=flag.about("inputs"))
    ] = None,
    out: Annotated[str | None, flag("out")] = None,
    config: Config = None,
    sets: Set = None,
    seq_len: Annotated[int | None, flag("seq_len")] = None,
    strategy: Annotated[StrategyName | None, flag("strategy")] = None,
    overflow: Annotated[Overflow | None, flag("overflow")] = None,
    turns: Annotated[TurnsKept | None, flag("turns")] = None,
    truncate_side: Annotated[Side | None, flag("truncate_side")] = None,
    pad_side: Annotated[Side | None, flag("pad_side")] = None,
    max_segments: Annotated[int | None, flag("max_segments")] = None,
    keep_blocks: Annotated[
        bool | None, flag("keep_blocks", "--keep-blocks/--no-keep-blocks")
    ] = None,
    drop_tail: Annotated[bool | None, flag("drop_tail", "--drop-tail/--no-drop-tail")] = None,
    drop_empty_targets: Annotated[
        bool | None, flag("drop_empty_targets", "--drop-empty-targets")
    ] = None,
    open_rows: Annotated[int | None, flag("open_rows")] = None,
    window: Annotated[int | None, flag("window")] = None,
    pad_id: Annotated[int | None, flag("pad_id")] = None,
    seed: Annotated[int | None, flag("seed")] = None,
    compat: Annotated[Compat | None, flag("compat")] = None,
    compression: Annotated[Compression | None, flag("compression")] = None,
    shard_rows: Annotated[int | None, flag("shard_rows")] = None,
    shard_bytes: Annotated[int | None, flag("shard_bytes")] = None,
    allow_duplicates: Annotated[bool | None, flag("allow_duplicates", "--allow-duplicates")] = None,
    workers: Annotated[int | None, flag("workers")] = None,
    task_timeout: Annotated[float | None, flag("task_timeout", metavar="SECONDS")] = None,
    executor: Annotated[ExecutorName | None, flag("executor")] = None,
    ray_address: Annotated[str | None, flag("ray_address", metavar="ADDRESS")] = None,
    task: Task = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = "text",
) -> None:
    """Pack tokenized documents into rows of seq_len + 1 tokens, with masks and boundaries.

    Documents that fit a row are never cut (except by `concat`); every cut, drop and pad is counted.
    """
    given = locals()
    flags = {key: value for key, value in given.items() if key in PackConfig.model_fields}
    flags["inputs"] = inputs or None
    settings = load_config(
        PackConfig, files=config or (), section="pack", sets=sets or (), flags=flags
    )
    if verbose and not quiet:
        say_settings(settings)
    if task is not None:
        share = share_of(task, overwrite=overwrite, dry_run=dry_run)
        share_and_show(
            lambda report: pack_share(settings, share, report=report, reads=config or ()),
            as_json=as_json,
            quiet=quiet,
            verbose=verbose,
            log_format=log_format,
        )
        return
    if dry_run:
        counts, num_bytes, outcome = planned(settings, overwrite=overwrite, reads=config or ())
        show_plan(counts, num_bytes, outcome, settings, as_json=as_json)
        return
    reads = config or []
    pack_and_show(
        settings,
        overwrite,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        log_format=log_format,
        reads=reads,
    )


def pack_and_show(
    settings: PackConfig,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
    log_format: str,
    verbose: bool = False,
    reads: Sequence[str] = (),
) -> None:
    with Progress(quiet=quiet, log_format=log_format, verbose=verbose) as progress:
        outcome = pack(settings, overwrite=overwrite, report=progress, reads=reads)
    if as_json:
        print_json(summary_of(outcome, progress))
    elif not quiet:
        show_outcome(outcome, progress)


def show_plan(
    counts: Counts, num_bytes: int, outcome: Outcome | None, settings: PackConfig, *, as_json: bool
) -> None:
    """Show what would be done; `outcome` if that is nothing."""
    if as_json:
        sizes = {"estimated_bytes": num_bytes, "free_bytes": free_bytes(settings.out)}
        print_json({**asdict(counts), **sizes, "was_complete": outcome is not None})
        return
    if outcome is not None:
        say_complete(outcome)
        return
    share = counts.padding / max(counts.rows * (settings.seq_len + 1), 1)
    typer.echo(
        f"{counted(counts.documents, 'document')}, {counted(counts.tokens, 'token')} into "
        f"{counted(counts.rows, 'row')} of {settings.seq_len + 1:,} tokens by {settings.strategy} "
        f"({share:.3%} padding){_notes(asdict(counts), counts.tokens)}; about "
        f"{megabytes(num_bytes)} on disk ({megabytes(free_bytes(settings.out))} free); "
        "nothing written"
    )


def say_complete(outcome: Outcome) -> None:
    show_complete(outcome, counted(outcome.manifest.counts["rows"], "row"))


def show_outcome(outcome: Outcome, progress: Progress) -> None:
    manifest = outcome.manifest
    assert isinstance(manifest, PackedManifest)
    counts, capacity = manifest.counts, manifest.seq_len + 1
    rows = counted(counts["rows"], "row")
    if outcome.was_complete:
        say_complete(outcome)
        return
    share = counts["padding"] / max(counts["rows"] * capacity, 1)
    typer.echo(
        f"{outcome.out}: {rows} of {capacity:,} tokens "
        f"({counted(counts['target_tokens'], 'target')}, {share:.3%} padding) in "
        f"{counted(len(manifest.shards), 'shard')}{_notes(counts, counts['tokens_read'])}"
        f"{_not_selected(counts)}; {speed_of(outcome, progress)}"
    )
    if counts["documents_truncated"] or counts["documents_dropped"]:
        typer.echo(f"truncated and dropped documents are listed in {outcome.out}/{LOST}")
    if counts["rows"]:
        show_next("dataprep", "inspect", outcome.out, "--row", "0")


def _not_selected(counts: Mapping[str, int]) -> str:
    """Return the note on documents that `select` leaves out."""
    others = counts["documents_read"] - counts["documents_written"] - counts["documents_dropped"]
    return f"; {counted(others, 'document')} not selected" if others else ""


def _notes(counts: Mapping[str, int], num_tokens: int) -> str:
    """Return the notes: ; 3 documents split; 1 document truncated, 12 tokens (0.4%) lost"""
    found = []
    for key, noun, fate, tokens in NOTES:
        if counts.get(key):
            found.append(f"; {counted(counts[key], noun)} {fate}")
            lost = counts.get(tokens, 0)
            if lost:
                share = lost / num_tokens
                shown = f"{share:.1%}" if share >= 0.001 else f"{share:.1e}"
                found.append(f", {counted(lost, 'token')} ({shown}) lost")
    return "".join(found)
