"""`dataprep init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dataprep.cli.options import Json, Quiet
from dataprep.cli.show import echo, print_json, show_next
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.files import disk_errors_named, make_folder, write_atomic
from dataprep.pipeline.run.init import Suggested, Suggestion, suggest

EXAMPLE = "Example: dataprep init raw/web raw/chat.jsonl --tokenizer gpt2/tokenizer.json"
NAME = "dataprep.yaml"


def add_commands(app: typer.Typer) -> None:
    app.command("init", epilog=EXAMPLE)(init_command)


def init_command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="What to look at: paths, globs, URLs, hf:NAME; each becomes a corpus of its own.",
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="Config file to write.")
    ] = NAME,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|NAME",
            help="A tokenizer.json, a folder with one, a hub name, a .model, or bytes. Default: a "
            "tokenizer.json near the data, else bytes.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it is there.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look at the first records of some data, and write a commented config for dataprep run.

    Finds texts, prompts with answers, conversations, preferences, codes and token ids, a tokenizer
    near the data, and a length for the rows that leaves nearly all documents whole.
    """
    file = Path(os.path.expanduser(out))
    _check_free(file, force=force)
    found = suggest(inputs, file, tokenizer=tokenizer or "", cache_dir=default_cache())
    with disk_errors_named(file.parent):
        make_folder(file.parent)
        write_atomic(file, found.text.encode())
    if as_json:
        print_json(_summary(found, file))
        return
    if quiet:
        return
    for each in found.corpora:
        _show_corpus(each)
    echo(f"tokenizer: {found.tokenizer} ({found.how})")
    shares = ", ".join(f"{n:,}: {share:.1%}" for n, share in found.shares.items())
    echo(f"rows of {found.seq_len:,} tokens; documents that are whole, by length: {shares}")
    for note in found.notes:
        echo(f"note: {note}")
    echo(f"wrote {file}")
    show_next("dataprep", "run", file)


def _check_free(file: Path, *, force: bool) -> None:
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"--out {file} must end in .yaml: that is what is written")
    if file.is_dir():
        raise ConfigError(f"--out {file} is a folder; name a file in it: {file}/{NAME}")
    if os.path.lexists(file) and not force:
        raise ConfigError(f"{file} is there already; name another with --out, or add --force")


def _show_corpus(each: Suggested) -> None:
    corpus, lengths = each.corpus, each.preview.lengths
    files = counted(corpus.num_sources, "file")
    echo(f"{corpus.name}: {corpus.finding.about}; {', '.join(corpus.inputs)} ({files})")
    middle, most = np.quantile(lengths, (0.5, 0.95))
    sample = f"a sample of {counted(len(lengths), 'document')}"
    echo(
        f"  {sample}: median {middle:,.0f} tokens, 95% up to {most:,.0f}, the longest "
        f"{lengths.max():,}"
    )
    if corpus.finding.also:
        echo(f"  other keys with texts: {', '.join(corpus.finding.also)}")
    for note in each.notes:
        echo(f"  note: {note}")


def _summary(found: Suggestion, file: Path) -> dict[str, Any]:
    return {
        "out": str(file),
        "config": dict(found.values),
        "tokenizer_found": found.how,
        "seq_len": found.seq_len,
        "whole": {str(length): round(share, 4) for length, share in found.shares.items()},
        "corpora": [
            {
                "name": each.corpus.name,
                "form": each.corpus.finding.form,
                "about": each.corpus.finding.about,
                "files": each.corpus.num_sources,
                "records": each.corpus.num_records,
                "sampled": each.preview.documents,
                "also": list(each.corpus.finding.also),
                "notes": list(each.notes),
            }
            for each in found.corpora
        ],
        "notes": list(found.notes),
    }
