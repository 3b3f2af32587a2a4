"""What planning takes and holds: the section `plan` of bench_scale.

Many small files, and many tasks of a few huge ones; half as many, too, which should take half as
long. Each is planned in a process of its own, so that its peak of memory is its own. The files are
tokenized, too, and another process reads the dataset.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.files import sealed
from dataprep.pipeline.jobs.commits import Cursor, marker_file, stem_of, trusted_markers
from dataprep.pipeline.jobs.plans import TaskPlans, read_plan
from dataprep.pipeline.jobs.stored import TASKS
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.storage.manifest import read_manifest
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.tokenize.plan import FoundSources, TokenizePlan
from dataprep.pipeline.tokenize.recipe import plan_of, tokenize
from dataprep.pipeline.tokenize.sink import FILES, DocumentsMarker, Tally
from dataprep.pipeline.tokenize.told import TaskPlan, write_whole_plan
from dataprep.pipeline.types import Source

FILES_OF_A_FOLDER = 10_000
MADE = "made"  # the dataset of the files
HUGE_BYTES = 1 << 40  # of each source that is cut into many tasks
MARKER = DocumentsMarker(
    record_bytes=[1 << 20] * 64,
    num_documents=1000,
    num_records=1000,
    num_tokens=1 << 25,
    tallies={"0": Tally(records=1000)},
    examples=[],
    optional={},
    lines={"0": 1000},
    files={},
    cursor=Cursor(),
    final=True,
)


@contextmanager
def timed(name: str) -> Iterator[None]:
    before, began = _cpu_seconds(), time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = _cpu_seconds() - before
    wall = time.perf_counter() - began
    print(f"{name:44}{seconds:8.2f} CPU s{wall:9.2f} s{peak:8.0f} MB at most", flush=True)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def bench(folder: str | None, num_files: int, num_tasks: int) -> None:
    """Print what planning so many files, and so many tasks, takes."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        for steps, most in ((("files", "read"), num_files), (("tasks",), num_tasks)):
            for count in (most // 2, most):
                for what in steps:
                    words = [sys.executable, __file__, what, str(count), name]
                    subprocess.run(words, check=True)


def plan_files(given: argparse.Namespace) -> None:
    """Plan many small files, twice: the second time their hashes are known."""
    top = given.folder / "many"
    for i in range(given.count):
        place = top / f"{i // FILES_OF_A_FOLDER:05d}"
        if i % FILES_OF_A_FOLDER == 0:
            place.mkdir(parents=True, exist_ok=True)
        with open(place / f"{i:08d}.jsonl", "w", encoding="ascii") as file:
            file.write(f'{{"text": "number {i} of many"}}\n')
    time.sleep(2)  # files that were written just now are hashed each time
    config = _config(inputs=[str(top)])
    for again in ("", " again"):
        with timed(f"plan {given.count:,} files{again}"):
            made = plan_of(config, given.folder / "cache")
    _worker(made, given.folder, f"{given.count:,} files")
    del made
    own = config.model_copy(update={"out": str(given.folder / MADE), "workers": 1})
    with timed(f"tokenize {given.count:,} files, plan to manifest"):
        tokenize(own, cache_dir=given.folder / "cache")
    shutil.rmtree(top)


def read_dataset(given: argparse.Namespace) -> None:
    """Read the dataset of many files, as a trainer does, whoever asks for a source, and verify."""
    out = given.folder / MADE
    with timed(f"open a dataset of {given.count:,} files"):
        open_dataset(out)[0]
    manifest = read_manifest(out)
    with timed("find one of its sources"):
        read_sources(out, manifest)[-1]
    with timed("read all its sources"):
        assert sum(1 for _ in read_sources(out, manifest)) == given.count
    with timed("verify it"):
        verify(out)
    shutil.rmtree(out)


def plan_tasks(given: argparse.Namespace) -> None:
    """Plan many tasks, of files without blocks on the disk: their sizes are what is cut."""
    config = _config(inputs=["huge.jsonl"])
    each = HUGE_BYTES // (config.shard_bytes // 2)
    places = [given.folder / f"{i}.jsonl" for i in range(-(-given.count // each))]
    for place in places:
        place.touch()
        os.truncate(place, HUGE_BYTES)
    sources = tuple(
        Source(kind="jsonl", path=str(p), num_bytes=HUGE_BYTES, fingerprint=f"xxh3-128:{i:032x}")
        for i, p in enumerate(places)
    )
    found = FoundSources(sources=sources, inputs=(0,) * len(sources))
    with timed(f"plan {given.count:,} tasks"):
        made = plan_of(config, given.folder / "cache", found=found)
    _worker(made, given.folder, f"{len(made.tasks):,} tasks")
    _markers(made, given.folder)
    for place in places:
        place.unlink()


def _worker(made: TokenizePlan, folder: Path, what: str) -> None:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    with timed(f"write the plan of {what}"):
        write_whole_plan(work, made)
    with timed(f"a worker of {what} reads it and a task"):
        read_plan(work, TokenizePlan)
        TaskPlans(work, TaskPlan)[len(made.tasks) // 2]
    shutil.rmtree(work)


def _markers(made: TokenizePlan, folder: Path) -> None:
    """Read the markers of all tasks, as a run does that is continued, and as one that is new."""
    work = folder / "work"
    (work / TASKS).mkdir(parents=True)
    stems = [stem_of(work, task_name(task)) for task in made.tasks]
    with timed(f"look for markers of {len(stems):,} tasks"):
        assert len(trusted_markers(stems, DocumentsMarker, FILES).left()) == len(stems)
    for stem in stems:
        marker_file(stem, 0).write_bytes(sealed(msgspec.json.encode(MARKER)))
    with timed(f"read the markers of {len(stems):,} tasks"):
        assert not trusted_markers(stems, DocumentsMarker, FILES).left()
    shutil.rmtree(work)


def _config(**settings: object) -> TokenizeConfig:
    return TokenizeConfig.model_validate({"tokenizer": "bytes", "out": "out", **settings})


def main() -> None:
    parser = argparse.ArgumentParser(description="A process of bench_scale.")
    parser.add_argument("what", choices=["files", "read", "tasks"])
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    os.nice(5)
    {"files": plan_files, "read": read_dataset, "tasks": plan_tasks}[given.what](given)


if __name__ == "__main__":
    main()
