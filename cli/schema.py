"""`dataprep schema`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dataprep.configs.run import RunConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import disk_errors_named, write_atomic

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ID = "urn:dataprep-jax:config"


def add_commands(app: typer.Typer) -> None:
    app.command("schema", epilog="Example: dataprep schema --out dataprep.schema.json")(
        schema_command
    )


def schema_command(
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="File to write; default: stdout."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Not the line for the config, on stderr.")
    ] = False,
) -> None:
    """Print the JSON Schema of the config: with it, editors check and complete a config.

    The first line of a YAML config tells the editor where the schema is.
    """
    text = f"{json.dumps(config_schema(), indent=1, ensure_ascii=False)}\n"
    if out is None:
        typer.echo(text, nl=False)
        place = "dataprep.schema.json"
    else:
        place = os.path.abspath(os.path.expanduser(out))
        _write(Path(place), text)
    if not quiet:
        print(f"first line of a config: # yaml-language-server: $schema={place}", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    with disk_errors_named(path.parent):
        try:
            if path.exists() and not path.is_file():  # a folder, which fails, a pipe, /dev/null
                path.write_text(text, encoding="utf-8")
            else:
                # What a link leads to, not the link.
                write_atomic(Path(os.path.realpath(path)), text.encode())
        except OSError as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}; name another file with --out"
            ) from None


def config_schema() -> dict[str, Any]:
    """Return the schema of run configs, which have all keys of the others."""
    return {"$schema": DIALECT, "$id": ID, **RunConfig.model_json_schema()}
