"""Make documents of records that hold token ids, with labels, masks or weights beside them.

    input_ids   5    9   2  | 7  8          two records
    labels     -100  9   2  | 7  8          each its own token, not the next one; -100: no loss
    document    5    9   2  | 7  8
    loss        0    1   1  | 1  1

Of a packed row, `lengths` says which documents it is cut into. All records of a batch are checked
and copied as arrays; only what is wrong with a record is put into words by itself. `numbers` has
the arrays, whatever the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.kinds import special_ids
from dataprep.pipeline.documents.numbers import (
    WHOLE,
    NumberColumns,
    flat,
    not_whole,
    number_columns,
    record_numbers,
)
from dataprep.pipeline.documents.parts import NO_IDS
from dataprep.pipeline.documents.process import ORIGIN, Processed
from dataprep.pipeline.documents.rule_set import Rules, TokenKeys
from dataprep.pipeline.errors import counted
from dataprep.pipeline.ragged import offsets_of, owner_of
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.keys import part_of_numbers, part_of_text
from dataprep.pipeline.storage.masks import MASKS, WEIGHT_DTYPE, MaskRuns, runs_of_dense
from dataprep.pipeline.types import Mask, Offsets, Record, Records

NO_LOSS = -100  # as a label
Values = NDArray[Any]
Flat = Mapping[str, Values]  # by role


def process_pretokenized(records: Records, rules: Rules, keys: TokenKeys) -> Processed:
    """Make documents of a batch of records that hold token ids."""
    columns = number_columns(records, keys, lwm=rules.grammar.lwm)
    columns = columns.without(_misshapen(columns, keys))
    columns = columns.without(_faults(columns, keys, rules.vocab_size))
    given = {role: flat(lists)[0] for role, lists in columns.lists.items()}
    _, lengths = flat(columns.lists["tokens"])
    if "attention_mask" in given:
        is_own = given.pop("attention_mask") != 0
        before = np.concatenate(([0], np.cumsum(is_own)))
        lengths = np.diff(before[offsets_of(lengths)])
        given = {role: values[is_own] for role, values in given.items()}
    owner = np.arange(len(lengths))  # the record of each document
    if "lengths" in given:
        owner = owner_of(np.diff(columns.lists["lengths"].offsets))
        lengths = given.pop("lengths").astype(np.int64)
    has_tokens = lengths > 0
    origins = np.zeros(len(columns.kept), ORIGIN)
    origins["line"] = records.lines[columns.kept]
    origins["offset"] = records.offsets[columns.kept]
    is_empty = np.bincount(owner, lengths, len(origins)) == 0
    errors = [*records.errors, *records.errors_at(columns.reasons)]
    return Processed(
        documents=_documents(given, lengths[has_tokens], rules),
        origins=origins[owner[has_tokens]],
        errors=tuple(sorted(errors, key=lambda e: e.line)),
        empty_lines=origins["line"][is_empty],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
    )


def content_of_tokens(record: Record, keys: TokenKeys, *, lwm: bool) -> bytes:
    """Return what is hashed of a record: its ids, and what it says about loss, without padding."""
    numbers = record_numbers(record, keys, lwm=lwm)
    attention = numbers.pop("attention_mask", None)
    if attention is not None and {*map(len, numbers.values())} == {len(attention)}:
        numbers = {role: values[attention != 0] for role, values in numbers.items()}
    parts = [part_of_numbers("ids", numbers.pop("tokens"))]
    for role, values in numbers.items():
        is_whole = role != "weights"
        told = part_of_numbers(role, values) if is_whole else part_of_text(repr(values.tolist()))
        parts.append(told)
    return b"".join(parts)


# --- what is wrong with records ---


def _misshapen(columns: NumberColumns, keys: TokenKeys) -> dict[int, str]:
    """Return which records have lists of another type or length than that of their tokens."""
    reasons: dict[int, str] = {}
    named = dict(keys.roles)
    _, lengths = flat(columns.lists["tokens"])
    for role, lists in columns.lists.items():
        values, own = flat(lists)
        if role in WHOLE and values.dtype.kind not in "iu" and len(values):
            reason = not_whole(named[role], role, values.dtype)
            reasons = dict.fromkeys(np.flatnonzero(own).tolist(), reason) | reasons
        if role == "lengths":
            before = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
            total = np.diff(before[offsets_of(own)])
            reasons = {
                i: f"field {named[role]!r} has lengths of {total[i]} tokens in all, but "
                f"{named['tokens']!r} has {lengths[i]}"
                for i in np.flatnonzero(total != lengths).tolist()
            } | reasons
            continue
        for i in np.flatnonzero(own != lengths).tolist():
            tokens = counted(int(lengths[i]), "token")
            reason = f"field {named[role]!r} has {counted(int(own[i]), 'value')} for {tokens}"
            reasons.setdefault(i, f"{reason} of {named['tokens']!r}; give one for each token")
    return reasons


def _faults(columns: NumberColumns, keys: TokenKeys, vocab_size: int) -> dict[int, str]:
    """Return which records have values that are not allowed, the first of each named."""
    reasons: dict[int, str] = {}
    _, lengths = flat(columns.lists["tokens"])
    offsets = offsets_of(lengths)
    given = {role: flat(lists)[0] for role, lists in columns.lists.items()}
    bounds = {role: offsets_of(flat(lists)[1]) for role, lists in columns.lists.items()}
    for role, key in keys.roles:
        bad = _BAD[role](given, vocab_size)
        if bad is None:
            continue
        if role != "attention_mask" and "attention_mask" in given:  # padding may hold anything
            bad = bad & (given["attention_mask"] != 0)
        places = np.flatnonzero(bad)
        owners = np.searchsorted(bounds[role], places, side="right") - 1
        each, first = np.unique(owners, return_index=True)
        for i, place in zip(each.tolist(), places[first].tolist(), strict=True):
            record = {
                name: given[name][int(own[i]) : int(own[i + 1])] for name, own in bounds.items()
            }
            why = _WHY[role](record, place - int(bounds[role][i]), vocab_size)
            reasons.setdefault(i, f"field {key!r} {why}")
    if "attention_mask" in given:
        reasons = _holes(given["attention_mask"], offsets, dict(keys.roles)) | reasons
    return reasons


def _any(bad: Mask) -> Mask | None:
    return bad if bad.any() else None


def _bad_tokens(given: Flat, vocab_size: int) -> Mask | None:
    tokens = given["tokens"]
    if not len(tokens) or (int(tokens.min()) >= 0 and int(tokens.max()) < vocab_size):
        return None
    return (tokens < 0) | (tokens >= vocab_size)


def _bad_labels(given: Flat, vocab_size: int) -> Mask | None:
    labels = given["labels"]
    bad = labels != given["tokens"]
    bad &= labels != NO_LOSS
    return _any(bad)


def _bad_weights(given: Flat, vocab_size: int) -> Mask | None:
    weights = given["weights"].astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        stored = weights.astype(WEIGHT_DTYPE)
        return _any((weights != 0) & ~((stored > 0) & np.isfinite(stored)))


def _not_0_or_1(role: str) -> Callable[[Flat, int], Mask | None]:
    def bad(given: Flat, vocab_size: int) -> Mask | None:
        return _any((given[role] != 0) & (given[role] != 1))

    return bad


def _bad_lengths(given: Flat, vocab_size: int) -> Mask | None:
    """Return lengths that no document has; so large ones may add up to the right sum by chance."""
    return _any((given["lengths"] < 1) | (given["lengths"] > len(given["tokens"])))


_BAD: Mapping[str, Callable[[Flat, int], Mask | None]] = {
    "tokens": _bad_tokens,
    "labels": _bad_labels,
    "loss_mask": _not_0_or_1("loss_mask"),
    "weights": _bad_weights,
    "attention_mask": _not_0_or_1("attention_mask"),
    "lengths": _bad_lengths,
}


def _why_labels(record: Flat, place: int, vocab_size: int) -> str:
    labels, tokens = record["labels"], record["tokens"]
    shifted = (labels[:-1] == tokens[1:]) | (labels[:-1] == NO_LOSS)
    looks = "; they look shifted by one: move them back" if shifted.all() else ""
    return (
        f"has {labels[place]} at position {place}, where the token is {tokens[place]}; a label is "
        f"its own token, not the next one, or {NO_LOSS} for no loss{looks}"
    )


_WHY: Mapping[str, Callable[[Flat, int, int], str]] = {
    "tokens": lambda record, place, vocab_size: (
        f"has id {record['tokens'][place]} at position {place}, outside the vocabulary of "
        f"{vocab_size}; name the tokenizer that made the ids"
    ),
    "labels": _why_labels,
    "loss_mask": lambda record, place, _: (
        f"has {float(record['loss_mask'][place]):g} at position {place}; use 1 for loss, 0 for none"
    ),
    "weights": lambda record, place, _: (
        f"has {float(record['weights'][place]):g} at position {place}; weights are 0, or within "
        "6e-8..65504"
    ),
    "attention_mask": lambda record, place, _: (
        f"has {float(record['attention_mask'][place]):g} at position {place}; use 1 for tokens, "
        "0 for padding"
    ),
    "lengths": lambda record, place, _: (
        f"has {record['lengths'][place]} at position {place}; documents have 1 token or more, and "
        "no more than their row"
    ),
}


def _holes(attention: Values, offsets: Offsets, named: Mapping[str, str]) -> dict[int, str]:
    """Return which records have padding between tokens, which would be joined without it."""
    is_own = attention != 0
    starts = is_own & ~np.concatenate(([False], is_own[:-1]))[: len(is_own)]
    firsts = offsets[:-1][np.diff(offsets) > 0]
    starts[firsts] = is_own[firsts]
    before = np.concatenate(([0], np.cumsum(starts)))
    reason = f"field {named['attention_mask']!r} has padding between tokens, not only at their ends"
    return dict.fromkeys(np.flatnonzero(np.diff(before[offsets]) > 1).tolist(), reason)


# --- documents ---


def _documents(given: Flat, lengths: Offsets, rules: Rules) -> Documents:
    """Return documents of these tokens, at least one each, with BOS and EOS if they get any."""
    bos = special_ids(rules.bos, "BOS") if rules.add_bos else NO_IDS
    eos = special_ids(rules.eos, "EOS") if rules.add_eos else NO_IDS
    ends = np.cumsum(lengths + len(bos) + len(eos))
    total = int(ends[-1]) if len(ends) else 0
    starts = ends - lengths - len(bos) - len(eos)
    is_own = np.ones(total, np.bool_)
    is_own[starts[: len(starts) * len(bos)]] = False
    is_own[ends[: len(ends) * len(eos)] - 1] = False

    def laid_out(values: Values, first: Any, last: Any, dtype: np.dtype[Any]) -> Values:
        """Return the values with those of BOS and EOS put between them."""
        if len(values) == total:
            return values.astype(dtype, copy=False)
        found = np.empty(total, dtype)
        found[is_own] = values
        if len(bos):
            found[starts] = first
        if len(eos):
            found[ends - 1] = last
        return found

    loss = _loss(given)
    has_loss = laid_out(loss, False, True, loss.dtype)
    masks: dict[str, MaskRuns] = {}
    for name in rules.masks:
        kind = MASKS[name]
        if name == "loss":
            masks[name] = runs_of_dense(has_loss)
        elif kind.is_weight and "weights" in given:
            weights = np.where(loss, given["weights"], 1)  # as `assemble` has it
            masks[name] = runs_of_dense(laid_out(weights, 1, 1, kind.dtype))
        else:
            last = np.array([total] if total else [], np.int64)
            masks[name] = MaskRuns(ends=last, values=np.full(len(last), kind.default))
    tokens = laid_out(given["tokens"], bos, eos, rules.dtype)
    return Documents(tokens=tokens, ends=ends, masks=tuple(masks.values()))


def _loss(given: Flat) -> Mask:
    """Return which tokens have loss: all, where nothing is said about it."""
    loss = np.ones(len(given["tokens"]), np.bool_)
    if "labels" in given:
        loss &= given["labels"] != NO_LOSS
    for role in ("loss_mask", "weights"):
        if role in given:
            loss &= given[role] != 0
    return loss
