"""Frames of a video, at a rate or so many of them.

    fps F      the frame that is on screen at 0, 1/F, 2/F … seconds
    frames N   np.linspace(0, F-1, N) as whole numbers, of all F; all of them if there are fewer

The second is what LWM takes. A rate above the video's own repeats frames. Sound is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.media.values import Blob

Prepare = Callable[[Any], NDArray[np.uint8]]  # a picture of PIL -> u8[size, size, 3]


def is_video(head: bytes) -> bool:
    """By its first bytes: MP4 and QuickTime (but not AVIF, HEIC), Matroska, AVI, MPEG."""
    if head[4:8] == b"ftyp":
        return head[8:11] not in (b"avi", b"hei", b"hev", b"mif", b"msf")
    return head.startswith((b"\x1aE\xdf\xa3", b"\0\0\1\xba", b"\0\0\1\xb3")) or (
        head[:4] == b"RIFF" and head[8:12] == b"AVI "
    )


def frames_at_rate(blob: Blob, fps: float, prepare: Prepare) -> Iterator[NDArray[np.uint8]]:
    """One at a time: a long video does not fit memory."""
    step = 1 / Fraction(str(fps))
    with _opened(blob) as (_, stream, decoded):
        shown: Any = None
        begin = due = Fraction(0)
        for frame in decoded:
            time = _time(frame)
            if shown is None:
                begin = time
            while shown is not None and begin + due < time:
                yield prepare(shown.to_image())
                due += step
            shown = frame
        if shown is None:
            raise ValueError("holds no frame")
        end = _time(shown) + (1 / stream.average_rate if stream.average_rate else 0)
        while begin + due < end or begin + due == _time(shown):
            yield prepare(shown.to_image())
            due += step


def frames_by_count(blob: Blob, count: int, prepare: Prepare) -> list[NDArray[np.uint8]]:
    with _opened(blob) as (container, stream, _):
        total = sum(1 for packet in container.demux(stream) if packet.size)
    frames, num_decoded = _pick(blob, count, total, prepare)
    if num_decoded != total:  # a packet need not be a frame
        frames, num_decoded = _pick(blob, count, num_decoded, prepare)
    if not frames:
        raise ValueError("holds no frame")
    return frames


def _pick(
    blob: Blob, count: int, total: int, prepare: Prepare
) -> tuple[list[NDArray[np.uint8]], int]:
    """The wanted frames of `total`, and how many there really are."""
    if total > count:
        wanted = set(np.linspace(0, total - 1, count).astype(int).tolist())
    else:
        wanted = set(range(total))
    frames = []
    num_decoded = 0
    with _opened(blob) as (_, _, decoded):
        for frame in decoded:
            if num_decoded in wanted:
                frames.append(prepare(frame.to_image()))
            num_decoded += 1
    return frames, num_decoded


@contextmanager
def _opened(blob: Blob) -> Iterator[tuple[Any, Any, Iterator[Any]]]:
    import av

    try:
        with av.open(blob.opened(), "r") as container:
            if not container.streams.video:
                raise ValueError("holds no video, only sound")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            yield container, stream, container.decode(stream)
    except av.FFmpegError as error:
        raise ValueError(f"cannot be read as a video: {error.strerror}") from None


def _time(frame: Any) -> Fraction:
    if frame.pts is None:
        raise ValueError("has frames without a time; use --frames, or pack it into .mp4")
    return Fraction(frame.pts * frame.time_base)
