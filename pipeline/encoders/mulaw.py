"""Turn sound into codes without training: one 8-bit mu-law code for each sample (mu = 255).

    x in -1..1  ─►  16 bits  ─►  round(127.5 (1 + sign(x) ln(1 + 255 |x|) / ln 256))      0..255

The logarithm is computed once, for a table of all 65,535 values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dataprep.configs.base import Model
from dataprep.pipeline.encoders.interface import Codes, EncoderSpec, Waveform, Weights

VERSION = 2  # raise it when the codes of a sound change
MU = 255
FULL_SCALE = 32767


class MulawSettings(Model):
    rate: int = Field(16000, ge=1000, le=384000, description="samples and codes per second")


class Mulaw:
    codebook_size = MU + 1
    num_codebooks = 1
    max_processes = None
    can_decode = True

    def __init__(self, settings: MulawSettings) -> None:
        self.rate = settings.rate
        self.environment: Mapping[str, str] = {}
        self.identity: Mapping[str, Any] = {
            "encoder": "mulaw",
            "version": VERSION,
            "rate": self.rate,
        }

    def encode(self, waveform: Waveform, /) -> Codes:
        levels = np.rint(np.clip(waveform, -1, 1) * np.float32(FULL_SCALE)).astype(np.int32)
        codes: Codes = _codes_of_levels()[levels + FULL_SCALE][None].astype(np.int32)
        return codes

    def decode(self, codes: Codes, /) -> Waveform:
        y = codes[0].astype(np.float64) / (MU / 2) - 1
        x: Waveform = (np.sign(y) * np.expm1(np.abs(y) * np.log1p(MU)) / MU).astype(np.float32)
        return x


@lru_cache(maxsize=1)
def _codes_of_levels() -> NDArray[np.uint8]:
    x = np.arange(-FULL_SCALE, FULL_SCALE + 1) / FULL_SCALE
    y = np.sign(x) * np.log1p(MU * np.abs(x)) / np.log1p(MU)
    codes: NDArray[np.uint8] = np.floor((y + 1) * (MU / 2) + 0.5).astype(np.uint8)
    return codes


def _open(settings: MulawSettings, weights: Weights | None) -> Mulaw:
    return Mulaw(settings)


SPEC = EncoderSpec(
    name="mulaw",
    kind="audio",
    about="8-bit mu-law, one code per sample; no training",
    settings=MulawSettings,
    packages=("soundfile", "soxr"),
    extra="audio",
    takes_weights=False,
    open=_open,
)
