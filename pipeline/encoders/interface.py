"""The contract of an encoder, which turns pictures or sound into discrete codes.

    vision   u8[n, height, width, 3] ─►  codes[n, tokens_per_frame]
    audio    f32[samples] at `rate`  ─►  codes[num_codebooks, frames]

An encoder is opened in the parent, which only reads its attributes, and in every worker, which
calls it. So opening must be cheap: the first call loads weights and packages.

Codes must depend only on the input. The arithmetic of an encoder may differ in the last bit with
the shape of a batch, so every batch has the same shape, and which pictures share a batch depends
only on the input (`encode.batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from dataprep.pipeline.types import Modality

Images = NDArray[np.uint8]  # u8[n, height, width, 3], RGB
Waveform = NDArray[np.float32]  # f32[samples], within -1..1
Codes = NDArray[np.int32]


class ImageEncoder(Protocol):
    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that the codes depend on, as plain values; part of the fingerprint."""

    @property
    def codebook_size(self) -> int: ...

    @property
    def tokens_per_frame(self) -> int: ...

    @property
    def size(self) -> int | tuple[int, int]:
        """The (height, width) that pictures are brought to (`media.pictures`); one for a square."""

    @property
    def batch_size(self) -> int:
        """Pictures per call; a last batch that is not full is filled up with black pictures."""

    @property
    def max_processes(self) -> int | None:
        """How many processes may have it open: None for any number, 1 if it owns a device."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of its workers."""

    @property
    def can_decode(self) -> bool: ...

    def encode(self, images: Images, /) -> Codes: ...

    def decode(self, codes: Codes, /) -> Images: ...


class AudioEncoder(Protocol):
    @property
    def identity(self) -> Mapping[str, Any]: ...

    @property
    def codebook_size(self) -> int: ...

    @property
    def num_codebooks(self) -> int: ...

    @property
    def rate(self) -> int:
        """Samples per second; sound is resampled to it (`media.sound`)."""

    @property
    def max_processes(self) -> int | None: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def can_decode(self) -> bool: ...

    def encode(self, waveform: Waveform, /) -> Codes: ...

    def decode(self, codes: Codes, /) -> Waveform: ...


Encoder: TypeAlias = ImageEncoder | AudioEncoder


def frame_size(encoder: ImageEncoder) -> tuple[int, int]:
    """Return the height and width of an encoder's pictures."""
    size = encoder.size
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    path: str
    fingerprint: str  # of the content


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """An encoder that can be chosen by name; the entry point of a plugin must name one."""

    name: str
    kind: Modality
    about: str
    settings: type[BaseModel]
    packages: tuple[str, ...]  # what it imports; their versions go into the manifest
    extra: str  # the extra of dataprep that brings them; "" for none
    takes_weights: bool
    open: Callable[[Any, Weights | None], Encoder]  # (settings, weights)
