"""`dataprep finalize`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from dataprep.cli.options import Json, Quiet
from dataprep.cli.show import echo, megabytes, print_json, show_findings
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import counted
from dataprep.pipeline.run.begun import finalize
from dataprep.pipeline.storage.kinds import size_of

EXAMPLE = "Example: dataprep finalize data/tokenized"


def add_commands(app: typer.Typer) -> None:
    app.command("finalize", epilog=EXAMPLE)(finalize_command)


def finalize_command(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The --out of the elements.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Publish the dataset whose jobs the elements of a task array have done (--task).

    If jobs are missing, it says which elements do them and ends with code 6.
    """
    began = time.monotonic()
    outcome = finalize(out, default_cache())
    manifest = outcome.manifest
    if as_json:
        print_json(
            {
                "out": str(outcome.out),
                "was_complete": outcome.was_complete,
                "fingerprint": manifest.fingerprint,
                "shards": len(manifest.shards),
                "counts": manifest.counts,
                "bytes": size_of(manifest),
                "seconds": round(time.monotonic() - began, 3),
            }
        )
    elif not quiet and outcome.was_complete:
        echo(f"nothing to do: {outcome.out} is complete")
    elif not quiet:
        shards, size = counted(len(manifest.shards), "shard"), megabytes(size_of(manifest))
        echo(f"{outcome.out}: {manifest.kind}, {shards}, {size} on disk")
        show_findings(outcome)
