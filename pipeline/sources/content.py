"""Estimate how much a compressed file holds, by how much its beginning grows.

    a.jsonl.gz   1,000,000 bytes stored; the first 30,000 hold 262,144   ─►   about 8,738,133

Only whole steps count: what was fed must have come out, or a block of bzip2 would be half counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.decompress import decompress
from dataprep.pipeline.sources.stream import File, naming, open_file
from dataprep.pipeline.types import Source

ENOUGH_BYTES = 1 << 18  # of content
_READ_BYTES = 1 << 16
_FEED_BYTES = 1 << 10


def content_bytes(source: Source) -> int:
    """Return about how many bytes there are to read; what is stored, if it is not compressed."""
    if not source.compression or source.num_bytes <= 0:
        return source.num_bytes
    fed = content = 0

    def beginning() -> Iterator[bytes]:
        nonlocal fed
        while data := _read(file, source.path):
            for at in range(0, len(data), _FEED_BYTES):
                if content >= ENOUGH_BYTES:
                    return
                fed += len(data[at : at + _FEED_BYTES])
                yield data[at : at + _FEED_BYTES]

    # It is cut off, which is an error; whoever reads it says what else is wrong with it.
    with closing(open_file(source.file)) as file, suppress(InputError):
        for chunk in decompress(beginning(), source.compression, source.path, _READ_BYTES):
            content += len(chunk)
    return content * source.num_bytes // max(1, fed)


def _read(file: File, path: str) -> bytes:
    with naming(path):
        return file.read(_READ_BYTES)
