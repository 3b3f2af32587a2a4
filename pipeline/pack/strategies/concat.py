"""Cut one stream of all documents into rows.

    stream   t0 t1 t2 t3 t4 t5 t6 t7 t8 t9         capacity 4: 4 tokens at stride 3
    rows     t0 t1 t2 t3
                      t3 t4 t5 t6
                               t6 t7 t8 t9

Neighbouring rows share one token, so each token but the first is a target once, and batch k of B
rows is stream[kB·S : (k+1)B·S + 1] for every batch size B. A document is cut wherever a row ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.pack.strategies.plan import (
    Counts,
    Ints,
    Lengths,
    RowPlan,
    checked,
)
from dataprep.pipeline.pack.strategies.strategy import Fit, RowQuirks, Strategy
from dataprep.pipeline.pack.strategies.windows import Window, numbered_through
from dataprep.pipeline.ragged import offsets_of, ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """Where a part of the stream begins in its first document.

    A part that continues an earlier one begins with the token that the two share.
    """

    skip: int = 0  # tokens of the first document before this part
    goes_on: bool = False


STREAM_START = StreamStart()


def concat(lengths: ArrayLike, capacity: int, *, drop_tail: bool = False) -> RowPlan:
    """Return the plan; a tail that does not fill a row is padded, or dropped with `drop_tail`."""
    plan, _, _ = concat_part(checked(lengths, capacity), capacity, drop_tail=drop_tail)
    return plan


def concat_part(
    lengths: Lengths,
    capacity: int,
    *,
    begin: StreamStart = STREAM_START,
    is_last: bool = True,
    drop_tail: bool = False,
) -> tuple[RowPlan, int, StreamStart]:
    """Return the rows of a part of the stream, and the document and place where the next begins.

    Each document is counted in the part that has its end.
    """
    document = np.flatnonzero(lengths)
    ends = np.cumsum(lengths[document]) - begin.skip  # places in this part of the stream
    begins = ends - lengths[document]  # negative for a document begun before
    num_tokens = int(ends[-1]) if len(ends) else 0
    num_seen = int(begin.goes_on)  # tokens that an earlier part has counted
    row_starts, row_stops = _rows(num_tokens, capacity, num_seen, is_last and not drop_tail)
    num_used = int(row_stops[-1]) if len(row_stops) else num_seen
    per_row, place, start, length = _pieces(begins, ends, row_starts, row_stops)
    next_document, skip = len(lengths), 0
    stride_end = len(row_starts) * (capacity - 1)
    next_place = int(np.searchsorted(ends, stride_end, "right"))
    if next_place < len(document):
        next_document, skip = int(document[next_place]), stride_end - int(begins[next_place])
    num_over = len(lengths) if is_last else next_document
    num_empty = int(np.count_nonzero(lengths[:num_over] == 0))
    counts = Counts(documents=num_empty, documents_empty=num_empty, pieces=len(place))
    counts += _filled(row_starts, row_stops, capacity, num_used - num_seen)
    counts += _ended(begins, ends, num_seen, num_used, is_last)
    counts += _split(begins, ends, place, length, num_seen, num_used)
    plan = RowPlan(
        capacity=capacity,
        document=document[place],
        start=start,
        length=length,
        row_offsets=offsets_of(per_row),
        counts=counts,
    )
    return plan, next_document, StreamStart(skip=skip, goes_on=num_used > 0)


def _rows(num_tokens: int, capacity: int, num_seen: int, keep_tail: bool) -> tuple[Ints, Ints]:
    """Return starts and stops of rows: 11 tokens, capacity 4 -> [0, 3, 6, 9], [4, 7, 10, 11]"""
    stride = capacity - 1
    num_full = max(0, num_tokens - 1) // stride
    num_covered = num_full * stride + 1 if num_full else num_seen
    num_rows = num_full + int(keep_tail and num_tokens > num_covered)
    starts = np.arange(num_rows) * stride
    return starts, np.minimum(starts + capacity, num_tokens)


def _filled(row_starts: Ints, row_stops: Ints, capacity: int, num_new: int) -> Counts:
    """Count rows, their padding, and tokens that are not new in this part or are in two rows."""
    in_rows = int((row_stops - row_starts).sum())
    padding = len(row_starts) * capacity - in_rows
    return Counts(rows=len(row_starts), padding=padding, tokens_shared=in_rows - num_new)


def _pieces(
    begins: Ints, ends: Ints, row_starts: Ints, row_stops: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the pieces in each row, and the place, start and length of each piece."""
    first = np.searchsorted(ends, row_starts, "right")  # the document of a row's first token
    last = np.searchsorted(ends, row_stops - 1, "right")
    per_row = last - first + 1
    place = ranges(first, per_row)
    start = np.maximum(begins[place], np.repeat(row_starts, per_row))
    length = np.minimum(ends[place], np.repeat(row_stops, per_row)) - start
    return per_row, place, start - begins[place], length


def _ended(begins: Ints, ends: Ints, num_seen: int, num_used: int, is_last: bool) -> Counts:
    """Count documents and tokens that end in this part, and what a dropped tail loses of them."""
    if not is_last:
        return Counts(
            documents=int(np.count_nonzero((ends > num_seen) & (ends <= num_used))),
            tokens=num_used - num_seen,
        )
    lost = ends > num_used
    dropped = lost & (begins >= num_used)
    num_tokens = int(ends[-1]) if len(ends) else num_seen
    tokens_dropped = int((ends - begins)[dropped].sum())
    return Counts(
        documents=int(np.count_nonzero(ends > num_seen)),
        tokens=num_tokens - num_seen,
        documents_dropped=int(np.count_nonzero(dropped)),
        tokens_dropped=tokens_dropped,
        documents_truncated=int(np.count_nonzero(lost) - np.count_nonzero(dropped)),
        tokens_truncated=num_tokens - num_used - tokens_dropped,
    )


def _split(
    begins: Ints, ends: Ints, place: Ints, length: Ints, num_seen: int, num_used: int
) -> Counts:
    """Count documents that end in this part and whose tokens are all in rows, but in several."""
    is_split = (ends > num_seen) & (ends <= num_used)
    is_split[place[length == (ends - begins)[place]]] = False
    return Counts(documents_split=int(np.count_nonzero(is_split)))


def plan_concat_windows(
    windows: Iterable[Window], capacity: int, *, drop_tail: bool = False
) -> Iterator[RowPlan]:
    """Do `concat` window by window; the rows are the same as for all documents at once."""
    held = np.zeros(0, np.int64)
    first_document = 0  # the first of the documents that are held
    begin = STREAM_START
    for window in windows:
        held = np.concatenate([held, window.lengths])
        plan, done, begin = concat_part(
            held, capacity, begin=begin, is_last=window.is_last, drop_tail=drop_tail
        )
        yield numbered_through(plan, first_document)
        held, first_document = held[done:], first_document + done


def _plan(windows: Iterable[Window], config: PackConfig, fit: Fit) -> Iterator[RowPlan]:
    return plan_concat_windows(windows, config.seq_len + 1, drop_tail=config.drop_tail)


def _quirks(config: PackConfig, masks: Sequence[str]) -> RowQuirks:
    return RowQuirks(keep_first_loss=config.compat == "lwm", rows_share=True)


CONCAT = Strategy(plan=_plan, keeps_blocks=False, quirks=_quirks)
