"""Change the rate of a waveform: a windowed sinc, one phase of it for each place between samples.

    from 44100 to 16000 = 441 to 160: every 160 samples out take the same weights again, 441 in on

So a block of outputs is one matrix product: windows of the input, 441 apart, with a band of
weights. Outputs are computed some hundred phases at a time, in float64, whatever the two rates.
"""

from __future__ import annotations

from math import ceil, gcd

import numpy as np
from numpy.typing import NDArray

ZERO_CROSSINGS = 32  # of the sinc on each side: stop band below -100 dB with the window
KAISER_BETA = 10.0
ROLLOFF = 0.945  # of the lower rate's half: what is above is in the window's slope
_PHASES = 128  # computed at once
_ROWS = 4096


def resample(waveform: NDArray[np.float32], source: int, target: int) -> NDArray[np.float32]:
    """f32[n] at `source` samples a second -> f32[ceil(n · target / source)]."""
    if source == target or not len(waveform):
        return waveform
    common = gcd(source, target)
    step, phases = source // common, target // common
    # A cycle of few phases is taken several times at once, or the products would be thin.
    repeats = max(1, _PHASES // phases)
    step, phases = step * repeats, phases * repeats
    total = ceil(len(waveform) * target / source)
    cycles = ceil(total / phases)
    width = half_width(source, target)
    padded = np.zeros(cycles * step + step + 2 * width + 2, np.float64)
    padded[width : width + len(waveform)] = waveform
    out = np.empty((cycles, phases), np.float32)
    for first in range(0, phases, _PHASES):
        last = min(first + _PHASES, phases)
        start, weights = _band(first, last, step, phases, source, target)
        windows = np.lib.stride_tricks.sliding_window_view(padded[start:], len(weights))[::step]
        for row in range(0, cycles, _ROWS):
            rows = slice(row, min(row + _ROWS, cycles))
            out[rows, first:last] = windows[rows] @ weights
    return out.reshape(-1)[:total]


def half_width(source: int, target: int) -> int:
    """Input samples that weigh on each side of an output sample."""
    return ceil(ZERO_CROSSINGS / (ROLLOFF * min(1.0, target / source)))


def _band(
    first: int, last: int, step: int, phases: int, source: int, target: int
) -> tuple[int, NDArray[np.float64]]:
    """Where the windows of these phases begin, and their weights[window, phase]."""
    width = half_width(source, target)
    times = np.arange(first, last) * step / phases  # in input samples
    begin = first * step // phases
    size = int(times[-1]) - begin + 2 * width + 2
    # padded[begin + k] is the input at begin + k - width
    distance = (begin - width + np.arange(size))[:, None] - times[None, :]
    cutoff = ROLLOFF * min(1.0, target / source)
    weights = cutoff * np.sinc(cutoff * distance) * _kaiser(distance / width)
    # Each phase must keep a constant as it is, or there would be a hum at the rate of cycles.
    return begin, weights / weights.sum(axis=0)


def _kaiser(x: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.clip(1 - x**2, 0, None)
    return np.where(np.abs(x) <= 1, np.i0(KAISER_BETA * np.sqrt(inside)) / np.i0(KAISER_BETA), 0.0)
