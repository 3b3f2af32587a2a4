"""Tell what a file is by the ending of its name.

a.jsonl       jsonl
a.jsonl.gz    jsonl, compressed
a.json        json or jsonl: some formats look into the file (`Format.sniff`)
a.parquet.gz  unknown: tables are compressed inside
a.tar.gz      refused: must be decompressed first
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.decompress import COMPRESSIONS
from dataprep.pipeline.sources.format import Format
from dataprep.pipeline.sources.known import FORMATS, all_formats, format_of, problems_of_plugins
from dataprep.pipeline.sources.stream import is_url

_ALIASES = {"zstd": "zst"}
_NUMBER = re.compile(r"-\d{5}-of-\d{5}$")  # TFDS: a.array_record-00000-of-00010
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_PACKED = tuple(ending for known in FORMATS.values() for ending in known.packed_endings)
# Endings of files that people have and that are not read, with what to do instead.
_DECOMPRESS = "decompress it, or compress it as .zst"
_MEDIA = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".mp4", ".webm", ".wav", ".flac", ".mp3")
_INSTEAD = {
    **dict.fromkeys((".lz4", ".lzma", ".lzo", ".br", ".sz", ".z", ".7z", ".rar"), _DECOMPRESS),
    ".zip": "unpack it, or name a file in it: zip://NAME.jsonl::FILE.zip",
    ".warc": "extract the texts of its pages to JSONL first",
    **dict.fromkeys(_MEDIA, "dataprep encode makes codes of it, which tokenize reads"),
}


def _by_ending(formats: Mapping[str, Format]) -> dict[str, Format]:
    return {ending: known for known in formats.values() for ending in known.endings}


@cache
def _every_ending() -> Mapping[str, Format]:
    return _by_ending(all_formats())


_OWN = _by_ending(FORMATS)
# Endings of files that are read only if the user names the files themselves.
ONLY_IF_NAMED = [ending for ending, known in _OWN.items() if not known.is_found_in_folders]


def kind_by_name(path: str) -> tuple[str, str] | None:
    """Return (kind, compression), or None for an unknown ending.

    >>> kind_by_name("a/b.jsonl.gz"), kind_by_name("a/b.md")
    (('jsonl', 'gz'), None)
    """
    return next(filter(None, map(_kind_of_name, _file_names(path))), None)


def _kind_of_name(name: str) -> tuple[str, str] | None:
    # A million files are asked about several times each, and most have one of a few endings.
    stem, ending = _split_ending(_NUMBER.sub("", name) if "-of-" in name else name)
    short = _ALIASES.get(ending[1:], ending[1:])
    if short not in COMPRESSIONS:
        return _kind_of_ending(ending, "")
    return _kind_of_ending(_split_ending(stem)[1], short)


@lru_cache(maxsize=1024)
def _kind_of_ending(ending: str, compression: str) -> tuple[str, str] | None:
    known = _OWN.get(ending) or (_every_ending().get(ending) if ending else None)
    if known is None or (compression and not known.may_be_compressed):
        return None
    return known.kind, compression


def _file_names(path: str) -> list[str]:
    """Return the parts of a path or URL that may end like the file, in lower case.

    The first without what may be a query: in some stores it is part of the name.

    >>> _file_names("zip://A.jsonl::x.zip"), _file_names("simplecache::https://h/a.csv?raw")
    (['zip://a.jsonl'], ['https://h/a.csv', 'https://h/a.csv?raw'])
    """
    if not is_url(path):
        return [path.lower()]
    links = path.lower().split("::")
    link = next((link for link in links if "://" in link), links[-1])
    return list(dict.fromkeys((_QUERY.sub("", link), link)))


def _split_ending(name: str) -> tuple[str, str]:
    """
    >>> _split_ending("a/b.jsonl.gz")
    ('a/b.jsonl', '.gz')
    """
    stem, dot, last = name.rpartition(".")
    return stem, dot + last


def is_found_in_folders(path: str) -> bool:
    """Return whether this file is taken, if only to be refused, when its folder is named."""
    known = kind_by_name(path)
    if known is None:
        return _is_packed(path)
    return format_of(known[0]).is_found_in_folders


def _is_packed(path: str) -> bool:
    return any(name.endswith(_PACKED) for name in _file_names(path))


def table_endings() -> list[str]:
    """Return the endings of files whose columns may hold media."""
    known = all_formats().values()
    return [e for f in known if f.holds_media and f.is_found_in_folders for e in f.endings]


def unknown_ending(path: str) -> InputError:
    cure = instead_of(path)
    if cure:
        return InputError(cure)
    every = _every_ending()
    plain = [ending for ending, known in every.items() if not known.may_be_compressed]
    others = [ending for ending in every if ending not in plain]
    packed = ", ".join(f".{compression}" for compression in COMPRESSIONS)
    told = (
        f"cannot tell what {path} is by its ending; known endings: {', '.join(others)} (and these "
        f"with {packed} after them), {', '.join(plain)}"
    )
    return InputError("; ".join([told, *problems_of_plugins()]))


def instead_of(path: str) -> str:
    """Return that a file of this ending is not read, and what to do; '' of an unknown ending.

    >>> instead_of("a.jsonl.lz4"), instead_of("b.md")
    ('a.jsonl.lz4 is not read: decompress it, or compress it as .zst', '')
    """
    endings = [f".{part}" for part in reversed(_file_names(path)[0].split("."))]
    cure = next((_INSTEAD[ending] for ending in endings[:3] if ending in _INSTEAD), "")
    return f"{path} is not read: {cure}" if cure else ""


def sniff_kind(path: str) -> tuple[str, str]:
    """Return (kind, compression) of a file that exists."""
    known = kind_by_name(path)
    if known is None and _is_packed(path):
        raise InputError(
            f"{path} is compressed as a whole, so it cannot be read in parts; decompress it, "
            "or name only the other files"
        )
    if known is None:
        raise unknown_ending(path)
    kind, compression = known
    return format_of(kind).sniff(path, compression), compression
