"""Made-up pictures: random codes, or patterns of pixels.

    random          noise
    gradient        from one colour to another, in any direction
    checkerboard    cells of any size, in two colours
    circles         one to four of them, anywhere
    digits          0 to 9, one of them, grey on black, with noise: `label` tells which

The codes of a pattern are the brightness of 16 x 16 points of it, spelled as encoder `patches`
spells grey, so that it can decode them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.synthetic.draws import Raw, between

Pixels = NDArray[np.uint8]  # u8[height, width, 3]
CODEBOOK_SIZE = 8192
CODES_PER_FRAME = 256
GRID = 16  # points of a side that have a code
_MAX_FRAMES = 4
_LUMA = np.array([19595, 38470, 7471], np.int64)  # of R, G, B, in units of 2**-16
_GREY = 8 << 4 | 8  # of the chroma bits of a code
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Seven rows of five points for each digit, from the top.
_GLYPHS = np.array(
    [
        *(
            "01110100011001110101110011000101110"
            "00100011000010000100001000010001110"
            "01110100010000100010001000100011111"
            "11111000100010000010000011000101110"
            "00010001100101010010111110001000010"
            "11111100001111000001000011000101110"
            "00110010001000011110100011000101110"
            "11111000010001000100010000100001000"
            "01110100011000101110100011000101110"
            "01110100011000101111000010001001100"
        )
    ],
    np.int64,
).reshape(10, 7, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    pixels: Pixels
    text: str  # what is on it
    label: int | None = None


def random_codes(raw: Raw) -> NDArray[np.uint16]:
    """Return codes of one to four frames."""
    frames = 1 + int(raw()) % _MAX_FRAMES
    numbers: NDArray[np.uint64] = raw(frames * CODES_PER_FRAME)
    return (numbers % np.uint64(CODEBOOK_SIZE)).astype(np.uint16)


def codes_of(pixels: Pixels) -> NDArray[np.uint16]:
    """Return u16[256]."""
    height, width, _ = pixels.shape
    down, across = ((2 * np.arange(GRID) + 1) * side // (2 * GRID) for side in (height, width))
    grey: NDArray[np.int64] = (pixels[down][:, across] * _LUMA).sum(axis=-1) >> 16
    return (grey >> 3 << 8 | _GREY).astype(np.uint16).ravel()


def _noise(raw: Raw, height: int, width: int, classes: int) -> Picture:
    words: NDArray[np.uint64] = raw((height * width * 3 + 7) // 8)
    noise = words.astype("<u8").view(np.uint8)[: height * width * 3].reshape(height, width, 3)
    return Picture(pixels=noise, text="noise")


def _gradient(raw: Raw, height: int, width: int, classes: int) -> Picture:
    across, down = between(raw, -8, 8), between(raw, -8, 8)
    across = across or int(not down)
    first, last = _colour(raw), _colour(raw)
    slope = across * np.arange(width) + down * np.arange(height)[:, None]
    share = (slope - slope.min()) * 65536 // max(1, int(slope.max() - slope.min()))
    pixels = (first * 65536 + share[..., None] * (last - first)) >> 16
    return Picture(
        pixels=pixels.astype(np.uint8), text=f"a gradient from {_hex(first)} to {_hex(last)}"
    )


def _checkerboard(raw: Raw, height: int, width: int, classes: int) -> Picture:
    side = between(raw, 1, max(1, min(height, width) // 4))
    colours = np.stack([_colour(raw), _colour(raw)])
    cells = (np.arange(height)[:, None] // side + np.arange(width) // side) % 2
    return Picture(pixels=colours[cells].astype(np.uint8), text=f"a checkerboard of {side} pixels")


def _circles(raw: Raw, height: int, width: int, classes: int) -> Picture:
    pixels = np.broadcast_to(_colour(raw), (height, width, 3)).astype(np.uint8)
    count, largest = between(raw, 1, 4), max(1, min(height, width) // 3)
    for _ in range(count):
        centre, radius = (
            (between(raw, 0, height - 1), between(raw, 0, width - 1)),
            between(raw, 1, largest),
        )
        paint_circle(pixels, centre, radius, _colour(raw))
    return Picture(pixels=pixels, text="a circle" if count == 1 else f"{NAMES[count]} circles")


def paint_circle(
    pixels: Pixels, centre: tuple[int, int], radius: int, colour: NDArray[np.int64]
) -> None:
    down, across = (np.arange(side) for side in pixels.shape[:2])
    inside = (down[:, None] - centre[0]) ** 2 + (across - centre[1]) ** 2 <= radius**2
    pixels[inside] = colour


def _digit(raw: Raw, height: int, width: int, classes: int) -> Picture:
    label = between(raw, 0, classes - 1)
    rows = np.array([*_GLYPHS[label]], np.int64).reshape(7, 5)
    scale = max(1, min(height // 9, width // 7))
    shown = rows.repeat(scale, axis=0).repeat(scale, axis=1)[:height, :width]
    top, left = (
        between(raw, 0, max(0, n - m)) for n, m in zip((height, width), shown.shape, strict=True)
    )
    grey = _noise(raw, height, width, classes).pixels[..., 0].astype(np.int64) >> 3
    grey[top : top + shown.shape[0], left : left + shown.shape[1]] += shown * between(raw, 160, 220)
    pixels = np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
    return Picture(pixels=pixels, text=NAMES[label], label=label)


def _colour(raw: Raw) -> NDArray[np.int64]:
    bits = int(raw())
    return np.array([bits & 255, bits >> 8 & 255, bits >> 16 & 255], np.int64)


def _hex(colour: NDArray[np.int64]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour.tolist())


# (raw, height, width, number of classes) -> the picture
PATTERNS: Mapping[str, Callable[[Raw, int, int, int], Picture]] = {
    "random": _noise,
    "gradient": _gradient,
    "checkerboard": _checkerboard,
    "circles": _circles,
    "digits": _digit,
}
