"""Pictures and sounds made by hand, and one item of them decoded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.pipeline.media import (
    Decoded,
    Framing,
    Item,
    PictureRules,
    SoundRules,
    decode_item,
    find_media,
    read_items,
)
from dataprep.pipeline.media.pictures import to_frame
from dataprep.pipeline.media.values import Blob
from dataprep.pipeline.types import Piece

FRAME = Framing(height=32, width=32)
RULES = PictureRules(framing=FRAME, fps=None, frames=None)


def to_square(image: Any, size: int, **framing: Any) -> NDArray[np.uint8]:
    return to_frame(image, Framing(height=size, width=size, **framing))


def picture(width: int = 40, height: int = 30, seed: int = 0, mode: str = "RGB") -> Any:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (4, 4, 3)).astype(np.uint8)
    return Image.fromarray(coarse).resize((width, height)).convert(mode)


def encoded(image: Any, format: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def decode(data: bytes, rules: PictureRules | SoundRules = RULES) -> Decoded:
    item = Item(line=0, source="a", file="/a", num_bytes=len(data), parts=[Blob(data=data)])
    return decode_item(item, rules)


def items_of(spec: Path | str, kind: Any = "vision", column: str = "image") -> list[Item]:
    items = []
    for found in find_media(str(spec), kind, column, None):
        stop = len(found.entries) or found.source.num_bytes
        piece = Piece(source=0, start=0, stop=stop, first_line=0)
        items += read_items(found.source, piece, found.entries, column, from_line=0)
    return items


def sine(rate: int, frequency: float, seconds: float = 0.5) -> NDArray[np.float32]:
    time = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * frequency * time)).astype(np.float32)
