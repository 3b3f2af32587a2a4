"""Turn pictures into codes without training: the mean colour of each cell of a grid.

    picture 256x256  ─►  16x16 cells of 16x16 pixels  ─►  mean Y, Cb, Cr  ─►  5 + 4 + 4 bits

    code   y y y y y b b b b r r r r        0..8191

All arithmetic is on integers, so codes are the same on every machine. Decoding paints each cell
with the middle of its colour's bin, so a decoded picture is a coarse mosaic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dataprep.configs.base import Model
from dataprep.pipeline.encoders.interface import Codes, EncoderSpec, Images, Weights

VERSION = 1  # raise it when the codes of a picture change
BITS = (5, 4, 4)  # of Y, Cb, Cr
# JPEG's colour space in units of 2**-16; rows are Y, Cb, Cr, columns R, G, B.
TO_YCC = np.array([[19595, 38470, 7471], [-11059, -21709, 32768], [32768, -27439, -5329]], np.int64)
TO_RGB = np.array([[65536, 0, 91881], [65536, -22553, -46802], [65536, 116130, 0]], np.int64)
CHROMA_ZERO = np.array([0, 128, 128], np.int64)
HALF = 1 << 15


class PatchesSettings(Model):
    size: int = Field(256, ge=1, le=4096, description="side of the picture in pixels")
    cells: int = Field(16, ge=1, description="cells along a side; a frame has cells² tokens")

    @model_validator(mode="after")
    def _cells_fit(self) -> PatchesSettings:
        if self.size % self.cells:
            raise ValueError(f"size {self.size} is not a multiple of cells {self.cells}")
        return self


class Patches:
    codebook_size = 1 << sum(BITS)
    batch_size = 16
    max_processes = None
    can_decode = True

    def __init__(self, settings: PatchesSettings) -> None:
        self.size = settings.size
        self.cells = settings.cells
        self.tokens_per_frame = settings.cells**2
        self.environment: Mapping[str, str] = {}
        self.identity: Mapping[str, Any] = {
            "encoder": "patches",
            "version": VERSION,
            "size": self.size,
            "cells": self.cells,
        }

    def encode(self, images: Images, /) -> Codes:
        count, side = len(images), self.size // self.cells
        cells = images.reshape(count, self.cells, side, self.cells, side, 3)
        # Rows first, 16 bits at a time: four times as fast as one sum over both axes.
        rows = cells.sum(axis=2, dtype=np.uint16 if side <= 257 else np.uint64)
        totals = rows.sum(axis=3, dtype=np.int64)
        means = (totals + side * side // 2) // (side * side)
        colours = ((means @ TO_YCC.T + HALF) >> 16) + CHROMA_ZERO
        return _pack(np.clip(colours, 0, 255)).reshape(count, -1)

    def decode(self, codes: Codes, /) -> Images:
        colours = _unpack(codes.astype(np.int64)) - CHROMA_ZERO
        pixels = np.clip((colours @ TO_RGB.T + HALF) >> 16, 0, 255).astype(np.uint8)
        grid = pixels.reshape(-1, self.cells, self.cells, 3)
        side = self.size // self.cells
        images: Images = grid.repeat(side, axis=1).repeat(side, axis=2)
        return images


def _pack(colours: NDArray[np.int64]) -> Codes:
    """Turn colours of 0..255 in [..., 3] into codes.

    >>> _pack(np.array([255, 128, 128])).item() == 0b11111_1000_1000
    True
    """
    code = np.zeros(colours.shape[:-1], np.int64)
    for channel, bits in enumerate(BITS):
        code = code << bits | colours[..., channel] >> (8 - bits)
    return code.astype(np.int32)


def _unpack(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn codes into colours in [..., 3], each the middle of its bin."""
    channels = []
    for bits in reversed(BITS):
        width = 1 << (8 - bits)
        channels.append((codes & ((1 << bits) - 1)) * width + width // 2)
        codes = codes >> bits
    return np.stack(channels[::-1], axis=-1)


def _open(settings: PatchesSettings, weights: Weights | None) -> Patches:
    return Patches(settings)


SPEC = EncoderSpec(
    name="patches",
    kind="vision",
    about="mean colour of each cell of a grid, 13 bits; no training, exact everywhere",
    settings=PatchesSettings,
    packages=("PIL",),
    extra="vision",
    takes_weights=False,
    open=_open,
)
