"""Datasets made in a bucket: the bytes of a local one, and nothing lost or mixed, whatever ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dataprep.cli.inspect import inspect_command
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.export import ExportConfig
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.encode import encode
from dataprep.pipeline.errors import (
    ConfigError,
    ConflictError,
    InputError,
    LockedError,
    ResourceError,
)
from dataprep.pipeline.export import export
from dataprep.pipeline.files import Written
from dataprep.pipeline.jobs.buckets import BucketSite
from dataprep.pipeline.jobs.claims import IDENTITY as CLAIM
from dataprep.pipeline.jobs.claims import Claim, announce, take
from dataprep.pipeline.jobs.executors import EXECUTORS
from dataprep.pipeline.jobs.joined import join
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.recipes import Outcome, Report
from dataprep.pipeline.jobs.stored import stored_work
from dataprep.pipeline.pack import pack
from dataprep.pipeline.storage.objects import Objects, open_objects
from dataprep.pipeline.tokenize import tokenize
from dataprep.pipeline.tokenize.recipe import planned
from support.installed import COMMAND
from support.jobs import write_corpus, write_pictures, write_table
from support.killable import execute_here, without_processes
from support.stores import KEY, S3, SECRET, Line


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files, which are a task each."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), files=4)[0].parent


def settings(corpus: Path, out: str | Path, **more: Any) -> TokenizeConfig:
    inputs = sorted(map(str, corpus.glob("*.jsonl")))
    values = {"tokenizer": "bytes", "out": str(out), "shard_bytes": 65536}
    return TokenizeConfig.model_validate({"inputs": inputs, **values, **more})


def make(corpus: Path, out: str | Path, *, overwrite: bool = False, **more: Any) -> Outcome:
    """Tokenize in this process."""
    report: Report = more.pop("report", lambda kind, values: None)
    cache = Path(os.environ["DATAPREP_CACHE"])
    with without_processes():
        config = settings(corpus, out, **more)
        return tokenize(config, cache_dir=cache, overwrite=overwrite, report=report)


def pack_to(inputs: str | Path, out: str | Path) -> Outcome:
    with without_processes():
        return pack(PackConfig(inputs=[str(inputs)], out=str(out), seq_len=32, workers=1))


@pytest.fixture(scope="module")
def local(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """What a local run makes of the corpus."""
    out = tmp_path_factory.mktemp("local") / "out"
    make(corpus, out)
    return files_in(out)


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


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
    """The address of a folder in a new bucket, which the environment knows how to reach."""
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    bucket = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    s3.make_bucket(bucket)
    return f"s3://{bucket}/data/tokenized"


def test_a_dataset_in_a_bucket_has_the_names_and_bytes_of_a_local_one(
    corpus: Path, local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    def look(kind: str, values: object) -> None:
        names = [path.name for path in (tmp_path / "here" / "staging").rglob("*.arrayrecord*")]
        most_here.append(len(names))

    most_here: list[int] = []
    with machine(tmp_path, "here"):
        made = make(corpus, out, report=look)
        assert max(most_here) == 1, "shards that are uploaded take no room here"
        assert (made.out, made.was_complete) == (out, False)
        assert len(made.manifest.shards) == 4
        assert objects_in(open_objects(out)) == local
        again = make(corpus, out)
        assert again.was_complete
        assert objects_in(open_objects(out)) == local
    left = [path for path in (tmp_path / "here" / "staging").rglob("*") if path.is_file()]
    assert left == []


def test_another_config_is_a_conflict_until_it_may_overwrite(
    corpus: Path, local: Mapping[str, bytes], out: str
) -> None:
    make(corpus, out)
    with pytest.raises(ConflictError, match=rf"{out} was made from something else \(.*add_eos"):
        make(corpus, out, add_eos=False)
    with (
        pytest.raises(ConflictError, match="add_eos"),
        planned(settings(corpus, out, add_eos=False), Path(os.environ["DATAPREP_CACHE"])),
    ):
        pass
    assert objects_in(open_objects(out)) == local
    made = make(corpus, out, add_eos=False, overwrite=True, shard_bytes=1 << 20)
    assert not made.was_complete
    assert len(objects_in(open_objects(out))) < len(local)
    make(corpus, out, overwrite=True)
    assert objects_in(open_objects(out)) == local


def test_objects_of_others_are_neither_written_over_nor_removed(corpus: Path, out: str) -> None:
    objects = open_objects(out)
    for name in ("notes.txt", "shards/mine.arrayrecord", ".work/mine.txt"):
        objects.put(name, b"mine")
        for overwrite in (False, True):
            with pytest.raises(ConfigError, match=re.escape(name)):
                make(corpus, out, overwrite=overwrite)
        assert objects_in(objects) == {name: b"mine"}
        objects.delete([name])
    make(corpus, out)
    objects.put("shards/mine.arrayrecord", b"mine")
    assert make(corpus, out).was_complete
    with pytest.raises(ConfigError, match="mine"):
        make(corpus, out, overwrite=True)


def test_inputs_in_the_folder_that_is_written_are_refused() -> None:
    out = "s3://bucket/data"
    for address in (f"{out}/raw/a.jsonl", "s3a://bucket//data", f"zip://a.jsonl::{out}/a.zip"):
        with pytest.raises(ConfigError, match="is or holds the input"):
            refuse_overlap(out, [address])
    with pytest.raises(ConfigError, match="lies in the input"):
        refuse_overlap(out, [], ["s3://bucket"])
    refuse_overlap(out, ["s3://bucket/database/a.jsonl", "/data/a.jsonl"], ["gs://bucket", "/data"])


def test_a_line_that_is_cut_anywhere_loses_nothing(
    corpus: Path,
    local: Mapping[str, bytes],
    out: str,
    s3: S3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with s3.line() as line:
        for name, value in s3.env(line.port, seconds=0).items():
            monkeypatch.setenv(name, value)
        with machine(tmp_path, "whole"):
            make(corpus, out)
        whole = line.sent
        cuts, cut, sent = 0, 2000, 0
        while cut < whole:
            objects = open_objects(f"{out}-{cut}")
            line.sent, line.cut_after = 0, cut
            with machine(tmp_path, f"first-{cut}"), pytest.raises(ResourceError) as raised:
                make(corpus, objects.url)
            assert line.was_cut
            assert "run the same command again" in str(raised.value)
            line.mend()
            line.was_cut = False
            assert "manifest.json" not in objects_in(objects) or cut > whole * 0.8
            line.sent = 0
            with machine(tmp_path, f"second-{cut}"):
                make(corpus, objects.url)
            sent = line.sent
            assert objects_in(objects) == local
            cuts, cut = cuts + 1, cut + whole // 4
        assert cuts >= 4
        assert sent < whole / 2, "the last of them had nearly all, but it was uploaded again"


def run_inside(event: str, action: Callable[[], None], *, at: int = 1) -> Report:
    """A report that does something once, when the run has come to the n-th of such events."""
    seen: list[str] = []

    def report(kind: str, values: object) -> None:
        if kind == event:
            seen.append(kind)
            if len(seen) == at:
                action()

    return report


def test_two_that_make_the_same_dataset_both_succeed(
    corpus: Path, local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    def other() -> None:
        with machine(tmp_path, "other"):
            assert not make(corpus, out).was_complete

    for at in (1, 3):  # nothing is committed, or two shards are
        with machine(tmp_path, "first"):
            make(corpus, out, report=run_inside("progress", other, at=at), overwrite=True)
        assert objects_in(open_objects(out)) == local


def test_of_two_that_make_different_datasets_one_ends_with_a_conflict(
    corpus: Path, local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    outcomes: list[str] = []

    def other() -> None:
        with machine(tmp_path, "other"):
            try:
                make(corpus, out, add_eos=False)
                outcomes.append("published")
            except ConflictError:
                outcomes.append("conflict")

    # The first has committed nothing yet, so the other takes its place, and publishes.
    with machine(tmp_path, "first"), pytest.raises(ConflictError):
        make(corpus, out, report=run_inside("start", other))
    assert outcomes == ["published"]
    found = objects_in(open_objects(out))
    assert json.loads(found["manifest.json"])["config"]["add_eos"] is False
    assert not any(name.startswith(".work") for name in found)

    # It has committed something, which the other must not throw away.
    out = f"{out}-again"
    with machine(tmp_path, "first"):
        make(corpus, out, report=run_inside("progress", other, at=3))
    assert outcomes == ["published", "conflict"]
    assert objects_in(open_objects(out)) == local


def test_who_begins_after_another_has_published_leaves_that_whole(
    corpus: Path,
    local: Mapping[str, bytes],
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, begun = BucketSite.begin, []

    def late(site: BucketSite, identity: bytes) -> Path:
        if not begun:  # it has looked into an empty folder
            begun.append(identity)
            with machine(tmp_path, "other"):
                make(corpus, out)
        return begin(site, identity)

    monkeypatch.setattr(BucketSite, "begin", late)
    with machine(tmp_path, "late"), pytest.raises(ConflictError, match="has a dataset by now"):
        make(corpus, out, add_eos=False)
    assert objects_in(open_objects(out)) == local


def test_who_takes_a_place_where_something_was_committed_just_now_gives_it_back(
    corpus: Path,
    local: Mapping[str, bytes],
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects, begin, refused = open_objects(out), BucketSite.begin, list[str]()

    def late(site: BucketSite, identity: bytes) -> Path:
        if site.claim is not None:  # it has looked when nothing was committed
            name = f".work/{site.claim.run}/tasks/999999-0000-0000.done"
            objects.put(name, b"of a task that is larger than those of the test")
        return begin(site, identity)

    def other() -> None:
        with machine(tmp_path, "other"), pytest.raises(ConflictError) as raised:
            make(corpus, out, add_eos=False)
        refused.append(str(raised.value))

    monkeypatch.setattr(BucketSite, "begin", late)
    with machine(tmp_path, "first"):
        make(corpus, out, report=run_inside("start", other))
    assert "which is at work just now; wait for its end" in refused[0]
    assert objects_in(objects) == local


def test_several_of_one_run_may_announce_at_the_same_time(out: str) -> None:
    objects, run = open_objects(out), "0" * 16
    found: list[Claim | Exception | None] = []

    def announce_own() -> None:
        try:
            ready.wait(10)
            found.append(announce(objects, Claim(run=run, identity={})))
        except Exception as error:
            found.append(error)

    for _ in range(8):
        objects.delete([CLAIM])
        take(objects, Claim(run=run, identity={}), None)
        ready = threading.Barrier(3)
        threads = [threading.Thread(target=announce_own) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 24
    assert all(isinstance(one, Claim) and one.publishes for one in found), found


def test_work_that_cannot_be_trusted_is_thrown_away(corpus: Path, out: str, tmp_path: Path) -> None:
    own = Path(shutil.copytree(corpus, tmp_path / "corpus"))

    def change() -> None:
        with open(own / "part-0.jsonl", "a", encoding="utf-8") as file:
            file.write('{"text": "more"}\n')

    with pytest.raises(InputError, match="changed while it was read, so the work was thrown away"):
        make(own, out, report=run_inside("progress", change, at=3))
    assert objects_in(open_objects(out)) == {}
    make(own, out)
    make(own, tmp_path / "here")
    assert objects_in(open_objects(out)) == files_in(tmp_path / "here")


def test_an_object_that_goes_missing_costs_no_more_than_itself(
    corpus: Path,
    local: Mapping[str, bytes],
    out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects, real, gone = open_objects(out), Objects.copy, list[str]()

    def copy(self: Objects, name: str, to: str, num_bytes: int) -> None:
        if not gone and name.endswith(".arrayrecord"):
            gone.append(name)
            objects.delete([name])
        real(self, name, to, num_bytes)

    monkeypatch.setattr(Objects, "copy", copy)
    with pytest.raises(ResourceError, match="makes only that again"):
        make(corpus, out)
    seen: list[Any] = []
    with machine(tmp_path, "other"):
        make(corpus, out, report=lambda kind, values: seen.append((kind, values)))
    assert [values["tasks_done"] for kind, values in seen if kind == "start"] == [3]
    assert objects_in(objects) == local


# --- machines that share no disk ---


@contextmanager
def done_elsewhere(folder: Path) -> Iterator[None]:
    """Have jobs done by a machine that has the inputs, and sees nothing else of the one that runs
    the command: what that has in its cache is somewhere else meanwhile."""
    sessions = iter(range(1000))

    def execute(jobs: Sequence[int], *, work: Path, **given: Any) -> None:
        stored = stored_work(work)
        assert stored is not None
        own = Path(os.environ["DATAPREP_CACHE"])
        away = own.rename(own.with_name("away"))
        try:
            with machine(folder, "elsewhere"):
                here = join(stored.objects.url, stored.run, f"{next(sessions)}")
                execute_here(jobs, work=here, **given)
        finally:
            away.rename(own)

    with mock.patch.dict(EXECUTORS, {"local": execute}):
        yield


def test_machines_without_a_common_disk_make_the_bytes_of_one(
    corpus: Path, local: Mapping[str, bytes], out: str, tmp_path: Path
) -> None:
    with machine(tmp_path, "here"), done_elsewhere(tmp_path):
        for overwrite in (False, True):  # what is left of the first is not taken for the second's
            config, cache = settings(corpus, out), tmp_path / "here"
            made = tokenize(config, cache_dir=cache, overwrite=overwrite)
            assert not made.was_complete
            assert objects_in(open_objects(out)) == local
        rows = PackConfig(inputs=[out], out=f"{out}-packed", seq_len=32, workers=1)
        assert pack(rows).manifest.counts["rows"]
    assert objects_in(open_objects(f"{out}-packed")).keys() >= {"manifest.json"}
    pack_to(out, tmp_path / "packed")
    assert objects_in(open_objects(f"{out}-packed")) == files_in(tmp_path / "packed")


def test_a_machine_that_joins_again_has_the_plan_of_this_start(out: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    lines = [*(json.dumps({"text": f"line {i}"}) for i in range(50)), "bad"]
    (tmp_path / "raw" / "a.jsonl").write_text("\n".join(lines))
    with machine(tmp_path, "here"), done_elsewhere(tmp_path):
        with pytest.raises(InputError, match="line 51"):
            tokenize(settings(tmp_path / "raw", out), cache_dir=tmp_path / "here")
        config = settings(tmp_path / "raw", out, on_error="skip")
        made = tokenize(config, cache_dir=tmp_path / "here")
    assert made.manifest.counts["documents_written"] == 50


def test_a_run_goes_on_with_another_on_error(
    corpus: Path, local: Mapping[str, bytes], out: str
) -> None:
    def stop() -> None:
        raise ResourceError("because of the test")

    with pytest.raises(ResourceError, match="of the test"):
        make(corpus, out, on_error="quarantine", report=run_inside("progress", stop, at=3))
    make(corpus, out, on_error="fail")
    assert objects_in(open_objects(out)).keys() == local.keys()


def test_a_second_run_on_this_machine_is_told_that_one_is_on(corpus: Path, out: str) -> None:
    def other() -> None:
        with pytest.raises(LockedError, match=rf"another run holds {out}"):
            make(corpus, out)

    make(corpus, out, report=run_inside("start", other))


def test_a_dataset_that_is_replaced_while_it_is_fetched_is_not_a_mixture(
    corpus: Path, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(corpus, out)
    real, fetched = Objects.download, list[str]()

    def download(self: Objects, name: str, path: Path) -> Written:
        fetched.append(name)
        if len(fetched) == 2:
            with machine(tmp_path, "other"):
                make(corpus, out, add_eos=False, overwrite=True)
        return real(self, name, path)

    monkeypatch.setattr(Objects, "download", download)
    with pytest.raises(ResourceError, match=f"{out} was replaced or removed while it was fetched"):
        pack_to(out, tmp_path / "packed")
    assert json.loads(objects_in(open_objects(out))["manifest.json"])["config"]["add_eos"] is False
    assert pack_to(out, tmp_path / "packed").manifest.counts["rows"]


def test_a_manifest_that_is_damaged_on_its_way_is_not_kept(
    corpus: Path, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(corpus, out)
    real, damaged = Objects.get_range, list[str]()

    def get_range(self: Objects, name: str, first: int, size: int, *, e_tag: str = "") -> bytes:
        data = real(self, name, first, size, e_tag=e_tag)
        if name != "manifest.json" or damaged:
            return data
        damaged.append(name)
        return data.replace(b"1", b"2")

    monkeypatch.setattr(Objects, "get_range", get_range)
    assert pack_to(out, tmp_path / "packed").manifest.counts["rows"]
    assert damaged


def test_pack_reads_from_a_bucket_and_writes_to_one(corpus: Path, out: str, tmp_path: Path) -> None:
    make(corpus, tmp_path / "tokens")
    pack_to(tmp_path / "tokens", tmp_path / "packed")
    make(corpus, out)
    pack_to(out, f"{out}-packed")
    there, here = objects_in(open_objects(f"{out}-packed")), files_in(tmp_path / "packed")
    named = {
        name: data.replace(str(tmp_path / "tokens").encode(), out.encode())
        for name, data in here.items()
    }
    named["manifest.json"] = there["manifest.json"]  # its checksum is of the other name
    assert there == named


def test_inspect_tells_of_a_bucket_what_it_tells_of_a_folder(
    corpus: Path, out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(place: str | Path, **words: Any) -> str:
        inspect_command(str(place), **words)
        return capsys.readouterr().out.replace(str(place), "HERE")

    make(corpus, tmp_path / "tokens")
    make(corpus, out)
    row_places = (f"{out}-packed", tmp_path / "packed")
    for place in row_places:
        pack_to(tmp_path / "tokens", place)
    line = f"{min(corpus.glob('*.jsonl'))}:2"
    asked: tuple[dict[str, Any], ...] = (
        {"row": 1},
        {"doc": line},
        {"fate": "split"},
        {"step": 1, "batch_size": "2"},
    )
    for words in asked:
        there, here = (told(place, **words) for place in row_places)
        assert there == here != ""
    assert told(out, doc=line) == told(tmp_path / "tokens", doc=line)


def test_exports_and_codes_are_made_in_a_bucket_too(corpus: Path, out: str, tmp_path: Path) -> None:
    make(corpus, tmp_path / "tokens")
    pictures = write_pictures(tmp_path / "pictures", 5)
    table = write_table(tmp_path, 9)
    rows = [json.loads(line) for line in table.read_text("utf-8").splitlines()]
    # Whole numbers, then fractions: shards with the former are written again.
    rows = [{**row, "score": i if i < 5 else i + 0.5} for i, row in enumerate(rows)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    places = {"here": (tmp_path / "exported", tmp_path / "codes"), "there": (f"{out}1", f"{out}2")}
    for exported, codes in places.values():
        config = {"dataset": str(tmp_path / "tokens"), "to": "mds", "out": str(exported)}
        encoded = {"inputs": [str(pictures), str(table)], "encoder": "patches", "out": str(codes)}
        with without_processes():
            export(ExportConfig.model_validate(config))
            made = encode(
                EncodeConfig.model_validate({**encoded, "shard_records": 4}),
                cache_dir=Path(os.environ["DATAPREP_CACHE"]),
            )
        assert made.manifest.columns["score"] == "double"
    for here, there in zip(*places.values(), strict=True):
        assert objects_in(open_objects(str(there))) == files_in(Path(here))


def test_a_dry_run_writes_nothing_into_a_bucket(corpus: Path, out: str, tmp_path: Path) -> None:
    with planned(settings(corpus, out), tmp_path) as (_, outcome):
        assert outcome is None
    assert objects_in(open_objects(out)) == {}


def test_a_killed_run_goes_on_on_another_machine(
    corpus: Path,
    local: Mapping[str, bytes],
    out: str,
    s3: S3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(line: Line) -> subprocess.Popen[str]:
        config = settings(corpus, out)
        words = ["--tokenizer", "bytes", "--shard-bytes", "65536", "--workers", "1"]
        return subprocess.Popen(
            [*COMMAND, "tokenize", *(item.path for item in config.inputs), *words, "--out", out],
            env={
                **os.environ,
                **s3.env(line.port, seconds=30),
                "DATAPREP_CACHE": str(tmp_path / "first"),
            },
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
        )

    objects = open_objects(out)
    with s3.line() as line:
        line.delay = 0.1
        process = start(line)
        try:
            for _ in range(1200):
                names = [entry.name for entry in objects.entries()]
                if any(name.endswith(".done") for name in names):
                    break
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.05)
            process.kill()
            _, said = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert process.returncode == -signal.SIGKILL
    assert SECRET not in said
    left = objects_in(objects)
    assert "manifest.json" not in left
    kept = {name for name in left if name.endswith(".done")}
    assert kept
    for data in (*left.values(), *files_in(tmp_path / "first").values()):
        assert SECRET.encode() not in data
        assert KEY.encode() not in data
    seen: list[Mapping[str, Any]] = []
    with machine(tmp_path, "second"):
        make(corpus, out, report=lambda kind, values: seen.append({"kind": kind, **values}))
    (begun,) = [values for values in seen if values["kind"] == "start"]
    assert len(kept) <= begun["tasks_done"] < begun["tasks"], "what it had committed is kept"
    assert objects_in(objects) == local
