"""Lay out one record as parts: its fields in order, with the ids and tags that the rules add.

record   {"q": "ab", "a": "c"}      spec  [q],a
parts    BOS | ab | c | EOS
loss      0    0    1    1
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.fields import Field
from dataprep.pipeline.documents.lookup import base64_ids, codes_of, segments_of, text_of
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.documents.rules import Rules
from dataprep.pipeline.types import Ids, Record


def without_segments(
    record: Record, fields: tuple[Field, ...], *, lwm: bool
) -> tuple[Record, tuple[Field, ...]]:
    """Turn segments into fields: {"segments": [{"type": "text", "text": "a"}, …]} gives the text
    field `segments[0]`."""
    if not any(f.kind == "segments" for f in fields):
        return record, fields
    values = dict(record)
    found: list[Field] = []
    for f in fields:
        if f.kind != "segments":
            found.append(f)
            continue
        (key,) = f.keys
        for i, (kind, loss, value) in enumerate(segments_of(record, key, lwm=lwm)):
            segment = _segment_field(key, i, kind, f.weight if loss else 0.0)
            values[segment.keys[0]] = value
            found.append(segment)
    return values, tuple(found)


@lru_cache(maxsize=1 << 12)
def _segment_field(key: str, number: int, kind: str, weight: float) -> Field:
    keys = (f"{key}[{number}]",)
    if kind == "text":
        return Field(kind="text", keys=keys, weight=weight)
    return Field(kind="codes", keys=keys, weight=weight, mask=kind)


def pattern_of(fields: Sequence[Field], rules: Rules) -> Parts | None:
    """Return the parts that every document of these fields has, with empty texts and no codes.

    None if their number depends on the record. ValueError if no record can have such fields.
    """
    if any(f.kind in ("base64", "segments") for f in fields):
        return None
    empty = np.zeros(0, np.int64)
    blank = {key: empty if f.kind == "codes" else "" for f in fields for key in f.keys}
    pattern = Parts()
    add_document(pattern, blank, fields, rules)
    return pattern


def add_by_pattern(
    parts: Parts, record: Record, fields: Sequence[Field], rules: Rules, pattern: Parts
) -> None:
    """Do what `add_document` does in a third of the time; add nothing if there is a ValueError."""
    texts, codes = [], []
    for f in fields:
        if f.is_text:
            texts.append(_joined_text(record, f, rules))
        elif f.kind == "codes":
            codes.append(_codes_in(record, f, rules))
    if rules.prepend_text and fields and fields[0].is_text:
        texts[0] = rules.prepend_text + texts[0]
    parts.add_alike(pattern, texts, codes)


def add_document(parts: Parts, record: Record, fields: Sequence[Field], rules: Rules) -> None:
    """Add one document without segments; ValueError says what is wrong with which field."""
    added = not rules.grammar.lwm  # to LWM, a document of BOS and EOS is one
    if rules.add_bos:
        parts.add_ids(special_ids(rules.bos, "BOS"), weight=0.0, added=added)
    for i, f in enumerate(fields):
        if f.is_text:
            _add_text(parts, record, f, rules, is_first=i == 0)
        elif f.kind == "codes":
            codes, block = _codes_in(record, f, rules), rules.blocks[f.mask]
            parts.add_block(codes, f.mask, block, f.weight, f"field {f.keys[0]!r}")
        elif f.kind == "base64":
            ids = base64_ids(record, f.keys[0], rules.vocab_size, lwm=rules.grammar.lwm)
            parts.add_ids(ids, f.weight, f.mask)
        elif f.kind == "id":
            if f.id >= rules.vocab_size:
                raise ValueError(f"<|{f.id}|> is outside the vocabulary of {rules.vocab_size}")
            parts.add_ids(np.array([f.id], np.uint32), f.weight, f.mask)
        else:
            special = rules.bos if f.kind == "bos" else rules.eos
            parts.add_ids(special_ids(special, f.kind.upper()), f.weight, f.mask)
    if rules.add_eos:
        parts.add_ids(special_ids(rules.eos, "EOS"), weight=1.0, added=added)
    parts.end_document()


def _add_text(parts: Parts, record: Record, f: Field, rules: Rules, *, is_first: bool) -> None:
    text = _joined_text(record, f, rules)
    special = f.special + max(len(f.keys) - 1, 0) * rules.separator_special
    if is_first:
        text, special = rules.prepend_text + text, rules.prepend_special + special
    added = not rules.grammar.lwm
    if len(rules.text_prefix):
        parts.add_ids(rules.text_prefix, f.weight, f.mask, added=added)
    column = rules.budget.number_of(f.keys) if rules.budget else 0
    parts.add_text(text, f.weight, f.mask, special, column)
    if len(rules.text_suffix):
        parts.add_ids(rules.text_suffix, f.weight, f.mask, added=added)


def _joined_text(record: Record, f: Field, rules: Rules) -> str:
    if f.kind == "literal":
        return f.text
    texts = [text_of(record, key, lwm=rules.grammar.lwm) for key in f.keys]
    return rules.subfield_separator.join(texts)


def _codes_in(record: Record, f: Field, rules: Rules) -> NDArray[Any]:
    (key,) = f.keys
    if f.mask not in rules.blocks:
        raise ValueError(
            f"field {key!r} is {f.mask}, whose tags the tokenizer cannot spell; "
            f"set modalities.{f.mask}.start and end to lists of ids"
        )
    by_name = rules.grammar.modality_of(key)
    hint = f"; set modalities.{by_name}.fields if it is text" if by_name else ""
    return codes_of(record, key, rules.blocks[f.mask], hint, lwm=rules.grammar.lwm)


class NoSpecialTokenError(ValueError):
    """BOS or EOS is wanted, but the tokenizer has none."""


def special_ids(value: int | None, name: str) -> Ids:
    if value is None:
        raise NoSpecialTokenError(f"the tokenizer names no {name}; set {name.lower()}_token")
    return np.array([value], np.uint32)
