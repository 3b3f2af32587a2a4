"""Encoders turn pictures and sound into discrete codes.

    interface   the contract: u8[n, 256, 256, 3] -> i32[n, 256], or f32[samples] -> i32[1, frames]
    patches     the mean colour of each cell of a grid, 0..8191; no training, the same everywhere
    mulaw       each sample as 8 bits, 0..255; no training
    mel         the loudness of each of 80 bands, a frame each 256 samples; no training
    stft        the same for every frequency of the spectrum
      spectra   spectra in exact arithmetic, quantized in decibels
      phases    spectra back to a waveform
    sizes       settings that are a height and a width: 256, or 128x256
    vqgan/      LWM's trained network in JAX, 0..8191, with weights from a file
    registry    "patches" -> the encoder of that name, our own or from an installed package

    encoder = open_encoder("patches", {"cells": 8})
    codes = encoder.encode(images)          # u8[n, 256, 256, 3] -> i32[n, 64]

An encoder loads its packages and weights on the first call.
"""

from dataprep.pipeline.encoders.interface import (
    AudioEncoder,
    Encoder,
    EncoderSpec,
    ImageEncoder,
    Weights,
    frame_size,
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
    "frame_size",
    "missing_packages",
    "open_encoder",
]
