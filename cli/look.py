"""Commands that look at datasets: inspect, verify, schema."""

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

from dataprep.cli.show import megabytes, print_json, use_colour
from dataprep.configs import EncodeConfig, TokenizeConfig, load_config
from dataprep.loaders import TokenizedDataset, open_dataset
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.engine import load_decoder, resolve_tokenizer
from dataprep.pipeline.errors import ConfigError
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
from dataprep.pipeline.look.stats import stats
from dataprep.pipeline.look.verify import compare, verify
from dataprep.pipeline.look.verify_encoded import verify_encoded
from dataprep.pipeline.storage.manifest import read_manifest

# What a document could do to the terminal; newlines and tabs are shown as they are.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
DIM, GREEN, BLUE, MAGENTA, RESET = "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[35m", "\x1b[0m"
SHADES = {"vision": BLUE, "audio": MAGENTA}  # of what has loss; anything else is green

INSPECT_EXAMPLE = "Example: dataprep inspect data/tokenized --doc 7 --media /tmp/pictures"

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Folder of a dataset.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def add_commands(app: typer.Typer) -> None:
    app.command("inspect", epilog=INSPECT_EXAMPLE)(inspect_command)
    app.command("verify", epilog="Example: dataprep verify data/tokenized")(verify_command)
    app.command("stats", epilog="Example: dataprep stats data/packed --json")(stats_command)
    app.command("schema", epilog="Example: dataprep schema > dataprep.schema.json")(schema_command)


def inspect_command(
    dataset: Dataset,
    doc: Annotated[
        int | None, typer.Option(help="Which document, from 0; negative: from the end.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(help="Which row of a packed dataset; negative: from the end.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Decode with this one; default: the dataset's own.")
    ] = None,
    media: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write its pictures as PNG and its sounds as WAV into this folder."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="With --media: what made the codes, if not dataprep encode."),
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
    """Show a document or a row decoded: with loss in green, without dim.

    Off a terminal, what has no loss is put [in brackets]. Blocks of codes are shown by their shape;
    --media decodes them.
    """
    find = decoder_finder(media, encoder, weights, sets or ())
    opened = open_dataset(dataset)
    packed = isinstance(opened, PackedDataset)
    number = row if packed else doc
    if (doc if packed else row) is not None:
        what = "rows, so use --row" if packed else "documents, so use --doc"
        raise ConfigError(f"{dataset} is {opened.manifest['kind']}: it holds {what}")
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


def verify_command(
    dataset: Dataset,
    against: Annotated[
        str | None, typer.Option(help="Also compare byte by byte with this dataset.")
    ] = None,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing if all is well.")
    ] = False,
) -> None:
    """Read everything and check it: hashes, counts, ids, boundaries, masks."""
    kind = read_manifest(Path(dataset))["kind"]
    result = (verify_encoded if kind == "encoded" else verify)(Path(dataset))
    files = compare(Path(dataset), Path(against)) if against else None
    if as_json:
        print_json({**asdict(result), "folder": dataset, "files_equal": files})
    elif not quiet:
        what = {"packed": "rows", "encoded": "records"}.get(result.kind, "documents")
        typer.echo(
            f"{dataset}: whole; {result.num_shards} shards, {result.num_items:,} {what}, "
            f"{result.num_tokens:,} tokens, {megabytes(result.num_bytes)}"
        )
        if against:
            typer.echo(f"{dataset} and {against}: {files} files, all equal")


def stats_command(dataset: Dataset, as_json: Json = False) -> None:
    """Print counts, lengths, padding, segments, targets and vocabulary."""
    if read_manifest(Path(dataset))["kind"] == "encoded":
        raise ConfigError(f"{dataset} holds codes, not tokens; tokenize it first")
    found = stats(Path(dataset))
    if as_json:
        print_json(found)
        return
    counts = found["counts"]
    typer.echo(f"{dataset}: {found['kind']}, {found['shards']} shards, {megabytes(found['bytes'])}")
    for name, value in counts.items():
        if value:
            typer.echo(f"  {name:24} {value:>16,}")
    typer.echo(f"  {'with loss':24} {found['loss_share']:>16.2%}")
    if "padding_share" in found:
        typer.echo(f"  {'padding':24} {found['padding_share']:>16.3%}")
    vocabulary = found["vocabulary"]
    typer.echo(f"  {'ids used':24} {vocabulary['ids_used']:>16,} of {vocabulary['size']:,}")
    for name, values in found.items():
        if isinstance(values, dict) and "histogram" in values:
            show_spread(name.replace("_", " "), values)


def show_spread(name: str, values: dict[str, Any]) -> None:
    """Percentiles and a bar for each power of two."""
    shown = ", ".join(f"{k} {values[k]:,}" for k in ("min", "p10", "p50", "p90", "p99", "max"))
    typer.echo(f"\n{name}: mean {values['mean']:,}, {shown}")
    most = max(values["histogram"].values())
    for start, count in values["histogram"].items():
        bar = "█" * max(1, round(40 * count / most))
        typer.echo(f"  {int(start):>9,}+ {count:>12,} {bar}")


def schema_command() -> None:
    """Print the JSON Schema of the config, for editors."""
    print_json(TokenizeConfig.model_json_schema())


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A document or row, and all that is said of it."""

    item: Mapping[str, NDArray[Any]]
    segments: list[Segment]
    stem: str  # begins the names of its files: row-3
    about: dict[str, Any]  # for JSON
    title: str
    headings: list[str]  # of segments


def read_document(dataset: TokenizedDataset, number: int) -> Shown:
    doc = checked_number("--doc", number, len(dataset), dataset.folder)
    document = dataset[doc]
    shard, place = dataset.locate(doc)
    origin = origin_of(dataset.folder, dataset.manifest, shard, place)
    targets = int(document["loss_mask"].sum())
    return Shown(
        item=document,
        segments=[whole_document(dataset.folder, dataset.manifest, doc)],
        stem=f"doc-{doc}",
        about={"document": doc, "origin": asdict(origin)},
        title=f"document {doc}: {origin}\n"
        f"{len(document['tokens']):,} tokens, {targets:,} with loss",
        headings=[],
    )


def read_row(dataset: PackedDataset, number: int) -> Shown:
    row = checked_number("--row", number, len(dataset), dataset.folder)
    values = dataset[row]
    shard, place = dataset.locate(row)
    pieces = pieces_of_row(dataset.folder, dataset.manifest, shard, place)
    targets = int(values["loss_mask"][1:].sum())
    padding = int((values["segment_ids"] == 0).sum())
    return Shown(
        item=values,
        segments=segments_of_row(dataset.folder, dataset.manifest, pieces),
        stem=f"row-{row}",
        about={"row": row, "segments": [asdict(piece) for piece in pieces]},
        title=f"row {row}: {len(pieces)} segments, {targets:,} targets, "
        f"{padding:,} tokens of padding",
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
    """By the flags; what they say without --media or --encoder would be lost."""
    for flag, value, needed, by in (
        ("--encoder", encoder, media, "--media DIR"),
        ("--weights", weights, encoder, "--encoder"),
        ("--set", sets, encoder, "--encoder"),
    ):
        if value and not needed:
            raise ConfigError(f"{flag} says nothing without {by}")
    if not encoder:
        return recorded_decoder()
    other = next((item for item in sets if not item.startswith("settings.")), None)
    if other is not None:
        raise ConfigError(f"--set {other}: only settings.NAME=VALUE of the encoder can be set here")
    config = load_config(EncodeConfig, sets=sets, flags={"encoder": encoder, "weights": weights})
    return named_decoder(config.encoder, config.weights, config.settings)


def checked_number(flag: str, number: int, count: int, folder: Path) -> int:
    if not -count <= number < count:
        raise ConfigError(f"{flag} {number}: {folder} has {count:,}, numbered from 0")
    return number % count


def paint(span: Span, colour: bool) -> str:
    text = CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", span.text)
    if not colour:
        return text if span.loss else f"[{text}]"
    shade = SHADES.get(span.modality, GREEN) if span.loss else DIM
    return f"{shade}{text}{RESET}"


def decoder_of(dataset: TokenizedDataset | PackedDataset, tokenizer: str | None) -> Decode:
    """The tokenizer that made the dataset, or the one named, which must be the same."""
    name = tokenizer or dataset.manifest["config"]["tokenizer"]
    try:
        files = resolve_tokenizer(name)
    except ConfigError as error:
        raise ConfigError(f"{error}; name where it is now with --tokenizer") from None
    made_by = dataset.manifest["tokenizer"]["sha256"]
    if files.sha256 != made_by:
        raise ConfigError(
            f"tokenizer {name} (sha256 {files.sha256[:12]}…) is not the one that made "
            f"{dataset.folder} ({made_by[:12]}…); name that with --tokenizer"
        )
    return load_decoder(files)
