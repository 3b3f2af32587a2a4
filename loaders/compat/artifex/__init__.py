"""Artifex's data layer: a registry of modalities, datasets with `get_batch`, processors.

    from dataprep.loaders.compat.artifex import BaseDataset, ImageModality, register_modality
    # was: from artifex.generative_models.modalities import …

    registry    register_modality, get_modality, list_modalities
    datasets    BaseDataset, SimpleTextDataset, PackedSamples, create_data_loader
    synthetic   SyntheticImageDataset, MNISTLikeDataset, SyntheticTextDataset …
    processors  BaseProcessor
    images      ImageModality: size, range, grey or alpha, flips in training
    sounds      AudioModality: duration, loudness, spectrograms
    texts       TextModality: ids of a fixed length, and text again

Where Artifex is wrong, this is right: what is shuffled comes in that order, each sample once an
epoch; ids of words are those of a tokenizer, the same in every process; pictures are resized, and
sounds cut or padded to their duration, as its documentation says. Models are no part of this.
"""

from dataprep.loaders.compat.artifex.datasets import (
    BaseDataset,
    PackedSamples,
    SimpleTextDataset,
    create_data_loader,
)
from dataprep.loaders.compat.artifex.images import (
    ImageModality,
    ImageModalityConfig,
    ImageRepresentation,
)
from dataprep.loaders.compat.artifex.processors import BaseProcessor
from dataprep.loaders.compat.artifex.registry import (
    get_modality,
    list_modalities,
    register_modality,
)
from dataprep.loaders.compat.artifex.sounds import AudioModality, AudioModalityConfig
from dataprep.loaders.compat.artifex.synthetic import (
    MNISTLikeDataset,
    SyntheticAudioDataset,
    SyntheticImageDataset,
    SyntheticTextDataset,
    create_synthetic_multi_modal_dataset,
)
from dataprep.loaders.compat.artifex.texts import TextModality, TextModalityConfig

__all__ = [
    "AudioModality",
    "AudioModalityConfig",
    "BaseDataset",
    "BaseProcessor",
    "ImageModality",
    "ImageModalityConfig",
    "ImageRepresentation",
    "MNISTLikeDataset",
    "PackedSamples",
    "SimpleTextDataset",
    "SyntheticAudioDataset",
    "SyntheticImageDataset",
    "SyntheticTextDataset",
    "TextModality",
    "TextModalityConfig",
    "create_data_loader",
    "create_synthetic_multi_modal_dataset",
    "get_modality",
    "list_modalities",
    "register_modality",
]
