"""Cut a JSON array into its elements without reading it whole.

    bytes     [ {"a": "],"}, [1, 2] ]
    elements   ^^^^^^^^^^^^ ^^^^^^^^       cut at commas of depth 1 and at the last bracket

Only strings, brackets and commas are read here. Whether an element is valid JSON is checked later
(`records`); an array that does not end, or that is followed by something, is an error of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.lines import BlockBuilder, LineBlock, whole, without_bom
from dataprep.pipeline.types import Offsets

JSON_SPACE = b" \t\r\n"
_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE = b'"\\,{}'
_LOWER = np.uint8(0x20)  # turns `[` into `{` and `]` into `}`, and nothing else into either


class Skeleton:
    """Follows depth and strings of one JSON text through its chunks."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False

    def scan(self, data: bytes) -> tuple[Offsets, NDArray[np.int64]]:
        """Return the places of brackets and commas outside strings, and the depth after each.

        `data` must not end inside an escape (see `split_escape`).
        """
        codes = np.frombuffer(data, np.uint8)
        is_quote = codes == _QUOTE
        is_quote[_escaped_places(codes)] = False
        quotes = np.flatnonzero(is_quote)
        folded = codes | _LOWER
        steps = (folded == _OPEN).astype(np.int8) - (folded == _CLOSE)
        places = np.flatnonzero((steps != 0) | (codes == _COMMA))
        places = places[(np.searchsorted(quotes, places) + self.in_string) % 2 == 0]
        depths = self.depth + np.cumsum(steps[places], dtype=np.int64)
        self.in_string ^= len(quotes) % 2 == 1
        if len(depths):
            self.depth = int(depths[-1])
        return places, depths


def _escaped_places(codes: NDArray[np.uint8]) -> Offsets:
    """Return the places of escaped bytes: those after an odd number of backslashes."""
    slashes = np.flatnonzero(codes == _BACKSLASH)
    if not len(slashes):
        return slashes
    is_last = np.append(np.diff(slashes) != 1, True)
    lasts = np.flatnonzero(is_last)
    run_lengths = np.diff(lasts, prepend=-1)
    after: Offsets = slashes[lasts[run_lengths % 2 == 1]] + 1
    return after[after < len(codes)]


def split_escape(data: bytes) -> int:
    """Return how many of the last bytes to hold back so that no escape is cut: 0 or 1."""
    return (len(data) - len(data.rstrip(b"\\"))) % 2


def split_json(
    chunks: Iterator[bytes], *, path: str, batch_bytes: int, max_record_bytes: int
) -> Iterator[LineBlock]:
    """Yield the elements of an array; anything else is one record."""
    position, chunks = without_bom(chunks, path)
    first, position, chunks = _after_space(chunks, position)
    builder = BlockBuilder(position, batch_bytes=batch_bytes, max_record_bytes=max_record_bytes)
    if first == b"[":
        yield from _split_elements(chunks, builder, path)
    else:
        yield from whole(chain((first,), chunks), builder)


def _after_space(chunks: Iterator[bytes], position: int) -> tuple[bytes, int, Iterator[bytes]]:
    """Return (the first byte that is not blank, where records begin, the chunks after it)."""
    for chunk in chunks:
        content = chunk.lstrip(JSON_SPACE)
        position += len(chunk) - len(content)
        if content:
            first = content[:1]
            return first, position + (first == b"["), chain((content[1:],), chunks)
    return b"", position, iter(())


def _split_elements(
    chunks: Iterator[bytes], builder: BlockBuilder, path: str
) -> Iterator[LineBlock]:
    skeleton = Skeleton()
    skeleton.depth = 1
    edge = b""
    num_elements = 0
    only_space = True  # so far, before the first cut: `[ ]` has no element
    for chunk in chunks:
        data = edge + chunk
        held = split_escape(data)
        edge, data = data[len(data) - held :], data[: len(data) - held]
        places, depths = skeleton.scan(data)
        ends = np.flatnonzero(depths == 0)
        if len(ends):
            places, depths = places[: ends[0] + 1], depths[: ends[0] + 1]
        is_comma = np.frombuffer(data, np.uint8)[places] == _COMMA
        cuts = places[((depths == 1) & is_comma) | (depths == 0)]
        used = 0
        if len(cuts):
            used = int(cuts[-1]) + 1
            only_space &= num_elements == 0 and not data[: cuts[0]].strip(JSON_SPACE)
            num_elements += len(cuts)
            if not (len(ends) and num_elements == 1 and only_space):
                yield from builder.close(data, cuts, 1)
        if len(ends):
            _check_rest(data[used:] + edge, chunks, path)
            return
        only_space &= not data[used:].strip(JSON_SPACE)
        builder.extend(data[used:])
    elements = "1 whole element" if num_elements == 1 else f"{num_elements} whole elements"
    raise InputError(
        f"{path} ends before its JSON array does (after {elements});"
        " the file was cut off, or a quote or bracket is missing"
    )


def _check_rest(rest: bytes, chunks: Iterator[bytes], path: str) -> None:
    while not rest.strip(JSON_SPACE):
        following = next(chunks, None)
        if following is None:
            return
        rest = following
    raise InputError(
        f"{path} has more after its JSON array, starting with {rest.strip(JSON_SPACE)[:1]!r};"
        " keep one array per file, or write one object per line and name the file .jsonl"
    )
