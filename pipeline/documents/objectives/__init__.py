"""Objectives: what a model learns from a document, beside its next token.

draws       random numbers keyed by (seed, document), for all documents of a batch at once
rearrange   new documents of ranges of old ones
objective   what an objective is
fim         fill in the middle: PSM and SPM
spans       T5's span corruption
sides       prefix-LM and seq2seq: encoder and decoder side of one document
preference  chosen and rejected, or KTO's label: what `pairs` puts together

A new objective is one file, and one line in OBJECTIVES.
"""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.configs.objective import ObjectiveKind
from dataprep.pipeline.documents.objectives.fim import FIM
from dataprep.pipeline.documents.objectives.objective import ObjectiveEntry
from dataprep.pipeline.documents.objectives.preference import KTO, PREFERENCE
from dataprep.pipeline.documents.objectives.sides import PREFIX, SEQ2SEQ
from dataprep.pipeline.documents.objectives.spans import SPANS

OBJECTIVES: Mapping[ObjectiveKind, ObjectiveEntry] = {
    "fim": FIM,
    "spans": SPANS,
    "prefix": PREFIX,
    "seq2seq": SEQ2SEQ,
    "preference": PREFERENCE,
    "kto": KTO,
}
