"""Turn vision codes into blocks, as LWM trains on them.

codes  10 11 | 20 21 | 30 31 | 40      tokens_per_frame 2, max_frames 2
block  <vision> 10 11 8192 30 31 8193 </vision>
mask      0      1  1   1   1  1   1      0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.modalities import VisionConfig
from dataprep.pipeline.modalities.block import Wrapped, frame_fault, whole_frames
from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionBlock:
    """How frames are laid out, with the tags as ids."""

    start: Ids
    end: Ids
    tokens_per_frame: int
    end_of_frame: int
    end_of_media: int
    max_frames: int | None
    codebook_size: int
    code_offset: int
    drop_partial_frame: bool
    raw_dtype: np.dtype[Any]

    @property
    def codebooks(self) -> int:
        return 1

    @property
    def may_nest(self) -> bool:
        return False

    @property
    def max_code_id(self) -> int:
        highest = max(self.codebook_size - 1, self.end_of_frame, self.end_of_media)
        return highest + self.code_offset

    @property
    def max_id(self) -> int:
        return max(self.max_code_id, *(int(i) for i in (*self.start, *self.end)), 0)

    def flatten(self, codes: NDArray[Any], /) -> NDArray[Any]:
        """Take a list, or the array of an .npy: [frames, 256], [16, 16] or [frames, 16, 16]."""
        if codes.ndim == 1:
            return codes
        if self.tokens_per_frame not in np.cumprod(codes.shape[::-1]):
            shape = "×".join(map(str, codes.shape))
            raise ValueError(
                f"is {shape}, which holds no frames of {self.tokens_per_frame}; "
                "give the codes of all frames as one flat list"
            )
        return codes.reshape(-1)

    def fault(self, count: int, /) -> str:
        return frame_fault(
            count,
            self.tokens_per_frame,
            may_drop=self.drop_partial_frame,
            of="modalities.vision",
        )

    def wrap(self, codes: NDArray[Any], counts: Offsets, /) -> Wrapped:
        size = self.tokens_per_frame
        codes, counts, dropped = whole_frames(codes, counts, size)
        frames = codes.reshape(-1, size)
        num_frames = counts // size
        kept = num_frames
        if self.max_frames is not None and int(num_frames.max(initial=0)) > self.max_frames:
            kept = np.minimum(num_frames, self.max_frames)
            frames = frames[_thinned(num_frames, self.max_frames)]
        ids = np.empty((len(frames), size + 1), np.uint32)
        ids[:, :size] = frames
        if self.code_offset:
            ids[:, :size] += np.uint32(self.code_offset)
        ids[:, size] = self.end_of_frame + self.code_offset
        ids[np.cumsum(kept) - 1, size] = self.end_of_media + self.code_offset
        return Wrapped(
            ids=ids.reshape(-1),
            lengths=kept * (size + 1),
            dropped=dropped,
            thinned=(num_frames - kept) * size,
        )

    def shape(self, num_ids: int, /) -> str:
        frames, rest = divmod(num_ids, self.tokens_per_frame + 1)
        return f"{frames}×{self.tokens_per_frame}" + (f"+{rest}" if rest else "")

    def unwrap(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        """Return [frames, tokens] of each picture or video, without frames that were cut."""
        values = ids.astype(np.int64) - self.code_offset
        ends = np.flatnonzero((values == self.end_of_frame) | (values == self.end_of_media))
        if min(self.end_of_frame, self.end_of_media) < self.codebook_size:
            # A code may look like the end of a frame, so frames are found by counting.
            ends = np.arange(self.tokens_per_frame, len(ids), self.tokens_per_frame + 1)
        media: list[NDArray[np.int32]] = []
        frames: list[NDArray[np.int32]] = []
        for end in ends.tolist():
            frame = values[max(0, end - self.tokens_per_frame) : end]
            is_code = (frame >= 0) & (frame < self.codebook_size)
            if len(frame) == self.tokens_per_frame and is_code.all():
                frames.append(frame.astype(np.int32))
            if values[end] == self.end_of_media and frames:
                media.append(np.stack(frames))
                frames = []
        return [*media, np.stack(frames)] if frames else media

    def unwrap_cut(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        # If a code may look like the end of a frame, frames can only be counted from the beginning.
        can_tell = min(self.end_of_frame, self.end_of_media) >= self.codebook_size
        return self.unwrap(ids) if can_tell else []

    @property
    def facts(self) -> dict[str, int]:
        return {"tokens_per_frame": self.tokens_per_frame, "codebook_size": self.codebook_size}

    @property
    def lost(self) -> str:
        return ""


def make_vision_block(section: VisionConfig, start: Ids, end: Ids) -> VisionBlock:
    return VisionBlock(
        start=start,
        end=end,
        tokens_per_frame=section.tokens_per_frame,
        end_of_frame=section.end_of_frame,
        end_of_media=section.end_of_media,
        max_frames=section.max_frames,
        codebook_size=section.codebook_size,
        code_offset=section.code_offset,
        drop_partial_frame=section.partial_frame == "drop",
        raw_dtype=np.dtype(section.raw_dtype).newbyteorder("<"),
    )


def _thinned(num_frames: Offsets, limit: int) -> Offsets:
    """Return which of all frames stay if no record may have more than `limit`."""
    # Exactly this call: integer arithmetic picks other frames, first at 31 frames of 23.
    chosen = {
        count: np.linspace(0, count - 1, limit).astype(int) if count > limit else np.arange(count)
        for count in np.unique(num_frames).tolist()
    }
    firsts = (np.cumsum(num_frames) - num_frames).tolist()
    counts = num_frames.tolist()
    return np.concatenate([a + chosen[n] for a, n in zip(firsts, counts, strict=True)])
