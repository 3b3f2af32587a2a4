"""Sounds as they come: what is read, brought to what rate and loudness, what is bad."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataprep.pipeline.encoders import open_encoder, registry
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.media import SoundRules
from dataprep.pipeline.media.sound import resample, scaled
from support.media import decode, sine


def sound(waveform: NDArray[Any], rate: int, format: str = "WAV") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, waveform, rate, format=format)
    return file.getvalue()


@pytest.mark.parametrize(
    ("source", "target"),
    [(44100, 16000), (48000, 16000), (16000, 24000), (8000, 44100), (11025, 7919)],
)
def test_a_resampled_sine_is_the_sine_at_the_other_rate(source: int, target: int) -> None:
    frequency = 0.3 * min(source, target)
    found, expected = resample(sine(source, frequency), source, target), sine(target, frequency)
    assert abs(len(found) - len(expected)) <= 1
    edge = target // 100
    length = min(len(found), len(expected))
    inner = slice(edge, length - edge)
    assert np.abs(found[inner] - expected[inner]).max() < 1e-4


def test_what_is_above_the_new_rates_half_is_gone() -> None:
    found = resample(sine(44100, 10000), 44100, 16000)
    assert np.abs(found[200:-200]).max() < 1e-4


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 200), st.integers(1, 200))
def test_resampling_keeps_constants_and_gives_every_sample(n: int, a: int, b: int) -> None:
    found = resample(np.ones(n, np.float32), a * 100, b * 100)
    assert len(found) == -(-n * b // a)
    # The silence before and after is felt 115 samples far at most, of the lower rate.
    half = 120 * max(1.0, b / a)
    inner = found[int(half) + 1 : len(found) - int(half) - 1]
    assert np.abs(inner - 1).max(initial=0) < 1e-5


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 200), st.integers(1, 200), st.integers(0, 99))
def test_resampling_gives_the_samples_of_soxr_and_at_most_one_more(
    n: int, a: int, b: int, seed: int
) -> None:
    waveform = np.random.default_rng(seed).uniform(-1, 1, n).astype(np.float32)
    found = resample(waveform, a * 100, b * 100)
    expected = soxr.resample(waveform, a * 100, b * 100, "VHQ") if a != b else waveform
    assert 0 <= len(found) - len(expected) <= 1
    assert (found[: len(expected)] == expected).all()


def test_a_sample_that_soxr_leaves_out_is_that_of_the_sound_and_not_silence() -> None:
    waveform = np.ones(3001, np.float32)  # the last of them is sample 1000 of 0..1000
    found = resample(waveform, 48000, 16000)
    assert len(found) == 1001 == len(soxr.resample(waveform, 48000, 16000, "VHQ")) + 1
    assert found[-1] > 0.5


def test_resampling_gives_the_same_bytes_in_threads_and_without_vector_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waveform = np.random.default_rng(0).uniform(-1, 1, 50000).astype(np.float32)
    expected = resample(waveform, 44100, 16000).tobytes()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resample(waveform, 44100, 16000).tobytes(), range(8)))
    assert set(found) == {expected}
    monkeypatch.setenv("SOXR_USE_SIMD", "0")  # read by soxr for each new filter
    assert resample(waveform, 44100, 16000).tobytes() == expected


@pytest.mark.parametrize("format", ["WAV", "FLAC"])
def test_a_stereo_file_becomes_one_waveform_of_peak_one(format: str) -> None:
    left = sine(16000, 440)
    data = sound(np.stack([left, np.zeros_like(left)], axis=1), 16000, format)
    decoded = decode(data, SoundRules(rate=16000, loudness="peak"))
    assert decoded.waveform is not None
    assert decoded.waveform.dtype == np.float32
    np.testing.assert_allclose(decoded.waveform, left / np.abs(left).max(), atol=2e-4)


def test_loudness_is_of_the_peak_or_of_the_mean_square_or_left() -> None:
    quiet = sine(16000, 440) / 10
    assert np.abs(scaled(quiet, "peak")).max() == pytest.approx(1)
    assert np.sqrt(np.mean(scaled(quiet, "rms") ** 2)) == pytest.approx(0.1, abs=1e-4)
    assert (scaled(quiet, "none") == quiet).all()
    assert (scaled(np.zeros(5, np.float32), "peak") == 0).all()
    faintest = np.zeros(1 << 16, np.float32)
    faintest[7] = 1e-45
    assert (scaled(faintest, "rms") == faintest).all()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"RIFF", "cannot be read as sound"),
        (b"", "cannot be read as sound"),
    ],
)
def test_a_bad_sound_has_a_reason(data: bytes, reason: str) -> None:
    assert reason in decode(data, SoundRules(rate=16000, loudness="peak")).reason


def test_sounds_that_are_empty_cut_off_or_no_numbers_are_bad() -> None:
    rules = SoundRules(rate=16000, loudness="peak")
    assert "no samples" in decode(sound(np.zeros(0), 16000), rules).reason
    noise = np.random.default_rng(0).uniform(-1, 1, 50000)
    flac = sound(noise, 16000, "FLAC")
    assert decode(flac[: len(flac) // 2], rules).reason
    file = io.BytesIO()
    soundfile.write(file, np.array([0, np.nan]), 16000, format="WAV", subtype="FLOAT")
    assert "not numbers" in decode(file.getvalue(), rules).reason


# --- packages that are not installed ------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "rate", "reason"),
    [
        ("soundfile", 16000, r"sounds need soundfile; pip install soundfile soxr"),
        (
            "soxr",
            8000,
            r"sounds with another rate .* need soxr; pip install soundfile soxr",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, module: str, rate: int, reason: str
) -> None:
    data = sound(sine(16000, 440), 16000)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=reason):
        decode(data, SoundRules(rate=rate, loudness="peak"))


def test_an_encoder_of_sound_names_the_packages_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = ("soundfile", "soxr")
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name in lacking else name)
    wanted = r"encoder mulaw needs soundfile, soxr; pip install soundfile soxr"
    with pytest.raises(ConfigError, match=wanted):
        open_encoder("mulaw")


@pytest.mark.parametrize(("seconds", "samples"), [(0.1, 1600), (0.75, 12000), (0.00001, 1)])
def test_a_sound_is_cut_off_or_filled_up_before_its_loudness_is_set(
    seconds: float, samples: int
) -> None:
    waveform = np.linspace(0, 0.5, 8000, dtype=np.float32)  # the loudest comes last
    rules = SoundRules(rate=16000, loudness="peak", duration=seconds)
    found = decode(sound(waveform, 16000), rules).waveform
    assert found is not None
    assert len(found) == samples
    kept = min(samples, 8000)
    assert not found[kept:].any()
    assert found.max() == (1 if kept > 1 else 0)
