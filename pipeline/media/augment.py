"""Change pictures at random: mirror, crop, brightness, contrast, saturation.

    seed 0, cats/tom.jpg, variant 2  ─►  eight random numbers  ─►  flip, crop by 0.91 …

The numbers follow from the seed, the name of the picture in its source and the number of the
variant: not from workers, other pictures or the order of files. Each change has a number of its
own, so that setting one leaves the others as they are. All frames of a video are changed alike.
Colours are computed with whole numbers, so pixels are the same on every machine; that is also why
there is no rotation by any angle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from dataprep.configs.augment import AugmentConfig

ONE = 1 << 16  # 1.0 in the units of factors and shares
HALF = ONE >> 1
LUMA = np.array([19595, 38470, 7471], np.int64)  # of R, G, B, in the same units
_DRAWS = ("flip", "flip_vertical", "crop", "left", "top", "brightness", "contrast", "saturation")

Pixels = NDArray[np.uint8]  # u8[height, width, 3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """What is done to one variant of a picture; factors in units of 1 / 65536."""

    flip: bool
    flip_vertical: bool
    share: int  # of width and height that is kept
    left: int  # 64 random bits each: where the rest is cut off
    top: int
    brightness: int
    contrast: int
    saturation: int

    @property
    def crops(self) -> bool:
        return self.share < ONE

    def box(self, size: tuple[int, int], aspect: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return what is kept of a picture of (width, height): left, top, right, bottom."""
        (width, height), (across, down) = size, aspect
        if width * down < height * across:
            whole = width, max(1, width * down // across)
        else:
            whole = max(1, height * across // down), height
        kept = [max(1, side * self.share >> 16) for side in whole]
        left, top = (self.left % (width - kept[0] + 1), self.top % (height - kept[1] + 1))
        return left, top, left + kept[0], top + kept[1]

    def of_pixels(self, pixels: Pixels) -> Pixels:
        """Return the pixels mirrored and in other colours."""
        if self.flip:
            pixels = pixels[:, ::-1]
        if self.flip_vertical:
            pixels = pixels[::-1]
        if self.brightness != ONE:
            pixels = _scaled_from(0, self.brightness)[pixels]
        if self.contrast != ONE:
            pixels = _scaled_from(int(_grey(pixels).sum()) // pixels[..., 0].size, self.contrast)[
                pixels
            ]
        if self.saturation != ONE:
            grey = _grey(pixels)[..., None]
            coloured = (grey << 16) + (pixels - grey) * self.saturation
            pixels = np.clip(coloured + HALF >> 16, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(pixels)


def alteration_of(config: AugmentConfig, name: str, variant: int) -> Alteration | None:
    """Return how a variant of the picture of this name is altered; None: it is the picture."""
    if not variant:
        return None
    key = xxhash.xxh3_128_digest(f"{config.seed}\0{variant}\0{name}".encode())
    raw = np.random.Philox(key=np.frombuffer(key, "<u8")).random_raw(len(_DRAWS))
    draw = dict(zip(_DRAWS, map(int, raw), strict=True))
    least = round(config.crop * ONE)
    return Alteration(
        flip=_happens(draw["flip"], config.flip),
        flip_vertical=_happens(draw["flip_vertical"], config.flip_vertical),
        share=least + draw["crop"] % (ONE - least + 1),
        left=draw["left"],
        top=draw["top"],
        brightness=_factor(draw["brightness"], config.brightness),
        contrast=_factor(draw["contrast"], config.contrast),
        saturation=_factor(draw["saturation"], config.saturation),
    )


def _happens(number: int, rate: float) -> bool:
    return (number >> 11) * 2.0**-53 < rate


def _factor(number: int, most: float) -> int:
    """Return a factor of 1 - most to 1 + most."""
    spread = round(most * ONE)
    return ONE - spread + number % (2 * spread + 1)


def _scaled_from(centre: int, factor: int) -> Pixels:
    """Return a table of 256 values, by which differences from the centre grow by the factor."""
    values = (centre << 16) + (np.arange(256) - centre) * factor
    table: Pixels = np.clip(values + HALF >> 16, 0, 255).astype(np.uint8)
    return table


def _grey(pixels: Pixels) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (pixels * LUMA).sum(axis=-1) + HALF >> 16
    return found
