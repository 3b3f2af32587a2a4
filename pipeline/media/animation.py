"""Read pictures that move or have pages (GIF, WebP, APNG, AVIF, TIFF), sampled like videos.

A frame without a time is shown for 0.1 s, as browsers do; pages of a TIFF never have times. Not
read are the still picture that an APNG has for programs that cannot play it, the smaller copies and
masks of a TIFF, and the second picture of an MPO, which is for the other eye.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.media.pictures import broken, loaded
from dataprep.pipeline.media.sampling import Prepare, Shot, at_rate, places

if TYPE_CHECKING:
    from PIL.Image import Image

_MOVING = ("GIF", "WEBP", "PNG", "AVIF", "TIFF")
_UNTIMED_SECONDS = Fraction(1, 10)
_SUBFILE_TYPE = 254  # tag of a TIFF page: 1 a smaller copy, 2 one of several pages, 4 a mask
_COPY_OR_MASK = 1 | 4


def pages_of(picture: Image) -> Sequence[int]:
    """Return the numbers of its frames or pages; ValueError says what is wrong."""
    try:
        pages = range(getattr(picture, "n_frames", 1) if picture.format in _MOVING else 1)
        if len(pages) == 1:
            return pages
        if picture.format == "TIFF":
            counted: Sequence[int] = [page for page in pages if _is_page(picture, page)]
        else:
            counted = pages[1:] if picture.info.get("default_image") else pages
    except Exception as error:
        raise broken(error) from None
    return counted or range(1)


def _is_page(picture: Image, page: int) -> bool:
    picture.seek(page)
    return not int(getattr(picture, "tag_v2", {}).get(_SUBFILE_TYPE, 0)) & _COPY_OR_MASK


def pages_at_rate(
    picture: Image, pages: Sequence[int], fps: float, prepare: Prepare
) -> Iterator[NDArray[np.uint8]]:
    if picture.format == "TIFF":
        raise ValueError(f"has {len(pages)} pages without times; use --frames")
    return at_rate(_shots(picture, pages, prepare), fps)


def pages_by_count(
    picture: Image, pages: Sequence[int], count: int, prepare: Prepare
) -> Iterator[NDArray[np.uint8]]:
    for place in places(len(pages), count):
        yield prepare(turned_to(picture, pages[place]))


def _shots(picture: Image, pages: Sequence[int], prepare: Prepare) -> Iterator[Shot]:
    start = Fraction(0)
    for page in pages:
        frame = prepare(turned_to(picture, page))
        milliseconds = picture.info.get("duration") or 0
        # An APNG states a fraction of two 16-bit numbers, which Pillow turns into a float.
        seconds = Fraction(milliseconds / 1000).limit_denominator(0xFFFF) or _UNTIMED_SECONDS
        yield Shot(start=start, stop=start + seconds, frame=frame)
        start += seconds


def turned_to(picture: Image, page: int) -> Image:
    """Return the picture, turned to that frame; ValueError says what is wrong."""
    try:
        if picture.tell() != page:
            picture.seek(page)
    except Exception as error:
        raise broken(error) from None
    return loaded(picture)
