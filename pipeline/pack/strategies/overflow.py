"""Cut documents into pieces that fit a row. A document that fits is one piece.

    split      length 20, capacity 8:   0────7 7────14 14──19
               full rows and a rest; neighbours share one token, which is a target in the first
               and context in the second, so that every token but the document's first is a
               target exactly once. Each piece adds capacity - 1 targets; a rest has 2 tokens or
               more.
    truncate   the first `capacity` tokens are kept, or the last with truncate_side left
    drop       the document is left out
    turns      whole turns of a conversation are kept: `turns` has found which

Blocks are ranges that must not be cut; the cut then falls before the
block, or after it if the left side is truncated. A block that does not fit a row together with the
token before it is cut anyway, and counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from dataprep.configs.base import Overflow, Side
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.pack.strategies.plan import Counts, Ints, Lengths
from dataprep.pipeline.ragged import numbers_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Ranges [start, stop) of documents, sorted by document and start, not overlapping.

    Only blocks of documents longer than a row are used; others may be left out.
    """

    document: Ints  # i64[blocks]
    start: Ints  # i64[blocks]
    stop: Ints  # i64[blocks]

    def __post_init__(self) -> None:
        assert len(self.document) == len(self.start) == len(self.stop)
        follows = (self.document[1:] > self.document[:-1]) | (self.start[1:] >= self.stop[:-1])
        assert (self.document[1:] >= self.document[:-1]).all(), "blocks not sorted by document"
        assert follows.all(), "blocks overlap or are not sorted"


class PlacedPieces(NamedTuple):
    """Pieces in some order, as a plan has them."""

    document: Ints
    start: Ints
    length: Ints
    head: Ints | None = None

    def taken(self, order: Ints) -> PlacedPieces:
        return PlacedPieces(
            document=self.document[order],
            start=self.start[order],
            length=self.length[order],
            head=None if self.head is None else self.head[order],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of documents that are longer than a row: one piece of each, or nothing."""

    document: Ints  # i64[kept], ascending
    start: Ints  # i64[kept]
    length: Ints  # i64[kept]
    head: Ints  # i64[kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPieces:
    """Documents that are one piece, and the pieces of those that had to be cut."""

    whole: Lengths  # i64[documents], 0 where the document is empty, cut or dropped
    document: Ints  # i64[cut pieces], ascending
    start: Ints  # i64[cut pieces], ascending within a document
    length: Ints  # i64[cut pieces]
    counts: Counts  # all but rows and padding
    head: Ints | None = None  # i64[cut pieces]; None: 0 of all

    @property
    def num_tokens(self) -> int:
        return int(self.whole.sum() + self.length.sum())

    def in_order(self) -> PlacedPieces:
        """Return all pieces, in the order of the corpus."""
        document = np.flatnonzero(self.whole)
        none, length = np.zeros(len(document), np.int64), self.whole[document]
        if not len(self.document):
            return PlacedPieces(document=document, start=none, length=length)
        document = np.concatenate([document, self.document])
        order = np.argsort(document, kind="stable")
        return PlacedPieces(
            document=document[order],
            start=np.concatenate([none, self.start])[order],
            length=np.concatenate([length, self.length])[order],
            head=None if self.head is None else np.concatenate([none, self.head])[order],
        )


def fit_pieces(
    lengths: Lengths,
    capacity: int,
    *,
    overflow: Overflow,
    truncate_side: Side = "right",
    blocks: Blocks | None = None,
    kept: Kept | None = None,
) -> FittedPieces:
    """Return the pieces that fit a row, and what became of the documents that did not.

    `kept`: with overflow turns, what is kept of those.
    """
    _check_options(overflow, truncate_side)
    is_long = lengths > capacity
    long = np.flatnonzero(is_long)
    counts = Counts(
        documents=len(lengths),
        tokens=int(lengths.sum()),
        documents_empty=len(lengths) - int(np.count_nonzero(lengths)),
    )
    document = start = length = np.zeros(0, np.int64)
    head = None
    if len(long) and overflow == "split":
        document, start, length, num_cut = _split(lengths, long, capacity, blocks)
        counts += Counts(
            documents_split=len(long), tokens_shared=len(start) - len(long), blocks_cut=num_cut
        )
    elif len(long) and overflow == "truncate":
        document, start, length, num_cut = _truncate(lengths, long, capacity, truncate_side, blocks)
        num_lost = int(lengths[long].sum() - length.sum())
        counts += Counts(
            documents_truncated=len(long), tokens_truncated=num_lost, blocks_cut=num_cut
        )
    elif len(long) and overflow == "turns":
        assert kept is not None, "nobody looked for the turns"
        document, start, length = kept.document, kept.start, kept.length
        head = kept.head if kept.head.any() else None
        num_shortened, num_left = int(lengths[document].sum()), int(length.sum())
        counts += Counts(
            documents_truncated=len(document),
            tokens_truncated=num_shortened - num_left,
            documents_dropped=len(long) - len(document),
            tokens_dropped=int(lengths[long].sum()) - num_shortened,
        )
    elif len(long):
        counts += Counts(documents_dropped=len(long), tokens_dropped=int(lengths[long].sum()))
    num_pieces = len(lengths) - counts.documents_empty - len(long) + len(document)
    return FittedPieces(
        whole=np.where(is_long, 0, lengths) if len(long) else lengths,
        document=document,
        start=start,
        length=length,
        counts=counts + Counts(pieces=num_pieces),
        head=head,
    )


def _check_options(overflow: Overflow, truncate_side: Side) -> None:
    if overflow not in get_args(Overflow):
        raise ConfigError(f"overflow must be split, truncate, drop or turns, got {overflow!r}")
    if truncate_side not in get_args(Side):
        raise ConfigError(f"truncate_side must be left or right, got {truncate_side!r}")


def _split(
    lengths: Lengths, long: Ints, capacity: int, blocks: Blocks | None
) -> tuple[Ints, Ints, Ints, int]:
    """Return document, start and length of the pieces, and how many blocks were cut.

    length 9, capacity 8 -> starts [0, 7], lengths [8, 2]
    """
    if blocks is not None:
        return _split_between(lengths, long, capacity, blocks)
    stride = capacity - 1
    per_document = -(-(lengths[long] - 1) // stride)
    document = np.repeat(long, per_document)
    start = numbers_within(per_document) * stride
    return document, start, np.minimum(lengths[document] - start, capacity), 0


def _split_between(
    lengths: Lengths, long: Ints, capacity: int, blocks: Blocks
) -> tuple[Ints, Ints, Ints, int]:
    """Do as `_split`, but not inside blocks. Loops over long documents and their pieces."""
    documents: list[int] = []
    starts: list[int] = []
    stops: list[int] = []
    num_cut = 0
    for document, block_starts, block_stops in _blocks_of(long, blocks):
        length = int(lengths[document])
        cuts, num_cut_here = _cuts(length, capacity, block_starts, block_stops)
        documents += [document] * (len(cuts) + 1)
        starts += [0, *(cut - 1 for cut in cuts)]
        stops += [*cuts, length]
        num_cut += num_cut_here
    start = np.array(starts, np.int64)
    return np.array(documents, np.int64), start, np.array(stops, np.int64) - start, num_cut


def _cuts(
    length: int, capacity: int, starts: Sequence[int], stops: Sequence[int]
) -> tuple[list[int], int]:
    """Return where pieces end, each as late as possible; the next begins one token before.

    length 12, capacity 8, block [5, 10) -> cuts [5]: pieces 0:5 and 4:12
    """
    cuts: list[int] = []
    cut_blocks: set[int] = set()
    start = 0
    while length - start > capacity:
        end = start + capacity
        block = bisect_left(starts, end) - 1  # the last that starts before the cut
        if block >= 0 and stops[block] > end:
            if starts[block] >= start + 2:  # else the piece would add no target
                end = starts[block]
            else:
                cut_blocks.add(block)
        cuts.append(end)
        start = end - 1
    return cuts, len(cut_blocks)


def _truncate(
    lengths: Lengths, long: Ints, capacity: int, side: Side, blocks: Blocks | None
) -> tuple[Ints, Ints, Ints, int]:
    """Return document, start and length of what is kept, and how many blocks were cut."""
    stop = np.full(len(long), capacity) if side == "right" else lengths[long]
    start = stop - capacity
    num_cut = 0
    for i, (_, starts, stops) in enumerate(_blocks_of(long, blocks) if blocks else ()):
        cut = int(stop[i] if side == "right" else start[i])
        block = bisect_left(starts, cut) - 1  # the last that starts before the cut
        if block < 0 or stops[block] <= cut:
            continue
        # At least two tokens must stay, because one token alone has no target.
        if side == "right" and starts[block] >= 2:
            stop[i] = starts[block]
        elif side == "left" and stops[block] <= stop[i] - 2:
            start[i] = stops[block]
        else:
            num_cut += 1
    return long, start, stop - start, num_cut


def _blocks_of(long: Ints, blocks: Blocks) -> list[tuple[int, list[int], list[int]]]:
    """Return (document, starts, stops of its blocks) for each long document."""
    first = np.searchsorted(blocks.document, long, "left").tolist()
    last = np.searchsorted(blocks.document, long, "right").tolist()
    return [
        (document, blocks.start[a:b].tolist(), blocks.stop[a:b].tolist())
        for document, a, b in zip(long.tolist(), first, last, strict=True)
    ]
