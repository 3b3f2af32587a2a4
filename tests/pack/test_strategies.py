"""Row plans: nothing lost, nothing doubled, few rows, the same every time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.pack.strategies import (
    Blocks,
    Counts,
    RowPlan,
    best_fit,
    concat,
    cut_windows,
    first_fit,
    pad,
    plan_concat_windows,
    plan_windows,
)

CAPACITIES = st.integers(2, 24)
LENGTHS = st.lists(st.integers(0, 60), max_size=60)
SHORT = st.lists(st.integers(1, 24), min_size=1, max_size=40)
OVERFLOWS = st.sampled_from(["split", "truncate", "drop"])
SIDES = st.sampled_from(["left", "right"])
CAPS = st.none() | st.integers(1, 8)


def rows_of(plan: RowPlan) -> list[list[tuple[int, int, int]]]:
    """Rows as lists of (document, start, length)."""
    pieces = list(
        zip(plan.document.tolist(), plan.start.tolist(), plan.length.tolist(), strict=True)
    )
    bounds = plan.row_offsets.tolist()
    return [pieces[a:b] for a, b in pairwise(bounds)]


def pieces_by_document(plan: RowPlan) -> dict[int, list[tuple[int, int]]]:
    """Pieces of each document as (start, stop), in the order of their starts and stops."""
    pieces: dict[int, list[tuple[int, int]]] = {}
    for row in rows_of(plan):
        for document, start, length in row:
            pieces.setdefault(document, []).append((start, start + length))
    return {document: sorted(found) for document, found in pieces.items()}


def as_tuple(plan: RowPlan) -> tuple[object, ...]:
    arrays = (plan.document, plan.start, plan.length, plan.row_offsets)
    return (*(array.tolist() for array in arrays), plan.counts)


def assert_sound(plan: RowPlan, lengths: list[int], *, max_segments: int | None = None) -> None:
    """What holds for every plan of every strategy."""
    for array in (plan.document, plan.start, plan.length, plan.row_offsets):
        assert array.dtype == np.int64
    rows = rows_of(plan)
    for row in rows:
        assert 1 <= len(row) <= (max_segments or plan.capacity)
        assert sum(length for _, _, length in row) <= plan.capacity
        assert all(length >= 1 for _, _, length in row)
    lost = 0
    for document, pieces in pieces_by_document(plan).items():
        assert pieces[0][0] >= 0
        assert pieces[-1][1] <= lengths[document]
        for (_, stop), (start, _) in pairwise(pieces):
            assert start == stop - 1  # neighbours share one token
        targets = np.zeros(lengths[document], np.int8)
        for start, stop in pieces:
            targets[start + 1 : stop] += 1
        first, stop = pieces[0][0], pieces[-1][1]
        assert targets[first] == 0
        assert (targets[first + 1 : stop] == 1).all()
        lost += lengths[document] - (stop - first)

    counts = plan.counts
    assert counts.documents == len(lengths)
    assert counts.tokens == sum(lengths)
    assert counts.documents_empty == lengths.count(0)
    placed = set(plan.document.tolist())
    assert counts.documents_dropped == len(lengths) - lengths.count(0) - len(placed)
    assert counts.tokens_truncated == lost
    assert counts.tokens_dropped == sum(lengths) - sum(lengths[d] for d in placed)
    assert counts.pieces == len(plan.length)
    assert counts.rows == plan.num_rows == len(rows)
    in_rows = int(plan.length.sum())
    assert in_rows == sum(n for row in rows for _, _, n in row)
    assert in_rows + counts.padding == counts.rows * plan.capacity
    assert in_rows == (
        counts.tokens - counts.tokens_truncated - counts.tokens_dropped + counts.tokens_shared
    )


def assert_overflow(plan: RowPlan, lengths: list[int], overflow: str, side: str) -> None:
    """Documents that fit are whole; the others are as the policy says."""
    capacity = plan.capacity
    pieces = pieces_by_document(plan)
    long = [document for document, length in enumerate(lengths) if length > capacity]
    for document, length in enumerate(lengths):
        if 0 < length <= capacity:
            assert pieces[document] == [(0, length)]
    for document in long:
        length = lengths[document]
        if overflow == "split":
            assert pieces[document][0][0] == 0
            assert pieces[document][-1][1] == length
            assert all(stop - start == capacity for start, stop in pieces[document][:-1])
            assert pieces[document][-1][1] - pieces[document][-1][0] >= 2
        elif overflow == "truncate":
            kept = (0, capacity) if side == "right" else (length - capacity, length)
            assert pieces[document] == [kept]
        else:
            assert document not in pieces
    counts = plan.counts
    assert counts.documents_split == (len(long) if overflow == "split" else 0)
    assert counts.documents_truncated == (len(long) if overflow == "truncate" else 0)
    assert counts.documents_dropped == (len(long) if overflow == "drop" else 0)


def naive_best_fit_decreasing(lengths: list[int], capacity: int) -> int:
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
            rooms.append(min(fitting) - length)
        else:
            rooms.append(capacity - length)
    return len(rooms)


def naive_first_fit(
    lengths: list[int], capacity: int, open_rows: int, cap: int | None
) -> list[list[int]]:
    rows: list[list[int]] = []
    for document, length in enumerate(lengths):
        for row in rows[-open_rows:]:
            has_slot = cap is None or len(row) < cap
            if has_slot and sum(lengths[d] for d in row) + length <= capacity:
                row.append(document)
                break
        else:
            rows.append([document])
    return rows


def lognormal(num_documents: int, seed: int = 0) -> np.ndarray:
    generator = np.random.Generator(np.random.PCG64(seed))
    return np.maximum(1, np.exp(generator.normal(5.8, 1.1, num_documents))).astype(np.int64)


# best_fit


@given(LENGTHS, CAPACITIES, OVERFLOWS, SIDES, CAPS, st.integers(0, 3))
def test_best_fit_places_every_kept_token_once(lengths, capacity, overflow, side, cap, seed):
    plan = best_fit(
        lengths, capacity, overflow=overflow, truncate_side=side, max_segments=cap, seed=seed
    )
    assert_sound(plan, lengths, max_segments=cap)
    assert_overflow(plan, lengths, overflow, side)


@given(SHORT)
def test_best_fit_needs_no_more_rows_than_best_fit_decreasing(lengths):
    plan = best_fit(lengths, 24)
    assert -(-sum(lengths) // 24) <= plan.num_rows <= naive_best_fit_decreasing(lengths, 24)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=200), st.integers(1000, 3000))
def test_best_fit_of_many_distinct_lengths_needs_no_more_rows_either(lengths, capacity):
    plan = best_fit(lengths, capacity)
    assert_sound(plan, lengths)
    assert plan.num_rows <= naive_best_fit_decreasing(lengths, capacity)


@given(LENGTHS, CAPACITIES, st.integers(0, 3), st.integers(0, 3))
def test_best_fit_gives_the_same_plan_every_time(lengths, capacity, seed, window):
    first = best_fit(lengths, capacity, seed=seed, window=window)
    again = best_fit(np.array(lengths, np.int32), capacity, seed=seed, window=window)
    assert as_tuple(first) == as_tuple(again)


@given(LENGTHS, CAPACITIES, st.integers(0, 3), st.integers(0, 3))
def test_seed_and_window_change_only_the_order_of_rows(lengths, capacity, seed, window):
    def contents(plan: RowPlan) -> list[list[tuple[int, int, int]]]:
        return sorted(sorted(row) for row in rows_of(plan))

    other = best_fit(lengths, capacity, seed=seed, window=window)
    assert contents(other) == contents(best_fit(lengths, capacity))


def test_this_plan_stays_as_it_is_from_version_to_version():
    plan = best_fit([5, 3, 9, 2, 2, 7, 1, 6, 20, 4], 8, seed=1)
    assert rows_of(plan) == [
        [(7, 0, 6), (3, 0, 2)],
        [(8, 0, 8)],
        [(9, 0, 4), (2, 7, 2)],
        [(1, 0, 3), (0, 0, 5)],
        [(8, 7, 8)],
        [(6, 0, 1), (5, 0, 7)],
        [(8, 14, 6), (4, 0, 2)],
        [(2, 0, 8)],
    ]


def test_rows_are_shuffled_by_seed_and_by_window():
    lengths = lognormal(2000)
    plans = [best_fit(lengths, 1025, seed=s, window=w) for s, w in ((0, 0), (1, 0), (0, 1))]
    orders = {tuple(plan.document.tolist()) for plan in plans}
    assert len(orders) == 3


def test_neither_a_rows_place_nor_a_pieces_place_in_its_row_tells_the_length():
    plan = best_fit(lognormal(50_000), 2049)
    longest = np.maximum.reduceat(plan.length, plan.row_offsets[:-1])
    place = np.arange(plan.num_rows)
    assert abs(np.corrcoef(place, longest)[0, 1]) < 0.05
    pairs = np.flatnonzero(np.diff(plan.row_offsets) == 2)
    first = plan.length[plan.row_offsets[pairs]]
    second = plan.length[plan.row_offsets[pairs] + 1]
    assert 0.4 < (first > second).mean() < 0.6


@pytest.mark.parametrize("capacity", [1025, 2049, 4097, 8193])
def test_best_fit_of_a_web_like_corpus_is_within_a_row_of_the_bound(capacity):
    plan = best_fit(lognormal(50_000), capacity)
    assert plan.num_rows <= -(-int(plan.length.sum()) // capacity) + 1


def test_best_fit_of_chat_like_lengths_pads_less_than_a_third_of_a_percent():
    generator = np.random.Generator(np.random.PCG64(0))
    lengths = (
        generator.gamma(3.0, 100.0, 20_000).astype(np.int64) + 80
    )  # nothing short to fill with
    for capacity in (1025, 2049, 4097, 8193):
        plan = best_fit(lengths, capacity)
        assert plan.counts.padding < plan.num_rows * capacity / 300


@pytest.mark.parametrize(("cap", "most"), [(8, 0.01), (16, 0.005), (64, 0.001)])
def test_a_cap_on_segments_costs_few_rows_where_the_average_is_below_it(cap, most):
    lengths = np.minimum(lognormal(50_000), 4097)  # 7 documents fill a row on average
    plan = best_fit(lengths, 4097, max_segments=cap)
    assert np.diff(plan.row_offsets).max() <= cap
    assert plan.num_rows <= (1 + most) * int(lengths.sum()) / 4097 + 1


@pytest.mark.parametrize("num_books", [500, 8000])
def test_rows_of_a_million_tokens_are_planned(num_books):
    generator = np.random.Generator(np.random.PCG64(0))
    books = np.exp(generator.normal(11.5, 0.8, num_books)).astype(np.int64)
    lengths = np.concatenate([books, lognormal(5000), [5_000_000]])
    capacity = (1 << 20) + 1
    plan = best_fit(lengths, capacity)
    assert_sound(plan, lengths.tolist())
    assert plan.num_rows <= -(-int(plan.length.sum()) // capacity) + 1


def test_a_document_as_long_as_the_row_is_whole_and_one_token_more_is_split():
    assert rows_of(best_fit([8], 8)) == [[(0, 0, 8)]]
    assert sorted(rows_of(best_fit([9], 8))) == [[(0, 0, 8)], [(0, 7, 2)]]


def test_no_documents_make_no_rows():
    for plan in (best_fit([], 8), first_fit([], 8), concat([], 8), pad([], 8), best_fit([0, 0], 8)):
        assert plan.num_rows == 0
        assert plan.row_offsets.tolist() == [0]


# first_fit


@given(LENGTHS, CAPACITIES, OVERFLOWS, SIDES, CAPS, st.integers(1, 10))
def test_first_fit_places_every_kept_token_once(lengths, capacity, overflow, side, cap, open_rows):
    plan = first_fit(
        lengths,
        capacity,
        overflow=overflow,
        truncate_side=side,
        max_segments=cap,
        open_rows=open_rows,
    )
    assert_sound(plan, lengths, max_segments=cap)
    assert_overflow(plan, lengths, overflow, side)


@given(SHORT, st.integers(1, 10), CAPS)
def test_first_fit_takes_the_first_open_row_with_room(lengths, open_rows, cap):
    plan = first_fit(lengths, 24, open_rows=open_rows, max_segments=cap)
    rows = [[document for document, _, _ in row] for row in rows_of(plan)]
    assert rows == naive_first_fit(lengths, 24, open_rows, cap)


@given(LENGTHS, CAPACITIES, st.integers(1, 10))
def test_first_fit_keeps_the_order_of_documents_in_rows_and_of_rows(lengths, capacity, open_rows):
    rows = rows_of(first_fit(lengths, capacity, open_rows=open_rows))
    assert all(row == sorted(row) for row in rows)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


# concat


def stream_rows(lengths: list[int], capacity: int, drop_tail: bool) -> list[list[tuple[int, int]]]:
    """The rows of a stream of (document, token), by the definition."""
    stream = [(d, t) for d, length in enumerate(lengths) for t in range(length)]
    rows = []
    start = 0
    while start + capacity <= len(stream):
        rows.append(stream[start : start + capacity])
        start += capacity - 1
    has_new_token = len(stream) > (start + 1 if rows else 0)
    if has_new_token and not drop_tail:
        rows.append(stream[start:])
    return rows


@given(LENGTHS, CAPACITIES, st.booleans())
def test_concat_is_the_stream_at_a_stride_of_one_less_than_the_row(lengths, capacity, drop_tail):
    plan = concat(lengths, capacity, drop_tail=drop_tail)
    rows = [
        [(document, start + i) for document, start, length in row for i in range(length)]
        for row in rows_of(plan)
    ]
    assert rows == stream_rows(lengths, capacity, drop_tail)
    assert_sound(plan, lengths)


@given(LENGTHS, CAPACITIES)
def test_concat_loses_nothing_unless_told_to(lengths, capacity):
    counts = concat(lengths, capacity).counts
    assert counts.tokens_dropped == counts.tokens_truncated == counts.documents_dropped == 0


def test_concat_counts_a_document_as_split_only_if_no_row_has_all_of_it():
    plan = concat([4, 3, 6], 4)  # rows of stream places 0-3, 3-6, 6-9, 9-12
    assert rows_of(plan)[:2] == [[(0, 0, 4)], [(0, 3, 1), (1, 0, 3)]]
    assert plan.counts.documents_split == 1


def test_a_dropped_tail_is_counted_document_by_document():
    counts = concat([4, 3, 2], 4, drop_tail=True).counts
    assert counts.rows == 2
    assert (counts.documents_dropped, counts.tokens_dropped) == (1, 2)
    counts = concat([4, 4, 1], 4, drop_tail=True).counts
    assert (counts.documents_truncated, counts.tokens_truncated) == (1, 1)
    assert (counts.documents_dropped, counts.tokens_dropped) == (1, 1)


# pad


@given(LENGTHS, CAPACITIES, OVERFLOWS, SIDES, SIDES)
def test_pad_gives_every_piece_a_row_in_order(lengths, capacity, overflow, side, pad_side):
    plan = pad(lengths, capacity, overflow=overflow, truncate_side=side, pad_side=pad_side)
    assert_sound(plan, lengths, max_segments=1)
    assert_overflow(plan, lengths, overflow, side)
    assert plan.pad_side == pad_side
    assert rows_of(plan) == sorted(rows_of(plan))


def test_pad_truncates_by_default_on_the_right():
    assert rows_of(pad([3, 9], 8)) == [[(0, 0, 3)], [(1, 0, 8)]]


# blocks


@st.composite
def documents_with_blocks(draw):
    """Lengths, and blocks given as lists of (start, stop) for each document."""
    lengths, blocks = [], []
    for _ in range(draw(st.integers(1, 6))):
        position, found = 0, []
        for gap, size in draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 14)))):
            found.append((position + gap, position + gap + size))
            position += gap + size
        lengths.append(position + draw(st.integers(0, 6)))
        blocks.append(found)
    return lengths, blocks


def as_blocks(blocks: list[list[tuple[int, int]]]) -> Blocks:
    table = np.array(
        [(document, *block) for document, found in enumerate(blocks) for block in found], np.int64
    ).reshape(-1, 3)
    return Blocks(document=table[:, 0], start=table[:, 1], stop=table[:, 2])


def is_inside(cut: int, block: tuple[int, int]) -> bool:
    return block[0] < cut < block[1]


@given(documents_with_blocks(), CAPACITIES, st.sampled_from([best_fit, first_fit, pad]))
def test_a_split_never_falls_inside_a_block_that_fits(documents, capacity, strategy):
    lengths, blocks = documents
    plan = strategy(lengths, capacity, overflow="split", blocks=as_blocks(blocks))
    assert_sound(plan, lengths)
    num_cut = 0
    for document, pieces in pieces_by_document(plan).items():
        assert (pieces[0][0], pieces[-1][1]) == (0, lengths[document])
        cuts = [stop for _, stop in pieces[:-1]]
        for block in blocks[document]:
            if any(is_inside(cut, block) for cut in cuts):
                num_cut += 1
                # with the token before it, which gives its first token as a target
                assert block[1] - max(0, block[0] - 1) > capacity
            else:
                assert any(start <= block[0] and block[1] <= stop for start, stop in pieces)
    assert plan.counts.blocks_cut == num_cut


@given(documents_with_blocks(), CAPACITIES, SIDES)
def test_truncation_ends_at_a_block_unless_nothing_would_be_left(documents, capacity, side):
    lengths, blocks = documents
    plan = pad(lengths, capacity, truncate_side=side, blocks=as_blocks(blocks))
    assert_sound(plan, lengths)
    num_cut = 0
    for document, [(start, stop)] in pieces_by_document(plan).items():
        if lengths[document] <= capacity:
            continue
        assert (start == 0) if side == "right" else (stop == lengths[document])
        cut = stop if side == "right" else start
        for block in blocks[document]:
            if is_inside(cut, block):
                num_cut += 1
                kept_beside = block[0] if side == "right" else lengths[document] - block[1]
                assert kept_beside < 2
    assert plan.counts.blocks_cut == num_cut


def test_the_cut_before_a_block_shares_the_token_before_it():
    blocks = Blocks(document=np.array([1]), start=np.array([5]), stop=np.array([10]))
    plan = pad([3, 12], 8, overflow="split", blocks=blocks)
    assert rows_of(plan) == [[(0, 0, 3)], [(1, 0, 5)], [(1, 4, 8)]]
    assert plan.counts.blocks_cut == 0


def test_a_block_longer_than_the_row_is_cut_and_counted_once():
    blocks = Blocks(document=np.array([0]), start=np.array([4]), stop=np.array([30]))
    plan = pad([32], 8, overflow="split", blocks=blocks)
    assert plan.counts.blocks_cut == 1
    assert rows_of(plan)[0] == [(0, 0, 4)]


# windows


@given(LENGTHS, CAPACITIES, st.integers(1, 40), st.lists(st.integers(0, 60), max_size=4))
def test_windows_do_not_depend_on_how_lengths_arrive(lengths, capacity, window, bounds):
    chunks = np.split(np.array(lengths, np.int64), sorted(min(b, len(lengths)) for b in bounds))
    windows = list(cut_windows(chunks, capacity, window=window))
    whole = list(cut_windows([lengths], capacity, window=window))
    assert [w.lengths.tolist() for w in windows] == [w.lengths.tolist() for w in whole]
    assert [n for w in windows for n in w.lengths.tolist()] == lengths
    assert [w.index for w in windows] == list(range(len(windows)))
    assert [w.is_last for w in windows] == [False] * (len(windows) - 1) + [True] * bool(windows)
    for w in windows:
        size = sum(1 + length // (capacity - 1) for length in w.lengths.tolist())
        assert size <= window or len(w.lengths) == 1


@given(LENGTHS, CAPACITIES, st.integers(1, 40))
def test_plans_of_windows_number_documents_through_and_add_up(lengths, capacity, window):
    windows = cut_windows([lengths], capacity, window=window)
    plans = list(plan_windows(windows, lambda w: best_fit(w.lengths, capacity, window=w.index)))
    assert_sound(joined(plans, capacity), lengths)
    assert_overflow(joined(plans, capacity), lengths, "split", "right")


@given(LENGTHS, CAPACITIES, st.integers(1, 40), st.booleans())
def test_concat_in_windows_is_concat(lengths, capacity, window, drop_tail):
    windows = cut_windows([lengths], capacity, window=window)
    plans = list(plan_concat_windows(windows, capacity, drop_tail=drop_tail))
    expected = concat(lengths, capacity, drop_tail=drop_tail)
    assert as_tuple(joined(plans, capacity)) == as_tuple(expected)


def joined(plans: list[RowPlan], capacity: int) -> RowPlan:
    offsets = [0]
    for plan in plans:
        offsets += (plan.row_offsets[1:] + offsets[-1]).tolist()
    empty = concat([], capacity)
    return replace(
        empty,
        document=np.concatenate([empty.document, *(plan.document for plan in plans)]),
        start=np.concatenate([empty.start, *(plan.start for plan in plans)]),
        length=np.concatenate([empty.length, *(plan.length for plan in plans)]),
        row_offsets=np.array(offsets, np.int64),
        counts=sum((plan.counts for plan in plans), Counts()),
    )


# mistakes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_fit([1], 1), "seq_len 0"),
        (lambda: best_fit([1], 8, max_segments=0), "max_segments must be at least 1, got 0"),
        (lambda: best_fit([1], 8, overflow="cut"), "overflow must be .* got 'cut'"),
        (lambda: best_fit([1], 8, truncate_side="top"), "truncate_side must be .* got 'top'"),
        (lambda: first_fit([1], 8, open_rows=0), "open_rows must be at least 1, got 0"),
        (lambda: pad([1], 8, pad_side="top"), "pad_side must be .* got 'top'"),
        (lambda: list(cut_windows([[1]], 8, window=0)), "window must be at least 1 .* got 0"),
    ],
)
def test_a_setting_that_cannot_be_is_a_config_error(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
