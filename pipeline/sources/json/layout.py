"""Prove that each line of a block is one JSON object, without decoding it.

The decoder takes many objects at once, but accepts an object over two lines and two objects in one.
This module proves that no object spans lines; then equal numbers of objects and lines mean one
object per line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.sources.json.array import JSON_SPACE
from dataprep.pipeline.sources.lines import LineBlock
from dataprep.pipeline.types import Offsets

_OPEN, _CLOSE, _RETURN, _NEWLINE = b"{}\r\n"
_IS_SPACE = np.isin(np.arange(256), list(JSON_SPACE))
_MAX_INDENT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLayout:
    lines: Offsets  # numbers of the lines that are not blank
    starts: Offsets  # of their objects in the block's data
    content: memoryview  # the objects, with white space between them


def find_filled(block: LineBlock) -> tuple[Offsets, bool]:
    """Return the lines that are not blank, and whether each starts with `{` and ends with `}`.

    If so, no object spans lines: inside an object `,` `}` or `]` comes after `}`, never `{`.
    """
    codes = np.frombuffer(block.data, np.uint8)
    starts, ends = block.starts, block.ends
    # Mostly there is no blank line and no \r: a small file should cost no more than this.
    if len(codes) and (codes[starts] == _OPEN).all() and (codes[ends - 1] == _CLOSE).all():
        return np.arange(len(starts)), True
    filled = np.flatnonzero(ends > starts)
    if len(filled) < len(starts):
        starts, ends = starts[filled], ends[filled]
    ends = ends - (codes[ends - 1] == _RETURN)
    tidy = (ends > starts) & (codes[starts] == _OPEN) & (codes[ends - 1] == _CLOSE)
    if tidy.all():
        return filled, True
    blank = np.zeros(len(filled), np.bool_)
    for i in np.flatnonzero(~tidy).tolist():
        content = block.data[starts[i] : ends[i]].strip(JSON_SPACE)
        blank[i] = not content
        tidy[i] = content.startswith(b"{") and content.endswith(b"}")
    return filled[~blank], bool((tidy | blank).all())


def lay_out_lines(block: LineBlock) -> ObjectLayout | None:
    filled, tidy = find_filled(block)
    if not tidy:
        return None
    content = memoryview(block.data)[int(block.starts[0]) : int(block.ends[-1])]
    return ObjectLayout(lines=filled, starts=block.starts[filled], content=content)


def lay_out_elements(block: LineBlock) -> ObjectLayout | None:
    """Lay out the elements of an array, with the commas between them turned into newlines.

    No object spans two elements: at the comma between elements all brackets are closed.
    """
    codes = np.frombuffer(block.data, np.uint8).copy()
    starts = _skip_space(codes, block.starts, block.ends)
    if starts is None or (codes[starts] != _OPEN).any():
        return None
    codes[block.ends[block.ends < len(codes)]] = _NEWLINE
    content = codes.data[int(block.starts[0]) : int(block.ends[-1])]
    return ObjectLayout(lines=np.arange(len(starts)), starts=starts, content=content)


def _skip_space(codes: NDArray[np.uint8], starts: Offsets, ends: Offsets) -> Offsets | None:
    """Return the first bytes that are not blank; None for an empty element or a deep indent."""
    for _ in range(_MAX_INDENT):
        if (starts >= ends).any():
            return None
        blank = _IS_SPACE[codes[starts]]
        if not blank.any():
            return starts
        starts = starts + blank
    return None
