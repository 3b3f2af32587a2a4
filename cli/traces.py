"""How `inspect` lists documents with their origins: those of a step, those that packing cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from dataprep.cli.show import echo, print_json, show_next
from dataprep.cli.steps import Step
from dataprep.loaders import PackedDataset, TokenizedDataset
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.look.listing import Fate, documents_of_fate
from dataprep.pipeline.look.lookup import FileLine, find_in_rows
from dataprep.pipeline.look.origins import RowOrigins
from dataprep.pipeline.storage.places import files_here


def show_step(found: Step, *, as_json: bool, quiet: bool) -> None:
    """Print the rows of a batch, and what is in them."""
    origins = {
        name: RowOrigins(files_here(d.folder), d.about) for name, d in found.datasets.items()
    }
    rows = [
        (
            name,
            row,
            [] if row is None else origins[name].of_row(*found.datasets[name].locate(row)),
        )
        for name, row in found.rows
    ]
    if found.note and not quiet:
        echo(found.note, err=True)
    if as_json:
        listed = [
            {"dataset": name, "row": row, "segments": [asdict(piece) for piece in pieces]}
            for name, row, pieces in rows
        ]
        print_json({"step": found.step, "epochs": dict(found.epochs), "rows": listed})
        return
    epochs = ", ".join(
        f"{value:.4g} epochs of {name or found.datasets[name].folder}"
        for name, value in found.epochs.items()
    )
    if not quiet:
        echo(f"step {found.step}: {counted(len(rows), 'row')}, after {epochs}")
    for number, (name, row, pieces) in enumerate(rows):
        if row is not None:
            place = found.datasets[name].folder
            echo(f"── {number}: row {row} of {place}, {counted(len(pieces), 'segment')}")
            for piece in pieces:
                echo(f"  {piece}")
    others = Counter(name for name, row, _ in rows if row is None)
    for name, count in others.items():
        echo(f"── {counted(count, 'row')} of {name}; inspect its folder to see them")


def show_found(
    opened: PackedDataset, wanted: int | FileLine, *, as_json: bool, quiet: bool
) -> None:
    """Print which rows hold a document."""
    found = find_in_rows(files_here(opened.folder), opened.about, wanted)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    for one in found:
        rows = {place.row for place in one.places}
        held = f"in {counted(len(rows), 'row')}" if rows else "in no row, packing left it out"
        echo(f"{one.origin}; document {one.document} of {one.dataset}, {held}")
        for place in one.places:
            echo(f"  {place}")
    first = next((place.row for one in found for place in one.places), None)
    if first is not None and not quiet:
        grown = ("--generation", str(opened.about.generation)) if opened.about.parts else ()
        show_next("dataprep", "inspect", opened.folder, "--row", str(first), *grown)


def show_listed(
    opened: TokenizedDataset | PackedDataset, fate: Fate, *, as_json: bool, quiet: bool
) -> None:
    if not isinstance(opened, PackedDataset):
        raise ConfigError(f"--list {fate}: {opened.folder} is not packed")
    found = documents_of_fate(files_here(opened.folder), opened.about, fate)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    count = 0
    for one in found:
        count += 1
        rows = f" in rows {', '.join(map(str, one.rows))}" if one.rows else ""
        lost = f", {one.lost:,} lost" if one.lost else ""
        echo(
            f"{one.origin}; {one.kept:,} tokens kept{rows}{lost} "
            f"(document {one.document} of {one.dataset})"
        )
    if not quiet:
        echo(f"{counted(count, 'document')} {fate}", err=bool(count))
