"""Encode decoded records in full batches, and return the codes of each record.

    records    a: 1 frame    b: 3 frames    c: 2 frames         batch size 4
    batches    [a b b b] [c c · ·]                               · black, its codes thrown away
    codes      a[1, tokens]  b[3, tokens]  c[2, tokens]

Every batch has the encoder's batch size. Sounds are encoded one by one.
"""

from __future__ import annotations

from collections import defaultdict
from traceback import extract_tb
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.encoders import AudioEncoder, Encoder, ImageEncoder, frame_size
from dataprep.pipeline.encoders.interface import Codes
from dataprep.pipeline.errors import DataprepError, lacks_memory
from dataprep.pipeline.media import Decoded
from dataprep.pipeline.media.decode import Frame


class Encoding(Protocol):
    def add(self, record: int, decoded: Decoded, /) -> int:
        """Add a record; return how many codes it will have. ValueError if it is bad."""

    def finish(self) -> None:
        """Encode what still waits; `codes_of` may be called after this."""

    def codes_of(self, record: int, /) -> Codes:
        """Return [frames, tokens] for vision, [codebooks, frames] for audio."""


class FrameEncoding:
    def __init__(self, encoder: ImageEncoder) -> None:
        self._encoder = encoder
        self._frames: list[Frame] = []  # waiting until the batch is full
        self._owners: list[int] = []  # the record of each of them
        self._codes: defaultdict[int, list[Codes]] = defaultdict(list)

    def add(self, record: int, decoded: Decoded, /) -> int:
        num_frames = 0
        for frame in decoded.frames:
            self._frames.append(frame)
            self._owners.append(record)
            num_frames += 1
            if len(self._frames) == self._encoder.batch_size:
                self._encode()
        return num_frames * self._encoder.tokens_per_frame

    def finish(self) -> None:
        if self._frames:
            self._encode()

    def codes_of(self, record: int, /) -> Codes:
        return np.stack(self._codes.pop(record))

    def _encode(self) -> None:
        encoder = self._encoder
        batch = np.zeros((encoder.batch_size, *frame_size(encoder), 3), np.uint8)
        batch[: len(self._frames)] = self._frames
        codes = _call(encoder, batch)
        _check(codes, (encoder.batch_size, encoder.tokens_per_frame), encoder)
        for owner, row in zip(self._owners, codes, strict=False):
            self._codes[owner].append(row)
        self._frames, self._owners = [], []


class SoundEncoding:
    def __init__(self, encoder: AudioEncoder) -> None:
        self._encoder = encoder
        self._codes: dict[int, Codes] = {}

    def add(self, record: int, decoded: Decoded, /) -> int:
        assert decoded.waveform is not None
        codes = _call(self._encoder, decoded.waveform)
        _check(codes, (self._encoder.num_codebooks, *codes.shape[1:2]), self._encoder)
        if not codes.size:
            raise ValueError("is too short: the encoder gives no code for it")
        self._codes[record] = codes
        return codes.size

    def finish(self) -> None:
        """Do nothing: each sound was encoded when it was added."""

    def codes_of(self, record: int, /) -> Codes:
        return self._codes.pop(record)


def _call(encoder: Any, media: NDArray[Any]) -> Codes:
    """Return its codes; what a plugin does wrong is a fault neither of the record nor of ours."""
    try:
        codes: Codes = np.asarray(encoder.encode(media))
    except Exception as error:
        if isinstance(error, DataprepError) or lacks_memory(error):
            raise
        at = extract_tb(error.__traceback__)[-1]
        raise DataprepError(
            f"encoder {_name(encoder)} failed: {type(error).__name__}: {error} "
            f"({at.filename}, line {at.lineno})"
        ) from error
    if codes.dtype.kind not in "iu":
        raise DataprepError(
            f"encoder {_name(encoder)} gave codes of type {codes.dtype}, expected whole numbers"
        )
    return codes


def _check(codes: Codes, shape: tuple[int, ...], encoder: Encoder) -> None:
    """Check what a plugin gave: a code out of range would become another token."""
    if codes.shape != shape:
        raise DataprepError(
            f"encoder {_name(encoder)} gave codes of shape {codes.shape}, expected {shape}"
        )
    if codes.size and (codes.min() < 0 or codes.max() >= encoder.codebook_size):
        raise DataprepError(
            f"encoder {_name(encoder)} gave codes in {codes.min()}..{codes.max()}, "
            f"expected 0..{encoder.codebook_size - 1}"
        )


def _name(encoder: Encoder) -> str:
    return str(encoder.identity.get("encoder", type(encoder).__name__))
