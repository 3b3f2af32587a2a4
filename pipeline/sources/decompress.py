"""Decompress the bytes of a file as they come: `.gz`, `.zst`, `.xz`, `.bz2`.

    a.jsonl.gz    member | zeros | member        parts that follow each other are one content
    a.jsonl.xz    stream | zeros | stream

A file that was cut off must be an error, and so must bytes after its last part. Readers that hide
where a part ends also hide that its end is missing, so parts are followed here. A decompressor
returns at most `chunk_bytes` at a time (zstd: 32 MiB), so that `stream` can stop a file that grows
too much before it fills the memory.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import zstandard

from dataprep.pipeline.errors import InputError

# A zstd block of 4 bytes can become 128 KiB, so 1 KiB becomes at most 32 MiB. Feeding 1 KiB at a
# time costs a quarter of the speed: 740 instead of 990 MB/s.
_ZST_FEED_BYTES = 1024
_XZ_MEMORY = 1 << 30  # `xz -9` takes 65 MiB
_FAULTS = (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError)  # bz2 raises OSErrors

Content = Callable[[Any, bytes, int], Iterator[bytes]]


def decompress(
    stored: Iterator[bytes], compression: str, path: str, chunk_bytes: int
) -> Iterator[bytes]:
    """Yield the content in chunks of `chunk_bytes` to twice as many, but for the last."""
    contents = _contents(COMPRESSIONS[compression], stored, path, chunk_bytes)
    return _in_chunks(contents, chunk_bytes)


def _broken(path: str, format_name: str, cause: str) -> InputError:
    return InputError(
        f"{path} is not a whole {format_name} file: {cause};"
        " copy or compress it again (the content before that cannot be trusted)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of compression: files of it are parts that follow each other."""

    name: str
    begin: Callable[[], Any]  # a decompressor of one part
    content: Content
    feed_bytes: int = 1 << 14  # what follows a part is copied, and one may end every 14 bytes
    padding: int = 0  # zeros after a part come in so many; 0: there are none


def _contents(kind: _Kind, stored: Iterator[bytes], path: str, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the content of all parts of a file; the last must be whole."""
    part: Any = None
    num_parts = num_zeros = 0
    for data in _fed(stored, kind.feed_bytes):
        while data:
            if part is None:
                rest = data.lstrip(b"\0") if num_parts and kind.padding else data
                num_zeros += len(data) - len(rest)
                if not rest:
                    break
                _check_padding(kind, num_zeros, path)
                data, part, num_zeros = rest, kind.begin(), 0
            try:
                yield from kind.content(part, data, chunk_bytes)
            except _FAULTS as error:
                raise _broken(path, kind.name, str(error)) from error
            data = b""
            if part.eof:
                data, part = part.unused_data, None
                num_parts += 1
    if part is not None or num_parts == 0:
        raise _broken(path, kind.name, "it ends too early")
    _check_padding(kind, num_zeros, path)


def _check_padding(kind: _Kind, num_zeros: int, path: str) -> None:
    if kind.padding and num_zeros % kind.padding:
        raise _broken(
            path, kind.name, f"there are {num_zeros} zeros after a stream, not fours of them"
        )


# --- what some bytes add to the content of a part ---


def _by_tail(part: Any, data: bytes, chunk_bytes: int) -> Iterator[bytes]:
    """Feed `zlib`, which hands back what it did not read yet."""
    while data:
        yield part.decompress(data, chunk_bytes)
        data = b"" if part.eof else part.unconsumed_tail


def _at_once(part: Any, data: bytes, chunk_bytes: int) -> Iterator[bytes]:
    """Feed `zstandard`, which knows no limit."""
    yield part.decompress(data)


def _by_need(part: Any, data: bytes, chunk_bytes: int) -> Iterator[bytes]:
    """Feed `bz2` or `lzma`, which keep what they did not read yet."""
    yield part.decompress(data, chunk_bytes)
    while not part.eof and not part.needs_input:
        yield part.decompress(b"", chunk_bytes)


def _fed(stored: Iterator[bytes], size: int) -> Iterator[bytes]:
    return (chunk[at : at + size] for chunk in stored for at in range(0, len(chunk), size))


def _in_chunks(contents: Iterator[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """Yield the same bytes in chunks of `chunk_bytes` to twice as many, but for the last."""
    gathered: list[bytes] = []
    num_gathered = 0
    for content in contents:
        for start in range(0, len(content), chunk_bytes):
            gathered.append(content[start : start + chunk_bytes])
            num_gathered += len(gathered[-1])
            if num_gathered >= chunk_bytes:
                yield b"".join(gathered)
                gathered, num_gathered = [], 0
    if num_gathered:
        yield b"".join(gathered)


# By the ending of file names, without its dot.
COMPRESSIONS: Mapping[str, _Kind] = {
    "gz": _Kind(
        name="gzip", begin=lambda: zlib.decompressobj(wbits=31), content=_by_tail, padding=1
    ),
    "zst": _Kind(
        name="zstd",
        begin=lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
        content=_at_once,
        feed_bytes=_ZST_FEED_BYTES,
    ),
    "xz": _Kind(
        name="xz",
        begin=lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
        content=_by_need,
        padding=4,
    ),
    "bz2": _Kind(name="bzip2", begin=bz2.BZ2Decompressor, content=_by_need),
}
