"""Records into documents: look fields up, encode texts, lay tokens and masks side by side.

    record   {"q": "ab", "a": "c"}      spec  [q],a
    parts    BOS | ab | c | EOS         each: a text to encode, or literal ids
    loss      0    0    1    1          a flag a part, so masks are runs from the start
    tokens   1 100 101 102 2

All texts of a batch go to the engine in one call. Documents whose fields are plain text take the
array path; blocks of codes, base64 ids and specs inside records are laid out record by record.
Reading is left to `sources`, writing to `shards`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.assemble import Layout, Parts, assemble
from dataprep.pipeline.fields import Field, Grammar, choose_spec, parse_spec
from dataprep.pipeline.modality import Block, parse_codes, wrap_frames
from dataprep.pipeline.record import Documents
from dataprep.pipeline.types import Ids, Offsets, Record, RecordError, Records

FindUnencodable = Callable[[Sequence[str]], list[int]]

# What is known of each document besides its tokens.
ORIGIN = np.dtype(
    [
        ("line", "<i8"),  # of its record, relative to the piece
        ("offset", "<i8"),
        ("codes_dropped", "<i8"),  # of partial frames
        ("by_reference", "?"),  # a text of it was encoded by the reference, not the fast engine
    ]
)


class Encoder(Protocol):
    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]: ...

    def last_by_reference(self) -> Offsets:
        """Indices of the texts of the last call that the reference encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the records of one source become documents."""

    fields: tuple[Field, ...]  # used where fields_from is ""
    fields_from: str
    fields_index: int | None
    grammar: Grammar
    bos: int | None  # what <|bos|> means
    eos: int | None
    add_bos: bool
    add_eos: bool
    prepend_text: str
    subfield_separator: str
    text_prefix: Ids  # special ids put before and after every text field, mostly none
    text_suffix: Ids
    vision: Block
    vocab_size: int
    masks: tuple[str, ...]  # ("loss",) or ("loss", "vision")
    dtype: np.dtype[Any]  # of tokens on disk

    @property
    def has_plain_text_only(self) -> bool:
        return not self.fields_from and all(
            f.kind in ("text", "bos", "eos", "id") for f in self.fields
        )


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
    layout = lay_out_columns(records, rules)
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
    origins["by_reference"] = by_reference
    return Processed(
        documents=documents,
        origins=origins[has_tokens],
        errors=tuple(sorted(errors, key=lambda e: e.line)),
        empty_lines=origins["line"][~has_tokens],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
    )


def lay_out_columns(records: Records, rules: Rules) -> Layout | None:
    """The array path; None where a record needs looking at by itself."""
    if records.columns is None or not rules.has_plain_text_only:
        return None
    count = len(records.lines)
    text_fields = [f for f in rules.fields if f.kind == "text"]
    columns = []
    for f in text_fields:
        values = [records.columns[key] for key in f.keys]
        if any(set(map(type, v)) - {str} for v in values):
            return None
        joined = map(rules.subfield_separator.join, zip(*values, strict=True))
        columns.append(values[0] if len(values) == 1 else list(joined))
    if rules.prepend_text and rules.fields[0].kind == "text":
        columns[0] = [rules.prepend_text + text for text in columns[0]]
    # One document's parts, with empty texts, are the pattern that every document repeats.
    blank = dict.fromkeys((k for f in text_fields for k in f.keys), "")
    pattern, _ = lay_out_record(blank, rules.fields, rules)
    literals = np.concatenate([np.zeros(0, np.uint32), *pattern.literals]).astype(np.uint32)
    lengths = np.array(pattern.lengths, np.int64)
    return Layout(
        texts=_interleave(columns, count),
        literals=np.tile(literals, count),
        lengths=np.tile(lengths, count),
        is_text=np.tile(lengths < 0, count),
        loss=np.tile(np.array(pattern.loss, bool), count),
        vision=np.zeros(len(lengths) * count, bool),
        document_ends=np.arange(1, count + 1) * len(lengths),
        kept=np.arange(count),
        codes_dropped=np.zeros(count, np.int64),
    )


def lay_out_record(record: Record, fields: Sequence[Field], rules: Rules) -> tuple[Parts, int]:
    """Parts of one document; ValueError says which field is wrong and how."""
    parts = Parts()
    dropped = 0
    if rules.add_bos:
        parts.add_ids(_special(rules.bos, "BOS"), loss=False)
    for i, f in enumerate(fields):
        if f.kind == "text":
            text = rules.subfield_separator.join(_text_of(record, key) for key in f.keys)
            if i == 0:
                text = rules.prepend_text + text
            if len(rules.text_prefix):
                parts.add_ids(rules.text_prefix, f.loss)
            parts.add_text(text, f.loss)
            if len(rules.text_suffix):
                parts.add_ids(rules.text_suffix, f.loss)
        elif f.kind == "vision":
            dropped += _add_block(parts, record, f, rules.vision)
        elif f.kind == "base64":
            parts.add_ids(_base64_ids(record, f.keys[0], rules.vocab_size), f.loss)
        elif f.kind == "id":
            if f.id >= rules.vocab_size:
                raise ValueError(f"<|{f.id}|> is outside the vocabulary of {rules.vocab_size}")
            parts.add_ids(np.array([f.id], np.uint32), f.loss)
        else:
            special = rules.bos if f.kind == "bos" else rules.eos
            parts.add_ids(_special(special, f.kind.upper()), f.loss)
    if rules.add_eos:
        parts.add_ids(_special(rules.eos, "EOS"), loss=True)
    return parts, dropped


def lay_out_rows(
    records: Records, rules: Rules, first_line: int, errors: list[RecordError]
) -> Layout:
    """Record by record; those that cannot be used are added to `errors`."""
    parts = Parts()
    kept: list[int] = []
    dropped: list[int] = []
    cache: dict[str, tuple[Field, ...]] = {}
    for i, record in enumerate(_rows_of(records)):
        line = int(records.lines[i])
        try:
            fields = rules.fields
            if rules.fields_from:
                spec = _spec_of(record, rules, first_line + line)
                if spec not in cache:
                    cache[spec] = parse_spec(spec, rules.grammar)
                fields = cache[spec]
            document, num_codes = lay_out_record(record, fields, rules)
        except ValueError as error:
            offset = int(records.offsets[i])
            errors.append(RecordError(line=line, offset=offset, reason=str(error)))
            continue
        parts.extend(document)
        dropped.append(num_codes)
        kept.append(i)
    lengths = np.array(parts.lengths, np.int64)
    return Layout(
        texts=parts.texts,
        literals=np.concatenate([np.zeros(0, np.uint32), *parts.literals]).astype(np.uint32),
        lengths=lengths,
        is_text=lengths < 0,
        loss=np.array(parts.loss, bool),
        vision=np.array(parts.vision, bool),
        document_ends=np.array(parts.document_ends, np.int64),
        kept=np.array(kept, np.int64),
        codes_dropped=np.array(dropped, np.int64),
    )


def without_unencodable(records: Records, find_unencodable: FindUnencodable) -> Records:
    """The batch with the records that hold lone surrogates turned into errors."""
    good: list[int] = []
    errors = list(records.errors)
    rows = list(_rows_of(records))
    for i, record in enumerate(rows):
        names = [k for k, v in record.items() if isinstance(v, str) and find_unencodable([v])]
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
    value = _value_of(record, rules.fields_from, "--fields-from")
    try:
        return choose_spec(value, line, rules.fields_index)
    except ValueError as error:
        raise ValueError(f"field {rules.fields_from!r} {error}") from None


def _value_of(record: Record, key: str, flag: str = "--fields") -> Any:
    try:
        return record[key]
    except KeyError:
        raise ValueError(f"field {key!r} is missing (keys: {_some(record)}); set {flag}") from None


def _some(record: Record) -> str:
    """The first keys of a record, none longer than a line of text."""
    names = [key if key.isprintable() and len(key) <= 40 else repr(key)[:40] for key in record]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more or "none"


def _text_of(record: Record, key: str) -> str:
    value = _value_of(record, key)
    if isinstance(value, str):
        return value
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    raise ValueError(f"field {key!r} must be text, got {type(value).__name__} {shown}")


def _add_block(parts: Parts, record: Record, f: Field, block: Block) -> int:
    (key,) = f.keys
    value = _value_of(record, key)
    try:
        codes = parse_codes(value, block.codebook_size)
        ids, dropped = wrap_frames(codes, block)
    except ValueError as error:
        hint = "" if isinstance(value, list) else "; set modalities.vision.fields if it is text"
        raise ValueError(f"field {key!r} {error}{hint}") from None
    parts.add_ids(block.start, f.loss)
    parts.add_ids(ids, f.loss, vision=True)
    parts.add_ids(block.end, f.loss)
    return dropped


def _base64_ids(record: Record, key: str, vocab_size: int) -> Ids:
    value = _value_of(record, key)
    try:
        ids = np.frombuffer(base64.b64decode(value, validate=True), "<i4")
    except (TypeError, ValueError, binascii.Error):
        raise ValueError(f"field {key!r} must be base64 of little-endian i32 ids") from None
    if len(ids) and (ids.min() < 0 or ids.max() >= vocab_size):
        bad = ids[(ids < 0) | (ids >= vocab_size)][0]
        raise ValueError(f"field {key!r} has id {bad}, outside the vocabulary of {vocab_size}")
    return ids.astype(np.uint32)


def _special(value: int | None, name: str) -> Ids:
    if value is None:
        raise ValueError(f"the tokenizer names no {name}; set {name.lower()}_token")
    return np.array([value], np.uint32)


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
