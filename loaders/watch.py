"""Mapped files that change while they are in use.

    deleted, replaced     no harm: the map keeps the file that was mapped
    cut short             pages that are gone tear the map at once (`bus_errors`): a CorruptError
    written to in place   seen by its times, about once a second: proven again before its next read

To ask the system takes some microseconds a file, so `Watch` asks once a second and never spends
more than a hundredth of the time on it. New times need not mean new bytes (a backup that makes hard
links sets them for all files), so a file is proven again only when it is read.

Only where a read of what is gone would end the process (without numba) does it ask before every
read; a file that is cut short during the read still does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dataprep.loaders.paging import MappedFiles
from dataprep.loaders.whole import Identity, identity_of
from dataprep.pipeline.errors import CorruptError

_SECONDS = 1.0
_SHARE = 100  # of the time at most 1 / this


class Watch:
    """The files of a map, and how often each was written to."""

    def __init__(self, files: MappedFiles, paths: Sequence[Path]) -> None:
        self._files, self._paths = files, paths
        # Counted, so that a change during a proof is not taken for proven; 1: as it was mapped.
        self.changes = np.ones(len(paths), np.int64)
        self._known = list(files.identities)
        self._next_look = time.monotonic() + _SECONDS
        self._guarded: bool | None = None

    def before_reading(self) -> None:
        if self._guarded is None:
            self._guarded = self._files.guard()
        if not self._guarded or time.monotonic() > self._next_look:
            self._look()

    def after_reading(self) -> None:
        """Raise a CorruptError if a part of what was read was gone."""
        if self._files.torn:
            self._look()
            raise CorruptError(
                f"a shard in {self._paths[0].parent} was cut short while it was read"
            )

    def current(self, number: int) -> Identity | None:
        """Return a file as it is now; None if it was deleted or replaced since it was mapped."""
        try:
            found = identity_of(os.stat(self._paths[number], follow_symlinks=False))
        except OSError:
            return None
        mapped = self._files.identities[number]
        return found if found[:2] == mapped[:2] else None

    def _look(self) -> None:
        start = time.monotonic()
        self._guarded = self._files.guard()
        for number, known in enumerate(self._known):
            found = self.current(number)
            if found is None or found == known:
                continue
            if found.size < self._files.identities[number].size:
                raise CorruptError(
                    f"{self._paths[number]} was cut short in use: it has {found.size} bytes, "
                    f"of {self._files.identities[number].size}"
                )
            self.changes[number] += 1  # first: other threads may ask at the same time
            self._known[number] = found
        now = time.monotonic()
        self._next_look = now + max(_SECONDS, _SHARE * (now - start))
