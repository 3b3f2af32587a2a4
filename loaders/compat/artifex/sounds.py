"""Sounds of one length, and their spectrograms.

    AudioModality(AudioModalityConfig(duration=1.0)).process(waveform)     f32[…, 16000], peak 1
    .compute_mel_spectrogram(…)     f32[…, n_mels, frames], natural logarithms

Frames overlap by hops, around points that are `hop_length` apart, under a Hann window; the ends are
mirrored. Waveforms of another rate are resampled as `dataprep encode` does it, with soxr.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.compat.artifex.processors import BaseProcessor
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.guards.extras import how_to_install

_LEAST = 1e-8  # added before a logarithm is taken
_CHANNELS = 8  # at most; a sound has more samples


@dataclass(frozen=True)
class AudioModalityConfig:
    """Artifex's settings of sounds."""

    sample_rate: int = 16000
    duration: float = 2.0
    n_mels: int = 80
    n_fft: int = 1024
    hop_length: int = 256
    normalize: bool = True
    spectrogram_type: Literal["mel", "stft"] = "mel"

    def __post_init__(self) -> None:
        for name in ("sample_rate", "n_mels", "n_fft", "hop_length"):
            whole_number(name, getattr(self, name), least=1)
        if not self.sample_rate * self.duration >= 1:
            raise ConfigError(f"duration must be at least a sample, got {self.duration} seconds")
        if self.spectrogram_type not in ("mel", "stft"):
            raise ConfigError(
                f"spectrogram_type must be mel or stft, got {shown(self.spectrogram_type)}"
            )


class AudioModality(BaseProcessor):
    """Makes waveforms ready."""

    name = "audio"

    def __init__(self, config: AudioModalityConfig | None = None, *, rngs: Any = None) -> None:
        super().__init__(config or AudioModalityConfig(), rngs=rngs)

    @property
    def n_time_steps(self) -> int:
        count: int = round(self.config.sample_rate * self.config.duration)
        return count

    @property
    def n_time_frames(self) -> int:
        """Frames of the spectrogram of a sound that `process` returns."""
        count: int = 1 + self.n_time_steps // self.config.hop_length
        return count

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of what `process` returns."""
        return (self.n_time_steps,)

    def process(self, audio: Any, *, sample_rate: int | None = None) -> jax.Array:
        """Return waveforms cut or padded with silence to the duration, each with a peak of 1.

        `sample_rate`: theirs; None: that of the config.
        """
        given, rate = jnp.asarray(audio), self.config.sample_rate
        if given.dtype != jnp.int16 and not jnp.issubdtype(given.dtype, jnp.floating):
            raise InputError(
                f"a sound must have floats of -1 to 1, or int16, got {given.dtype}; divide it by "
                "what is full amplitude"
            )
        if given.ndim > 1 and 1 <= given.shape[-1] <= _CHANNELS < given.shape[-2]:
            raise InputError(
                f"a sound of shape {given.shape} has its channels last; give one, [samples], such "
                "as their mean (.mean(-1)), or several sounds as [sounds, samples]"
            )
        # Under jit nothing is known of the values.
        if not isinstance(given, jax.core.Tracer) and not jnp.isfinite(given).all():
            raise InputError("a sound has samples that are not finite (NaN or infinite)")
        scale = 32768 if given.dtype == jnp.int16 else 1
        sound = given.astype(jnp.float32) / scale
        if sample_rate is not None and sample_rate != rate:
            own = whole_number("sample_rate", sample_rate, least=1)
            sound = jnp.asarray(resampled(np.asarray(sound), own, rate))
        sound = sound[..., : self.n_time_steps]
        missing = self.n_time_steps - sound.shape[-1]
        sound = jnp.pad(sound, [(0, 0)] * (sound.ndim - 1) + [(0, missing)])
        if not self.config.normalize:
            return sound
        peak = jnp.abs(sound).max(-1, keepdims=True)
        return jnp.where(peak > 0, sound / jnp.where(peak > 0, peak, 1), sound)

    process_audio = process

    def postprocess(self, audio: Any) -> jax.Array:
        """Return waveforms as samples of 16 bits."""
        return jnp.round(jnp.clip(jnp.asarray(audio), -1, 1) * 32767).astype(jnp.int16)

    def compute_spectrogram(self, audio: Any) -> jax.Array:
        """Return what the config asks for: mel, or all frequencies; natural logarithms."""
        if self.config.spectrogram_type == "mel":
            return self.compute_mel_spectrogram(audio)
        return jnp.log(self._magnitudes(audio) + _LEAST)

    def compute_mel_spectrogram(self, audio: Any) -> jax.Array:
        return jnp.log(self._filters @ self._magnitudes(audio) + _LEAST)

    def _magnitudes(self, audio: Any) -> jax.Array:
        """Return f32[…, n_fft // 2 + 1, frames]."""
        sound, size = jnp.asarray(audio, jnp.float32), self.config.n_fft
        if sound.shape[-1] <= size // 2:
            raise InputError(f"a sound must have more than {size // 2} samples (n_fft // 2)")
        edges = [(0, 0)] * (sound.ndim - 1) + [(size // 2, size // 2)]
        whole = jnp.pad(sound, edges, mode="reflect")
        starts = np.arange(0, whole.shape[-1] - size + 1, self.config.hop_length)
        frames = whole[..., starts[:, None] + np.arange(size)] * jnp.hanning(size)
        return jnp.moveaxis(jnp.abs(jnp.fft.rfft(frames)), -1, -2)

    @cached_property
    def _filters(self) -> NDArray[np.float32]:
        """Triangles, evenly spaced in mel: f32[n_mels, n_fft // 2 + 1]."""
        half = self.config.sample_rate / 2
        points = np.linspace(0, 2595 * np.log10(1 + half / 700), self.config.n_mels + 2)
        edges = 700 * (10 ** (points / 2595) - 1)
        found = np.linspace(0, half, self.config.n_fft // 2 + 1)
        low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        slopes = np.minimum((found - low) / (middle - low), (high - found) / (high - middle))
        return np.maximum(slopes, 0).astype(np.float32)


def resampled(sounds: NDArray[np.float32], source: int, target: int) -> NDArray[np.float32]:
    """Return f32[…, n] at `source` samples a second as f32[…, ceil(n · target / source)]."""
    try:
        import soxr
    except ModuleNotFoundError:
        raise ConfigError(
            f"sounds of another rate than the config's need soxr; {how_to_install('audio')}"
        ) from None
    count = sounds.shape[-1]
    length = -(-count * target // source)
    if not count:
        return sounds
    # soxr rounds the length to the nearest: silence is added, and what is too much is cut off.
    edges = [(0, 0)] * (sounds.ndim - 1) + [(0, -(-source // target))]
    flat = np.pad(sounds, edges).reshape(-1, count + edges[-1][1])
    found = [soxr.resample(one, source, target, "VHQ")[:length] for one in flat]
    return np.stack(found).reshape(*sounds.shape[:-1], length)
