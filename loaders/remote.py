"""Datasets in object stores as a loader reads them: by whole shards, through a cache.

    DataLoader("s3://bucket/packed", cache="/disk/cache", cache_bytes=200 << 30)

    one read of the manifest   ─►  all shards are known, none is fetched
    `fetched`                  ─►  rows of shards that come when they are needed
    `fetching`                 ─►  brings them, as `forecast` tells, into the `cache`

Datasets of a mixture share one cache, and may be local, too.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from dataprep.loaders.blocks import WINDOW_SHARDS, Shuffle
from dataprep.loaders.cache import Cache
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.fetched import FetchedShards, bytes_of
from dataprep.loaders.fetching import Fetching
from dataprep.loaders.forecast import Forecast, Shard, next_windows
from dataprep.loaders.generations import MixedDataset
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.ranged import check_local, check_uncompressed
from dataprep.loaders.schedule import shown, whole_number
from dataprep.loaders.whole import Verify
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.objects import Objects, open_objects
from dataprep.pipeline.storage.rows import RowLayout

if TYPE_CHECKING:
    from dataprep.loaders.batches import BatchMaker
    from dataprep.loaders.planned import PlannedSteps

CACHE_BYTES = 64 << 30  # unless told otherwise
# What is larger is shuffled in blocks unless told otherwise. Not by the cache that there is: hosts
# of one job whose caches differ would have batches of different orders.
GLOBAL_BYTES = 64 << 30
_NONE = np.zeros(0, np.int64)


class Address(PosixPath):
    """The folder of a dataset in an object store; as text it is its address."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)


class Remotes:
    """The datasets of a loader that are in stores, and the cache that they share."""

    def __init__(self, cache: str | os.PathLike[str] | None, cache_bytes: int | None) -> None:
        if cache is not None and not isinstance(cache, str | os.PathLike):
            raise ConfigError(f"cache is a folder, got {shown(cache)}")
        self._root = default_cache() / "shards" if cache is None else Path(cache)
        self.num_bytes = CACHE_BYTES
        if cache_bytes is not None:
            self.num_bytes = whole_number("cache_bytes", cache_bytes, least=1)
        self._sources: list[tuple[FetchedShards, Objects]] = []
        self._numbers: dict[int, int] = {}  # of sources, by the identity of their shards

    def open(
        self,
        folder: Path,
        manifest: PackedManifest | TokenizedManifest,
        verify: Verify,
        chosen: Any,
    ) -> PackedDataset | TokenizedDataset:
        """Return a dataset whose shards are fetched."""
        if verify == "open":
            check_local(folder)
        if isinstance(manifest, TokenizedManifest):
            shards = self._add(folder, FetchedShards(folder, manifest.shards, verify))
            return TokenizedDataset(folder, manifest, verify, chosen, fetched=shards)
        check_uncompressed(folder, manifest)
        least = RowLayout.of_manifest(manifest).tail_start
        shards = self._add(folder, FetchedShards(folder, manifest.shards, verify, least))
        return PackedDataset(folder, manifest, verify, shards, chosen)

    def _add(self, folder: Path, shards: FetchedShards) -> FetchedShards:
        self._numbers[id(shards)] = len(self._sources)
        self._sources.append((shards, open_objects(str(folder))))
        return shards

    def choose(
        self, shuffle: Shuffle, window: int | None, members: Mapping[str, MixedDataset], rows: int
    ) -> int | None:
        """Return the shards of a window, None where the shuffle is global or there is none; a
        ConfigError if the cache is too small for that. `rows`: of the largest batch."""
        is_packed = all(
            isinstance(one, PackedDataset) and one.chosen is None
            for member in members.values()
            for one in member.datasets
        )
        if shuffle == "blocks" or (shuffle is True and is_packed and self._total() > GLOBAL_BYTES):
            shuffle, window = "blocks", window or WINDOW_SHARDS
        else:
            window = None
        if not self._sources:
            return window
        if window is not None:
            what = f"two windows of {window} shards"
            least = sum(self._largest(one, 2 * window) for one, _ in self._sources)
        elif shuffle is False and is_packed:
            what = "the shards of a batch"
            least = sum(self._largest(one, _touched(one, rows)) for one, _ in self._sources)
        else:
            what, least = "all shards, which a global shuffle reads at once", self._total()
        if least > self.num_bytes:
            smaller = "" if window in (None, 1) else ", or window_shards smaller"
            blocks = ", or shuffle='blocks'" if window is None and is_packed else ""
            raise ConfigError(
                f"cache_bytes={self.num_bytes}: {what} take {least:,} bytes; set cache_bytes="
                f"{least} or more{smaller}{blocks}"
            )
        return window

    def fetching(self, planned: PlannedSteps, maker: BatchMaker, owner: object) -> Fetching | None:
        """Return what fetches ahead of the batches that are made, until its owner is gone; None
        where all is local."""
        if not self._sources:
            return None
        members = [*planned.members.values()]

        def wanted(step: int) -> set[Shard]:
            found = set[Shard]()
            datasets, rows = maker.wanted(step)
            for number, member in enumerate(members):
                mine = rows[datasets == number]
                if len(mine):
                    shards, records = member.at(step).stored(mine)
                    if isinstance(shards, FetchedShards):
                        source = self._numbers[id(shards)]
                        found |= {(source, i) for i in shards.numbers_of(records)}
            return found

        def has(step: int) -> bool:
            return planned.num_steps is None or step < planned.num_steps

        def later(step: int) -> dict[Shard, float]:
            found: dict[Shard, float] = {}
            for number, member in enumerate(members):
                for which, dataset in enumerate(member.datasets):
                    shards = dataset.stored(_NONE)[0]
                    if isinstance(shards, FetchedShards):
                        source = self._numbers[id(shards)]
                        own = next_windows(
                            planned.mixture, planned.sizes, number, member, which, step
                        )
                        found |= {(source, i): far for i, far in enumerate(own.tolist())}
            return found

        ahead = len(self._sources) * (planned.mixture.window_shards or 1)
        cache = Cache(self._root, self.num_bytes)
        found = Fetching(cache, self._sources, Forecast(wanted, has), later, ahead)
        weakref.finalize(owner, found.close).atexit = False  # it closes itself at exit
        return found

    def _total(self) -> int:
        known = {one.xxh3_128: bytes_of(one) for own, _ in self._sources for one in own.shards}
        return sum(known.values())

    def _largest(self, shards: FetchedShards, count: int) -> int:
        return sum(sorted((bytes_of(one) for one in shards.shards), reverse=True)[:count])


def _touched(shards: FetchedShards, rows: int) -> int:
    """Return how many shards so many rows in a row may be in."""
    least = min((one.num_records for one in shards.shards if one.num_records), default=1)
    return rows // least + 2
