"""Artifex's registry, datasets and processors."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from dataprep.loaders.compat import artifex
from dataprep.loaders.compat.artifex import registry
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.media.sound import resample
from dataprep.pipeline.sources.synthetic import find_synthetic, make
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
    assert isinstance(artifex.get_modality("image", rngs=None), artifex.ImageModality)
    named = {name: artifex.get_modality(name).name for name in ("audio", "image", "text")}
    assert named == {"audio": "audio", "image": "image", "text": "text"}
    with pytest.raises(ConfigError, match="a text needs a tokenizer: TextModalityConfig"):
        artifex.get_modality("text", rngs=0)
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


def test_a_dataset_may_have_samples_without_numbers() -> None:
    """As Artifex's documentation writes its own: with __len__ and __iter__."""

    class Documented(artifex.BaseDataset):
        def __len__(self) -> int:
            return 5

        def __iter__(self) -> Iterator[dict[str, Any]]:
            yield from ({"x": np.full(3, number)} for number in range(5))

    dataset = Documented(None, "val", rngs=1)
    batches = artifex.create_data_loader(dataset, 2)
    assert sorted(int(x) for batch in batches for x in batch["x"][:, 0]) == [0, 1, 2, 3, 4]
    assert dataset.get_batch(4)["x"].shape == (4, 3)
    with pytest.raises(NotImplementedError, match="has neither __getitem__ nor __iter__"):
        artifex.BaseDataset()[0]


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
    smooth = artifex.ImageModality(artifex.ImageModalityConfig(height=8, width=8))
    by_pillow = Image.fromarray(pixels).resize((8, 8), Image.Resampling.BILINEAR)
    assert smooth.config.resize_method == "bilinear"
    np.testing.assert_allclose(smooth.process(pixels), np.asarray(by_pillow) / 255, atol=0.005)


def test_a_picture_is_square_unless_it_has_a_width() -> None:
    config = artifex.ImageModalityConfig(Shape.GRAYSCALE, height=8)
    assert (config.width, config.channels) == (8, 1)
    deep = artifex.ImageModality(config).process(np.full((3, 3, 1), 65535, np.uint16))
    np.testing.assert_allclose(deep, np.ones((8, 8, 1)))


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
@pytest.mark.parametrize("value", [255.0, -1.0, np.nan, 256, -1])
def test_numbers_that_are_no_brightness_are_an_error(value: float, kind: Any) -> None:
    with pytest.raises(InputError, match=r"must be from 0 to (1|255),"):
        artifex.ImageModality().process(kind(np.full((3, 3, 3), value)))


def test_pictures_and_sounds_may_be_processed_under_jit() -> None:
    pictures, sounds = artifex.ImageModality(), artifex.AudioModality()
    for modality, data in ((pictures, np.ones((3, 3, 3))), (sounds, np.ones(9, np.float32))):
        found = jax.jit(modality.process)(data)
        np.testing.assert_allclose(found, modality.process(data), rtol=1e-6)


def test_pictures_are_flipped_in_training_only() -> None:
    config = artifex.ImageModalityConfig(height=2, width=2, augmentation=True)
    modality, pixels = artifex.ImageModality(config), np.random.default_rng(0).random((64, 2, 2, 3))
    plain = modality.process(pixels)
    np.testing.assert_allclose(plain, pixels, rtol=1e-6)
    flipped = modality.process(pixels, training=True, key=jax.random.key(0))
    np.testing.assert_array_equal(modality.process(pixels, training=True, key=0), flipped)
    changed = (np.asarray(flipped) != np.asarray(plain)).any((1, 2, 3))
    assert 16 < changed.sum() < 48
    np.testing.assert_array_equal(flipped[changed], plain[changed][:, :, ::-1])
    with pytest.raises(ConfigError, match="key must be a whole number"):
        modality.process(pixels, training=True, key="0")
    with pytest.raises(ConfigError, match="augmentation needs a key"):
        modality.process(pixels, training=True)


def test_sounds_get_their_length_and_loudness() -> None:
    modality = artifex.AudioModality(artifex.AudioModalityConfig(sample_rate=100, duration=0.5))
    sounds = modality.process(np.array([[0.5, -0.25], [0, 0]]))
    assert sounds.shape == (2, 50)
    assert sounds[0, :3].tolist() == [1, -0.5, 0]
    assert not sounds[1].any()
    np.testing.assert_array_equal(modality.process_audio([0.5, -0.25]), sounds[0])
    assert modality.process(np.ones(80, np.int16)).shape == modality.output_shape == (50,)
    with pytest.raises(InputError, match="got uint8"):
        modality.process(np.ones(80, np.uint8))
    for channels in (1, 2):
        with pytest.raises(InputError, match="has its channels last; give one"):
            modality.process(np.ones((80, channels), np.float32))
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="not finite"):
            modality.process(np.array([0.5, value]))


def test_sounds_of_another_rate_are_resampled_as_encode_does_it() -> None:
    config = artifex.AudioModalityConfig(sample_rate=16000, duration=0.25, normalize=False)
    modality = artifex.AudioModality(config)
    time = np.arange(22050) / 44100
    sounds = np.stack([np.sin(2 * np.pi * hertz * time) for hertz in (440, 1000)])
    found = modality.process(sounds.astype(np.float32), sample_rate=44100)
    assert found.shape == (2, 4000)
    wanted = [resample(sound.astype(np.float32), 44100, 16000)[:4000] for sound in sounds]
    np.testing.assert_array_equal(found, np.stack(wanted))
    short = modality.process(sounds[0, :441].astype(np.float32), sample_rate=44100)
    assert np.abs(np.asarray(short[:160])).max() > 0.9
    assert not np.asarray(short[160:]).any()
    loud = (sounds[0] * 32767).astype(np.int16)
    np.testing.assert_allclose(modality.process(loud, sample_rate=44100), found[0], atol=1e-4)
    with pytest.raises(ConfigError, match="sample_rate must be at least 1"):
        modality.process(sounds, sample_rate=0)


def test_a_processor_of_ones_own_needs_process_alone() -> None:
    class Doubled(artifex.BaseProcessor):
        def process(self, data: Any) -> Any:
            return 2 * data

    own = Doubled({"a": 1}, rngs=3)
    assert (own.config, own.rngs) == ({"a": 1}, 3)
    assert (own.process(4), own.preprocess(4), own.postprocess(4)) == (8, 8, 4)
    with pytest.raises(NotImplementedError, match="BaseProcessor has no process"):
        artifex.BaseProcessor().preprocess(1)
    for modality in (artifex.ImageModality(), artifex.AudioModality()):
        assert isinstance(modality, artifex.BaseProcessor)
    pixels = np.zeros((9, 9, 3), np.uint8)
    pictures = artifex.ImageModality(artifex.ImageModalityConfig(height=4, width=4))
    assert pictures.preprocess(pixels).shape == (4, 4, 3)


# --- made up ---

SMALL: dict[str, Any] = {"image_shape": (8, 8, 3), "audio_sample_rate": 500}


def records(spec: str, count: int) -> list[dict[str, Any]]:
    """What `dataprep tokenize` reads for this input."""
    source = find_synthetic(f"synthetic:{spec}")
    return [dict(make(source, number)) for number in range(count)]


@pytest.mark.parametrize("pattern", ["random", "gradient", "checkerboard", "circles"])
def test_made_up_pictures_are_those_of_the_input(pattern: str) -> None:
    config = artifex.ImageModalityConfig(height=8, width=10)
    dataset = artifex.SyntheticImageDataset(config, 6, pattern, seed=5)
    wanted = [
        np.asarray(Image.open(io.BytesIO(one["image"])))
        for one in records(f"image?pattern={pattern}&size=8x10&seed=5", 6)
    ]
    (batch,) = artifex.create_data_loader(dataset, 6, shuffle=False)
    np.testing.assert_array_equal(
        artifex.ImageModality(config).postprocess(batch["images"]), wanted
    )
    np.testing.assert_array_equal(dataset[4]["images"], batch["images"][4])
    assert dataset.get_batch(3)["images"].shape == (3, 8, 10, 3)
    other = artifex.SyntheticImageDataset(config, 6, pattern, "val", seed=5)
    again = artifex.SyntheticImageDataset(config, 6, pattern, split="val", seed=5)
    assert (np.asarray(other[0]["images"]) != np.asarray(dataset[0]["images"])).any()
    np.testing.assert_array_equal(other[0]["images"], again[0]["images"])


def test_made_up_digits_have_labels() -> None:
    dataset = artifex.MNISTLikeDataset(dataset_size=40, num_classes=3)
    (batch,) = artifex.create_data_loader(dataset, 40, shuffle=False)
    assert batch["images"].shape == (40, 28, 28, 1)
    wanted = [one["label"] for one in records("image?pattern=digits&size=28&classes=3", 40)]
    assert batch["labels"].tolist() == wanted
    assert set(wanted) == {0, 1, 2}
    assert len(artifex.MNISTLikeDataset()) == 60000


@pytest.mark.parametrize(
    "pattern", ["random_sentences", "repeated_phrases", "sequences", "palindromes"]
)
def test_made_up_texts_are_those_of_the_input(pattern: str) -> None:
    dataset = artifex.SyntheticTextDataset(text_config(max_length=20), 5, pattern, seed=2)
    (batch,) = artifex.create_data_loader(dataset, 5, shuffle=False)
    assert batch["texts"] == [one["text"] for one in records(f"text?pattern={pattern}&seed=2", 5)]
    assert batch["text_tokens"].shape == (5, 20)
    tokens = artifex.TextModality(text_config(max_length=20)).tokenize(batch["texts"][1])
    assert batch["text_tokens"][1].tolist() == tokens.tolist()


def test_made_up_sounds_are_those_of_the_input() -> None:
    config = artifex.AudioModalityConfig(sample_rate=2000, duration=0.5, normalize=False)
    types = ["sine", "noise", "chirp"]
    dataset = artifex.SyntheticAudioDataset(config, 9, types, "Own")
    wanted = records("audio?pattern=sine,noise,chirp&seconds=0.5&rate=2000", 9)
    (batch,) = artifex.create_data_loader(dataset, 9, shuffle=False)
    assert batch["audio_type"] == [one["audio_type"] for one in wanted]
    heard = np.stack([np.frombuffer(one["audio"][44:], "<i2") for one in wanted])
    np.testing.assert_array_equal(np.asarray(batch["audio"]) * 32768, heard)
    assert (dataset.name, dataset[0]["audio_type"]) == ("Own", wanted[0]["audio_type"])
    assert dataset[-1]["audio"].tolist() == batch["audio"][8].tolist()


def test_made_up_pairs_are_those_of_the_input() -> None:
    dataset = artifex.create_synthetic_multi_modal_dataset(
        ["image", "text", "audio"], 4, 0.8, image_shape=(16, 16, 3), audio_sample_rate=1000
    )
    (batch,) = artifex.create_data_loader(dataset, 4, shuffle=False)
    assert [*batch] == ["image", "text", "audio", "alignment_score", "latent"]
    wanted = records("paired?alignment_strength=0.8&size=16&rate=1000", 4)
    assert batch["text"] == [one["text"] for one in wanted]
    pixels = [np.asarray(Image.open(io.BytesIO(one["image"]))) for one in wanted]
    np.testing.assert_array_equal(np.rint(np.asarray(batch["image"]) * 255), pixels)
    assert batch["audio"].shape == (4, 1000)
    assert batch["latent"].shape == (4, 32)


def test_made_up_pairs_agree_as_much_as_is_asked_for() -> None:
    scores = {}
    for strength in (0.0, 0.8, 1.0):
        dataset = artifex.create_synthetic_multi_modal_dataset(["text"], 20, strength, **SMALL)
        scores[strength] = float(dataset.gather(range(20))["alignment_score"].mean())
    assert scores[0.0] < 0.2 < 0.7 < scores[0.8] < scores[1.0] == 1
    texts = artifex.create_synthetic_multi_modal_dataset(
        ["text"], 3, text_config=text_config(max_length=50), **SMALL
    )
    assert [*texts[0]] == ["text", "text_tokens", "alignment_score", "latent"]


def test_a_split_is_the_folder_by_its_name(tmp_path: Any) -> None:
    for name, rows in (("train", 5), ("val", 3)):
        write_packed(tmp_path / name, num_rows=rows, seq_len=8)
    assert len(artifex.PackedSamples(tmp_path)) == 5
    assert len(artifex.PackedSamples(str(tmp_path), split="val")) == 3
    assert len(artifex.PackedSamples(tmp_path / "train", split="val")) == 5
    with pytest.raises(ConfigError):
        artifex.PackedSamples(tmp_path, split="test")


def test_a_sine_is_where_it_belongs_in_a_spectrogram() -> None:
    config = artifex.AudioModalityConfig(duration=1.0, spectrogram_type="stft")
    modality = artifex.AudioModality(config)
    sine = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    found = modality.compute_spectrogram(sine)
    assert found.shape == (513, modality.n_time_frames) == (513, 16000 // 256 + 1)
    assert int(found[:, 30].argmax()) == 1000 * 1024 // 16000
    mel = modality.compute_mel_spectrogram(np.stack([sine, sine]))
    assert mel.shape == (2, 80, 63)
    mels = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 82)[1:-1]
    nearest = np.abs(mels - 2595 * np.log10(1 + 1000 / 700)).argmin()
    assert abs(int(mel[0, :, 30].argmax()) - nearest) <= 1
    other = artifex.AudioModalityConfig(n_mels=40, n_fft=512, hop_length=128)
    assert artifex.AudioModality(other).compute_mel_spectrogram(sine).shape == (
        40,
        16000 // 128 + 1,
    )


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
    pads = text_config(max_length=6, eos_token_id=None, pad_token_id=76)  # which is H, too
    assert artifex.TextModality(pads).detokenize([2, 76, 109, 76, 109, 76, 76]) == "HiHi"
    lower = artifex.TextModality(text_config(max_length=6, case_sensitive=False))
    assert lower.detokenize(lower.tokenize("Hi")) == "hi"
    with pytest.raises(InputError, match=r"needs one text, got \["):
        modality.tokenize(["Hi", "you"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="id 76 is not below vocab_size 50"):
        artifex.TextModality(text_config(vocab_size=50)).tokenize("Hi")
    with pytest.raises(ConfigError, match="needs a tokenizer"):
        artifex.TextModality({"max_length": 3})  # type: ignore[arg-type]


def test_texts_of_a_list_are_a_dataset() -> None:
    dataset = artifex.SimpleTextDataset(text_config(max_length=8), ["a", "bc", "def"])
    (batch,) = artifex.create_data_loader(dataset, 3, shuffle=False)
    assert batch["texts"] == ["a", "bc", "def"]
    assert batch["text_tokens"].shape == (3, 8)
    assert [sample["text"] for sample in dataset] == batch["texts"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: artifex.ImageModalityConfig(channels=4), "RGB has 3 channels, not 4"),
        (lambda: artifex.ImageModalityConfig(height=0), "height must be at least 1"),
        (lambda: artifex.ImageModalityConfig("rgb"), "must be of ImageRepresentation"),  # type: ignore[arg-type]
        (lambda: artifex.AudioModalityConfig(duration=0), "duration must be at least a sample"),
        (lambda: artifex.AudioModalityConfig(hop_length=0), "hop_length must be at least 1"),
        (lambda: artifex.BaseDataset().get_batch(0), "batch_size must be at least 1"),
        (lambda: artifex.SyntheticImageDataset(pattern_type="dots"), "'dots': choose of random, g"),
        (lambda: artifex.MNISTLikeDataset(num_classes=11), "num_classes 11: there are 10 digits"),
        (lambda: artifex.SyntheticAudioDataset(audio_types="sine"), "'sine': choose of sine"),
        (lambda: artifex.SyntheticAudioDataset(audio_types=[]), "audio_types"),
        (
            lambda: artifex.create_synthetic_multi_modal_dataset(["video"]),
            "modalities 'video': choose of image, text, audio",
        ),
        (
            lambda: artifex.create_synthetic_multi_modal_dataset(alignment_strength=2),
            "alignment_strength must be from 0 to 1, got 2",
        ),
    ],
)
def test_wrong_settings_are_errors(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
