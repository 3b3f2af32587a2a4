"""Turn sound into codes without training: the loudness of each frequency of a spectrum.

    waveform ─► a frame each hop_length samples ─► n_fft / 2 + 1 bins ─► decibels ─► codes

    codes [n_fft / 2 + 1, 1 + samples // hop_length], each below `levels`

A sine of full amplitude in the middle of a bin has the highest code there. `spectra` says why codes
are the same on every machine. Decoding finds phases that fit (`phases`): a sound like it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dataprep.pipeline.encoders.interface import Codes, EncoderSpec, Waveform, Weights
from dataprep.pipeline.encoders.phases import waveform_of
from dataprep.pipeline.encoders.spectra import (
    BITS,
    POWER_BITS,
    VERSION,
    Scale,
    SpectrumSettings,
    Transform,
)


class Stft:
    max_processes = None
    can_decode = True

    def __init__(self, settings: SpectrumSettings) -> None:
        self._transform = Transform(settings.n_fft, settings.hop_length)
        self._scale = Scale(settings.levels, settings.range_db, POWER_BITS)
        self.rate = settings.rate
        self.num_codebooks = self._transform.num_bins
        self.codebook_size = settings.levels
        self.environment: Mapping[str, str] = {}
        self.identity: Mapping[str, Any] = {
            "encoder": "stft",
            "version": VERSION,
            **settings.model_dump(),
        }

    def encode(self, waveform: Waveform, /) -> Codes:
        blocks = self._transform.powers(waveform, self._of_amplitudes)
        return np.concatenate([self._scale.codes_of(block).T for block in blocks], axis=1)

    def decode(self, codes: Codes, /) -> Waveform:
        magnitudes = np.sqrt(self._scale.powers_of(codes.T) / float(self._of_amplitudes))
        return waveform_of(magnitudes, self._transform.n_fft, self._transform.hop_length)

    @property
    def _of_amplitudes(self) -> Fraction:
        """What makes the power of a sine of full amplitude 1: its |X| is half the window's sum."""
        total = Fraction(int(self._transform.window.sum()), 1 << BITS)
        return 4 / total**2


def _open(settings: SpectrumSettings, weights: Weights | None) -> Stft:
    return Stft(settings)


SPEC = EncoderSpec(
    name="stft",
    kind="audio",
    about="spectrogram in decibels, one code per frequency and frame; no training, exact",
    settings=SpectrumSettings,
    packages=("soundfile", "soxr"),
    extra="audio",
    takes_weights=False,
    open=_open,
)
