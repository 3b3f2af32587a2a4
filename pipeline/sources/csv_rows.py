"""Find where the rows of a CSV end, without decoding them.

    a,"b\\nc",d\\n        one row: the first line break is inside quotes
    5" disk,"x"\\n        one row: the first quote is text, because it does not begin a field

A row ends where the `csv` module ends it in lenient mode, so that an invalid row does not make
its neighbours invalid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.types import Offsets

_QUOTE, _NEWLINE = b'"\n'


class RowFinder:
    """Follow rows through chunks: a line break ends a row unless it is inside quotes.

    A quote opens a quoted field only at the start of a field, else it is text; inside a quoted
    field it closes the field, unless another quote follows. If quotes open and close in turn, every
    second one follows a delimiter, a line break or another quote: then counting them is enough.
    """

    def __init__(self, delimiter: str, position: int) -> None:
        self._opens_after = (ord(delimiter), _NEWLINE)
        self._is_inside = False
        self._before = _NEWLINE  # the byte before this chunk; -1 for a quote that is text
        self._position = position  # of this chunk
        self._opened_at = -1  # where the quoted field begins
        self._num_rows = 0

    def ends(self, data: bytes) -> Offsets:
        """Return the places of the line breaks that end a row."""
        codes = np.frombuffer(data, np.uint8)
        found = np.flatnonzero(codes == _NEWLINE)
        marks = self._marks(codes)
        if len(marks) or self._is_inside:
            found = found[(np.searchsorted(marks, found) + self._is_inside) % 2 == 0]
        self._remember(codes, marks)
        self._num_rows += len(found)
        return found

    def check_closed(self, path: str) -> None:
        """Refuse a file that ends inside quotes; call this at the end of the file."""
        if self._is_inside:
            raise InputError(
                f"row {self._num_rows + 1} of {path} has a quote at byte {self._opened_at} that "
                "is never closed; close it, or double it if it is text"
            )

    def _marks(self, codes: NDArray[np.uint8]) -> Offsets:
        """Return the places of the quotes that open and close fields, in turn."""
        quotes = np.flatnonzero(codes == _QUOTE)
        opening = quotes[int(self._is_inside) :: 2]
        before = codes[opening - 1].astype(np.int64)
        if len(opening) and opening[0] == 0:
            before[0] = self._before
        if np.isin(before, (*self._opens_after, _QUOTE)).all():
            return quotes
        return self._marks_one_by_one(codes, quotes)

    def _marks_one_by_one(self, codes: NDArray[np.uint8], quotes: Offsets) -> Offsets:
        marks: list[int] = []
        is_inside = self._is_inside
        closed = -1 if self._before == _QUOTE else -2  # place of the last quote that closed
        for place in quotes.tolist():
            before = codes[place - 1] if place else self._before
            if is_inside:
                closed = place
            elif place != closed + 1 and before not in self._opens_after:
                continue  # text
            is_inside = not is_inside
            marks.append(place)
        return np.array(marks, np.int64)

    def _remember(self, codes: NDArray[np.uint8], marks: Offsets) -> None:
        """Keep what the next chunk needs to know about this one."""
        # A quote right after another continues the field that the other one seemed to close.
        gaps = np.diff(marks, prepend=-1 if self._before == _QUOTE else -2)
        first = int(self._is_inside)
        opening = marks[first::2][gaps[first::2] > 1]
        if len(opening):
            self._opened_at = self._position + int(opening[-1])
        self._is_inside ^= len(marks) % 2 == 1
        if len(codes):
            is_text = codes[-1] == _QUOTE and not (len(marks) and marks[-1] == len(codes) - 1)
            self._before = -1 if is_text else int(codes[-1])
            self._position += len(codes)
