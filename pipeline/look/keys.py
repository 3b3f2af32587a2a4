"""Read the values of a key in the raw records again, for documents that came from them.

    documents   0 1 2 3     line 0, 1, 3 of a.jsonl, line 0 of b.jsonl
    key lang    "en" "de" "en" null

Only of files that are still what was tokenized, or were only appended to since: others would give
answers about other records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from dataprep.pipeline.errors import ConfigError, DataprepError, InputError, short
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.ragged import numbers_within, owner_of, ranges
from dataprep.pipeline.sources import Keys, find_sources, format_of, read_source
from dataprep.pipeline.sources.memory import PREFIX as PYTHON
from dataprep.pipeline.sources.stdin import STDIN
from dataprep.pipeline.sources.tail import tail_of
from dataprep.pipeline.storage.origins import Origins
from dataprep.pipeline.storage.provenance import OriginFile
from dataprep.pipeline.types import Offsets, Record, Source

MOST_VALUES = 100_000
MOST_CHARACTERS = 1 << 26  # of all values together: they are held in memory
NO_LIMIT = 1 << 40
NO_VALUE = "(none)"  # the key is missing, or null
UNREADABLE = "(unreadable)"  # the record became a document, but this value of it cannot be read
_NULL = "null"  # how it is spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class HowRead:
    """How a file was read when it was tokenized."""

    separator: str = ""
    max_ratio: int = NO_LIMIT
    max_record_bytes: int = NO_LIMIT
    options: Mapping[str, str] = field(default_factory=dict)  # as in `Source`


class KeyValues:
    """The value of a key for each document of a dataset, as numbers of values."""

    def __init__(self, key: str, num_documents: int) -> None:
        self._key = key
        self._numbers: dict[bytes, int] = {}  # by a hash of the value: it may be long
        self._num_characters = 0
        self.spellings: list[str] = []  # of the values, as JSON
        self.of_document = np.full(num_documents, -1, np.int32)

    def add(self, documents: Offsets, values: Sequence[Any]) -> None:
        self.of_document[documents] = [
            self._number_of(type_of(value), spelled(value)) for value in values
        ]

    def add_unreadable(self, documents: Offsets) -> None:
        if len(documents):
            self.of_document[documents] = self._number_of("", UNREADABLE)

    def _number_of(self, kind: str, spelling: str) -> int:
        digest = blake2b(f"{kind} {spelling}".encode("utf-8", "surrogatepass"), digest_size=16)
        number = self._numbers.setdefault(digest.digest(), len(self.spellings))
        if number == len(self.spellings):
            self.spellings.append(spelling)
            self._num_characters += len(spelling)
            if number >= MOST_VALUES or self._num_characters > MOST_CHARACTERS:
                raise InputError(
                    f"{self._key!r} has more than {MOST_VALUES:,} values, or they have more than "
                    f"{MOST_CHARACTERS:,} characters; choose a key with fewer or shorter ones"
                )
        return number


def read_values(
    origins: Origins,
    num_documents: int,
    key: str,
    *,
    reading_of: Callable[[int], HowRead],
    between: Callable[[int], None],
) -> KeyValues:
    """Read all files again, each as `reading_of` its number tells; `between` is called with the
    bytes of each that was read."""
    found = KeyValues(key, num_documents)
    sources = []
    for number, file in enumerate(origins.files):
        lines = lines_of(origins, number, num_documents)
        if not len(lines):
            continue
        reading = reading_of(number)
        source = _same_source(file, reading)
        sources.append(source)
        documents = _documents_of(origins, number, num_documents)
        keys = _keys_in(source, key)
        if not keys:
            found.add(documents, [None] * len(documents))
            continue
        # None of them is needed: a record that lacks one would be read whole, and what is wrong
        # with its other values is not asked for.
        maybe = Keys(needed=frozenset(), maybe=keys)
        for first, records in read_source(source, maybe, max_record_bytes=reading.max_record_bytes):
            places, owners = _places_in(lines, first + records.lines)
            rows = records.as_rows()
            found.add(documents[places], [value_in(rows[i], key) for i in owners.tolist()])
            bad = np.array([first + error.line for error in records.errors], np.int64)
            found.add_unreadable(documents[_places_in(lines, bad)[0]])
        between(max(source.num_bytes, 0))
    if (found.of_document < 0).any():
        raise InputError("the raw files do not hold all documents any more")
    if found.spellings == [_NULL]:
        seen = short(", ".join(_first_keys(sources[0])), 200) or "none"
        raise ConfigError(f"no record has a value under the key {key!r} (keys: {seen})")
    return found


def _places_in(lines: Offsets, own: Offsets) -> tuple[Offsets, Offsets]:
    """Return where these lines are among `lines`, and of each place which line it is.

    A record may have become no document, or several.

    >>> [found.tolist() for found in _places_in(np.array([0, 0, 2]), np.array([0, 1, 2]))]
    [[0, 1, 2], [0, 0, 2]]
    """
    starts = np.searchsorted(lines, own, side="left")
    counts = np.searchsorted(lines, own, side="right") - starts
    return ranges(starts, counts), owner_of(counts)


def _first_keys(source: Source) -> list[str]:
    """Return the keys of the first record that can be read whole, for a message."""
    for _, records in read_source(source, None):
        if len(records.lines):
            return list(records.as_rows()[0])
    return []


def _keys_in(source: Source, key: str) -> frozenset[str]:
    """Return the keys to read for a.b: a.b itself and a; of a table, those that it has."""
    keys = frozenset({key, key.partition(".")[0]})
    schema = format_of(source.kind).schema(source)
    if schema is not None:
        return keys & frozenset(schema.names)
    return keys


def _runs_of(origins: Origins, file: int, num_documents: int) -> tuple[Any, Offsets]:
    """Return the runs of a file, and how many documents each has."""
    starts = origins.runs["document"].astype(np.int64)
    counts = np.diff(np.append(starts, num_documents))
    own = origins.runs["file"] == file
    return origins.runs[own], counts[own]


def lines_of(origins: Origins, file: int, num_documents: int) -> Offsets:
    """Return the lines of a file that became documents, ascending."""
    runs, counts = _runs_of(origins, file, num_documents)
    return np.repeat(runs["line"].astype(np.int64), counts) + numbers_within(counts)


def _documents_of(origins: Origins, file: int, num_documents: int) -> Offsets:
    runs, counts = _runs_of(origins, file, num_documents)
    return np.repeat(runs["document"].astype(np.int64), counts) + numbers_within(counts)


def _same_source(file: OriginFile, reading: HowRead) -> Source:
    """Return the source of a file, which must begin with what it was."""
    if file.path == STDIN or file.path.startswith(PYTHON):
        where = "stdin" if file.path == STDIN else f"a Python program ({file.path})"
        raise InputError(
            f"the records came from {where}, which cannot be read again, and their values are "
            "nowhere else; tokenize a file of them"
        )
    cure = "its values are only in the raw files, so restore it, or tokenize again"
    try:
        format_of(file.kind)
        (source,) = find_sources(
            file.path,
            separator=reading.separator,
            max_ratio=reading.max_ratio,
            options=reading.options,
        )
    except (DataprepError, ValueError) as error:
        raise InputError(f"{file.path} cannot be read again ({error}); {cure}") from None
    is_same = source.fingerprint == file.fingerprint
    if not is_same and tail_of(source, file.start + file.bytes, file.fingerprint) is None:
        raise InputError(f"{file.path} changed since it was tokenized; {cure}")
    return source


def value_in(record: Record, key: str) -> Any:
    """Return the value of a key; a.b is the key b of the object a, unless there is a key a.b.

    >>> value_in({"a": {"b": 1}}, "a.b"), value_in({"a.b": 2}, "a.b"), value_in({}, "a")
    (1, 2, None)
    """
    if record.get(key) is not None:  # as documents are made: where it is null, the path counts
        return record[key]
    name, dot, rest = key.partition(".")
    inner = record.get(name)
    return value_in(inner, rest) if dot and isinstance(inner, dict) else None


def type_of(value: Any) -> str:
    """Return what tells a value from others that JSON spells alike, such as a date from a text."""
    is_json = value is None or isinstance(value, str | int | float | list | dict)
    return "" if is_json or hasattr(value, "tolist") else type(value).__name__


def spelled(value: Any) -> str:
    """Return a value as JSON, so that 3 is not "3".

    >>> spelled("en"), spelled(None), spelled(3), spelled(np.arange(2))
    ('"en"', 'null', '3', '[0, 1]')
    """
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def names_of(spellings: Iterable[str]) -> list[str]:
    """Return a name of its own for each value, without credentials.

    >>> names_of(['"en"', "null", "3", '"3"', '["a"]'])
    ['en', '(none)', '3', '"3"', '["a"]']
    >>> names_of(['"ftp://me:a@host"', '"ftp://me:b@host"'])
    ['ftp://***@host', 'ftp://***@host (2)']
    """
    pairs = [(spelling, _shown(spelling)) for spelling in spellings]
    times = Counter(shown for _, shown in pairs)
    public = [
        redacted(spelling if times[shown] > 1 and spelling != _NULL else shown)
        for spelling, shown in pairs
    ]
    given, taken, names = set(public), Counter[str](), []
    for name in public:
        taken[name] += 1
        unique = name
        while taken[name] > 1 and (unique := f"{name} ({taken[name]})") in given:
            taken[name] += 1
        given.add(unique)
        names.append(unique)
    return names


def _shown(spelling: str) -> str:
    if spelling == _NULL:
        return NO_VALUE
    return str(json.loads(spelling)) if spelling.startswith('"') else spelling
