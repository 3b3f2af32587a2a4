"""Files of a cache that this process knows to be whole: those that it has fetched or hashed.

fetched here                     known as it came: it was proven on its way
fetched by another process,      hashed once, before it is mapped
or before this one began
written to since                 hashed again before it is mapped again
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dataprep.loaders.whole import Identity, identity_of
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.storage.checked import check_hash
from dataprep.pipeline.storage.entries import DocumentShard, RowShard

_known: dict[Path, Identity] = {}  # by path, so that there are no more than files
_just_proven: set[Path] = set()


def is_known(path: Path) -> bool:
    """Return whether the file is as it was when it was proven. Who asks first after a proof is told
    so in any case: some network disks tell other inodes or times whenever they are asked, and who
    waits for them to be equal would wait for ever."""
    if path in _just_proven:
        _just_proven.discard(path)
        return True
    return _known.get(path) == identity_of(path.stat())


def remember(path: Path) -> None:
    """Know a file that was proven before it came to its place."""
    with suppress(FileNotFoundError):  # another process evicted it just now
        _known[path] = identity_of(path.stat())


def prove_cached(path: Path, entry: RowShard | DocumentShard) -> None:
    """Raise a CorruptError unless a cached file has the hash of its entry."""
    found = identity_of(path.stat())  # before it is read
    check_hash(path, entry, hash_file(path))
    _known[path] = found
    _just_proven.add(path)
