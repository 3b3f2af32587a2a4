"""Lay out one record as parts: its fields in order, with the ids and tags that the rules add.

record   {"q": "ab", "a": "c"}      spec  [q],a
parts    BOS | ab | c | EOS
loss      0    0    1    1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataprep.pipeline.documents.field import Field
from dataprep.pipeline.documents.kinds import FIELD_KINDS, codes_in, joined_text, special_ids
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.types import Record


def without_segments(
    record: Record, fields: tuple[Field, ...], *, lwm: bool
) -> tuple[Record, tuple[Field, ...]]:
    """Turn segments into fields: {"segments": [{"type": "text", "text": "a"}, …]} gives the text
    field `segments[0]`."""
    if not any(FIELD_KINDS[f.kind].expands for f in fields):
        return record, fields
    values = dict(record)
    found: list[Field] = []
    for f in fields:
        if not FIELD_KINDS[f.kind].expands:
            found.append(f)
            continue
        for segment, value in FIELD_KINDS[f.kind].expand(record, f, lwm=lwm):
            values[segment.keys[0]] = value
            found.append(segment)
    return values, tuple(found)


def pattern_of(fields: Sequence[Field], rules: Rules) -> Parts | None:
    """Return the parts that every document of these fields has, with empty texts and no codes.

    None if their number depends on the record. ValueError if no record can have such fields.
    """
    if not all(FIELD_KINDS[f.kind].has_pattern for f in fields):
        return None
    empty = np.zeros(0, np.int64)
    blank = {key: empty if f.mask else "" for f in fields for key in f.keys}
    pattern = Parts()
    add_document(pattern, blank, fields, rules)
    return pattern


def add_by_pattern(
    parts: Parts, record: Record, fields: Sequence[Field], rules: Rules, pattern: Parts
) -> None:
    """Do what `add_document` does in a third of the time; add nothing if there is a ValueError."""
    texts, codes = [], []
    for f in fields:
        if FIELD_KINDS[f.kind].is_text:
            texts.append(joined_text(record, f, rules))
        elif f.mask:
            codes.append(codes_in(record, f, rules))
    if rules.prepend_text and fields and FIELD_KINDS[fields[0].kind].is_text:
        texts[0] = rules.prepend_text + texts[0]
    parts.add_alike(pattern, texts, codes)


def add_document(parts: Parts, record: Record, fields: Sequence[Field], rules: Rules) -> None:
    """Add one document without segments; ValueError says what is wrong with which field."""
    added = not rules.grammar.lwm  # to LWM, a document of BOS and EOS is one
    if rules.add_bos:
        parts.add_ids(special_ids(rules.bos, "BOS"), weight=0.0, added=added)
    first = len(parts.texts)
    for f in fields:
        FIELD_KINDS[f.kind].add(parts, record, f, rules)
    if fields and FIELD_KINDS[fields[0].kind].is_text:
        parts.texts[first] = rules.prepend_text + parts.texts[first]
        parts.special[first] += rules.prepend_special
    if rules.add_eos:
        parts.add_ids(special_ids(rules.eos, "EOS"), weight=1.0, added=added)
    parts.end_document()
