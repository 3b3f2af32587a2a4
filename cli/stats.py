"""`dataprep stats`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from dataprep.cli.options import Dataset, GenerationOption, Json
from dataprep.cli.show import Reading, columns, echo, megabytes, print_json
from dataprep.cli.streams import visible
from dataprep.cli.tables import table
from dataprep.pipeline.errors import ConfigError, counted, short
from dataprep.pipeline.look.groups import GroupCounts, bytes_to_read, groups_of, is_path
from dataprep.pipeline.look.stats import refuse_export, stats
from dataprep.pipeline.storage.manifest import EncodedManifest
from dataprep.pipeline.storage.parts import Growing, check_parts_there, read_generation
from dataprep.pipeline.storage.places import dataset_folder

MOST_GROUPS = 100  # lines of a table
LONGEST_BAR, BEFORE_BAR = 40, 27  # columns
LONGEST_VALUE = 80  # characters of a value in it


def add_commands(app: typer.Typer) -> None:
    app.command("stats", epilog="Example: dataprep stats data/packed --by source")(stats_command)


def stats_command(
    dataset: Dataset,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="source|file|KEY",
            help="Count documents and tokens by input, by file, or by the value of a key in the "
            "records, for which the raw files are read again; key:source is the key called source.",
        ),
    ] = None,
    generation: GenerationOption = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Print counts, lengths, padding, segments, targets and vocabulary; of codes, their use."""
    folder = dataset_folder(dataset)
    manifest = read_generation(folder, generation)
    check_parts_there(folder, manifest)
    if by is None:
        total = sum(shard.num_bytes for shard in manifest.shards)
        with Reading("stats", total, quiet=quiet) as read:
            found = stats(folder, manifest, read)
        if as_json:
            print_json(found)
        elif isinstance(manifest, EncodedManifest):
            show_codes(dataset, found)
        else:
            show_tokens(dataset, found)
        return
    refuse_export(folder, manifest)
    if not isinstance(manifest, Growing):
        raise ConfigError(
            f"--by {by}: {dataset} holds codes, not documents; stats without --by lists its sources"
        )
    with Reading("stats", bytes_to_read(folder, manifest, by), quiet=quiet) as read:
        groups = groups_of(folder, manifest, by, read)
    if as_json:
        print_json({"by": by, "groups": [asdict(group) for group in groups]})
    else:
        show_groups(by, groups)


def show_tokens(dataset: str, found: dict[str, Any]) -> None:
    show_head(dataset, found)
    echo(f"  {'with loss':24} {found['loss_share']:>16.2%}")
    if "lost_documents" in found:
        echo(f"  truncated and dropped documents: {', '.join(found['lost_documents'])}")
    vocabulary = found["vocabulary"]
    echo(f"  {'ids used':24} {vocabulary['ids_used']:>16,} of {vocabulary['size']:,}")
    show_spreads(found)


def show_codes(dataset: str, found: dict[str, Any]) -> None:
    show_head(dataset, found)
    book = found["codebook"]
    echo(f"  {'codes used':24} {book['ids_used']:>16,} of {book['size']:,}")
    echo(f"  {'perplexity':24} {book['perplexity']:>16,}")
    echo(f"  columns: {', '.join(found['columns'])}")
    show_spreads(found)
    typer.echo("\nsources:")
    for source in found["sources"]:
        echo(
            f"  {source['path']}: {counted(source['records'], 'record')}, "
            f"{counted(source['frames'], 'frame')}, {counted(source['codes'], 'code')} "
            f"({source['share']:.1%})"
        )


def show_head(dataset: str, found: dict[str, Any]) -> None:
    shards = counted(found["shards"], "shard")
    echo(f"{dataset}: {found['kind']}, {shards}, {megabytes(found['bytes'])} on disk")
    for name, value in found["counts"].items():
        share = f"  {found['padding_share']:.3%}" if name == "padding" and value else ""
        if value:
            echo(f"  {name:24} {value:>16,}{share}")


def show_groups(by: str, groups: Sequence[GroupCounts]) -> None:
    """Print a table, the largest first."""
    heads = (visible(by), "documents", "tokens", "with loss", "share")
    ordered = sorted(groups, key=lambda group: -group.tokens)
    shows_all = is_path(by)
    lines = [
        (
            visible(g.name if shows_all else short(g.name, LONGEST_VALUE)),
            f"{g.documents:,}",
            f"{g.tokens:,}",
            f"{g.target_tokens:,}",
            f"{g.share:.2%}",
        )
        for g in ordered[:MOST_GROUPS]
    ]
    for line in table([heads, *lines], columns()):
        echo(line)
    more = len(ordered) - MOST_GROUPS
    if more > 0:
        echo(f"and {more:,} more; --json has all of them")


def show_spreads(found: dict[str, Any]) -> None:
    for name, values in found.items():
        if isinstance(values, dict) and "histogram" in values:
            show_spread(name.replace("_", " "), values)


def show_spread(name: str, values: dict[str, Any]) -> None:
    """Print percentiles, and a bar for each power of two."""
    shown = ", ".join(f"{k} {values[k]:,}" for k in ("min", "p10", "p50", "p90", "p99", "max"))
    typer.echo(f"\n{name}: mean {values['mean']:,}, {shown}")
    most = max(values["histogram"].values())
    room = max(1, min(LONGEST_BAR, columns() - BEFORE_BAR))
    for start, count in values["histogram"].items():
        bar = "█" * max(1, round(room * count / most))
        echo(f"  {int(start):>9,}+ {count:>12,} {bar}")
