"""`dataprep export`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from dataprep.cli.help import Flags, choices_in, in_sections
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
    Verbose,
)
from dataprep.cli.show import (
    Progress,
    echo,
    free_bytes,
    megabytes,
    print_json,
    say_settings,
    show_complete,
    show_findings,
    speed_of,
    summary_of,
)
from dataprep.configs.base import BinHeader, ExportName
from dataprep.configs.export import ExportConfig
from dataprep.configs.load import load_config
from dataprep.pipeline.errors import counted
from dataprep.pipeline.export import export, foreseen, usage_of
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.storage.kinds import size_of
from dataprep.pipeline.storage.manifest import ExportedManifest

EXAMPLE = "Example: dataprep export data/tokenized --to megatron --out data/megatron"
flag = Flags(ExportConfig)
FORMATS = "|".join(choices_in(ExportName))
SECTIONS = {
    "What to read": ("dataset", "generation"),
    "What to make of it": ("to", "drop_masks", "max_length", "split", "header"),
    "What to write": ("out", "shard_bytes", "overwrite", "dry_run"),
    "How to work": (*CONFIG_SECTION, "workers", "task_timeout"),
    "What to say": MESSAGES_SECTION,
}

# Counts that are worth a note in the summary: (count, of what, what became of it).
NOTES = (
    ("documents_split", "document", "cut into pieces"),
    ("left_out", "document", "left out: nothing but EOS"),
    ("ends_cut", "EOS id", "left out: the trainer adds it"),
)


def add_commands(app: typer.Typer) -> None:
    app.command("export", cls=in_sections(SECTIONS), epilog=EXAMPLE)(export_command)


def export_command(
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help=flag.about("dataset"))
    ] = None,
    to: Annotated[ExportName | None, flag("to", metavar=f"<{FORMATS}>")] = None,
    out: Annotated[str | None, flag("out")] = None,
    config: Config = None,
    sets: Set = None,
    generation: Annotated[int | None, flag("generation")] = None,
    drop_masks: Annotated[bool | None, flag("drop_masks", "--drop-masks")] = None,
    max_length: Annotated[int | None, flag("max_length")] = None,
    split: Annotated[str | None, flag("split")] = None,
    header: Annotated[BinHeader | None, flag("header")] = None,
    shard_bytes: Annotated[int | None, flag("shard_bytes")] = None,
    workers: Annotated[int | None, flag("workers")] = None,
    task_timeout: Annotated[float | None, flag("task_timeout", metavar="SECONDS")] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = "text",
) -> None:
    """Write a dataset as the files that another trainer reads, and say how to train on them.

    Masks go along where the format can carry them; where they would be lost, that is an error.
    """
    given = locals()
    flags = {key: value for key, value in given.items() if key in ExportConfig.model_fields}
    settings = load_config(ExportConfig, files=config or (), sets=sets or (), flags=flags)
    if verbose and not quiet:
        say_settings(settings)
    if dry_run:
        _show_plan(settings, overwrite, config or (), as_json=as_json)
        return
    with Progress(quiet=quiet, log_format=log_format, verbose=verbose) as progress:
        outcome = export(settings, overwrite=overwrite, report=progress, reads=config or ())
    manifest = outcome.manifest
    assert isinstance(manifest, ExportedManifest)
    if as_json:
        usage = usage_of(outcome.out, manifest)
        print_json({**summary_of(outcome, progress), "to": manifest.format, "usage": usage})
    elif not quiet:
        _show_outcome(outcome, manifest, progress)


def _show_plan(
    settings: ExportConfig, overwrite: bool, reads: Sequence[str], *, as_json: bool
) -> None:
    exported, num_files, outcome = foreseen(settings, overwrite=overwrite, reads=reads)
    counts, num_bytes = exported.manifest.counts, size_of(exported.manifest)
    sequences = counts["rows"] if exported.facts.is_packed else counts["documents_written"]
    if as_json:
        found = {"records": sequences, "tokens": counts["tokens"], "shards": num_files}
        sizes = {"bytes_to_read": num_bytes, "free_bytes": free_bytes(settings.out)}
        print_json({**found, **sizes, "was_complete": outcome is not None})
    elif outcome is not None:
        show_complete(outcome, counted(outcome.manifest.counts["records"], "record"))
    else:
        what = counted(sequences, "row" if exported.facts.is_packed else "document")
        masks = ", ".join(exported.facts.masks) or "none"
        echo(
            f"{what}, {counted(counts['tokens'], 'token')} to {counted(num_files, 'file')} of "
            f"{settings.to}, masks: {masks}; {megabytes(num_bytes)} to read "
            f"({megabytes(free_bytes(settings.out))} free); nothing written"
        )


def _show_outcome(outcome: Outcome, manifest: ExportedManifest, progress: Progress) -> None:
    counts = manifest.counts
    if outcome.was_complete:
        show_complete(outcome, counted(counts["records"], "record"))
    else:
        notes = [
            f"; {counted(counts[key], noun)} {fate}" for key, noun, fate in NOTES if counts.get(key)
        ]
        masks = ", ".join(manifest.masks) or "none"
        echo(
            f"{outcome.out}: {counted(counts['records'], 'record')}, "
            f"{counted(counts['tokens'], 'token')} for {manifest.format} in "
            f"{counted(len(manifest.shards), 'shard')}, masks: {masks}"
            f"{''.join(notes)}; {speed_of(outcome, progress)}"
        )
        show_findings(outcome)
    for line in usage_of(outcome.out, manifest):
        echo(f"use: {line}")
