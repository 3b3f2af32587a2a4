"""Records that a Python program hands over: an iterable of them, or a dataset of `datasets`.

    [{"text": "a"}, {"text": "b"}]   ─►   python:0, the lines {"text": "a"} and {"text": "b"}

They are written to a file (`spools`), one at a time, since workers are other processes. A record is
a mapping, or a text, which is the record {"text": …}. Bytes become base64, arrays lists, times
texts, for `encode` also pixels PNG: what a file of JSON lines may hold. So records from Python and
from such a file give the same dataset, and a run that was killed goes on if it is given the same
records again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from datetime import date, datetime, time
from typing import Any

from dataprep.pipeline.errors import ConfigError, InputError, short
from dataprep.pipeline.sources.media_files import media_file
from dataprep.pipeline.sources.spools import Spool, Spools, spooled_bytes

PREFIX = "python:"
_BATCH = 1000  # rows of a dataset at a time
_CHUNK = 1 << 20


@contextmanager
def handed_over(inputs: Any, *, media: bool) -> Iterator[tuple[Any, Spools]]:
    """Yield the inputs with names in place of records, which are kept while the block runs.

    Input i is then python:i. An input is records, or {"path": records, …} with settings of its own.
    If they hold `media`, pixels and samples become files in them.
    """
    items = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    with ExitStack() as stack:
        spools: dict[str, Spool] = {}
        for i, item in enumerate(items):
            name, given = f"{PREFIX}{i}", item
            if isinstance(item, Mapping):
                given = item.get("path", item)
            if _are_records(given):
                chunks = _chunks(given, name, media)
                spools[name] = stack.enter_context(spooled_bytes(chunks, "python", name))
                items[i] = {**item, "path": name} if isinstance(item, Mapping) else name
        yield (items if spools else inputs), spools


def _are_records(given: Any) -> bool:
    """Return whether an input is records, and no name of any."""
    if isinstance(given, Mapping):
        keys = ", ".join(map(str, given))
        if given and all(hasattr(value, "with_format") for value in given.values()):
            first = str(next(iter(given)))
            raise ConfigError(
                f"an input is several splits ({keys}); choose those that are meant: "
                f"inputs=[splits[{first!r}]]"
            )
        raise ConfigError(
            f"an input has no path (keys: {keys}); if it is a record, give all of them as one "
            "input: inputs=[records]"
        )
    if isinstance(given, Set) and not isinstance(given, Mapping):
        raise ConfigError("an input is a set, which has no order; give a list: sorted(records)")
    is_model = hasattr(type(given), "model_fields")  # of a config, which can be iterated as well
    has_rows = isinstance(given, Iterable) or hasattr(given, "__getitem__")
    return has_rows and not isinstance(given, str | bytes) and not is_model


def _chunks(given: Iterable[Any], name: str, media: bool) -> Iterator[bytes]:
    chunk = bytearray()
    for number, record in enumerate(_records(given, name), 1):
        chunk += line_of(record, f"record {number} of {name}", media=media)
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


def _records(given: Any, name: str) -> Iterator[Any]:
    """Yield records; of `datasets` as they are stored, pictures and sounds not decoded."""
    if hasattr(given, "iterrows"):
        raise ConfigError(f'{name} is a data frame; give its records: frame.to_dict("records")')
    if hasattr(given, "with_format") and hasattr(given, "iter"):
        for batch in given.with_format("arrow").iter(batch_size=_BATCH):
            yield from batch.to_pylist()
    elif hasattr(given, "to_batches"):  # a table of Arrow
        for batch in given.to_batches(max_chunksize=_BATCH):
            yield from batch.to_pylist()
    else:
        yield from iter(given)  # also what has only `[i]`, as datasets of torch have


def line_of(record: Any, place: str, *, media: bool = False) -> bytes:
    """Return a record as a line of JSON; `place` names it in errors."""
    if isinstance(record, str):
        record = {"text": record}
    if not isinstance(record, Mapping):
        raise InputError(
            f"{place} is {short(repr(record), 60)}; give mappings of keys to values, or texts"
        )
    wrong = next((key for key in record if not isinstance(key, str)), None)
    if wrong is not None:
        raise InputError(f"{place} has the key {wrong!r}; keys must be texts")
    values = _with_files(record, place) if media else {**record}
    try:
        line = json.dumps(values, ensure_ascii=False, default=_plain)
        try:
            return line.encode("utf-8") + b"\n"
        except UnicodeEncodeError:  # half a surrogate pair: JSON can spell it
            return json.dumps(values, default=_plain).encode("ascii") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{place} cannot be written as JSON: {error}") from None


def _with_files(record: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a record with its pixels and samples as files."""
    values = {}
    for key, value in record.items():
        try:
            values[key] = media_file(value)
        except (TypeError, ValueError, OSError) as error:  # OSError: what PIL cannot write as PNG
            raise InputError(f"{place}: key {key!r}: {error}") from None
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if hasattr(value, "tolist"):  # an array or a number of numpy, jax or torch
        return value.tolist()
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError(f"a value is of type {type(value).__name__}; give texts, numbers, lists, bytes")
