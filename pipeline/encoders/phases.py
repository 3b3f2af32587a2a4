"""Find a waveform that has given magnitudes: Griffin and Lim's way, from phases of zero.

    magnitudes [bins, frames] ─► waveform ─► its phases ─► waveform … 32 times

To hear what codes hold; the sound is near, not the same. No code depends on this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_ROUNDS = 32
_MOMENTUM = 0.99  # of the fast variant


def waveform_of(magnitudes: Floats, n_fft: int, hop_length: int) -> NDArray[np.float32]:
    """Return f32[samples] within -1..1 whose transform has about the magnitudes [frames, bins]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    spectrum = magnitudes.astype(np.complex128)
    before = np.zeros_like(spectrum)
    for _ in range(_ROUNDS):
        found = _transformed(_joined(spectrum, window, hop_length), window, hop_length)
        moved = found + _MOMENTUM * (found - before)
        spectrum = magnitudes * moved / np.maximum(np.abs(moved), 1e-12)
        before = found
    samples = _joined(spectrum, window, hop_length)[n_fft // 2 :]
    return np.clip(samples[: (len(magnitudes) - 1) * hop_length or None], -1, 1).astype(np.float32)


def _joined(spectrum: NDArray[np.complex128], window: Floats, hop_length: int) -> Floats:
    frames = np.fft.irfft(spectrum, len(window), axis=1) * window
    samples = np.zeros((len(frames) - 1) * hop_length + len(window))
    weights = np.zeros(len(samples))
    for start, frame in zip(range(0, len(samples), hop_length), frames, strict=False):
        samples[start : start + len(window)] += frame
        weights[start : start + len(window)] += window**2
    joined: Floats = samples / np.maximum(weights, 1e-3)
    return joined


def _transformed(samples: Floats, window: Floats, hop_length: int) -> NDArray[np.complex128]:
    views = np.lib.stride_tricks.sliding_window_view(samples, len(window))[::hop_length]
    return np.fft.rfft(views * window, axis=1)
