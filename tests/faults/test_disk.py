"""Rows 7, 8, 11, 12, 45, 46: full, failing and read-only disks, too few descriptors, stores."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import RunCli
from support.calls import fail_calls
from support.forks import ForkServer
from support.installed import COMMAND
from support.jobs import Job
from support.straced import CALLS, inject, needs_strace

COMMANDS = ("tokenize", "pack", "encode", "export")
EXPORTS = ("export to mds", "export to hf", "export to maxtext")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting needs root"
)


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *words, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@needs_root
@pytest.mark.parametrize("share", [0.2, 0.7])
@pytest.mark.parametrize("name", COMMANDS)
def test_7_a_full_disk_exits_6_and_the_run_goes_on_when_there_is_room(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path, name: str, share: float
) -> None:
    job = jobs[name]
    size = int(sum(map(len, job.clean.values())) * share) // 4096 * 4096
    options = f"size={size}"
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", options, "tmpfs") as disk:
        ended = server.run(job.command(disk / "out", 2))
        assert ended.code == 6, ended.stderr
        assert "Traceback" not in ended.stderr
        assert "No space left" in ended.stderr or "run the same command again" in ended.stderr
        assert not (disk / "out" / "manifest.json").exists()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        again = server.run(job.command(disk / "out", 1))
        assert (again.code, job.verdict(disk / "out")) == (0, "equal"), again.stderr


@needs_strace
@pytest.mark.parametrize("name", COMMANDS)
def test_8_a_failed_fsync_exits_6_and_is_not_tried_again(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    job, log = small_jobs[name], tmp_path / "log"
    for n in (1, 3, 6):
        out = tmp_path / f"out-{n}"
        done = inject(server, job.command(out, 1), "fsync", "error=EIO", n, log)
        assert done.hits, "the fault did not fire"
        assert done.ended.code == 6, done.ended.stderr
        assert "Input/output error" in done.ended.stderr
        # Nobody asks again for the same file: what could not be written is gone by then.
        lines = log.read_text().splitlines()
        (first, *_) = (i for i, line in enumerate(lines) if "(INJECTED)" in line)
        later = [line for line in lines[first + 1 :] if f"<{done.hits[0].path}>" in line]
        assert later == []
        again = server.run(job.command(out, 2))
        assert (again.code, job.verdict(out)) == (0, "equal"), again.stderr


@needs_strace
@pytest.mark.parametrize(
    ("call", "error"),
    [("rename", "EIO"), ("unlink", "EIO"), ("write", "ENOSPC"), ("openat", "EIO")],
)
def test_8_a_failed_call_ends_in_order_and_the_run_goes_on(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, call: str, error: str
) -> None:
    fired, wrong = fail_calls(server, small_jobs["pack"], call, error, tmp_path, range(2, 21, 6))
    assert wrong == []
    assert fired >= 1


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", [*COMMANDS, *EXPORTS])
def test_8_every_failed_call_ends_in_order_and_the_run_goes_on(
    server: ForkServer,
    every_small_job: Mapping[str, Job],
    tmp_path: Path,
    name: str,
    call: str,
    error: str,
) -> None:
    fired, wrong = fail_calls(server, every_small_job[name], call, error, tmp_path, range(1, 200))
    assert wrong == []
    assert fired >= 3


@needs_root
@pytest.mark.parametrize("name", COMMANDS)
def test_11_a_read_only_disk_is_refused_before_any_work(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    place = tmp_path / "place"
    (place / "there").mkdir(parents=True)
    with mounted(place, "--bind", str(place)) as disk:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=True)
        with pytest.raises(OSError, match="Read-only"):  # the control
            (disk / "x").touch()
        for out in (disk / "new", disk / "there"):
            ended = server.run(jobs[name].command(out, 1))
            assert ended.code == 2, ended.stderr
            assert str(out) in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_11_a_folder_without_permission_is_refused(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert server.run(jobs["tokenize"].command(tmp_path / "closed", 1)).code == 2


@pytest.mark.parametrize("most", [10, 16, 28])
def test_12_too_few_descriptors_exit_6_in_clear_text(
    run_cli: RunCli, jobs: Mapping[str, Job], tmp_path: Path, most: int
) -> None:
    job, out = jobs["tokenize"], tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = ["bash", "-c", f'ulimit -n {most}; exec "$@"', "-"]
    ended = subprocess.run(
        [*command, *COMMAND, *job.command(out, 2)], capture_output=True, text=True, timeout=60
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    assert "Traceback" not in ended.stderr
    # With 28 all may go well: the fault must fire where there are fewer.
    assert ended.returncode == 6 or (most > 20 and not ended.returncode), ended.stderr
    if ended.returncode:
        assert "Too many open files" in ended.stderr
    run_cli(*job.command(out, 2))
    assert job.verdict(out) == "equal"


@pytest.mark.parametrize(
    ("name", "scheme", "said"),
    [
        ("tokenize", "s3", "credentials of object stores are read from the environment only"),
        ("pack", "gs", "credentials of object stores are read from the environment only"),
        ("encode", "memory", "must be a local folder"),
    ],
)
def test_45_an_output_in_a_store_with_keys_or_without_buckets_is_refused_before_any_work(
    server: ForkServer,
    small_jobs: Mapping[str, Job],
    tmp_path: Path,
    name: str,
    scheme: str,
    said: str,
) -> None:
    """Where a rename is a copy and no folder can be locked, only conditional puts are safe."""
    words = [*small_jobs[name].words, "--out", f"{scheme}://KEY:SECRETKEY@bucket/out"]
    ended = server.run(words, cwd=tmp_path)
    assert ended.code == 2, ended.stderr
    assert said in ended.stderr
    assert "SECRETKEY" not in ended.stderr
    assert not list(tmp_path.iterdir())
