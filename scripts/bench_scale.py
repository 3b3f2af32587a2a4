"""What many machines and buckets cost: one section a figure.

    python scripts/bench_scale.py upload [--megabytes 64] [--files 6] [--rounds 3]
    python scripts/bench_scale.py jobs [--jobs 1000] [--rounds 3]
    python scripts/bench_scale.py ray [--megabytes 400] [--rounds 3]
    python scripts/bench_scale.py plan [--small-files 100000] [--tasks 100000]

plan     Plans of many small files and of many tasks, what a worker reads of them, and markers; the
         dataset of the files, made and read: CPU seconds, seconds by the clock and the peak of
         memory (`plan_scale`).
upload   Shards of a run, uploaded as its workers do (whole, with hash and marker: `jobs.stored`),
         beside obstore's own put of the same files, round by round, on moto. "of obstore" is how
         much of its speed ours has, by the clock and by the CPU seconds of the client; the least of
         all rounds counts. The server is on this machine, so this is what the client costs, not
         what a network does.
jobs     Jobs that do nothing, by two workers: of this machine, of a cluster of Ray that is started
         here (its start is told apart), and of two elements of a task array side by side.
         Milliseconds a job by the clock, the least of all rounds, the start of workers included.
ray      Texts of random words, of which two files are never the same, tokenized to bytes by two
         workers of Ray and by two of this machine, in turns; "of local" is how much of the speed is
         left, without the start of the cluster.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import plan_scale

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.files import Written, written_at
from dataprep.pipeline.jobs.cluster import connected, run_on_cluster
from dataprep.pipeline.jobs.shares import JobShare
from dataprep.pipeline.jobs.stored import StoredWork
from dataprep.pipeline.storage.objects import open_objects
from dataprep.pipeline.tokenize import tokenize
from support.jobs import write_corpus
from support.stores import s3_server
from support.toy_worker import act_out


def upload(options: argparse.Namespace) -> None:
    """Print how fast shards are uploaded, beside obstore's own put."""
    import obstore
    from obstore.store import from_url

    print("store     what                    MB/s (clock)   CPU s   of obstore: clock   CPU")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, s3_server() as server:
        files = dict(_new_files(Path(folder), options.files, options.megabytes << 20))
        os.environ.update(server.env(seconds=60))
        server.make_bucket("bench")
        url = "s3://bench/uploads"
        store = from_url(url, client_options={"allow_http": True})
        stored = StoredWork(objects=open_objects(url), run="0" * 16)

        def by_obstore() -> None:
            for path in files:
                obstore.put(store, f"plain/{path.name}", path)

        def by_workers() -> None:
            for path, file in files.items():
                stored.commit(path.with_suffix(".done"), b"{}", {path: file})

        ways = {"obstore.put": by_obstore, "commit of workers": by_workers}
        best = _best_of(ways, options.rounds)
    size = sum(file.num_bytes for file in files.values()) / 1e6
    wall, cpu = best["obstore.put"]
    for name, (seconds, used) in best.items():
        print(
            f"moto      {name:22} {size / seconds:13.0f} {used:7.2f} {wall / seconds:17.0%} "
            f"{cpu / used:6.0%}"
        )


def jobs(options: argparse.Namespace) -> None:
    """Print what a job costs that does nothing."""
    acts = {job: ["quiet"] for job in range(options.jobs)}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        begun = time.monotonic()
        with connected("local", 2):
            start = time.monotonic() - begun

            def element(number: int) -> None:
                own = JobShare(number=number, count=2).of([1] * len(acts))
                work = Path(folder) / str(number)
                act_out(work, {job: acts[job] for job in own}, sizes=[1] * len(acts))

            def by_elements() -> None:
                threads = [threading.Thread(target=element, args=[number]) for number in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            place = Path(folder) / "all"
            ways: dict[str, Callable[[], None]] = {
                "local": lambda: act_out(place, acts, num_workers=2),
                "ray": lambda: act_out(place, acts, num_workers=2, run=run_on_cluster),
                "array": by_elements,
            }
            best = _best_of(ways, options.rounds)
    print(f"{options.jobs} jobs by two workers; Ray itself took {start:.1f} s to start")
    print("executor    ms a job (clock)   CPU ms a job, of the driver")
    for name, (seconds, used) in best.items():
        each = 1000 / options.jobs
        print(f"{name:11} {seconds * each:16.2f} {used * each:29.2f}")


def ray(options: argparse.Namespace) -> None:
    """Print how much of the speed of two local workers two of Ray have."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, connected("local", 2):
        inputs = write_corpus(Path(folder) / "in", files=options.megabytes, lines=2500)
        size = sum(path.stat().st_size for path in inputs) / 1e6

        def made(executor: str) -> None:
            values = {"inputs": [*map(str, inputs)], "tokenizer": "bytes", "workers": 2}
            values |= {"out": f"{folder}/out", "executor": executor}
            tokenize(TokenizeConfig.model_validate(values), cache_dir=Path(folder) / "cache")
            shutil.rmtree(f"{folder}/out")

        ways = {name: lambda name=name: made(name) for name in ("local", "ray")}
        best = _best_of(ways, options.rounds)
    print(f"{size:.0f} MB of random words, two workers\nexecutor   MB/s (clock)   of local")
    for name, (seconds, _) in best.items():
        print(f"{name:10} {size / seconds:12.1f} {best['local'][0] / seconds:10.0%}")


def _new_files(folder: Path, count: int, size: int) -> Iterator[tuple[Path, Written]]:
    for number in range(count):
        path = folder / f"{number:06d}-0000.arrayrecord"
        path.write_bytes(os.urandom(size))
        yield path, written_at(path)


def _best_of(ways: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the least seconds by the clock and of CPU that each takes, taken in turns."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            begun, used = time.monotonic(), _cpu()
            way()
            cost = time.monotonic() - begun, _cpu() - used
            best[name] = tuple(map(min, cost, best.get(name, cost)))  # type: ignore[assignment]
    return best


def _cpu() -> float:
    """Return the CPU seconds of this process: servers are others."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def plan(options: argparse.Namespace) -> None:
    plan_scale.bench(options.folder, options.small_files, options.tasks)


SECTIONS = {"plan": plan, "upload": upload, "jobs": jobs, "ray": ray}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--megabytes", type=int, help="upload: of each file; ray: of all")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small-files", type=int, default=100_000, help="to plan")
    parser.add_argument("--tasks", type=int, default=100_000, help="to plan")
    parser.add_argument("--folder", help="for the files; default: the system's for temporary files")
    options = parser.parse_args()
    options.megabytes = options.megabytes or (400 if options.section == "ray" else 64)
    SECTIONS[options.section](options)


if __name__ == "__main__":
    main()
