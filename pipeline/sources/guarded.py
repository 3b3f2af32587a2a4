"""What fsspec opens: buckets by our own client, and local files by the rules of `opening`.

    zip://a.jsonl::/dev/zero    local://FIFO    blockcache::file:///link-to-a-device
    dir://f::file:///data       reference://a::file:///refs.json, whose content names files

All of these reach local files, whatever leads to them, through one class of fsspec; the one here
opens regular files only. Where buckets are opened, so are those that a chain leads to
(`bucket_files`).
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from fsspec import register_implementation
from fsspec.implementations.local import LocalFileSystem

from dataprep.pipeline.guards.opening import check_regular
from dataprep.pipeline.sources.bucket_files import BUCKETS


class RegularFiles(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The local files of fsspec, without devices, FIFOs, sockets and files of the kernel."""

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        if "r" in mode:
            check_regular(self._strip_protocol(path))
        return super()._open(path, mode, block_size, **options)

    def info(self, path: Any, **options: Any) -> dict[str, Any]:
        """Return what is known of a file; of one in a listing also if it is not regular."""
        known: dict[str, Any] = super().info(path, **options)
        if isinstance(path, str) and known["type"] not in ("file", "directory"):
            check_regular(self._strip_protocol(path))
        return known

    def exists(self, path: str, **options: Any) -> bool:
        return os.path.lexists(self._strip_protocol(path))  # opening it says what is wrong with it

    def get_file(self, path1: str, path2: Any, callback: Any = None, **options: Any) -> Any:
        """Copy a file, for caches."""
        if not self.isdir(path1):
            check_regular(self._strip_protocol(path1))
        return super().get_file(path1, path2, callback, **options)


@lru_cache(maxsize=1)
def guard_filesystems() -> None:
    """Let every filesystem that is made from now on open regular files only, and buckets by ranges
    with our client."""
    for protocol, buckets in BUCKETS.items():
        register_implementation(protocol, buckets, clobber=True)
    for protocol in ("file", "local"):
        register_implementation(protocol, RegularFiles, clobber=True)
