"""`dataprep forget`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dataprep.cli.options import Json, Quiet
from dataprep.cli.show import echo, print_json, show_next
from dataprep.pipeline.errors import counted
from dataprep.pipeline.run.forget import Forgetting, forget
from dataprep.pipeline.run.forgotten import read_requests
from dataprep.pipeline.storage.places import refuse_remote

EXAMPLE = "Example: dataprep forget data --documents opt-outs.txt"
MOST_NAMED = 5


def add_commands(app: typer.Typer) -> None:
    app.command("forget", epilog=EXAMPLE)(forget_command)


def forget_command(
    out: Annotated[str, typer.Argument(metavar="OUT", help="Output folder of dataprep run.")],
    documents: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="What to forget, a line each: FILE:LINE (lines from 1), KEY=VALUE, content:HASH, "
            'or JSON: {"key": "id", "value": 17}.',
        ),
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take documents out of all datasets of a run, in a new generation of each.

    Their tokens become padding without loss; all other rows stay as they are. What was forgotten
    stays away when it comes in again. Older generations hold it until dataprep clean removes them.
    """
    refuse_remote(out)
    found = forget(Path(out), read_requests(documents))
    if as_json:
        print_json(asdict(found))
        return
    if not quiet:
        _show(found)
    for line in _still_there(found):  # however quiet: somebody asked for it
        echo(line, err=quiet)
    if not quiet:
        show_next("dataprep", "clean", out, "--keep", "1")


def _show(found: Forgetting) -> None:
    """Print what was taken out."""
    for folder, generation in found.generations.items():
        echo(f"{folder}: generation {generation}")
    for note in found.notes[:MOST_NAMED]:
        echo(f"note: {note}")
    had_gone = sum(document.had_gone for document in found.documents)
    before = f", {had_gone:,} before" if had_gone else ""
    echo(f"{counted(len(found.documents) - had_gone, 'document')} taken out{before}")


def _still_there(found: Forgetting) -> Iterator[str]:
    """Yield what was not forgotten, or not everywhere."""
    for request in found.not_found[:MOST_NAMED]:
        yield f"not found: {request}"
    more = len(found.not_found) - MOST_NAMED
    if more > 0:
        yield f"… and {counted(more, 'more request')} not found"
    if found.not_found:
        asked = counted(found.num_requests, "request")
        yield f"{len(found.not_found):,} of {asked} not found"
    for folder in found.behind:
        yield f"{folder} is not of the documents that are there now; run makes it anew"
    for folder in found.codes:
        yield (
            f"{folder} still holds the codes of all media: to be rid of one, take it from the "
            "inputs, run with on_changed: rebuild, and clean with --keep 1"
        )
