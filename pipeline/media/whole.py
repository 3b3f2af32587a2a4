"""Check that a file has all the bytes that its own headers state.

    WAV (RIFF, RIFX, RF64), AIFF   the chunk of samples ends inside the file
    AVI                            so does each RIFF chunk
    Matroska, WebM                 so does every element down to the blocks, and all are readable
    MP4, QuickTime                 so do the boxes of the media and of their index
    Ogg                            the last page is complete and says that the stream ends

Decoders take a file that is cut off for a shorter one. Not checked are lengths that the writer of a
stream could not know (0, or as large as the field allows), and the insides of blocks, which the
decoder checks.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import BinaryIO, Literal

from dataprep.pipeline.guards.opening import open_regular

Order = Literal["little", "big"]

COPY_AGAIN = "copy it again, or if this is all there is, rewrite it with ffmpeg"
_OGG_PAGE = 27 + 255 + 255 * 255  # bytes at most
_OGG_LAST = 4  # flag of a page
_SEGMENT, _CLUSTER = b"\x18\x53\x80\x67", b"\x1f\x43\xb6\x75"  # elements that hold elements


def check_whole(source: str | io.BytesIO) -> None:
    """Raise ValueError if the file is cut off or damaged; files of other kinds pass."""
    if isinstance(source, io.BytesIO):
        _check(source)
        source.seek(0)
        return
    try:
        with open_regular(source) as raw, io.BufferedReader(raw) as file:
            _check(file)
    except OSError as error:
        raise ValueError(f"cannot be read: {source}: {error.strerror or error}") from None


def _check(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    head = _at(file, 0, 12)
    check = _checks(head)
    if check is not None:
        check(file, size)


def _checks(head: bytes) -> Callable[[BinaryIO, int], None] | None:
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:] == b"WAVE":
        return _check_wav
    if head[:4] == b"FORM" and head[8:] in (b"AIFF", b"AIFC"):
        return _check_aiff
    if head[:4] == b"RIFF" and head[8:] == b"AVI ":
        return _check_avi
    if head[:4] == b"OggS":
        return _check_ogg
    if head[:4] == b"\x1aE\xdf\xa3":
        return _check_matroska
    return _check_boxes if head[4:8] == b"ftyp" else None


def _check_wav(file: BinaryIO, size: int) -> None:
    order: Order = "big" if _at(file, 0, 4) == b"RIFX" else "little"
    _check_samples(file, size, b"data", order)


def _check_aiff(file: BinaryIO, size: int) -> None:
    _check_samples(file, size, b"SSND", "big")


def _check_samples(file: BinaryIO, size: int, wanted: bytes, order: Order) -> None:
    place, large = 12, 0
    while place + 8 <= size:
        name, stated = _chunk(file, place, order)
        if name == b"ds64":  # in RF64: sizes that do not fit into 32 bits
            large = int.from_bytes(_at(file, place + 16, 8), "little")
        elif name == wanted:
            is_large = large > 0 and stated == 0xFFFFFFFF
            _check_end(place + 8, large if is_large else stated, size, is_known=is_large)
            return
        place += 8 + stated + stated % 2


def _check_avi(file: BinaryIO, size: int) -> None:
    """Check each RIFF chunk: large files have one for each gigabyte."""
    place = 0
    while place + 8 <= size:
        name, stated = _chunk(file, place, "little")
        if name != b"RIFF" or stated < 4:
            return
        _check_end(place + 8, stated, size)
        place += 8 + stated + stated % 2


def _check_boxes(file: BinaryIO, size: int) -> None:
    place = 0
    while place + 8 <= size:
        stated = int.from_bytes(_at(file, place, 4), "big")
        name = _at(file, place + 4, 4)
        if stated == 1:
            stated = int.from_bytes(_at(file, place + 8, 8), "big")
        if stated < 8:  # 0: up to the end of the file
            return
        if name in (b"moov", b"styp", b"sidx", b"moof", b"mdat"):
            _check_end(place, stated, size, is_known=True)
        place += stated


def _check_matroska(file: BinaryIO, size: int) -> None:
    """Check one element after the other, also those inside segments and clusters."""
    place, end = 0, size
    while place < end:
        head = _at(file, place, 12)
        id_bytes, stated_bytes = _width(head[:1]), _width(head[_width(head[:1]) :][:1])
        name = head[:id_bytes]
        if not 1 <= id_bytes <= 4 or not 1 <= stated_bytes <= 8:
            raise ValueError(
                f"is damaged at byte {place}: no Matroska element begins there; {COPY_AGAIN}"
            )
        mask = (1 << 7 * stated_bytes) - 1
        stated = int.from_bytes(head[id_bytes : id_bytes + stated_bytes], "big") & mask
        place += id_bytes + stated_bytes
        if stated == mask:  # the writer did not know the length
            if name not in (_SEGMENT, _CLUSTER):
                return
            continue
        _check_end(place, stated, size, is_known=True)
        if name == _SEGMENT:
            end = place + stated
        elif name != _CLUSTER:
            place += stated


def _width(first: bytes) -> int:
    """Return how many bytes a number or a name of Matroska has by its first byte; 9 if neither.

    >>> _width(bytes([0x81])), _width(bytes([0x40])), _width(bytes([0]))
    (1, 2, 9)
    """
    return 9 - first[0].bit_length() if first else 9


def _check_ogg(file: BinaryIO, size: int) -> None:
    tail_at = max(0, size - _OGG_PAGE)
    tail = _at(file, tail_at, size - tail_at)
    page = tail[tail.rfind(b"OggS") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if len(page) < 27 or len(lengths) < page[26] or len(page) < 27 + page[26] + sum(lengths):
        raise ValueError(f"is cut off: its last page is not complete; {COPY_AGAIN}")
    if not page[5] & _OGG_LAST:
        raise ValueError(f"may be cut off: no page is marked as the last; {COPY_AGAIN}")


def _check_end(place: int, stated: int, size: int, *, is_known: bool = False) -> None:
    # A program that writes to a pipe does not know the length: it states 0, or nearly 2**31 or
    # 2**32.
    is_streamed = -stated % (1 << 31) < 1 << 16 and not is_known
    if not is_streamed and place + stated > size:
        raise ValueError(
            f"is cut off: {stated} bytes should follow byte {place}, but there are only "
            f"{size - place}; {COPY_AGAIN}"
        )


def _chunk(file: BinaryIO, place: int, order: Order) -> tuple[bytes, int]:
    head = _at(file, place, 8)
    return head[:4], int.from_bytes(head[4:], order)


def _at(file: BinaryIO, place: int, num_bytes: int) -> bytes:
    file.seek(place)
    return file.read(num_bytes)
