"""A record as parts: texts to encode, literal ids, codes to wrap, each with its flags.

    record   {"q": "ab", "a": "c"}      spec  [q],a
    parts    BOS | ab | c | EOS         each: a text to encode, or literal ids
    loss      0    0    1    1          a flag a part, so masks are runs from the start

Codes wait until those of a whole batch are there: they are checked and wrapped in one stroke.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.assemble import Layout
from dataprep.pipeline.fields import Field, Grammar
from dataprep.pipeline.modality import Block, faults
from dataprep.pipeline.types import MODALITIES, Ids, Record
from dataprep.pipeline.values import (
    base64_ids,
    codes_of,
    segments_of,
    text_of,
)

TEXT, CODES = -1, -2  # lengths of parts that are not known yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the records of one source become documents."""

    fields: tuple[Field, ...]  # used where fields_from is ""
    fields_from: str
    fields_index: int | None
    grammar: Grammar
    bos: int | None  # what <|bos|> means
    eos: int | None
    add_bos: bool
    add_eos: bool
    prepend_text: str
    subfield_separator: str
    text_prefix: Ids  # special ids put before and after every text field, mostly none
    text_suffix: Ids
    blocks: Mapping[str, Block]  # by modality
    vocab_size: int
    masks: tuple[str, ...]  # "loss", then modalities
    dtype: np.dtype[Any]  # of tokens on disk


class CodePart(NamedTuple):
    """Codes of one block, not yet wrapped."""

    modality: str
    codes: NDArray[Any]
    label: str  # what an error calls it
    document: int
    part: int
    literal: int  # its place among the literals


@dataclass(slots=True)
class Parts:
    """Parts of consecutive documents, being laid out."""

    texts: list[str] = field(default_factory=list)
    literals: list[Ids] = field(default_factory=list)
    codes: list[CodePart] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    loss: list[bool] = field(default_factory=list)
    modality: list[int] = field(default_factory=list)  # 0: none, n: MODALITIES[n - 1]
    document_ends: list[int] = field(default_factory=list)  # in parts

    def add_text(self, text: str, loss: bool) -> None:
        self.texts.append(text)
        self._add(TEXT, loss)

    def add_ids(self, ids: Ids, loss: bool) -> None:
        self.literals.append(ids)
        self._add(len(ids), loss)

    def add_block(
        self, codes: NDArray[Any], modality: str, block: Block, loss: bool, label: str
    ) -> None:
        self.add_ids(block.start, loss)
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
        self._add(CODES, loss, MODALITIES.index(modality) + 1)
        self.add_ids(block.end, loss)

    def add_alike(
        self, pattern: Parts, texts: Sequence[str], codes: Sequence[NDArray[Any]]
    ) -> None:
        """A document with the same parts as that of `pattern`, but for its texts and codes."""
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
        self.literals += pattern.literals
        self.lengths += pattern.lengths
        self.loss += pattern.loss
        self.modality += pattern.modality
        self.end_document()

    def end_document(self) -> None:
        self.document_ends.append(len(self.lengths))

    def undo_document(self) -> None:
        """Forget the document that was begun."""
        stop = self.document_ends[-1] if self.document_ends else 0
        texts = sum(length == TEXT for length in self.lengths[stop:])
        literals = len(self.lengths) - stop - texts
        while self.codes and self.codes[-1].part >= stop:
            self.codes.pop()
        for values, count in (
            (self.texts, texts),
            (self.literals, literals),
            (self.lengths, texts + literals),
            (self.loss, texts + literals),
            (self.modality, texts + literals),
        ):
            del values[len(values) - count :]

    def code_faults(self, blocks: Mapping[str, Block]) -> dict[int, str]:
        """What is wrong with the codes of which document; the first block that is bad speaks."""
        found: list[tuple[int, int, str]] = []
        for modality, parts in self._by_modality():
            for i, reason in faults(*_joined(parts), blocks[modality]).items():
                found.append((parts[i].part, parts[i].document, f"{parts[i].label} {reason}"))
        return {document: reason for _, document, reason in sorted(found, reverse=True)}

    def wrapped(self, blocks: Mapping[str, Block], kept: Sequence[int]) -> Layout:
        """The documents with their codes wrapped; no document has a fault."""
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
            literals=joined_ids(literals),
            lengths=lengths,
            is_text=lengths == TEXT,
            loss=np.array(self.loss, bool),
            modality=np.array(self.modality, np.int8),
            document_ends=np.array(self.document_ends, np.int64),
            kept=np.array(kept, np.int64),
            codes_dropped=dropped,
            codes_thinned=thinned,
        )

    def _by_modality(self) -> list[tuple[str, list[CodePart]]]:
        by_name = [(m, [part for part in self.codes if part.modality == m]) for m in MODALITIES]
        return [(modality, parts) for modality, parts in by_name if parts]

    def _add(self, length: int, loss: bool, modality: int = 0) -> None:
        self.lengths.append(length)
        self.loss.append(loss)
        self.modality.append(modality)


NO_IDS: Ids = np.zeros(0, np.uint32)


def joined_ids(parts: Sequence[Ids]) -> Ids:
    return np.concatenate([NO_IDS, *parts]).astype(np.uint32, copy=False)


def _joined(parts: Sequence[CodePart]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    counts = np.array([len(part.codes) for part in parts], np.int64)
    return np.concatenate([part.codes for part in parts]), counts


def without_segments(record: Record, fields: tuple[Field, ...]) -> tuple[Record, tuple[Field, ...]]:
    """Segments as fields of their own: {"segments": [{"type": "text", "text": "a"}, …]} has the
    text field `segments[0]`."""
    if not any(f.kind == "segments" for f in fields):
        return record, fields
    values = dict(record)
    found: list[Field] = []
    for f in fields:
        if f.kind != "segments":
            found.append(f)
            continue
        (key,) = f.keys
        for i, (kind, loss, value) in enumerate(segments_of(record, key)):
            segment = _segment_field(key, i, kind, f.loss and loss)
            values[segment.keys[0]] = value
            found.append(segment)
    return values, tuple(found)


@lru_cache(maxsize=1 << 12)
def _segment_field(key: str, number: int, kind: str, loss: bool) -> Field:
    keys = (f"{key}[{number}]",)
    if kind == "text":
        return Field(kind="text", keys=keys, loss=loss)
    return Field(kind="codes", keys=keys, loss=loss, modality=kind)


def pattern_of(fields: Sequence[Field], rules: Rules) -> Parts | None:
    """The parts that every document of these fields has, with empty texts and no codes.

    None where their number depends on the record. ValueError where no record can have such fields.
    """
    if any(f.kind in ("base64", "segments") for f in fields):
        return None
    empty = np.zeros(0, np.int64)
    blank = {key: empty if f.kind == "codes" else "" for f in fields for key in f.keys}
    pattern = Parts()
    add_document(pattern, blank, fields, rules)
    return pattern


def add_by_pattern(
    parts: Parts, record: Record, fields: Sequence[Field], rules: Rules, pattern: Parts
) -> None:
    """As `add_document`, in a third of its time; adds nothing where it raises ValueError."""
    texts, codes = [], []
    for f in fields:
        if f.kind == "text":
            texts.append(_joined_text(record, f, rules))
        elif f.kind == "codes":
            codes.append(_codes_in(record, f, rules))
    if rules.prepend_text and fields and fields[0].kind == "text":
        texts[0] = rules.prepend_text + texts[0]
    parts.add_alike(pattern, texts, codes)


def add_document(parts: Parts, record: Record, fields: Sequence[Field], rules: Rules) -> None:
    """Lay out one document without segments; ValueError says which field is wrong and how."""
    if rules.add_bos:
        parts.add_ids(_special(rules.bos, "BOS"), loss=False)
    for i, f in enumerate(fields):
        prepended = rules.prepend_text if i == 0 else ""
        if f.kind == "text":
            _add_text(parts, prepended + _joined_text(record, f, rules), f.loss, rules)
        elif f.kind == "codes":
            codes, block = _codes_in(record, f, rules), rules.blocks[f.modality]
            parts.add_block(codes, f.modality, block, f.loss, f"field {f.keys[0]!r}")
        elif f.kind == "base64":
            parts.add_ids(base64_ids(record, f.keys[0], rules.vocab_size), f.loss)
        elif f.kind == "id":
            if f.id >= rules.vocab_size:
                raise ValueError(f"<|{f.id}|> is outside the vocabulary of {rules.vocab_size}")
            parts.add_ids(np.array([f.id], np.uint32), f.loss)
        else:
            special = rules.bos if f.kind == "bos" else rules.eos
            parts.add_ids(_special(special, f.kind.upper()), f.loss)
    if rules.add_eos:
        parts.add_ids(_special(rules.eos, "EOS"), loss=True)
    parts.end_document()


def _add_text(parts: Parts, text: str, loss: bool, rules: Rules) -> None:
    if len(rules.text_prefix):
        parts.add_ids(rules.text_prefix, loss)
    parts.add_text(text, loss)
    if len(rules.text_suffix):
        parts.add_ids(rules.text_suffix, loss)


def _joined_text(record: Record, f: Field, rules: Rules) -> str:
    if len(f.keys) == 1:
        return text_of(record, f.keys[0])
    return rules.subfield_separator.join(text_of(record, key) for key in f.keys)


def _codes_in(record: Record, f: Field, rules: Rules) -> NDArray[Any]:
    (key,) = f.keys
    if f.modality not in rules.blocks:
        raise ValueError(
            f"field {key!r} is {f.modality}, whose tags the tokenizer cannot spell; "
            f"set modalities.{f.modality}.start and end to lists of ids"
        )
    by_name = rules.grammar.modality_of(key)
    hint = f"; set modalities.{by_name}.fields if it is text" if by_name else ""
    return codes_of(record, key, rules.blocks[f.modality], hint)


def _special(value: int | None, name: str) -> Ids:
    if value is None:
        raise ValueError(f"the tokenizer names no {name}; set {name.lower()}_token")
    return np.array([value], np.uint32)
