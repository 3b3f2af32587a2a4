"""Sound files to one waveform: mono, at the encoder's rate, of a known loudness.

    channels  their mean
    peak      scaled so that the largest sample is 1
    rms       scaled to a root mean square of 0.1 (-20 dB), cut at 1
    none      as it is, cut at 1

Silence stays silence.
"""

from __future__ import annotations

import io
import wave
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.media.resample import resample
from dataprep.pipeline.media.values import Blob

Loudness = Literal["peak", "rms", "none"]
RMS = 0.1
FULL_SCALE = 32767  # of 16 bits
_BLOCK = 1 << 20


def read_waveform(blob: Blob, rate: int, loudness: Loudness) -> NDArray[np.float32]:
    """f32[samples] within -1..1; ValueError says what is wrong."""
    waveform, own_rate = _read_mono(blob)
    if not np.isfinite(waveform).all():
        raise ValueError("holds samples that are no numbers")
    return scaled(resample(waveform, own_rate, rate), loudness)


def scaled(waveform: NDArray[np.float32], loudness: Loudness) -> NDArray[np.float32]:
    level = 0.0
    if loudness == "peak":
        level = float(np.abs(waveform).max())
    elif loudness == "rms":
        level = float(np.sqrt(np.mean(np.square(waveform, dtype=np.float64)))) / RMS
    if level > 0:
        waveform = waveform / np.float32(level)
    return np.clip(waveform, -1, 1)


def wav_of(waveform: NDArray[np.float32], rate: int) -> bytes:
    """f32[samples] as a WAV file of 16 bits, for what an encoder decodes."""
    levels = np.rint(np.clip(waveform, -1, 1) * np.float32(FULL_SCALE)).astype("<i2")
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(levels.tobytes())
    return data.getvalue()


def _read_mono(blob: Blob) -> tuple[NDArray[np.float32], int]:
    import soundfile

    try:
        with soundfile.SoundFile(blob.opened()) as file:
            blocks = [
                block.mean(axis=1, dtype=np.float32)
                for block in file.blocks(_BLOCK, dtype="float32", always_2d=True)
            ]
            num_samples, rate = file.frames, int(file.samplerate)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"cannot be read as sound: {error.error_string}") from None
    waveform = np.concatenate([np.zeros(0, np.float32), *blocks])
    if not len(waveform):
        raise ValueError("holds no sample")
    if len(waveform) < num_samples:
        raise ValueError(f"is cut off: it has {len(waveform)} of {num_samples} samples")
    return waveform, rate
