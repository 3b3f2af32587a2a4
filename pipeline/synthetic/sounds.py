"""Made-up sounds: random codes, or waveforms of 16 bits.

    sine     200 to 800 Hz
    noise    white
    chirp    from one frequency to another, evenly

A sine is looked up by its phase, a whole number, in a table of 65,536 samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import pi, sin

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.synthetic.draws import Raw, between

Samples = NDArray[np.int16]
CODEBOOK_SIZE = 1024
_LENGTHS = range(75, 301)  # one to four seconds of a common codec
_LOUDNESS = 26214  # of a sine: 0.8


def random_codes(raw: Raw) -> NDArray[np.uint16]:
    length = _LENGTHS[int(raw()) % len(_LENGTHS)]
    numbers: NDArray[np.uint64] = raw(length)
    return (numbers % np.uint64(CODEBOOK_SIZE)).astype(np.uint16)


def codes_of(samples: Samples) -> NDArray[np.uint16]:
    """Return the upper 8 bits of each sample, 128 for silence."""
    return ((samples.astype(np.int64) >> 8) + 128).astype(np.uint16)


@lru_cache(maxsize=1)
def _sines() -> NDArray[np.int16]:
    return np.array([round(sin(2 * pi * i / 65536) * _LOUDNESS) for i in range(65536)], np.int16)


def sine(hertz: int, count: int, rate: int) -> Samples:
    """Return `count` samples of a sine that begins at 0."""
    return chirp(hertz, hertz, count, rate)


def chirp(first: int, last: int, count: int, rate: int) -> Samples:
    """Return a sine whose frequency goes evenly from `first` to `last`.

    Sample t is at phase first·t + (last - first)·t² / (2·count), in turns of the sample rate.
    """
    time = np.arange(count, dtype=np.int64)
    steps = time * (2 * count * first) + (last - first) * time**2
    phase = (steps % (2 * count * rate)) * 65536 // (2 * count * rate)
    found: Samples = _sines()[phase]
    return found


def _sine(raw: Raw, count: int, rate: int) -> tuple[Samples, str]:
    hertz = between(raw, 200, 800)
    return sine(hertz, count, rate), f"a sine of {hertz} Hz"


def _noise(raw: Raw, count: int, rate: int) -> tuple[Samples, str]:
    words: NDArray[np.uint64] = raw((count + 3) // 4)
    return words.astype("<u8").view("<i2")[:count].astype(np.int16) >> 1, "white noise"


def _chirp(raw: Raw, count: int, rate: int) -> tuple[Samples, str]:
    first, last = between(raw, 200, 800), between(raw, 200, 800)
    return chirp(first, last, count, rate), f"a chirp from {first} to {last} Hz"


# (raw, number of samples, samples a second) -> the waveform, what it is
PATTERNS: Mapping[str, Callable[[Raw, int, int], tuple[Samples, str]]] = {
    "sine": _sine,
    "noise": _noise,
    "chirp": _chirp,
}
