"""Which message a template is at: that of the loops it is in.

    begin 1 · enter 0 · begin 2 · enter 3 · end 2 · enter 1 · end 1        marks of `marks`
              at 0                at 3      at 0    at 1      at none

Of loops within loops the innermost counts whose message is the latest: a loop over later messages
writes them, one over earlier messages looks something up.
"""

from __future__ import annotations

FIRST_MEDIUM = -2  # numbers of media go down from here


class Loops:
    """Follows the marks of a rendering."""

    def __init__(self) -> None:
        self._loops: list[tuple[int, int]] = []  # loop, message that it is at
        self.at = -1  # message; -1: none
        self.medium = -1  # part of it that is no text; -1: none

    def move(self, kind: str, value: int) -> None:
        loops = self._loops
        if kind == "begin":
            loops.append((value, -1))
        elif kind == "end":
            while loops and loops.pop()[0] != value:
                pass
        elif loops and (kind == "enter" or (value >= 0 and loops[-1][1] == -1)):
            loops[-1] = (loops[-1][0], value)
        self.at = max([-1, *(at for _, at in loops)])
        inner = loops[-1][1] if loops else -1
        self.medium = FIRST_MEDIUM - inner if inner <= FIRST_MEDIUM else -1
