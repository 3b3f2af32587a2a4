"""Datasets that `datasets` streams in the workers: pieces are its shards, lines are rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

from dataprep.pipeline.sources.batches import batch_rows, empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.hub import hub_errors
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.types import Piece, Records, Source


class Streamed(Format):
    """Pieces are shards of the streamed dataset."""

    kind = "hf"
    is_stream = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        count = int(_dataset(source).num_shards)
        size = source.num_bytes // count if source.num_bytes >= 0 else target_bytes
        return [Cut(start=i, stop=i + 1, num_bytes=size) for i in range(count)]

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        rows = _rows(source, piece.start, piece.stop)
        line = sum(1 for _ in islice(rows, wanted.from_line))
        yield empty_batch(next_line=line)
        sized = ((row, rough_size(row)) for row in rows)
        yield from batch_rows(sized, wanted, first_line=line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return sum(1 for _ in islice(_rows(source, piece.start, piece.stop), stop_after))

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        counts = [sum(1 for _ in _rows(source, i, i + 1)) for i in range(starts[-1])]
        totals = [0, *accumulate(counts)]
        return [totals[start] for start in starts]


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


def rough_size(value: object) -> int:
    """Return about how many bytes a value has, to know when a batch is full.

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


def _rows(source: Source, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of the shards in [start, stop)."""
    dataset = _dataset(source)
    for index in range(start, stop):
        with hub_errors(source.path):
            rows = iter(dataset.shard(num_shards=dataset.num_shards, index=index))
        while True:
            with hub_errors(source.path):
                row = next(rows, None)
            if row is None:
                break
            yield row
