"""Turn audio codes of K codebooks into blocks.

    codes    codebook 0   1 2 3         codebook_size 10, so ids of codebook 1 start at 10
             codebook 1   4 5 6         and the empty cells of `delay` are 20
    flatten  1 14 2 15 3 16             frame by frame
    delay    1 20 2 14 3 15 20 16       codebook k is k steps late: K rows of T + K - 1
    first    1 2 3                      codebook 0 only

All of these ids are under the mask; the tags around them are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.base import CodebookLayout
from dataprep.configs.modalities import AudioConfig
from dataprep.pipeline.modalities.block import Wrapped, frame_fault, whole_frames
from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioBlock:
    """How codes of sound are laid out, with the tags as ids."""

    start: Ids
    end: Ids
    codebooks: int
    codebook_size: int
    layout: CodebookLayout
    separate_codebooks: bool
    fill: int
    code_offset: int
    drop_partial_frame: bool
    raw_dtype: np.dtype[Any]

    @property
    def may_nest(self) -> bool:
        return True

    @property
    def max_code_id(self) -> int:
        shifts = self._shifts()
        highest = int(shifts[0 if self.layout == "first" else -1]) + self.codebook_size - 1
        if self.layout == "delay":
            highest = max(highest, self.fill)
        return highest + self.code_offset

    @property
    def max_id(self) -> int:
        return max(self.max_code_id, *(int(i) for i in (*self.start, *self.end)), 0)

    def flatten(self, codes: NDArray[Any], /) -> NDArray[Any]:
        """Take a list of K codebooks, or one list that goes frame by frame."""
        if codes.ndim == 1:
            return codes
        if codes.ndim == 2 and len(codes) == self.codebooks:
            return codes.T.reshape(-1)
        shape = "×".join(map(str, codes.shape))
        raise ValueError(
            f"is {shape}, not {self.codebooks} codebooks of equal length; "
            "set modalities.audio.codebooks"
        )

    def fault(self, count: int, /) -> str:
        return frame_fault(
            count, self.codebooks, may_drop=self.drop_partial_frame, of="modalities.audio"
        )

    def wrap(self, codes: NDArray[Any], counts: Offsets, /) -> Wrapped:
        codes, counts, dropped = whole_frames(codes, counts, self.codebooks)
        frames = codes.reshape(-1, self.codebooks).astype(np.uint32)
        frames += (self._shifts() + self.code_offset).astype(np.uint32)
        nothing = np.zeros_like(counts)
        if self.layout == "first":
            kept = counts // self.codebooks
            ids = np.ascontiguousarray(frames[:, 0])
            return Wrapped(ids=ids, lengths=kept, dropped=dropped, thinned=counts - kept)
        if self.layout == "flatten":
            return Wrapped(ids=frames.reshape(-1), lengths=counts, dropped=dropped, thinned=nothing)
        lengths = counts + self.codebooks * (self.codebooks - 1)
        ids = np.full(int(lengths.sum()), self.fill + self.code_offset, np.uint32)
        moved = np.cumsum(lengths) - lengths - (np.cumsum(counts) - counts)
        places = np.arange(len(codes)).reshape(-1, self.codebooks)
        places += np.repeat(moved, counts // self.codebooks)[:, None]
        places += self.codebooks * np.arange(self.codebooks)
        ids[places.reshape(-1)] = frames.reshape(-1)
        return Wrapped(ids=ids, lengths=lengths, dropped=dropped, thinned=nothing)

    def shape(self, num_ids: int, /) -> str:
        """Return codebooks and frames: 4×75."""
        books = 1 if self.layout == "first" else self.codebooks
        late = self.codebooks - 1 if self.layout == "delay" else 0
        frames, rest = divmod(max(0, num_ids - books * late), books)
        return f"{books}×{frames}" + (f"+{rest}" if rest else "")

    def unwrap(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        """Return one array [codebooks, frames], or none if the block was cut within a frame."""
        books = 1 if self.layout == "first" else self.codebooks
        values = ids.astype(np.int64) - self.code_offset
        late = books - 1 if self.layout == "delay" else 0
        num_frames, rest = divmod(len(ids), books)
        if rest or num_frames <= late:
            return []
        steps = values.reshape(num_frames, books)
        rows = [steps[k if late else 0 :, k][: num_frames - late] for k in range(books)]
        codes = np.stack(rows) - self._shifts()[:books, None]
        if (codes < 0).any() or (codes >= self.codebook_size).any():
            return []
        return [codes.astype(np.int32)]

    def unwrap_cut(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        if self.codebooks > 1 and not self.separate_codebooks:
            return []
        for first in range(self.codebooks):
            # Ids that begin within a frame fall outside the codebooks that they would be of.
            whole = (len(ids) - first) // self.codebooks * self.codebooks
            codes = self.unwrap(ids[first : first + whole])
            if codes:
                return codes
        return []

    @property
    def facts(self) -> dict[str, int]:
        return {"num_codebooks": self.codebooks, "codebook_size": self.codebook_size}

    @property
    def lost(self) -> str:
        if self.layout != "first" or self.codebooks == 1:
            return ""
        return (
            f"holds only the first of {self.codebooks} codebooks (modalities.audio.layout), "
            "which cannot be decoded"
        )

    def _shifts(self) -> Offsets:
        """Return what is added to the codes of each codebook."""
        return np.arange(self.codebooks) * (self.codebook_size if self.separate_codebooks else 0)


def make_audio_block(section: AudioConfig, start: Ids, end: Ids) -> AudioBlock:
    books = section.codebooks if section.separate_codebooks else 1
    return AudioBlock(
        start=start,
        end=end,
        codebooks=section.codebooks,
        codebook_size=section.codebook_size,
        layout=section.layout,
        separate_codebooks=section.separate_codebooks,
        fill=books * section.codebook_size if section.fill is None else section.fill,
        code_offset=section.code_offset,
        drop_partial_frame=section.partial_frame == "drop",
        raw_dtype=np.dtype(section.raw_dtype).newbyteorder("<"),
    )
