"""Find the turns of conversations that are longer than a row, and what is kept of those.

    mask turns   0 0 5 5 5 10 10 17 17 17      preamble 0 … 2, turns 2 … 7 and 7 … 10

Only what is kept stays in memory, not the turns of all documents of a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dataprep.configs.base import TurnsKept
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.selected import PlannedDocuments
from dataprep.pipeline.pack.strategies import Turns, keep_turns
from dataprep.pipeline.pack.strategies.overflow import Kept
from dataprep.pipeline.pack.strategies.windows import Window
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.turns import starts_turn
from dataprep.pipeline.types import Offsets

TOKENS_AT_ONCE = 1 << 24  # of documents whose turns are looked for


def check_has_turns(corpus: Corpus) -> None:
    """Raise ConfigError unless all datasets say where turns are."""
    for folder, manifest in zip(corpus.folders, corpus.manifests, strict=True):
        if "turns" not in manifest.masks:
            raise ConfigError(
                f"overflow turns: {folder} holds no conversations, so it has no turns; tokenize "
                "with --chat, pack it by itself, or set --overflow split"
            )


def kept_of_window(
    corpus: PlannedDocuments, window: Window, capacity: int, keep: TurnsKept
) -> Kept:
    """Return what is kept of documents longer than a row, numbered as in the window."""
    long = np.flatnonzero(window.lengths > capacity)
    none = np.zeros(0, np.int64)
    found = [Kept(document=none, start=none, length=none, head=none)]
    for part in _chunks(window.lengths[long]):
        own = long[part]
        turns = turns_of(corpus, own + window.first_document, window.lengths[own])
        kept = keep_turns(window.lengths[own], turns, capacity, keep)
        found.append(replace(kept, document=own[kept.document]))
    return Kept(
        document=np.concatenate([kept.document for kept in found]),
        start=np.concatenate([kept.start for kept in found]),
        length=np.concatenate([kept.length for kept in found]),
        head=np.concatenate([kept.head for kept in found]),
    )


def turns_of(corpus: PlannedDocuments, document: Offsets, length: Offsets) -> Turns:
    """Return the turns of these documents, which are numbered by their place in `document`."""
    pieces = DocumentPieces(document=document, start=np.zeros_like(document), length=length)
    parts = corpus.mask_parts("turns", pieces)
    is_start = starts_turn(parts.value, parts.piece)
    owner = parts.piece[is_start]
    starts = np.cumsum(parts.length) - parts.length - offsets_of(length)[parts.piece]
    return Turns(document=owner, start=starts[is_start])


def _chunks(lengths: Offsets) -> Iterator[slice]:
    """Yield consecutive documents that have about TOKENS_AT_ONCE together."""
    chunk = np.cumsum(lengths) // TOKENS_AT_ONCE
    edges = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield slice(first, last)
