"""Lay out records that come in columns, by arrays, without looking at single records.

All documents of a batch have the same parts; only their texts and codes differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.fields import Field, keys_of, parse_spec
from dataprep.pipeline.documents.lay_out import pattern_of
from dataprep.pipeline.documents.parts import CODES, TEXT, Parts, joined_ids
from dataprep.pipeline.documents.rules import Rules
from dataprep.pipeline.modalities.block import Wrapped, faults
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.types import Ids, Offsets, RecordError, Records


def lay_out_columns(records: Records, rules: Rules, errors: list[RecordError]) -> Layout | None:
    """Return the layout of the batch, or None if its records must be looked at one by one.

    Records whose codes have a fault are added to `errors`.
    """
    fields = _common_fields(records, rules)
    if fields is None or records.columns is None:
        return None
    try:
        # Every document repeats the parts of one.
        pattern = pattern_of(fields, rules)
    except ValueError:  # the records have a bad spec: `rows` reports each of them
        return None
    if pattern is None or not keys_of(fields) <= records.columns.keys():
        return None
    values = [[records.columns[key] for key in f.keys] for f in fields if f.kind == "text"]
    if not all(_is_text(column) for columns in values for column in columns):
        return None
    codes = [records.columns[f.keys[0]] for f in fields if f.kind == "codes"]
    lists = [column for column in codes if isinstance(column, IntegerLists)]
    if len(lists) < len(codes):
        return None
    kept = np.arange(len(records.lines))
    reasons = _faults(lists, pattern, rules)
    if reasons:
        errors += records.errors_at(reasons)
        kept = np.delete(kept, list(reasons))
        values = [[[column[i] for i in kept.tolist()] for column in columns] for columns in values]
        lists = [column.take(kept) for column in lists]
    texts = [_joined(columns, rules.subfield_separator) for columns in values]
    if rules.prepend_text and fields[0].kind == "text":
        texts[0] = [rules.prepend_text + text for text in texts[0]]
    wrapped = [
        rules.blocks[part.modality].wrap(*_flat(column))
        for part, column in zip(pattern.codes, lists, strict=True)
    ]
    return _repeated(pattern, kept, texts, wrapped)


def _common_fields(records: Records, rules: Rules) -> tuple[Field, ...] | None:
    """Return the fields of the records if all have the same, else None."""
    if not rules.fields_from:
        return rules.fields
    specs = (records.columns or {}).get(rules.fields_from, ())
    if not len(specs) or not _is_text(specs) or len(set(specs)) > 1:
        return None
    try:
        return parse_spec(specs[0], rules.grammar)
    except ValueError:  # a bad spec: `rows` reports each of the records
        return None


def _repeated(
    pattern: Parts, kept: Offsets, texts: list[Sequence[str]], wrapped: list[Wrapped]
) -> Layout:
    """Return documents that repeat the pattern, each with its own texts and codes."""
    count = len(kept)
    part_lengths = np.array(pattern.lengths, np.int64)
    lengths = np.tile(part_lengths, (count, 1))
    for part, column in zip(pattern.codes, wrapped, strict=True):
        lengths[:, part.part] = column.lengths
    none = np.zeros(count, np.int64)
    return Layout(
        texts=_interleave(texts, count),
        special=np.tile(np.array(pattern.special, np.int64), count),
        literals=_literals(joined_ids(pattern.literals), part_lengths, lengths, wrapped),
        lengths=lengths.reshape(-1),
        is_text=np.tile(part_lengths == TEXT, count),
        weight=np.tile(np.array(pattern.weight), count),
        mask=np.tile(np.array(pattern.mask, np.int8), count),
        document_ends=np.arange(1, count + 1) * len(part_lengths),
        kept=kept,
        codes_dropped=sum((column.dropped for column in wrapped), none),
        codes_thinned=sum((column.thinned for column in wrapped), none),
    )


def _is_text(column: Sequence[Any]) -> bool:
    return not isinstance(column, IntegerLists) and set(map(type, column)) <= {str}


def _joined(columns: Sequence[Sequence[str]], separator: str) -> Sequence[str]:
    """Return the texts of one field; the field a+b has two columns."""
    return (
        columns[0] if len(columns) == 1 else list(map(separator.join, zip(*columns, strict=True)))
    )


def _flat(column: IntegerLists) -> tuple[NDArray[Any], Offsets]:
    """Return the codes of all records, and how many each has."""
    start, stop = int(column.offsets[0]), int(column.offsets[-1])
    return column.values[start:stop], np.diff(column.offsets)


def _faults(columns: Sequence[IntegerLists], pattern: Parts, rules: Rules) -> dict[int, str]:
    """Return what is wrong with the codes of which record; its first bad field is named."""
    reasons: dict[int, str] = {}
    for part, column in zip(pattern.codes, columns, strict=True):
        found = faults(*_flat(column), rules.blocks[part.modality])
        reasons = {i: f"{part.label} {reason}" for i, reason in found.items()} | reasons
    return reasons


def _literals(
    constant: Ids, part_lengths: Offsets, lengths: NDArray[np.int64], wrapped: Sequence[Wrapped]
) -> Ids:
    """Return the literal ids of all documents in order: those that all share, and their codes."""
    count = len(lengths)
    if not wrapped:
        return np.tile(constant, count)
    literal = part_lengths != TEXT
    stream = np.zeros(len(part_lengths), np.int16)  # 0: constant, n: the n-th column of codes
    stream[part_lengths == CODES] = np.arange(1, len(wrapped) + 1)
    streams = np.repeat(np.tile(stream[literal], count), lengths[:, literal].reshape(-1))
    ids = np.empty(len(streams), np.uint32)
    ids[streams == 0] = np.tile(constant, count)
    for number, column in enumerate(wrapped, 1):
        ids[streams == number] = column.ids
    return ids


def _interleave(columns: Sequence[Sequence[str]], count: int) -> Sequence[str]:
    """[[a0, a1], [b0, b1]] -> [a0, b0, a1, b1]."""
    if len(columns) == 1:
        return columns[0]
    texts = [""] * (count * len(columns))
    for i, column in enumerate(columns):
        texts[i :: len(columns)] = column
    return texts
