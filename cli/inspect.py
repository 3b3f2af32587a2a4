"""`dataprep inspect`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from dataprep.cli.options import Dataset, Json
from dataprep.cli.records import show_record
from dataprep.cli.show import echo, print_json, use_colour
from dataprep.cli.steps import LoaderSettings, find_step
from dataprep.cli.streams import NEWLINES, visible
from dataprep.cli.traces import show_found, show_listed, show_step
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, recorded
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import PackedDataset, TokenizedDataset, open_dataset
from dataprep.loaders.mixture import Exhausted
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.engine import load_decoder, resolve_tokenizer
from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.look.decoders import named_decoder, recorded_decoder
from dataprep.pipeline.look.inspect import (
    Decode,
    Segment,
    Span,
    segments_of_row,
    sides_of,
    spans_of,
    turns_of,
    whole_document,
)
from dataprep.pipeline.look.listing import Fate
from dataprep.pipeline.look.lookup import FileLine, documents_at, parse_doc
from dataprep.pipeline.look.media import FindDecoder, write_media
from dataprep.pipeline.look.origins import pieces_of_row
from dataprep.pipeline.storage.manifest import kind_of

DIM, GREEN, BLUE, MAGENTA, RESET = "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[35m", "\x1b[0m"
SHADES = {"vision": BLUE, "audio": MAGENTA}  # colours of codes with loss; anything else is green

MOST_TURNS = 12  # whose first tokens are told

EXAMPLE = "Example: dataprep inspect data/packed --step 17 --batch-size 256"


def add_commands(app: typer.Typer) -> None:
    app.command("inspect", epilog=EXAMPLE)(inspect_command)


def inspect_command(
    dataset: Dataset,
    doc: Annotated[
        str | None,
        typer.Option(
            metavar="N|FILE:LINE",
            help="Number of the document or record, from 0; negative: from the end. Or the file "
            "and line (row) that it came from. Of a packed dataset: list the rows that hold it.",
        ),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(help="Number of the row of a packed dataset; negative: from the end."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(
            help="List the rows that a trainer's loader has at this step, from 0, with the file "
            "and line of every document in them. Needs --batch-size or --state."
        ),
    ] = None,
    fate: Annotated[
        Fate | None,
        typer.Option(
            "--list", help="List the documents that packing cut or left out, with file and line."
        ),
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
    batch_size: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS", help="With --step: the loader's; 0:64,1000:256 for sizes that change."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --step: the loader's; default: 0.")] = None,
    shuffle: Annotated[
        bool | None,
        typer.Option("--no-shuffle", help="With --step: the loader has shuffle=False."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="With --step: the loader's; default: for ever.")
    ] = None,
    exhausted: Annotated[
        Exhausted | None,
        typer.Option(help="With --step and --mix: the loader's; default: stop."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHARE@DIR",
            help="With --step: one dataset of the loader's mixture; give all of them.",
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Instead of those: JSON of loader.get_state(), saved at a later step; without "
            "--step, the last batch before it.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Decode and show a document, a row or a record: text with loss is green, without loss dim.

    When not printed to a terminal, text without loss is put [in brackets]. Blocks of codes are
    shown by their shape; --media decodes them.
    """
    settings = LoaderSettings(
        batch_size=batch_size,
        seed=seed,
        shuffle=None if shuffle is None else not shuffle,
        epochs=epochs,
        exhausted=exhausted,
        mix=mix or (),
        state=state,
    )
    by_step = step is not None or state is not None
    if not by_step and settings.given():
        raise ConfigError(f"{settings.given()[0]} has no effect without --step")
    chosen = {
        "--doc": doc is not None,
        "--row": row is not None,
        "--step": by_step,
        "--list": fate is not None,
    }
    given = [flag for flag, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} ask for different things; give one of them")
    wanted = None if doc is None else parse_doc(doc)
    find = decoder_finder(media, encoder, weights, sets or ())
    kind = "" if by_step else kind_of(dataset)
    is_encoded = kind == "encoded"
    lists = by_step or fate or (doc is not None and kind == "packed")
    for flag, value, idle in (
        ("--media", media, lists),
        ("--tokenizer", tokenizer, lists or is_encoded),
        ("--encoder", encoder, is_encoded),
    ):
        if value and idle:
            why = f"{dataset} is encoded" if is_encoded else f"{given[0]} lists, it decodes nothing"
            raise ConfigError(f"{flag} has no effect: {why}")
    if by_step:
        show_step(find_step(dataset, step, settings), as_json=as_json)
    elif is_encoded:
        show_record(dataset, wanted, given, media, as_json=as_json)
    else:
        opened = open_dataset(dataset)
        if fate:
            show_listed(opened, fate, as_json=as_json)
        elif wanted is not None and isinstance(opened, PackedDataset):
            show_found(opened, wanted, as_json=as_json)
        else:
            shown = read_item(opened, wanted, row)
            decode = decoder_of(opened, tokenizer)
            show_item(shown, decode, find, media, as_json=as_json)


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
    found: list[int] = documents_at(dataset.folder, dataset.about, doc).tolist()
    if len(found) > 1:
        numbers = ", ".join(map(str, found))
        raise ConfigError(f"--doc: that record became the documents {numbers}; give one of these")
    return found[0]


def show_item(
    shown: Shown, decode: Decode, find: FindDecoder, media: str | None, *, as_json: bool
) -> None:
    spans = spans_of(shown.item, decode, shown.segments)
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
        echo(line)


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
    segment = whole_document(dataset.folder, dataset.about, doc)
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
        f"{counted(padding, 'token')} of padding{_count_of_side(values)}",
        headings=[f"── segment {i}: {piece}" for i, piece in enumerate(pieces, 1)],
    )


def show_text(shown: Shown, spans: list[Span]) -> None:
    typer.echo(shown.title)
    colour = use_colour(sys.stdout)
    last = 0
    for (segment, side), group in groupby(spans, key=lambda span: (span.segment, span.side)):
        if segment != last and segment and shown.headings:
            echo(shown.headings[segment - 1])
        if side:
            echo(f"─ {side}")
        typer.echo("".join(paint(span, colour) for span in group), color=colour)
        last = segment


def _count_of_side(item: Mapping[str, NDArray[Any]]) -> str:
    sides, of_side = sides_of(item)
    return f", {int(of_side.sum()):,} of the {sides[1]} side" if len(sides) > 1 else ""


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
    text = visible(span.text, keep=NEWLINES)
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
        files = resolve_tokenizer(name, default_cache())
    except ConfigError as error:
        raise ConfigError(f"{error}; say where it is now with --tokenizer") from None
    made_by = dataset.about.tokenizer.sha256
    if files.sha256 != made_by:
        raise ConfigError(
            f"tokenizer {name} (sha256 {files.sha256[:12]}…) is not the one that made "
            f"{dataset.folder} ({made_by[:12]}…); name that one with --tokenizer"
        )
    return load_decoder(files)
