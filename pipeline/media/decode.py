"""Decode an item into what an encoder takes, with its other columns.

    tom.jpg, tom.txt "a cat"   ->  frames [u8[256, 256, 3]], columns {"text": "a cat"}
    tom.wav                    ->  waveform f32[n]
    tom.jpg, cut off           ->  reason "cannot be read as a picture: …"

A picture is decoded at once, so that threads can do it; frames of a video or an animation are
decoded when they are taken, since all of them may not fit into memory.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.augment import AugmentConfig
from dataprep.configs.base import Loudness
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.media.animation import (
    pages_at_rate,
    pages_by_count,
    pages_of,
    turned_to,
)
from dataprep.pipeline.media.augment import alteration_of
from dataprep.pipeline.media.endings import medium_of
from dataprep.pipeline.media.pictures import (
    MAX_PIXELS,
    Framing,
    UnknownPictureError,
    loaded,
    open_picture,
    to_frame,
)
from dataprep.pipeline.media.read import Item
from dataprep.pipeline.media.sampling import Prepare, at_most, check_number
from dataprep.pipeline.media.sound import read_waveform
from dataprep.pipeline.media.values import Blob, Part
from dataprep.pipeline.media.video import frames_at_rate, frames_by_count, is_video

if TYPE_CHECKING:
    from concurrent.futures import Future

    from PIL.Image import Image

Frame = NDArray[np.uint8]  # u8[height, width, 3]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRules:
    framing: Framing
    fps: float | None = None
    frames: int | None = None
    augment: AugmentConfig | None = None
    max_frames: int = 1 << 16
    max_pixels: int = MAX_PIXELS


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundRules:
    rate: int
    loudness: Loudness
    max_seconds: int = 7200
    duration: float | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    item: Item
    columns: dict[str, Any]
    frames: Iterable[Frame] = ()  # of vision; taking them may raise ValueError
    waveform: NDArray[np.float32] | None = None  # of audio
    reason: str = ""  # why it could not be decoded

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", redacted(self.reason))  # it may show a value of a row


Stream = Iterator[tuple[int, Decoded]]  # (place of the item's piece in the task, the item)


def decode_item(item: Item, rules: PictureRules | SoundRules) -> Decoded:
    """Decode one item. A bad item does not raise: the result has the reason."""
    if item.reason:
        return Decoded(item=item, columns={}, reason=item.reason)
    try:
        columns = {**item.columns, **_columns_beside(item)}
        if isinstance(rules, SoundRules):
            return Decoded(item=item, columns=columns, waveform=_waveform(item, rules))
        return Decoded(item=item, columns=columns, frames=_frames(item, rules))
    except ValueError as error:
        return Decoded(item=item, columns={}, reason=str(error))


def _columns_beside(item: Item) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if item.text is not None:
        try:
            # One newline at the end was added by an editor and is not part of the caption.
            columns["text"] = item.text.read().decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError:
            raise ValueError("has a .txt beside it that is not UTF-8") from None
    if item.json is not None:
        try:
            values = json.loads(item.json.read(), object_pairs_hook=_no_key_twice)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"has a .json beside it that is not valid: {error}") from None
        if not isinstance(values, dict):
            raise ValueError("has a .json beside it that is not an object")
        if columns and values.get("text", columns["text"]) != columns["text"]:
            raise ValueError("has a .txt and a .json beside it whose texts differ; keep one")
        columns |= values
    return columns


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"it has the key {twice!r} twice")
    return values


def _frames(item: Item, rules: PictureRules) -> Iterable[Frame]:
    augment = rules.augment
    alteration = None if augment is None else alteration_of(augment, item.source, item.variant)
    prepare = partial(to_frame, framing=rules.framing, alteration=alteration)
    if any(_is_video(part) for part in item.parts):
        return at_most(_video_frames(item, rules, prepare), rules.max_frames)
    check_number(len(item.parts), rules.max_frames)
    if len(item.parts) == 1:
        picture = _picture(item.parts[0], rules)
        pages = pages_of(picture)
        check_number(len(pages), rules.max_frames)
        if len(pages) == 1:
            return [prepare(turned_to(picture, pages[0]))]
        if rules.frames is not None:
            return pages_by_count(picture, pages, rules.frames, prepare)
        if rules.fps is not None:
            return at_most(pages_at_rate(picture, pages, rules.fps, prepare), rules.max_frames)
        raise ConfigError(
            f"{item.place} has {len(pages)} frames or pages; say which to take with --fps or "
            "--frames (--frames 1: the first)"
        )
    return [prepare(_still(part, rules)) for part in item.parts]


def _still(part: Part, rules: PictureRules) -> Image:
    picture = _picture(part, rules)
    pages = pages_of(picture)
    if len(pages) > 1:
        raise ValueError("is a list with an animation in it; a list is the frames of one video")
    return turned_to(picture, pages[0])


def _picture(part: Part, rules: PictureRules) -> Image:
    if not isinstance(part, Blob):
        return loaded(part)
    try:
        return open_picture(part.read(), rules.max_pixels)
    except UnknownPictureError:
        if medium_of(part.name) != "video":
            raise
        raise ValueError(
            "is not a readable video: it is neither MP4, QuickTime, Matroska, WebM, AVI nor MPEG; "
            "convert it"
        ) from None


def _is_video(part: Part) -> bool:
    return isinstance(part, Blob) and is_video(part.head())


def _video_frames(item: Item, rules: PictureRules, prepare: Prepare) -> Iterable[Frame]:
    if rules.fps is None and rules.frames is None:
        raise ConfigError(
            f"{item.place} is a video; say which frames to take with --fps or --frames"
        )
    if len(item.parts) > 1:
        raise ValueError("is a list with a video in it; a list is the frames of one video")
    return _lazily(item.parts[0], rules, prepare)


def _lazily(blob: Blob, rules: PictureRules, prepare: Prepare) -> Iterator[Frame]:
    if rules.frames is not None:
        yield from frames_by_count(blob, rules.frames, prepare, rules.max_pixels)
    else:
        assert rules.fps is not None
        yield from frames_at_rate(blob, rules.fps, prepare, rules.max_pixels)


def _waveform(item: Item, rules: SoundRules) -> NDArray[np.float32]:
    if len(item.parts) > 1:
        raise ValueError("is a list; give one sound per record")
    blob = item.parts[0]
    if not isinstance(blob, Blob):
        raise ValueError("is a picture, but sound is wanted")
    return read_waveform(blob, rules.rate, rules.loudness, rules.max_seconds, rules.duration)


def decode_ahead(
    items: Iterator[tuple[int, Item]], rules: PictureRules | SoundRules, threads: int
) -> Stream:
    """Yield decoded items in order; threads decode some of them ahead."""
    if threads <= 1:
        for place, item in items:
            yield place, decode_item(item, rules)
        return
    # Not at the top: `worker` in jobs says why.
    from concurrent.futures import ThreadPoolExecutor

    waiting: deque[tuple[int, Future[Decoded]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for place, item in items:
            waiting.append((place, pool.submit(decode_item, item, rules)))
            if len(waiting) > 4 * threads:
                first, future = waiting.popleft()
                yield first, future.result()
        for place, future in waiting:
            yield place, future.result()
