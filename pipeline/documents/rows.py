"""Lay out records one by one: segments, base64 ids, specs of their own, and bad records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.field import Field
from dataprep.pipeline.documents.fields import choose_spec, parse_own_spec
from dataprep.pipeline.documents.lay_out import (
    add_by_pattern,
    add_document,
    pattern_of,
    without_segments,
)
from dataprep.pipeline.documents.lookup import value_of
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.documents.settle import Settler
from dataprep.pipeline.types import Record, RecordError, Records


def lay_out_rows(
    records: Records, rules: Rules, first_line: int, errors: list[RecordError]
) -> Layout:
    """Return the layout of the batch; records that cannot be used are added to `errors`."""
    rows = records.as_rows()
    reasons: dict[int, str] = {}  # why a record cannot be used
    settler = Settler(rules.fields)
    while True:
        parts, kept = _gather(records, rows, rules, settler, first_line, reasons)
        bad = parts.code_faults(rules.blocks)
        if not bad:
            break
        reasons |= {kept[document]: reason for document, reason in bad.items()}
    errors += records.errors_at(reasons)
    return replace(parts.wrapped(rules.blocks, kept), optional=settler.there)


def _gather(
    records: Records,
    rows: Sequence[Record],
    rules: Rules,
    of_input: Settler,
    first_line: int,
    reasons: dict[int, str],
) -> tuple[Parts, list[int]]:
    """Return the parts of the records that are not known to be bad, and which these are."""
    parts = Parts()
    kept: list[int] = []
    of_spec: dict[str, Settler] = {}  # where records bring their own
    # By the ids of the fields, which are kept alive here: hashing them would take longest of all.
    patterns: dict[tuple[int, ...], tuple[tuple[Field, ...], Parts | None]] = {}
    for i, record in enumerate(rows):
        if i in reasons:
            continue
        try:
            settler = of_input
            if rules.fields_from:
                spec = _spec_of(record, rules, first_line + int(records.lines[i]))
                if spec not in of_spec:
                    of_spec[spec] = Settler(parse_own_spec(spec, rules.grammar))
                settler = of_spec[spec]
            settled = settler.of_record(record)
            values, fields = without_segments(record, settled, lwm=rules.grammar.lwm)
            identity = tuple(map(id, fields))
            if identity not in patterns:
                patterns[identity] = fields, pattern_of(fields, rules)
            _, pattern = patterns[identity]
            if pattern is None:
                add_document(parts, values, fields, rules)
            else:
                add_by_pattern(parts, values, fields, rules, pattern)
        except ValueError as error:
            parts.undo_document()
            reasons[i] = str(error)
            continue
        kept.append(i)
    return parts, kept


def _spec_of(record: Record, rules: Rules, line: int) -> str:
    value = value_of(record, rules.fields_from, "--fields-from", lwm=rules.grammar.lwm)
    try:
        return choose_spec(value, line, rules.fields_index)
    except ValueError as error:
        raise ValueError(f"field {rules.fields_from!r} {error}") from None
