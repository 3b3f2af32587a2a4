"""The keys of documents: a hash of what of the record they were made of, and of its group.

    record    {"q": "2+2=", "a": 4, "id": 7}     fields [q],a     keys: key:id
    content   "2+2=", "4"                        the values that the fields use, in their order
    group     "7"                                of keys: content, the first half of that hash

Neither names of keys nor tokenizer, template, loss or texts of the config count, so that equal
texts are known as such wherever they come from. What a record itself says about loss does count:
a conversation of which another turn is trained on is another document. Where a record names
several specs, of which its line number chooses one, the values of all count.

All documents of a record have its key. `storage.keys` says how values are hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dataprep.pipeline.documents.batch import BatchColumns, chosen
from dataprep.pipeline.documents.field import Field
from dataprep.pipeline.documents.fields import parse_own_spec
from dataprep.pipeline.documents.kinds import FIELD_KINDS
from dataprep.pipeline.documents.lookup import find_value, value_of
from dataprep.pipeline.documents.pretokenized import content_of_tokens
from dataprep.pipeline.documents.process import Processed, without
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.documents.settle import Settler
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.keys import (
    DOCUMENT_KEY,
    OF_KEY,
    group_key,
    hash_parts,
    part,
    part_of_numbers,
    part_of_text,
    part_of_value,
)
from dataprep.pipeline.types import ABSENT, Record, Records

Parts = Callable[[Record], bytes]


def with_keys(records: Records, rules: Rules, run: Callable[[Records], Processed]) -> Processed:
    """Return what `run` makes of a batch, with the key of each document.

    A record that lacks the key of its group is bad.
    """
    name, groups = group_key(rules.keys), None
    if name is not None:
        groups, reasons = _groups(records, name, lwm=rules.grammar.lwm)
        records = without(records, reasons) if reasons else records
    processed = run(records)
    place, owner = np.unique(
        np.searchsorted(records.lines, processed.origins["line"]), return_inverse=True
    )
    own = np.empty(len(place), DOCUMENT_KEY)
    own["content"] = hash_parts(_contents(chosen(records, place), rules))
    own["group"] = own["content"][:, 0]
    if groups is not None:
        own["group"] = hash_parts(groups[i] for i in place.tolist())[:, 0]
    return replace(processed, keys=own[owner])


def _groups(records: Records, name: str, *, lwm: bool) -> tuple[list[bytes], dict[int, str]]:
    """Return what is hashed for the groups of the records that have one, and why others are bad."""
    parts: list[bytes] = []
    reasons: dict[int, str] = {}
    # A path may be a column and a way through another.
    column = (records.columns or {}).get(name) if lwm or "." not in name else None
    for i, found in enumerate(records.as_rows() if column is None else column):
        try:
            value = _value(found, name, lwm=lwm) if column is None else found
            if value is None or value is ABSENT:
                raise ValueError(
                    f"field {name!r} is missing or null, but keys is {OF_KEY}{name}, so that every "
                    "record needs a value there"
                )
            parts.append(part_of_value(value))
        except ValueError as error:
            reasons[i] = str(error)
    return parts, reasons


def _value(record: Record, name: str, *, lwm: bool) -> object:
    return record.get(name) if lwm else find_value(record, name)


def _contents(records: Records, rules: Rules) -> Iterator[bytes]:
    """Yield what is hashed of each record, all of which have a document."""
    columns = _columns(records, rules)
    if columns is not None:
        return map(b"".join, zip(*columns, strict=True))
    return map(_parts_of(rules), records.as_rows())


def _columns(records: Records, rules: Rules) -> list[list[bytes]] | None:
    """Return the parts of each field; None if records must be looked at one by one."""
    fields = rules.fields
    is_plain = records.columns is not None and fields and not Settler(fields).questions
    if not is_plain or rules.chat or rules.pairs or rules.fields_from:
        return None
    columns = BatchColumns(records.columns or {}, lwm=rules.grammar.lwm)
    found: list[list[bytes]] = []
    for f in fields:
        if not FIELD_KINDS[f.kind].has_pattern:
            return None
        for key in f.keys:
            if f.mask:
                codes = columns.of(key)
                if not isinstance(codes, IntegerLists):
                    return None
                found.append([part_of_numbers(f.mask, each) for each in codes])
            else:
                texts = columns.texts(key)
                if texts is None:
                    return None
                found.append([part_of_text(text) for text in texts])
    return found or None


def _parts_of(rules: Rules) -> Parts:
    """Return the function that gives what is hashed of a record."""
    of_row = _parts_of_row(rules)
    if rules.pairs is None:
        return of_row
    rows_of = partial(rules.pairs.rows_of, is_chat=rules.chat is not None)
    return lambda record: b"".join(
        part("side", b"%d%s" % (side, of_row({**record, **row}))) for side, row in rows_of(record)
    )


def _parts_of_row(rules: Rules) -> Parts:
    if rules.chat is not None:
        from dataprep.pipeline.documents.chat.content import parts_of_conversation  # and jinja2

        return partial(parts_of_conversation, rules=rules.chat, blocks=rules.blocks)
    if rules.pretokenized is not None:
        return partial(content_of_tokens, keys=rules.pretokenized, lwm=rules.grammar.lwm)
    if rules.fields_from:
        return partial(_parts_by_own_spec, rules=rules, known={})
    settler = Settler(rules.fields)
    return lambda record: b"".join(_parts(record, settler.of_record(record), rules))


def _parts_by_own_spec(record: Record, rules: Rules, known: dict[str, Settler]) -> bytes:
    """Return the parts of the values that a record's own spec names, or each of its specs."""
    specs = value_of(record, rules.fields_from, "--fields-from", lwm=rules.grammar.lwm)
    if isinstance(specs, str):
        return _parts_by_spec(record, specs, rules, known)
    if rules.fields_index is not None:
        return _parts_by_spec(record, specs[rules.fields_index], rules, known)
    return b"".join(part("spec", _parts_by_spec(record, spec, rules, known)) for spec in specs)


def _parts_by_spec(record: Record, spec: str, rules: Rules, known: dict[str, Settler]) -> bytes:
    """Return the parts of one spec; nothing if the record does not fit it, as one that is not
    chosen may."""
    try:
        if spec not in known:
            known[spec] = Settler(parse_own_spec(spec, rules.grammar))
        return b"".join(_parts(record, known[spec].of_record(record), rules))
    except ValueError:
        return b""


def _parts(record: Record, fields: Sequence[Field], rules: Rules) -> Iterator[bytes]:
    """Yield the parts of a record with these fields."""
    for f in fields:
        if rules.fields_from and f.keys and f.weight != 1:  # then the record says so
            yield part("weight", repr(f.weight).encode())
        yield from FIELD_KINDS[f.kind].content(record, f, rules)
