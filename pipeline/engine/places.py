"""Find which bytes of a text each token stands for.

    text    <|im_end|>né      ids   151645 | 77 | 963       places  0–10 | 10–11 | 11–13

Engines give no places. Where the bytes of the tokens, one after the other, are those of the text,
they are its places: so it is for byte-level models. For other texts (a normalizer changed them, a
tokenizer drops blanks) the reference is asked, whose characters are turned into bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.models import load_model
from dataprep.pipeline.engine.models.model import TokenizerModel
from dataprep.pipeline.ragged import offsets_of, ranges
from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlaces:
    """Bytes of each token, in the texts end to end; those of a text ascend."""

    starts: Offsets  # i64[tokens]
    stops: Offsets  # i64[tokens]


class PlaceFinder:
    """Finds places for one tokenizer; ConfigError if those of its kind tell none."""

    def __init__(self, files: TokenizerFiles) -> None:
        self._files = files
        spelled = load_model(files).token_bytes()
        size = max(files.vocab_size, max(spelled, default=-1) + 1)
        # A token that is unknown here is longer than any text, so that no text fits it.
        self._lengths = np.full(size, 1 << 40, np.int64)
        known = sorted(spelled)
        self._lengths[known] = [len(spelled[id]) for id in known]
        self._firsts = np.zeros(size, np.int64)
        self._firsts[known] = offsets_of([len(spelled[id]) for id in known])[:-1]
        self._bytes = np.frombuffer(b"".join(spelled[id] for id in known), np.uint8)

    def find(self, texts: Sequence[str], ids: Ids, offsets: Offsets) -> TokenPlaces:
        """Return the places of all tokens, given what an engine made of the texts."""
        data = [text.encode("utf-8") for text in texts]
        bounds = offsets_of([len(each) for each in data])
        lengths = self._lengths[ids]
        sums = np.add.reduceat(np.append(lengths, 0), offsets[:-1]) if len(texts) else bounds[:0]
        sums = np.where(np.diff(offsets) > 0, sums, 0)
        fits = sums == np.diff(bounds)
        owners = np.repeat(np.arange(len(texts)), np.diff(offsets))
        if len(ids):
            fits &= self._agrees(ids, lengths, fits, owners, data)
        stops = np.cumsum(np.where(fits[owners], lengths, 0))
        starts = stops - np.where(fits[owners], lengths, 0)
        # Texts before that do not fit take no part in the sum.
        missing = offsets_of(np.where(fits, 0, np.diff(bounds)))[:-1]
        starts, stops = starts + missing[owners], stops + missing[owners]
        for i in np.flatnonzero(~fits).tolist():
            first, last = int(offsets[i]), int(offsets[i + 1])
            found = self.by_reference(texts[i], ids[first:last])
            starts[first:last] = found.starts + bounds[i]
            stops[first:last] = found.stops + bounds[i]
        return TokenPlaces(starts=starts, stops=stops)

    def _agrees(
        self,
        ids: Ids,
        lengths: Offsets,
        fits: NDArray[np.bool_],
        owners: Offsets,
        data: Sequence[bytes],
    ) -> NDArray[np.bool_]:
        """Return for each text whether its tokens spell it, if their bytes are as many as its."""
        kept = fits[owners]
        spelled = self._bytes[ranges(self._firsts[ids[kept]], lengths[kept])]
        given = np.frombuffer(
            b"".join(d for d, fit in zip(data, fits, strict=True) if fit), np.uint8
        )
        result = np.ones(len(data), np.bool_)
        differs = np.flatnonzero(spelled != given)
        if len(differs):
            which = np.flatnonzero(fits)
            bounds = offsets_of([len(data[i]) for i in which.tolist()])
            result[which[np.searchsorted(bounds, differs, side="right") - 1]] = False
        return result

    def by_reference(self, text: str, ids: Ids) -> TokenPlaces:
        places = self._model.locate(text)
        assert len(places) == len(ids), "an engine gave other ids than the reference"
        return in_bytes(text, places)

    @cached_property
    def _model(self) -> TokenizerModel:
        return load_model(self._files)  # a new one: mostly it is never asked, and need not be kept


def in_bytes(text: str, places: Sequence[tuple[int, int]]) -> TokenPlaces:
    """Return places in characters as places in bytes.

    >>> in_bytes("né!", [(0, 2), (2, 3)]).stops.tolist()
    [3, 4]
    """
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    sizes = 1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF)
    bytes_before = offsets_of(sizes.astype(np.int64))
    found = np.array(places, np.int64).reshape(-1, 2)
    return TokenPlaces(starts=bytes_before[found[:, 0]], stops=bytes_before[found[:, 1]])
