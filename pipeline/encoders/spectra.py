"""Spectra of sound in exact arithmetic, quantized in decibels: what `mel` and `stft` share.

    samples ─► frames of n_fft, one each hop_length, the first around sample 0 ─► Hann window
            ─► discrete Fourier transform ─► power of each bin ─► decibels ─► one of `levels` codes

    power     2**38 is a sine of full amplitude
    code      0: range_db below that, or less … levels - 1: full amplitude

Samples, window and the cosines of the transform are whole numbers of 20 bits, so that all products
and sums stay below 2**53, which float64 holds exactly: in whatever order a library adds them, with
or without vector instructions, the sums are the same. After that each number is rounded by itself,
and compared with bounds that are whole numbers, too. So codes are the same on every machine.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, repeat
from math import cos, pi

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dataprep.configs.base import Model
from dataprep.pipeline.encoders.interface import Codes, Waveform

Floats = NDArray[np.float64]

VERSION = 1  # raise it when the codes of a sound change
BITS = 20  # of samples, window and cosines
POWER_BITS = 38  # of the power of a sine of full amplitude
_BLOCK = 256  # frames at a time


class SpectrumSettings(Model):
    rate: int = Field(16000, ge=1000, le=384000, description="samples per second")
    n_fft: int = Field(1024, ge=16, le=4096, description="samples in a frame; even")
    hop_length: int = Field(256, ge=1, le=65536, description="samples from frame to frame")
    levels: int = Field(256, ge=2, le=65536, description="codes that a value may have")
    range_db: float = Field(
        80, ge=1, le=100, description="decibels below full amplitude that are told from silence"
    )

    @model_validator(mode="after")
    def _is_even(self) -> SpectrumSettings:
        if self.n_fft % 2:
            raise ValueError(f"n_fft {self.n_fft} is not even")
        return self


class Transform:
    """Short-time Fourier transforms of a waveform, as powers."""

    def __init__(self, n_fft: int, hop_length: int) -> None:
        self.n_fft, self.hop_length = n_fft, hop_length
        self.cosines = [round(cos(2 * pi * i / n_fft) * (1 << BITS)) for i in range(n_fft)]
        # From 0 up to 1 and back: (1 - cos) / 2, in whole numbers.
        self.window = np.array([(1 << BITS) - c >> 1 for c in self.cosines], np.float64)

    @property
    def num_bins(self) -> int:
        return self.n_fft // 2 + 1

    def num_frames(self, num_samples: int) -> int:
        return 1 + num_samples // self.hop_length

    def powers(self, waveform: Waveform, scale: Fraction) -> Iterator[Floats]:
        """Yield whole numbers of [frames, bins]: |X|² · scale · 2**38, where X is the transform of
        samples of -1..1 by a window of 0..1."""
        factor = float(scale * (1 << POWER_BITS) / (1 << 4 * BITS))
        for start in range(0, self.num_frames(len(waveform)), _BLOCK):
            stop = min(start + _BLOCK, self.num_frames(len(waveform)))
            real, imaginary = self._transformed(self._frames(waveform, start, stop))
            yield np.rint((real * real + imaginary * imaginary) * factor)

    def _frames(self, waveform: Waveform, start: int, stop: int) -> Floats:
        """Return frames `start` to `stop` times the window, in units of 2**-20."""
        first = start * self.hop_length - self.n_fft // 2
        last = (stop - 1) * self.hop_length + self.n_fft // 2
        part = waveform[max(first, 0) : max(last, 0)].astype(np.float64)
        samples = np.rint(np.clip(part, -1, 1) * (1 << BITS))
        missing = last - max(first, 0) - len(samples)
        samples = np.pad(samples, (max(-first, 0), missing))
        views = np.lib.stride_tricks.sliding_window_view(samples, self.n_fft)
        return np.rint(views[:: self.hop_length] * self.window / (1 << BITS))

    def _transformed(self, frames: Floats) -> tuple[Floats, Floats]:
        """Return the real and imaginary parts, in units of 2**-40; all sums are below 2**53."""
        half = self.n_fft // 2
        mirrored = frames[:, :half:-1]  # samples n_fft - 1 down to half + 1
        even, odd = frames[:, : half + 1].copy(), frames[:, 1:half] - mirrored
        even[:, 1:half] += mirrored
        cosines, sines = self._tables
        return even @ cosines, odd @ sines

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        """cos and sin of 2π · sample · bin / n_fft, for half of the samples: the others mirror."""
        half = self.n_fft // 2
        values = np.array(self.cosines, np.float64)
        turns = np.outer(np.arange(half + 1), np.arange(self.num_bins))
        cosines = values[turns % self.n_fft]
        sines = values[(turns[1:half] - self.n_fft // 4) % self.n_fft]
        if self.n_fft % 4:  # a quarter turn is no whole number of steps
            angles = turns[1:half] % self.n_fft * (2 * pi / self.n_fft)
            sines = np.rint(np.sin(angles) * (1 << BITS))
        return cosines, sines


class Scale:
    """Powers to codes, evenly spaced in decibels, and back."""

    def __init__(self, levels: int, range_db: float, unit_bits: int) -> None:
        self.levels = levels
        with localcontext(prec=50):  # the same everywhere, unlike powers in float64
            whole, step = Decimal(str(range_db)), Decimal(str(range_db)) / (levels - 1)
            first = 10 ** ((step / 2 - whole) / 10) * (1 << unit_bits)
            bounds = accumulate(repeat(10 ** (step / 10), levels - 2), operator.mul, initial=first)
            self._bounds = np.array([round(bound) for bound in bounds], np.float64)
        self._decibels = np.arange(levels) * (range_db / (levels - 1)) - range_db

    def codes_of(self, powers: Floats) -> Codes:
        """Return the code of each power, whole numbers in units of 2**-unit_bits."""
        return np.searchsorted(self._bounds, powers, side="right").astype(np.int32)

    def powers_of(self, codes: Codes) -> Floats:
        """Return the power of each code, 1 for full amplitude; code 0 is silence."""
        return np.where(codes > 0, 10 ** (self._decibels[codes] / 10), 0.0)
