"""Bring pictures to the height and width of a frame, by default as LWM does it.

    any size ─► RGB ─► the side that is short for the frame to its length (the other one truncated
             to whole pixels), bicubic ─► the middle height x width

Other ways to do it are in `Framing`. Alpha is dropped unless there is a background. A rotation that
EXIF asks for is made only with --exif-rotate, since LWM does not make it. More than 8 bits per
channel are refused, since such a picture would turn out white. Pillow scales 8-bit pictures by
whole numbers, so frames are the same on every machine.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.base import Fit, Resize
from dataprep.pipeline.media.augment import Alteration
from dataprep.pipeline.media.packages import needed

if TYPE_CHECKING:
    from PIL.Image import Image, Resampling

# Others that Pillow knows are rare and less tested, and some run programs: EPS runs Ghostscript.
_KINDS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")
_DEEP = ("I", "F")  # and I;16, I;16B, …
MAX_PIXELS = 178_956_970  # Pillow's own limit
_LONGEST = 1 << 15  # pixels: a longer picture is nearly a line, and scaling it takes gigabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """What frame a picture is brought to, and how."""

    height: int
    width: int
    resize: Resize = "bicubic"
    fit: Fit = "crop"
    grayscale: bool = False
    background: str | None = None  # "white", "black", "#rrggbb"
    exif_rotate: bool = False


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


def to_frame(
    picture: Image, framing: Framing, alteration: Alteration | None = None
) -> NDArray[np.uint8]:
    """Return u8[height, width, 3]; ValueError says what is wrong."""
    from PIL.Image import Resampling

    if picture.mode.partition(";")[0] in _DEEP:
        raise ValueError(f"has more than 8 bits per channel (mode {picture.mode}); convert it")
    picture = _in_colours(picture, framing)
    method, size = Resampling[framing.resize.upper()], (framing.width, framing.height)
    if alteration is not None and alteration.crops:
        aspect = size if framing.fit == "crop" else picture.size
        pixels = np.asarray(picture.resize(size, method, alteration.box(picture.size, aspect)))
    elif framing.fit == "stretch":
        pixels = np.asarray(picture.resize(size, method))
    else:
        pixels = _cropped(picture, framing, method)
    return pixels if alteration is None else alteration.of_pixels(pixels)


def _in_colours(picture: Image, framing: Framing) -> Image:
    """Return the picture as RGB, turned, over the background, grey, if that is asked for."""
    from PIL import Image, ImageOps

    if framing.exif_rotate:
        picture = ImageOps.exif_transpose(picture)
    if framing.background is not None and picture.has_transparency_data:
        over = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", over.size, framing.background), over)
    return picture.convert("L").convert("RGB") if framing.grayscale else picture.convert("RGB")


def _cropped(picture: Image, framing: Framing, method: Resampling) -> NDArray[np.uint8]:
    width, height = resized(picture.width, picture.height, framing.width, framing.height)
    if max(width, height) > _LONGEST:
        raise ValueError(
            f"is {picture.width}x{picture.height}, but one side may be at most "
            f"{_LONGEST // max(framing.width, framing.height)} times the other; crop it, or cut it "
            "into several"
        )
    picture = picture.resize((width, height), method)
    left, top = round((width - framing.width) / 2), round((height - framing.height) / 2)
    return np.asarray(picture.crop((left, top, left + framing.width, top + framing.height)))


def resized(width: int, height: int, to_width: int, to_height: int) -> tuple[int, int]:
    """Return the width and height at which a picture just covers a frame.

    >>> resized(500, 333, 256, 256), resized(333, 500, 256, 256), resized(100, 100, 64, 32)
    ((384, 256), (256, 384), (64, 64))
    """
    if width * to_height < height * to_width:
        return to_width, int(to_width * height / width)
    return int(to_height * width / height), to_height


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return u8[height, width, 3] as a PNG file, to show what an encoder decodes."""
    file = io.BytesIO()
    needed("PIL.Image").fromarray(pixels).save(file, "PNG")
    return file.getvalue()
