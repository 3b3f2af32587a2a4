"""Spectrograms as codes: held against the formulas in float64, and exact to the last bit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from conftest import RunCli
from dataprep.pipeline.encoders import AudioEncoder, open_encoder
from dataprep.pipeline.encoders.mel import MelSettings, bands_of
from dataprep.pipeline.encoders.spectra import Transform
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.media.sound import wav_of
from support.encoding import rows_of

Floats = NDArray[np.float64]


def encoder_of(name: str, **values: Any) -> AudioEncoder:
    return cast(AudioEncoder, open_encoder(name, values))


def sound(seed: int = 0, seconds: float = 0.3, rate: int = 16000) -> NDArray[np.float32]:
    """Tones that glide over noise, some of it quiet."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    tones = sum(
        rng.uniform(0.05, 0.4) * np.sin(2 * np.pi * rng.uniform(80, 3000) * time * (1 + time))
        for _ in range(4)
    )
    waveform = tones + rng.normal(0, 10 ** rng.uniform(-4, -1), len(time))
    return np.clip(waveform / np.abs(waveform).max(), -1, 1).astype(np.float32)


# --- the formulas, in float64 ---


def reference_powers(waveform: NDArray[np.float32], n_fft: int, hop: int) -> Floats:
    """|X|² of [bins, frames], as librosa.stft(center=True, pad_mode="constant") has it."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    padded = np.pad(waveform.astype(np.float64), n_fft // 2)
    frames = [padded[i : i + n_fft] * window for i in range(0, len(waveform) + 1, hop)]
    return np.abs(np.fft.rfft(frames, axis=1).T) ** 2


def reference_bands(rate: int, n_fft: int, n_mels: int, fmin: float, fmax: float) -> Floats:
    """Triangles on Slaney's scale, by its definition."""

    def mel(f: Floats) -> Floats:
        return np.where(
            f < 1000, f * 3 / 200, 15 + 27 * np.log(np.maximum(f, 1) / 1000) / np.log(6.4)
        )

    grid = np.linspace(0, rate / 2, 2_000_001)  # the scale turned round, by a table
    edges = np.interp(np.linspace(*mel(np.array([fmin, fmax])), n_mels + 2), mel(grid), grid)
    bins = np.linspace(0, rate / 2, n_fft // 2 + 1)
    rows = [np.interp(bins, edges[i : i + 3], [0, 1, 0]) for i in range(n_mels)]
    return np.array(rows)


def reference_levels(powers: Floats, levels: int, range_db: float) -> Floats:
    """What is rounded to codes."""
    decibels = 10 * np.log10(np.maximum(powers, 1e-30))
    return np.clip((decibels + range_db) * (levels - 1) / range_db, 0, levels - 1)


CASES = [
    {},
    {"n_fft": 512, "hop_length": 128, "levels": 1024},
    {"n_fft": 2048, "hop_length": 512, "range_db": 60},
    {"n_fft": 400, "hop_length": 160, "levels": 64},
    {"n_fft": 498, "hop_length": 77},  # not a multiple of four
    {"n_fft": 4096, "hop_length": 1000, "levels": 65536},
]


@pytest.mark.parametrize("values", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_stft_codes_are_those_of_the_formula(values: dict[str, Any], seed: int) -> None:
    given_ = {"n_fft": 1024, "hop_length": 256, "levels": 256, "range_db": 80.0, **values}
    waveform, n_fft = sound(seed), given_["n_fft"]
    codes = encoder_of("stft", **values).encode(waveform)
    amplitude = reference_powers(waveform, n_fft, given_["hop_length"]) * (4 / n_fft) ** 2
    expected = reference_levels(amplitude, given_["levels"], given_["range_db"])
    assert codes.shape == (n_fft // 2 + 1, 1 + len(waveform) // given_["hop_length"])
    step_db = given_["range_db"] / (given_["levels"] - 1)
    # Half a step of rounding, and what 20 bits are less than float64: 0.02 dB, at -80 dB.
    assert np.abs(codes - expected).max() <= 0.5 + 0.02 / step_db


@pytest.mark.parametrize("values", CASES[:4])
@pytest.mark.parametrize(("fmin", "fmax"), [(0, None), (50, 7600)])
def test_mel_codes_are_those_of_the_formula(
    values: dict[str, Any], fmin: float, fmax: float | None
) -> None:
    given_ = {"n_fft": 1024, "hop_length": 256, "levels": 256, "range_db": 80.0, **values}
    waveform, n_fft = sound(3), given_["n_fft"]
    codes = encoder_of("mel", n_mels=40, fmin=fmin, fmax=fmax, **values).encode(waveform)
    window_energy = n_fft * (n_fft * 3 / 8)
    powers = reference_powers(waveform, n_fft, given_["hop_length"]) * 4 / window_energy
    bands = reference_bands(16000, n_fft, 40, fmin, fmax or 8000)
    expected = reference_levels(bands @ powers, given_["levels"], given_["range_db"])
    assert codes.shape == (40, 1 + len(waveform) // given_["hop_length"])
    step_db = given_["range_db"] / (given_["levels"] - 1)
    assert np.abs(codes - expected).max() <= 0.5 + 0.02 / step_db


@pytest.mark.parametrize("name", ["mel", "stft"])
@pytest.mark.parametrize("n_fft", [64, 1024])
def test_a_loud_sine_has_the_highest_code_and_silence_the_lowest(name: str, n_fft: int) -> None:
    encoder = encoder_of(
        name, n_fft=n_fft, hop_length=n_fft // 4, **({"n_mels": 8} if name == "mel" else {})
    )
    time = np.arange(8000) / 16000
    waveform = np.sin(2 * np.pi * 2000 * time).astype(np.float32)  # in the middle of a bin
    assert encoder.encode(waveform)[:, 10:-10].max() >= 250
    assert not encoder.encode(np.zeros(8000, np.float32)).any()


# --- exact ---


@given(st.integers(0, 2**32 - 1), st.sampled_from([16, 30, 64, 256]))
@settings(max_examples=20, deadline=None)
def test_all_sums_are_exact_whole_numbers(seed: int, n_fft: int) -> None:
    """The same by Python's integers, which have no rounding and no order."""
    transform = Transform(n_fft, n_fft)
    loud = np.random.default_rng(seed).choice([-1.0, 1.0], 3 * n_fft).astype(np.float32)
    frames = transform._frames(loud, 0, 3)
    real, imaginary = transform._transformed(frames)
    half = n_fft // 2
    cosines, sines = (table.astype(np.int64).astype(object) for table in transform._tables)
    whole = frames.astype(np.int64).astype(object)
    even, odd = whole[:, : half + 1].copy(), whole[:, 1:half] - whole[:, :half:-1]
    even[:, 1:half] += whole[:, :half:-1]
    assert (real.astype(np.int64) == even @ cosines).all()
    assert (imaginary.astype(np.int64) == odd @ sines).all()


@pytest.mark.parametrize("n_fft", [1024, 4096])
def test_the_loudest_sums_stay_below_what_float64_holds(n_fft: int) -> None:
    transform = Transform(n_fft, n_fft)
    ones = np.ones(2 * n_fft, np.float32)
    frames = transform._frames(ones, 1, 2)
    cosines, sines = transform._tables
    bound = np.abs(frames).sum() * max(np.abs(cosines).max(), np.abs(sines).max())
    assert bound <= 2**53
    bands = bands_of(MelSettings(n_fft=n_fft))
    energy = 4 * 2**38  # all of a constant is in one bin
    assert energy * bands.max() <= 2**53


@pytest.mark.parametrize("name", ["mel", "stft"])
def test_the_order_of_additions_does_not_matter(name: str) -> None:
    """As another BLAS would do it: the samples of a frame in another order."""
    encoder: Any = encoder_of(name)
    expected = encoder.encode(sound(5))
    transform = encoder._transform
    shuffled = np.random.default_rng(0).permutation(transform.n_fft // 2 + 1)
    inner = np.random.default_rng(1).permutation(transform.n_fft // 2 - 1)
    plain = transform._tables

    class Shuffled:
        def __init__(self, table: Any, order: Any) -> None:
            self.table, self.order = table, order

        __array_ufunc__ = None

        def __rmatmul__(self, left: Any) -> Any:
            total = np.zeros((len(left), self.table.shape[1]))
            for i in self.order:
                total += left[:, i, None] * self.table[i]
            return total

    transform.__dict__["_tables"] = (Shuffled(plain[0], shuffled), Shuffled(plain[1], inner))
    assert (encoder.encode(sound(5)) == expected).all()


@pytest.mark.parametrize(
    ("name", "digest"),
    [("mel", "0114594fb9da295b"), ("stft", "f8a4187fc723c5be")],
)
def test_codes_are_the_same_on_every_machine(name: str, digest: str) -> None:
    """Of samples that are made with whole numbers, so that they are the same, too."""
    steps = np.arange(16000, dtype=np.int64)
    levels = (steps * steps * 7 + steps * 12345) % 65537 - 32768
    waveform = (levels / 32768).astype(np.float32) * np.float32(0.5)
    codes = encoder_of(name).encode(waveform)
    assert hashlib.sha256(codes.astype("<i4").tobytes()).hexdigest()[:16] == digest


def test_codes_do_not_depend_on_the_kernels_of_the_libraries() -> None:
    """OpenBLAS adds in another order for another CPU; sums of fractions would differ by that."""
    code = (
        "import hashlib, numpy as np\n"
        "from dataprep.pipeline.encoders import open_encoder\n"
        "x = np.random.default_rng(0).uniform(-1, 1, 16000).astype(np.float32)\n"
        "codes = [open_encoder(n).encode(x).tobytes() for n in ('mel', 'stft')]\n"
        "print(hashlib.sha256(b''.join(codes)).hexdigest())\n"
    )
    found = set()
    for cpu in ("", "Prescott", "Haswell"):
        env = {**os.environ, "OPENBLAS_CORETYPE": cpu}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=120)
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("n_fft", [400, 512, 1024, 2048, 4096])
def test_no_table_has_a_value_that_rounding_may_turn_either_way(n_fft: int) -> None:
    """Cosines of other libraries differ by 1e-16: far less than the distance to a half."""
    exact = np.cos(2 * np.pi * np.arange(n_fft) / n_fft) * 2**20
    assert np.abs(np.abs(exact - np.floor(exact)) - 0.5).min() > 1e-6


def test_a_long_sound_is_encoded_in_blocks_and_gives_the_same() -> None:
    waveform = sound(1, seconds=6)
    encoder = encoder_of("mel", n_mels=20, n_fft=256, hop_length=64)
    codes = encoder.encode(waveform)  # 1,501 frames: six blocks
    assert codes.shape == (20, 1501)
    middle = encoder.encode(waveform[64 * 500 - 64 * 4 : 64 * 520])
    assert (codes[:, 500:515] == middle[:, 4:19]).all()


# --- there and back ---


@pytest.mark.parametrize("name", ["mel", "stft"])
def test_decoding_gives_a_sound_with_nearly_the_same_codes(name: str) -> None:
    encoder = encoder_of(name)
    codes = encoder.encode(sound(2, seconds=1))
    back = encoder.decode(codes)
    assert len(back) == (codes.shape[1] - 1) * 256
    again = encoder.encode(back)[:, 4:-4].astype(int)
    loud = codes[:, 4:-4] > 128  # -40 dB
    assert np.abs(again - codes[:, 4:-4])[loud].mean() < 8  # 2.5 dB


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("stft", {"n_fft": 501}, "n_fft 501 is not even"),
        ("mel", {"n_mels": 400, "n_fft": 512}, "narrower than a frequency of n_fft 512"),
        ("mel", {"fmin": 4000, "fmax": 3000}, "fmin 4000 must be less than fmax 3000"),
        ("mel", {"fmax": 9000}, "at most half of rate"),
        ("mel", {"levels": 1}, "at least 2"),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        encoder_of(name, **values)


def test_sounds_become_tokens_and_files_again(tmp_path: Path, run_cli: RunCli) -> None:
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    for seed in range(3):
        (sounds / f"{seed}.wav").write_bytes(wav_of(sound(seed, seconds=0.5), 16000))
        (sounds / f"{seed}.txt").write_text("hm")
    run_cli(
        *("encode", sounds, "--encoder", "mel", "--out", tmp_path / "codes", "--duration", "0.4"),
        *("--set", "settings.n_mels=20", "--set", "settings.levels=64"),
    )
    rows = rows_of(tmp_path / "codes")
    assert [(len(r["audio"]), len(r["audio"][0])) for r in rows] == [(20, 26)] * 3
    run_cli(
        *("tokenize", tmp_path / "codes", "--tokenizer", "bytes", "--fields", "[audio],text"),
        *("--out", tmp_path / "tokens"),
    )
    run_cli("verify", tmp_path / "tokens")
    done = run_cli("inspect", tmp_path / "tokens", "--doc", "1", "--media", tmp_path / "heard")
    assert "<audio" in done.stdout
    (heard,) = (tmp_path / "heard").iterdir()
    assert heard.suffix == ".wav"
    assert heard.stat().st_size == 44 + 2 * 25 * 256
