"""Encoders: pictures and sound to discrete codes.

patches, mulaw    no training, exact everywhere
vqgan             LWM's, in JAX, with weights from a file
plugins           by the entry point group `dataprep.encoders`

encoder = open_encoder("patches", {"cells": 8})
codes = encoder.encode(images)          # u8[n, 256, 256, 3] -> i32[n, 64]
"""

from dataprep.pipeline.encoders.interface import (
    AudioEncoder,
    Encoder,
    EncoderSpec,
    ImageEncoder,
    Weights,
)
from dataprep.pipeline.encoders.registry import (
    encoder_names,
    find_encoder,
    find_weights,
    missing_packages,
    open_encoder,
)
from dataprep.pipeline.encoders.vqgan.checkpoint import convert_checkpoint

__all__ = [
    "AudioEncoder",
    "Encoder",
    "EncoderSpec",
    "ImageEncoder",
    "Weights",
    "convert_checkpoint",
    "encoder_names",
    "find_encoder",
    "find_weights",
    "missing_packages",
    "open_encoder",
]
