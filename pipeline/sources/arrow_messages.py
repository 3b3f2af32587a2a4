"""Tell what an Arrow message grows to before it is decompressed.

    FF FF FF FF, length │ flatbuffer: kind, body length, buffers │ body
                                              (start, length) ───┘  └─ 8 bytes: size of the content

Arrow decompresses a buffer into exactly as many bytes as are stated before it, and pyarrow does not
tell that number. Only what is needed for it is read here; pyarrow checks and reads the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dataprep.pipeline.sources.tables import broken_table, table_errors

_CONTINUATION = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3  # kinds of messages that have buffers
_FOOTER_END = 10  # bytes: the footer's length and the magic


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowMessage:
    is_batch: bool
    stored: int  # bytes of the body
    grown: int  # bytes of its buffers, decompressed
    stop: int  # position after it


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """Where the footer of a file says that a message is."""

    position: int
    metadata_bytes: int


class _Table:
    """A table of a flatbuffer; fields are numbered as in Arrow's `.fbs` files."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._fields = position - self._number("<i", position)

    def number(self, field: int, layout: str) -> int:
        place = self._place(field)
        return self._number(layout, place) if place else 0

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return _Table(self._data, place + self._number("<I", place)) if place else None

    def structs(self, field: int, layout: str) -> Iterator[tuple[int, ...]]:
        place = self._place(field)
        if not place:
            return iter(())
        start = place + self._number("<I", place)
        size = struct.calcsize(layout) * self._number("<I", start)
        content = self._data[start + 4 : start + 4 + size]
        if len(content) != size:
            raise ValueError("it is cut off")
        return struct.iter_unpack(layout, content)

    def _place(self, field: int) -> int:
        """Return where a field is; 0 if it is left out."""
        entry = 4 + 2 * field
        if entry >= self._number("<H", self._fields):
            return 0
        offset = self._number("<H", self._fields + entry)
        return self._position + offset if offset else 0

    def _number(self, layout: str, place: int) -> int:
        if place < 0:
            raise ValueError("it points before its start")
        (number,) = struct.unpack_from(layout, self._data, place)
        return int(number)


def blocks_of(file: Any, path: str) -> tuple[list[MessageBlock], list[MessageBlock]]:
    """Return the blocks of (dictionaries, record batches) of a file that has a footer."""
    with _told(path):
        size = file.size()
        length = struct.unpack("<i", _read(file, size - _FOOTER_END, 4))[0]
        footer = _root(_read(file, size - _FOOTER_END - length, length))
        dictionaries, batches = (footer.structs(field, "<qi4xq") for field in (2, 3))
        return (
            [MessageBlock(position=at, metadata_bytes=length) for at, length, _ in dictionaries],
            [MessageBlock(position=at, metadata_bytes=length) for at, length, _ in batches],
        )


def message_at(file: Any, position: int, path: str, metadata_bytes: int = 0) -> ArrowMessage | None:
    """Return what a message is; None at the end of a stream, and for what has no buffers."""
    with _told(path):
        head = _read_some(file, position, 8)
        prefix = 8 if head[:4] == _CONTINUATION else 4  # before Arrow 0.15
        if len(head) < prefix:
            return None
        (length,) = struct.unpack_from("<i", head, prefix - 4)
        if length <= 0:
            return None
        message = _root(_read(file, position + prefix, length))
        kind = message.number(1, "<B")
        header = message.table(2)
        if header is not None and kind == _DICTIONARY:
            header = header.table(1)
        if header is None or kind not in (_DICTIONARY, _BATCH):
            return None
        body = position + (metadata_bytes or prefix + length)
        stored = message.number(3, "<q")
        if stored < 0:
            raise ValueError("it states a size below 0")
        return ArrowMessage(
            is_batch=kind == _BATCH,
            stored=stored,
            grown=sum(_contents(file, body, header)),
            stop=body + stored,
        )


def _contents(file: Any, body: int, header: _Table) -> Iterator[int]:
    """Yield the sizes of the buffers, decompressed."""
    is_compressed = header.table(3) is not None
    for start, length in header.structs(2, "<qq"):
        size = -1
        if is_compressed and length:
            (size,) = struct.unpack("<q", _read(file, body + start, 8))
        if size < -1 or length < 0:
            raise ValueError("it states a size below 0")
        yield length if size == -1 else size


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0])


def _read(file: Any, position: int, size: int) -> bytes:
    content = _read_some(file, position, size)
    if len(content) != size:
        raise ValueError("it is cut off")
    return content


def _read_some(file: Any, position: int, size: int) -> bytes:
    if position < 0 or size < 0:
        raise ValueError("it points before its start")
    file.seek(position)
    content: bytes = file.read(size)
    return content


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        with table_errors(path, "Arrow"):
            yield
    except (ValueError, struct.error) as error:
        raise broken_table(path, "Arrow", f"a message cannot be read: {error}") from error
