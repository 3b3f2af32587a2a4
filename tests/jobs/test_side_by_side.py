"""Machines that write one folder of a bucket: one acts between any two requests of another, or is
killed there. The store is in memory, and its e_tags tell nothing of content.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast
from unittest import mock

import obstore
import pytest
from obstore.store import MemoryStore

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConflictError, CorruptError, ResourceError
from dataprep.pipeline.files import sealed
from dataprep.pipeline.jobs import stored
from dataprep.pipeline.jobs.buckets import BucketSite
from dataprep.pipeline.jobs.executors import EXECUTORS
from dataprep.pipeline.jobs.joined import join
from dataprep.pipeline.jobs.shares import JobShare
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.run.begun import finalize
from dataprep.pipeline.storage.objects import ObjectEntry, Objects, open_objects
from dataprep.pipeline.storage.objects import objects as objects_module
from dataprep.pipeline.tokenize import tokenize, tokenize_share
from support.jobs import write_corpus
from support.killable import Killed, execute_here, without_processes
from support.trees import tree

OUT = "s3://bucket/data/array"
WRITES, READS = ("put", "delete", "copy"), ("get", "head", "list")
CLAIM = ".work/identity.json"

Act = Callable[[], Any]


class Machines:
    """Machines that share a store and nothing else; `here` has the inputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = [*map(str, write_corpus(folder / "corpus", files=1, lines=5))]

    def config(self, out: str | Path, **more: Any) -> TokenizeConfig:
        values = {"inputs": self.corpus, "tokenizer": "bytes", "out": str(out), **more}
        return TokenizeConfig.model_validate(values)

    def run(
        self,
        name: str,
        *,
        overwrite: bool = False,
        out: str | Path = OUT,
        executors: AbstractContextManager[Any] | None = None,
        **more: Any,
    ) -> Any:
        with self._machine(name) as cache, executors or nullcontext():
            return tokenize(self.config(out, **more), cache_dir=cache, overwrite=overwrite)

    def element(self, name: str, number: int, **more: Any) -> Any:
        share = JobShare(number=number, count=2)
        with self._machine(name) as cache:
            return tokenize_share(self.config(OUT, **more), share, cache_dir=cache)

    def publish(self, name: str) -> Any:
        with self._machine(name) as cache:
            return finalize(OUT, cache)

    @contextmanager
    def _machine(self, name: str) -> Iterator[Path]:
        cache = self.folder / name
        with mock.patch.dict(os.environ, {"DATAPREP_CACHE": str(cache)}), without_processes():
            yield cache


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(tmp_path_factory.mktemp("machines"))


@pytest.fixture(scope="module")
def made(machines: Machines) -> Mapping[str, Mapping[str, bytes]]:
    """What local runs make: `a`, and `b` of another config."""
    machines.run("local", out=machines.folder / "a")
    machines.run("local", out=machines.folder / "b", add_eos=False)
    return {name: tree(machines.folder / name) for name in ("a", "b")}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Act:
    """Empties the store."""
    store = [MemoryStore()]

    def empty() -> None:
        store[0] = MemoryStore()
        stored._stored.cache_clear()

    monkeypatch.setattr(objects_module, "new_store", lambda url: store[0])
    monkeypatch.setattr(objects_module, "_SETTLING", (0.0,))
    empty()
    return empty


@contextmanager
def at_request(number: int, names: Iterable[str], act: Act) -> Iterator[list[Any]]:
    """Act once, before that request of those; the block is told what came of it."""
    real, count, came = {name: getattr(obstore, name) for name in names}, 0, list[Any]()

    def before(name: str) -> Callable[..., Any]:
        def request(*words: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                with mock.patch.multiple(obstore, **real):
                    came.append(act() or number)
            return real[name](*words, **options)

        return request

    with mock.patch.multiple(obstore, **{name: before(name) for name in names}):
        yield came


def die() -> None:
    raise Killed


def there() -> dict[str, bytes]:
    objects = open_objects(OUT)
    return {entry.name: objects.get(entry.name) for entry in objects.entries()}


def counted_up(act: Callable[[int], bool]) -> None:
    """Act at the first, the second, … until there is no such request any more."""
    number = 1
    while act(number):
        number += 1
    assert number > 5


def test_of_two_that_publish_at_once_both_succeed(
    machines: Machines, made: Mapping[str, Mapping[str, bytes]], fresh: Act
) -> None:
    def once(number: int) -> bool:
        fresh()
        machines.element("first", 0)
        with at_request(number, READS, lambda: machines.publish("second")) as came:
            machines.publish("first")
        assert there() == made["a"], number
        return bool(came)

    counted_up(once)


def test_an_element_that_is_started_again_while_its_array_is_published_may_be_tried_again(
    machines: Machines, made: Mapping[str, Mapping[str, bytes]], fresh: Act
) -> None:
    def once(number: int) -> bool:
        fresh()
        machines.element("first", 0)
        other = at_request(number, READS, lambda: machines.publish("second"))
        with other as came, suppress(ResourceError):  # other errors end an array
            machines.element("first", 0)
        if came:
            assert there() == made["a"], number
        return bool(came)

    counted_up(once)


@pytest.mark.parametrize("names", [WRITES, READS], ids=["writes", "reads"])
def test_of_two_that_overwrite_none_publishes_files_of_the_other(
    machines: Machines, made: Mapping[str, Mapping[str, bytes]], fresh: Act, names: tuple[str, ...]
) -> None:
    def other() -> None:
        machines.run("second", overwrite=True, add_eos=False)

    def once(number: int) -> bool:
        fresh()
        machines.run("before", add_eos=False)
        with at_request(number, names, other) as came, suppress(ConflictError, ResourceError):
            machines.run("first", overwrite=True)
        assert there() in (made["a"], made["b"]), number
        return bool(came)

    counted_up(once)


def test_an_overwriting_that_is_killed_is_gone_on_with_though_there_was_work(
    machines: Machines, made: Mapping[str, Mapping[str, bytes]], fresh: Act
) -> None:
    def once(number: int) -> bool:
        fresh()
        machines.element("first", 0)
        is_killed = False
        try:
            with at_request(number, WRITES, die):
                machines.run("first", overwrite=True)
        except Killed:
            is_killed = True
        machines.run("second")
        assert there() == made["a"], number
        return is_killed

    counted_up(once)


def test_an_element_of_something_else_leaves_alone_what_others_have_only_begun(
    machines: Machines, fresh: Act
) -> None:
    def other() -> None:
        with pytest.raises(ConflictError, match=r"add_eos: 'auto' -> False\); stop all elements"):
            machines.element("second", 1, add_eos=False)

    with at_request(3, WRITES, other) as came:
        done = machines.element("first", 0)
    assert came
    assert done.num_jobs == 1


@pytest.mark.parametrize("claim", [b"damaged", sealed(b'{"of": "another version"}')])
def test_a_damaged_claim_costs_nobody_the_work_that_is_there(
    machines: Machines, made: Mapping[str, Mapping[str, bytes]], fresh: Act, claim: bytes
) -> None:
    def damage() -> None:
        open_objects(OUT).put(CLAIM, claim)

    machines.element("first", 0)
    damage()
    before = there()
    for act in (lambda: machines.element("second", 1), lambda: machines.publish("third")):
        with pytest.raises(CorruptError, match="not known whose work is there"):
            act()
    with pytest.raises(CorruptError, match="not known whose work is there"):
        machines.run("fourth")
    assert there() == before

    def start(number: int) -> bool:  # who is at work goes on
        fresh()
        with at_request(number, ("copy",), damage) as came:
            machines.run("first", overwrite=True)
        assert there() == made["a"]
        return bool(came)

    assert start(1)


def test_a_machine_that_shares_no_disk_goes_on_after_the_shards_of_another(
    machines: Machines, fresh: Act, tmp_path: Path
) -> None:
    lines = [json.dumps({"text": f"line {i} {'and more ' * 500}"}) for i in range(400)]
    raw = tmp_path / "one-task.jsonl.gz"  # however large it is
    raw.write_bytes(gzip.compress("\n".join(lines).encode()))
    settings = {"inputs": [str(raw)], "shard_bytes": 65536}
    machines.run("local", out=tmp_path / "here", **settings)
    sessions, put, real = iter(range(9)), list[str](), Objects.put

    def elsewhere(jobs: Any, *, work: Path, **given: Any) -> None:
        kept = stored.stored_work(work)
        assert kept is not None
        here = join(kept.objects.url, kept.run, f"{next(sessions)}")
        execute_here(jobs, work=here, **given)

    def noted(self: Objects, name: str, *content: Any, **options: Any) -> str:
        e_tag = real(self, name, *content, **options)
        put.append(name)
        if len(sessions_done) == 0 and name.endswith("-0002.done"):
            raise Killed
        return e_tag

    sessions_done: list[str] = []
    executors = mock.patch.dict(EXECUTORS, {"local": elsewhere})
    with mock.patch.object(Objects, "put", noted):
        with pytest.raises(Killed):
            machines.run("first", executors=executors, **settings)
        sessions_done.append("first")
        put.clear()
        machines.run("second", executors=executors, **settings)
    again = {name.rpartition("-")[2] for name in put if name.endswith(".done")}
    assert "0003.done" in again
    assert not again & {"0000.done", "0001.done", "0002.done"}
    assert there() == tree(tmp_path / "here")


def test_lists_of_bad_records_are_brought_back_together(
    machines: Machines, fresh: Act, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{i}.jsonl" for i in range(2)]
    for path in paths:
        path.write_text('{"text": "good"}\n' * 4000 + "bad\n", encoding="ascii")
    settings = {
        "inputs": [*map(str, paths)],
        "shard_bytes": 65536,
        "on_error": "quarantine",
    }
    both, real = threading.Barrier(2), Objects.download

    def download(self: Objects, name: str, path: Path) -> Any:
        if name.endswith(".errors.jsonl"):
            both.wait(10)  # broken if one is brought after the other
        return real(self, name, path)

    with mock.patch.object(Objects, "download", download):
        made = machines.run("first", **settings)
    assert made.manifest.counts["documents_quarantined"] == 2
    assert not both.broken


def test_what_is_put_once_more_while_it_is_fetched_comes_whole(fresh: Act, tmp_path: Path) -> None:
    objects = open_objects(OUT)
    objects.put("plan", b"the same")
    with at_request(2, ("get",), lambda: objects.put("plan", b"the same")) as came:
        objects.download("plan", tmp_path / "plan")
    assert came
    assert (tmp_path / "plan").read_bytes() == b"the same"


def test_staging_folders_of_who_was_killed_are_removed_when_nobody_uses_them(
    machines: Machines, fresh: Act
) -> None:
    home = machines.folder / "first" / "staging" / platform.node()
    long_ago = {"dead": True, "alive": True, "new": False}
    for name, is_old in long_ago.items():
        (home / name / ".work").mkdir(parents=True)
        if is_old:
            os.utime(home / name, (0, 0))
    with locked(home / "alive"):
        machines.element("first", 0)
    assert {*long_ago} & {path.name for path in home.iterdir()} == {"alive", "new"}


def test_whose_objects_there_are_is_asked_in_one_walk(fresh: Act, tmp_path: Path) -> None:
    class Walked(dict[str, None]):  # a set would be walked without a call
        walks = 0

        def __iter__(self) -> Iterator[str]:
            Walked.walks += 1
            return super().__iter__()

    names = [f"shards/{number:05d}" for number in range(100)]
    entries = {name: ObjectEntry(name=name, num_bytes=1, e_tag="") for name in names}
    objects, listed = open_objects(OUT), cast(Any, Walked.fromkeys(names))
    site = BucketSite(objects=objects, folder=tmp_path, found=entries, listed=listed)
    site.check_ours()
    assert Walked.walks == 1
