"""Flags that several commands have, with the same meaning everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

LogFormat = Literal["text", "json"]

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="YAML or TOML file, or a preset: lwm, pretrain, instruct; may be given several times, "
        "later ones win.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set any config key, nested ones with dots."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the dataset that is in the output folder.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done and write nothing.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Log = Annotated[LogFormat, typer.Option("--log-format", help="Format of the messages on stderr.")]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Folder of a dataset.")]


def cache_dir() -> Path:
    """Return the folder where engine proofs and input hashes are kept between runs."""
    named = os.environ.get("DATAPREP_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dataprep"


def about_keys(model: type[BaseModel]) -> Callable[[str], str]:
    """Return the function that gives the help text of a key of this config."""
    return lambda key: model.model_fields[key].description or ""
