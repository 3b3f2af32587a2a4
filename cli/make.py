"""Commands that make datasets: tokenize, pack."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel

from dataprep.cli.show import Progress, megabytes, print_json
from dataprep.configs import PackConfig, TokenizeConfig, load_config
from dataprep.configs.base import (
    Compat,
    Compression,
    EngineName,
    OnError,
    Overflow,
    Side,
    StrategyName,
)
from dataprep.pipeline.pack.recipe import pack
from dataprep.pipeline.tokenize.plan import Plan
from dataprep.pipeline.tokenize.recipe import Outcome, plan_of, tokenize

LogFormat = Literal["text", "json"]


def cache_dir() -> Path:
    """Where engine proofs and input hashes are kept between runs."""
    named = os.environ.get("DATAPREP_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dataprep"


def describe(key: str, model: type[BaseModel] = TokenizeConfig) -> str:
    return model.model_fields[key].description or ""


def about(key: str) -> str:
    return describe(key, PackConfig)


def add_commands(app: typer.Typer) -> None:
    app.command("tokenize", epilog=EXAMPLE)(tokenize_command)
    app.command("pack", epilog=PACK_EXAMPLE)(pack_command)


EXAMPLE = (
    "Example: dataprep tokenize 'data/*.jsonl' --tokenizer gpt2/tokenizer.json "
    "--fields '[prompt],answer' --out data/tokenized"
)

PACK_EXAMPLE = "Example: dataprep pack data/tokenized --seq-len 4096 --out data/packed"

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set any config key, nested ones with dots."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a dataset that is in the way.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Log = Annotated[LogFormat, typer.Option("--log-format", help="How stderr is written.")]


def tokenize_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help=describe("inputs"))
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", "-c", help="YAML or TOML file, or a preset: lwm, pretrain, instruct."
        ),
    ] = None,
    sets: Set = None,
    tokenizer: Annotated[str | None, typer.Option(help=describe("tokenizer"))] = None,
    out: Annotated[str | None, typer.Option(help=describe("out"))] = None,
    fields: Annotated[str | None, typer.Option(help=describe("fields"))] = None,
    fields_from: Annotated[str | None, typer.Option(help=describe("fields_from"))] = None,
    fields_index: Annotated[int | None, typer.Option(help=describe("fields_index"))] = None,
    add_bos: Annotated[
        bool | None, typer.Option("--add-bos/--no-add-bos", help=describe("add_bos"))
    ] = None,
    add_eos: Annotated[
        bool | None, typer.Option("--add-eos/--no-add-eos", help=describe("add_eos"))
    ] = None,
    bos_token: Annotated[str | None, typer.Option(help=describe("bos_token"))] = None,
    eos_token: Annotated[str | None, typer.Option(help=describe("eos_token"))] = None,
    pad_token: Annotated[str | None, typer.Option(help=describe("pad_token"))] = None,
    subfield_separator: Annotated[
        str | None, typer.Option(help=describe("subfield_separator"))
    ] = None,
    prepend_text: Annotated[str | None, typer.Option(help=describe("prepend_text"))] = None,
    text_separator: Annotated[str | None, typer.Option(help=describe("text_separator"))] = None,
    field_special_tokens: Annotated[
        bool | None,
        typer.Option(
            "--field-special-tokens/--no-field-special-tokens",
            help=describe("field_special_tokens"),
        ),
    ] = None,
    compat: Annotated[Compat | None, typer.Option(help=describe("compat"))] = None,
    engine: Annotated[EngineName | None, typer.Option(help=describe("engine"))] = None,
    limit: Annotated[int | None, typer.Option(help=describe("limit"))] = None,
    shard_bytes: Annotated[int | None, typer.Option(help=describe("shard_bytes"))] = None,
    max_record_bytes: Annotated[int | None, typer.Option(help=describe("max_record_bytes"))] = None,
    on_error: Annotated[OnError | None, typer.Option(help=describe("on_error"))] = None,
    max_errors: Annotated[
        str | None, typer.Option(metavar="N|P%", help=describe("max_errors"))
    ] = None,
    allow_empty: Annotated[
        bool | None, typer.Option("--allow-empty", help=describe("allow_empty"))
    ] = None,
    workers: Annotated[int | None, typer.Option(help=describe("workers"))] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    log_format: Log = "text",
) -> None:
    """Read raw corpora, tokenize them, write ArrayRecord shards with a manifest.

    Run the same command again to go on with an interrupted run; on a finished dataset it does
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
        TokenizeConfig, file=config, sets=sets or (), flags={**flags, "inputs": inputs or None}
    )
    if dry_run:
        show_plan(plan_of(settings, cache_dir()), as_json=as_json)
        return
    tokenize_and_show(settings, overwrite, as_json=as_json, quiet=quiet, log_format=log_format)


def pack_command(
    tokenized: Annotated[
        list[str], typer.Argument(metavar="TOKENIZED...", help="Folders of tokenized datasets.")
    ],
    out: Annotated[str, typer.Option(help=describe("out"))],
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", help="YAML or TOML file; its section `pack` is used."),
    ] = None,
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
    workers: Annotated[int | None, typer.Option(help=about("workers"))] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
    log_format: Log = "text",
) -> None:
    """Lay tokenized documents into rows of seq_len + 1 tokens, with masks and boundaries.

    Documents that fit a row are never cut (except by `concat`); every cut, drop and pad is counted.
    """
    given = locals()
    flags = {key: value for key, value in given.items() if key in PackConfig.model_fields}
    settings = load_config(PackConfig, file=config, section="pack", sets=sets or (), flags=flags)
    pack_and_show(
        tokenized, settings, out, overwrite, as_json=as_json, quiet=quiet, log_format=log_format
    )


def tokenize_and_show(
    settings: TokenizeConfig, overwrite: bool, *, as_json: bool, quiet: bool, log_format: str
) -> None:
    progress = Progress(quiet=quiet, log_format=log_format)
    try:
        outcome = tokenize(settings, cache_dir=cache_dir(), overwrite=overwrite, report=progress)
    finally:
        progress.close()
    if as_json:
        print_json(_summary(outcome))
    elif not quiet:
        show_outcome(outcome, progress)


def pack_and_show(
    tokenized: list[str],
    settings: PackConfig,
    out: str,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
    log_format: str,
) -> None:
    progress = Progress(quiet=quiet, log_format=log_format)
    try:
        outcome = pack(tokenized, settings, out, overwrite=overwrite, report=progress)
    finally:
        progress.close()
    if as_json:
        print_json(_summary(outcome))
    elif not quiet:
        show_packed(outcome, progress)


def show_packed(outcome: Outcome, progress: Progress) -> None:
    counts = outcome.manifest["counts"]
    if outcome.was_complete:
        typer.echo(f"nothing to do: {outcome.out} is complete ({counts['rows']:,} rows)")
        return
    capacity = outcome.manifest["seq_len"] + 1
    share = counts["padding"] / max(counts["rows"] * capacity, 1)
    notes = [
        f"{counts[key]:,} {what}"
        for key, what in (
            ("documents_split", "documents split"),
            ("documents_truncated", "truncated"),
            ("documents_dropped", "dropped"),
            ("rows_without_target", "rows without a target"),
            ("blocks_cut", "blocks cut"),
        )
        if counts[key]
    ]
    typer.echo(
        f"{outcome.out}: {counts['rows']:,} rows of {capacity:,} tokens "
        f"({counts['target_tokens']:,} targets, {share:.3%} padding) in "
        f"{len(outcome.manifest['shards'])} shards; {', '.join([*notes, ''])}"
        f"{progress.seconds:.1f} s"
    )


def show_plan(plan: Plan, *, as_json: bool) -> None:
    summary: dict[str, Any] = {
        "sources": [{"path": s.path, "kind": s.kind, "bytes": s.num_bytes} for s in plan.sources],
        "tasks": len(plan.tasks),
        "bytes": sum(task.num_bytes for task in plan.tasks),
        "masks": list(plan.masks),
        "token_dtype": plan.token_dtype,
        "fingerprint": plan.fingerprint,
    }
    if as_json:
        print_json(summary)
        return
    for source in plan.sources:
        size = megabytes(source.num_bytes) if source.num_bytes >= 0 else "size unknown"
        typer.echo(f"{source.path}  {source.kind}  {size}")
    typer.echo(
        f"{len(plan.sources)} sources, {megabytes(summary['bytes'])} in {len(plan.tasks)} tasks; "
        f"tokens as {plan.token_dtype}, masks {', '.join(plan.masks)}; nothing written"
    )


def show_outcome(outcome: Outcome, progress: Progress) -> None:
    counts = outcome.manifest["counts"]
    if outcome.was_complete:
        typer.echo(
            f"nothing to do: {outcome.out} is complete "
            f"({counts['documents_written']:,} documents, {counts['tokens']:,} tokens)"
        )
        return
    rest = ", ".join(
        f"{counts[f'documents_{name}']:,} {name}"
        for name in ("empty", "quarantined", "dropped")
        if counts[f"documents_{name}"]
    )
    seconds = max(progress.seconds, 1e-9)
    typer.echo(
        f"{outcome.out}: {counts['documents_written']:,} documents, {counts['tokens']:,} tokens "
        f"({counts['target_tokens']:,} with loss) in {len(outcome.manifest['shards'])} shards"
        f"{'; ' + rest if rest else ''}; {seconds:.1f} s, "
        f"{progress.num_bytes / 1e6 / seconds:,.0f} MB/s"
    )


def _summary(outcome: Outcome) -> dict[str, Any]:
    return {
        "out": str(outcome.out),
        "was_complete": outcome.was_complete,
        "fingerprint": outcome.manifest["fingerprint"],
        "shards": len(outcome.manifest["shards"]),
        "counts": outcome.manifest["counts"],
    }


def _id_or_token(value: str | None) -> str | int | None:
    return int(value) if value is not None and value.isascii() and value.isdigit() else value
