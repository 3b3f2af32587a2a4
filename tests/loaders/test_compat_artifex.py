"""Artifex's registry, datasets and processors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dataprep.loaders.compat import artifex
from dataprep.loaders.compat.artifex import registry
from dataprep.pipeline.errors import ConfigError, InputError
from support.packed import write_packed

Shape = artifex.ImageRepresentation


class Own(artifex.BaseDataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"images": np.full((2, 2, 3), number), "labels": number, "texts": f"no. {number}"}


def test_modalities_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MODALITIES", dict(registry._MODALITIES))
    artifex.register_modality("own", Own)
    assert artifex.list_modalities() == ["audio", "image", "own", "text"]
    assert artifex.get_modality("own") is Own
    assert artifex.get_modality("image") is artifex.ImageModality
    with pytest.raises(ConfigError, match=r"'own' is .*\.Own already"):
        artifex.register_modality("own", Own)
    with pytest.raises(ConfigError, match="no modality 'img'; there are audio, image, own, text"):
        artifex.get_modality("img")


def test_a_batch_is_drawn_and_the_next_is_another() -> None:
    dataset = Own(None, "train", rngs=3)
    first, second = dataset.get_batch(6), dataset.get_batch(6)
    assert first["images"].shape == (6, 2, 2, 3)
    assert isinstance(first["labels"], jax.Array)
    assert first["texts"] == [f"no. {number}" for number in first["labels"].tolist()]
    assert first["labels"].tolist() != second["labels"].tolist()
    assert Own(rngs=3).get_batch(6)["texts"] == first["texts"]
    assert [sample["labels"] for sample in dataset] == list(range(10))

    class Rngs:
        def sample(self) -> jax.Array:
            return jax.random.key(1)

    wanted = jax.random.randint(jax.random.key(1), (6,), 0, 10)
    assert Own(rngs=Rngs()).get_batch(6)["labels"].tolist() == wanted.tolist()


def test_a_loader_gives_every_sample_once() -> None:
    def labels(**options: Any) -> list[int]:
        batches = artifex.create_data_loader(Own(), 4, **options)
        return [label for batch in batches for label in batch["labels"].tolist()]

    assert labels(shuffle=False) == list(range(10))
    assert labels(shuffle=False, drop_last=True) == list(range(8))
    assert sorted(labels()) == list(range(10))
    assert labels() == labels() != labels(epoch=1)
    assert labels(seed=1) != labels()


def test_rows_of_a_packed_dataset_are_samples(tmp_path: Any) -> None:
    packed = write_packed(tmp_path / "d", num_rows=9, seq_len=8)
    rows = artifex.PackedSamples(packed.folder)
    assert len(rows) == len([*rows]) == 9
    (batch,) = artifex.create_data_loader(rows, 9, shuffle=False)
    np.testing.assert_array_equal(batch["tokens"], packed.tokens)
    assert isinstance(batch["tokens"], jax.Array)
    assert rows.get_batch(4)["segment_ids"].shape == (4, 9)


@pytest.mark.parametrize(
    ("representation", "wanted"),
    [
        (Shape.RGB, [1.0, 0.0, 0.0]),
        (Shape.RGBA, [1.0, 0.0, 0.0, 1.0]),
        (Shape.GRAYSCALE, [0.299]),
    ],
)
def test_pictures_get_their_size_range_and_channels(representation: Any, wanted: Any) -> None:
    red = np.zeros((2, 5, 9, 3), np.uint8)
    red[..., 0] = 255
    for normalize in (True, False):
        config = artifex.ImageModalityConfig(representation, 4, 6, normalize=normalize)
        modality = artifex.ImageModality(config)
        found = modality.process(red)
        assert found.shape == (2, *modality.image_shape) == (2, 4, 6, len(wanted))
        expected = np.array(wanted) if normalize else np.array(wanted) * 2 - 1
        np.testing.assert_allclose(found[0, 1, 2], expected, atol=1e-6)
        assert modality.process(red[0]).shape == modality.output_shape
        assert modality.postprocess(found).dtype == jnp.uint8


def test_methods_of_resizing_differ_and_keep_what_has_the_size() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    same = artifex.ImageModality(artifex.ImageModalityConfig(height=4, width=4))
    np.testing.assert_array_equal(same.postprocess(same.process(pixels)), pixels)
    nearest = artifex.ImageModalityConfig(height=8, width=8, resize_method="nearest")
    twice = artifex.ImageModality(nearest)
    wanted = pixels.repeat(2, 0).repeat(2, 1)
    np.testing.assert_array_equal(twice.postprocess(twice.process(pixels)), wanted)


def test_pictures_are_flipped_in_training_only() -> None:
    config = artifex.ImageModalityConfig(height=2, width=2, augmentation=True)
    modality, pixels = artifex.ImageModality(config), np.random.default_rng(0).random((64, 2, 2, 3))
    plain = modality.process(pixels)
    np.testing.assert_allclose(plain, pixels, rtol=1e-6)
    flipped = modality.process(pixels, training=True, key=jax.random.key(0))
    changed = (np.asarray(flipped) != np.asarray(plain)).any((1, 2, 3))
    assert 16 < changed.sum() < 48
    np.testing.assert_array_equal(flipped[changed], plain[changed][:, :, ::-1])
    with pytest.raises(ConfigError, match="augmentation needs a key"):
        modality.process(pixels, training=True)


def test_sounds_get_their_length_and_loudness() -> None:
    modality = artifex.AudioModality(artifex.AudioModalityConfig(sample_rate=100, duration=0.5))
    sounds = modality.process(np.array([[0.5, -0.25], [0, 0]]))
    assert sounds.shape == (2, 50)
    assert sounds[0, :3].tolist() == [1, -0.5, 0]
    assert not sounds[1].any()
    assert modality.process(np.ones(80, np.int16)).shape == (50,)
    with pytest.raises(InputError, match="has 44100 samples a second, the config 100"):
        modality.process(np.ones(80), sample_rate=44100)


def test_a_sine_is_where_it_belongs_in_a_spectrogram() -> None:
    config = artifex.AudioModalityConfig(duration=1.0, spectrogram_type="stft")
    modality = artifex.AudioModality(config)
    sine = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    found = modality.compute_spectrogram(sine)
    assert found.shape == (513, 16000 // 256 + 1)
    assert int(found[:, 30].argmax()) == 1000 * 1024 // 16000
    mel = modality.compute_mel_spectrogram(np.stack([sine, sine]))
    assert mel.shape == (2, 80, 63)
    mels = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 82)[1:-1]
    nearest = np.abs(mels - 2595 * np.log10(1 + 1000 / 700)).argmin()
    assert abs(int(mel[0, :, 30].argmax()) - nearest) <= 1


def text_config(**options: Any) -> artifex.TextModalityConfig:
    return artifex.TextModalityConfig(
        encode=lambda text: [byte + 4 for byte in text.encode()],
        decode=lambda ids: bytes(one - 4 for one in ids).decode(),
        **options,
    )


def test_texts_are_ids_of_one_length_and_texts_again() -> None:
    modality = artifex.TextModality(text_config(max_length=6))
    assert modality.tokenize("Hi").tolist() == [2, 76, 109, 3, 0, 0]
    assert modality.tokenize("Higher").tolist() == [2, 76, 109, 107, 108, 3]
    assert modality.detokenize(modality.tokenize("Hi")) == "Hi"
    lower = artifex.TextModality(text_config(max_length=6, case_sensitive=False))
    assert lower.detokenize(lower.tokenize("Hi")) == "hi"
    with pytest.raises(InputError, match="id 76 is not below vocab_size 50"):
        artifex.TextModality(text_config(vocab_size=50)).tokenize("Hi")
    with pytest.raises(ConfigError, match="needs a tokenizer"):
        artifex.TextModality({"max_length": 3})  # type: ignore[arg-type]


def test_texts_of_a_list_are_a_dataset() -> None:
    dataset = artifex.SimpleTextDataset(text_config(max_length=8), ["a", "bc", "def"])
    (batch,) = artifex.create_data_loader(dataset, 3, shuffle=False)
    assert batch["text"] == ["a", "bc", "def"]
    assert batch["text_tokens"].shape == (3, 8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: artifex.ImageModalityConfig(channels=4), "RGB has 3 channels, not 4"),
        (lambda: artifex.ImageModalityConfig(height=0), "height must be at least 1"),
        (lambda: artifex.AudioModalityConfig(hop_length=0), "hop_length must be at least 1"),
        (lambda: artifex.BaseDataset().get_batch(0), "batch_size must be at least 1"),
    ],
)
def test_wrong_settings_are_errors(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
