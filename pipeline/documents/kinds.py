"""Kinds of fields: how each is spelled, which parts of a document it becomes, what is hashed of it.

    class Base64Field(FieldKind):           one class
        kind = "base64"
        def parse(self, name, grammar): …   {x}
        def add(self, parts, …): …
        def content(self, record, …): …     and one line in FIELD_KINDS

A kind has no state: everything about a field is in its `Field`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.field import Field, Grammar
from dataprep.pipeline.documents.lookup import base64_ids, codes_of, segments_of, text_of
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.storage.keys import part, part_of_numbers, part_of_text
from dataprep.pipeline.types import MODALITIES, Ids, Record

LITERAL_ID = re.compile(r"<\|([0-9]{1,10})\|>")
MEANT_AS_ID = re.compile(r"<\|\s*[-+]?\s*[0-9][0-9._\s]*\|>")  # and is none: <|-1|>, <|1.5|>


class FieldKind(Protocol):
    kind: str
    is_text: bool = False  # a text to encode: that of its keys, or its own
    has_pattern: bool = True  # all documents have the same parts of it
    expands: bool = False  # other fields stand in its place, by the record

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        """Return the field that is spelled so, without brackets, weight and ?; None: another's."""

    def spell(self, keys: Sequence[str]) -> str:
        """Return what `parse` makes a field of these keys of."""
        return "+".join(keys)

    def modalities(self, field: Field) -> Collection[str]:
        """Return the modalities whose codes it may hold."""
        return ()

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        """Add its parts of a document; ValueError says what is wrong with it."""

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        """Yield what of the record is hashed for the key of a document, as `storage.keys` says."""

    def expand(self, record: Record, field: Field, *, lwm: bool) -> Iterator[tuple[Field, Any]]:
        """Yield the fields that stand in its place, with their values."""
        raise AssertionError("it does not expand")


class TextField(FieldKind):
    kind, is_text = "text", True

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        return Field(kind=self.kind, keys=tuple(name.split("+")))

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        text = joined_text(record, field, rules)
        special = field.special + max(len(field.keys) - 1, 0) * rules.separator_special
        added = not rules.grammar.lwm
        if len(rules.text_prefix):
            parts.add_ids(rules.text_prefix, field.weight, added=added)
        column = rules.budget.number_of(field.keys) if rules.budget else 0
        parts.add_text(text, field.weight, special, column)
        if len(rules.text_suffix):
            parts.add_ids(rules.text_suffix, field.weight, added=added)

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        lwm = rules.grammar.lwm
        return (part_of_text(text_of(record, key, lwm=lwm)) for key in field.keys)


class LiteralField(TextField):
    """A text in quotes; `fields` parses it, since LWM does not know it."""

    kind = "literal"

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        return None


class SpecialField(FieldKind):
    """<|bos|> or <|eos|>."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        return Field(kind=self.kind) if name == f"<|{self.kind}|>" else None

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        value = {"bos": rules.bos, "eos": rules.eos}[self.kind]
        parts.add_ids(special_ids(value, self.kind.upper()), field.weight)

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        return iter(())


class IdField(FieldKind):
    kind = "id"

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        literal = LITERAL_ID.fullmatch(name)
        if literal:
            return Field(kind=self.kind, id=int(literal[1]))
        if MEANT_AS_ID.fullmatch(name):
            raise ValueError(f"field {name!r} is not an id; ids are <|0|> to <|2147483647|>")
        return None

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        if field.id >= rules.vocab_size:
            raise ValueError(f"<|{field.id}|> is outside the vocabulary of {rules.vocab_size}")
        parts.add_ids(np.array([field.id], np.uint32), field.weight)

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        return iter(())


class Base64Field(FieldKind):
    kind, has_pattern = "base64", False

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        is_one = name.startswith("{") and name.endswith("}")
        return Field(kind=self.kind, keys=(name[1:-1],)) if is_one else None

    def spell(self, keys: Sequence[str]) -> str:
        return f"{{{keys[0]}}}"

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        parts.add_ids(_ids_in(record, field, rules), field.weight)

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        yield part_of_numbers("ids", _ids_in(record, field, rules))


class CodesField(FieldKind):
    kind = "codes"

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        modality = grammar.modality_of(name)
        return Field(kind=self.kind, keys=(name,), mask=modality) if modality else None

    def modalities(self, field: Field) -> Collection[str]:
        return (field.mask,)

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        codes, block = codes_in(record, field, rules), rules.blocks[field.mask]
        parts.add_block(codes, field.mask, block, field.weight, f"field {field.keys[0]!r}")

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        yield part_of_numbers(field.mask, codes_in(record, field, rules))


class SegmentsField(FieldKind):
    """{"segments": [{"type": "text", "text": "a"}, …]} stands for the text `segments[0]`, …"""

    kind, has_pattern, expands = "segments", False, True

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        return Field(kind=self.kind, keys=(name,)) if grammar.is_segments(name) else None

    def modalities(self, field: Field) -> Collection[str]:
        return MODALITIES

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        raise AssertionError("it is expanded before")

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        for each, value in self.expand(record, replace(field, weight=1.0), lwm=rules.grammar.lwm):
            if not each.weight:  # then the record says so
                yield part("weight", b"0.0")
            yield from FIELD_KINDS[each.kind].content({each.keys[0]: value}, each, rules)

    def expand(self, record: Record, field: Field, *, lwm: bool) -> Iterator[tuple[Field, Any]]:
        (key,) = field.keys
        for i, (holds, loss, value) in enumerate(segments_of(record, key, lwm=lwm)):
            yield _segment_field(key, i, holds, field.weight if loss else 0.0), value


@lru_cache(maxsize=1 << 12)
def _segment_field(key: str, number: int, holds: str, weight: float) -> Field:
    keys = (f"{key}[{number}]",)
    if holds in MODALITIES:
        return Field(kind=CodesField.kind, keys=keys, weight=weight, mask=holds)
    return Field(kind=TextField.kind, keys=keys, weight=weight)


# In the order in which a name is tried: the first kind that knows it has it.
FIELD_KINDS: dict[str, FieldKind] = {
    each.kind: each
    for each in (
        SpecialField("bos"),
        SpecialField("eos"),
        IdField(),
        Base64Field(),
        CodesField(),
        SegmentsField(),
        LiteralField(),
        TextField(),
    )
}


def joined_text(record: Record, field: Field, rules: Rules) -> str:
    """Return the text of a field that is text."""
    if not field.keys:
        return field.text
    texts = [text_of(record, key, lwm=rules.grammar.lwm) for key in field.keys]
    return rules.subfield_separator.join(texts)


def _ids_in(record: Record, field: Field, rules: Rules) -> Ids:
    return base64_ids(record, field.keys[0], rules.vocab_size, lwm=rules.grammar.lwm)


def codes_in(record: Record, field: Field, rules: Rules) -> NDArray[Any]:
    """Return the codes of a field that has a modality."""
    (key,) = field.keys
    if field.mask not in rules.blocks:
        raise ValueError(
            f"field {key!r} is {field.mask}, whose tags the tokenizer cannot spell; "
            f"set modalities.{field.mask}.start and end to lists of ids"
        )
    by_name = rules.grammar.modality_of(key)
    hint = f"; set modalities.{by_name}.fields if it is text" if by_name else ""
    return codes_of(record, key, rules.blocks[field.mask], hint, lwm=rules.grammar.lwm)


class NoSpecialTokenError(ValueError):
    """BOS or EOS is wanted, but the tokenizer has none."""


def special_ids(value: int | None, name: str) -> Ids:
    if value is None:
        raise NoSpecialTokenError(f"the tokenizer names no {name}; set {name.lower()}_token")
    return np.array([value], np.uint32)
