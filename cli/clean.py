"""`dataprep clean`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dataprep.cli.options import Json
from dataprep.cli.show import echo, megabytes, print_json, show_next
from dataprep.pipeline.errors import counted
from dataprep.pipeline.run.clean import REASONS, Cleaned, clean
from dataprep.pipeline.storage.places import refuse_remote

EXAMPLE = "Example: dataprep clean prepared --keep 3 --go"


def add_commands(app: typer.Typer) -> None:
    app.command("clean", epilog=EXAMPLE)(clean_command)


def clean_command(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A dataset, or the out folder of dataprep run.")
    ],
    go: Annotated[bool, typer.Option("--go", help="Remove it; else it is only listed.")] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Keep only the newest N generations of each dataset. Default: all of them.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the paths of what is listed or removed.")
    ] = False,
) -> None:
    """List what nothing needs and what it takes up; remove it with --go.

    That is the work of runs that were never finished, and parts that no kept generation names.
    Nothing that a kept generation names is removed, and nothing that dataprep did not write.
    """
    refuse_remote(path)
    found = clean(Path(os.path.expanduser(path)), keep=keep, go=go)
    if as_json:
        print_json(_summary(found))
        return
    if quiet:
        for item in found.leftovers:
            echo(str(item.path))
        return
    for reason in REASONS:
        _show(found, reason)
    for why in found.kept_back:
        echo(f"left alone: {why}", err=True)
    total = megabytes(found.num_bytes)
    if not found.leftovers:
        echo("nothing to clean")
    elif found.was_removed:
        echo(f"freed {total}")
    else:
        echo(f"{total} can be freed; nothing was removed")
        kept = ("--keep", str(keep)) if keep else ()
        show_next("dataprep", "clean", path, *kept, "--go")


def _show(found: Cleaned, reason: str) -> None:
    own = [item for item in found.leftovers if item.reason == reason]
    if own:
        total = megabytes(sum(item.num_bytes for item in own))
        echo(f"{reason}: {counted(len(own), 'item')}, {total}")
    for item in own:
        echo(f"  {item.path}  {megabytes(item.num_bytes)}")


def _summary(found: Cleaned) -> dict[str, Any]:
    return {
        "was_removed": found.was_removed,
        "bytes": found.num_bytes,
        "leftovers": [
            {"path": str(item.path), "reason": item.reason, "bytes": item.num_bytes}
            for item in found.leftovers
        ],
        "left_alone": list(found.kept_back),
    }
