"""Flags that several commands have, with the same meaning everywhere."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dataprep.cli.help import choice

# Sections of the help that several commands have; the flags below are in them.
CONFIG_SECTION = ("config", "sets")
MESSAGES_SECTION = ("as_json", "quiet", "verbose", "log_format")


def whole_number(text: str) -> int:
    """Return the number of a flag that no config checks."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def completed_presets() -> list[str]:
    """Return what a shell offers in the place of a config; else it offers files."""
    from dataprep.configs.files import preset_names

    return list(preset_names())


LogFormat = Literal["text", "json"]

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        autocompletion=completed_presets,
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
Task = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="I/N|auto",
        help="Do the jobs of element I of N of a task array, from 0, and publish nothing: dataprep "
        "finalize does. auto: as Slurm or a Kubernetes Indexed Job says.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
OnlyShown = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only what was asked for: no title, no notes.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Also show the settings in full, and why engines were not chosen."
    ),
]
Log = Annotated[
    LogFormat, choice(LogFormat, "--log-format", help="Format of the messages on stderr.")
]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Folder of a dataset.")]
GenerationOption = Annotated[
    int | None,
    typer.Option(
        "--generation",
        metavar="N",
        help="Of a dataset that grows: which one, from 0; default: the newest.",
    ),
]
