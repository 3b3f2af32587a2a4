"""`dataprep presets`."""

from __future__ import annotations

from typing import Annotated

import typer

from dataprep.cli.options import Json, completed_presets
from dataprep.cli.show import print_json
from dataprep.configs.files import preset_names, preset_text

EXAMPLE = "Example: dataprep presets lwm > mine.yaml"


def add_commands(app: typer.Typer) -> None:
    app.command("presets", epilog=EXAMPLE)(presets_command)


def presets_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completed_presets,
            help="Show this one; default: list all.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only their names.")] = False,
) -> None:
    """List the configs that come with dataprep, or show one, to be used or copied.

    Every --config takes their names: dataprep tokenize data.jsonl --config instruct.
    """
    texts = {known: preset_text(known) for known in ([name] if name else preset_names())}
    if as_json:
        print_json(texts)
    elif name:
        typer.echo(texts[name], nl=False)
    else:
        for known, text in texts.items():
            typer.echo(known if quiet else f"{known:10} {_first_line(text)}")


def _first_line(text: str) -> str:
    """Return what a preset says of itself.

    >>> _first_line("# Plain text: {...}\\nfields: text\\n")
    'Plain text: {...}'
    """
    return text.partition("\n")[0].removeprefix("# ")
