"""A picture, a text and a sound of one thing, which agree as much as is asked for.

    latent     32 numbers of -1..1 that all three share
    own        32 numbers for each of the three
    made of    strength · latent + (1 - strength) · own

    picture    a circle: where it is, how large, in which colour
    text       a large red circle at the top left
    sound      a sine, the higher the smaller the circle

With a strength of 1 the text describes the picture; with 0 they have nothing to do with each other.
`alignment_score` is what came of it: the mean cosine of each two of the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.synthetic.draws import Raw
from dataprep.pipeline.synthetic.images import Pixels, paint_circle
from dataprep.pipeline.synthetic.sounds import Samples, sine

Numbers = NDArray[np.int64]  # i64[32], 32768 is 1

SIZE = 32
ONE = 1 << 15
# Colours by the signs of three numbers.
_COLOURS = {
    "black": (20, 20, 20),
    "blue": (30, 60, 220),
    "green": (30, 180, 60),
    "cyan": (40, 200, 210),
    "red": (220, 40, 30),
    "magenta": (210, 50, 200),
    "yellow": (230, 210, 40),
    "grey": (140, 140, 140),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    pixels: Pixels
    samples: Samples
    text: str
    latent: list[float]
    alignment_score: float


def make_pair(raw: Raw, strength: int, height: int, width: int, count: int, rate: int) -> Pair:
    """Return a pair; `strength` in units of 1 / 65536."""
    words: NDArray[np.uint64] = raw(4 * SIZE)
    drawn = (words >> np.uint64(48)).astype(np.int64).reshape(4, SIZE) - ONE
    shared, own = drawn[0], drawn[1:]
    seen, said, heard = (strength * shared + (65536 - strength) * own) >> 16
    scores = [_cosine(a, b) for a, b in combinations((seen, said, heard), 2)]
    return Pair(
        pixels=_picture(seen, height, width),
        samples=sine(500 - 300 * int(heard[2]) // ONE, count, rate),
        text=_text(said),
        latent=(shared / ONE).tolist(),
        alignment_score=round(sum(scores) / 3, 6),
    )


def _picture(numbers: Numbers, height: int, width: int) -> Pixels:
    pixels = np.full((height, width, 3), 245, np.uint8)
    down, across, size = (int(number) + ONE for number in numbers[:3])  # 0..65535
    half = min(height, width) // 2
    radius = max(1, half // 4 + half * size // (8 * ONE))
    centre = down * height // (2 * ONE), across * width // (2 * ONE)
    paint_circle(pixels, centre, radius, np.array(_COLOURS[_colour(numbers)], np.int64))
    return pixels


def _text(numbers: Numbers) -> str:
    """Return what the picture of these numbers would show."""
    down, across, size = (int(number) for number in numbers[:3])
    place = f"{'top' if down < 0 else 'bottom'} {'left' if across < 0 else 'right'}"
    return f"a {'small' if size < 0 else 'large'} {_colour(numbers)} circle at the {place}"


def _colour(numbers: Numbers) -> str:
    red, green, blue = (int(number >= 0) for number in numbers[3:6])
    return [*_COLOURS][4 * red + 2 * green + blue]


def _cosine(a: Numbers, b: Numbers) -> float:
    return int(a @ b) / sqrt(int(a @ a) * int(b @ b) or 1)
