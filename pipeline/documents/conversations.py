"""Make documents of records that are conversations, as `process` does of fields."""

from __future__ import annotations

import numpy as np

from dataprep.pipeline.documents.assemble import Layout, assemble
from dataprep.pipeline.documents.chat.batch import (
    Conversations,
    WeighedTexts,
    bos_before_all,
    lay_out_conversations,
    layout_of,
    weigh,
)
from dataprep.pipeline.documents.chat.media import layout_with_media
from dataprep.pipeline.documents.chat.rules import ChatRules
from dataprep.pipeline.documents.lay_out import special_ids
from dataprep.pipeline.documents.objectives.draws import RecordPlaces
from dataprep.pipeline.documents.parts import NO_IDS
from dataprep.pipeline.documents.process import (
    ORIGIN,
    Processed,
    TextEncoder,
    UnfitError,
    with_objective,
    without,
)
from dataprep.pipeline.documents.rules import Rules
from dataprep.pipeline.engine import BadTextsError
from dataprep.pipeline.types import Offsets, Records


def process_conversations(
    records: Records,
    rules: Rules,
    chat: ChatRules,
    encoder: TextEncoder,
    places: RecordPlaces | None = None,
) -> Processed:
    """Make documents of a batch of conversations."""
    reasons: dict[int, str] = {}
    bos = special_ids(rules.bos, "BOS") if rules.add_bos else NO_IDS
    eos = special_ids(rules.eos, "EOS") if rules.add_eos else NO_IDS
    layout: Layout | None = None
    while layout is None:
        found = lay_out_conversations(records, chat, reasons)
        bad = len(reasons)
        try:
            weighed = weigh(found, *encoder.encode_parsed(found.texts), chat, reasons)
        except BadTextsError as error:
            reasons |= {found.owners[i]: reason for i, reason in error.reasons.items()}
            continue
        if len(reasons) > bad:
            continue
        weighed = bos_before_all(weighed, rules.bos, found.firsts)
        if found.items is None:
            layout = layout_of(weighed, found.kept, bos=bos, eos=eos)
            break
        layout, faults = layout_with_media(
            found.items, weighed.of_texts(), rules.blocks, bos=bos, eos=eos, kept=found.kept
        )
        reasons |= {found.kept[i]: reason for i, reason in faults.items()}
    documents, has_tokens = assemble(
        layout, NO_IDS, np.zeros(1, np.int64), rules.masks, rules.dtype
    )
    origins = np.zeros(len(layout.kept), ORIGIN)
    origins["line"] = records.lines[layout.kept]
    origins["offset"] = records.offsets[layout.kept]
    origins["codes_dropped"] = layout.codes_dropped
    origins["codes_thinned"] = layout.codes_thinned
    origins["thinking_left_out"] = found.thinking_left_out
    origins["special_in_text"] = _special_of_documents(found, weighed)
    errors = [*records.errors, *records.errors_at(reasons)]
    processed = Processed(
        documents=documents,
        origins=origins[has_tokens],
        errors=tuple(sorted(errors, key=lambda e: e.line)),
        empty_lines=origins["line"][~has_tokens],
        next_line=records.next_line,
        num_bytes=records.num_bytes,
    )
    try:
        return with_objective(processed, records, layout.kept[has_tokens], rules, places)
    except UnfitError as error:
        good = without(records, error.reasons)
        return process_conversations(good, rules, chat, encoder, places)


def _special_of_documents(found: Conversations, weighed: WeighedTexts) -> Offsets:
    if found.items is None:
        return weighed.special
    sums = [
        sum(int(weighed.special[t]) for t in items if isinstance(t, int)) for items in found.items
    ]
    return np.array(sums, np.int64)
