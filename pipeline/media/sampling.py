"""Choose which frames of a video or an animation to take.

    fps F      the frame that is on screen at 0, 1/F, 2/F … seconds
    frames N   np.linspace(0, F-1, N) as whole numbers, of all F frames; all if there are fewer

The second way is LWM's. A rate above the video's own repeats frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Prepare = Callable[[Any], NDArray[np.uint8]]  # a picture of PIL -> u8[height, width, 3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A frame and when it is on screen, in seconds."""

    start: Fraction
    stop: Fraction  # used only for the last frame
    frame: Any


def at_rate(shots: Iterable[Shot], fps: float) -> Iterator[Any]:
    """Yield frames one at a time, because those of a long video do not fit into memory."""
    step = 1 / Fraction(str(fps))
    shown: Shot | None = None
    begin = due = Fraction(0)
    for shot in shots:
        if shown is None:
            begin = shot.start
        while shown is not None and begin + due < shot.start:
            yield shown.frame
            due += step
        shown = shot
    if shown is None:
        raise ValueError("has no frames")
    while begin + due < shown.stop or begin + due == shown.start:
        yield shown.frame
        due += step


def at_most(frames: Iterable[Any], limit: int) -> Iterator[Any]:
    """Yield the frames; ValueError if there are more than `limit`."""
    for number, frame in enumerate(frames, 1):
        check_number(number, limit)
        yield frame


def check_number(number: int, limit: int) -> None:
    if number > limit:
        raise ValueError(
            f"has or gives more than {limit} frames; take fewer with --fps or --frames, cut it "
            "into several, or raise --max-frames"
        )


def places(total: int, count: int) -> list[int]:
    """Return which frames to take: `count` of `total`, evenly spread; all if there are fewer.

    >>> places(20, 4), places(3, 4)
    ([0, 6, 12, 19], [0, 1, 2])
    """
    if total <= count:
        return list(range(total))
    found: list[int] = np.linspace(0, total - 1, count).astype(int).tolist()
    return found
