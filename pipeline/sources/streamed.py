"""Datasets that `datasets` streams: pieces are shards, lines are rows. Runs in the workers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from dataprep.pipeline.sources.batches import batch_rows, nothing
from dataprep.pipeline.sources.hub import hub_errors
from dataprep.pipeline.types import Piece, Records, Source


@lru_cache(maxsize=8)
def _load(name: str, config: str, split: str, revision: str, fingerprint: str) -> Any:
    import datasets

    return datasets.load_dataset(
        name, config or None, split=split, revision=revision or None, streaming=True
    )


def _dataset(source: Source) -> Any:
    options = source.options
    with hub_errors(source.path):
        return _load(
            options["name"],
            options["config"],
            options["split"],
            options.get("revision", ""),
            source.fingerprint,
        )


def num_shards(source: Source) -> int:
    return int(_dataset(source).num_shards)


def count_rows(source: Source, piece: Piece, stop_after: int | None = None) -> int:
    return sum(1 for _ in islice(_rows(source, piece), stop_after))


def read_streamed(
    source: Source, piece: Piece, keys: frozenset[str] | None, *, from_line: int, batch_bytes: int
) -> Iterator[Records]:
    rows = _rows(source, piece)
    line = sum(1 for _ in islice(rows, from_line))
    yield nothing(next_line=line)
    sized = ((row, rough_size(row)) for row in rows)
    yield from batch_rows(sized, keys, first_line=line, batch_bytes=batch_bytes)


def rough_size(value: object) -> int:
    """Bytes, about: enough to end a batch in time.

    >>> rough_size({"text": "abc", "codes": [1, 2, 3]})
    27
    """
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(rough_size(item) for item in value.values())
    if isinstance(value, list):
        nested = value and isinstance(value[0], str | bytes | list | dict)
        return sum(rough_size(item) for item in value) if nested else 8 * len(value)
    return 8


def _rows(source: Source, piece: Piece) -> Iterator[dict[str, Any]]:
    dataset = _dataset(source)
    for index in range(piece.start, piece.stop):
        with hub_errors(source.path):
            rows = iter(dataset.shard(num_shards=dataset.num_shards, index=index))
        while True:
            with hub_errors(source.path):
                row = next(rows, None)
            if row is None:
                break
            yield row
