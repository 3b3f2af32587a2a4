"""`dataprep verify`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from dataprep.cli.options import Dataset, Json
from dataprep.cli.show import Reading, echo, megabytes, print_json
from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.look.verify import Verified, bytes_of, compare, verify
from dataprep.pipeline.run.datasets import datasets_of_run
from dataprep.pipeline.run.forget import codes_in, held_in
from dataprep.pipeline.run.forgotten import read_ledger
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
    every part and every generation is checked; of the output folder of a run, every dataset.
    """
    found = datasets_of_run(Path(dataset))
    if not found:
        shown = _verified(dataset, against, as_json=as_json, quiet=quiet)
        if as_json:
            print_json(shown)
        return
    names = [folder.relative_to(dataset) for folder in found]
    each = [
        _verified(
            os.path.join(dataset, name),
            os.path.join(against, name) if against else None,
            as_json=as_json,
            quiet=quiet,
        )
        for name in names
    ]
    _check_forgotten(Path(dataset))
    codes = codes_in(Path(dataset)) if read_ledger(Path(dataset)) else []
    if as_json:
        print_json({"folder": dataset, "datasets": each, "not_forgotten_in": codes})
    for folder in codes:
        echo(f"note: {folder} may hold codes of what was forgotten: forget leaves codes", err=True)


def _check_forgotten(out: Path) -> None:
    """Raise CorruptError if something that is to be forgotten is still there."""
    held = held_in(out)
    if held:
        told = "; ".join(f"{folder}: {what}" for folder, what in held.items())
        raise CorruptError(
            f"what is to be forgotten is not gone yet ({told}); run dataprep run or the same "
            "dataprep forget again, and remove datasets that no config makes any more"
        )


def _verified(dataset: str, against: str | None, *, as_json: bool, quiet: bool) -> dict[str, Any]:
    """Check one dataset, and say so; return what was found."""
    folder, other = dataset_folder(dataset), dataset_folder(against) if against else None
    total = bytes_of(folder) * (2 if other else 1)
    with Reading("verify", total, quiet=quiet) as read:
        result = verify(folder, read)
        files = compare(folder, other, read) if other else None
    if not as_json and not quiet:
        typer.echo(
            f"{dataset}: whole; {counted(result.num_shards, 'shard')}, "
            f"{counted(result.num_items, NOUNS[result.kind])}, "
            f"{counted(result.num_tokens, 'token')}, {megabytes(result.num_bytes)} on disk"
            f"{grown(result)}{without(result)}"
        )
        if against:
            typer.echo(f"{dataset} and {against}: {counted(files or 0, 'file')}, all equal")
    return {**asdict(result), "folder": dataset, "files_equal": files}


def without(result: Verified) -> str:
    """Return what is said of documents that were taken out."""
    if not result.num_forgotten:
        return ""
    is_older_there = result.num_generations - len(result.unreadable) > 1
    where = " in the newest generation (older ones: dataprep clean --keep 1)"
    what = counted(result.num_forgotten, "forgotten document")
    return f"; nothing is left of {what}{where if is_older_there else ''}"


def grown(result: Verified) -> str:
    """Return what is said of the generations of a dataset, if there are several."""
    if result.num_generations == 1:
        return ""
    gone = ", ".join(map(str, result.unreadable))
    more = f" (of {gone}, parts were removed)" if gone else ""
    return f"; {counted(result.num_generations, 'generation')}{more}"
