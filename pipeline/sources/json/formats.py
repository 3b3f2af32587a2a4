"""The two formats of JSON: objects in lines, and an array of objects.

.jsonl .ndjson      one object in a line        Jsonl
.json               an array of objects         Json
                    one object over many lines  Json
                    one object in a line        Jsonl, by its first line
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from threading import get_ident

from dataprep.pipeline.ragged import HeldBy
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.blocks import (
    count_blocks,
    count_lines,
    open_blocks,
    open_lines,
    read_blocks,
    split_lines_apart,
)
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.json.array import JSON_SPACE, Skeleton, split_json
from dataprep.pipeline.sources.json.layout import find_filled
from dataprep.pipeline.sources.json.records import JsonRecords
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.lines import LineBlock
from dataprep.pipeline.sources.stream import UTF8_BOM, ByteStream, check_encoding
from dataprep.pipeline.types import Piece, Records, Source

_NEWLINE = b"\n"
# A first line longer than this is taken for the first of many records.
_SNIFF_BYTES = 16 << 20


class Jsonl(Format):
    """Pieces are byte ranges."""

    kind = "jsonl"
    endings = (".jsonl", ".ndjson")
    unit = "line"
    may_be_compressed = True
    names_files = True
    is_json = True
    has_offsets = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        return split_lines_apart(source, _NEWLINE, target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        opened = open_lines(source, piece, _NEWLINE, wanted)
        return read_blocks(source, wanted, opened, _decoder(wanted, in_lines=True))

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return count_blocks(open_lines(source, piece, _NEWLINE, Wanted()), _num_filled, stop_after)

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        return count_lines(source, _NEWLINE, starts)


class Json(Format):
    """The only piece is the whole file."""

    kind = "json"
    endings = (".json",)
    unit = "item"
    may_be_compressed = True
    tells_of_media = True
    names_files = True
    is_json = True
    has_offsets = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        return cuts.whole(source)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        opened = open_blocks(source, wanted, split_json)
        return read_blocks(source, wanted, opened, _decoder(wanted, in_lines=False))

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        opened = open_blocks(source, Wanted(), split_json)
        return count_blocks(opened, lambda block: len(block.starts), stop_after)

    def sniff(self, path: str, compression: str) -> str:
        return _kind_by_content(path, compression)


def _decoder(wanted: Wanted, *, in_lines: bool) -> JsonRecords:
    return _cached_decoder(
        wanted.keys, wanted.held_by, in_lines, wanted.max_record_bytes, get_ident()
    )


@lru_cache(maxsize=64)
def _cached_decoder(
    keys: Keys | None,
    held_by: HeldBy,
    in_lines: bool,
    max_record_bytes: int,
    thread: int,
) -> JsonRecords:
    """Return a cached decoder, because making one takes longer than reading a small file. Each
    thread has its own, because a decoder collects values while it decodes."""
    return JsonRecords(keys, held_by=held_by, in_lines=in_lines, max_record_bytes=max_record_bytes)


def _num_filled(block: LineBlock) -> int:
    return len(find_filled(block)[0]) if block.is_kept else len(block.starts)


def _kind_by_content(path: str, compression: str) -> str:
    """Return `json` for an array and for one object over many lines, else `jsonl`."""
    head = b""
    with ByteStream(path, compression, chunk_bytes=1 << 16) as chunks:
        for chunk in chunks:
            head += chunk
            if head.removeprefix(UTF8_BOM).lstrip(JSON_SPACE).find(b"\n") >= 0:
                break
            if len(head) >= _SNIFF_BYTES:
                break
    check_encoding(head, path)
    content = head.removeprefix(UTF8_BOM).lstrip(JSON_SPACE)
    if content.startswith(b"["):
        return Json.kind
    line, newline, _ = content.partition(b"\n")
    if not newline or not line.startswith(b"{"):
        return Jsonl.kind
    skeleton = Skeleton()
    skeleton.scan(line)
    # A JSON string has no line break, so an open string is a broken line, not a long object.
    return Json.kind if skeleton.depth > 0 and not skeleton.in_string else Jsonl.kind
