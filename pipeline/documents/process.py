"""Make documents of records: look fields up, encode texts, assemble tokens and masks.

    records ─► parts, by `columns` or else by `rows` ─► texts encoded in one call ─► `assemble`

`sources` reads records, `tokenize` writes documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout, assemble
from dataprep.pipeline.documents.columns import lay_out_columns
from dataprep.pipeline.documents.rows import lay_out_rows
from dataprep.pipeline.documents.rules import Rules
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.types import Ids, Offsets, RecordError, Records

FindUnencodable = Callable[[Sequence[str]], list[int]]

# What is known about each document besides its tokens.
ORIGIN = np.dtype(
    [
        ("line", "<i8"),  # of its record, relative to the piece
        ("offset", "<i8"),
        ("codes_dropped", "<i8"),  # of partial frames
        ("codes_thinned", "<i8"),  # of frames or codebooks that the config leaves out
        ("by_reference", "?"),  # a text of it was encoded by the reference, not the fast engine
    ]
)


class TextEncoder(Protocol):
    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]: ...

    def last_by_reference(self) -> Offsets:
        """Return which texts of the last call the reference encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """The documents of one batch, and what became of the records without one."""

    documents: Documents
    origins: NDArray[Any]  # ORIGIN[d]
    errors: tuple[RecordError, ...]
    empty_lines: Offsets  # records without any token
    next_line: int
    num_bytes: int


def process(
    records: Records,
    rules: Rules,
    encoder: TextEncoder,
    find_unencodable: FindUnencodable,
    first_line: int,
) -> Processed:
    """Make documents of a batch; lists of specs need `first_line`, the line its piece starts at."""
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


def without_unencodable(records: Records, find_unencodable: FindUnencodable) -> Records:
    """Return the batch with the records that hold lone surrogates turned into errors."""
    good: list[int] = []
    errors = list(records.errors)
    rows = list(records.as_rows())
    for i, record in enumerate(rows):
        names = [key for key, value in record.items() if find_unencodable(_texts_in(value))]
        if not names:
            good.append(i)
            continue
        reason = f"field {names[0]!r} holds a lone surrogate, which is not text; remove it"
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
    """Return the value if it is a text, or the texts of segments."""
    if isinstance(value, str):
        return [value]
    items = value if isinstance(value, list) else []
    return [
        text for item in items if isinstance(item, dict) for text in _texts_in(item.get("text"))
    ]


def _documents_of(texts: Offsets, layout: Layout) -> Offsets:
    """Return the documents that these texts belong to."""
    parts = np.flatnonzero(layout.is_text)[texts]
    return np.searchsorted(layout.document_ends, parts, side="right")
