"""Documents with an encoder and a decoder side, whose tokens stay in their order.

    prefix     BOS a b c | d e f EOS       cut at random, after at least one token
    seq2seq    BOS q q q | a a a EOS       cut where the loss begins: "[prompt],answer"
    loss        0  0 0 0   1 1 1  1
    encoder     1  1 1 1   0 0 0  0

The decoder side keeps the loss that its fields have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.objective import ObjectiveConfig
from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.objectives.draws import Keys, below, mixed
from dataprep.pipeline.documents.objectives.objective import (
    Ends,
    Lookup,
    MadeDocuments,
    Named,
    ObjectiveEntry,
)
from dataprep.pipeline.documents.objectives.rearrange import Ranges, bodies_of, rearranged
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import dense_mask
from dataprep.pipeline.types import Mask, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Cuts each document at random."""

    seed: int
    context: int | None
    ends: Ends

    def of_texts(self, layout: Layout, keys: Keys) -> Layout:
        return layout

    def of_documents(
        self, documents: Documents, masks: tuple[str, ...], keys: Keys
    ) -> MadeDocuments:
        bos, eos = len(self.ends.bos), len(self.ends.eos)
        most = None if self.context is None else self.context - bos - eos
        bodies = bodies_of(documents, bos=bos, eos=eos, most=most)
        # What is before and after a body is part of it: these tokens stand beside each other.
        start = bodies.start - bodies.bos
        length = bodies.length + bodies.bos + bodies.eos
        own = mixed(keys[bodies.document], bodies.number)
        cut = 1 + below(own, 0, np.maximum(length - 1, 1))
        return MadeDocuments(
            documents=_two_sides(documents, masks, start, np.minimum(cut, length), length),
            owner=bodies.document,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutAtLoss:
    """Cuts each document where its loss begins."""

    seed: int

    def of_texts(self, layout: Layout, keys: Keys) -> Layout:
        return layout

    def of_documents(
        self, documents: Documents, masks: tuple[str, ...], keys: Keys
    ) -> MadeDocuments:
        loss = dense_mask(documents.masks[masks.index("loss")])
        start = np.concatenate(([0], documents.ends[:-1]))
        length = documents.ends - start
        before = np.concatenate(([0], np.cumsum(loss)))
        targets = before[documents.ends] - before[start]
        # Where the first target is, if there is any.
        places = np.append(np.flatnonzero(loss), len(loss))
        cut = places[before[start]] - start
        reasons: dict[int, str] = {}
        for wrong, why in (
            (targets == 0, "has no token with loss, so no decoder side"),
            (cut == 0, "begins with a token that has loss, so it has no encoder side"),
            (
                targets < length - cut,
                "has tokens without loss after the first with it; the encoder side must come first",
            ),
        ):
            reasons = {int(i): why for i in np.flatnonzero(wrong)} | reasons
        good = np.array([i for i in range(len(length)) if i not in reasons], np.int64)
        made = _two_sides(documents, masks, start[good], cut[good], length[good])
        return MadeDocuments(documents=made, owner=good, reasons=reasons)


def _two_sides(
    documents: Documents, masks: Sequence[str], start: Offsets, cut: Offsets, length: Offsets
) -> Documents:
    """Return these ranges as documents, of which the first `cut` tokens are the encoder side."""
    encoder: Mask = np.tile([True, False], len(start))
    wanted = Ranges(
        start=_by_turns(start, start + cut),
        length=_by_turns(cut, length - cut),
        counts=np.full(len(start), 2),
        sides={"encoder": encoder},
        no_loss=encoder,
    )
    return rearranged(documents, masks, np.zeros(0, np.uint32), wanted)


def _by_turns(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.stack((first, second), axis=1).reshape(-1)


def _nothing_named(config: ObjectiveConfig, find: Lookup) -> Named:
    return {}


def _make_prefix(config: ObjectiveConfig, named: Named, ends: Ends) -> Prefix:
    return Prefix(seed=config.seed, context=config.context, ends=ends)


def _make_seq2seq(config: ObjectiveConfig, named: Named, ends: Ends) -> CutAtLoss:
    return CutAtLoss(seed=config.seed)


PREFIX = ObjectiveEntry(make=_make_prefix, named=_nothing_named, masks=("encoder",))
SEQ2SEQ = ObjectiveEntry(
    make=_make_seq2seq, named=_nothing_named, masks=("encoder",), may_be_chat=True
)
