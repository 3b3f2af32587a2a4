"""Datasets in object stores: batches equal those of a local copy to the bit, whatever the cache.

Run as a script it is a process of another host: `python test_remote.py process …`, or one that is
killed: `python test_remote.py reader …`.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import ByTokens, DataLoader, open_dataset, proofs
from dataprep.loaders.cache import INDEX, NOW, Cache
from dataprep.loaders.fetching import Fetching
from dataprep.loaders.paging import SparseArray
from dataprep.loaders.ranged import RangedRecords
from dataprep.loaders.whole import Identity
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError, ResourceError
from dataprep.pipeline.files import temporary
from dataprep.pipeline.look.verify import compare
from dataprep.pipeline.storage.objects import Objects, open_objects
from dataprep.pipeline.storage.places import dataset_folder
from dataprep.pipeline.storage.riegeli import record_starts

BLOCKS: Any = {"shuffle": "blocks", "window_shards": 3}
NUM_SHARDS = 15

if __name__ != "__main__":
    from support.devices import finish, free_port, start
    from support.grown import grow
    from support.lengths import write_documents
    from support.packed import write_packed
    from support.stores import S3

    @pytest.fixture(scope="module")
    def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("remote")
        write_packed(folder / "packed", num_rows=150, rows_per_shard=10)
        write_packed(folder / "other", num_rows=90, rows_per_shard=10, seed=5)
        write_documents(folder / "documents", [*range(1, 90), 300, *range(1, 50)])
        return folder

    @pytest.fixture(scope="module")
    def url(home: Path, s3: S3) -> Iterator[str]:
        """Where the folder is in a store, which the environment reaches."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in s3.env().items():
                patch.setenv(name, value)
            s3.make_bucket("remote")
            upload(home, "s3://remote/data")
            yield "s3://remote/data"

    def upload(folder: Path, url: str) -> None:
        objects = open_objects(url)
        for path in folder.rglob("*"):
            if path.is_file():
                objects.put(str(path.relative_to(folder)), path.read_bytes())


def shard_bytes(folder: Path) -> int:
    """The bytes that a shard takes in a cache."""
    return max(
        path.stat().st_size + path.with_suffix(".npy").stat().st_size
        for path in (folder / "shards").glob("*.arrayrecord")
    )


def assert_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        assert (found[name] == array).all()


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What comes into caches of this process, and what goes."""
    found: list[tuple[str, str]] = []

    def noted(method: str) -> None:
        real: Callable[..., None] = getattr(Cache, method)

        def note(self: Cache, name: str, *rest: Any) -> None:
            real(self, name, *rest)
            found.append((method, name))

        monkeypatch.setattr(Cache, method, note)

    noted("arrived")
    noted("_evict")
    return found


def names(events: list[tuple[str, str]], method: str) -> list[str]:
    return [name for kind, name in events if kind == method]


@pytest.mark.parametrize(
    ("options", "shards"),
    [({}, NUM_SHARDS), (BLOCKS, 9), (BLOCKS, 6), ({"shuffle": False}, 4)],
    ids=["global", "blocks", "two windows", "in order"],
)
def test_three_epochs_equal_those_of_a_local_copy(
    url: str, home: Path, tmp_path: Path, events: Any, options: Any, shards: int
) -> None:
    bound = shards * shard_bytes(home / "packed")
    settings = {"batch_size": 8, "seed": 4, "epochs": 3, **options}
    with (
        DataLoader(f"{url}/packed", cache=tmp_path, cache_bytes=bound, **settings) as remote,
        DataLoader(home / "packed", **settings) as local,
    ):
        kept = remote._make.fetching.cache  # type: ignore[union-attr]
        for found, wanted in zip(remote, local, strict=True):
            assert_equal(found, wanted)
            assert sum(kept.present().values()) <= bound
        assert remote.get_state() == local.get_state()
    assert not any((tmp_path / "users").iterdir())
    times = Counter(names(events, "arrived"))
    assert len(times) == NUM_SHARDS
    assert set(times.values()) == {1} if shards == NUM_SHARDS else max(times.values()) <= 4
    assert bool(names(events, "_evict")) == (shards < NUM_SHARDS)


def test_what_goes_is_needed_last(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the true order, of a local copy: nothing that stays is needed in a later window."""
    local = DataLoader(home / "packed", batch_size=8, seed=4, epochs=4, **BLOCKS)
    hashes = [shard["xxh3_128"] for shard in local.datasets[""].manifest["shards"]]
    steps = len(local)
    uses: dict[str, list[int]] = {name: [] for name in hashes}
    for step in range(steps):
        for shard in {row // 10 for _, row in local.rows_of(step)}:
            uses[hashes[shard]].append(step)
    real, checked = Cache._evict, []
    size = shard_bytes(home / "packed")
    remote = DataLoader(
        f"{url}/packed", batch_size=8, seed=4, epochs=4, cache=tmp_path, cache_bytes=8 * size,
        prefetch=0, **BLOCKS
    )  # fmt: skip
    fetching = remote._make.fetching
    assert isinstance(fetching, Fetching)

    def evict(self: Cache, name: str) -> None:
        now = fetching._forecast.step

        def next_use(one: str) -> int:
            return min((step for step in uses[one] if step >= now), default=steps)

        urgent = {hashes[number] for _, number in fetching._urgent()}
        others = [next_use(one) for one in self.present() if one not in urgent]
        # A window is 3 shards of 10 rows: about 4 batches.
        checked.append(next_use(name) >= max(others) - 5)
        real(self, name)

    monkeypatch.setattr(Cache, "_evict", evict)
    with remote:
        for _ in remote:
            pass
    assert len(checked) > NUM_SHARDS
    assert all(checked)


def test_a_second_loader_finds_all_in_the_cache(
    url: str, home: Path, tmp_path: Path, events: Any
) -> None:
    for _ in range(2):
        with DataLoader(f"{url}/packed", batch_size=8, cache=tmp_path, epochs=1) as loader:
            assert sum(1 for _ in loader) == 18
    assert len(names(events, "arrived")) == NUM_SHARDS


def test_the_first_batch_waits_for_its_own_shards_only(
    url: str, tmp_path: Path, events: Any
) -> None:
    with DataLoader(
        f"{url}/packed", batch_size=4, cache=tmp_path, shuffle=False, prefetch=0
    ) as loader:
        loader._make.fetching._ahead = 0  # type: ignore[union-attr]
        assert loader._make(0)["inputs"].shape == (4, 16)
        hashes = [shard["xxh3_128"] for shard in loader.datasets[""].manifest["shards"]]
        assert names(events, "arrived")[0] == hashes[0]


def test_the_order_of_a_large_dataset_is_blocks_whatever_the_cache_of_a_host(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts of one job may have caches of different sizes, but must have one order."""
    size = shard_bytes(home / "packed")
    settings: Any = {"batch_size": 8, "cache": tmp_path}
    with pytest.raises(ConfigError, match="or more, or shuffle='blocks'"):
        DataLoader(f"{url}/packed", cache_bytes=14 * size, **settings)
    small = DataLoader(f"{url}/packed", cache_bytes=8 * size, window_shards=4, **settings)
    large = DataLoader(f"{url}/packed", cache_bytes=15 * size, **settings)
    monkeypatch.setattr("dataprep.loaders.remote.GLOBAL_BYTES", 14 * size)
    for bound in (15, 300):
        with DataLoader(f"{url}/packed", cache_bytes=bound * size, **settings) as loader:
            assert loader.get_state()["shuffle"] == "blocks"
    assert small.get_state()["shuffle"] == "blocks"
    assert large.get_state()["shuffle"] is True
    with pytest.raises(ConflictError, match="made with shuffle 'blocks', this loader has True"):
        large.set_state(small.state_at(3))
    with pytest.raises(ConflictError, match=r"set shuffle as the state has it \(true: 'global'\)"):
        small.set_state(large.state_at(3))
    for loader in (small, large):
        loader.close()


def test_a_cache_that_cannot_work_is_refused_with_the_size_that_would(
    url: str, home: Path, tmp_path: Path
) -> None:
    size = shard_bytes(home / "packed")

    def refused(options: Any, cache_bytes: int, text: str) -> None:
        with pytest.raises(ConfigError, match=text):
            DataLoader(
                f"{url}/packed", batch_size=8, cache=tmp_path, cache_bytes=cache_bytes, **options
            )

    refused(BLOCKS, 6 * size - 1, f"two windows of 3 shards take {6 * size:,} bytes; set cache_b")
    refused({"shuffle": "global"}, 9, f"cache_bytes={15 * size} or more, or shuffle='blocks'")
    refused({"shuffle": False}, size, "the shards of a batch take")
    refused({"verify": "open"}, 99 * size, "verify='open' would read all of s3://remote/data/pac")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="is not empty and not a cache of dataprep"):
        DataLoader(f"{url}/packed", batch_size=8, cache=tmp_path / "mine")
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def test_mixtures_of_remote_and_local_equal_local_ones(
    url: str, home: Path, tmp_path: Path
) -> None:
    settings: Any = {"batch_size": 8, "seed": 2, "max_steps": 40, **BLOCKS}
    mix: Any = {"a": (f"{url}/packed", 0.7), "b": (home / "other", 0.3)}
    both: Any = {"a": (home / "packed", 0.7), "b": (home / "other", 0.3)}
    far: Any = {"a": (f"{url}/packed", 0.7), "b": (open_dataset(f"{url}/other"), 0.3)}
    bound = 14 * shard_bytes(home / "packed")
    with DataLoader(both, **settings) as local:
        wanted = list(local)
    for data in (mix, far):
        with DataLoader(data, cache=tmp_path, cache_bytes=bound, **settings) as loader:
            loader.set_state(local.state_at(7))
            for found, own in zip(loader, wanted[7:], strict=True):
                assert_equal(found, own)


def test_generations_are_read_as_locally(s3: S3, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "grown"
    for number, rows in enumerate((30, 50)):
        grow(folder, lambda out, n=rows, s=number: write_packed(out, num_rows=n, rows_per_shard=8, seed=s))  # type: ignore[misc]  # fmt: skip  # noqa: E501
    upload(folder, "s3://remote/grown")
    settings: Any = {"batch_size": 4, "generation": {0: 0, 10: "latest"}, "max_steps": 30, **BLOCKS}
    with (
        DataLoader(folder, **settings) as local,
        DataLoader("s3://remote/grown", cache=tmp_path / "cache", **settings) as remote,
    ):
        for found, wanted in zip(remote, local, strict=True):
            assert_equal(found, wanted)
    past = open_dataset("s3://remote/grown", generation=0)
    assert len(past) == 30
    objects = open_objects("s3://remote/grown")
    objects.delete([e.name for e in objects.entries() if e.name.startswith("parts/00000/")])
    with pytest.raises(CorruptError, match=r"lists it; a newer generation may do without it, or"):
        past[0]


def test_documents_come_in_the_batches_of_a_local_copy(
    url: str, home: Path, tmp_path: Path
) -> None:
    settings: Any = {"batch_size": ByTokens(512, multiple_of=16), "epochs": 2}
    with (
        DataLoader(home / "documents/tokenized", **settings) as local,
        DataLoader(f"{url}/documents/tokenized", cache=tmp_path, **settings) as remote,
    ):
        for found, wanted in zip(remote, local, strict=True):
            assert_equal(found, wanted)


def test_the_indexes_of_documents_are_asked_for_at_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_documents(tmp_path / "d", [600] * 300, shard_bytes=1 << 16)
    upload(folder, "s3://remote/indexes")
    dataset: Any = open_dataset("s3://remote/indexes")
    shards = len(dataset.manifest["shards"])
    assert shards > 1
    together, real = threading.Barrier(shards, timeout=20), RangedRecords.index

    def index(self: RangedRecords, shard: int) -> Any:
        together.wait()  # for all of them: one after another, the first would wait for ever
        return real(self, shard)

    monkeypatch.setattr(RangedRecords, "index", index)
    local: Any = open_dataset(folder)
    assert (dataset.lengths == local.lengths).all()


# --- single rows ---


def test_rows_and_documents_are_read_by_ranges(url: str, home: Path) -> None:
    for name in ("packed", "documents/tokenized"):
        remote, local = open_dataset(f"{url}/{name}"), open_dataset(home / name)
        assert (len(remote), repr(remote)) == (len(local), repr(local))
        assert f"{url}/{name}" in str(remote)
        assert remote.manifest == local.manifest
        again = pickle.loads(pickle.dumps(remote))
        for one in (remote, again):
            assert_equal(one[7], local[7])
            assert_equal(one[-1], local[-1])
        found, wanted = remote[3:19], local[3:19]
        if isinstance(found, dict):
            assert_equal(found, wanted)  # type: ignore[arg-type]
        else:
            for document, own in zip(found, wanted, strict=True):
                assert_equal(document, own)
    rows: Any = open_dataset(f"{url}/packed").select([149, 3])
    assert_equal(rows[[0, 1]], open_dataset(home / "packed")[[149, 3]])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="s3://no-such-bucket does not exist"):
        DataLoader("s3://no-such-bucket/x", batch_size=2)
    with pytest.raises(CorruptError, match="s3://remote/nothing is not a dataset: it has no mani"):
        open_dataset("s3://remote/nothing")
    with pytest.raises(ConfigError, match="verify='open' would read all of"):
        open_dataset(f"{url}/packed", verify="open")


def test_rows_longer_than_a_block_are_read_by_ranges(url: str, tmp_path: Path) -> None:
    write_packed(tmp_path / "d", num_rows=6, seq_len=50_000, rows_per_shard=3)
    upload(tmp_path / "d", "s3://remote/long")
    found: Any = open_dataset("s3://remote/long")[[4, 0, 5]]
    assert_equal(found, open_dataset(tmp_path / "d")[[4, 0, 5]])  # type: ignore[arg-type]


def test_a_row_whose_size_is_not_where_the_index_says_is_refused(
    url: str, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "other", tmp_path / "d")
    shard = sorted((tmp_path / "d" / "shards").glob("*.arrayrecord"))[0]
    starts, _ = record_starts(np.load(shard.with_suffix(".npy")))
    data = bytearray(shard.read_bytes())
    data[starts[3] - 1] ^= 1
    shard.write_bytes(data)
    upload(tmp_path / "d", "s3://remote/changed")
    dataset: Any = open_dataset("s3://remote/changed")
    assert_equal(dataset[2], open_dataset(home / "other")[2])  # type: ignore[arg-type]
    with pytest.raises(CorruptError, match=f"{shard.name} was cut or changed: it lacks record 3"):
        dataset[3]


# --- what goes wrong ---


class FileStore:
    """As much of S3 as a loader asks for: ranges of the files of a folder. It dies as a process
    does: nobody answers at its port."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port, self.requests = folder, 0, 0
        self.begin()

    def begin(self) -> None:
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                store.requests += 1
                data = (store._folder / self.path.removeprefix("/bucket/")).read_bytes()
                first, stop, status = 0, len(data), 200
                if "Range" in self.headers:
                    words = self.headers["Range"].removeprefix("bytes=").split("-")
                    first, stop, status = int(words[0]), int(words[1]) + 1, 206
                self.send_response(status)
                self.send_header("Content-Length", str(stop - first))
                self.send_header("Content-Range", f"bytes {first}-{stop - 1}/{len(data)}")
                self.send_header("ETag", '"1"')
                self.send_header("Last-Modified", "Wed, 18 Nov 2026 12:00:00 GMT")
                self.end_headers()
                self.wfile.write(data[first:stop])

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def die(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_a_server_that_dies_and_comes_back_costs_nothing_but_time(
    s3: S3, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: Any = {"batch_size": 8, "epochs": 2, "seed": 1, **BLOCKS}
    with DataLoader(home / "packed", **settings) as local:
        wanted = list(local)
    store = FileStore(home)
    for name, value in s3.env(store.port, seconds=0.3).items():
        monkeypatch.setenv(name, value)
    with DataLoader(
        "s3://bucket/packed",
        cache=tmp_path,
        cache_bytes=8 * shard_bytes(home / "packed"),
        prefetch=0,
        **settings,
    ) as loader:
        for batch, own in zip(loader_rest(loader, 5), wanted, strict=False):
            assert_equal(batch, own)
        store.die()
        with pytest.raises(ResourceError, match="cannot read s3://bucket/packed/shards"):
            for _ in loader_rest(loader):
                pass
        step = loader.get_state()["step"]
        assert 5 <= step < 30
        with pytest.raises(ResourceError, match="cannot read s3://bucket/packed/shards"):
            next(loader)
        store.begin()
        for batch, own in zip(loader_rest(loader), wanted[step:], strict=True):
            assert_equal(batch, own)
    store.die()


def test_a_dataset_is_open_after_one_request(
    s3: S3, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(home)
    for name, value in s3.env(store.port).items():
        monkeypatch.setenv(name, value)
    open_dataset("s3://bucket/packed")
    assert store.requests == 1
    DataLoader("s3://bucket/packed", batch_size=8, cache=tmp_path).close()
    assert store.requests == 2
    store.die()


def loader_rest(loader: DataLoader, count: int = 1000) -> Iterator[dict[str, Any]]:
    """The next batches; `iter` of a loader would begin anew."""
    for _ in range(count):
        try:
            yield next(loader)
        except StopIteration:
            return


def test_a_shard_that_is_damaged_in_the_store_is_an_error_that_names_it(
    url: str, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "other", tmp_path / "d")
    shard = sorted((tmp_path / "d" / "shards").glob("*.arrayrecord"))[0]
    data = bytearray(shard.read_bytes())
    data[200] ^= 1
    shard.write_bytes(data)
    upload(tmp_path / "d", "s3://remote/damaged")
    with (
        DataLoader("s3://remote/damaged", batch_size=90, cache=tmp_path / "c") as loader,
        pytest.raises(CorruptError, match=f"s3://remote/damaged/shards/{shard.name} is damaged"),
    ):
        next(loader)


def test_a_shard_that_is_gone_from_the_store_is_damage(
    url: str, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "other", tmp_path / "d")
    shard = sorted((tmp_path / "d" / "shards").glob("*.arrayrecord"))[0]
    upload(tmp_path / "d", "s3://remote/lacking")
    open_objects("s3://remote/lacking").delete([f"shards/{shard.name}"])
    gone = f"s3://remote/lacking/shards/{shard.name} does not exist, though its manifest lists it"
    with (
        DataLoader("s3://remote/lacking", batch_size=90, cache=tmp_path / "c") as loader,
        pytest.raises(CorruptError, match=gone),
    ):
        next(loader)
    with pytest.raises(CorruptError, match=gone):
        open_dataset("s3://remote/lacking")[0]
    with pytest.raises(CorruptError, match=gone):
        dataset_folder("s3://remote/lacking")
    upload(tmp_path / "d", "s3://remote/lacking")
    assert compare(dataset_folder("s3://remote/lacking"), home / "other")
    with pytest.raises(CorruptError, match=f"^s3://remote/lacking and {home}/packed are not equal"):
        compare(dataset_folder("s3://remote/lacking"), home / "packed")


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_file_that_is_damaged_in_the_cache_is_fetched_again(
    url: str, home: Path, tmp_path: Path, damage: str
) -> None:
    settings: Any = {"batch_size": 8, "epochs": 1}
    with DataLoader(f"{url}/packed", cache=tmp_path, **settings) as loader:
        wanted = list(loader)
    for number, path in enumerate(sorted((tmp_path / "files").iterdir())):
        data = bytearray(path.read_bytes())
        if damage == "cut":
            del data[-(1 + number) :]
        elif path.suffix != INDEX:  # whose damage would have both fetched again
            data[130] ^= 1  # a token of the first row
        path.write_bytes(data)
    with DataLoader(f"{url}/packed", cache=tmp_path, **settings) as loader:
        for found, own in zip(loader, wanted, strict=True):
            assert_equal(found, own)


@pytest.mark.parametrize("always", [False, True])
def test_a_manifest_that_is_damaged_on_its_way_comes_once_more(
    url: str, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    real, asked = Objects.get, list[str]()

    def get(self: Objects, name: str) -> bytes:
        asked.append(name)
        data = real(self, name)
        return (
            data.replace(b'"seq_len": 16', b'"seq_len": 17') if asked == [name] or always else data
        )

    monkeypatch.setattr(Objects, "get", get)
    if always:
        with pytest.raises(CorruptError, match="make the dataset again"):
            open_dataset(f"{url}/packed")
    else:
        assert len(open_dataset(f"{url}/packed")) == 150
    assert asked == ["manifest.json"] * 2


def test_a_cache_on_a_disk_that_tells_other_inodes_whenever_it_is_asked_is_read(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(found: os.stat_result) -> Identity:
        return real(found)._replace(inode=next(inodes))

    real, inodes = proofs.identity_of, itertools.count()
    hashed, hash_file = list[Path](), proofs.hash_file
    settings: Any = {"batch_size": 8, "epochs": 1}
    with DataLoader(f"{url}/packed", cache=tmp_path, **settings) as loader:
        next(loader)

    def counted(path: Path) -> str:
        hashed.append(path)
        assert len(hashed) <= NUM_SHARDS  # else it would go on for ever
        return hash_file(path)

    monkeypatch.setattr(proofs, "identity_of", other)
    monkeypatch.setattr(proofs, "hash_file", counted)
    with (
        DataLoader(f"{url}/packed", cache=tmp_path, **settings) as loader,
        DataLoader(home / "packed", **settings) as local,
    ):
        for found, wanted in zip(loader, local, strict=True):
            assert_equal(found, wanted)


def test_what_something_removed_from_the_cache_is_fetched_again(
    url: str, tmp_path: Path, events: Any
) -> None:
    settings: Any = {"batch_size": 8, "epochs": 1}
    with DataLoader(f"{url}/packed", cache=tmp_path, **settings) as loader:
        wanted = list(loader)
    for path in sorted((tmp_path / "files").glob(f"*{INDEX}"))[:4]:
        path.unlink()  # as what clears folders for temporary files does with old ones
    with DataLoader(f"{url}/packed", cache=tmp_path, **settings) as loader:
        for found, own in zip(loader, wanted, strict=True):
            assert_equal(found, own)
    assert len(names(events, "arrived")) == NUM_SHARDS + 4


def test_a_cache_that_somebody_removes_is_made_anew(url: str, home: Path, tmp_path: Path) -> None:
    cache, settings = tmp_path / "cache", {"batch_size": 8, "epochs": 3, **BLOCKS}
    bound, told = 7 * shard_bytes(home / "packed"), list[str]()
    with (
        DataLoader(f"{url}/packed", cache=cache, cache_bytes=bound, **settings) as remote,
        DataLoader(home / "packed", **settings) as local,
    ):
        for step, wanted in enumerate(local):
            if step % 9 == 5:
                shutil.rmtree(cache, ignore_errors=True)
            try:
                found = next(remote)
            except (CorruptError, ResourceError) as error:  # it was just being used
                told.append(str(error))
                found = next(remote)
            assert_equal(found, wanted)
    assert all(str(cache) in said for said in told)
    assert sum(path.stat().st_size for path in (cache / "files").glob("*")) <= bound


def test_a_loader_that_is_closed_leaves_no_thread_and_no_user(url: str, tmp_path: Path) -> None:
    loader = DataLoader(f"{url}/packed", batch_size=8, cache=tmp_path)
    next(loader)
    assert any("dataprep-fetch" in thread.name for thread in threading.enumerate())
    del loader
    deadline = time.monotonic() + 10
    while any((tmp_path / "users").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any((tmp_path / "users").iterdir())
    assert not any("dataprep-fetch" in thread.name for thread in threading.enumerate())


def test_a_forked_process_is_told_to_be_spawned(url: str, tmp_path: Path) -> None:
    dataset: Any = open_dataset(f"{url}/packed")
    dataset[0]
    with DataLoader(f"{url}/packed", batch_size=150, cache=tmp_path, prefetch=0) as loader:
        for one in (loader, dataset):
            with warnings.catch_warnings():  # of jax, if other tests have started it
                warnings.simplefilter("ignore", RuntimeWarning)
                child = os.fork()
            if not child:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's needs Python to run
                signal.alarm(20)  # where it would wait for ever
                try:
                    one[0]
                except ConfigError as error:
                    os._exit(0 if "spawn" in str(error) else 1)
                os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_download_that_outlives_its_loader_leaves_nothing(url: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100)
    assert cache.promise("a", 10, (), NOW) == "mine"
    cache.close()  # before the interpreter ends, which does not wait for downloads
    cache.arriving("a").with_suffix(".tmp").write_bytes(b"part")
    Cache(tmp_path, 100).close()
    assert not any((tmp_path / "coming").iterdir())


def test_a_process_that_was_forked_holds_no_lock_of_its_parent(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, 100, a=40)
    assert cache.promise("b", 40, (), 1.0) == "mine"
    here, there = socket.socketpair()
    with cache._locked():  # as another thread may have it just then
        with warnings.catch_warnings():  # of jax, if other tests have started it
            warnings.simplefilter("ignore", RuntimeWarning)
            child = os.fork()
        if not child:
            here.close()
            there.send(b"x")
            there.recv(1)
            os._exit(0)
    assert here.recv(1)  # it runs
    other = Cache(tmp_path, 100)
    assert other.promise("b", 40, (), 1.0) == "coming"
    os.close(cache._file)  # as when it is killed
    assert other.promise("b", 40, (), 1.0) == "mine"
    other.close()
    here.close()
    there.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_download_that_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100)
    assert cache.promise("a", 10, (), NOW) == "mine"
    temporary(cache.arriving("a")).write_bytes(b"part")
    cache.failed("a")
    assert not any((tmp_path / "coming").iterdir())
    cache.close()


def test_room_that_another_process_is_using_is_waited_for(
    url: str, home: Path, tmp_path: Path
) -> None:
    size = shard_bytes(home / "packed")
    other = Cache(tmp_path, 6 * size)
    for name in "abcd":
        assert other.promise(name, size, (), 5.0) == "mine"
    with DataLoader(
        f"{url}/packed", batch_size=30, cache=tmp_path, cache_bytes=6 * size, prefetch=0, **BLOCKS
    ) as loader:
        later = threading.Timer(0.3, lambda: [other.failed(name) for name in "abcd"])
        later.start()
        assert loader[0]["inputs"].shape == (30, 16)
        later.join()
    other.close()


def test_what_goes_wrong_in_the_thread_that_fetches_is_told_to_the_reader(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Cache, *rest: Any) -> None:
        raise KeyError("of a thread")

    with DataLoader(f"{url}/packed", batch_size=8, cache=tmp_path, prefetch=0) as loader:
        monkeypatch.setattr(Cache, "plan", broken)
        with pytest.raises(KeyError, match="of a thread"):
            loader[0]


# --- several processes ---


def test_after_a_kill_the_next_clears_up_and_goes_on(
    s3: S3, url: str, home: Path, tmp_path: Path
) -> None:
    with s3.line() as line:
        line.delay = 0.1
        env, os.environ["AWS_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"], s3.env(line.port)["AWS_ENDPOINT_URL"]  # fmt: skip  # noqa: E501
        reader = start(__file__, 1, ["reader", f"{url}/packed", str(tmp_path)])
        os.environ["AWS_ENDPOINT_URL"] = env
        deadline = time.monotonic() + 60
        while not (tmp_path / "coming").is_dir() or not any((tmp_path / "coming").iterdir()):
            assert time.monotonic() < deadline
            assert reader.poll() is None
            time.sleep(0.005)
        reader.send_signal(signal.SIGKILL)
        reader.communicate()
    (left,) = (tmp_path / "users").iterdir()
    assert left.name.startswith(str(reader.pid))
    with (
        DataLoader(f"{url}/packed", batch_size=8, cache=tmp_path, epochs=1) as loader,
        DataLoader(home / "packed", batch_size=8, epochs=1) as local,
    ):
        for found, wanted in zip(loader, local, strict=True):
            assert_equal(found, wanted)
        assert not left.exists()
        assert not any((tmp_path / "coming").iterdir())


def test_two_loaders_of_one_cache_fetch_each_shard_once(
    url: str, home: Path, tmp_path: Path, events: Any
) -> None:
    """They are at other places of other orders; files know nothing of threads or processes."""
    with (
        DataLoader(f"{url}/packed", batch_size=8, cache=tmp_path, epochs=1) as one,
        DataLoader(f"{url}/packed", batch_size=6, cache=tmp_path, epochs=1, seed=9) as two,
    ):
        for first, second in zip(one, two, strict=False):
            assert (len(first["inputs"]), len(second["inputs"])) == (8, 6)
    assert Counter(names(events, "arrived")).most_common(1)[0][1] == 1
    assert len(events) == NUM_SHARDS


@pytest.mark.slow
def test_hosts_of_one_cache_have_parts_of_the_same_batches(
    url: str, home: Path, tmp_path: Path
) -> None:
    """Two processes of jax with 1 and 3 devices; each shard comes once, to one of them."""
    port = free_port()
    both = [
        start(
            __file__,
            count,
            ["process", f"{url}/packed", str(home / "packed"), str(tmp_path), str(i), port],
        )
        for i, count in ((0, 1), (1, 3))
    ]
    first, second = (json.loads(finish(process)) for process in both)
    assert first["state"] == second["state"]
    assert first["arrived"] + second["arrived"] == NUM_SHARDS
    with DataLoader(home / "packed", batch_size=8, seed=3, **BLOCKS) as local:
        local.set_state(first["state"])
        assert local.get_state()["step"] == 50


# --- the folder itself, and memory ---


def test_numbers_of_rows_take_memory_for_shards_that_are_there_only() -> None:
    array = SparseArray(100_000, np.int64)
    array.values[:] = 7
    array.free(10_001, 50_003)
    # A page has 512 of them at least; what it shares with others stays.
    assert not array.values[20_000:40_000].any()
    assert (array.values[:10_001] == 7).all()
    assert (array.values[50_003:] == 7).all()


def cache_of(root: Path, num_bytes: int, **files: int) -> Cache:
    cache = Cache(root, num_bytes)
    for name, size in files.items():
        assert cache.promise(name, size, (), 5.0) == "mine"
        cache.arriving(name).write_bytes(bytes(size - 1))
        cache.arrived(name, b"i")
    return cache


def test_the_furthest_next_use_of_all_users_goes_first(tmp_path: Path) -> None:
    one = cache_of(tmp_path, 100, a=30, b=30, c=30)
    two = Cache(tmp_path, 100)
    one.plan({"a": 9.0, "b": 7.0})
    two.plan({"c": 3.0, "a": 1.0})
    assert two.promise("d", 20, (), 2.0) == "mine"
    assert (one.evicted, two.evicted) == ([], ["b"])
    assert one.promise("d", 20, (), 2.0) == "coming"
    assert one.promise("e", 80, (), 4.0) == "full"  # the rest is used sooner
    assert one.promise("f", 20, (), 2.0) == "mine"
    assert one.promise("a", 30, (), 0.0) == "there"
    two.failed("d")
    assert one.promise("g", 20, (), 8.0) == "mine"
    one.close()
    two.close()


def test_what_is_waited_for_may_evict_all_but_what_is_kept(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, 100, a=40, b=40)
    cache.plan({"a": 0.0, "b": 0.0})
    assert cache.promise("c", 40, (), 0.0) == "full"
    assert cache.promise("c", 40, ("b",), NOW) == "mine"
    assert cache.evicted == ["a"]
    assert set(cache.present()) == {"b"}
    assert not cache.path("a" + INDEX).exists()
    cache.close()


def test_a_smaller_bound_is_kept_at_once(tmp_path: Path) -> None:
    cache_of(tmp_path, 100, a=30, b=30, c=30).close()
    cache = Cache(tmp_path, 50)
    cache.plan({"b": 1.0, "c": 2.0})
    assert set(cache.present()) == {"b"}
    cache.close()


# --- what runs in processes of its own ---


def read(url: str, cache: str) -> None:
    for _ in DataLoader(url, batch_size=8, cache=cache):
        pass


def process(url: str, folder: str, cache: str, index: str, port: str) -> None:
    import jax
    from jax.sharding import Mesh, PartitionSpec

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(index))
    arrived = []
    real = Cache.arrived

    def note(self: Cache, name: str, data: bytes) -> None:
        real(self, name, data)
        arrived.append(name)

    Cache.arrived = note  # type: ignore[method-assign]
    mesh = Mesh(np.array(jax.devices()).reshape(4), ("data",))
    spec: Any = PartitionSpec("data")
    settings: Any = {"batch_size": 8, "seed": 3, **BLOCKS}
    local = DataLoader(folder, prefetch=0, **settings)
    with DataLoader(url, mesh=mesh, spec=spec, cache=cache, **settings) as loader:
        for step in range(50):
            batch, wanted = next(loader), local[step]
            for name, array in batch.items():
                for part in array.addressable_shards:
                    assert (np.asarray(part.data) == wanted[name][part.index]).all()
        state = loader.get_state()
    print(json.dumps({"state": state, "arrived": len(arrived)}))
    jax.distributed.shutdown()


if __name__ == "__main__":
    {"reader": read, "process": process}[sys.argv[1]](*sys.argv[2:])
