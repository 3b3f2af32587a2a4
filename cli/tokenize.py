"""`dataprep tokenize`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from dataprep.cli.help import Flags, in_sections
from dataprep.cli.items import paint
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
    scaled,
    show_complete,
    show_findings,
    show_next,
    show_sources,
    speed_of,
    summary_of,
    use_colour,
)
from dataprep.configs.base import Compat, EngineName, OnError, SpecialInTextMode
from dataprep.configs.load import load_config
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.engine import load_decoder
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.jobs.executors import usable_cores
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.look.inspect import spans_of
from dataprep.pipeline.tokenize import planned, tokenize
from dataprep.pipeline.tokenize.notes import has_fields, leaves_bos_out, notes_of
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.tokenize.preview import Example, Preview, preview_of

EXAMPLE = (
    "Example: dataprep tokenize 'data/*.jsonl' --tokenizer gpt2/tokenizer.json "
    "--fields '[prompt],answer' --out data/tokenized"
)
flag = Flags(TokenizeConfig)
SECTIONS = {
    "What to read": (
        *("inputs", "fields", "fields_from", "fields_index", "chat", "chat_template"),
        *("text_separator", "limit"),
        *("max_record_bytes", "max_ratio", "allow_duplicates"),
    ),
    "What to make of it": (
        *("tokenizer", "add_bos", "add_eos", "bos_token", "eos_token", "pad_token"),
        *("special_in_text", "field_special_tokens", "prepend_text", "subfield_separator"),
        "compat",
    ),
    "What to write": ("out", "shard_bytes", "overwrite", "dry_run"),
    "Records that are bad": ("on_error", "max_errors", "allow_empty"),
    "How to work": (*CONFIG_SECTION, "workers", "engine", "task_timeout"),
    "What to say": MESSAGES_SECTION,
}
CHAT = (
    "Records are conversations, under this key if one is given; the tokenizer's chat template "
    "renders them, with the loss on what the assistant says. More settings: --set chat.KEY=VALUE"
)
CHAT_TEMPLATE = "Render by this chat template: a file, or the name of one that the tokenizer has."
SAMPLED = ("documents", "tokens", "empty", "bad", "first_bad", "never_there")  # of --dry-run
SPECIAL = {"parse": "parsed", "text": "kept as text", "error": "refused"}
CODES_LOST = (
    ("codes_dropped", "of partial frames"),
    ("codes_thinned", "by max_frames or layout"),
)


def add_commands(app: typer.Typer) -> None:
    look = in_sections(SECTIONS, may_lack_value=("--chat",))
    app.command("tokenize", cls=look, epilog=EXAMPLE)(tokenize_command)


def tokenize_command(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help=flag.about("inputs"))
    ] = None,
    config: Config = None,
    sets: Set = None,
    tokenizer: Annotated[str | None, flag("tokenizer")] = None,
    out: Annotated[str | None, flag("out")] = None,
    fields: Annotated[str | None, flag("fields")] = None,
    fields_from: Annotated[str | None, flag("fields_from")] = None,
    fields_index: Annotated[int | None, flag("fields_index")] = None,
    chat: Annotated[str | None, typer.Option("--chat", metavar="[KEY]", help=CHAT)] = None,
    chat_template: Annotated[
        str | None, typer.Option("--chat-template", metavar="FILE|NAME", help=CHAT_TEMPLATE)
    ] = None,
    add_bos: Annotated[bool | None, flag("add_bos", "--add-bos/--no-add-bos")] = None,
    add_eos: Annotated[bool | None, flag("add_eos", "--add-eos/--no-add-eos")] = None,
    special_in_text: Annotated[SpecialInTextMode | None, flag("special_in_text")] = None,
    bos_token: Annotated[str | None, flag("bos_token")] = None,
    eos_token: Annotated[str | None, flag("eos_token")] = None,
    pad_token: Annotated[str | None, flag("pad_token")] = None,
    subfield_separator: Annotated[str | None, flag("subfield_separator")] = None,
    prepend_text: Annotated[str | None, flag("prepend_text")] = None,
    text_separator: Annotated[str | None, flag("text_separator")] = None,
    field_special_tokens: Annotated[
        bool | None,
        flag("field_special_tokens", "--field-special-tokens/--no-field-special-tokens"),
    ] = None,
    compat: Annotated[Compat | None, flag("compat")] = None,
    engine: Annotated[EngineName | None, flag("engine")] = None,
    limit: Annotated[int | None, flag("limit")] = None,
    shard_bytes: Annotated[int | None, flag("shard_bytes")] = None,
    max_record_bytes: Annotated[int | None, flag("max_record_bytes")] = None,
    max_ratio: Annotated[int | None, flag("max_ratio")] = None,
    on_error: Annotated[OnError | None, flag("on_error")] = None,
    max_errors: Annotated[str | None, flag("max_errors", metavar="N|P%")] = None,
    allow_empty: Annotated[bool | None, flag("allow_empty", "--allow-empty")] = None,
    allow_duplicates: Annotated[bool | None, flag("allow_duplicates", "--allow-duplicates")] = None,
    workers: Annotated[int | None, flag("workers")] = None,
    task_timeout: Annotated[float | None, flag("task_timeout", metavar="SECONDS")] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
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
        if key in TokenizeConfig.model_fields and key not in ("inputs", "chat")
    }
    of_chat = {"messages": chat or None} if chat is not None else {}
    if chat is not None and fields is not None:
        raise ConfigError(
            "--chat and --fields: records are conversations, or have fields; leave one of them out"
        )
    if chat_template is not None:
        of_chat["template"] = chat_template
    for key in ("bos_token", "eos_token", "pad_token"):
        flags[key] = _id_or_token(flags[key])
    settings = load_config(
        TokenizeConfig,
        files=config or (),
        sets=[*(sets or ()), *(f"chat.{k}={json.dumps(v)}" for k, v in of_chat.items())],
        flags={**flags, "inputs": inputs or None},
    )
    if chat_template is not None and chat is None:
        _check_chat(config or (), sets or ())
    if verbose:
        say_settings(settings)
    if dry_run:
        about = planned(settings, default_cache(), overwrite=overwrite, reads=config or ())
        with about as (plan, outcome):
            show_plan(plan, outcome, as_json=as_json)
        return
    reads = config or []
    tokenize_and_show(
        settings,
        overwrite,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        log_format=log_format,
        reads=reads,
    )


def _check_chat(files: Sequence[str], sets: Sequence[str]) -> None:
    """Raise unless records are conversations without --chat-template, which does not make them."""
    if load_config(TokenizeConfig, files=files, sets=sets).chat is None:
        raise ConfigError(
            "--chat-template is for conversations: add --chat, or leave --chat-template out"
        )


def tokenize_and_show(
    settings: TokenizeConfig,
    overwrite: bool,
    *,
    as_json: bool,
    quiet: bool,
    log_format: str,
    verbose: bool = False,
    reads: Sequence[str] = (),
) -> None:
    with Progress(quiet=quiet, log_format=log_format, verbose=verbose) as progress:
        outcome = tokenize(
            settings, cache_dir=default_cache(), overwrite=overwrite, report=progress, reads=reads
        )
    if as_json:
        ran = {"engine": progress.engine, "texts_by_reference": progress.by_reference}
        print_json({**summary_of(outcome, progress), **({} if outcome.was_complete else ran)})
    elif not quiet:
        show_outcome(outcome, settings, progress)


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
    """Show the first document, and what the first records tell of all."""
    if preview.example is not None:
        show_example(plan, preview.example)
    typer.echo(
        f"first records: {counted(preview.documents, 'document')}, "
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
    workers = plan.config.workers or usable_cores()
    seconds = preview.cpu_seconds / min(workers, max(1, len(plan.tasks)))
    typer.echo(
        f"in all, about: {scaled(preview.all_tokens, '')} tokens, "
        f"{scaled(preview.all_bytes, 'B')} on disk ({scaled(free, 'B')} free), "
        f"{seconds:,.0f} s with {counted(workers, 'worker')}, less with a fast engine"
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


def say_complete(outcome: Outcome) -> None:
    show_complete(outcome, _size(outcome))


def _size(outcome: Outcome) -> str:
    counts = outcome.manifest.counts
    documents, tokens = counts["documents_written"], counts["tokens"]
    return f"{counted(documents, 'document')}, {counted(tokens, 'token')}"


def show_outcome(outcome: Outcome, settings: TokenizeConfig, progress: Progress) -> None:
    if outcome.was_complete:
        say_complete(outcome)
        return
    counts = outcome.manifest.counts
    rest = "".join(f"; {note}" for note in _notes(outcome, settings, progress))
    typer.echo(
        f"{outcome.out}: {_size(outcome)} ({counts['target_tokens']:,} with loss) in "
        f"{counted(len(outcome.manifest.shards), 'shard')}{rest}; {speed_of(outcome, progress)}"
    )
    show_findings(outcome)
    show_next("dataprep", "pack", outcome.out, "--seq-len", "4096", "--out", "DIR")


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
        chat = settings.chat
        kept = "parse" if chat and chat.allow_special_in_content else "text"
        mode = kept if chat else settings.special_in_text
        yield f"{tokens} spelled in {documents}, {SPECIAL[mode]}"
    if counts.get("thinking_left_out"):
        messages = counted(counts["thinking_left_out"], "message")
        yield f"thinking of {messages} left out by the template"
    for key, why in CODES_LOST:
        if counts.get(key):
            yield f"{counted(counts[key], 'code')} left out ({why})"
    assert tokenizer is not None
    if has_fields(settings) and leaves_bos_out(settings, tokenizer.bos, tokenizer.eos):
        yield "BOS is EOS too, so added once"
    if progress.by_reference:
        yield f"{counted(progress.by_reference, 'text')} by {tokenizer.engine}"


def _id_or_token(value: str | None) -> str | int | None:
    """Return an id; a token as it is, also one of so many digits that it can be no id."""
    return int(value) if value is not None and re.fullmatch("[0-9]{1,18}", value) else value
