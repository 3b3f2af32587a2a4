"""`dataprep verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from dataprep.cli.options import Dataset, Json
from dataprep.cli.show import Reading, megabytes, print_json
from dataprep.pipeline.errors import counted
from dataprep.pipeline.look.verify import Verified, bytes_of, compare, verify
from dataprep.pipeline.storage.places import dataset_folder

NOUNS = {"tokenized": "document", "packed": "row", "encoded": "record", "exported": "record"}


def add_commands(app: typer.Typer) -> None:
    app.command("verify", epilog="Example: dataprep verify data/tokenized")(verify_command)


def verify_command(
    dataset: Dataset,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Also compare it with this dataset, byte by byte; name what differs.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress; print nothing if all is well.")
    ] = False,
) -> None:
    """Read everything and check it: hashes, counts, ids, boundaries, masks, provenance.

    Files that the manifest does not list, and links, are errors too. Of a dataset that grows,
    every part and every generation is checked.
    """
    folder, other = dataset_folder(dataset), dataset_folder(against) if against else None
    total = bytes_of(folder) * (2 if other else 1)
    with Reading("verify", total, quiet=quiet) as read:
        result = verify(folder, read)
        files = compare(folder, other, read) if other else None
    if as_json:
        print_json({**asdict(result), "folder": dataset, "files_equal": files})
    elif not quiet:
        typer.echo(
            f"{dataset}: whole; {counted(result.num_shards, 'shard')}, "
            f"{counted(result.num_items, NOUNS[result.kind])}, "
            f"{counted(result.num_tokens, 'token')}, {megabytes(result.num_bytes)} on disk"
            f"{grown(result)}"
        )
        if against:
            typer.echo(f"{dataset} and {against}: {counted(files or 0, 'file')}, all equal")


def grown(result: Verified) -> str:
    """Return what is said of the generations of a dataset, if there are several."""
    if result.num_generations == 1:
        return ""
    gone = ", ".join(map(str, result.unreadable))
    more = f" (of {gone}, parts were removed)" if gone else ""
    return f"; {counted(result.num_generations, 'generation')}{more}"
