"""`dataprep encode`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from dataprep.cli.encoders import convert, show_encoders
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
    echo,
    megabytes,
    print_json,
    say_settings,
    scaled,
    show_complete,
    show_findings,
    show_next,
    show_sources,
    speed_of,
    summary_of,
)
from dataprep.configs.base import ExecutorName, Fit, Loudness, OnError, Resize
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config
from dataprep.configs.modalities import ModalitiesConfig
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.encode import encode, encode_share, planned
from dataprep.pipeline.encode.plan import Planned
from dataprep.pipeline.encode.preview import EncodePreview, preview_of
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.storage.manifest import EncodedManifest

EXAMPLE = (
    "Example: dataprep encode photos/ --encoder patches --out data/codes, then "
    "dataprep tokenize data/codes --fields '[vision],text' --tokenizer T --out data/tokens"
)
flag = Flags(EncodeConfig)
SECTIONS = {
    "What to read": (
        *("inputs", "column", "keep", "fps", "frames", "exif_rotate", "resize", "fit"),
        *("grayscale", "background", "loudness", "duration", "limit"),
        *("max_frames", "max_pixels", "max_seconds", "max_ratio"),
        *("allow_outside", "allow_duplicates"),
    ),
    "What to make of it": ("encoder", "weights", "into", "list_encoders", "convert_weights"),
    "What to write": ("out", "shard_records", "overwrite", "dry_run"),
    "Records that are bad": ("on_error", "max_errors", "allow_empty"),
    "How to work": (
        *(*CONFIG_SECTION, "workers", "task_timeout"),
        *("executor", "ray_address", "task"),
    ),
    "What to say": MESSAGES_SECTION,
}


def add_commands(app: typer.Typer) -> None:
    app.command("encode", cls=in_sections(SECTIONS), epilog=EXAMPLE)(encode_command)


def encode_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help=flag.about("inputs"))
    ] = None,
    encoder: Annotated[str | None, flag("encoder")] = None,
    out: Annotated[str | None, flag("out")] = None,
    weights: Annotated[str | None, flag("weights")] = None,
    config: Config = None,
    sets: Set = None,
    column: Annotated[str | None, flag("column")] = None,
    into: Annotated[str | None, flag("into")] = None,
    keep: Annotated[list[str] | None, flag("keep", metavar="GLOB")] = None,
    fps: Annotated[float | None, flag("fps")] = None,
    frames: Annotated[int | None, flag("frames")] = None,
    exif_rotate: Annotated[
        bool | None, flag("exif_rotate", "--exif-rotate/--no-exif-rotate")
    ] = None,
    resize: Annotated[Resize | None, flag("resize")] = None,
    fit: Annotated[Fit | None, flag("fit")] = None,
    grayscale: Annotated[bool | None, flag("grayscale", "--grayscale/--no-grayscale")] = None,
    background: Annotated[str | None, flag("background", metavar="COLOUR")] = None,
    loudness: Annotated[Loudness | None, flag("loudness")] = None,
    duration: Annotated[float | None, flag("duration", metavar="SECONDS")] = None,
    max_frames: Annotated[int | None, flag("max_frames")] = None,
    max_pixels: Annotated[int | None, flag("max_pixels")] = None,
    max_seconds: Annotated[int | None, flag("max_seconds")] = None,
    max_ratio: Annotated[int | None, flag("max_ratio")] = None,
    allow_outside: Annotated[bool | None, flag("allow_outside", "--allow-outside")] = None,
    limit: Annotated[int | None, flag("limit")] = None,
    shard_records: Annotated[int | None, flag("shard_records")] = None,
    on_error: Annotated[OnError | None, flag("on_error")] = None,
    max_errors: Annotated[str | None, flag("max_errors", metavar="N|P%")] = None,
    allow_empty: Annotated[bool | None, flag("allow_empty", "--allow-empty")] = None,
    allow_duplicates: Annotated[bool | None, flag("allow_duplicates", "--allow-duplicates")] = None,
    workers: Annotated[int | None, flag("workers")] = None,
    task_timeout: Annotated[float | None, flag("task_timeout", metavar="SECONDS")] = None,
    executor: Annotated[ExecutorName | None, flag("executor")] = None,
    ray_address: Annotated[str | None, flag("ray_address", metavar="ADDRESS")] = None,
    task: Task = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    list_encoders: Annotated[
        bool, typer.Option("--list", help="List the encoders with their settings and exit.")
    ] = False,
    convert_weights: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="IN OUT",
            help="Convert LWM's pickled VQGAN checkpoint to safetensors, without running any of "
            "it, and exit.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: Log = "text",
) -> None:
    """Turn pictures, videos or sounds into discrete codes, in Parquet files that tokenize reads.

    Captions (a .txt or .json beside a picture, other columns of a table) are kept. Run the same
    command again to continue an interrupted run; on a finished dataset it does nothing.
    """
    given = locals()
    if list_encoders:
        show_encoders(as_json=as_json)
        return
    if convert_weights is not None:
        convert(*convert_weights, as_json=as_json, quiet=quiet)
        return
    flags = {
        key: value
        for key, value in given.items()
        if key in EncodeConfig.model_fields and value not in ([], ())
    }
    settings = load_config(
        EncodeConfig,
        files=config or (),
        section="encode",
        sets=sets or (),
        flags=flags,
    )
    if verbose and not quiet:
        say_settings(settings)
    if task is not None:
        share = share_of(task, overwrite=overwrite, dry_run=dry_run)
        share_and_show(
            lambda report: encode_share(
                settings, share, cache_dir=default_cache(), report=report, reads=config or ()
            ),
            as_json=as_json,
            quiet=quiet,
            verbose=verbose,
            log_format=log_format,
        )
        return
    if dry_run:
        found, done = planned(settings, default_cache(), overwrite=overwrite, reads=config or ())
        show_plan(found, done, as_json=as_json)
        return
    with Progress(quiet=quiet, log_format=log_format, verbose=verbose) as progress:
        outcome = encode(
            settings,
            cache_dir=default_cache(),
            overwrite=overwrite,
            report=progress,
            reads=config or [],
        )
    manifest = outcome.manifest
    assert isinstance(manifest, EncodedManifest)
    if as_json:
        print_json({**summary_of(outcome, progress), "columns": manifest.columns})
    elif not quiet:
        show_outcome(outcome, manifest, progress)


def show_plan(found: Planned, outcome: Outcome | None, *, as_json: bool) -> None:
    """Show what would be done; `outcome` if that is nothing."""
    if outcome is not None and not as_json:
        say_complete(outcome)
        return
    plan, preview = found.plan, preview_of(found)
    result: dict[str, Any] = {
        "sources": [{"path": s.path, "kind": s.kind, "bytes": s.num_bytes} for s in plan.sources],
        "left_out": plan.left_out,
        "tasks": len(plan.tasks),
        "bytes": sum(task.num_bytes for task in plan.tasks),
        "column": plan.config.into,
        "fingerprint": plan.fingerprint,
        "was_complete": outcome is not None,
        "media": {f"{medium}s": count for medium, count in preview.media.items()},
        "sample": {key: getattr(preview, key) for key in ("sampled", "bad", "first_bad")},
        "estimated_codes": preview.all_codes,
    }
    if as_json:
        print_json(result)
        return
    show_sources(plan.sources, plan.left_out)
    typer.echo(
        f"{counted(len(plan.sources), 'source')}, {megabytes(result['bytes'])} in "
        f"{counted(len(plan.tasks), 'task')}; codes of {plan.config.encoder} into column "
        f"{plan.config.into}; nothing written"
    )
    show_preview(preview)


def show_preview(preview: EncodePreview) -> None:
    """Show how much was found, and what the first of it tells of all."""
    media = ", ".join(
        f"{medium}s that only reading counts" if count is None else counted(count, medium)
        for medium, count in preview.media.items()
    )
    typer.echo(f"found: {media or 'nothing'}")
    typer.echo(f"the first {preview.sampled:,} decoded: {preview.bad:,} bad")
    if preview.first_bad:
        echo(f"the first bad one: {preview.first_bad}")
    codes = preview.all_codes
    about = "not known before it is read" if codes is None else f"about {scaled(codes, '')} codes"
    typer.echo(f"in all: {about}")


def say_complete(outcome: Outcome) -> None:
    records, codes = _size(outcome)
    show_complete(outcome, f"{records}, {codes}")


def _size(outcome: Outcome) -> tuple[str, str]:
    counts = outcome.manifest.counts
    return counted(counts["documents_written"], "record"), counted(counts["codes"], "code")


def show_outcome(outcome: Outcome, manifest: EncodedManifest, progress: Progress) -> None:
    if outcome.was_complete:
        say_complete(outcome)
        return
    counts = manifest.counts
    records, codes = _size(outcome)
    rest = "".join(
        f"; {counts[f'documents_{name}']:,} {name}"
        for name in ("quarantined", "dropped")
        if counts[f"documents_{name}"]
    )
    typer.echo(
        f"{outcome.out}: {records}, {counted(counts['frames'], 'frame')}, {codes} in "
        f"{counted(len(manifest.shards), 'shard')}{rest}; {speed_of(outcome, progress)}, "
        f"{counts['frames'] / max(progress.seconds, 1e-9):,.1f} frames/s"
    )
    show_findings(outcome)
    show_next(*next_command(outcome.out, manifest))


def next_command(out: Path | str, manifest: EncodedManifest) -> list[str]:
    """Return the command that tokenizes these codes; it needs no flags for their encoder."""
    into, kind = str(manifest.config.get("into")), manifest.encoder.kind
    others = [
        name for name, type in manifest.columns.items() if type == "string" and name != "source"
    ]
    spec = ",".join([f"[{into}]" if others else into, *others[:1]])
    words = ["dataprep", "tokenize", str(out), "--fields", spec]
    if not any(fnmatchcase(into, glob) for glob in ModalitiesConfig().section(kind).fields):
        words += ["--set", f"modalities.{kind}.fields=[{into}]"]
    return [*words, "--tokenizer", "T", "--out", "DIR"]
