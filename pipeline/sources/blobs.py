"""Records that are stored as bytes, one by one: batches of them, whatever decodes them.

    stored     b"…" b"…" b"…"          ArrayRecord, MDS
    decoded    columns or rows, and the reasons of those that cannot be decoded

A format gives the bytes of some records, and the function that decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.excerpts import excerpt_of_bytes
from dataprep.pipeline.sources.batches import empty_batch, too_long_batch
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.keys import Keys, did_you_mean, what_to_set
from dataprep.pipeline.sources.tables import cut_rows
from dataprep.pipeline.types import Piece, Record, RecordError, Records

TOKENS = "tokens"  # the key of the ids of files that hold nothing else


class DecodedBlobs(NamedTuple):
    """Some records: columns or rows of those that are good, and why others are not."""

    reasons: Mapping[int, str]  # by their place among all
    columns: Mapping[str, Sequence[Any]] | None = None
    rows: Sequence[Record] | None = None


Decode = Callable[[Sequence[bytes]], DecodedBlobs]
ReadBlobs = Callable[[int, int], Sequence[bytes]]


def blob_batches(
    piece: Piece,
    wanted: Wanted,
    *,
    read: ReadBlobs,  # records [start, stop) of the source
    decode: Decode,
    at_once: int,  # how many are read together, from a multiple of it on
    bytes_of_record: float,  # as stored, on average
    growth: Growth,
) -> Iterator[Records]:
    """Yield the records of a piece whose unit are records."""
    num_lines = piece.stop - piece.start
    line = min(wanted.from_line, num_lines)
    yield empty_batch(next_line=line, num_bytes=int(line * bytes_of_record))
    grown = 0
    while line < num_lines:
        first = piece.start + line
        stop = min((first // at_once + 1) * at_once, piece.stop)
        blobs = read(first, stop)
        sizes = np.fromiter(map(len, blobs), np.float64, len(blobs))
        grown += int(sizes[sizes <= wanted.max_record_bytes].sum())
        growth.check(grown)
        for start, end in cut_rows(sizes, wanted):
            if sizes[start] > wanted.max_record_bytes:
                yield too_long_batch(line + start, int(sizes[start]), wanted.max_record_bytes)
            else:
                num_bytes = int((end - start) * bytes_of_record)
                yield _records(blobs[start:end], line + start, decode, num_bytes)
        line += len(blobs)
    yield empty_batch(next_line=line)


def _records(blobs: Sequence[bytes], line: int, decode: Decode, num_bytes: int) -> Records:
    decoded = decode(blobs)
    good = np.delete(np.arange(len(blobs)), list(decoded.reasons)).astype(np.int64)
    return Records(
        lines=good + line,
        offsets=np.full(len(good), -1, np.int64),
        next_line=line + len(blobs),
        num_bytes=num_bytes,
        content_bytes=sum(map(len, blobs)),
        columns=decoded.columns,
        rows=decoded.rows,
        errors=tuple(
            RecordError(line=line + i, offset=-1, reason=reason, excerpt=excerpt_of_bytes(blobs[i]))
            for i, reason in sorted(decoded.reasons.items())
        ),
    )


def check_known(keys: Keys | None, known: Sequence[str], path: str) -> frozenset[str]:
    """Return the wanted keys that a file has, of which it must have all that are needed."""
    for key in sorted(keys.lacking(known) if keys else ()):
        near = did_you_mean(key, known)
        fix = what_to_set(key, known, keys.flag if keys else "--fields")
        ids = f"; it has token ids: set --pretokenized {TOKENS}" if [*known] == [TOKENS] else ""
        raise InputError(
            f"{key!r} not in {path} (keys: {', '.join(known)}){ids or f'; {near}{fix}'}"
        )
    return frozenset(known) if keys is None else keys.names & {*known}
