"""Tables of text on a terminal: the first column is a name, the others are what is said of it.

    lang   documents   tokens
    en            12    3,410
    a name that is longer than the terminal leaves room for has
    a line of its own
                   2      112

Columns are as wide as characters are shown: 漢 takes two places, an accent of its own none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = "  "
LEAST_ROOM = 20  # columns for names, however narrow the terminal


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> width_of("lang"), width_of("漢字"), width_of("e\\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def table(rows: Sequence[Sequence[str]], room: int, left: Sequence[int] = (0,)) -> list[str]:
    """Return the lines of a table that fits `room` columns of a terminal, names that do not on a
    line of their own; columns other than those in `left` are set to the right.

    >>> print("\\n".join(table([("by", "n"), ("a", "10"), ("b" * 25, "9")], room=26)))
    by   n
    a   10
    bbbbbbbbbbbbbbbbbbbbbbbbb
         9
    """
    sizes = [list(map(width_of, row)) for row in rows]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    most = max(LEAST_ROOM, room - sum(widths[1:]) - len(GAP) * len(widths[1:]))
    widths[0] = max((first for first, *_ in sizes if first <= most), default=0)
    lines: list[str] = []
    for row, (first, *others) in zip(rows, sizes, strict=True):
        name = row[0]
        if first > most:
            lines.append(name)
            name, first = "", 0
        cells = [
            _set(text, width - size, is_left=place in left)
            for place, (text, width, size) in enumerate(
                zip((name, *row[1:]), widths, (first, *others), strict=True)
            )
        ]
        lines.append(GAP.join(cells).rstrip())
    return lines


def _set(text: str, pad: int, *, is_left: bool) -> str:
    return f"{text}{' ' * pad}" if is_left else f"{' ' * pad}{text}"
