"""Make documents of preferences: two rows of each record, put together.

records   line 0: prompt, chosen, rejected     line 1: …
rows      lines 0 and 1: prompt, completion    lines 2 and 3: …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dataprep.pipeline.documents.chat.forms import BESIDE
from dataprep.pipeline.documents.objectives.preference import Pairs, put_together
from dataprep.pipeline.documents.process import COUNTED, Processed, TextEncoder, process
from dataprep.pipeline.documents.rules import Rules
from dataprep.pipeline.types import Records


def process_pairs(records: Records, rules: Rules, pairs: Pairs, encoder: TextEncoder) -> Processed:
    """Make documents of a batch; a record with one bad side is bad."""
    beside = (*BESIDE, rules.chat.config.tools) if rules.chat else ()
    rows = pairs.of_records(records, beside, is_chat=rules.chat is not None)
    sides = process(rows, rules, encoder, 0)
    return _of_records(sides, rules.masks, records.next_line, is_pair=not pairs.label)


def _of_records(
    sides: Processed, masks: Sequence[str], next_line: int, *, is_pair: bool
) -> Processed:
    """Return the documents of both sides put together, by the lines of the records."""
    errors = {error.line // 2: error for error in reversed(sides.errors)}
    bad = np.array(list(errors), np.int64)
    line = sides.origins["line"] // 2
    size = 2 if is_pair else 1
    is_first = np.append(True, line[1:] != line[:-1])[: len(line)]
    first = np.flatnonzero(is_first)
    count = np.diff(np.append(first, len(line)))
    # A record without a document for each side is bad, or empty.
    is_whole = (count == size) & ~np.isin(line[first], bad)
    first, count = first[is_whole], count[is_whole]
    origins = sides.origins[first].copy()
    origins["line"] = line[first]
    if is_pair and len(first):
        for name in COUNTED:
            origins[name] += sides.origins[name][first + 1]
    documents = sides.documents
    if len(documents.ends):
        is_rejected = sides.origins["line"] % 2 == 1
        documents = put_together(documents, masks, is_rejected, first, count)
    empty = np.unique(sides.empty_lines // 2)
    return replace(
        sides,
        documents=documents,
        origins=origins,
        errors=tuple(replace(errors[n], line=n) for n in sorted(errors)),
        empty_lines=empty[~np.isin(empty, bad)],
        next_line=next_line,
    )
