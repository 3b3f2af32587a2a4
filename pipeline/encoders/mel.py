"""Turn sound into codes without training: the loudness of each band of a mel spectrogram.

    waveform ─► a frame each hop_length samples ─► n_mels bands, triangles evenly spaced on
    Slaney's mel scale from fmin to fmax, each 1 at its centre ─► decibels ─► codes

    codes [n_mels, 1 + samples // hop_length], each below `levels`

A sine of full amplitude in the middle of a band has the highest code there. `spectra` says why
codes are the same on every machine; the weights of bands are whole numbers of 12 bits. Decoding
finds a spectrum that has these bands, and phases that fit (`phases`): a sound like it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from dataprep.pipeline.encoders.interface import Codes, EncoderSpec, Waveform, Weights
from dataprep.pipeline.encoders.phases import waveform_of
from dataprep.pipeline.encoders.spectra import (
    BITS,
    POWER_BITS,
    VERSION,
    Floats,
    Scale,
    SpectrumSettings,
    Transform,
)

WEIGHT_BITS = 12
_ROUNDS = 50  # to find a spectrum for the bands
# Slaney's scale: 3 mels in 200 Hz up to 1000 Hz, then 27 in each factor of 6.4.
_LINEAR, _KNEE, _STEP = 200 / 3, 1000.0, log(6.4) / 27


class MelSettings(SpectrumSettings):
    n_mels: int = Field(80, ge=1, le=1024, description="bands, a code each in every frame")
    fmin: float = Field(0, ge=0, description="Hz: where the lowest band begins")
    fmax: float | None = Field(
        None, gt=0, description="Hz: where the highest ends; default: rate / 2"
    )

    @model_validator(mode="after")
    def _bands_fit(self) -> MelSettings:
        top = self.rate / 2 if self.fmax is None else self.fmax
        if not self.fmin < top <= self.rate / 2:
            raise ValueError(
                f"fmin {self.fmin:g} must be less than fmax {top:g}, and that at most half of rate "
                f"{self.rate}"
            )
        empty = np.flatnonzero(bands_of(self).sum(axis=1) == 0)
        if len(empty):
            raise ValueError(
                f"band {empty[0]} of n_mels {self.n_mels} is narrower than a frequency of n_fft "
                f"{self.n_fft}; set fewer n_mels, a larger n_fft or a higher fmin"
            )
        return self


class Mel:
    max_processes = None
    can_decode = True

    def __init__(self, settings: MelSettings) -> None:
        self._transform = Transform(settings.n_fft, settings.hop_length)
        self._bands = bands_of(settings)
        self._scale = Scale(settings.levels, settings.range_db, POWER_BITS + WEIGHT_BITS)
        self.rate = settings.rate
        self.num_codebooks = settings.n_mels
        self.codebook_size = settings.levels
        self.environment: Mapping[str, str] = {}
        self.identity: Mapping[str, Any] = {
            "encoder": "mel",
            "version": VERSION,
            **settings.model_dump(),
        }

    def encode(self, waveform: Waveform, /) -> Codes:
        # Powers of a frame add up to 2**40 at most: times 2**12, these sums are exact as well.
        blocks = (p @ self._bands.T for p in self._transform.powers(waveform, self._of_energy))
        return np.concatenate([self._scale.codes_of(block).T for block in blocks], axis=1)

    def decode(self, codes: Codes, /) -> Waveform:
        powers = _spectrum_of(self._scale.powers_of(codes.T), self._bands / (1 << WEIGHT_BITS))
        magnitudes = np.sqrt(powers / float(self._of_energy))
        return waveform_of(magnitudes, self._transform.n_fft, self._transform.hop_length)

    @property
    def _of_energy(self) -> Fraction:
        """What makes the powers of a sine of full amplitude add up to 1."""
        squares = Fraction(int((self._transform.window**2).sum()), 1 << 2 * BITS)
        return 4 / (self._transform.n_fft * squares)


def bands_of(settings: MelSettings) -> Floats:
    """Return whole numbers of [n_mels, bins]: the weight of each frequency in each band."""
    top = settings.rate / 2 if settings.fmax is None else settings.fmax
    low, high = mels_of(settings.fmin), mels_of(top)
    steps = range(settings.n_mels + 2)
    edges = np.array([hertz_of(low + (high - low) * i / (settings.n_mels + 1)) for i in steps])
    bins = np.arange(settings.n_fft // 2 + 1) * (settings.rate / settings.n_fft)
    lower, centre, upper = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - lower) / (centre - lower), (upper - bins) / (upper - centre)
    weights: Floats = np.rint(np.maximum(0, np.minimum(rising, falling)) * (1 << WEIGHT_BITS))
    return weights


def mels_of(hertz: float) -> float:
    """
    >>> [round(mels_of(hertz), 9) for hertz in (200, 1000, 6400)]
    [3.0, 15.0, 42.0]
    """
    return hertz / _LINEAR if hertz < _KNEE else _KNEE / _LINEAR + log(hertz / _KNEE) / _STEP


def hertz_of(mels: float) -> float:
    knee = _KNEE / _LINEAR
    return mels * _LINEAR if mels < knee else _KNEE * exp((mels - knee) * _STEP)


def _spectrum_of(powers: Floats, bands: Floats) -> Floats:
    """Return [frames, bins] of 0 and more whose bands have about the powers [frames, n_mels]."""
    wanted = powers @ bands
    found: Floats = wanted / np.maximum(bands.sum(axis=0), 1e-9)
    for _ in range(_ROUNDS):
        found = found * wanted / np.maximum(found @ bands.T @ bands, 1e-30)
    return found


def _open(settings: MelSettings, weights: Weights | None) -> Mel:
    return Mel(settings)


SPEC = EncoderSpec(
    name="mel",
    kind="audio",
    about="mel spectrogram in decibels, one code per band and frame; no training, exact",
    settings=MelSettings,
    packages=("soundfile", "soxr"),
    extra="audio",
    takes_weights=False,
    open=_open,
)
