"""`dataprep tokenize`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from dataprep.cli.options import (
    Config,
    DryRun,
    Json,
    Log,
    Overwrite,
    Quiet,
    Set,
    about_keys,
    cache_dir,
)
from dataprep.cli.show import Progress, megabytes, print_json, show_sources, summary_of
from dataprep.configs.base import Compat, EngineName, OnError, SpecialInTextMode
from dataprep.configs.load import load_config
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.tokenize import plan_of, tokenize
from dataprep.pipeline.tokenize.notes import leaves_bos_out, notes_of
from dataprep.pipeline.tokenize.plan import TokenizePlan

EXAMPLE = (
    "Example: dataprep tokenize 'data/*.jsonl' --tokenizer gpt2/tokenizer.json "
    "--fields '[prompt],answer' --out data/tokenized"
)
about = about_keys(TokenizeConfig)
SPECIAL = {"parse": "parsed", "text": "kept as text", "error": "refused"}
CODES_LOST = (
    ("codes_dropped", "of partial frames"),
    ("codes_thinned", "by max_frames or layout"),
)


def add_commands(app: typer.Typer) -> None:
    app.command("tokenize", epilog=EXAMPLE)(tokenize_command)


def tokenize_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help=about("inputs"))
    ] = None,
    config: Config = None,
    sets: Set = None,
    tokenizer: Annotated[str | None, typer.Option(help=about("tokenizer"))] = None,
    out: Annotated[str | None, typer.Option(help=about("out"))] = None,
    fields: Annotated[str | None, typer.Option(help=about("fields"))] = None,
    fields_from: Annotated[str | None, typer.Option(help=about("fields_from"))] = None,
    fields_index: Annotated[int | None, typer.Option(help=about("fields_index"))] = None,
    add_bos: Annotated[
        bool | None, typer.Option("--add-bos/--no-add-bos", help=about("add_bos"))
    ] = None,
    add_eos: Annotated[
        bool | None, typer.Option("--add-eos/--no-add-eos", help=about("add_eos"))
    ] = None,
    special_in_text: Annotated[
        SpecialInTextMode | None, typer.Option(help=about("special_in_text"))
    ] = None,
    bos_token: Annotated[str | None, typer.Option(help=about("bos_token"))] = None,
    eos_token: Annotated[str | None, typer.Option(help=about("eos_token"))] = None,
    pad_token: Annotated[str | None, typer.Option(help=about("pad_token"))] = None,
    subfield_separator: Annotated[
        str | None, typer.Option(help=about("subfield_separator"))
    ] = None,
    prepend_text: Annotated[str | None, typer.Option(help=about("prepend_text"))] = None,
    text_separator: Annotated[str | None, typer.Option(help=about("text_separator"))] = None,
    field_special_tokens: Annotated[
        bool | None,
        typer.Option(
            "--field-special-tokens/--no-field-special-tokens",
            help=about("field_special_tokens"),
        ),
    ] = None,
    compat: Annotated[Compat | None, typer.Option(help=about("compat"))] = None,
    engine: Annotated[EngineName | None, typer.Option(help=about("engine"))] = None,
    limit: Annotated[int | None, typer.Option(help=about("limit"))] = None,
    shard_bytes: Annotated[int | None, typer.Option(help=about("shard_bytes"))] = None,
    max_record_bytes: Annotated[int | None, typer.Option(help=about("max_record_bytes"))] = None,
    max_ratio: Annotated[int | None, typer.Option(help=about("max_ratio"))] = None,
    on_error: Annotated[OnError | None, typer.Option(help=about("on_error"))] = None,
    max_errors: Annotated[
        str | None, typer.Option(metavar="N|P%", help=about("max_errors"))
    ] = None,
    allow_empty: Annotated[
        bool | None, typer.Option("--allow-empty", help=about("allow_empty"))
    ] = None,
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
    """Read raw corpora, tokenize them, write ArrayRecord shards with a manifest.

    Run the same command again to continue an interrupted run; on a finished dataset it does
    nothing. Flags win over --set, --set over the config file.
    """
    given = locals()
    flags = {
        key: value
        for key, value in given.items()
        if key in TokenizeConfig.model_fields and key != "inputs"
    }
    for key in ("bos_token", "eos_token", "pad_token"):
        flags[key] = _id_or_token(flags[key])
    settings = load_config(
        TokenizeConfig,
        files=config or (),
        sets=sets or (),
        flags={**flags, "inputs": inputs or None},
    )
    if dry_run:
        show_plan(plan_of(settings, cache_dir()), as_json=as_json)
        return
    reads = config or []
    tokenize_and_show(
        settings, overwrite, as_json=as_json, quiet=quiet, log_format=log_format, reads=reads
    )


def tokenize_and_show(
    settings: TokenizeConfig,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
    log_format: str,
    reads: Sequence[str] = (),
) -> None:
    with Progress(quiet=quiet, log_format=log_format) as progress:
        outcome = tokenize(
            settings, cache_dir=cache_dir(), overwrite=overwrite, report=progress, reads=reads
        )
    if as_json:
        ran = {"engine": progress.engine, "texts_by_reference": progress.by_reference}
        print_json({**summary_of(outcome), **({} if outcome.was_complete else ran)})
    elif not quiet:
        show_outcome(outcome, settings, progress)


def show_plan(plan: TokenizePlan, *, as_json: bool) -> None:
    summary: dict[str, Any] = {
        "sources": [{"path": s.path, "kind": s.kind, "bytes": s.num_bytes} for s in plan.sources],
        "left_out": plan.left_out,
        "tasks": len(plan.tasks),
        "bytes": sum(task.num_bytes for task in plan.tasks),
        "masks": list(plan.masks),
        "token_dtype": plan.token_dtype,
        "fingerprint": plan.fingerprint,
        "notes": notes_of(plan),
    }
    if as_json:
        print_json(summary)
        return
    show_sources(plan.sources, plan.left_out)
    for note in summary["notes"]:
        typer.echo(f"note: {note}")
    typer.echo(
        f"{counted(len(plan.sources), 'source')}, {megabytes(summary['bytes'])} in "
        f"{counted(len(plan.tasks), 'task')}; tokens as {plan.token_dtype}, "
        f"masks {', '.join(plan.masks)}; nothing written"
    )


def show_outcome(outcome: Outcome, settings: TokenizeConfig, progress: Progress) -> None:
    counts = outcome.manifest.counts
    what = (
        f"{counted(counts['documents_written'], 'document')}, {counted(counts['tokens'], 'token')}"
    )
    if outcome.was_complete:
        typer.echo(f"nothing to do: {outcome.out} is complete ({what})")
        return
    rest = "".join(f"; {note}" for note in _notes(outcome, settings, progress))
    seconds = max(progress.seconds, 1e-9)
    typer.echo(
        f"{outcome.out}: {what} ({counts['target_tokens']:,} with loss) in "
        f"{counted(len(outcome.manifest.shards), 'shard')}{rest}; "
        f"{seconds:.1f} s, {progress.num_bytes / 1e6 / seconds:,.0f} MB/s"
    )


def _notes(outcome: Outcome, settings: TokenizeConfig, progress: Progress) -> Iterator[str]:
    """Yield what the summary says besides documents and tokens, if there is any of it."""
    counts, tokenizer = outcome.manifest.counts, outcome.manifest.tokenizer
    lost = [
        f"{counts[f'documents_{name}']:,} {name}"
        for name in ("empty", "quarantined", "dropped")
        if counts[f"documents_{name}"]
    ]
    if lost:
        yield ", ".join(lost)
    if counts["special_in_text"]:
        tokens = counted(counts["special_in_text"], "special token")
        documents = counted(counts["documents_with_special"], "document")
        yield f"{tokens} spelled in {documents}, {SPECIAL[settings.special_in_text]}"
    for key, why in CODES_LOST:
        if counts.get(key):
            yield f"{counted(counts[key], 'code')} left out ({why})"
    assert tokenizer is not None
    if leaves_bos_out(settings, tokenizer.bos, tokenizer.eos):
        yield "BOS is EOS too, so added once"
    if progress.by_reference:
        yield f"{counted(progress.by_reference, 'text')} by {tokenizer.engine}"


def _id_or_token(value: str | None) -> str | int | None:
    """Return an id; a token as it is, also one of so many digits that it can be no id."""
    return int(value) if value is not None and re.fullmatch("[0-9]{1,18}", value) else value
