"""Commands that look at datasets: inspect, verify, schema."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dataprep.cli.show import megabytes, print_json, use_colour
from dataprep.configs import TokenizeConfig
from dataprep.loaders import TokenizedDataset, open_dataset
from dataprep.pipeline.engine import load_decoder, resolve_tokenizer
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.inspect import Decode, Span, spans_of
from dataprep.pipeline.provenance import origin_of
from dataprep.pipeline.verify import compare, verify

DIM, GREEN, BLUE, RESET = "\x1b[2m", "\x1b[32m", "\x1b[34m", "\x1b[0m"

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Folder of a dataset.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def add_commands(app: typer.Typer) -> None:
    app.command("inspect", epilog="Example: dataprep inspect data/tokenized --doc 7")(
        inspect_command
    )
    app.command("verify", epilog="Example: dataprep verify data/tokenized")(verify_command)
    app.command("schema", epilog="Example: dataprep schema > dataprep.schema.json")(schema_command)


def inspect_command(
    dataset: Dataset,
    doc: Annotated[int, typer.Option(help="Which document, from 0; negative: from the end.")] = 0,
    tokenizer: Annotated[
        str | None, typer.Option(help="Decode with this one; default: the dataset's own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a document decoded: with loss in green, without dim (off a terminal: [in brackets])."""
    show_document(Path(dataset), doc, tokenizer=tokenizer, as_json=as_json)


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
    result = verify(Path(dataset))
    files = compare(Path(dataset), Path(against)) if against else None
    if as_json:
        print_json({**asdict(result), "folder": dataset, "files_equal": files})
    elif not quiet:
        what = "rows" if result.kind == "packed" else "documents"
        typer.echo(
            f"{dataset}: whole; {result.num_shards} shards, {result.num_items:,} {what}, "
            f"{result.num_tokens:,} tokens, {megabytes(result.num_bytes)}"
        )
        if against:
            typer.echo(f"{dataset} and {against}: {files} files, all equal")


def schema_command() -> None:
    """Print the JSON Schema of the config, for editors."""
    print_json(TokenizeConfig.model_json_schema())


def show_document(folder: Path, doc: int, *, tokenizer: str | None, as_json: bool) -> None:
    dataset = open_dataset(folder)
    if not -len(dataset) <= doc < len(dataset):
        raise ConfigError(f"--doc {doc}: {folder} has {len(dataset)} documents, from 0 on")
    document = dataset[doc]
    spans = spans_of(document, decoder_of(dataset, tokenizer), dataset.manifest["config"])
    shard, place = dataset.locate(doc)
    origin = origin_of(folder, dataset.manifest, shard, place)
    if as_json:
        print_json(
            {
                "document": doc % len(dataset),
                "origin": asdict(origin),
                "tokens": document["tokens"].tolist(),
                "spans": [asdict(span) for span in spans],
            }
        )
        return
    targets = int(document["loss_mask"].sum())
    typer.echo(f"document {doc % len(dataset)}: {origin}")
    typer.echo(f"{len(document['tokens']):,} tokens, {targets:,} with loss")
    colour = use_colour(sys.stdout)
    typer.echo("".join(paint(span, colour) for span in spans), color=colour)


def paint(span: Span, colour: bool) -> str:
    if not colour:
        return span.text if span.loss else f"[{span.text}]"
    shade = DIM if not span.loss else BLUE if span.modality == "vision" else GREEN
    return f"{shade}{span.text}{RESET}"


def decoder_of(dataset: TokenizedDataset, tokenizer: str | None) -> Decode:
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
