"""A work folder deserves no more trust than a dataset: what is damaged is done again."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import RunCli
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.jobs import ownership
from dataprep.pipeline.tokenize import tokenize
from support.encoding import png
from support.inprocess import write_lines
from support.installed import COMMAND
from support.trees import tree


def flipped(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flipped,
    "emptied": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "deleted": lambda data: None,
}


def make(out: Path, corpus: Path, shard_bytes: int) -> None:
    values = {"inputs": [str(corpus)], "tokenizer": "bytes", "shard_bytes": shard_bytes}
    config = TokenizeConfig.model_validate({**values, "out": str(out)})
    tokenize(config, cache_dir=out.parent / "cache")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


def words_of(command: str, place: Path, out: Path) -> list[str]:
    if command == "tokenize":
        words = [str(place / "in.jsonl"), "--tokenizer", "bytes", "--shard-bytes", "65536"]
    elif command == "pack":
        words = [str(place / "tokenized"), "--seq-len", "128", "--shard-rows", "300"]
    else:
        words = [str(place / "pictures"), "--encoder", "patches", "--shard-records", "6"]
    return [command, *words, "--out", str(out), "--workers", "2", "-q"]


@pytest.fixture(scope="module")
def interrupted(place: Path) -> Callable[[str], Path]:
    """Return the folder that a killed run of a command left, with some of its shards committed."""
    rng = random.Random(0)
    lines = [{"text": "".join(rng.choices("abcdefgh ", k=400))} for _ in range(2500)]
    write_lines(place / "in.jsonl", lines)
    make(place / "tokenized", place / "in.jsonl", 1 << 20)
    (place / "pictures").mkdir()
    for i in range(60):
        (place / "pictures" / f"{i:02}.png").write_bytes(png(i))
    found: dict[str, Path] = {}

    def leave(command: str) -> Path:
        if command in found:
            return found[command]
        out = place / f"{command}-interrupted"
        for _ in range(20):
            shutil.rmtree(out, ignore_errors=True)
            words = [*COMMAND, *words_of(command, place, out)]
            process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
            tasks = out / ".work" / "tasks"
            while process.poll() is None and len(list(tasks.glob("*.done"))) < 2:
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (out / ".work").is_dir() and not (out / "manifest.json").exists():
                time.sleep(0.2)  # its workers die with it, not before it
                found[command] = out
                return out
        raise AssertionError("the run always ended before it could be killed")

    return leave


@pytest.fixture(scope="module")
def clean(place: Path, interrupted: Callable[[str], Path]) -> Callable[[str], dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}

    def make(command: str) -> dict[str, bytes]:
        if command not in found:
            interrupted(command)  # it makes the inputs
            out = place / f"{command}-clean"
            subprocess.run([*COMMAND, *words_of(command, place, out)], check=True)
            found[command] = tree(out)
        return found[command]

    return make


@pytest.mark.parametrize(
    "damage",
    [
        "flipped",
        *(pytest.param(name, marks=pytest.mark.slow) for name in DAMAGES if name != "flipped"),
    ],
)
@pytest.mark.parametrize(
    "command",
    ["tokenize", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pack", "encode"))],
)
def test_a_damaged_file_of_the_work_folder_never_gives_other_bytes(
    run_cli: RunCli,
    place: Path,
    tmp_path: Path,
    interrupted: Callable[[str], Path],
    clean: Callable[[str], dict[str, bytes]],
    command: str,
    damage: str,
) -> None:
    left = interrupted(command)
    kinds = {}  # one file of each kind
    for path in sorted((left / ".work").rglob("*")):
        if path.is_file() and not path.name.endswith(".tmp") and path.stat().st_size:
            name = path.relative_to(left)
            kinds[re.sub(r"[0-9a-f]{16}|\d+", "", str(name))] = name
    assert len(kinds) >= 4
    for name in kinds.values():
        out = tmp_path / name.name
        shutil.copytree(left, out)
        data = DAMAGES[damage]((out / name).read_bytes())
        if data is None:
            (out / name).unlink()
        else:
            (out / name).write_bytes(data)
        done = run_cli(*words_of(command, place, out), check=False)
        assert "Traceback" not in done.stderr
        if name.name == ownership.MARK:
            assert done.code in (2, 5)
            continue
        assert done.code == 0, f"{name}: {done.stderr}"
        assert tree(out) == clean(command), name


def test_a_run_that_is_killed_while_it_publishes_goes_on_wherever_it_was(
    place: Path,
    tmp_path: Path,
    interrupted: Callable[[str], Path],
    clean: Callable[[str], dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupted("tokenize")
    replace = os.replace
    for number, loses_a_file in ((0, False), (1, False), (7, False), (7, True)):
        out = tmp_path / f"out{number}{loses_a_file}"
        left = [number]

        def stop(source: Path, target: Path, left: list[int] = left, out: Path = out) -> None:
            if Path(target).parent.parent == out and ".work" not in str(target):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stop)
            with pytest.raises(KeyboardInterrupt):
                make(out, place / "in.jsonl", 65536)
        moved = list((out / "shards").iterdir())
        assert len(moved) == (number + 2) // 3  # a shard, its index and its provenance
        if loses_a_file:  # its task is done again
            moved[0].unlink()
        make(out, place / "in.jsonl", 65536)
        assert tree(out) == clean("tokenize")
