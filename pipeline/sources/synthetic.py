"""Made-up records: `synthetic:text|image|audio|paired?n=1000&seed=0`.

    text     {"text": 4 to 2047 words with punctuation}
    image    {"vision": codes in 0..8191, 256 for each of 1 to 4 frames}
    audio    {"audio": 75 to 300 codes in 0..1023}
    paired   {"caption": words, "vision": codes, "fields": "[vision],caption"}

Record i is a pure function of (seed, i), made from raw Philox words with integer arithmetic only:
it is the same on every machine and in every version of numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import batch_rows, empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.types import Piece, Record, Records, Source

Raw = Callable[..., Any]  # raw() -> one word of 64 random bits, raw(n) -> u64[n]

PREFIX = "synthetic:"
CODEBOOK_SIZE = 8192
CODES_PER_FRAME = 256
_MAX_FRAMES = 4
AUDIO_CODEBOOK_SIZE = 1024
_AUDIO_LENGTHS = range(75, 301)  # one to four seconds of a common codec
_DEFAULTS = {"n": 1000, "seed": 0}
# Raise it when the records change, so that outputs made from the old records are not continued.
_VERSION = 1
_LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut"
    " labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris"
    " nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse"
    " cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt culpa"
    " qui officia deserunt mollit anim id est laborum"
)
_WORDS = _LOREM.split()
_MARKS = (" ",) * 12 + (", ",) * 2 + (". ", "? ")
_ENDS = np.array([mark in (". ", "? ") for mark in _MARKS])
# _FORMS[capital, word, mark]: "lorem ", "lorem, ", "Lorem. ", ...
_FORMS = np.array(
    [
        [[word + mark for mark in _MARKS] for word in words]
        for words in (_WORDS, [word.capitalize() for word in _WORDS])
    ],
    dtype=object,
)
_MEAN_BYTES = {"text": 1000, "image": 3200, "audio": 900, "paired": 4200}


def find_synthetic(spec: str) -> Source:
    name, _, query = spec.removeprefix(PREFIX).partition("?")
    if name not in _MEAN_BYTES:
        raise InputError(f"{spec}: no synthetic data called {name!r}; use {', '.join(_MEAN_BYTES)}")
    options = dict(_DEFAULTS)
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in options:
            raise InputError(f"{spec}: no option {key!r}; use {', '.join(options)}")
        if not (value.isascii() and value.isdigit() and int(value) < 1 << 63):
            raise InputError(f"{spec}: {key} must be a whole number from 0 up, got {value!r}")
        options[key] = int(value)
    count, seed = options["n"], options["seed"]
    return Source(
        kind="synthetic",
        path=f"{PREFIX}{name}?n={count}&seed={seed}",
        num_bytes=count * _MEAN_BYTES[name],
        fingerprint=f"synthetic:{_VERSION}:{name}:{count}:{seed}",
        options={"what": name, "n": str(count), "seed": str(seed)},
    )


class Synthetic(Format):
    """Pieces are records."""

    kind = "synthetic"
    knows_rows = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        return cuts.rows(int(source.options["n"]), _mean_bytes(source), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        num_lines = piece.stop - piece.start
        first_line = min(wanted.from_line, num_lines)
        size = _mean_bytes(source)
        yield empty_batch(next_line=first_line, num_bytes=first_line * size)
        indices = range(piece.start + first_line, piece.stop)
        rows = ((make(source, i, wanted.held_by), size) for i in indices)
        yield from batch_rows(rows, wanted, first_line=first_line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start


def _mean_bytes(source: Source) -> int:
    return _MEAN_BYTES[source.options["what"]]


def make(source: Source, index: int, held_by: HeldBy = nothing_held) -> Record:
    """Return record `index`; codes are an array under a key that holds codes, else a list."""
    record = _make(source, index)
    return {
        key: value.tolist() if isinstance(value, np.ndarray) and not held_by(key) else value
        for key, value in record.items()
    }


def _make(source: Source, index: int) -> Record:
    what, seed = source.options["what"], int(source.options["seed"])
    raw = np.random.Philox(key=np.array([seed, index], np.uint64)).random_raw
    if what == "text":
        return {"text": _text(raw, max_doublings=8)}
    if what == "image":
        return {"vision": _images(raw)}
    if what == "audio":
        return {"audio": _sounds(raw)}
    assert what == "paired"
    return {
        "caption": _text(raw, max_doublings=3),
        "vision": _images(raw),
        "fields": "[vision],caption",
    }


def _text(raw: Raw, *, max_doublings: int) -> str:
    """Return a text whose length is four words, doubled once for each of `max_doublings` coins
    that shows heads: lengths spread over orders of magnitude, most of them in the middle."""
    draw: NDArray[np.uint64] = raw(2)
    doublings = (int(draw[0]) & ((1 << max_doublings) - 1)).bit_count()
    shortest = 4 << doublings
    count = shortest + int(draw[1]) % shortest
    numbers: NDArray[np.uint64] = raw(count)
    words = numbers % np.uint64(len(_WORDS))
    marks = (numbers >> np.uint64(32)) % np.uint64(len(_MARKS))
    capital = np.concatenate([[True], _ENDS[marks[:-1]]]).astype(np.int64)
    text = "".join(_FORMS[capital, words.astype(np.int64), marks.astype(np.int64)])
    return text.rstrip(" ,.?") + "."


def _images(raw: Raw) -> NDArray[np.uint16]:
    frames = 1 + int(raw()) % _MAX_FRAMES
    return _codes(raw(frames * CODES_PER_FRAME), CODEBOOK_SIZE)


def _sounds(raw: Raw) -> NDArray[np.uint16]:
    length = _AUDIO_LENGTHS[int(raw()) % len(_AUDIO_LENGTHS)]
    return _codes(raw(length), AUDIO_CODEBOOK_SIZE)


def _codes(numbers: NDArray[np.uint64], codebook_size: int) -> NDArray[np.uint16]:
    return (numbers % np.uint64(codebook_size)).astype(np.uint16)
