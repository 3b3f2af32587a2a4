"""`dataprep tokenize`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from dataprep.cli.following import packing_of
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
    print_json,
    say_settings,
    show_complete,
    show_findings,
    show_next,
    speed_of,
    summary_of,
)
from dataprep.configs.base import Compat, EngineName, ExecutorName, OnError, SpecialInTextMode
from dataprep.configs.load import load_config
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.tokenize import planned, tokenize, tokenize_share

EXAMPLE = (
    "Example: dataprep tokenize 'data/*.jsonl' --tokenizer gpt2/tokenizer.json "
    "--fields '[prompt],answer' --out data/tokenized"
)
flag = Flags(TokenizeConfig)
SECTIONS = {
    "What to read": (
        *("inputs", "fields", "fields_from", "fields_index", "chat", "chat_template"),
        "pretokenized",
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
    "How to work": (
        *(*CONFIG_SECTION, "workers", "engine", "task_timeout"),
        *("executor", "ray_address", "task"),
    ),
    "What to say": MESSAGES_SECTION,
}
CHAT = (
    "Records are conversations, under this key if one is given; the tokenizer's chat template "
    "renders them, with the loss on what the assistant says. More settings: --set chat.KEY=VALUE"
)
CHAT_TEMPLATE = "Render by this chat template: a file, or the name of one that the tokenizer has."
PRETOKENIZED = (
    "Records hold token ids, as a list of whole numbers under this key. Labels, masks and weights: "
    "--set pretokenized.labels=KEY, loss_mask, weights, attention_mask"
)
# Flags of which one says what records are, and what that is.
RECORDS_ARE = {
    "chat": "are conversations",
    "pretokenized": "are token ids",
    "fields_from": "name their own fields",
    "fields": "have these fields",
}
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
    pretokenized: Annotated[
        str | None, typer.Option("--pretokenized", metavar="KEY", help=PRETOKENIZED)
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
    """Read raw corpora, tokenize them, write ArrayRecord shards with a manifest.

    Run the same command again to continue an interrupted run; on a finished dataset it does
    nothing. Flags win over --set, --set over the config file.
    """
    given = locals()
    flags = {
        key: value
        for key, value in given.items()
        if key in TokenizeConfig.model_fields and key not in ("inputs", "chat", "pretokenized")
    }
    of_chat = {"messages": chat or None} if chat is not None else {}
    _check_one({k: v for k, v in given.items() if k in RECORDS_ARE and v is not None})
    if chat_template is not None:
        of_chat["template"] = chat_template
    for key in ("bos_token", "eos_token", "pad_token"):
        flags[key] = _id_or_token(flags[key])
    given_sets = [*(sets or ()), *(f"chat.{k}={json.dumps(v)}" for k, v in of_chat.items())]
    if pretokenized is not None:
        given_sets.append(f"pretokenized.tokens={json.dumps(pretokenized)}")
    settings = load_config(
        TokenizeConfig,
        files=config or (),
        sets=given_sets,
        flags={**flags, "inputs": inputs or None},
    )
    if fields is not None or any(item.startswith("fields=") for item in sets or ()):
        _check_fields(settings)
    if chat_template is not None and chat is None:
        _check_chat(config or (), sets or ())
    if verbose and not quiet:
        say_settings(settings)
    if task is not None:
        share = share_of(task, overwrite=overwrite, dry_run=dry_run)
        share_and_show(
            lambda report: tokenize_share(
                settings, share, cache_dir=default_cache(), report=report, reads=config or ()
            ),
            as_json=as_json,
            quiet=quiet,
            verbose=verbose,
            log_format=log_format,
        )
        return
    if dry_run:
        from dataprep.cli.previews import show_plan  # and all that shows documents

        about = planned(settings, default_cache(), overwrite=overwrite, reads=config or ())
        with about as (plan, outcome):
            show_plan(plan, outcome, as_json=as_json)
        return
    tokenize_and_show(
        settings,
        overwrite,
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        log_format=log_format,
        reads=config or (),
        sets=sets or (),
    )


def _check_one(given: Mapping[str, Any]) -> None:
    """Raise if more than one flag says what records are: the others would not be looked at."""
    flags = [f"--{key.replace('_', '-')}" for key in given]
    if len(flags) > 1:
        said = ", or ".join(RECORDS_ARE[key] for key in given)
        raise ConfigError(f"{' and '.join(flags)}: records {said}; leave one of them out")


def _check_fields(settings: TokenizeConfig) -> None:
    """Raise if the fields that were typed are not looked at; the config refuses all but those that
    are the default, which a file may spell out."""
    for key, said in RECORDS_ARE.items():
        if key != "fields" and getattr(settings, key) is not None:
            raise ConfigError(
                f"--fields {settings.fields}: records {said}, as the config says under {key}; "
                f"leave --fields out, or add --set {key}=null"
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
    sets: Sequence[str] = (),
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
        if not outcome.was_complete:
            show_next(*packing_of(outcome.out, settings.pack, reads, sets))


def show_outcome(outcome: Outcome, settings: TokenizeConfig, progress: Progress) -> None:
    if outcome.was_complete:
        say_complete(outcome)
        return
    counts = outcome.manifest.counts
    rest = "".join(f"; {note}" for note in _notes(outcome, settings, progress))
    typer.echo(
        f"{outcome.out}: {documents_of(outcome)} ({counts['target_tokens']:,} with loss) in "
        f"{counted(len(outcome.manifest.shards), 'shard')}{rest}; {speed_of(outcome, progress)}"
    )
    show_findings(outcome)


def say_complete(outcome: Outcome) -> None:
    show_complete(outcome, documents_of(outcome))


def documents_of(outcome: Outcome) -> str:
    counts = outcome.manifest.counts
    documents, tokens = counts["documents_written"], counts["tokens"]
    return f"{counted(documents, 'document')}, {counted(tokens, 'token')}"


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
    if progress.by_reference:
        yield f"{counted(progress.by_reference, 'text')} by {tokenizer.engine}"


def _id_or_token(value: str | None) -> str | int | None:
    """Return an id; a token as it is, also one of so many digits that it can be no id."""
    return int(value) if value is not None and re.fullmatch("[0-9]{1,18}", value) else value
