"""`dataprep stats`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from dataprep.cli.options import Dataset, Json
from dataprep.cli.show import megabytes, print_json
from dataprep.pipeline.errors import counted
from dataprep.pipeline.look.stats import stats


def add_commands(app: typer.Typer) -> None:
    app.command("stats", epilog="Example: dataprep stats data/packed --json")(stats_command)


def stats_command(dataset: Dataset, as_json: Json = False) -> None:
    """Print counts, lengths, padding, segments, targets and vocabulary."""
    found = stats(Path(dataset))
    if as_json:
        print_json(found)
        return
    counts = found["counts"]
    shards = counted(found["shards"], "shard")
    typer.echo(f"{dataset}: {found['kind']}, {shards}, {megabytes(found['bytes'])}")
    for name, value in counts.items():
        if value:
            typer.echo(f"  {name:24} {value:>16,}")
    typer.echo(f"  {'with loss':24} {found['loss_share']:>16.2%}")
    if "padding_share" in found:
        typer.echo(f"  {'padding':24} {found['padding_share']:>16.3%}")
    if "lost_documents" in found:
        typer.echo(f"  truncated and dropped documents: {found['lost_documents']}")
    vocabulary = found["vocabulary"]
    typer.echo(f"  {'ids used':24} {vocabulary['ids_used']:>16,} of {vocabulary['size']:,}")
    for name, values in found.items():
        if isinstance(values, dict) and "histogram" in values:
            show_spread(name.replace("_", " "), values)


def show_spread(name: str, values: dict[str, Any]) -> None:
    """Print percentiles, and a bar for each power of two."""
    shown = ", ".join(f"{k} {values[k]:,}" for k in ("min", "p10", "p50", "p90", "p99", "max"))
    typer.echo(f"\n{name}: mean {values['mean']:,}, {shown}")
    most = max(values["histogram"].values())
    for start, count in values["histogram"].items():
        bar = "█" * max(1, round(40 * count / most))
        typer.echo(f"  {int(start):>9,}+ {count:>12,} {bar}")
