"""Documents as parts: texts to encode, literal ids, codes to wrap, each with its weight.

    parts    BOS | ab | c | EOS | BOS | d | ef | EOS       of two documents
    weight    0    0    1    1     0    0    .5   1        one for each part, so masks are runs

Codes wait until those of the whole batch are there; then they are checked and wrapped together.
`lay_out` decides which parts a document has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.modalities.block import Block, faults
from dataprep.pipeline.storage.masks import NUMBERS
from dataprep.pipeline.types import MODALITIES, Ids

TEXT, CODES = -1, -2  # lengths of parts that are not known yet


class CodePart(NamedTuple):
    """The codes of one block, not wrapped yet."""

    modality: str
    codes: NDArray[Any]
    label: str  # its name in errors
    document: int
    part: int
    literal: int  # its place among the literals


@dataclass(slots=True)
class Parts:
    """The parts of consecutive documents, as they are added."""

    texts: list[str] = field(default_factory=list)
    special: list[int] = field(default_factory=list)  # as in `Layout`
    column: list[int] = field(default_factory=list)  # the same
    literals: list[Ids] = field(default_factory=list)
    codes: list[CodePart] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)  # in the loss; 0: none
    mask: list[int] = field(default_factory=list)  # by NUMBERS; 0: none but the loss
    is_added: list[bool] = field(default_factory=list)  # as in `Layout`
    document_ends: list[int] = field(default_factory=list)  # in parts

    def add_text(self, text: str, weight: float, special: int = 0, column: int = 0) -> None:
        self.texts.append(text)
        self.special.append(special)
        self.column.append(column)
        self._add(TEXT, weight)

    def add_ids(self, ids: Ids, weight: float, *, added: bool = False) -> None:
        self.literals.append(ids)
        self._add(len(ids), weight, added=added)

    def add_block(
        self, codes: NDArray[Any], modality: str, block: Block, weight: float, label: str
    ) -> None:
        self.add_ids(block.start, weight)
        self.codes.append(
            CodePart(
                modality=modality,
                codes=codes,
                label=label,
                document=len(self.document_ends),
                part=len(self.lengths),
                literal=len(self.literals),
            )
        )
        self.literals.append(NO_IDS)
        self._add(CODES, weight, modality)
        self.add_ids(block.end, weight)

    def add_alike(
        self, pattern: Parts, texts: Sequence[str], codes: Sequence[NDArray[Any]]
    ) -> None:
        """Add a document that has the parts of `pattern`, but texts and codes of its own."""
        first_part, first_literal = len(self.lengths), len(self.literals)
        for part, values in zip(pattern.codes, codes, strict=True):
            self.codes.append(
                CodePart(
                    modality=part.modality,
                    codes=values,
                    label=part.label,
                    document=len(self.document_ends),
                    part=first_part + part.part,
                    literal=first_literal + part.literal,
                )
            )
        self.texts += texts
        self.special += pattern.special
        self.column += pattern.column
        self.literals += pattern.literals
        self.lengths += pattern.lengths
        self.weight += pattern.weight
        self.mask += pattern.mask
        self.is_added += pattern.is_added
        self.end_document()

    def end_document(self) -> None:
        self.document_ends.append(len(self.lengths))

    def undo_document(self) -> None:
        """Remove the parts of the document that has not ended."""
        stop = self.document_ends[-1] if self.document_ends else 0
        texts = sum(length == TEXT for length in self.lengths[stop:])
        literals = len(self.lengths) - stop - texts
        while self.codes and self.codes[-1].part >= stop:
            self.codes.pop()
        for values, count in (
            (self.texts, texts),
            (self.special, texts),
            (self.column, texts),
            (self.literals, literals),
            (self.lengths, texts + literals),
            (self.weight, texts + literals),
            (self.mask, texts + literals),
            (self.is_added, texts + literals),
        ):
            del values[len(values) - count :]

    def code_faults(self, blocks: Mapping[str, Block]) -> dict[int, str]:
        """Return what is wrong with the codes of which document; its first bad block is named."""
        found: list[tuple[int, int, str]] = []
        for modality, parts in self._by_modality():
            for i, reason in faults(*_joined(parts), blocks[modality]).items():
                found.append((parts[i].part, parts[i].document, f"{parts[i].label} {reason}"))
        return {document: reason for _, document, reason in sorted(found, reverse=True)}

    def wrapped(self, blocks: Mapping[str, Block], kept: Sequence[int]) -> Layout:
        """Return the documents with their codes wrapped; none of them may have a fault."""
        dropped = np.zeros(len(self.document_ends), np.int64)
        thinned = np.zeros(len(self.document_ends), np.int64)
        lengths = np.array(self.lengths, np.int64)
        literals = list(self.literals)
        for modality, parts in self._by_modality():
            wrapped = blocks[modality].wrap(*_joined(parts))
            documents = np.array([part.document for part in parts])
            np.add.at(dropped, documents, wrapped.dropped)
            np.add.at(thinned, documents, wrapped.thinned)
            lengths[[part.part for part in parts]] = wrapped.lengths
            stops = np.cumsum(wrapped.lengths).tolist()
            for part, start, stop in zip(parts, [0, *stops], stops, strict=False):
                literals[part.literal] = wrapped.ids[start:stop]
        return Layout(
            texts=self.texts,
            special=np.array(self.special, np.int64),
            column=np.array(self.column, np.int64),
            literals=joined_ids(literals),
            lengths=lengths,
            is_text=lengths == TEXT,
            weight=np.array(self.weight, np.float64),
            mask=np.array(self.mask, np.int8),
            is_added=np.array(self.is_added, np.bool_),
            document_ends=np.array(self.document_ends, np.int64),
            kept=np.array(kept, np.int64),
            codes_dropped=dropped,
            codes_thinned=thinned,
        )

    def _by_modality(self) -> list[tuple[str, list[CodePart]]]:
        by_name = [(m, [part for part in self.codes if part.modality == m]) for m in MODALITIES]
        return [(modality, parts) for modality, parts in by_name if parts]

    def _add(self, length: int, weight: float, mask: str = "", *, added: bool = False) -> None:
        self.lengths.append(length)
        self.weight.append(weight)
        self.mask.append(NUMBERS[mask])
        self.is_added.append(added)


NO_IDS: Ids = np.zeros(0, np.uint32)


def joined_ids(parts: Sequence[Ids]) -> Ids:
    return np.concatenate([NO_IDS, *parts]).astype(np.uint32, copy=False)


def _joined(parts: Sequence[CodePart]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    counts = np.array([len(part.codes) for part in parts], np.int64)
    return np.concatenate([part.codes for part in parts]), counts
