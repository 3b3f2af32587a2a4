"""Turn pictures into squares, as LWM does it.

    any size ─► RGB ─► the short side to `size` (the long one truncated to whole pixels), bicubic
             ─► the middle size x size

Alpha is dropped. A rotation that EXIF asks for is made only with --exif-rotate, since LWM does not
make it. More than 8 bits per channel are refused, since such a picture would turn out white.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.media.packages import needed

if TYPE_CHECKING:
    from PIL.Image import Image

# Others that Pillow knows are rare and less tested, and some run programs: EPS runs Ghostscript.
_KINDS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")
_DEEP = ("I", "F")  # and I;16, I;16B, …
MAX_PIXELS = 178_956_970  # Pillow's own limit
_LONGEST = 1 << 15  # pixels: a longer picture is nearly a line, and scaling it takes gigabytes


class UnknownPictureError(ValueError):
    """The data is not a picture of a kind that is read."""


def open_picture(data: bytes, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode a picture, or the first frame of an animation; ValueError says what is wrong."""
    pillow = needed("PIL.Image")
    if not data:
        raise ValueError("is empty")
    # Pillow checks this wherever it learns a size, also inside files; it refuses twice as many.
    pillow.MAX_IMAGE_PIXELS = max_pixels / 2
    try:
        pillow.init()
        kinds = [kind for kind in _KINDS if kind in pillow.OPEN]  # AVIF may not be built in
        picture = pillow.open(io.BytesIO(data), formats=kinds)
    except pillow.UnidentifiedImageError:
        raise UnknownPictureError("is not a picture of a known kind") from None
    except Exception as error:
        raise broken(error) from None
    return loaded(picture)


def loaded(picture: Image) -> Image:
    """Return the picture with its pixels decoded; ValueError says what is wrong."""
    try:
        picture.load()
    except Exception as error:
        raise broken(error) from None
    return picture


def broken(error: Exception) -> Exception:
    """Return what to raise for an error of a decoder: OSError, SyntaxError, zlib.error, …"""
    if isinstance(error, MemoryError):
        return error
    from PIL.Image import MAX_IMAGE_PIXELS, DecompressionBombError

    if isinstance(error, DecompressionBombError) and MAX_IMAGE_PIXELS is not None:
        return ValueError(
            f"has more than {2 * MAX_IMAGE_PIXELS:.0f} pixels; scale it down, or raise --max-pixels"
        )
    return ValueError(f"cannot be read as a picture: {error}")


def to_square(picture: Image, size: int, *, exif_rotate: bool = False) -> NDArray[np.uint8]:
    """Return u8[size, size, 3]; ValueError says what is wrong."""
    from PIL import ImageOps
    from PIL.Image import Resampling

    if picture.mode.partition(";")[0] in _DEEP:
        raise ValueError(f"has more than 8 bits per channel (mode {picture.mode}); convert it")
    if exif_rotate:
        picture = ImageOps.exif_transpose(picture)
    picture = picture.convert("RGB")
    width, height = resized(picture.width, picture.height, size)
    if max(width, height) > _LONGEST:
        raise ValueError(
            f"is {picture.width}x{picture.height}, but one side may be at most "
            f"{_LONGEST // size} times the other; crop it, or cut it into several"
        )
    picture = picture.resize((width, height), Resampling.BICUBIC)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.asarray(picture.crop((left, top, left + size, top + size)))


def resized(width: int, height: int, size: int) -> tuple[int, int]:
    """Return the width and height at which the short side is `size`.

    >>> resized(500, 333, 256), resized(333, 500, 256)
    ((384, 256), (256, 384))
    """
    if width < height:
        return size, int(size * height / width)
    return int(size * width / height), size


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return u8[height, width, 3] as a PNG file, to show what an encoder decodes."""
    file = io.BytesIO()
    needed("PIL.Image").fromarray(pixels).save(file, "PNG")
    return file.getvalue()
