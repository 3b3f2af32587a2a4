"""Blocks by what the config says of a modality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dataprep.pipeline.modalities.audio import AudioBlock
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.modalities.vision import VisionBlock
from dataprep.pipeline.types import Ids


def make_block(modality: str, settings: Mapping[str, Any], start: Ids, end: Ids) -> Block:
    """`settings`: a section of `modalities`; `start` and `end`: its tags as ids."""
    common = {
        "start": start,
        "end": end,
        "codebook_size": settings["codebook_size"],
        "code_offset": settings["code_offset"],
        "drop_partial_frame": settings["partial_frame"] == "drop",
        "raw_dtype": np.dtype(settings["raw_dtype"]).newbyteorder("<"),
    }
    if modality == "vision":
        return VisionBlock(
            tokens_per_frame=settings["tokens_per_frame"],
            end_of_frame=settings["end_of_frame"],
            end_of_media=settings["end_of_media"],
            max_frames=settings["max_frames"],
            **common,
        )
    assert modality == "audio", modality
    books = settings["codebooks"] if settings["separate_codebooks"] else 1
    return AudioBlock(
        codebooks=settings["codebooks"],
        layout=settings["layout"],
        separate_codebooks=settings["separate_codebooks"],
        fill=books * settings["codebook_size"] if settings["fill"] is None else settings["fill"],
        **common,
    )
