"""Files behind URLs: any protocol of fsspec, also chained, e.g. `zip://*.jsonl::data.zip`.

The fingerprint of a URL is made from what its store reports (size, ETag, time), not from the
content.
"""

from __future__ import annotations

import os
from typing import Any

import xxhash

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.endings import is_found_in_folders
from dataprep.pipeline.sources.hub import SAVED_MARKS
from dataprep.pipeline.sources.stream import naming

# Names under which stores report a mark of the content; `ukey` covers `created` and the like.
_MARKS = ("ETag", "etag", "CRC", "md5", "sha256", "generation", "mtime", "LastModified")


def find_urls(spec: str) -> list[str]:
    """Return the files, sorted, that a URL names: one file, a pattern or a folder."""
    with naming(spec):
        import fsspec

        filesystem, path = fsspec.url_to_fs(spec)
        filesystem.invalidate_cache()
        if any(wildcard in path for wildcard in "*?[") and not filesystem.exists(path):
            found = [name for name in filesystem.glob(path) if filesystem.isfile(name)]
        elif filesystem.info(path)["type"] == "directory":
            found = _in_folder(filesystem.find(path), spec)
        else:
            return [spec]
    if not found:
        raise InputError(f"no file matches {spec}")
    return sorted(_url(spec, name) for name in found)


def fingerprint_url(url: str) -> tuple[int, str]:
    """Return (size or -1, `ukey:` + hash of what the store reports)."""
    with naming(url):
        import fsspec

        filesystem, path = fsspec.url_to_fs(url)
        info = filesystem.info(path)
        marks = [(name, str(info[name])) for name in _MARKS if name in info]
        known = [str(filesystem.ukey(path)), info.get("size"), marks]
    size = info.get("size")
    return (
        -1 if size is None else int(size),
        f"ukey:{xxhash.xxh3_128_hexdigest(repr(known).encode())}",
    )


def _in_folder(paths: list[Any], spec: str) -> list[str]:
    names = [str(path) for path in paths]
    if any(os.path.basename(name) in SAVED_MARKS for name in names):
        raise InputError(
            f"{spec} was saved by `datasets`, and such folders can only be read locally;"
            " copy it, or name its files: .../*.arrow"
        )
    return [
        name
        for name in names
        if is_found_in_folders(name) and not os.path.basename(name).startswith(".")
    ]


def _url(spec: str, path: str) -> str:
    """Return `spec` with its path replaced by `path`.

    >>> _url("zip://*.jsonl::s3://b/x.zip", "a.jsonl")
    'zip://a.jsonl::s3://b/x.zip'
    >>> _url("simplecache::s3://b/*.jsonl", "b/a.jsonl")
    'simplecache::s3://b/a.jsonl'
    """
    if "://" in path and "::" not in spec:
        return path
    links = spec.split("::")
    place = next((i for i, link in enumerate(links) if "://" in link), len(links) - 1)
    protocol, mark, _ = links[place].partition("://")
    links[place] = path if "://" in path or not mark else f"{protocol}://{path}"
    return "::".join(links)
