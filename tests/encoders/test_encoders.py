"""Encoders by themselves: colours, samples, and who may call an encoder what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.encode.batches import FrameEncoding, SoundEncoding
from dataprep.pipeline.encoders import (
    AudioEncoder,
    ImageEncoder,
    encoder_names,
    find_encoder,
    find_weights,
    frame_size,
    open_encoder,
)
from dataprep.pipeline.errors import ConfigError, DataprepError
from dataprep.pipeline.media.decode import Decoded, Item
from support.plugins import install_plugin


def pictures(**settings: Any) -> ImageEncoder:
    return cast(ImageEncoder, open_encoder("patches", settings))


def sounds(**settings: Any) -> AudioEncoder:
    return cast(AudioEncoder, open_encoder("mulaw", settings))


# --- patches ------------------------------------------------------------------------------------


def test_patches_give_256_codes_below_8192_for_lwm_sized_pictures() -> None:
    encoder = pictures()
    images = np.random.default_rng(0).integers(0, 256, (3, 256, 256, 3)).astype(np.uint8)
    codes = encoder.encode(images)
    assert frame_size(encoder) == (256, 256)
    assert (encoder.tokens_per_frame, encoder.codebook_size) == (256, 8192)
    assert codes.shape == (3, 256)
    assert codes.dtype == np.int32
    assert codes.min() >= 0
    assert codes.max() < 8192


def test_patches_codes_of_known_colours() -> None:
    encoder = pictures(size=4, cells=2)
    image = np.zeros((1, 4, 4, 3), np.uint8)
    image[0, :2, 2:] = 255  # top right white
    image[0, 2:, :2] = (255, 0, 0)  # bottom left red: Y 76, Cb 85, Cr 255 (not 256)
    image[0, 2:, 2:] = (0, 0, 255)  # bottom right blue: Y 29, Cb 255, Cr 107
    expected = [
        0 << 8 | 8 << 4 | 8,
        31 << 8 | 8 << 4 | 8,
        76 // 8 << 8 | 85 // 16 << 4 | 15,
        29 // 8 << 8 | 15 << 4 | 107 // 16,
    ]
    assert encoder.encode(image)[0].tolist() == expected


def test_patches_code_a_cell_by_its_mean() -> None:
    encoder = pictures(size=8, cells=1)
    image = np.zeros((1, 8, 8, 3), np.uint8)
    image[0, ::2] = 200
    flat = np.full((1, 8, 8, 3), 100, np.uint8)
    assert (encoder.encode(image) == encoder.encode(flat)).all()


def test_patches_of_any_shape_code_the_mean_of_each_cell() -> None:
    encoder = pictures(size="6x8", cells="3x2")
    image = np.random.default_rng(1).integers(0, 256, (1, 6, 8, 3)).astype(np.uint8)
    cells = [image[:, y : y + 2, x : x + 4] for y in (0, 2, 4) for x in (0, 4)]
    one = pictures(size="2x4", cells=1)
    assert (frame_size(encoder), encoder.tokens_per_frame) == ((6, 8), 6)
    assert encoder.encode(image)[0].tolist() == [one.encode(cell)[0, 0] for cell in cells]
    back = encoder.decode(encoder.encode(image))
    assert back.shape == image.shape
    assert (encoder.encode(back) == encoder.encode(image)).all()


def test_patches_of_one_pixel_and_eight_bits_are_the_grey_values() -> None:
    encoder = pictures(size=28, cells=28, bits="8-0-0")
    grey = np.random.default_rng(2).integers(0, 256, (2, 28, 28)).astype(np.uint8)
    image = np.repeat(grey[..., None], 3, axis=3)
    assert encoder.codebook_size == 256
    assert (encoder.encode(image) == grey.reshape(2, -1)).all()
    assert (encoder.decode(encoder.encode(image)) == image).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"size": "32x30", "cells": 16}, "size 32x30 is not a multiple of cells 16"),
        ({"size": "32x"}, "height x width such as 128x256, got '32x'$"),
        ({"size": 5000}, "from 1 to 4096, got 5000$"),
        ({"bits": "8-8-8"}, "more than 20"),
        ({"bits": "0-4-4"}, "bits"),
    ],
)
def test_settings_of_patches_that_cannot_be_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        pictures(**settings)


def test_one_size_has_one_identity_however_it_is_spelled() -> None:
    assert (
        pictures(size="64x64").identity
        == pictures(size=64).identity
        == pictures(size="64").identity
    )


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_patches_decode_to_a_colour_near_the_one_encoded(colour: tuple[int, int, int]) -> None:
    encoder = pictures(size=2, cells=1)
    image = np.full((1, 2, 2, 3), colour, np.uint8)
    back = encoder.decode(encoder.encode(image))
    assert back.shape == image.shape
    # Half a bin of Y (4) and of the chroma (8, which counts up to 1.8 times in blue), each rounded.
    assert np.abs(back.astype(int) - image).max() <= 4.5 + 8.5 * 1.8 + 1


def test_patches_refuse_cells_that_do_not_divide_the_size() -> None:
    with pytest.raises(ConfigError, match="size 256 is not a multiple of cells 7"):
        pictures(cells=7)


# --- mulaw --------------------------------------------------------------------------------------


def test_mulaw_codes_are_those_of_the_formula() -> None:
    encoder = sounds()
    x = np.array([-1, -0.5, -0.01, 0, 0.01, 0.5, 1], np.float32)
    y = np.sign(x) * np.log1p(255 * np.abs(x)) / np.log(256)
    expected = np.floor((y + 1) / 2 * 255 + 0.5).astype(int)
    assert encoder.encode(x).tolist() == [expected.tolist()]
    assert (encoder.num_codebooks, encoder.codebook_size, encoder.rate) == (1, 256, 16000)


def test_mulaw_decodes_every_code_to_a_sample_of_that_code() -> None:
    encoder = sounds()
    codes = np.arange(256, dtype=np.int32)[None]
    assert (encoder.encode(encoder.decode(codes)) == codes).all()


@given(st.floats(-1, 1, width=32))
def test_mulaw_is_finer_near_silence(sample: float) -> None:
    encoder = sounds()
    x = np.array([sample], np.float32)
    error = abs(float(encoder.decode(encoder.encode(x))[0] - x[0]))
    step = np.log(256) * 2 / 255  # between neighbours, where the slope is 1
    assert error <= 0.52 * step * (abs(sample) + 1 / 255) + 1 / 32767


# --- the registry -------------------------------------------------------------------------------


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Any:
    def add(folder: Path) -> None:
        monkeypatch.syspath_prepend(str(folder))

    yield add
    for name in [name for name in sys.modules if name.endswith("_encoder")]:
        del sys.modules[name]


def test_an_entry_point_brings_an_encoder(tmp_path: Path, on_path: Any) -> None:
    on_path(install_plugin(tmp_path, "brightness = plug_encoder:SPEC"))
    assert encoder_names() == ["patches", "vqgan", "mulaw", "mel", "stft", "brightness"]
    encoder = cast(ImageEncoder, open_encoder("brightness", {"size": 2}))
    assert encoder.encode(np.full((1, 2, 2, 3), 7, np.uint8)).tolist() == [[7]]


def test_a_misspelt_setting_of_a_plugin_is_refused(tmp_path: Path, on_path: Any) -> None:
    on_path(install_plugin(tmp_path, "brightness = plug_encoder:SPEC"))
    with pytest.raises(ConfigError, match="no setting 'siez'; did you mean 'size'"):
        open_encoder("brightness", {"siez": 2})


class Lamp:
    """An encoder that gives what it is told to."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.codebook_size, self.tokens_per_frame, self.batch_size, self.size = 256, 1, 1, 2
        self.num_codebooks = 1
        self.identity = {"encoder": "lamp"}

    def encode(self, media: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (np.array([[133.7]]), "lamp gave codes of type float64, expected whole numbers"),
        ("codes", "lamp gave codes of type <U5"),
        (None, "lamp gave codes of type object"),
        (RuntimeError("no bulb"), r"lamp failed: RuntimeError: no bulb \(.*, line \d+\)"),
        (np.array(7), r"lamp gave codes of shape \(\)"),
        (np.array([[300]]), r"lamp gave codes in 300\.\.300"),
    ],
)
def test_what_a_plugin_does_wrong_is_said_to_be_its_fault(answer: Any, reason: str) -> None:
    """Neither the record's, which would be left out, nor ours, which would be reported."""
    item, pixels = cast(Item, None), np.zeros((2, 2, 3), np.uint8)
    frames = FrameEncoding(cast(ImageEncoder, Lamp(answer)))
    with pytest.raises(DataprepError, match=reason):
        frames.add(0, Decoded(item=item, columns={}, frames=[pixels]))
    sounds = SoundEncoding(cast(AudioEncoder, Lamp(answer)))
    with pytest.raises(DataprepError, match=reason):
        sounds.add(0, Decoded(item=item, columns={}, waveform=np.zeros(9, np.float32)))


def test_an_encoder_of_a_name_that_is_taken_is_refused(tmp_path: Path, on_path: Any) -> None:
    on_path(install_plugin(tmp_path, "patches = plug_encoder:SPEC"))
    with pytest.raises(ConfigError, match=r"two encoders are called 'patches': one from dataprep"):
        find_encoder("mulaw")


def test_two_packages_with_encoders_of_one_name_are_refused(tmp_path: Path, on_path: Any) -> None:
    on_path(install_plugin(tmp_path / "a", "brightness = plug_encoder:SPEC"))
    on_path(install_plugin(tmp_path / "b", "brightness = other_encoder:SPEC", "other"))
    with pytest.raises(ConfigError, match="plug_encoder:SPEC"):
        encoder_names()


def test_a_plugin_that_is_no_encoder_is_refused(tmp_path: Path, on_path: Any) -> None:
    on_path(install_plugin(tmp_path, "brightness = plug_encoder:Brightness"))
    with pytest.raises(ConfigError, match="is not an EncoderSpec of that name"):
        find_encoder("brightness")


def test_a_plugin_that_fails_to_load_says_why(tmp_path: Path, on_path: Any) -> None:
    on_path(install_plugin(tmp_path, "brightness = no_such_module:SPEC"))
    with pytest.raises(ConfigError, match="no_such_module"):
        find_encoder("brightness")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("patchs", {}, "did you mean patches"),
        ("zzz", {}, "--list"),
        ("patches", {"cels": 8}, "cels"),
        ("patches", {"cells": 0}, "cells"),
        ("vqgan", {}, "needs weights"),
    ],
)
def test_a_wrong_name_or_setting_is_a_config_error(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        open_encoder(name, settings)


def test_weights_for_an_encoder_that_has_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"x")
    with pytest.raises(ConfigError, match="takes no weights"):
        open_encoder("patches", {}, find_weights(str(path), None))
    with pytest.raises(ConfigError, match="is not a file"):
        find_weights(str(tmp_path / "nowhere"), None)
