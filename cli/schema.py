"""`dataprep schema`."""

from __future__ import annotations

import typer

from dataprep.cli.show import print_json
from dataprep.configs.tokenize import TokenizeConfig


def add_commands(app: typer.Typer) -> None:
    app.command("schema", epilog="Example: dataprep schema > dataprep.schema.json")(schema_command)


def schema_command() -> None:
    """Print the JSON Schema of the config, for editors."""
    print_json(TokenizeConfig.model_json_schema())
