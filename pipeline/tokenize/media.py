"""Keep what `encode` made codes of: its column `source`, for each row of each file of codes.

    codes-00000-of-00002.parquet   vision: [[5, 7 …] …]   source: ["cats/tom.jpg", …]
    provenance/media.parquet       file 0: "cats/tom.jpg", …

So it is still known which picture a block of codes is of when the dataset of codes is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.files import Written, make_folder, sync_folder
from dataprep.pipeline.sources import read_source
from dataprep.pipeline.sources.makers import read_made
from dataprep.pipeline.storage.masks import blocks_among
from dataprep.pipeline.storage.origins import write_media
from dataprep.pipeline.storage.provenance import MEDIA
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.types import Source

COLUMN = "source"


def write_media_of(plan: TokenizePlan, work: Path) -> dict[str, Written]:
    """Write, durably, what the codes of the plan's sources are of; {} if none are by `encode`."""
    if not blocks_among(plan.masks):
        return {}
    path = work / MEDIA
    make_folder(path.parent)
    media = write_media(path, _media(plan))
    if media is None:
        return {}
    written = media.commit()
    sync_folder(path.parent)
    return {MEDIA: written}


def _media(plan: TokenizePlan) -> Iterator[tuple[int, Iterator[str]]]:
    for number, source in enumerate(plan.sources):
        made = read_made(source)
        if made.makers and COLUMN in made.columns:
            yield number, _values(source)


def _values(source: Source) -> Iterator[str]:
    """Yield the column of all rows, in order; "" where it has no text."""
    seen = 0
    for first, records in read_source(source, frozenset({COLUMN})):
        lines = (first + records.lines).tolist()
        found = dict(zip(lines, (record.get(COLUMN) for record in records.as_rows()), strict=True))
        for row in range(seen, first + records.next_line):  # a row that is bad has none
            value = found.get(row)
            yield value if isinstance(value, str) else ""
        seen = first + records.next_line
