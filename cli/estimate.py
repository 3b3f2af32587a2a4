"""`dataprep estimate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from dataprep.cli.help import in_sections
from dataprep.cli.options import Json, Log, OnlyShown, Set
from dataprep.cli.show import echo, megabytes, print_json, scaled
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig, keys_told
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import counted
from dataprep.pipeline.jobs.executors import usable_cores
from dataprep.pipeline.run.estimate import CorpusEstimate, Estimate, estimate
from dataprep.pipeline.run.rates import Rates, read_rates

EXAMPLE = "Example: dataprep estimate dataprep.yaml --workers 60 --nodes 16 --price-per-node-hour 3"
SECTIONS = {
    "What to estimate": ("config", "sets"),
    "On what": ("workers", "nodes", "price", "rates"),
    "What to say": ("as_json", "quiet", "log_format"),
}
MOST = 1 << 20  # workers, nodes


def add_commands(app: typer.Typer) -> None:
    app.command("estimate", cls=in_sections(SECTIONS), epilog=EXAMPLE)(estimate_command)


def estimate_command(
    config: Annotated[
        list[str],
        typer.Argument(metavar="CONFIG", help="YAML or TOML file; of several, later ones win."),
    ],
    sets: Set = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help="Worker processes of each node; default: cores here."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, max=MOST, metavar="N", help="Machines.")] = 1,
    price: Annotated[
        float | None,
        typer.Option(
            "--price-per-node-hour", min=0, metavar="PRICE", help="What an hour of one node costs."
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="JSON of tokens that one core works off in a second, if not those of this "
            "machine: tokenize, pack, plan_rows.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: OnlyShown = False,
    log_format: Log = "text",
) -> None:
    """Tell tokens, rows, disk, time and cost from a sample of the inputs; nothing is written.

    CONFIG is one of `dataprep run` or `dataprep tokenize`. How fast a core is, is measured here,
    on the sample; give the rates of other machines with --rates.
    """
    settings = load_config(RunConfig, files=config, sets=sets or (), flags={})
    given = Rates() if rates is None else read_rates(rates)
    with keys_told():
        found = estimate(
            settings,
            cache_dir=default_cache(),
            workers=workers or usable_cores(),
            nodes=nodes,
            price_per_node_hour=price,
            rates=given,
        )
    if as_json:
        print_json(as_values(found))
    else:
        show(found)
    if not (as_json or quiet):
        for note in found.notes:
            echo(f"note: {note}")


def as_values(found: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON has it."""
    return {
        "tokens": found.tokens,
        "tokens_between": found.tokens_between,
        "rows": found.rows,
        "disk_bytes": found.disk_bytes,
        "core_seconds": found.core_seconds,
        "seconds": found.seconds,
        "cost": found.cost,
        "workers": found.workers,
        "nodes": found.nodes,
        "notes": found.notes,
        "corpora": [asdict(corpus) for corpus in found.corpora],
    }


def show(found: Estimate) -> None:
    for corpus in found.corpora:
        for line in _lines_of(corpus):
            echo(line)
    if found.tokens_between is None:
        echo("tokens ± not known: only one place was sampled")
    else:
        least, most = (scaled(value, "") for value in found.tokens_between)
        echo(f"tokens {least} to {most}, by how much the places of the sample differ")
    rows = f"{scaled(found.rows, '')} rows, " if found.rows else ""
    echo(
        f"in all, about: {scaled(found.tokens, '')} tokens, {rows}"
        f"{scaled(found.disk_bytes, 'B')} on disk"
    )
    where = f"{counted(found.workers, 'worker')} on {counted(found.nodes, 'node')}"
    cost = "" if found.cost is None else f", cost {found.cost:,.2f}"
    echo(f"{told(found.core_seconds)} of one core; {told(found.seconds)} with {where}{cost}")


def _lines_of(corpus: CorpusEstimate) -> Sequence[str]:
    rate = scaled(corpus.rates.tokenize or 0, "")
    first = (
        f"{corpus.name}: {counted(corpus.sources, 'source')}, {megabytes(corpus.input_bytes)} in "
        f"{counted(corpus.tasks, 'task')} -> {scaled(corpus.documents, '')} documents, "
        f"{scaled(corpus.tokens, '')} tokens, {megabytes(corpus.disk_bytes)}; "
        f"{rate} tokens/s of one core ({corpus.engine})"
    )
    packed = (
        f"{corpus.name}: rows of {each.seq_len} -> {scaled(each.rows, '')} rows, "
        f"{megabytes(each.disk_bytes)}; {told(each.core_seconds)} of one core, and "
        f"{told(each.alone_seconds)} to plan them"
        for each in corpus.packed
    )
    return [first, *packed]


def told(seconds: float) -> str:
    """
    >>> told(0.2), told(75), told(9000), told(400000)
    ('less than 1 s', '75 s', '150 min', '111 h')
    """
    if seconds < 1:
        return "less than 1 s"
    for most, per, unit in ((300, 1, "s"), (36000, 60, "min")):
        if seconds < most:
            return f"{seconds / per:,.0f} {unit}"
    return f"{seconds / 3600:,.0f} h"
