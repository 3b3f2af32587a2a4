"""Read frames of a video, at a rate or a number of them (see `sampling`). Its sound is not read.

A video that is cut off or damaged is refused if that can be known: its container ends early,
packets or frames are marked as corrupt, packets end before the time that the container states for
this stream, or frames end before the packets. Streams of MPEG state neither length nor end.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.media.packages import needed
from dataprep.pipeline.media.pictures import MAX_PIXELS
from dataprep.pipeline.media.sampling import Prepare, Shot, at_rate, places
from dataprep.pipeline.media.values import Blob
from dataprep.pipeline.media.whole import COPY_AGAIN, check_whole

_TOLERANCE = Fraction(3, 2)  # frames


def is_video(head: bytes) -> bool:
    """Return whether the first bytes are those of MP4, QuickTime (but not AVIF or HEIC), Matroska,
    AVI or MPEG."""
    if head[4:8] == b"ftyp":
        return head[8:11] not in (b"avi", b"hei", b"hev", b"mif", b"msf")
    return head.startswith((b"\x1aE\xdf\xa3", b"\0\0\1\xba", b"\0\0\1\xb3")) or (
        head[:4] == b"RIFF" and head[8:12] == b"AVI "
    )


def frames_at_rate(
    blob: Blob, fps: float, prepare: Prepare, max_pixels: int = MAX_PIXELS
) -> Iterator[NDArray[np.uint8]]:
    """Yield frames one at a time, because a long video does not fit into memory."""
    source = blob.opened()
    check_whole(source)
    with _opened(source, max_pixels) as (container, stream):
        for frame in at_rate(_shots(container, stream), fps):
            yield prepare(frame.to_image())


def _shots(container: Any, stream: Any) -> Iterator[Shot]:
    length = 1 / stream.average_rate if stream.average_rate else 0
    for frame in _decoded(container, stream):
        if frame.pts is None:
            raise ValueError("has frames without a time; use --frames, or convert it to .mp4")
        start = Fraction(frame.pts * frame.time_base)
        yield Shot(start=start, stop=start + length, frame=frame)


def frames_by_count(
    blob: Blob, count: int, prepare: Prepare, max_pixels: int = MAX_PIXELS
) -> list[NDArray[np.uint8]]:
    source = blob.opened()
    check_whole(source)
    with _opened(source, max_pixels) as (container, stream):
        total = sum(1 for packet in _packets(container, stream) if packet.size)
    frames, num_decoded = _pick(source, count, total, prepare, max_pixels)
    if num_decoded != total:  # a packet need not be a frame
        frames, num_decoded = _pick(source, count, num_decoded, prepare, max_pixels)
    if not frames:
        raise ValueError("has no frames")
    return frames


def _pick(
    source: str | io.BytesIO, count: int, total: int, prepare: Prepare, max_pixels: int
) -> tuple[list[NDArray[np.uint8]], int]:
    """Return the frames to take if there are `total`, and how many frames there really are."""
    wanted = set(places(total, count))
    frames = []
    num_decoded = 0
    with _opened(source, max_pixels) as (container, stream):
        for frame in _decoded(container, stream):
            if num_decoded in wanted:
                frames.append(prepare(frame.to_image()))
            num_decoded += 1
    return frames, num_decoded


@contextmanager
def _opened(source: str | io.BytesIO, max_pixels: int) -> Iterator[tuple[Any, Any]]:
    av = needed("av")
    if isinstance(source, io.BytesIO):
        source.seek(0)
    try:
        with av.open(source, "r") as container:
            if not container.streams.video:
                raise ValueError("has no video, only sound")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise ValueError("has a kind of video that cannot be decoded; convert it")
            # FFmpeg refuses larger frames before it makes room for one, also later in the stream.
            stream.codec_context.options = {"max_pixels": str(max_pixels)}
            stream.thread_type = "AUTO"
            if stream.codec_context.name == "mjpeg":
                # Other codecs mark damaged frames, and would refuse the start of a cut-out scene.
                stream.codec_context.options |= {"err_detect": "explode"}
            yield container, stream
    except av.FFmpegError as error:
        raise ValueError(f"cannot be read as a video: {error.strerror}") from None


def _packets(container: Any, stream: Any) -> Iterator[Any]:
    try:
        yield from container.demux(stream)
    except IndexError:  # of PyAV, if a stream appears that was not there at the start
        raise ValueError(f"is damaged: another stream begins inside it; {COPY_AGAIN}") from None


def _decoded(container: Any, stream: Any) -> Iterator[Any]:
    """Yield all frames; ValueError if some are damaged or missing."""
    last_packet = last_frame = end = Fraction(-1)  # seconds
    for packet in _packets(container, stream):
        time = packet.pts if packet.pts is not None else packet.dts
        if packet.is_corrupt:
            raise ValueError(f"is damaged: a packet is corrupt; {COPY_AGAIN}")
        if time is not None:
            start = Fraction(time * packet.time_base)
            end = max(end, start + Fraction((packet.duration or 0) * packet.time_base))
            if packet.size:
                last_packet = max(last_packet, start)
        for frame in packet.decode():
            if frame.is_corrupt:
                raise ValueError(f"is damaged: a frame cannot be decoded completely; {COPY_AGAIN}")
            if frame.pts is not None:
                last_frame = max(last_frame, Fraction(frame.pts * frame.time_base))
            yield frame
    if not stream.average_rate or "avi" in container.format.name.split(","):
        return  # AVI has no times of its own: frames have the times of packets, or slightly earlier
    slack = _TOLERANCE / stream.average_rate
    stated = _stated_end(container, stream)
    if stated is not None and -1 < end < stated - slack:
        _refuse_short(end, stated)
    if -1 < last_frame < last_packet - slack:
        _refuse_short(last_frame, last_packet)


def _refuse_short(end: Fraction, stated: Fraction) -> None:
    raise ValueError(
        f"is damaged: its frames end at {float(end):.2f} s, but should go on until "
        f"{float(stated):.2f} s; {COPY_AGAIN}"
    )


def _stated_end(container: Any, stream: Any) -> Fraction | None:
    """Return when this stream's last frame ends, in seconds, if the container itself states it.

    An estimate of FFmpeg does not count, nor does a time for all streams: sound may be longer.
    """
    formats = container.format.name.split(",")
    if "mov" in formats and stream.duration is not None:
        return Fraction(stream.duration * stream.time_base)
    if "matroska" in formats:
        parts = stream.metadata.get("DURATION", "").split(":")  # 00:00:04.000000000
        try:
            hours, minutes, seconds = map(Fraction, parts)
        except ValueError:
            return None
        return 3600 * hours + 60 * minutes + seconds
    return None
