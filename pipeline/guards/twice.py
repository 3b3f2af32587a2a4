"""Find inputs that are the same file, however they are spelled.

    a.jsonl  ./a.jsonl  link-to-a.jsonl  hard-link-to-a.jsonl     one file: st_dev, st_ino
    s3://b/a.jsonl  s3://b/a.jsonl                                one URL
    zip://a.jsonl::x.zip  zip:///a.jsonl::~/x.zip                 one member of one file
    dir://b/a.jsonl::/data  /data/b/a.jsonl                       one file

Files with equal content but of their own are different files: a corpus may repeat itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import PASSAGES, id_of, links_of, local_paths
from dataprep.pipeline.guards.secrets import identity_of


def refuse_twice(
    named: Iterable[tuple[str, str]], or_else: str = ", or read it twice with --allow-duplicates"
) -> None:
    """Raise a ConfigError if two are the same file; each is (the input that named it, its path)."""
    seen: dict[object, tuple[str, str]] = {}
    for given, path in named:
        key = _identity(path)
        if key in seen:
            raise ConfigError(f"{_told((given, path), seen[key])}; leave one out{or_else}")
        seen[key] = given, path


def _told(named: tuple[str, str], before: tuple[str, str]) -> str:
    """Say that two inputs name one file, or files that are read as one source."""
    if any(
        os.path.isfile(given) and id_of(given) != id_of(path) for given, path in (named, before)
    ):
        return (
            f"{named[1]} is read with {before[0]} and with {named[0]}, which are one source (if a "
            "shell made two inputs of a pattern, quote it)"
        )
    return f"{_shown(*named)} is the same file as {_shown(*before)}"


def _shown(given: str, path: str) -> str:
    return path if given == path else f"{path} (of the input {given})"


def _identity(path: str) -> object:
    """Return what is the same for every spelling of a file: its members, and its place."""
    if "::" not in path and "://" not in path:  # nearly all, and there may be a million
        (place,) = local_paths(path) or [path]
        return (id_of(place) or place,)
    *members, last = links_of(path) if os.path.exists(path) else links_of(identity_of(path))
    local = local_paths(path)
    named = [
        _member(link)
        for link in members
        if "://" in link  # not simplecache:: and the like
        and not (local and link.partition("://")[0] in PASSAGES)  # they led to the local file
    ]
    return *named, (id_of(local[-1]) or local[-1]) if local else last


def _member(link: str) -> str:
    """
    >>> _member("zip:///a//b.jsonl")
    'zip://a/b.jsonl'
    """
    scheme, separator, name = link.partition("://")
    return f"{scheme}{separator}{'/'.join(part for part in name.split('/') if part)}"
