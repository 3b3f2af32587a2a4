"""The table of all formats. A new one is a file of this room and a line here.

    FORMATS["jsonl"].endings    (".jsonl", ".ndjson")
    FORMATS["jsonl"].unit       "line"
    FORMATS["jsonl"].split(…)   byte ranges

Messages that list the known endings (`endings`) are made from this table too.
"""

from __future__ import annotations

import re
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
from dataprep.pipeline.sources.plugins import InstalledFormats, installed_formats, plugin_kinds
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
_NAMED = re.compile(r"[a-z][a-z0-9_-]+:(?!//)")


def all_formats() -> Mapping[str, Format]:
    """Return the formats of this table and those of installed packages."""
    return {**FORMATS, **_installed().formats}


def problems_of_plugins() -> tuple[str, ...]:
    """Return why formats of installed packages are not used."""
    return _installed().problems


def known_format(kind: str) -> Format | None:
    """Return the format of this kind, if there is any."""
    if kind in FORMATS or kind not in plugin_kinds():
        return FORMATS.get(kind)
    return _installed().formats.get(kind)


def format_of(kind: str) -> Format:
    """Return the format of a `Source.kind`, which another version of dataprep may have written."""
    known = known_format(kind)
    if known is None:
        told = f"unknown format {kind!r}; known formats: {', '.join(all_formats())}"
        raise InputError("; ".join([told, *problems_of_plugins()]))
    return known


def format_with_prefix(spec: str) -> Format | None:
    """Return the format whose prefix a name begins with, if there is any."""
    if not _NAMED.match(spec):
        return None
    own = (known for known in _ALL if known.prefix and spec.startswith(known.prefix))
    return next(own, None) or _installed_with_prefix(spec)


def _installed_with_prefix(spec: str) -> Format | None:
    found = _installed().formats.values()
    return next((f for f in found if f.prefix and spec.startswith(f.prefix)), None)


def version_of(kind: str) -> dict[str, str]:
    """Return what identities say of the code that reads a kind: nothing of our own."""
    known = known_format(kind)
    return {"reader": known.version} if known and known.version else {}


def _installed() -> InstalledFormats:
    return installed_formats(_ALL)
