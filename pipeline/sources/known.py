"""All formats. A new one is a file of this room and a line here.

    FORMATS["jsonl"].endings    (".jsonl", ".ndjson")
    FORMATS["jsonl"].unit       "line"
    FORMATS["jsonl"].split(…)   byte ranges

What users are told of endings comes from here too (`endings`).
"""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.arrow import Arrow
from dataprep.pipeline.sources.csv import Csv
from dataprep.pipeline.sources.format import Format
from dataprep.pipeline.sources.json.formats import Json, Jsonl
from dataprep.pipeline.sources.npy import Npy
from dataprep.pipeline.sources.parquet import Parquet
from dataprep.pipeline.sources.streamed import Streamed
from dataprep.pipeline.sources.synthetic import Synthetic
from dataprep.pipeline.sources.text import Text
from dataprep.pipeline.sources.webdataset import WebDataset

_ALL: tuple[Format, ...] = (
    Jsonl(),
    Json(),
    Text(),
    *(Csv("csv", ","), Csv("tsv", "\t")),
    Parquet(),
    Arrow(),
    Npy(),
    WebDataset(),
    Streamed(),
    Synthetic(),
)
FORMATS: Mapping[str, Format] = {known.kind: known for known in _ALL}


def format_of(kind: str) -> Format:
    """By `Source.kind`, which may come from the manifest of another version of dataprep."""
    if kind not in FORMATS:
        raise InputError(f"no format {kind!r} is known here, only {', '.join(FORMATS)}")
    return FORMATS[kind]
