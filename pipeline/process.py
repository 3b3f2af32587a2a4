"""Records into documents: look fields up, encode texts, lay tokens and masks side by side.

    records ─► parts (`parts`) ─► texts encoded in one call ─► tokens and masks (`assemble`)

Documents whose fields are text and lists of codes in columns take the array path; interleaved
segments, base64 ids and specs inside records are laid out record by record. Reading is left to
`sources`, writing to `shards`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.assemble import Layout, assemble
from dataprep.pipeline.fields import Field, choose_spec, parse_spec
from dataprep.pipeline.integer_lists import IntegerLists
from dataprep.pipeline.modality import Wrapped, faults
from dataprep.pipeline.parts import (
    CODES,
    TEXT,
    Parts,
    Rules,
    add_by_pattern,
    add_document,
    joined_ids,
    pattern_of,
    without_segments,
)
from dataprep.pipeline.record import Documents
from dataprep.pipeline.types import Ids, Offsets, Record, RecordError, Records
from dataprep.pipeline.values import value_of

FindUnencodable = Callable[[Sequence[str]], list[int]]

# What is known of each document besides its tokens.
ORIGIN = np.dtype(
    [
        ("line", "<i8"),  # of its record, relative to the piece
        ("offset", "<i8"),
        ("codes_dropped", "<i8"),  # of partial frames
        ("codes_thinned", "<i8"),  # of frames or codebooks that the config leaves out
        ("by_reference", "?"),  # a text of it was encoded by the reference, not the fast engine
    ]
)


class Encoder(Protocol):
    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]: ...

    def last_by_reference(self) -> Offsets:
        """Indices of the texts of the last call that the reference encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """Documents of one batch, and what became of the records that gave none."""

    documents: Documents
    origins: NDArray[Any]  # ORIGIN[d]
    errors: tuple[RecordError, ...]
    empty_lines: Offsets  # records without any token
    next_line: int
    num_bytes: int


def process(
    records: Records,
    rules: Rules,
    encoder: Encoder,
    find_unencodable: FindUnencodable,
    first_line: int,
) -> Processed:
    """`first_line` is the piece's place in its source; it only matters to listed specs."""
    errors = list(records.errors)
    layout = lay_out_columns(records, rules, errors)
    if layout is None:
        layout = lay_out_rows(records, rules, first_line, errors)
    try:
        ids, offsets = encoder.encode(layout.texts)
    except (TypeError, UnicodeError):
        if not find_unencodable(layout.texts):
            raise
        cleaned = without_unencodable(records, find_unencodable)
        return process(cleaned, rules, encoder, find_unencodable, first_line)
    documents, has_tokens = assemble(layout, ids, offsets, rules.masks, rules.dtype)
    by_reference = np.zeros(len(layout.kept), bool)
    by_reference[_documents_of(encoder.last_by_reference(), layout)] = True
    origins = np.empty(len(layout.kept), ORIGIN)
    origins["line"] = records.lines[layout.kept]
    origins["offset"] = records.offsets[layout.kept]
    origins["codes_dropped"] = layout.codes_dropped
    origins["codes_thinned"] = layout.codes_thinned
    origins["by_reference"] = by_reference
    return Processed(
        documents=documents,
        origins=origins[has_tokens],
        errors=tuple(sorted(errors, key=lambda e: e.line)),
        empty_lines=origins["line"][~has_tokens],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
    )


def lay_out_columns(records: Records, rules: Rules, errors: list[RecordError]) -> Layout | None:
    """The array path; None where a record needs looking at by itself.

    Records whose codes have a fault are added to `errors`.
    """
    if records.columns is None or rules.fields_from:
        return None
    # One document's parts are the pattern that every document repeats.
    pattern = pattern_of(rules.fields, rules)
    if pattern is None:
        return None
    values = [[records.columns[key] for key in f.keys] for f in rules.fields if f.kind == "text"]
    if not all(_is_text(column) for columns in values for column in columns):
        return None
    codes = [records.columns[f.keys[0]] for f in rules.fields if f.kind == "codes"]
    lists = [column for column in codes if isinstance(column, IntegerLists)]
    if len(lists) < len(codes):
        return None
    kept = np.arange(len(records.lines))
    reasons = _faults(lists, pattern, rules)
    if reasons:
        _add_errors(errors, records, reasons)
        kept = np.delete(kept, list(reasons))
        values = [[[column[i] for i in kept.tolist()] for column in columns] for columns in values]
        lists = [column.take(kept) for column in lists]
    texts = [_joined(columns, rules.subfield_separator) for columns in values]
    if rules.prepend_text and rules.fields[0].kind == "text":
        texts[0] = [rules.prepend_text + text for text in texts[0]]
    wrapped = [
        rules.blocks[part.modality].wrap(*_flat(column))
        for part, column in zip(pattern.codes, lists, strict=True)
    ]
    return _repeated(pattern, kept, texts, wrapped)


def _repeated(
    pattern: Parts, kept: Offsets, texts: list[Sequence[str]], wrapped: list[Wrapped]
) -> Layout:
    """Documents that have the same parts, but for what stands in the columns."""
    count = len(kept)
    part_lengths = np.array(pattern.lengths, np.int64)
    lengths = np.tile(part_lengths, (count, 1))
    for part, column in zip(pattern.codes, wrapped, strict=True):
        lengths[:, part.part] = column.lengths
    none = np.zeros(count, np.int64)
    return Layout(
        texts=_interleave(texts, count),
        literals=_literals(joined_ids(pattern.literals), part_lengths, lengths, wrapped),
        lengths=lengths.reshape(-1),
        is_text=np.tile(part_lengths == TEXT, count),
        loss=np.tile(np.array(pattern.loss, bool), count),
        modality=np.tile(np.array(pattern.modality, np.int8), count),
        document_ends=np.arange(1, count + 1) * len(part_lengths),
        kept=kept,
        codes_dropped=sum((column.dropped for column in wrapped), none),
        codes_thinned=sum((column.thinned for column in wrapped), none),
    )


def _is_text(column: Sequence[Any]) -> bool:
    return not isinstance(column, IntegerLists) and set(map(type, column)) <= {str}


def _joined(columns: Sequence[Sequence[str]], separator: str) -> Sequence[str]:
    """The texts of one field: a+b is one of two columns."""
    return (
        columns[0] if len(columns) == 1 else list(map(separator.join, zip(*columns, strict=True)))
    )


def _flat(column: IntegerLists) -> tuple[NDArray[Any], Offsets]:
    """Codes of all records, and how many each has."""
    start, stop = int(column.offsets[0]), int(column.offsets[-1])
    return column.values[start:stop], np.diff(column.offsets)


def _faults(columns: Sequence[IntegerLists], pattern: Parts, rules: Rules) -> dict[int, str]:
    """What is wrong with the codes of which record; the first field that is bad speaks."""
    reasons: dict[int, str] = {}
    for part, column in zip(pattern.codes, columns, strict=True):
        found = faults(*_flat(column), rules.blocks[part.modality])
        reasons = {i: f"{part.label} {reason}" for i, reason in found.items()} | reasons
    return reasons


def _add_errors(errors: list[RecordError], records: Records, reasons: Mapping[int, str]) -> None:
    errors += [
        RecordError(line=int(records.lines[i]), offset=int(records.offsets[i]), reason=reason)
        for i, reason in reasons.items()
    ]


def _literals(
    constant: Ids, part_lengths: Offsets, lengths: NDArray[np.int64], wrapped: Sequence[Wrapped]
) -> Ids:
    """The literal ids of all documents in order: those that all have, and their codes."""
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


def lay_out_rows(
    records: Records, rules: Rules, first_line: int, errors: list[RecordError]
) -> Layout:
    """Record by record; those that cannot be used are added to `errors`."""
    rows = _rows_of(records)
    reasons: dict[int, str] = {}  # why a record cannot be used
    while True:
        parts, kept = _gather(records, rows, rules, first_line, reasons)
        bad = parts.code_faults(rules.blocks)
        if not bad:
            break
        reasons |= {kept[document]: reason for document, reason in bad.items()}
    _add_errors(errors, records, reasons)
    return parts.wrapped(rules.blocks, kept)


def _gather(
    records: Records,
    rows: Sequence[Record],
    rules: Rules,
    first_line: int,
    reasons: dict[int, str],
) -> tuple[Parts, list[int]]:
    """Parts of the records that are not known to be bad, and which these are."""
    parts = Parts()
    kept: list[int] = []
    specs: dict[str, tuple[Field, ...]] = {"": rules.fields}
    # By the fields' identities: they are kept here, and hashing them takes longer than the rest.
    patterns: dict[tuple[int, ...], tuple[tuple[Field, ...], Parts | None]] = {}
    for i, record in enumerate(rows):
        if i in reasons:
            continue
        try:
            spec = ""
            if rules.fields_from:
                spec = _spec_of(record, rules, first_line + int(records.lines[i]))
                if spec not in specs:
                    specs[spec] = parse_spec(spec, rules.grammar)
            values, fields = without_segments(record, specs[spec])
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


def without_unencodable(records: Records, find_unencodable: FindUnencodable) -> Records:
    """The batch with the records that hold lone surrogates turned into errors."""
    good: list[int] = []
    errors = list(records.errors)
    rows = list(_rows_of(records))
    for i, record in enumerate(rows):
        names = [key for key, value in record.items() if find_unencodable(_texts_in(value))]
        if not names:
            good.append(i)
            continue
        reason = f"field {names[0]!r} holds a lone surrogate, which is no text; remove it"
        line, offset = int(records.lines[i]), int(records.offsets[i])
        errors.append(RecordError(line=line, offset=offset, reason=reason))
    assert len(good) < len(rows), "an engine refused texts that hold no lone surrogate"
    return Records(
        lines=records.lines[good],
        offsets=records.offsets[good],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
        rows=[rows[i] for i in good],
        errors=errors,
    )


def _texts_in(value: Any) -> list[str]:
    """A text, or those of segments."""
    if isinstance(value, str):
        return [value]
    items = value if isinstance(value, list) else []
    return [
        text for item in items if isinstance(item, dict) for text in _texts_in(item.get("text"))
    ]


def _rows_of(records: Records) -> Sequence[Record]:
    if records.rows is not None:
        return records.rows
    assert records.columns is not None
    keys = list(records.columns)
    return [
        dict(zip(keys, values, strict=True))
        for values in zip(*records.columns.values(), strict=True)
    ] or [{} for _ in records.lines]


def _spec_of(record: Record, rules: Rules, line: int) -> str:
    value = value_of(record, rules.fields_from, "--fields-from")
    try:
        return choose_spec(value, line, rules.fields_index)
    except ValueError as error:
        raise ValueError(f"field {rules.fields_from!r} {error}") from None


def _interleave(columns: Sequence[Sequence[str]], count: int) -> Sequence[str]:
    """[[a0, a1], [b0, b1]] -> [a0, b0, a1, b1]."""
    if len(columns) == 1:
        return columns[0]
    texts = [""] * (count * len(columns))
    for i, column in enumerate(columns):
        texts[i :: len(columns)] = column
    return texts


def _documents_of(texts: Offsets, layout: Layout) -> Offsets:
    """The documents that some texts belong to."""
    parts = np.flatnonzero(layout.is_text)[texts]
    return np.searchsorted(layout.document_ends, parts, side="right")
