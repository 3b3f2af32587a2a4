"""What a file is, by the ending of its name; for `.json`, by its first line.

    .jsonl .ndjson      one object in a line        jsonl
    .json               an array of objects         json
                        one object over many lines  json
                        one object in a line        jsonl
    .txt                text
    .parquet .arrow     tables; not compressed from outside
    .npy                an array of codes; likewise

`.gz` and `.zst` may follow the first four.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.json.array import JSON_SPACE, Skeleton
from dataprep.pipeline.sources.stream import UTF8_BOM, ByteStream, check_encoding

_KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".txt": "text",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".npy": "npy",
}
_COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
_COMPRESSIBLE = ("jsonl", "json", "text")
# A first line longer than this is taken for one record of many.
_SNIFF_BYTES = 16 << 20


def kind_by_name(path: str) -> tuple[str, str] | None:
    """(kind, compression), or None for an unknown ending.

    >>> kind_by_name("a/b.jsonl.gz"), kind_by_name("a/b.md")
    (('jsonl', 'gz'), None)
    """
    name = path.lower()
    if name.startswith(("http://", "https://")):
        name = urlsplit(name).path
    name = name.partition("::")[0]
    compression = ""
    for ending, how in _COMPRESSIONS.items():
        if name.endswith(ending):
            name, compression = name.removesuffix(ending), how
    for ending, kind in _KINDS.items():
        if name.endswith(ending) and (not compression or kind in _COMPRESSIBLE):
            return kind, compression
    return None


def is_found_in_folders(path: str) -> bool:
    """Whether a folder's file is meant when the folder is named: an .npy may be anything."""
    known = kind_by_name(path)
    return known is not None and known[0] != "npy"


def unknown_ending(path: str) -> InputError:
    return InputError(
        f"cannot tell what {path} is by its ending; known are {', '.join(_KINDS)}"
        f" ({' and '.join(_COMPRESSIONS)} may follow all but the last three)"
    )


def sniff_kind(path: str) -> tuple[str, str]:
    """(kind, compression) of a file that exists; reads the start of a `.json`."""
    known = kind_by_name(path)
    if known is None:
        raise unknown_ending(path)
    kind, compression = known
    if kind == "json":
        kind = _json_layout(path, compression)
    return kind, compression


def _json_layout(path: str, compression: str) -> str:
    """`json` for an array and for one object over many lines, else `jsonl`."""
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
        return "json"
    line, newline, _ = content.partition(b"\n")
    if not newline or not line.startswith(b"{"):
        return "jsonl"
    skeleton = Skeleton()
    skeleton.scan(line)
    # A line break cannot stand in a string, so an open string is a broken line, not a long object.
    return "json" if skeleton.depth > 0 and not skeleton.in_string else "jsonl"
