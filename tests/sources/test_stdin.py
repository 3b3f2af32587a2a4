"""`-`: JSONL from stdin, kept in a temporary file while the run lasts."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import COMMAND, PLAIN, RunCli
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.sources import find_sources, spooled
from support.trees import tree

LINES = b"".join(json.dumps({"text": f"line {i}"}).encode() + b"\n" for i in range(500))


@pytest.fixture
def spools(tmp_path: Path) -> Path:
    (tmp_path / "spools").mkdir()
    return tmp_path / "spools"


def piped(
    data: bytes, spools: Path, *words: object, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, "tokenize", *map(str, words), "--tokenizer", "bytes"],
        input=data,
        capture_output=True,
        env={**os.environ, **PLAIN, "TMPDIR": str(spools)},
        cwd=cwd,
        timeout=120,
        check=False,
    )


@contextmanager
def stdin_of(data: bytes) -> Iterator[None]:
    """Have this process read these bytes, of which a pipe must hold all."""
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    before = os.dup(0)
    os.dup2(read, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read)


def test_stdin_gives_the_dataset_of_a_file_with_the_same_bytes(
    run_cli: RunCli, tmp_path: Path, spools: Path
) -> None:
    (tmp_path / "in.jsonl").write_bytes(LINES)
    run_cli("tokenize", "in.jsonl", "--tokenizer", "bytes", "--out", "file")
    for out in ("a", "b"):
        done = piped(LINES, spools, "-", "--out", tmp_path / out)
        assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert b"dataprep-stdin" not in (tmp_path / "a" / "manifest.json").read_bytes()
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_bytes())
    of_file = json.loads((tmp_path / "file" / "manifest.json").read_bytes())
    assert manifest["sources"][0]["path"] == "-"
    assert manifest["fingerprint"] == of_file["fingerprint"]
    assert manifest["shards"] == of_file["shards"]
    again = piped(LINES, spools, "-", "--out", tmp_path / "a")
    assert b"nothing to do" in again.stdout
    other = piped(LINES + LINES, spools, "-", "--out", tmp_path / "a")
    assert other.returncode == 4
    assert b"input - changed" in other.stderr
    asked = run_cli("stats", "a", "--by", "text", check=False)
    assert (asked.code, "stdin, which cannot be read again" in asked.stderr) == (3, True)
    assert "restore" not in asked.stderr
    assert os.listdir(spools) == []


def test_a_config_file_may_name_stdin_and_a_dry_run_reads_it_and_writes_nothing(
    tmp_path: Path, spools: Path
) -> None:
    (tmp_path / "c.yaml").write_text('inputs: ["-"]\nout: out\n')
    words = ("--config", tmp_path / "c.yaml", "--dry-run", "--json")
    done = piped(LINES, spools, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["sources"] == [{"path": "-", "kind": "jsonl", "bytes": len(LINES)}]
    assert sorted(os.listdir(tmp_path)) == ["c.yaml", "spools"]
    assert os.listdir(spools) == []


@pytest.fixture
def started(tmp_path: Path, spools: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run that waits for the rest of its input."""
    words = [*COMMAND, "tokenize", "-", "--tokenizer", "bytes", "--out", str(tmp_path / "out")]
    environment = {**os.environ, **PLAIN, "TMPDIR": str(spools)}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as run:
        assert run.stdin is not None
        run.stdin.write(LINES)
        run.stdin.flush()
        # By its ending: Python first tries whether it can write here, and removes that file.
        while not any(path.stat().st_size for path in spools.glob("*.jsonl")):
            assert run.poll() is None
            time.sleep(0.01)
        yield run
        run.kill()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_leaves_no_file(
    started: subprocess.Popen[bytes], spools: Path, sent: int, code: int
) -> None:
    started.send_signal(sent)
    assert started.wait(60) == code
    assert os.listdir(spools) == []


def test_the_file_of_a_killed_run_is_removed_by_a_later_one_and_no_other(
    started: subprocess.Popen[bytes], spools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_later() -> None:
        with stdin_of(LINES[:100]), spooled(["-"]):
            pass

    monkeypatch.setattr("tempfile.tempdir", str(spools))
    (left,) = spools.iterdir()
    os.utime(left, (0, 0))
    run_later()
    assert left.exists()  # its run lives
    started.kill()
    started.wait(60)
    os.utime(left, None)
    run_later()
    assert left.exists()  # so young that its run may be about to lock it
    os.utime(left, (0, 0))
    run_later()
    assert os.listdir(spools) == []


def test_a_bad_line_is_named_and_its_run_is_continued_by_the_same_bytes(
    tmp_path: Path, spools: Path
) -> None:
    """A bad line ends the first run after a task is done; the second may leave it out."""
    long = b"".join(json.dumps({"text": f"{i}" * 400}).encode() + b"\n" for i in range(4000))
    data = long + b"{bad\n"
    words = ("-", "--out", tmp_path / "out", "--workers", "1")
    done = piped(data, spools, *words)
    assert done.returncode == 3
    assert f"line 4001 of - (byte {len(long)})".encode() in done.stderr
    assert os.listdir(spools) == []
    tasks = tmp_path / "out" / ".work" / "tasks"
    before = {path.name: path.stat().st_mtime_ns for path in tasks.glob("*.arrayrecord")}
    assert before
    assert piped(data, spools, *words, "--on-error", "skip").returncode == 0
    assert piped(data, spools, "-", "--out", tmp_path / "new", "--on-error", "skip").returncode == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "new")
    shards = (tmp_path / "out" / "shards").iterdir()
    assert set(before.values()) <= {path.stat().st_mtime_ns for path in shards}


def test_stdin_is_given_once_and_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="given twice"), spooled(["-", "a.jsonl", "-"]):
        pass
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    with pytest.raises(ConfigError, match=r"stdin .* is a terminal"), spooled(["-"]):
        pass
    with pytest.raises(InputError, match="only tokenize reads stdin"):
        find_sources("-")
    (tmp_path / "-").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"cannot tell what .*/- is by its ending"):
        find_sources("./-")


def test_a_full_disk_says_how_to_use_another(tmp_path: Path, spools: Path) -> None:
    """A limit on the size of files stands for the disk."""
    words = ["tokenize", "-", "--tokenizer", "bytes", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *COMMAND, *words],
        input=LINES * 10,
        capture_output=True,
        env={**os.environ, **PLAIN, "TMPDIR": str(spools)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 6, done.stderr
    assert b"set TMPDIR to a folder with room" in done.stderr
    assert os.listdir(spools) == []


def test_a_lock_is_held_while_the_bytes_are_kept(
    monkeypatch: pytest.MonkeyPatch, spools: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(spools))
    with stdin_of(LINES[:1000]), spooled(["-"]) as spools_by_name:
        spool = spools_by_name["-"]
        assert Path(spool.path).read_bytes() == LINES[:1000]
        with open(spool.path, "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert os.listdir(spools) == []


def test_no_fifo_of_anybody_is_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / f"dataprep-stdin-{os.getuid()}-x.jsonl"
    os.mkfifo(fifo)
    words = ["tokenize", "-", "--tokenizer", "bytes", "--out", str(tmp_path / "out"), "--dry-run"]
    done = subprocess.run(
        [*COMMAND, *words],
        input='{"text": "a"}\n',
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert fifo.exists()


def test_a_closed_stdin_is_a_mistake_and_not_an_empty_one(tmp_path: Path) -> None:
    words = ["tokenize", "-", "--tokenizer", "bytes", "--allow-empty", "--out", str(tmp_path / "o")]
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, *words]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "stdin (-) is closed" in done.stderr


def test_the_device_of_stdin_leads_to_the_input_that_reads_it() -> None:
    with pytest.raises(InputError, match=r"^/dev/stdin is stdin, which the input - reads"):
        find_sources("/dev/stdin")
