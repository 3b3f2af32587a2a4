"""ArrayRecord files of others: xlstm-jax, MaxText, TFDS. Pieces are records.

Read by ArrayRecord itself, whose checksums tell damage; `forms` says what the records are. Shards
of dataprep's own datasets are no inputs: name the folder of the dataset to pack it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.opening import check_regular
from dataprep.pipeline.sources.blobs import blob_batches
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.forms import (
    EXAMPLE,
    FORMS,
    TOLD,
    check_keys,
    decoder_of,
    form_told,
    may_be_wide,
)
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.stream import is_url, naming
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import Piece, Records, Source

_SAMPLED = 16  # first records by which the form is told, and as many evenly spread
_READER = "readahead_buffer_size:1M,max_parallelism:1"  # twice as fast from record to record
_GROUP = re.compile(r"group_size:(\d+)")


class ArrayRecords(Format):
    """Pieces are records."""

    kind = "arrayrecord"
    endings = (".arrayrecord", ".array_record", ".arecord")
    unit = "record"
    knows_rows = True
    holds_media = False
    options = MappingProxyType({"records": FORMS})

    def sniff(self, path: str, compression: str) -> str:
        if is_url(path):
            raise InputError(f"{path} is ArrayRecord, which is read from local files only; copy it")
        dataset = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        # What is unfinished is refused as files of other formats are, when all are found.
        if kind_of(dataset) not in ("", "exported", "unfinished"):
            raise InputError(
                f"{path} is a shard of {dataset}, a dataset of dataprep, and no raw data; to pack "
                f"it: dataprep pack {dataset}"
            )
        return self.kind

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        with _open(source.path) as reader:
            count = int(reader.num_records())
            check_keys(_form(source), keys, source.path)
            group = _group_size(reader)
        size = max(1, source.num_bytes) / max(1, count)
        step = _multiple(int(target_bytes / size), group)
        return [
            Cut(start=a, stop=b, num_bytes=int((b - a) * size), first_line=a)
            for a in range(0, max(1, count), step)
            for b in (min(a + step, count),)
        ]

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        path = source.path
        with _open(path) as reader:
            count = int(reader.num_records())
            if count < piece.stop:
                raise _broken(path, f"record {piece.stop} no longer exists")
            size = max(1, source.num_bytes) / max(1, count)

            def read_blobs(start: int, stop: int) -> Sequence[bytes]:
                return _read(reader, start, stop, path)

            yield from blob_batches(
                piece,
                wanted,
                read=read_blobs,
                decode=decoder_of(_form(source), wanted, path),
                at_once=_multiple(int(wanted.batch_bytes / size), _group_size(reader)),
                bytes_of_record=size,
                growth=Growth(place=path, stored=source.num_bytes, max_ratio=source.max_ratio),
            )

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start

    def doubts(self, sources: Sequence[Source]) -> Iterator[str]:
        """Yield that ids may have another type than the config says, which only it can say."""
        first = sources[0]
        if first.options.get("records") == TOLD and may_be_wide(_some_records(first.path)):
            yield (
                f"every second id of {first.path} is 0, as if its ids had eight bytes, not four; "
                "if they do, set records to tokens_int64"
            )


@contextmanager
def _open(path: str) -> Iterator[Any]:
    from array_record.python import array_record_module

    with naming(path):
        check_regular(path)
    try:
        reader = array_record_module.ArrayRecordReader(path, _READER)
    except (RuntimeError, ValueError, OSError) as error:
        raise _broken(path, str(error).partition("\n")[0]) from None
    if not reader.ok():  # it opens damaged files without an error
        raise _broken(path, _why(reader))
    try:
        yield reader
    finally:
        with suppress(RuntimeError):  # what was wrong has been told
            reader.close()


def _why(reader: Any) -> str:
    """Return why a reader is not usable, which it tells when it is closed."""
    try:
        reader.close()
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return "its footer is missing or damaged"


def _read(reader: Any, start: int, stop: int, path: str) -> Sequence[bytes]:
    try:
        records: list[bytes] = reader.read(start, stop) if start < stop else []
    except (RuntimeError, ValueError, IndexError, OSError) as error:
        cause = str(error).partition("\n")[0]
        raise _broken(path, f"records {start + 1} to {stop}: {cause}") from None
    if len(records) != stop - start:
        raise _broken(path, f"records are missing from {start + len(records) + 1} on")
    return records


def _form(source: Source) -> str:
    """Return what the records are: as the config says, else as some of them tell."""
    return source.options.get("records") or _form_told(source.path, source.fingerprint)


@lru_cache(maxsize=1 << 12)  # of the content that the fingerprint is of
def _form_told(path: str, fingerprint: str) -> str:
    records = _some_records(path)
    return form_told(records, path) if records else EXAMPLE  # which may have any keys


def _some_records(path: str) -> list[bytes]:
    """Return the first records, and some that are evenly spread."""
    with _open(path) as reader:
        count = int(reader.num_records())
        if not count:
            return []
        first = _read(reader, 0, min(count, _SAMPLED), path)
        # Each takes as long as all that are compressed with it.
        spread = _SAMPLED if _group_size(reader) == 1 else 2
        places = sorted({i * (count - 1) // (spread - 1) for i in range(1, spread)})
        return [*first, *(record for i in places for record in _read(reader, i, i + 1, path))]


def _group_size(reader: Any) -> int:
    """Return how many records are compressed together, and must be decompressed together."""
    found = _GROUP.search(reader.writer_options_string())
    return max(1, int(found[1])) if found else 1


def _multiple(count: int, group: int) -> int:
    """
    >>> _multiple(100, 64), _multiple(3, 1)
    (128, 3)
    """
    return -(-max(1, count) // group) * group


def _broken(path: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as ArrayRecord: {cause}; the file is damaged, cut off or not "
        "ArrayRecord at all: copy or write it again"
    )
