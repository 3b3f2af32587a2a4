"""Task arrays whose dataset is made in a bucket: machines that share nothing but that."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.encode import encode, encode_share
from dataprep.pipeline.errors import ConflictError, CorruptError, InputError, ResourceError
from dataprep.pipeline.jobs.elements import ShareDone
from dataprep.pipeline.jobs.recipes import Outcome, Report
from dataprep.pipeline.jobs.shares import JobShare
from dataprep.pipeline.jobs.workspace import DISTRUSTED, distrust
from dataprep.pipeline.pack import pack, pack_share
from dataprep.pipeline.run.begun import finalize
from dataprep.pipeline.storage.objects import ObjectEntry, Objects, open_objects
from dataprep.pipeline.tokenize import tokenize, tokenize_share
from support.jobs import write_corpus, write_pictures, write_table
from support.killable import without_processes
from support.stores import S3
from support.trees import tree


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four files, which are a task each."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), files=4)


def config_of(corpus: list[Path], out: str | Path, **more: Any) -> TokenizeConfig:
    values = {"tokenizer": "bytes", "out": str(out), "shard_bytes": 65536}
    inputs = [*map(str, corpus)]
    return TokenizeConfig.model_validate({"inputs": inputs, **values, **more})


def silent(kind: str, values: object) -> None:
    """Report nothing."""


def element(
    corpus: list[Path],
    out: str,
    number: int,
    count: int,
    report: Report = silent,
    **more: Any,
) -> ShareDone:
    """Do a share in this process."""
    share, config = JobShare(number=number, count=count), config_of(corpus, out, **more)
    with without_processes():
        return tokenize_share(config, share, cache_dir=cache(), report=report)


def publish(out: str) -> Outcome:
    with without_processes():
        return finalize(out, cache())


def cache() -> Path:
    return Path(os.environ["DATAPREP_CACHE"])


@pytest.fixture(scope="module")
def local(corpus: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    out = tmp_path_factory.mktemp("local") / "out"
    with without_processes():
        tokenize(config_of(corpus, out), cache_dir=cache())
    return tree(out)


def objects_in(objects: Objects) -> dict[str, bytes]:
    return {entry.name: objects.get(entry.name) for entry in objects.entries()}


@contextmanager
def machine(folder: Path, name: str) -> Iterator[None]:
    """Be another machine: one with a cache folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATAPREP_CACHE", str(folder / name))
        yield


@pytest.fixture
def out(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    bucket = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    s3.make_bucket(bucket)
    return f"s3://{bucket}/data/array"


def test_elements_of_three_machines_and_finalize_of_a_fourth_give_the_bytes_of_one_run(
    corpus: list[Path], local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    inner: list[ShareDone] = []

    def others(kind: str, values: object) -> None:
        """While the first has begun and committed nothing yet, the second does its jobs."""
        if kind == "start":
            with machine(tmp_path, "second"):
                inner.append(element(corpus, out, 1, 3))

    with machine(tmp_path, "first"):
        done = [element(corpus, out, 0, 3, others), *inner]
    with machine(tmp_path, "fourth"), pytest.raises(ResourceError, match=r"--task 2/3, then"):
        publish(out)
    with machine(tmp_path, "third"):
        done.append(element(corpus, out, 2, 3))
        assert sum(each.num_jobs for each in done) == 4
        assert "manifest.json" not in objects_in(open_objects(out))
    with machine(tmp_path, "fourth"):
        assert not publish(out).was_complete
        assert objects_in(open_objects(out)) == local
        assert publish(out).was_complete
        assert element(corpus, out, 0, 5).was_complete
    assert objects_in(open_objects(out)) == local
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "staging" in path.parts]
    assert left == []


def test_an_element_that_is_killed_goes_on_on_another_machine(
    corpus: list[Path], local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    def die(kind: str, values: object) -> None:
        if kind == "progress" and any(n.endswith(".done") for n in objects_in(open_objects(out))):
            raise KeyboardInterrupt

    with machine(tmp_path, "first"), pytest.raises(KeyboardInterrupt):
        element(corpus, out, 0, 1, die)
    kept = {
        name: data
        for name, data in objects_in(open_objects(out)).items()
        if name.endswith(".arrayrecord")
    }
    assert 0 < len(kept) < 4
    with machine(tmp_path, "second"):
        # Of another number of elements, which go on with what is left.
        done = [element(corpus, out, number, 2) for number in range(2)]
        assert sum(each.num_before for each in done) == len(kept)
        publish(out)
    assert objects_in(open_objects(out)) == local


def test_an_ordinary_run_goes_on_with_what_elements_have_done(
    corpus: list[Path], local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    element(corpus, out, 1, 2)
    begun: list[Mapping[str, Any]] = []

    def report(kind: str, values: Any) -> None:
        if kind == "start":
            begun.append(values)

    with machine(tmp_path, "other"), without_processes():
        tokenize(config_of(corpus, out), cache_dir=cache(), report=report)
    assert begun[0]["tasks_done"] == 2
    assert objects_in(open_objects(out)) == local


def test_an_array_that_makes_something_else_is_a_conflict_and_removes_nothing(
    corpus: list[Path], out: str
) -> None:
    element(corpus, out, 0, 2)
    before = objects_in(open_objects(out))
    fix = f"stop all elements, remove {out}/.work from the bucket and run them again"
    with pytest.raises(ConflictError, match=rf"\(add_eos: 'auto' -> False\); {fix}$"):
        element(corpus, out, 1, 2, add_eos=False)
    assert objects_in(open_objects(out)) == before


def test_an_input_that_changes_lets_nobody_use_what_was_done(out: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", files=2)

    def change(kind: str, values: object) -> None:
        if kind == "progress":
            corpus[0].write_text(json.dumps({"text": "another"}) + "\n")

    with pytest.raises(InputError, match="changed while it was read"):
        element(corpus, out, 0, 1, change)
    write_corpus(tmp_path / "corpus", files=2)
    with machine(tmp_path, "other"):
        with pytest.raises(ConflictError, match=r"cannot be used \(.*changed while"):
            element(corpus, out, 0, 1)
        with pytest.raises(CorruptError, match=r"cannot be used \(.*changed while"):
            publish(out)


def test_what_becomes_of_bad_records_is_as_the_last_element_says(out: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", files=2)
    for path in corpus:
        path.write_text(path.read_text() + "{bad\n")
    element(corpus, out, 0, 2, on_error="skip")
    with machine(tmp_path, "other"):
        element(corpus, out, 1, 2, on_error="quarantine")
        assert publish(out).manifest.on_error == "quarantine"


def test_what_is_not_trusted_is_not_gone_on_with_though_its_removal_is_killed(
    corpus: list[Path], out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    element(corpus, out, 0, 2)
    objects, work = open_objects(out), tmp_path / "work"
    (run,) = {name.split("/")[1] for name in objects_in(objects) if name.count("/") > 1}
    work.mkdir()
    distrust(work, "because of the test")
    objects.put(f".work/{run}/{DISTRUSTED}", work / DISTRUSTED)
    real, removed = Objects._delete_some, list[str]()

    def remove(self: Objects, names: list[str]) -> None:
        real(self, names)
        removed.extend(names)
        if len(removed) == 6:
            raise KeyboardInterrupt

    begun: list[Any] = []
    with without_processes():
        with monkeypatch.context() as patch:
            patch.setattr(Objects, "_delete_some", remove)
            patch.setattr("dataprep.pipeline.storage.objects.objects._DELETED_AT_ONCE", 1)
            with pytest.raises(KeyboardInterrupt):
                tokenize(config_of(corpus, out), cache_dir=cache())
        tokenize(
            config_of(corpus, out),
            cache_dir=cache(),
            report=lambda kind, values: begun.append(values) if kind == "start" else None,
        )
    assert [values["tasks_done"] for values in begun] == [0]


def test_work_that_is_removed_meanwhile_is_told_and_leaves_nothing(
    corpus: list[Path], out: str, tmp_path: Path
) -> None:
    def overwrite(kind: str, values: object) -> None:
        if kind == "start":
            with machine(tmp_path, "other"), without_processes():
                other = config_of(corpus, out, add_eos=False)
                tokenize(other, cache_dir=cache(), overwrite=True)

    with pytest.raises(ConflictError, match="removed the work of this array"):
        element(corpus, out, 0, 2, overwrite)
    names = objects_in(open_objects(out))
    assert "manifest.json" in names
    assert not any(name.startswith(".work") for name in names)


def test_who_publishes_may_be_killed_while_it_clears_up_and_is_run_again(
    corpus: list[Path],
    local: Mapping[str, bytes],
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(2):
        element(corpus, out, number, 2)
    real = Objects.delete

    def delete(self: Objects, names: Iterable[str]) -> None:
        real(self, names)
        raise KeyboardInterrupt  # before it removes the claim

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "delete", delete)
        with pytest.raises(KeyboardInterrupt):
            publish(out)
    left = objects_in(open_objects(out))
    assert {"manifest.json", ".work/identity.json"} <= left.keys()
    with machine(tmp_path, "other"):
        assert publish(out).was_complete
    assert objects_in(open_objects(out)) == local


@pytest.mark.parametrize("late", ["element", "finalize"])
def test_who_looks_while_another_publishes_finds_it_complete(
    corpus: list[Path],
    local: Mapping[str, bytes],
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    late: str,
) -> None:
    for number in range(2):
        element(corpus, out, number, 2)
    real, looked = Objects.entries, list[str]()

    def entries(self: Objects, prefix: str = "") -> list[ObjectEntry]:
        found = real(self, prefix)
        if self.url == out and not looked:
            looked.append(prefix)
            with machine(tmp_path, "other"):
                publish(out)
        return found

    monkeypatch.setattr(Objects, "entries", entries)
    made = element(corpus, out, 0, 2) if late == "element" else publish(out)
    assert looked
    assert made.was_complete
    assert objects_in(open_objects(out)) == local


def test_nothing_to_publish_is_said(out: str) -> None:
    with pytest.raises(CorruptError, match="no unfinished work"):
        publish(out)


def test_rows_and_codes_are_made_by_elements_too(
    corpus: list[Path], out: str, tmp_path: Path
) -> None:
    with without_processes():
        tokenize(config_of(corpus, f"{out}/tokens"), cache_dir=cache())
    pictures = write_pictures(tmp_path / "pictures", 5)
    table = write_table(tmp_path, 9)
    encoded = {"inputs": [str(pictures), str(table)], "encoder": "patches", "shard_records": 4}
    packed = {"inputs": [f"{out}/tokens"], "seq_len": 128, "shard_rows": 400}

    def rows_to(place: str) -> PackConfig:
        return PackConfig.model_validate({**packed, "out": place})

    def codes_to(place: str) -> EncodeConfig:
        return EncodeConfig.model_validate({**encoded, "out": place})

    with without_processes():
        pack(rows_to(f"{out}/rows"))
        encode(codes_to(f"{out}/codes"), cache_dir=cache())
        jobs = 0
        for number in range(2):
            with machine(tmp_path, f"element-{number}"):
                share = JobShare(number=number, count=2)
                jobs += pack_share(rows_to(f"{out}/rows-array"), share).num_jobs
                encode_share(codes_to(f"{out}/codes-array"), share, cache_dir=cache())
        assert jobs > 1
        with machine(tmp_path, "publisher"):
            for name in ("rows", "codes"):
                finalize(f"{out}/{name}-array", cache())
    for name in ("rows", "codes"):
        of_array = objects_in(open_objects(f"{out}/{name}-array"))
        assert of_array == objects_in(open_objects(f"{out}/{name}"))


def test_the_commands_say_where_it_is(
    corpus: list[Path], local: Mapping[str, bytes], out: str, s3: S3, run_cli: RunCli
) -> None:
    words = ("tokenize", *map(str, corpus), "--tokenizer", "bytes", "--shard-bytes", "65536")
    env = s3.env()
    done = run_cli(*words, "--out", out, "--task", "0/1", "--workers", "1", env=env)
    assert f"dataprep finalize {out}" in done.stdout + done.stderr
    told = json.loads(run_cli("finalize", out, "--json", env=env).stdout)
    assert (told["out"], told["shards"]) == (out, 4)
    assert objects_in(open_objects(out)) == local
