"""`dataprep log`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import typer

from dataprep.cli.options import Dataset, Json, OnlyShown
from dataprep.cli.show import columns, echo, print_json
from dataprep.cli.streams import visible
from dataprep.cli.tables import table
from dataprep.pipeline.errors import counted, short
from dataprep.pipeline.look.history import Incoming, Published, history_of
from dataprep.pipeline.run.datasets import datasets_of_run
from dataprep.pipeline.storage.manifest import KINDS, kind_of
from dataprep.pipeline.storage.places import dataset_folder

MOST_NAMED = 2  # sources in a line
LONGEST_NAME = 60  # characters of one
FINGERPRINT = len("sha256:") + 12  # characters that are shown
HEADS = ("", "published", "documents", "tokens", "rows", "fingerprint")
LEAST_ROOM = 40  # columns, however narrow the terminal


def add_commands(app: typer.Typer) -> None:
    app.command("log", epilog="Example: dataprep log out/web/packed-2048")(log_command)


def log_command(dataset: Dataset, as_json: Json = False, quiet: OnlyShown = False) -> None:
    """List the generations of a dataset: when, how much there was, what came in; the newest last.

    A dataset that never grew has one. The time is that of the generation's file. Of the output
    folder of a run, each dataset is listed.
    """
    several = {
        str(folder): history_of(folder) if kind_of(folder) in KINDS else []
        for folder in datasets_of_run(Path(dataset))
    }
    found = several or {dataset: history_of(dataset_folder(dataset))}
    if as_json:
        told = {folder: [asdict(one) for one in each] for folder, each in found.items()}
        print_json(told if several else told[dataset])
        return
    for folder, each in found.items():
        if several:
            echo(folder if each else f"{folder}: unfinished, it has no manifest yet")
        if each:
            show_history(each, has_title=not quiet)


def show_history(found: Sequence[Published], *, has_title: bool) -> None:
    """Print a line of figures for each generation, and beneath it what came in."""
    rows = [HEADS, *map(figures_of, found)]
    if all(one.rows is None for one in found):
        rows = [(*row[:4], *row[5:]) for row in rows]
    title, *lines = table(rows, max(columns(), LEAST_ROOM), left=(1, len(rows[0]) - 1))
    if has_title:
        echo(title)
    indent = " " * len(f"{found[-1].generation}  ")
    for one, line in zip(found, lines, strict=True):
        echo(line)
        for sentence in sentences_of(one):
            for part in textwrap.wrap(
                sentence,
                max(columns(), LEAST_ROOM),
                initial_indent=indent,
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            ):
                echo(part)


def figures_of(one: Published) -> tuple[str, ...]:
    time = datetime.fromisoformat(one.time).astimezone()
    return (
        str(one.generation),
        f"{time:%Y-%m-%d %H:%M:%S}",
        f"{one.documents:,}",
        f"{one.tokens:,}",
        "" if one.rows is None else f"{one.rows:,}",
        one.fingerprint[:FINGERPRINT],
    )


def sentences_of(one: Published) -> Iterator[str]:
    """Yield what came in, what went, and what is not there any more."""
    yield from map(_told, one.came)
    if one.left:
        yield f"without {', '.join(one.left)}"
    if one.missing:
        removed = "was removed" if len(one.missing) == 1 else "were removed"
        yield f"cannot be read any more: {', '.join(one.missing)} {removed}"


def _told(part: Incoming) -> str:
    names = ", ".join(visible(short(name, LONGEST_NAME)) for name in part.sources[:MOST_NAMED])
    names = names or counted(part.num_sources, "source")
    more = len(part.sources) - MOST_NAMED
    rest = f" and {more:,} more" if more > 0 else ""
    place = f" instead of {part.instead_of}" if part.instead_of else ""
    where = f"{part.part}{place}: " if part.part else ""
    rows = "" if part.rows is None else f"{counted(part.rows, 'row')} out of "
    return f"{where}{rows}{counted(part.documents, 'document')} of {names}{rest}"
