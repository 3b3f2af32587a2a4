"""`dataprep inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dataprep.cli.help import choice
from dataprep.cli.items import Shown, read_item, show_text
from dataprep.cli.options import Json, OnlyShown, whole_number
from dataprep.cli.records import show_record
from dataprep.cli.show import echo, print_json
from dataprep.cli.steps import LoaderSettings, find_step, generation_of
from dataprep.cli.tokens import show_tokens, texts_of
from dataprep.cli.traces import show_found, show_listed, show_step
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, recorded
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import PackedDataset, TokenizedDataset, open_dataset
from dataprep.loaders.mixture import Exhausted
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.engine import load_decoder, resolve_tokenizer
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.look.decoders import named_decoder, recorded_decoder
from dataprep.pipeline.look.inspect import Decode, spans_of
from dataprep.pipeline.look.listing import Fate
from dataprep.pipeline.look.lookup import parse_doc
from dataprep.pipeline.look.media import FindDecoder, write_media
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.storage.places import dataset_folder

EXAMPLE = "Example: dataprep inspect data/packed --step 17 --batch-size 256"


def add_commands(app: typer.Typer) -> None:
    app.command("inspect", epilog=EXAMPLE)(inspect_command)


def inspect_command(
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATASET", help="Folder of a dataset; not needed with --mix."),
    ] = "",
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
        typer.Option(
            metavar="N",
            parser=whole_number,
            help="Number of the row of a packed dataset; negative: from the end.",
        ),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=whole_number,
            help="List the rows that a trainer's loader has at this step, from 0, with the file "
            "and line of every document in them. Needs --batch-size or --state.",
        ),
    ] = None,
    fate: Annotated[
        Fate | None,
        choice(
            Fate,
            "--list",
            help="List the documents that packing cut or left out, with file and line.",
        ),
    ] = None,
    generation: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Of a dataset that grows: which one, from 0; default: the newest. With --step, "
            "0:3,1200:5 for a loader that moved on.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|NAME", help="Tokenizer to decode with; default: the dataset's own."
        ),
    ] = None,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens", help="A line a token: its place, its id, whether it has loss, its text."
        ),
    ] = False,
    media: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Write its pictures as PNG and its sounds as WAV into this folder."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --media: what made the codes, if it was not dataprep encode.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With --encoder: file of its weights (safetensors)."),
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
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=whole_number, help="With --step: the loader's; default: 0."
        ),
    ] = None,
    shuffle: Annotated[
        bool | None,
        typer.Option("--no-shuffle", help="With --step: the loader has shuffle=False."),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", parser=whole_number, help="With --step: the loader's; default: for ever."
        ),
    ] = None,
    exhausted: Annotated[
        Exhausted | None,
        choice(
            Exhausted, "--exhausted", help="With --step and --mix: the loader's; default: stop."
        ),
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
    quiet: OnlyShown = False,
) -> None:
    """Decode and show a document, a row or a record: text with loss is green, without loss dim.

    When not printed to a terminal, text without loss is put [in brackets]. Blocks of codes are
    shown by their shape; --media decodes them.
    """
    by_step = step is not None or state is not None
    settings = LoaderSettings(
        batch_size=batch_size,
        seed=seed,
        shuffle=None if shuffle is None else not shuffle,
        epochs=epochs,
        exhausted=exhausted,
        mix=mix or (),
        state=state,
        generation=generation if by_step else None,
    )
    if not by_step and settings.given():
        raise ConfigError(f"{settings.given()[0]} has no effect without --step")
    chosen = {
        "--doc": doc is not None,
        "--row": row is not None,
        "--state" if step is None else "--step": by_step,
        "--list": fate is not None,
    }
    given = [flag for flag, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} ask for different things; give one of them")
    if not dataset and not (by_step and mix):
        raise ConfigError("no dataset; name its folder, as in: dataprep inspect data/packed")
    wanted = None if doc is None else parse_doc(doc)
    find = decoder_finder(media, encoder, weights, sets or ())
    kind = "" if by_step else kind_of(dataset_folder(dataset))
    is_encoded = kind == "encoded"
    lists = by_step or fate or (doc is not None and kind == "packed")
    for flag, value, idle in (
        ("--media", media, lists),
        ("--tokens", tokens, lists or is_encoded),
        ("--tokenizer", tokenizer, lists or is_encoded),
        ("--encoder", encoder, is_encoded),
        ("--generation", generation, is_encoded),
    ):
        if value and idle:
            why = f"{dataset} is encoded" if is_encoded else f"{given[0]} lists, it decodes nothing"
            raise ConfigError(f"{flag} has no effect: {why}")
    if by_step:
        show_step(find_step(dataset, step, settings), as_json=as_json, quiet=quiet)
    elif is_encoded:
        show_record(dataset, wanted, given, media, as_json=as_json, quiet=quiet)
    else:
        opened = open_dataset(dataset, generation=generation_of(generation))
        if fate:
            show_listed(opened, fate, as_json=as_json, quiet=quiet)
        elif wanted is not None and isinstance(opened, PackedDataset):
            show_found(opened, wanted, as_json=as_json, quiet=quiet)
        else:
            shown = read_item(opened, wanted, row)
            decode = decoder_of(opened, tokenizer)
            show_item(shown, decode, find, media, tokens=tokens, as_json=as_json, quiet=quiet)


def show_item(
    shown: Shown,
    decode: Decode,
    find: FindDecoder,
    media: str | None,
    *,
    tokens: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    spans = spans_of(shown.item, decode, shown.segments)
    written = (
        write_media(shown.item, shown.segments, find, Path(media), shown.stem) if media else None
    )
    ids = shown.item["tokens"].tolist()
    texts = texts_of(ids, spans, decode) if tokens else []
    if as_json:
        found = {} if written is None else {"media": written.paths, "notes": written.notes}
        parts = [asdict(span) for span in spans]
        more = {"texts": texts} if tokens else {}
        print_json({**shown.about, "tokens": ids, **more, "spans": parts, **found})
        return
    if tokens:
        show_tokens(shown, spans, texts, quiet=quiet)
    else:
        show_text(shown, spans, quiet=quiet)
    for line in (*written.paths, *(() if quiet else written.notes)) if written else ():
        echo(line)


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
