"""What `dataprep inspect` prints of one document or row: title, text in colours, files of media."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from numpy.typing import NDArray

from dataprep.cli.show import echo, use_colour
from dataprep.cli.streams import NEWLINES, visible
from dataprep.loaders import PackedDataset, TokenizedDataset
from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.look.inspect import (
    Segment,
    Span,
    segments_of_row,
    sides_of,
    turns_of,
    whole_document,
)
from dataprep.pipeline.look.lookup import FileLine, documents_at
from dataprep.pipeline.look.origins import pieces_of_row
from dataprep.pipeline.storage.places import files_here

DIM, GREEN, BLUE, MAGENTA, RESET = "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[35m", "\x1b[0m"
SHADES = {"vision": BLUE, "audio": MAGENTA}  # colours of codes with loss; anything else is green

MOST_TURNS = 12  # whose first tokens are told


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A document or row, and everything that is printed about it."""

    item: Mapping[str, NDArray[Any]]
    segments: list[Segment]
    stem: str  # the names of its files begin with this: row-3
    about: dict[str, Any]  # for JSON
    title: str
    headings: list[str]  # of segments


def read_item(
    opened: TokenizedDataset | PackedDataset, doc: int | FileLine | None, row: int | None
) -> Shown:
    if isinstance(opened, PackedDataset):
        return read_row(opened, row or 0)
    if row is not None:
        raise ConfigError(f"{opened.folder} is tokenized: it holds documents, so use --doc")
    return read_document(opened, number_of(opened, doc) if isinstance(doc, FileLine) else doc or 0)


def number_of(dataset: TokenizedDataset, doc: FileLine) -> int:
    """Return the number of the document that a record became; a file may have been read twice."""
    found: list[int] = documents_at(files_here(dataset.folder), dataset.about, doc).tolist()
    if len(found) > 1:
        numbers = ", ".join(map(str, found))
        raise ConfigError(f"--doc: that record became the documents {numbers}; give one of these")
    return found[0]


def read_document(dataset: TokenizedDataset, number: int) -> Shown:
    doc = checked_number("--doc", number, len(dataset), dataset.folder)
    document = dataset[doc]
    segment = whole_document(files_here(dataset.folder), dataset.about, doc)
    targets = int(document["loss_mask"].sum())
    turns = turns_of(document)
    about = {"turns": [asdict(turn) for turn in turns]} if "turns" in document else {}
    starts = ", ".join(str(turn.start) for turn in turns[:MOST_TURNS])
    more = ", …" if len(turns) > MOST_TURNS else ""
    said = f"; {counted(len(turns), 'turn')} (from token {starts}{more})" if turns else ""
    return Shown(
        item=document,
        segments=[segment],
        stem=f"doc-{doc}",
        about={"document": doc, "origin": asdict(segment.origin), **about},
        title=f"document {doc}: {visible(str(segment.origin))}\n"
        f"{counted(len(document['tokens']), 'token')}, {targets:,} with loss"
        f"{_count_of_side(document)}{said}",
        headings=[],
    )


def read_row(dataset: PackedDataset, number: int) -> Shown:
    row = checked_number("--row", number, len(dataset), dataset.folder)
    values = dataset[row]
    shard, place = dataset.locate(row)
    folder = files_here(dataset.folder)
    pieces = pieces_of_row(folder, dataset.about, shard, place)
    if len(pieces) != int(values["segment_ids"].max()):
        raise CorruptError(f"the provenance of {dataset.folder} does not list what is in row {row}")
    targets = int(values["loss_mask"][1:].sum())
    padding = int((values["segment_ids"] == 0).sum())
    return Shown(
        item=values,
        segments=segments_of_row(folder, dataset.about, pieces),
        stem=f"row-{row}",
        about={"row": row, "segments": [asdict(piece) for piece in pieces]},
        title=f"row {row}: {counted(len(pieces), 'segment')}, {counted(targets, 'target')}, "
        f"{counted(padding, 'token')} of padding{_count_of_side(values)}",
        headings=[f"── segment {i}: {piece}" for i, piece in enumerate(pieces, 1)],
    )


def show_text(shown: Shown, spans: list[Span], *, quiet: bool = False) -> None:
    """Print the text, under its title and with headings unless it is `quiet`."""
    if not quiet:
        typer.echo(shown.title)
    colour = use_colour(sys.stdout)
    last = 0
    for (segment, side), group in groupby(spans, key=lambda span: (span.segment, span.side)):
        if segment != last and segment and shown.headings and not quiet:
            echo(shown.headings[segment - 1])
        if side and not quiet:
            echo(f"─ {side}")
        typer.echo("".join(paint(span, colour) for span in group), color=colour)
        last = segment


def _count_of_side(item: Mapping[str, NDArray[Any]]) -> str:
    sides, of_side = sides_of(item)
    return f", {int(of_side.sum()):,} of the {sides[1]} side" if len(sides) > 1 else ""


def checked_number(flag: str, number: int, count: int, folder: Path) -> int:
    if not -count <= number < count:
        noun = "row" if flag == "--row" else "document"
        raise ConfigError(f"{flag} {number}: {folder} has {counted(count, noun)}, numbered from 0")
    return number % count


def paint(span: Span, colour: bool) -> str:
    text = visible(span.text, keep=NEWLINES)
    if span.weight not in (0.0, 1.0):
        text = f"({text})*{span.weight:.3g}"
    if not colour:
        return text if span.loss else f"[{text}]"
    return shade_of(span, text)


def shade_of(span: Span, text: str) -> str:
    """Return the text in the colour of a span."""
    shade = SHADES.get(span.modality, GREEN) if span.loss else DIM
    return f"{shade}{text}{RESET}"
