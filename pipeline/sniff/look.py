"""Read the first records of what an input names; whole files are never read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dataprep.pipeline.errors import ConfigError, InputError, counted
from dataprep.pipeline.guards.secrets import hidden
from dataprep.pipeline.sources import Keys, find_sources, format_of, list_left_out, read_source
from dataprep.pipeline.sources.makers import read_made
from dataprep.pipeline.sources.stdin import STDIN
from dataprep.pipeline.types import Record, Source

MAX_SOURCES = 64  # of an input that are looked into
MAX_RECORDS = 300  # of a source
BATCH_BYTES = 1 << 16
MAX_BATCHES = 16
# Of a model or its tokenizer, which often stand beside data and are none.
NOT_DATA = re.compile(
    r"(added_tokens|dataset_infos?|generation_config|model\.safetensors\.index|"
    r"(tokenizer|preprocessor|processor)(_config)?|special_tokens_map|vocab)\.json"
)
ARRAY_KEY = "vision"  # what the codes of an .npy are taken for, which has no keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A source and its first records."""

    source: Source
    records: tuple[Record, ...]
    made: Mapping[str, str]  # the modality of columns of codes that an encoder made
    bad: str = ""  # the first record that cannot be read, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedInput:
    """What an input names, and some of it looked into."""

    spec: str
    sources: tuple[Source, ...]
    looked: tuple[Looked, ...]  # those that have records
    left_out: str  # what to say of files in folders that are not read


def look_at(spec: str) -> LookedInput:
    """Look at an input; InputError if it has no record at all."""
    if spec == STDIN:
        raise ConfigError("stdin cannot be read again by every run; save it to a file first")
    if hidden([spec]) != [spec]:
        raise ConfigError(
            f"{hidden([spec])[0]} has credentials, which a config should not; give them to the "
            "store by the environment, and name the input without them"
        )
    left_out: list[str] = []
    found_all = find_sources(spec, left_out=left_out, hashed=False)
    sources = [s for s in found_all if not _is_beside(s.path)] or found_all
    looked = [_look_into(source) for source in _some_of(sources)]
    found = tuple(one for one in looked if one.records)
    if not found:
        bad = next((f": {one.bad}" for one in looked if one.bad), "")
        raise InputError(f"{spec} has no record to find anything out by{bad}; name other files")
    beside = len(found_all) - len(sources)
    told = [f"left out: {counted(beside, 'file')} of a model or tokenizer"] if beside else []
    return LookedInput(
        spec=spec,
        sources=tuple(sources),
        looked=found,
        left_out="; ".join(filter(None, [list_left_out(left_out), *told])),
    )


def _is_beside(path: str) -> bool:
    return bool(NOT_DATA.fullmatch(os.path.basename(path)))


def _some_of(sources: Sequence[Source]) -> Iterator[Source]:
    """Yield all sources, or some of them, evenly spaced, and one of every ending."""
    places = {*np.linspace(0, len(sources) - 1, min(len(sources), MAX_SOURCES)).astype(int)}
    endings = {os.path.splitext(source.path)[1]: i for i, source in enumerate(sources)}
    for place in sorted({*places, *endings.values()}):
        yield sources[place]


def _look_into(source: Source) -> Looked:
    # An array has no keys; its codes are given under the one that is asked for.
    has_keys = format_of(source.kind).row_shape(source) is None
    keys = None if has_keys else Keys(needed=frozenset({ARRAY_KEY}))
    records: list[Record] = []
    bad = ""
    for first, batch in islice(read_source(source, keys, batch_bytes=BATCH_BYTES), MAX_BATCHES):
        records += batch.as_rows()
        for error in batch.errors[:1] if not bad else ():
            unit = format_of(source.kind).unit
            bad = f"{unit} {first + error.line + 1} of {source.path} {error.reason}"
        if len(records) >= MAX_RECORDS:
            break
    return Looked(
        source=source,
        records=tuple(records[:MAX_RECORDS]),
        made={maker.column: maker.kind for maker in read_made(source).makers},
        bad=bad,
    )
