"""Files behind URLs: any protocol of fsspec, chained ones too, e.g. `zip://*.jsonl::data.zip`.

A URL's fingerprint is what its store says of the content (size, ETag, time), not a hash of it.
"""

from __future__ import annotations

import os
from typing import Any

import xxhash

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.endings import is_found_in_folders
from dataprep.pipeline.sources.stream import naming

# What stores call their mark of a content; `created` and the like are left to `ukey`.
_MARKS = ("ETag", "etag", "CRC", "md5", "sha256", "generation", "mtime", "LastModified")
_SAVED = ("state.json", "dataset_dict.json")


def find_urls(spec: str) -> list[str]:
    """The files that a URL, a URL with wildcards or the URL of a folder names, sorted."""
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
    """(size or -1, `ukey:` + hex of what the store tells)."""
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
    if any(os.path.basename(name) in _SAVED for name in names):
        raise InputError(
            f"{spec} was saved by `datasets`, which is read from local folders only;"
            " copy it, or name its files: .../*.arrow"
        )
    return [
        name
        for name in names
        if is_found_in_folders(name) and not os.path.basename(name).startswith(".")
    ]


def _url(spec: str, path: str) -> str:
    """The URL of `path`, in the place that `spec` has for a path.

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
