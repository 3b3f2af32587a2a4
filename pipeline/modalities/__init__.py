"""Codes of pictures and sound as blocks of ids in the token stream.

    block     Block: how a modality turns codes into ids, many blocks at once; faults in codes
    vision    <vision> 10 11 8192 30 31 8193 </vision>     frames, as LWM trains on them
    audio     <audio> 1 14 2 15 3 16 </audio>              K codebooks: flatten, delay or first

BLOCKS is the table: the function that makes the `Block` of a modality from its config section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dataprep.pipeline.modalities.audio import make_audio_block
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.modalities.vision import make_vision_block
from dataprep.pipeline.types import Ids

# (section of `modalities`, start tag, end tag) -> block
BLOCKS: Mapping[str, Callable[[Any, Ids, Ids], Block]] = {
    "vision": make_vision_block,
    "audio": make_audio_block,
}

__all__ = ["BLOCKS", "Block"]
