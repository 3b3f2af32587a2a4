"""Encode a small part of the texts of every run again, by the reference.

worker   SampledEngine keeps one text of every task, and one byte of text in 8,192
parent   SampleCheck encodes them again: a difference ends the run
"""

from __future__ import annotations

from collections.abc import Sequence

import xxhash

from dataprep.pipeline.engine import (
    EncodedTexts,
    Engine,
    EngineFailedError,
    Selection,
    SpecialInText,
    TokenizerFiles,
    check_sample,
    encode_texts,
    load_reference,
)
from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.types import Ids, Offsets

# One byte of text in so many is encoded again by the reference, which is some 50 to 150 times
# slower than a fast engine: one to two hundredths of the run.
BYTES_PER_CHECKED_BYTE = 8192
MAX_FREE_CHARACTERS = 1 << 16  # most of the one text that is checked in every task

Sample = list[tuple[str, list[int]]]  # texts and their ids


class InexactEngineError(DataprepError):
    """A fast engine gave other ids than the reference."""


class NoTexts(Engine):
    """Stand in for the engine of a run without texts, since a tokenizer takes long to load."""

    name = version = "none"

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        raise AssertionError("there are no texts to encode")


class SampledEngine:
    """Encode the texts of documents and keep a small sample of the ids, for the parent to check.

    What is kept is what the engine gave: `in_text` changes the ids of few texts, by the reference.
    """

    def __init__(self, engine: Engine, in_text: SpecialInText) -> None:
        self._engine = engine
        self._in_text = in_text
        self._credit = 0.0
        self._is_first = True  # batch of the task
        self._sample: Sample = []
        self._by_reference = 0

    def begin_task(self) -> None:
        self._is_first = True

    def encode(self, texts: Sequence[str], /) -> EncodedTexts:
        ids, offsets = self.encode_parsed(texts)
        return self._in_text.settle(texts, ids, offsets)

    def encode_parsed(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        """Return what the engine gives, which finds special tokens in texts."""
        ids, offsets = encode_texts(self._engine, texts)
        choice = self._choose(texts)
        if choice is not None:
            part = ids[int(offsets[choice]) : int(offsets[choice + 1])]
            self._sample.append((texts[choice], part.tolist()))
        return ids, offsets

    def _choose(self, texts: Sequence[str]) -> int | None:
        """Return which text of a batch to keep: one in every task, then as the credit allows."""
        lengths = list(map(len, texts))
        self._credit += sum(lengths) / BYTES_PER_CHECKED_BYTE
        if self._is_first and lengths:
            self._is_first = False
            shortest = min((n, i) for i, n in enumerate(lengths) if n) if any(lengths) else (0, 0)
            if 0 < shortest[0] <= MAX_FREE_CHARACTERS:
                return shortest[1]
        if lengths:
            # Any choice that depends only on the texts will do.
            choice = xxhash.xxh3_64_intdigest(texts[0].encode("utf-8")) % len(texts)
            if 0 < lengths[choice] <= self._credit:
                self._credit -= lengths[choice]
                return choice
        return None

    def take_by_reference(self) -> int:
        """Return how many texts the reference encoded for a fast engine since the last call."""
        so_far: int = getattr(self._engine, "num_reference", 0)
        count, self._by_reference = so_far - self._by_reference, so_far
        return count

    def take_sample(self) -> Sample:
        sample, self._sample = self._sample, []
        return sample


class SampleCheck:
    """Encode samples again with the reference, which is loaded for the first sample."""

    def __init__(self, files: TokenizerFiles, selection: Selection) -> None:
        self._files = files
        self._needed = selection.proof is not None
        self._reference: Engine | None = None

    def __call__(self, sample: Sample) -> None:
        if not sample or not self._needed:
            return
        if self._reference is None:
            self._reference = load_reference(self._files)
        try:
            check_sample(self._reference, [t for t, _ in sample], [ids for _, ids in sample])
        except (DataprepError, EngineFailedError) as error:  # also if only the reference fails
            raise InexactEngineError(str(error)) from None
