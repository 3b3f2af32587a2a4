"""Fetches the shards of a loader into its cache, ahead of the batches that need them.

    reader    batch 7 needs b ─► wait ──────────────────────► b is mapped: go on
    keeper    look ahead: a b c d …   promise b, c   map a   evict e   tell other processes
    workers                           fetch b, prove it ─┘   fetch c …   prove what was there

One thread keeps order, so that nothing else maps, unmaps or evicts; what it does follows from
`forecast`, and where files are is `cache`'s. Each download has a thread of its own. An error is
raised where the batch would have been, and the next try begins anew.
"""

from __future__ import annotations

import atexit
import copy
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import inf

from dataprep.loaders.cache import NOW, Cache
from dataprep.loaders.fetched import AnyShard, FetchedShards, bytes_of
from dataprep.loaders.forecast import Forecast, Shard
from dataprep.loaders.prefetch import stop_if_closed
from dataprep.loaders.proofs import is_known, prove_cached, remember
from dataprep.pipeline.errors import ConfigError, CorruptError, DataprepError, ResourceError
from dataprep.pipeline.files import NewFile, disk_errors_named
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.storage.checked import check_hash
from dataprep.pipeline.storage.entries import DocumentShard
from dataprep.pipeline.storage.fetched import damage_if_gone
from dataprep.pipeline.storage.objects import ObjectEntry, Objects
from dataprep.pipeline.threads.bells import Bell

AT_ONCE = 8  # downloads
_LOOK = 0.5  # seconds after which other processes' files are looked at
_TELL = 10.0  # seconds after which others are told what is needed, if nothing was fetched
_REST = 10  # times as long as it took to find no room, until it is looked for again
_SELDOM = 0.1  # seconds between steps that the keeper is told of
_LOOKS = 64  # batches that are looked at before something else is done
_AGAIN = 5.0  # seconds after which what failed, and nobody waits for, is tried again
_PATIENCE = 10.0  # seconds that the interpreter's exit waits

Later = Callable[[int], dict[Shard, float]]


class Fetching:
    """The thread that keeps the shards of some sources where a loader needs them."""

    def __init__(
        self,
        cache: Cache,
        sources: Sequence[tuple[FetchedShards, Objects]],
        forecast: Forecast,
        later: Later,
        ahead: int,
    ) -> None:
        """`later`: after how many batches from a step on shards are needed again, roughly;
        `ahead`: how many shards are fetched before a batch needs them."""
        self.cache, self._sources, self._forecast, self._later = cache, sources, forecast, later
        self._ahead = max(ahead, 2 * AT_ONCE)
        self._names: dict[str, list[Shard]] = {}  # what has one content is one file
        for number, (shards, _) in enumerate(sources):
            shards.need = partial(self._need, number)
            for i, shard in enumerate(shards.shards):
                self._names.setdefault(shard.xxh3_128, []).append((number, i))
        self._step, self._waiting = 0, dict[int, tuple[set[Shard], Bell]]()
        self._coming, self._failed = set[str](), dict[str, tuple[float, BaseException]]()
        self._trouble: BaseException | None = None
        self._bell, self._closed, self._process = Bell(), False, os.getpid()
        self._rung = 0.0
        self._next_look = self._next_plan = self._next_get = 0.0
        self._mended = set[str]()  # files that were damaged, and fetched again
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def at(self, step: int) -> None:
        """Say that the batch of a step is made now."""
        is_next, self._step = step == self._step + 1, step
        self._start()
        if not is_next or time.monotonic() > self._rung + _SELDOM:
            self._rung = time.monotonic()
            self._bell.ring()

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True
        self._bell.ring()
        if self._process == os.getpid():
            thread = self._thread
            if thread is not None and thread is not threading.current_thread():
                thread.join(_PATIENCE)
            atexit.unregister(self.close)
            self.cache.close()

    def _start(self) -> None:
        if self._process != os.getpid():
            raise ConfigError(
                "a forked process cannot fetch shards from a store: start processes with spawn "
                "(multiprocessing_context='spawn'), or make the loader in each of them"
            )
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name="dataprep-fetch", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)

    # --- readers ---

    def _need(self, source: int, numbers: Sequence[int]) -> None:
        """Return when these shards are mapped."""
        self._start()
        shards, bell, me = self._sources[source][0], Bell(), threading.get_ident()
        wanted = {(source, number) for number in numbers}
        names = {self._entry(one).xxh3_128 for one in wanted}
        for name in names:
            self._failed.pop(name, None)
        self._trouble = None
        self._waiting[me] = wanted, bell
        self._bell.ring()
        try:
            while not shards.is_mapped[list(numbers)].all():
                failed = [self._failed[name][1] for name in names if name in self._failed]
                for error in failed or ([self._trouble] if self._trouble else []):
                    raise copy.copy(error)  # several readers may be told
                stop_if_closed()
                if self._closed:
                    raise ConfigError("this loader is closed; make another")
                bell.wait(_LOOK)
        finally:
            self._waiting.pop(me, None)

    # --- the keeper ---

    def _run(self) -> None:
        while not self._closed:
            try:
                self._keep()
                self._trouble = None
            except Exception as error:  # whatever it is: readers wait for this thread
                self._trouble = error
            for _, bell in list(self._waiting.values()):
                bell.ring()
            self._bell.wait(_LOOK)

    def _keep(self) -> None:
        """Do what can be done now."""
        self._forecast.move(self._step)
        if time.monotonic() > self._next_look:
            self._drop_gone()
            self._next_look = time.monotonic() + _LOOK
        if time.monotonic() > self._next_plan:
            self._plan()
        for one in self._wanted():
            name = self._entry(one).xxh3_128
            if self._sources[one[0]][0].is_mapped[one[1]] or name in self._coming:
                continue
            if self.cache.path(name).exists():  # most are, of a warm cache: nothing is counted
                self._map(one, name)
                continue
            urgent, begun = self._urgent(), time.monotonic()
            if one not in urgent and begun < self._next_get:
                break
            uses = self._plan()  # anew: the look ahead has gone on
            if not self._get(one, name, urgent, NOW if one in urgent else uses[name]):
                # To find that out takes the longer the more files there are: not again at once.
                self._next_get = time.monotonic() + _REST * (time.monotonic() - begun)
                break
        for shards, _ in self._sources:
            shards.reclaim()

    def _plan(self) -> dict[str, float]:
        """Tell other processes when files are needed next; return that."""
        uses = self._uses()
        self.cache.plan(uses)
        self._next_plan = time.monotonic() + _TELL
        return uses

    def _wanted(self) -> Iterator[Shard]:
        """Yield shards in the order in which they are needed, as long as something may be done
        about them."""
        for shard in sorted(self._urgent()):
            if self._entry(shard).xxh3_128 not in self._failed:  # else its reader is told first
                yield shard
        seen, ahead, looks = set[Shard](), 0, 0
        room = self.cache.num_bytes
        while len(self._coming) < AT_ONCE and not self._closed and room > 0 and ahead < self._ahead:
            new = [shard for shard in self._forecast.first if shard not in seen]
            for shard in new:
                if len(self._coming) >= AT_ONCE or self._closed:
                    return
                seen.add(shard)
                ahead += self._forecast.distance(shard) > 0
                room -= self._bytes(shard)
                failed = self._failed.get(self._entry(shard).xxh3_128)
                if failed is None or time.monotonic() > failed[0] + _AGAIN:
                    yield shard
            if len(seen) == sum(len(shards.shards) for shards, _ in self._sources):
                return  # all there are
            looks += 1
            if looks > _LOOKS:
                self._bell.ring()  # go on after what is waited for
                return
            if not new and not self._forecast.look():
                return

    def _get(self, one: Shard, name: str, urgent: set[Shard], next_use: float) -> bool:
        """Map a shard, or fetch it; return whether there is room for more."""
        keep = {self._entry(other).xxh3_128 for other in urgent}
        promise = self.cache.promise(name, self._bytes(one), keep, next_use)
        self._drop_evicted()
        if promise == "there":
            self._map(one, name)
        elif promise == "mine":
            self._failed.pop(name, None)
            self._begin(self._fetch, one, name)
        files = {self._entry(other).xxh3_128: self._bytes(other) for other in urgent}
        least = sum(files.values())
        # Else there will be room: when what is on its way, also to other processes, has come.
        if promise == "full" and next_use == NOW and least > self.cache.num_bytes:
            raise ConfigError(
                f"the cache {self.cache.root} may have {self.cache.num_bytes:,} bytes, a batch "
                f"needs shards of {least:,} at once: set cache_bytes to {2 * least} or more"
            )
        return promise != "full" or next_use == NOW

    def _map(self, one: Shard, name: str) -> None:
        """Map a shard that is in the cache; first prove it, if it was there before."""
        shards, path = self._sources[one[0]][0], self.cache.path(name)
        try:
            if path.stat().st_size != shards.shards[one[1]].num_bytes:
                raise CorruptError(f"{path} was cut")
            if shards.is_checked and not is_known(path):
                self._begin(self._prove, one, name)
                return
            shards.map(one[1], path, self.cache.index(name))
        except FileNotFoundError:  # another process evicted it just now
            return
        except CorruptError as error:
            self._damaged(name, error)
        for _, bell in list(self._waiting.values()):
            bell.ring()

    def _damaged(self, name: str, error: CorruptError) -> None:
        """Fetch a file again, as after a power failure."""
        if name in self._mended:
            self._failed[name] = time.monotonic(), error
        self._mended.add(name)
        self.cache.discard(name)
        self._bell.ring()

    def _drop_evicted(self) -> None:
        evicted, self.cache.evicted = self.cache.evicted, []
        for name in evicted:
            for source, number in self._names.get(name, ()):
                self._sources[source][0].drop(number)

    def _drop_gone(self) -> None:
        """Let go of what other processes evicted, so that its place on the disk is free; not of
        what a reader waits to have together with others, or two processes could wait for ever."""
        urgent, here = self._urgent(), self.cache.names()
        for source, (shards, _) in enumerate(self._sources):
            for number in shards.is_mapped.nonzero()[0].tolist():
                one = (source, number)
                if self._entry(one).xxh3_128 not in here and one not in urgent:
                    shards.drop(number)

    def _uses(self) -> dict[str, float]:
        """Return after how many batches each file that is there or wanted is needed next."""
        found: dict[str, float] = {}
        known = self._forecast.known  # what is not needed until then is needed after it
        later, near = self._later(known), known - self._forecast.step
        for name in self.cache.present():
            for one in self._names.get(name, ()):
                found[name] = min(found.get(name, inf), near + later[one])
        for one in self._forecast.first:
            name, distance = self._entry(one).xxh3_128, self._forecast.distance(one)
            found[name] = min(found.get(name, distance), distance)
        return found

    def _urgent(self) -> set[Shard]:
        return {shard for wanted, _ in list(self._waiting.values()) for shard in wanted}

    def _entry(self, one: Shard) -> AnyShard:
        return self._sources[one[0]][0].shards[one[1]]

    def _bytes(self, one: Shard) -> int:
        return bytes_of(self._entry(one))

    # --- workers ---

    def _begin(self, work: Callable[[Shard, str], None], one: Shard, name: str) -> None:
        self._coming.add(name)
        target = partial(work, one, name)
        try:
            threading.Thread(target=target, name="dataprep-download", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            self._coming.discard(name)
            self.cache.failed(name)
            raise

    def _prove(self, one: Shard, name: str) -> None:
        """Read a file of the cache that another process fetched, or this one long ago."""
        try:
            prove_cached(self.cache.path(name), self._entry(one))
        except CorruptError as error:
            self._damaged(name, error)
        except FileNotFoundError:  # another process evicted it just now
            pass
        except BaseException as error:
            self._failed[name] = time.monotonic(), error
        finally:
            self._coming.discard(name)
            self._bell.ring()

    def _fetch(self, one: Shard, name: str) -> None:
        """Download a shard and what comes with it, and prove both."""
        shards, objects = self._sources[one[0]]
        entry = shards.shards[one[1]]
        path = self.cache.arriving(name)
        try:
            with disk_errors_named(path.parent), damage_if_gone():
                index = b"" if isinstance(entry, DocumentShard) else objects.get(entry.index.path)
                if not isinstance(entry, DocumentShard):
                    check_hash(shards.folder / entry.index.path, entry.index, hash_bytes(index))
                file = NewFile(path)
                whole = ObjectEntry(name=entry.path, num_bytes=entry.num_bytes, e_tag="")
                for piece in objects.pieces(whole):
                    if self._closed:
                        raise ResourceError("the loader was closed")
                    file.write(piece)
                check_hash(shards.folder / entry.path, entry, file.commit().xxh3_128)
            self.cache.arrived(name, index)
            remember(self.cache.path(name))
        except BaseException as error:
            if not isinstance(error, CorruptError) or name in self._mended:
                self._failed[name] = time.monotonic(), error
            else:  # on its way, or in the cache: once more
                self._mended.add(name)
            with suppress(DataprepError):
                self.cache.failed(name)
        finally:
            self._coming.discard(name)
            self._bell.ring()
