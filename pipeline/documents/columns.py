"""Lay out records that come in columns, by arrays, without looking at single records.

Documents with the same fields have the same parts; only their texts and codes differ. Where fields
depend on the record (`batch`), records with the same fields are laid out together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout, merged
from dataprep.pipeline.documents.batch import BatchColumns, chosen, is_text
from dataprep.pipeline.documents.field import Field
from dataprep.pipeline.documents.fields import parse_own_spec
from dataprep.pipeline.documents.kinds import FIELD_KINDS
from dataprep.pipeline.documents.lay_out import pattern_of
from dataprep.pipeline.documents.parts import CODES, TEXT, Parts, joined_ids
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.documents.settle import Settler
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
    settler = Settler(fields)
    columns = BatchColumns(records.columns, lwm=rules.grammar.lwm)
    classes = columns.classes(settler.questions, len(records.lines))
    if len(classes) == 1:
        layout = _lay_out(records, settler.settled(classes[0].answers), rules, errors)
        return layout and replace(layout, optional=settler.there)
    found: list[Layout] = []
    bad: list[RecordError] = []
    for each in classes:
        layout = _lay_out(chosen(records, each.rows), settler.settled(each.answers), rules, bad)
        if layout is None:
            return None
        found.append(replace(layout, kept=each.rows[layout.kept]))
    errors += bad
    return replace(merged(found), optional=settler.there) if found else None


def _lay_out(
    records: Records, fields: tuple[Field, ...], rules: Rules, errors: list[RecordError]
) -> Layout | None:
    """Lay out records that all have these fields."""
    columns = BatchColumns(records.columns or {}, lwm=rules.grammar.lwm)
    try:
        # Every document repeats the parts of one.
        pattern = pattern_of(fields, rules)
    except ValueError:  # the records have a bad spec: `rows` reports each of them
        return None
    if pattern is None:
        return None
    count = len(records.lines)
    values = [_values(f, columns, count) for f in fields if FIELD_KINDS[f.kind].is_text]
    codes = [columns.of(f.keys[0]) for f in fields if f.mask]
    texts_of = [column for column in values if column is not None]
    lists = [column for column in codes if isinstance(column, IntegerLists)]
    if len(texts_of) < len(values) or len(lists) < len(codes):
        return None
    kept = np.arange(count)
    reasons = _faults(lists, pattern, rules)
    if reasons:
        errors += records.errors_at(reasons)
        kept = np.delete(kept, list(reasons))
        texts_of = [[[column[i] for i in kept.tolist()] for column in each] for each in texts_of]
        lists = [column.take(kept) for column in lists]
    texts = [_joined(each, rules.subfield_separator) for each in texts_of]
    if rules.prepend_text and fields and FIELD_KINDS[fields[0].kind].is_text:
        texts[0] = [rules.prepend_text + text for text in texts[0]]
    wrapped = [
        rules.blocks[part.modality].wrap(*_flat(column))
        for part, column in zip(pattern.codes, lists, strict=True)
    ]
    return _repeated(pattern, kept, texts, wrapped)


def _values(f: Field, columns: BatchColumns, count: int) -> list[Sequence[str]] | None:
    """Return the texts of each key of a field, or its own; None if a record has none."""
    if not f.keys:
        return [[f.text] * count]
    found = [columns.texts(key) for key in f.keys]
    texts = [column for column in found if column is not None]
    return texts if len(texts) == len(found) else None


def _common_fields(records: Records, rules: Rules) -> tuple[Field, ...] | None:
    """Return the fields of the records if all have the same, else None."""
    if not rules.fields_from:
        return rules.fields
    specs = (records.columns or {}).get(rules.fields_from, ())
    if not len(specs) or not is_text(specs) or len(set(specs)) > 1:
        return None
    try:
        return parse_own_spec(specs[0], rules.grammar)
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
        column=np.tile(np.array(pattern.column, np.int64), count),
        literals=_literals(joined_ids(pattern.literals), part_lengths, lengths, wrapped),
        lengths=lengths.reshape(-1),
        is_text=np.tile(part_lengths == TEXT, count),
        weight=np.tile(np.array(pattern.weight), count),
        mask=np.tile(np.array(pattern.mask, np.int8), count),
        is_added=np.tile(np.array(pattern.is_added, np.bool_), count),
        document_ends=np.arange(1, count + 1) * len(part_lengths),
        kept=kept,
        codes_dropped=sum((column.dropped for column in wrapped), none),
        codes_thinned=sum((column.thinned for column in wrapped), none),
    )


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
