"""`dataprep pack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from dataprep.cli.options import Config, DryRun, Json, Log, Overwrite, Quiet, Set, about_keys
from dataprep.cli.show import Progress, print_json, summary_of
from dataprep.configs.base import Compat, Compression, Overflow, Side, StrategyName
from dataprep.configs.load import load_config
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.pack import pack, pack_plan_of
from dataprep.pipeline.pack.strategies import Counts
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.provenance import LOST

EXAMPLE = "Example: dataprep pack data/tokenized --seq-len 4096 --out data/packed"
about = about_keys(PackConfig)

# Counts that are worth a note in the summary: (count, of what, what became of it, tokens lost).
NOTES = (
    ("documents_split", "document", "split", ""),
    ("documents_truncated", "document", "truncated", "tokens_truncated"),
    ("documents_dropped", "document", "dropped", "tokens_dropped"),
    ("rows_without_target", "row", "without a target", "tokens_in_dropped_rows"),
    ("blocks_cut", "block", "cut", ""),
)


def add_commands(app: typer.Typer) -> None:
    app.command("pack", epilog=EXAMPLE)(pack_command)


def pack_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[TOKENIZED]...", help=about("inputs"))
    ] = None,
    out: Annotated[str | None, typer.Option(help=about("out"))] = None,
    config: Config = None,
    sets: Set = None,
    seq_len: Annotated[int | None, typer.Option(help=about("seq_len"))] = None,
    strategy: Annotated[StrategyName | None, typer.Option(help=about("strategy"))] = None,
    overflow: Annotated[Overflow | None, typer.Option(help=about("overflow"))] = None,
    truncate_side: Annotated[Side | None, typer.Option(help=about("truncate_side"))] = None,
    pad_side: Annotated[Side | None, typer.Option(help=about("pad_side"))] = None,
    max_segments: Annotated[int | None, typer.Option(help=about("max_segments"))] = None,
    keep_blocks: Annotated[
        bool | None, typer.Option("--keep-blocks/--no-keep-blocks", help=about("keep_blocks"))
    ] = None,
    drop_tail: Annotated[
        bool | None, typer.Option("--drop-tail/--no-drop-tail", help=about("drop_tail"))
    ] = None,
    drop_empty_targets: Annotated[
        bool | None, typer.Option("--drop-empty-targets", help=about("drop_empty_targets"))
    ] = None,
    open_rows: Annotated[int | None, typer.Option(help=about("open_rows"))] = None,
    window: Annotated[int | None, typer.Option(help=about("window"))] = None,
    pad_id: Annotated[int | None, typer.Option(help=about("pad_id"))] = None,
    seed: Annotated[int | None, typer.Option(help=about("seed"))] = None,
    compat: Annotated[Compat | None, typer.Option(help=about("compat"))] = None,
    compression: Annotated[Compression | None, typer.Option(help=about("compression"))] = None,
    shard_rows: Annotated[int | None, typer.Option(help=about("shard_rows"))] = None,
    shard_bytes: Annotated[int | None, typer.Option(help=about("shard_bytes"))] = None,
    allow_duplicates: Annotated[
        bool | None, typer.Option("--allow-duplicates", help=about("allow_duplicates"))
    ] = None,
    workers: Annotated[int | None, typer.Option(help=about("workers"))] = None,
    task_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help=about("task_timeout"))
    ] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
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
    if dry_run:
        show_plan(pack_plan_of(settings), settings, as_json=as_json)
        return
    reads = config or []
    pack_and_show(
        settings, overwrite, as_json=as_json, quiet=quiet, log_format=log_format, reads=reads
    )


def pack_and_show(
    settings: PackConfig,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
    log_format: str,
    reads: Sequence[str] = (),
) -> None:
    with Progress(quiet=quiet, log_format=log_format) as progress:
        outcome = pack(settings, overwrite=overwrite, report=progress, reads=reads)
    if as_json:
        print_json(summary_of(outcome))
    elif not quiet:
        show_outcome(outcome, progress)


def show_plan(counts: Counts, settings: PackConfig, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(counts))
        return
    share = counts.padding / max(counts.rows * (settings.seq_len + 1), 1)
    typer.echo(
        f"{counted(counts.documents, 'document')}, {counted(counts.tokens, 'token')} into "
        f"{counted(counts.rows, 'row')} of {settings.seq_len + 1:,} tokens by {settings.strategy} "
        f"({share:.3%} padding){_notes(asdict(counts), counts.tokens)}; nothing written"
    )


def show_outcome(outcome: Outcome, progress: Progress) -> None:
    manifest = outcome.manifest
    assert isinstance(manifest, PackedManifest)
    counts, capacity = manifest.counts, manifest.seq_len + 1
    rows = counted(counts["rows"], "row")
    if outcome.was_complete:
        typer.echo(f"nothing to do: {outcome.out} is complete ({rows})")
        return
    share = counts["padding"] / max(counts["rows"] * capacity, 1)
    typer.echo(
        f"{outcome.out}: {rows} of {capacity:,} tokens "
        f"({counted(counts['target_tokens'], 'target')}, {share:.3%} padding) in "
        f"{counted(len(manifest.shards), 'shard')}{_notes(counts, counts['tokens_read'])}; "
        f"{progress.seconds:.1f} s"
    )
    if counts["documents_truncated"] or counts["documents_dropped"]:
        typer.echo(f"truncated and dropped documents are listed in {outcome.out / LOST}")


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
