"""The table of all formats. A new one is a file of this room and a line here.

    FORMATS["jsonl"].endings    (".jsonl", ".ndjson")
    FORMATS["jsonl"].unit       "line"
    FORMATS["jsonl"].split(…)   byte ranges

Messages that list the known endings (`endings`) are made from this table too.
"""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.arrayrecords import ArrayRecords
from dataprep.pipeline.sources.arrow import Arrow
from dataprep.pipeline.sources.csv import Csv
from dataprep.pipeline.sources.datatrove import Datatrove
from dataprep.pipeline.sources.flat import FlatTokens
from dataprep.pipeline.sources.format import Format
from dataprep.pipeline.sources.json.formats import Json, Jsonl
from dataprep.pipeline.sources.mds import Mds
from dataprep.pipeline.sources.megatron import Megatron
from dataprep.pipeline.sources.npy import Npy
from dataprep.pipeline.sources.parquet import Parquet
from dataprep.pipeline.sources.streamed import Streamed
from dataprep.pipeline.sources.synthetic import Synthetic
from dataprep.pipeline.sources.text import PlainText
from dataprep.pipeline.sources.webdataset import WebDataset

_ALL: tuple[Format, ...] = (
    Jsonl(),
    Json(),
    PlainText(),
    *(Csv("csv", ","), Csv("tsv", "\t")),
    Parquet(),
    Arrow(),
    Npy(),
    ArrayRecords(),
    Megatron(),
    Datatrove(),
    FlatTokens(),
    Mds(),
    WebDataset(),
    Streamed(),
    Synthetic(),
)
FORMATS: Mapping[str, Format] = {known.kind: known for known in _ALL}


def format_of(kind: str) -> Format:
    """Return the format of a `Source.kind`, which another version of dataprep may have written."""
    if kind not in FORMATS:
        raise InputError(f"unknown format {kind!r}; known formats: {', '.join(FORMATS)}")
    return FORMATS[kind]
