"""Fill in the middle: a document is cut at two places, and its middle is put last.

    document   BOS  a b c d e f  EOS                     cut after b and after d
    PSM        BOS  PRE a b  SUF e f  MID c d  EOT  EOS
    SPM        BOS  PRE  SUF e f  MID a b c d  EOT  EOS

As Bavarian et al. and the StarCoder models do it: `rate` of the documents are rearranged, of these
`spm_rate` as SPM; both cuts are drawn uniformly from all places, the two ends included. The three
parts are encoded apart, so that a cut may fall inside of what would have been one token; with
`unit: token` it falls between tokens. With a `context`, each part of a document is cut by itself.

The loss stays as it is, and the added tokens have it: a model learns the suffix and the prefix as
well as the middle, as the papers do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dataprep.configs.objective import FimUnit, ObjectiveConfig
from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.objectives.draws import Keys, below, happens, mixed
from dataprep.pipeline.documents.objectives.objective import (
    Ends,
    Lookup,
    MadeDocuments,
    Named,
    ObjectiveEntry,
    id_of,
    untouched,
)
from dataprep.pipeline.documents.objectives.rearrange import Ranges, bodies_of, rearranged
from dataprep.pipeline.ragged import offsets_of, owner_of, ranges
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.types import Ids, Mask, Offsets

# The numbers of a document that each choice takes.
IS_FIM, IS_SPM, FIRST_CUT, SECOND_CUT = range(4)

# Prefix, middle and suffix as tokenizers name them.
WELL_KNOWN = (
    ("<fim_prefix>", "<fim_middle>", "<fim_suffix>"),  # StarCoder
    ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"),  # Qwen, CodeGemma
    ("<fim-prefix>", "<fim-middle>", "<fim-suffix>"),  # SantaCoder
    ("<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜fim▁hole｜>"),  # DeepSeek
    ("▁<PRE>", "▁<MID>", "▁<SUF>"),  # Code Llama
    ("[PREFIX]", "[MIDDLE]", "[SUFFIX]"),  # Codestral
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What becomes of each of some documents."""

    is_fim: Mask
    is_spm: Mask  # only where is_fim
    first: Offsets  # where the middle begins
    second: Offsets  # where it ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Fim:
    seed: int
    rate: float
    spm_rate: float
    unit: FimUnit
    context: int | None
    around: Ids  # prefix, suffix, middle, then EOT if there is one
    ends: Ends

    def choices(self, keys: Keys, lengths: Offsets) -> Choices:
        """Draw for documents of these lengths; there is nothing to cut in one of length 0."""
        is_fim = happens(keys, IS_FIM, self.rate) & (lengths > 0)
        cuts = [below(keys, counter, lengths + 1) for counter in (FIRST_CUT, SECOND_CUT)]
        return Choices(
            is_fim=is_fim,
            is_spm=is_fim & happens(keys, IS_SPM, self.spm_rate),
            first=np.minimum(*cuts),
            second=np.maximum(*cuts),
        )

    def of_texts(self, layout: Layout, keys: Keys) -> Layout:
        if self.unit != "character":
            return layout
        parts = np.flatnonzero(layout.is_text)  # at most one of a document
        owner = np.searchsorted(layout.document_ends, parts, side="right")
        lengths = np.array([len(text) for text in layout.texts], np.int64)
        return cut_texts(layout, parts, self.choices(keys[owner], lengths), self.around)

    def of_documents(
        self, documents: Documents, masks: tuple[str, ...], keys: Keys
    ) -> MadeDocuments:
        if self.unit == "character":
            return untouched(documents)
        bos, eos = len(self.ends.bos), len(self.ends.eos)
        most = None
        if self.context is not None:
            most = self.context - len(self.around) - bos - eos
        bodies = bodies_of(documents, bos=bos, eos=eos, most=most)
        chosen = self.choices(mixed(keys[bodies.document], bodies.number), bodies.length)
        n, fim = len(documents.tokens), chosen.is_fim.astype(np.int64)
        pre, suf, mid, eot = range(n, n + 4)
        plain, psm, spm = ~chosen.is_fim, chosen.is_fim & ~chosen.is_spm, chosen.is_spm
        has_eot = len(self.around) > 3
        columns = (
            (bodies.start - bodies.bos, bodies.bos),
            (pre, fim),
            # The prefix of PSM, or the whole document
            (bodies.start, chosen.first * psm + bodies.length * plain),
            (suf, fim),
            (bodies.start + chosen.second, (bodies.length - chosen.second) * fim),
            (mid, fim),
            (bodies.start, chosen.first * spm),
            (bodies.start + chosen.first, (chosen.second - chosen.first) * fim),
            (eot, fim * has_eot),
            (bodies.start + bodies.length, bodies.eos),
        )
        count = len(bodies.start)
        wanted = Ranges(
            start=np.stack([np.broadcast_to(s, count) for s, _ in columns], axis=1).reshape(-1),
            length=np.stack([length for _, length in columns], axis=1).reshape(-1),
            counts=np.full(count, len(columns)),
        )
        return MadeDocuments(
            documents=rearranged(documents, masks, self.around, wanted), owner=bodies.document
        )


def cut_texts(layout: Layout, parts: Offsets, chosen: Choices, around: Ids) -> Layout:
    """Return the layout with texts cut in three; text i is part parts[i].

    PSM   PRE prefix SUF suffix MID middle EOT      as parts: ids | text | ids | text | …
    SPM   PRE SUF suffix MID prefix middle EOT
    """
    cut = np.flatnonzero(chosen.is_fim)
    texts: list[list[str]] = [[text] for text in layout.texts]
    spm = chosen.is_spm.tolist()
    places = zip(cut.tolist(), chosen.first[cut].tolist(), chosen.second[cut].tolist(), strict=True)
    for i, first, second in places:
        (text,) = texts[i]
        prefix, middle, suffix = text[:first], text[first:second], text[second:]
        texts[i] = [suffix, prefix, middle] if spm[i] else [prefix, suffix, middle]
    # Each part becomes as many; -1 is a text, else the number of an added id.
    psm_kinds = np.array([0, -1, 1, -1, 2, -1, 3][: 3 + len(around)])
    spm_kinds = np.array([0, 1, -1, 2, -1, -1, 3][: 3 + len(around)])
    counts = np.ones(len(layout.lengths), np.int64)
    counts[parts[cut]] = len(psm_kinds)
    old = owner_of(counts)  # the part that each new one comes from
    new = np.full(len(old), -2)
    first_new = offsets_of(counts)[:-1]
    for kinds, which in (
        (psm_kinds, cut[~chosen.is_spm[cut]]),
        (spm_kinds, cut[chosen.is_spm[cut]]),
    ):
        starts = first_new[parts[which]]
        new[ranges(starts, np.full(len(starts), len(kinds)))] = np.tile(kinds, len(starts))
    is_text = np.where(new == -2, layout.is_text[old], new == -1)
    lengths = np.where(new == -2, layout.lengths[old], np.where(new == -1, -1, 1))
    # Literal ids: those that were there, then the added ones.
    before = offsets_of(np.where(layout.is_text, 0, layout.lengths))[:-1]
    literal = ~is_text
    source = np.where(new >= 0, len(layout.literals) + new, before[old])[literal]
    literals = np.concatenate((layout.literals, around))[ranges(source, lengths[literal])]
    special = np.zeros(len(layout.texts) + 2 * len(cut), np.int64)
    sizes = np.where(chosen.is_fim, 3, 1)
    special[offsets_of(sizes)[:-1]] = layout.special
    return replace(
        layout,
        texts=[text for each in texts for text in each],
        special=special,
        column=np.zeros(len(special), np.int64),
        literals=literals,
        lengths=lengths,
        is_text=is_text,
        is_added=np.where(new == -2, layout.is_added[old], new >= 0),
        weight=layout.weight[old],
        mask=layout.mask[old],
        document_ends=offsets_of(counts)[layout.document_ends],
    )


def _named(config: ObjectiveConfig, find: Lookup) -> Named:
    tokens = config.tokens
    given = {role: getattr(tokens, role) for role in ("prefix", "middle", "suffix")}
    if all(value is None for value in given.values()):
        known = next(
            (names for names in WELL_KNOWN if all(find(n) is not None for n in names)), None
        )
        if known is None:
            raise ValueError(
                "objective.tokens: the tokenizer has none of the tokens that are common for this, "
                f"such as {', '.join(WELL_KNOWN[0])}; set objective.tokens.prefix, middle and "
                "suffix to tokens that it has, or to ids"
            )
        given = dict(zip(given, known, strict=True))
    missing = [role for role, value in given.items() if value is None]
    if missing:
        raise ValueError(f"objective.tokens.{missing[0]} is not set; set all three, or none")
    given["eot"] = tokens.eot
    return {
        role: (id_of(value, f"objective.tokens.{role}", find),)
        for role, value in given.items()
        if value is not None
    }


def _make(config: ObjectiveConfig, named: Named, ends: Ends) -> Fim:
    ids = [*named["prefix"], *named["suffix"], *named["middle"], *named.get("eot", ())]
    return Fim(
        seed=config.seed,
        rate=config.rate,
        spm_rate=config.spm_rate,
        unit=config.unit,
        context=config.context,
        around=np.array(ids, np.uint32),
        ends=ends,
    )


FIM = ObjectiveEntry(make=_make, named=_named)
