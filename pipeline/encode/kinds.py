"""What encoding pictures and encoding sounds do differently: KINDS, one entry for each modality.

vision   frames u8[height, width, 3]  ─►  codes [frames, tokens_per_frame]
audio    a waveform f32[samples]      ─►  codes [codebooks, frames]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.batches import Encoding, FrameEncoding, SoundEncoding
from dataprep.pipeline.encoders import AudioEncoder, ImageEncoder, frame_size
from dataprep.pipeline.media import Framing, PictureRules, SoundRules


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeKind:
    rules: Callable[[EncodeConfig, Any], PictureRules | SoundRules]  # how media are decoded
    encoding: Callable[[Any], Encoding]  # decoded records through the encoder
    frame: Callable[[Any], dict[str, int]]  # what a frame of its codes is, for `Maker`
    facts: Callable[[Any], dict[str, int]]  # the same and more, for the manifest
    codebooks: Callable[[Any], int]
    frame_axis: int  # of a record's codes
    settings: frozenset[str]  # keys of the config that concern nothing else


def _picture_rules(config: EncodeConfig, encoder: ImageEncoder) -> PictureRules:
    height, width = frame_size(encoder)
    return PictureRules(
        framing=Framing(
            height=height,
            width=width,
            resize=config.resize,
            fit=config.fit,
            grayscale=config.grayscale,
            background=config.background,
            exif_rotate=config.exif_rotate,
        ),
        fps=config.fps,
        frames=config.frames,
        augment=config.augment,
        max_frames=config.max_frames,
        max_pixels=config.max_pixels,
    )


def _sound_rules(config: EncodeConfig, encoder: AudioEncoder) -> SoundRules:
    return SoundRules(
        rate=encoder.rate,
        loudness=config.loudness,
        max_seconds=config.max_seconds,
        duration=config.duration,
    )


KINDS: Mapping[str, EncodeKind] = {
    "vision": EncodeKind(
        rules=_picture_rules,
        encoding=FrameEncoding,
        frame=lambda encoder: {"tokens_per_frame": encoder.tokens_per_frame},
        facts=lambda encoder: {"tokens_per_frame": encoder.tokens_per_frame},
        codebooks=lambda encoder: 1,
        frame_axis=0,
        settings=frozenset({"resize", "fit", "grayscale", "background", "augment"}),
    ),
    "audio": EncodeKind(
        rules=_sound_rules,
        encoding=SoundEncoding,
        frame=lambda encoder: {"num_codebooks": encoder.num_codebooks},
        facts=lambda encoder: {"num_codebooks": encoder.num_codebooks, "rate": encoder.rate},
        codebooks=lambda encoder: encoder.num_codebooks,
        frame_axis=1,
        settings=frozenset({"duration"}),
    ),
}
