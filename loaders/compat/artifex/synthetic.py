"""Made-up samples: the records of `synthetic:` inputs (dataprep tokenize) as arrays.

    SyntheticImageDataset(config, 1000, "gradient")     images
    MNISTLikeDataset(config, 60000, num_classes=10)     images, labels
    SyntheticTextDataset(config, 1000, "palindromes")   text_tokens, texts
    SyntheticAudioDataset(config, 1000, ["sine"])       audio, audio_type
    create_synthetic_multi_modal_dataset(["image", "text"], 1000, 0.8)
                                                        image, text, alignment_score, latent

Sample i is a function of (seed, split, i): those of `train` are the records of the input with that
seed, those of another split are others. Nothing is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dataprep.loaders.compat.artifex.datasets import BaseDataset, Sample, text_batch
from dataprep.loaders.compat.artifex.images import (
    ImageModality,
    ImageModalityConfig,
    ImageRepresentation,
)
from dataprep.loaders.compat.artifex.sounds import AudioModality, AudioModalityConfig
from dataprep.loaders.compat.artifex.texts import TextModality, TextModalityConfig
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.synthetic import images, sounds, texts
from dataprep.pipeline.synthetic.draws import Raw, one_of, raw_of
from dataprep.pipeline.synthetic.pairs import Pair, make_pair

_DIGITS = "digits"
_MODALITIES = ("image", "text", "audio")


class _Synthetic(BaseDataset):
    """So many samples, each known by the random words that it is made with."""

    def __init__(self, config: Any, size: int, split: str, rngs: Any, seed: int) -> None:
        super().__init__(config, split, rngs=rngs)
        self._size = whole_number("the number of samples", size, least=0)
        self._seed = _seed_of(whole_number("seed", seed, least=0), split)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int) -> Sample:
        return {name: values[0] for name, values in self.gather([number]).items()}

    def _raw(self, number: int) -> Raw:
        if not -self._size <= number < self._size:
            raise IndexError(f"sample {number} of {self._size}")
        return raw_of(self._seed, number % self._size)


class SyntheticImageDataset(_Synthetic):
    """Pictures of a pattern: random, gradient, checkerboard, circles."""

    def __init__(
        self,
        config: ImageModalityConfig | None = None,
        dataset_size: int = 1000,
        pattern_type: str = "random",
        split: str = "train",
        *,
        rngs: Any = 0,
        seed: int = 0,
    ) -> None:
        config = config or ImageModalityConfig()
        super().__init__(config, dataset_size, split, rngs, seed)
        _check_names([pattern_type], images.PATTERNS, "pattern_type")
        self._pattern, self._modality, self._classes = pattern_type, ImageModality(config), 10

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        return self._batch([self._picture(self._raw(number)) for number in numbers])

    def _batch(self, found: Sequence[images.Picture]) -> dict[str, Any]:
        return {"images": self._modality.process(np.stack([one.pixels for one in found]))}

    def _picture(self, raw: Raw) -> images.Picture:
        make = images.PATTERNS[one_of(raw, [self._pattern])]
        return make(raw, self.config.height, self.config.width, self._classes)


class MNISTLikeDataset(SyntheticImageDataset):
    """Digits, and which they are."""

    def __init__(
        self,
        config: ImageModalityConfig | None = None,
        dataset_size: int = 60000,
        num_classes: int = 10,
        split: str = "train",
        *,
        rngs: Any = 0,
        seed: int = 0,
    ) -> None:
        config = config or ImageModalityConfig(ImageRepresentation.GRAYSCALE, 28, 28)
        super().__init__(config, dataset_size, _DIGITS, split, rngs=rngs, seed=seed)
        self._classes = whole_number("num_classes", num_classes, least=1)
        if self._classes > len(images.NAMES):
            raise ConfigError(f"num_classes {num_classes}: there are {len(images.NAMES)} digits")

    def _batch(self, found: Sequence[images.Picture]) -> dict[str, Any]:
        labels = [one.label for one in found]
        return {**super()._batch(found), "labels": jnp.array(labels, jnp.int32)}


class SyntheticTextDataset(_Synthetic):
    """Texts of a pattern: random_sentences, repeated_phrases, sequences, palindromes."""

    def __init__(
        self,
        config: TextModalityConfig,
        dataset_size: int = 1000,
        pattern_type: str = "random_sentences",
        split: str = "train",
        *,
        rngs: Any = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(config, dataset_size, split, rngs, seed)
        _check_names([pattern_type], texts.PATTERNS, "pattern_type")
        self._pattern, self._modality = pattern_type, TextModality(config)

    def __getitem__(self, number: int) -> Sample:
        raw = self._raw(number)
        text = texts.PATTERNS[one_of(raw, [self._pattern])](raw)
        return {"text": text, "text_tokens": self._modality.tokenize(text)}

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        return text_batch([self[number] for number in numbers])


class SyntheticAudioDataset(_Synthetic):
    """Waveforms: sine, noise, chirp."""

    def __init__(
        self,
        config: AudioModalityConfig | None = None,
        n_samples: int = 1000,
        audio_types: Sequence[str] = ("sine", "noise", "chirp"),
        name: str = "SyntheticAudio",
        split: str = "train",
        *,
        rngs: Any = 0,
        seed: int = 0,
    ) -> None:
        config = config or AudioModalityConfig()
        super().__init__(config, n_samples, split, rngs, seed)
        _check_names(audio_types, sounds.PATTERNS, "audio_types")
        self.name, self._types, self._modality = name, list(audio_types), AudioModality(config)

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        types, waves = [], []
        for number in numbers:
            raw = self._raw(number)
            types.append(one_of(raw, self._types))
            make = sounds.PATTERNS[types[-1]]
            waves.append(make(raw, self._modality.n_time_steps, self.config.sample_rate)[0])
        return {"audio": self._modality.process(np.stack(waves)), "audio_type": types}


class _PairedDataset(_Synthetic):
    """Pictures, texts and sounds of one thing each."""

    def __init__(
        self,
        modalities: Sequence[str],
        size: int,
        strength: float,
        image: ImageModality,
        audio: AudioModality,
        text: TextModality | None,
        split: str,
        rngs: Any,
        seed: int,
    ) -> None:
        super().__init__(None, size, split, rngs, seed)
        self._modalities, self._strength = list(modalities), round(strength * 65536)
        self._image, self._audio, self._text = image, audio, text

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        pairs = [self._pair(self._raw(number)) for number in numbers]
        batch: dict[str, Any] = {}
        if "image" in self._modalities:
            batch["image"] = self._image.process(np.stack([pair.pixels for pair in pairs]))
        if "text" in self._modalities:
            batch["text"] = [pair.text for pair in pairs]
        if "text" in self._modalities and self._text is not None:
            batch["text_tokens"] = jnp.stack([self._text.tokenize(pair.text) for pair in pairs])
        if "audio" in self._modalities:
            batch["audio"] = self._audio.process(np.stack([pair.samples for pair in pairs]))
        batch["alignment_score"] = jnp.array([pair.alignment_score for pair in pairs])
        batch["latent"] = jnp.array([pair.latent for pair in pairs])
        return batch

    def _pair(self, raw: Raw) -> Pair:
        size, sound = self._image.config, self._audio.config
        count = self._audio.n_time_steps
        return make_pair(raw, self._strength, size.height, size.width, count, sound.sample_rate)


def create_synthetic_multi_modal_dataset(
    modalities: Sequence[str] = _MODALITIES,
    num_samples: int = 1000,
    alignment_strength: float = 0.8,
    *,
    image_shape: tuple[int, int, int] = (64, 64, 3),
    audio_sample_rate: int = 16000,
    audio_duration: float = 1.0,
    text_config: TextModalityConfig | None = None,
    split: str = "train",
    rngs: Any = 0,
    seed: int = 0,
) -> BaseDataset:
    """Return samples of one thing seen, said and heard, which agree the more the larger
    `alignment_strength` is; with a `text_config`, texts have tokens, too."""
    _check_names(modalities, dict.fromkeys(_MODALITIES), "modalities")
    if not 0 <= alignment_strength <= 1:
        raise ConfigError(f"alignment_strength must be from 0 to 1, got {alignment_strength}")
    height, width, channels = image_shape
    by_channels = {1: ImageRepresentation.GRAYSCALE, 4: ImageRepresentation.RGBA}
    image = ImageModalityConfig(
        by_channels.get(channels, ImageRepresentation.RGB), height, width, channels
    )
    audio = AudioModalityConfig(sample_rate=audio_sample_rate, duration=audio_duration)
    return _PairedDataset(
        modalities,
        num_samples,
        alignment_strength,
        ImageModality(image),
        AudioModality(audio),
        None if text_config is None else TextModality(text_config),
        split,
        rngs,
        seed,
    )


def _seed_of(seed: int, split: str) -> int:
    """Return what the samples of a split are drawn with: for `train`, the seed itself."""
    if split == "train":
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed}\n{split}".encode(), digest_size=8).digest())


def _check_names(given: Any, known: Mapping[str, Any], what: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown or not given or isinstance(given, str):
        wrong = unknown[0] if unknown and not isinstance(given, str) else given
        raise ConfigError(f"{what} {shown(wrong)}: choose of {', '.join(known)}")
