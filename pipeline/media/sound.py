"""Turn a sound file into a waveform: mono, at the encoder's rate, of a known loudness.

    channels   their mean
    rate       44100 to 16000: soxr's filter, in float64; 441 samples become 160
    duration   what is longer is cut off, what is shorter ends in silence, if one is set
    loudness   peak  scaled so that the largest sample is 1
               rms   scaled to a root mean square of 0.1 (-20 dB), clipped at 1
               none  unchanged, clipped at 1

Silence stays silence.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.base import Loudness
from dataprep.pipeline.media.packages import needed
from dataprep.pipeline.media.values import Blob
from dataprep.pipeline.media.whole import check_whole

RMS = 0.1
FULL_SCALE = 32767  # of 16 bits
# Computed in float64, so that samples rounded to float32 are the same with and without the vector
# instructions of the CPU; with soxr's HQ they are not.
_QUALITY = "VHQ"
_BLOCK = 1 << 20
_USUAL_RATE = 48_000


def read_waveform(
    blob: Blob, rate: int, loudness: Loudness, max_seconds: int, duration: float | None = None
) -> NDArray[np.float32]:
    """Return f32[samples] within -1..1; ValueError says what is wrong."""
    waveform, own_rate = _read_mono(blob, max_seconds)
    if not np.isfinite(waveform).all():
        raise ValueError("is damaged: some samples are not numbers; copy or make it again")
    waveform = resample(waveform, own_rate, rate)
    if duration is not None:
        waveform = lasting(waveform, max(1, round(Fraction(str(duration)) * rate)))
    return scaled(waveform, loudness)


def lasting(waveform: NDArray[np.float32], num_samples: int) -> NDArray[np.float32]:
    """Return the first samples, with silence after them if there are fewer.

    >>> lasting(np.ones(3, np.float32), 4), lasting(np.ones(3, np.float32), 2)
    (array([1., 1., 1., 0.], dtype=float32), array([1., 1.], dtype=float32))
    """
    return np.pad(waveform[:num_samples], (0, max(0, num_samples - len(waveform))))


def resample(waveform: NDArray[np.float32], source: int, target: int) -> NDArray[np.float32]:
    """Resample f32[n] at `source` samples a second to f32[ceil(n · target / source)].

    >>> len(resample(np.zeros(1001, np.float32), 44100, 16000))
    364
    """
    if source == target or not len(waveform):
        return waveform
    # soxr rounds the length to the nearest whole number: with silence added it returns at least one
    # sample more, and what is too much is cut off.
    followed = np.pad(waveform, (0, -(-source // target)))
    found: NDArray[np.float32] = needed("soxr").resample(followed, source, target, _QUALITY)
    return found[: -(-len(waveform) * target // source)]


def scaled(waveform: NDArray[np.float32], loudness: Loudness) -> NDArray[np.float32]:
    level = np.float32(0)
    if loudness == "peak":
        level = np.abs(waveform).max()
    elif loudness == "rms":
        level = np.float32(np.sqrt(np.mean(np.square(waveform, dtype=np.float64))) / RMS)
    if level > 0:  # as a float32, as which the faintest is silence
        waveform = waveform / level
    return np.clip(waveform, -1, 1)


def wav_of(waveform: NDArray[np.float32], rate: int) -> bytes:
    """Return f32[samples] as a 16-bit WAV file, to hear what an encoder decodes."""
    levels = np.rint(np.clip(waveform, -1, 1) * np.float32(FULL_SCALE)).astype("<i2")
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(levels.tobytes())
    return data.getvalue()


def _mono_blocks(file: Any, max_seconds: int) -> Iterator[NDArray[np.float32]]:
    # Few samples may last long, and then become many; many may be stored in few bytes.
    most = max_seconds * min(int(file.samplerate), _USUAL_RATE)
    total = 0
    # Not file.blocks(): for a cut-off MP3 it returns memory that was never written to.
    while len(block := file.read(max(1, _BLOCK // file.channels), dtype="float32", always_2d=True)):
        total += len(block)
        if total > most:
            raise ValueError(
                f"is longer than {max_seconds} seconds, or has more samples than {max_seconds} "
                f"seconds have at {_USUAL_RATE} Hz; cut it into several, or raise --max-seconds"
            )
        yield block.mean(axis=1, dtype=np.float32)


def _read_mono(blob: Blob, max_seconds: int) -> tuple[NDArray[np.float32], int]:
    soundfile = needed("soundfile")
    source = blob.opened()
    check_whole(source)
    try:
        with soundfile.SoundFile(source) as file:
            blocks = list(_mono_blocks(file, max_seconds))
            num_samples, rate = file.frames, int(file.samplerate)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"cannot be read as sound: {error.error_string}") from None
    waveform = np.concatenate([np.zeros(0, np.float32), *blocks])
    if not len(waveform):
        raise ValueError("has no samples")
    if len(waveform) < num_samples:
        raise ValueError(
            f"is cut off: it has {len(waveform)} of {num_samples} samples; copy it again"
        )
    return waveform, rate
