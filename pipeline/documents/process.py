"""Make documents of records: look fields up, encode texts, assemble tokens and masks.

    records ─► parts, by `columns` or else by `rows` ─► texts encoded in one call ─► `assemble`
            ─► `objectives`, if there is one

`sources` reads records, `tokenize` writes documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout, assemble
from dataprep.pipeline.documents.budgets import Encode, fit
from dataprep.pipeline.documents.columns import lay_out_columns
from dataprep.pipeline.documents.objectives.draws import Keys, RecordPlaces, mixed
from dataprep.pipeline.documents.rows import lay_out_rows
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.engine import BadTextsError, EncodedTexts
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.types import Ids, Offsets, Record, RecordError, Records

# What is known about each document besides its tokens.
ORIGIN = np.dtype(
    [
        ("line", "<i8"),  # of its record, relative to the piece
        ("offset", "<i8"),
        ("codes_dropped", "<i8"),  # of partial frames
        ("codes_thinned", "<i8"),  # of frames or codebooks that the config leaves out
        ("special_in_text", "<i8"),  # special tokens that its texts spell
        ("tokens_cut", "<i8"),  # by the budget
        ("thinking_left_out", "<i8"),  # messages whose thinking the chat template does not write
    ]
)
COUNTED = (ORIGIN.names or ())[2:]  # once for a record


class TextEncoder(Protocol):
    def encode_parsed(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        """Encode texts as `tokenizers` does, special tokens in them too; BadTextsError as below."""

    def encode(self, texts: Sequence[str], /) -> EncodedTexts:
        """Encode texts; BadTextsError if some of them cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """The documents of one batch, and what became of the records without one."""

    documents: Documents
    origins: NDArray[Any]  # ORIGIN[d]
    errors: tuple[RecordError, ...]
    empty_lines: Offsets  # records without any token
    next_line: int
    num_bytes: int
    optional: frozenset[str] = frozenset()  # as in `Layout`
    keys: NDArray[Any] | None = None  # DOCUMENT_KEY[d], if the rules ask for them: `keys`


def process(
    records: Records,
    rules: Rules,
    encoder: TextEncoder,
    first_line: int,
    places: RecordPlaces | None = None,
) -> Processed:
    """Make documents of a batch; lists of specs need `first_line`, the line its piece starts at.

    Objectives need `places`, where the records come from.
    """
    if rules.chat is not None:
        from dataprep.pipeline.documents.conversations import process_conversations  # and jinja2

        return process_conversations(records, rules, rules.chat, encoder, places)
    if rules.pretokenized is not None:
        from dataprep.pipeline.documents.pretokenized import process_pretokenized

        return process_pretokenized(records, rules, rules.pretokenized)
    errors = list(records.errors)
    layout = lay_out_columns(records, rules, errors)
    if layout is None:
        layout = lay_out_rows(records, rules, first_line, errors)
    if rules.objective is not None:
        layout = rules.objective.of_texts(layout, _keys(records, layout.kept, rules, places))
    try:
        encoded = encoder.encode(layout.texts)
    except BadTextsError as error:
        good = _without_bad(records, layout, error)
        return process(good, rules, encoder, first_line, places)
    ids, offsets = encoded.ids, encoded.offsets
    cut: Offsets | int = 0
    if rules.budget is not None:
        ids, offsets, cut, reasons = fit(layout, ids, offsets, rules.budget, _encoder(encoder))
        if reasons:
            good = without(records, {int(layout.kept[i]): why for i, why in reasons.items()})
            return process(good, rules, encoder, first_line, places)
    documents, has_tokens = assemble(layout, ids, offsets, rules.masks, rules.dtype)
    origins = np.zeros(len(layout.kept), ORIGIN)
    origins["line"] = records.lines[layout.kept]
    origins["offset"] = records.offsets[layout.kept]
    origins["codes_dropped"] = layout.codes_dropped
    origins["codes_thinned"] = layout.codes_thinned
    origins["tokens_cut"] = cut
    special = np.maximum(encoded.special - layout.special, 0)  # literals are not content
    if special.any():
        owners = _documents_of(np.arange(len(layout.texts)), layout)
        np.add.at(origins["special_in_text"], owners, special)
    processed = Processed(
        documents=documents,
        origins=origins[has_tokens],
        errors=tuple(sorted(errors, key=lambda e: e.line)),
        empty_lines=origins["line"][~has_tokens],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
        optional=layout.optional,
    )
    try:
        return with_objective(processed, records, layout.kept[has_tokens], rules, places)
    except UnfitError as error:
        return process(without(records, error.reasons), rules, encoder, first_line, places)


def _encoder(encoder: TextEncoder) -> Encode:
    def encode(texts: Sequence[str]) -> tuple[Ids, Offsets]:
        encoded = encoder.encode(texts)
        return encoded.ids, encoded.offsets

    return encode


class UnfitError(Exception):
    """Some documents do not fit the objective."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(reasons)
        self.reasons = reasons  # by record


def with_objective(
    processed: Processed, records: Records, kept: Offsets, rules: Rules, places: RecordPlaces | None
) -> Processed:
    """Return what the objective makes of the documents; `kept` is the record of each."""
    if rules.objective is None or not len(kept):
        return processed
    keys = _keys(records, kept, rules, places)
    made = rules.objective.of_documents(processed.documents, rules.masks, keys)
    if made.reasons:
        raise UnfitError({int(kept[i]): reason for i, reason in made.reasons.items()})
    origins = processed.origins[made.owner]
    # What is counted of a record is counted once.
    again = np.flatnonzero(made.owner[1:] == made.owner[:-1]) + 1
    for name in COUNTED:
        origins[name][again] = 0
    return replace(processed, documents=made.documents, origins=origins)


def _keys(records: Records, kept: Offsets, rules: Rules, places: RecordPlaces | None) -> Keys:
    """Return the key of each document for its random choices."""
    assert rules.objective is not None
    assert places is not None
    keys = places.keys(rules.objective.seed, records.lines[kept], records.offsets[kept])
    # A record may have several documents, which follow each other.
    is_first = np.append(True, kept[1:] != kept[:-1])[: len(kept)]
    if not is_first.all():
        number = np.arange(len(kept)) - np.maximum.accumulate(
            np.where(is_first, np.arange(len(kept)), 0)
        )
        keys = np.where(is_first, keys, mixed(keys, number))
    return keys


def without(records: Records, reasons: Mapping[int, str]) -> Records:
    """Return the batch with some records turned into errors."""
    rows = records.as_rows()
    good = [i for i in range(len(rows)) if i not in reasons]
    return Records(
        lines=records.lines[good],
        offsets=records.offsets[good],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
        rows=[rows[i] for i in good],
        errors=[*records.errors, *records.errors_at(reasons)],
    )


def _without_bad(records: Records, layout: Layout, bad: BadTextsError) -> Records:
    """Return the batch with the records whose texts are bad turned into errors."""
    rows = records.as_rows()
    errors: dict[int, RecordError] = {}  # by record; its first bad text is named
    for text, reason in bad.reasons.items():
        (document,) = _documents_of(np.array([text]), layout)
        i = int(layout.kept[document])
        of_text = records.error_at(
            i,
            f"{_fields_in(rows[i], layout.texts[text])} {reason}",
            special=bad.special.get(text, 0),
        )
        first = errors.setdefault(i, of_text)
        if first is not of_text:
            errors[i] = replace(first, special=first.special + of_text.special)
    good = [i for i in range(len(rows)) if i not in errors]
    return Records(
        lines=records.lines[good],
        offsets=records.offsets[good],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
        rows=[rows[i] for i in good],
        errors=[*records.errors, *errors.values()],
    )


def _fields_in(record: Record, text: str) -> str:
    """Name the fields that are in a text: field 'a', or of the field a+b both."""
    names = [repr(k) for k, v in record.items() if any(t and t in text for t in _texts_in(v))]
    return f"field {' or '.join(names)}" if names else "its text"


def _texts_in(value: Any) -> list[str]:
    """Return the value if it is a text, the texts in an object, or the texts of segments."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts_in(inner)]
    items = value if isinstance(value, list) else []
    return [
        text for item in items if isinstance(item, dict) for text in _texts_in(item.get("text"))
    ]


def _documents_of(texts: Offsets, layout: Layout) -> Offsets:
    """Return the documents that these texts belong to."""
    parts = np.flatnonzero(layout.is_text)[texts]
    return np.searchsorted(layout.document_ends, parts, side="right")
