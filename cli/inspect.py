"""`dataprep inspect`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from dataprep.cli.options import Dataset, Json
from dataprep.cli.show import print_json, use_colour
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, recorded
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import PackedDataset, TokenizedDataset, open_dataset
from dataprep.pipeline.engine import load_decoder, resolve_tokenizer
from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.look.decoders import named_decoder, recorded_decoder
from dataprep.pipeline.look.inspect import (
    Decode,
    Segment,
    Span,
    segments_of_row,
    spans_of,
    whole_document,
)
from dataprep.pipeline.look.media import FindDecoder, write_media
from dataprep.pipeline.look.origins import origin_of, pieces_of_row

# Characters that would act on the terminal; newlines and tabs are shown as they are.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
DIM, GREEN, BLUE, MAGENTA, RESET = "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[35m", "\x1b[0m"
SHADES = {"vision": BLUE, "audio": MAGENTA}  # colours of codes with loss; anything else is green

EXAMPLE = "Example: dataprep inspect data/tokenized --doc 7 --media /tmp/pictures"


def add_commands(app: typer.Typer) -> None:
    app.command("inspect", epilog=EXAMPLE)(inspect_command)


def inspect_command(
    dataset: Dataset,
    doc: Annotated[
        int | None, typer.Option(help="Number of the document, from 0; negative: from the end.")
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(help="Number of the row of a packed dataset; negative: from the end."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer to decode with; default: the dataset's own.")
    ] = None,
    media: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write its pictures as PNG and its sounds as WAV into this folder."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="With --media: what made the codes, if it was not dataprep encode."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="With --encoder: file of its weights (safetensors).")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="settings.NAME=VALUE", help="With --encoder: its settings."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Decode and show a document or a row: text with loss is green, text without loss dim.

    When not printed to a terminal, text without loss is put [in brackets]. Blocks of codes are
    shown by their shape; --media decodes them.
    """
    find = decoder_finder(media, encoder, weights, sets or ())
    opened = open_dataset(dataset)
    packed = isinstance(opened, PackedDataset)
    number = row if packed else doc
    if (doc if packed else row) is not None:
        what = "rows, so use --row" if packed else "documents, so use --doc"
        raise ConfigError(f"{dataset} is {opened.about.kind}: it holds {what}")
    shown = (
        read_row(opened, number or 0)
        if isinstance(opened, PackedDataset)
        else read_document(opened, number or 0)
    )
    spans = spans_of(shown.item, decoder_of(opened, tokenizer), shown.segments)
    written = (
        write_media(shown.item, shown.segments, find, Path(media), shown.stem) if media else None
    )
    if as_json:
        found = {} if written is None else {"media": written.paths, "notes": written.notes}
        tokens, parts = shown.item["tokens"].tolist(), [asdict(span) for span in spans]
        print_json({**shown.about, "tokens": tokens, "spans": parts, **found})
        return
    show_text(shown, spans)
    for line in (*written.paths, *written.notes) if written else ():
        typer.echo(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A document or row, and everything that is printed about it."""

    item: Mapping[str, NDArray[Any]]
    segments: list[Segment]
    stem: str  # the names of its files begin with this: row-3
    about: dict[str, Any]  # for JSON
    title: str
    headings: list[str]  # of segments


def read_document(dataset: TokenizedDataset, number: int) -> Shown:
    doc = checked_number("--doc", number, len(dataset), dataset.folder)
    document = dataset[doc]
    shard, place = dataset.locate(doc)
    origin = origin_of(dataset.folder, dataset.about, shard, place)
    targets = int(document["loss_mask"].sum())
    return Shown(
        item=document,
        segments=[whole_document(dataset.folder, dataset.about, doc)],
        stem=f"doc-{doc}",
        about={"document": doc, "origin": asdict(origin)},
        title=f"document {doc}: {origin}\n"
        f"{counted(len(document['tokens']), 'token')}, {targets:,} with loss",
        headings=[],
    )


def read_row(dataset: PackedDataset, number: int) -> Shown:
    row = checked_number("--row", number, len(dataset), dataset.folder)
    values = dataset[row]
    shard, place = dataset.locate(row)
    pieces = pieces_of_row(dataset.folder, dataset.about, shard, place)
    if len(pieces) != int(values["segment_ids"].max()):
        raise CorruptError(f"the provenance of {dataset.folder} does not list what is in row {row}")
    targets = int(values["loss_mask"][1:].sum())
    padding = int((values["segment_ids"] == 0).sum())
    return Shown(
        item=values,
        segments=segments_of_row(dataset.folder, dataset.about, pieces),
        stem=f"row-{row}",
        about={"row": row, "segments": [asdict(piece) for piece in pieces]},
        title=f"row {row}: {counted(len(pieces), 'segment')}, {counted(targets, 'target')}, "
        f"{counted(padding, 'token')} of padding",
        headings=[
            f"── segment {i}: document {piece.document} of {piece.dataset}, "
            f"tokens {piece.start}..{piece.start + piece.length}"
            for i, piece in enumerate(pieces, 1)
        ],
    )


def show_text(shown: Shown, spans: list[Span]) -> None:
    typer.echo(shown.title)
    colour = use_colour(sys.stdout)
    for segment, group in groupby(spans, key=lambda span: span.segment):
        if segment and shown.headings:
            typer.echo(shown.headings[segment - 1])
        typer.echo("".join(paint(span, colour) for span in group), color=colour)


def decoder_finder(
    media: str | None, encoder: str | None, weights: str | None, sets: Sequence[str]
) -> FindDecoder:
    """Return the decoders that the flags ask for; refuse flags that would have no effect."""
    for flag, value, needed, by in (
        ("--encoder", encoder, media, "--media DIR"),
        ("--weights", weights, encoder, "--encoder"),
        ("--set", sets, encoder, "--encoder"),
    ):
        if value and not needed:
            raise ConfigError(f"{flag} has no effect without {by}")
    if not encoder:
        return recorded_decoder()
    other = next((item for item in sets if not item.startswith("settings.")), None)
    if other is not None:
        raise ConfigError(f"--set {other}: only settings.NAME=VALUE of the encoder can be set here")
    config = load_config(EncodeConfig, sets=sets, flags={"encoder": encoder, "weights": weights})
    return named_decoder(config.encoder, config.weights, config.settings)


def checked_number(flag: str, number: int, count: int, folder: Path) -> int:
    if not -count <= number < count:
        noun = "row" if flag == "--row" else "document"
        raise ConfigError(f"{flag} {number}: {folder} has {counted(count, noun)}, numbered from 0")
    return number % count


def paint(span: Span, colour: bool) -> str:
    text = CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", span.text)
    if span.weight not in (0.0, 1.0):
        text = f"({text})*{span.weight:.3g}"
    if not colour:
        return text if span.loss else f"[{text}]"
    shade = SHADES.get(span.modality, GREEN) if span.loss else DIM
    return f"{shade}{text}{RESET}"


def decoder_of(dataset: TokenizedDataset | PackedDataset, tokenizer: str | None) -> Decode:
    """Return the decoder of the dataset's tokenizer; one that is named must be the same."""
    config = recorded(TokenizeConfig, dataset.about.config, dataset.folder)
    name = tokenizer or config.tokenizer
    try:
        files = resolve_tokenizer(name)
    except ConfigError as error:
        raise ConfigError(f"{error}; say where it is now with --tokenizer") from None
    made_by = dataset.about.tokenizer.sha256
    if files.sha256 != made_by:
        raise ConfigError(
            f"tokenizer {name} (sha256 {files.sha256[:12]}…) is not the one that made "
            f"{dataset.folder} ({made_by[:12]}…); name that one with --tokenizer"
        )
    return load_decoder(files)
