"""Settings that are a height and a width: 256 for a square, or 128x256."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

MOST = 4096


def sides(size: int | str) -> tuple[int, int]:
    """Return the height and the width.

    >>> sides(256), sides("128x256")
    ((256, 256), (128, 256))
    """
    if isinstance(size, int):
        return size, size
    height, _, width = size.partition("x")
    return int(height), int(width or height)


def _in_short(size: int | str) -> int | str:
    """Return the only spelling of a size: a square is one number."""
    if isinstance(size, str) and not re.fullmatch(r"\d{1,4}(x\d{1,4})?", size):
        raise ValueError("must be a number, or height x width such as 128x256")
    height, width = sides(size)
    if not (1 <= height <= MOST and 1 <= width <= MOST):
        raise ValueError(f"must be from 1 to {MOST}")
    return height if height == width else f"{height}x{width}"


Size = Annotated[int | str, AfterValidator(_in_short)]
