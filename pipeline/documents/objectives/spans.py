"""Span corruption, as T5 does it: spans are masked, and the decoder spells them out.

    document   a b c d e f g h              masked: c d, g
    encoder    a b X e f Y h EOS            X, Y: sentinels, a new one for each span
    decoder    X c d Y g EOS
    stored     a b X e f Y h EOS X c d Y g EOS      one document: encoder side first
    loss       0 0 0 0 0 0 0  0  1 1 1 1 1  1
    encoder    1 1 1 1 1 1 1  1  0 0 0 0 0  0

`noise_density` of the tokens are masked, in spans of `mean_span` on average; how many are masked
and in how many spans depends on the length alone, and all ways to place them are equally likely.
A document starts with a span that is kept and ends with one that is masked. Documents are cut to
`context` first, sentinels and EOS included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dataprep.configs.objective import ObjectiveConfig
from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.objectives.draws import Keys, lengths_of_parts, mixed
from dataprep.pipeline.documents.objectives.objective import (
    Ends,
    Lookup,
    MadeDocuments,
    Named,
    ObjectiveEntry,
)
from dataprep.pipeline.documents.objectives.rearrange import (
    Bodies,
    Ranges,
    bodies_of,
    rearranged,
)
from dataprep.pipeline.ragged import numbers_within, offsets_of, ranges
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.types import Ids, Mask, Offsets

DEFAULT_CONTEXT = 512
KEPT_STREAM, MASKED_STREAM = 0, 1  # two sequences of numbers for each document


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    seed: int
    noise_density: float
    mean_span: float
    sentinels: Ids
    most: int  # tokens of a document before it is corrupted
    ends: Ends

    def of_texts(self, layout: Layout, keys: Keys) -> Layout:
        return layout

    def of_documents(
        self, documents: Documents, masks: tuple[str, ...], keys: Keys
    ) -> MadeDocuments:
        bos, eos = len(self.ends.bos), len(self.ends.eos)
        bodies = bodies_of(documents, bos=bos, eos=eos, most=self.most)
        masked, spans = counts_of(bodies.length, self.noise_density, self.mean_span)
        own = mixed(keys[bodies.document], bodies.number)
        kept_lengths, masked_lengths = (
            lengths_of_parts(mixed(own, stream), total, spans, 0)
            for stream, total in ((KEPT_STREAM, bodies.length - masked), (MASKED_STREAM, masked))
        )
        wanted = self._ranges(len(documents.tokens), bodies, spans, kept_lengths, masked_lengths)
        added = np.concatenate((self.ends.ids, self.sentinels))
        return MadeDocuments(
            documents=rearranged(documents, masks, added, wanted), owner=bodies.document
        )

    def _ranges(
        self, n: int, bodies: Bodies, spans: Offsets, kept: Offsets, masked: Offsets
    ) -> Ranges:
        """Return BOS (kept sentinel)* EOS (sentinel masked)* EOS of each body."""
        bos, eos = len(self.ends.bos), len(self.ends.eos)
        counts = 4 * spans + 3
        first = offsets_of(counts)[:-1]
        start, length = np.zeros((2, int(counts.sum())), np.int64)
        # Kept and masked spans alternate from the start of the body on.
        both = np.empty(2 * len(kept), np.int64)
        both[::2], both[1::2] = kept, masked
        within = offsets_of(both)
        moved = bodies.start - within[2 * (np.cumsum(spans) - spans)]
        within = within[:-1] + np.repeat(moved, 2 * spans)
        sentinel = n + bos + eos + numbers_within(spans)
        middle = first + 1 + 2 * spans  # the EOS of the encoder side
        start[first], length[first] = n, bos  # every part has a BOS, as it has an EOS
        for place, where, size in (
            (ranges(first + 1, spans, 2), within[::2], kept),
            (ranges(first + 2, spans, 2), sentinel, 1),
            (ranges(middle + 1, spans, 2), sentinel, 1),
            (ranges(middle + 2, spans, 2), within[1::2], masked),
            (middle, n + bos, eos),
            (first + counts - 1, n + bos, eos),
        ):
            start[place], length[place] = where, size
        number = numbers_within(counts)
        encoder: Mask = number <= np.repeat(2 * spans + 1, counts)
        return Ranges(
            start=start, length=length, counts=counts, sides={"encoder": encoder}, no_loss=encoder
        )


def counts_of(lengths: Offsets, noise_density: float, mean_span: float) -> tuple[Offsets, Offsets]:
    """Return how many tokens of documents of these lengths are masked, and in how many spans.

    >>> counts_of(np.array([512, 10, 1, 0]), 0.15, 3.0)
    (array([77,  2,  1,  0]), array([26,  1,  1,  0]))
    """
    masked = np.rint(lengths * noise_density).astype(np.int64)
    masked = np.minimum(np.maximum(masked, 1), np.maximum(lengths - 1, 1))
    masked = np.minimum(masked, lengths)
    spans = np.maximum(np.rint(masked / mean_span).astype(np.int64), 1)
    # Between two masked spans there is at least one token that is kept.
    spans = np.minimum(spans, np.maximum(np.minimum(masked, lengths - masked), 1))
    return masked, np.minimum(spans, masked)


def _named(config: ObjectiveConfig, find: Lookup) -> Named:
    if not isinstance(config.sentinels, str):
        if not config.sentinels or len({*config.sentinels}) < len(config.sentinels):
            raise ValueError("objective.sentinels must be different ids, at least one")
        return {"sentinels": config.sentinels}
    found: list[int] = []
    while (id := find(config.sentinels.replace("{}", str(len(found))))) is not None:
        found.append(id)
    if not found:
        first = config.sentinels.replace("{}", "0")
        raise ValueError(
            f"objective.sentinels: the tokenizer has no token {first!r}; set it to the tokens that "
            "it has for this, with {} for their number, or to a list of ids"
        )
    return {"sentinels": tuple(found)}


def _make(config: ObjectiveConfig, named: Named, ends: Ends) -> Spans:
    context = config.context or DEFAULT_CONTEXT
    lengths = np.arange(context + 1)
    _, spans = counts_of(lengths, config.noise_density, config.mean_span)
    total = lengths + 2 * spans + len(ends.bos) + 2 * len(ends.eos)
    most = int(np.flatnonzero(total <= context)[-1])
    sentinels = named["sentinels"]
    if int(spans[: most + 1].max()) > len(sentinels):
        enough = int(np.flatnonzero(spans[: most + 1] <= len(sentinels))[-1])
        raise ValueError(
            f"objective.sentinels are {len(sentinels)}, but a document of {most} tokens has "
            f"{spans[most]} masked spans; name more of them, or set objective.context to "
            f"{total[enough]} or less"
        )
    return Spans(
        seed=config.seed,
        noise_density=config.noise_density,
        mean_span=config.mean_span,
        sentinels=np.array(sentinels, np.uint32),
        most=most,
        ends=ends,
    )


SPANS = ObjectiveEntry(make=_make, named=_named, masks=("encoder",))
