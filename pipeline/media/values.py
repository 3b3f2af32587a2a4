"""Find the bytes of the media in a value of the media column. It may be:

    bytes                         Parquet binary
    {"bytes": …, "path": …}       an Image or Audio feature of `datasets`; bytes, or their base64
    "cats/tom.jpg"                a path, relative to the table's folder: it has a dot
    {"path": "cats/tom.jpg"}      the same, only in JSON
    "iVBORw0KGgo…"                base64, which never has a dot; also as a data: URL
    a list of these               frames of one video, in order

A path may not lead out of the table's folder, unless the user allows it: tables are other people's.
A row of Parquet or Arrow that names a file but does not hold its bytes ({"bytes": null}) is
refused: the file may be on another machine, and is not part of the table's fingerprint. URLs are
not fetched.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dataprep.pipeline.errors import short
from dataprep.pipeline.guards.opening import open_regular

_SHOWN = 60
_HEAD_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """The bytes of a picture, video or sound: in memory, in a file, or inside a tar."""

    data: bytes | None = None
    path: str = ""
    offset: int = -1  # -1: the whole file
    size: int = 0
    name: str = ""  # of the file or the member of a tar; its ending says what it is

    def read(self) -> bytes:
        """Return all the bytes; ValueError says why they cannot be read."""
        if self.data is not None:
            return self.data
        data = self._from_file(-1 if self.offset < 0 else self.size)
        if len(data) < self.size:
            raise ValueError(f"cannot be read: {self.path} was cut off during the run")
        return data

    def head(self) -> bytes:
        """Return the first bytes, enough to tell what it is."""
        return self.data[:_HEAD_BYTES] if self.data is not None else self._from_file(_HEAD_BYTES)

    def opened(self) -> str | io.BytesIO:
        """Return the path of a whole file, else a stream, for libraries that take either."""
        if self.data is not None or self.offset >= 0:
            return io.BytesIO(self.read())
        self.head()  # raises for what is not a file: libraries would read a device for ever
        return self.path

    def _from_file(self, size: int) -> bytes:
        try:
            with open_regular(self.path) as raw, io.BufferedReader(raw) as file:
                file.seek(max(0, self.offset))
                return file.read(size)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            cause = getattr(error, "strerror", None) or error
            raise ValueError(f"cannot be read: {self.path}: {cause}") from None


@lru_cache(maxsize=4096)  # many files are in few folders
def _real(folder: str) -> str:
    return os.path.realpath(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Which files the records of a table may name."""

    folder: str | None  # of the table; None if it is not local, and may name none
    allow_outside: bool = False


def is_inside(folder: str, name: str) -> bool:
    """Return whether a path that a record names is below the table's folder, links followed."""
    parent, last = os.path.split(os.path.join(folder, name))
    try:
        place = os.path.join(_real(parent), last)
        place = (
            os.path.realpath(place) if last in ("", ".", "..") or os.path.islink(place) else place
        )
    except ValueError:  # a name that no file can have
        return True
    return place.startswith(_real(folder).rstrip("/") + "/")


Part = Blob | Any  # or a picture of PIL, from a streamed dataset


def parts_of(value: Any, beside: Surroundings, *, is_json: bool = False) -> list[Part]:
    """Return the parts of the value, at least one; ValueError says what is wrong."""
    if not isinstance(value, list):
        return [_part(value, beside, is_json)]
    if not value:
        raise ValueError("is an empty list")
    if any(isinstance(item, list) for item in value):
        raise ValueError(
            "is a nested list; give the frames as one list, and pixels as u8[height, width, 3]"
        )
    return [_part(item, beside, is_json) for item in value]


def paths_in(value: Any) -> Iterator[str]:
    """Yield the paths in a value of the column."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and _is_path(item):
            yield item
        elif isinstance(item, dict) and item.get("bytes") is None:
            path = item.get("path")
            if isinstance(path, str) and not _is_url(path):
                yield path


def _is_path(text: str) -> bool:
    return "." in text and not text.startswith("data:") and not _is_url(text)


def _is_url(text: str) -> bool:
    return "://" in text


def _part(value: Any, beside: Surroundings, is_json: bool) -> Part:
    if isinstance(value, dict):
        return _struct_part(value, beside, is_json)
    if isinstance(value, bytes):
        return Blob(data=value)
    if isinstance(value, str):
        return _text_part(value, beside)
    if hasattr(value, "convert") and hasattr(value, "size"):
        return value
    what = "null" if value is None else type(value).__name__
    raise ValueError(f"is {what}; give bytes, a path, base64 or {{bytes, path}}")


def _struct_part(value: Mapping[str, Any], beside: Surroundings, is_json: bool) -> Blob:
    content, path = value.get("bytes"), value.get("path")
    if isinstance(content, bytes):
        return Blob(data=content, name=path if isinstance(path, str) else "")
    if isinstance(content, str):
        return _base64_part(content)
    keys = ", ".join(map(str, value))
    if not is_json:
        raise ValueError(
            f"holds no bytes (keys: {keys}); save the dataset with its files inside, or stream it: "
            "hf:NAME?streaming=1"
        )
    if not isinstance(path, str) or content is not None:
        raise ValueError(f"holds neither bytes as base64 nor a path (keys: {keys})")
    return _path_part(path, beside)


def _text_part(text: str, beside: Surroundings) -> Blob:
    if _is_path(text) or _is_url(text):
        return _path_part(text, beside)
    return _base64_part(text)


def _path_part(path: str, beside: Surroundings) -> Blob:
    if _is_url(path):
        raise ValueError(f"is a URL ({_short(path)}), but URLs are not fetched; download it first")
    if beside.folder is None:
        raise ValueError(f"is a path ({_short(path)}), which only a local table may hold")
    if not beside.allow_outside and not is_inside(beside.folder, path):
        raise ValueError(
            f"is a path outside the folder of its table ({_short(path)}); if you trust the table, "
            "allow it with --allow-outside"
        )
    return Blob(path=os.path.join(beside.folder, path), name=path)


def _base64_part(text: str) -> Blob:
    content = text
    if text.startswith("data:"):
        head, comma, content = text.partition(",")
        if not comma or not head.endswith(";base64"):
            raise ValueError(f"is a data: URL that is not base64 ({_short(text)})")
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        raise ValueError(f"is neither a path with an ending nor base64 ({_short(text)!r})")
    return Blob(data=data)


def _short(text: str) -> str:
    return short(text, _SHOWN)
