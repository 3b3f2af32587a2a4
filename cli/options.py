"""Flags that several commands have, with the same meaning everywhere."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from dataprep.pipeline.errors import ConfigError

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

_SET_CACHE = "set HOME, or name a folder for caches in DATAPREP_CACHE"


def cache_dir() -> Path:
    """Return the folder where engine proofs and input hashes are kept between runs."""
    named = os.environ.get("DATAPREP_CACHE")
    if named:
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared) / "dataprep"
    home = os.path.expanduser("~")
    return _without_home() if home == "~" else Path(home) / ".cache" / "dataprep"


def _without_home() -> Path:
    """Return a folder for a user who has no home, as in many containers."""
    place = Path(tempfile.gettempdir()) / f"dataprep-{os.getuid()}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        status = place.lstat()
    except OSError as error:
        raise ConfigError(f"cannot make {place}: {error.strerror}; {_SET_CACHE}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ConfigError(f"{place} may be written by others; {_SET_CACHE}")
    return place


def about_keys(model: type[BaseModel]) -> Callable[[str], str]:
    """Return the function that gives the help text of a key of this config."""
    return lambda key: model.model_fields[key].description or ""
