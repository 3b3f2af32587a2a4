"""Files that hold what the manifest says, proven before anything is read from them.

    open_dataset(…)              every file is there, is no link, and has its size    check_places
    the first row of a shard     its bytes have the hash of the manifest              prove
    another loader, same files   nothing: the process remembers what it has proven

A file is known by its inode, size and times, so one that was written to since is proven again.
`verify` is when hashes are checked: "lazy" before first use, "open" all at once, "off" never.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dataprep.loaders.prefetch import stop_if_closed
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.storage.checked import check_file, check_hash, check_size
from dataprep.pipeline.storage.entries import DocumentShard, FileEntry, RowShard

Verify = Literal["lazy", "open", "off"]
Entry = FileEntry | RowShard | DocumentShard

# Clocks of file systems are coarse: a file may change within a tick without a new time.
_SETTLED_NS = 2_000_000_000


class Identity(NamedTuple):
    """What a file is known by; whoever writes to it changes at least one of the times."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


_proven: dict[Identity, str] = {}  # the hash that was found


def check_verify(verify: Any) -> None:
    choices = ("lazy", "open", "off")
    if verify not in choices:
        raise ConfigError(f"verify {verify!r} is not one of {', '.join(choices)}")


def check_places(folder: Path, entries: Iterable[Entry]) -> None:
    """Raise a CorruptError unless every file is inside the folder, no link, and has its size."""
    for entry in entries:
        check_size(folder, entry)


def prove(folder: Path, entry: Entry) -> None:
    """Raise a CorruptError unless a file is as its entry says; one that is known is not read."""
    identity = identity_of(check_size(folder, entry))
    if _proven.get(identity) == entry.xxh3_128:
        return
    check_file(folder, entry, stop_if_closed)
    is_settled = time.time_ns() - max(identity.modified_ns, identity.changed_ns) > _SETTLED_NS
    if is_settled and identity == identity_of(check_size(folder, entry)):
        _proven[identity] = entry.xxh3_128


def prove_bytes(path: Path, data: Any, entry: Entry) -> None:
    """Raise a CorruptError unless these bytes of a file have the hash of its entry."""
    check_hash(path, entry, hash_bytes(data))


def identity_of(found: os.stat_result) -> Identity:
    times = found.st_mtime_ns, found.st_ctime_ns
    return Identity(found.st_dev, found.st_ino, found.st_size, *times)
