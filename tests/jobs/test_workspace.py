"""The lock of an output folder, and the files in its work folder."""

from __future__ import annotations

import errno
import fcntl
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dataprep.pipeline.caches import own_turn
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.jobs.differences import difference
from dataprep.pipeline.jobs.plans import read_plan, write_plan
from dataprep.pipeline.jobs.workspace import check_out, locked


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_refused_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    message = "cannot lock --out .*: no locks; name a folder on a disk with locks"
    with pytest.raises(ConfigError, match=message), locked(tmp_path / "out"):
        pass


def test_an_output_below_a_folder_that_may_not_be_entered_is_refused_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:  # root may enter everything
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_symlink", refuse)
    with pytest.raises(ConfigError, match=r"cannot use --out .*: Permission denied; name another"):
        check_out(str(tmp_path / "closed" / "out"))


def test_an_output_in_the_home_is_there_and_not_in_a_folder_called_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_out("~/data/out") == tmp_path / "data" / "out"


@pytest.mark.parametrize("hold", [locked, own_turn])
def test_a_process_that_was_forked_meanwhile_does_not_keep_a_folder_locked(
    tmp_path: Path, hold: Callable[[Path], AbstractContextManager[None]]
) -> None:
    read, write = os.pipe()
    with hold(tmp_path):
        with warnings.catch_warnings():  # of jax, if other tests have started it
            warnings.simplefilter("ignore", RuntimeWarning)
            child = os.fork()
        if not child:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    with locked(tmp_path):
        pass
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_of_another_kind_only_the_kind_is_told() -> None:
    tokenized = {"kind": "tokenized", "config": {"fields": "text"}, "tokenizer": {"bos": 1}}
    packed = {"kind": "packed", "config": {"seq_len": 8, "strategy": "pad"}, "sources": ["a"]}
    assert difference(tokenized, packed, ["a"]) == "tokenized -> packed"


def test_what_is_set_for_an_input_or_a_chat_is_named() -> None:
    def identity(fields: str, template: str) -> dict[str, Any]:
        ways = [{"fields": "text"}, {"fields": fields}]
        chats = [None, {"templates": {"default": template}, "stop": []}]
        read_as = [[0, 1], [1, 1]]
        return {"sources": ["a", "b"], "ways": ways, "read_as": read_as, "chats": chats}

    old, names = identity("text", "1f0c" * 16), ["a.jsonl", "b.jsonl"]
    assert difference(old, identity("body", "1f0c" * 16), names) == (
        "for input b.jsonl fields: 'text' -> 'body'"
    )
    assert difference(old, identity("text", "99aa" * 16), names) == (
        f"chat templates.default: {'1f0c' * 4}1f0… -> {'99aa' * 4}99a…"
    )


def test_a_plan_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    write_plan(tmp_path, [1, 2])
    first = (tmp_path / "plan.json").stat().st_ino
    write_plan(tmp_path, [1, 2])
    assert (tmp_path / "plan.json").stat().st_ino == first
    (tmp_path / "plan.json").write_bytes(b"[1,2]\ndamaged")
    for plan in ([1, 2], [1, 2, 3]):
        write_plan(tmp_path, plan)
        assert read_plan(tmp_path, list[int]) == plan


def test_an_out_whose_name_is_not_utf8_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"the name of --out '/tmp/caf\\udce9' is not UTF-8"):
        check_out("/tmp/caf\udce9")


def test_an_out_too_deep_for_its_files_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be made itself; paths of its files would be too long."""
    most = os.pathconf("/", "PC_PATH_MAX")
    deep = tmp_path
    while len(str(deep)) < most - 220:
        deep /= "x" * 100
    deep /= "x" * (most - 60 - len(str(deep)))
    deep.mkdir(parents=True)
    with pytest.raises(ConfigError, match="File name too long; name another"):
        check_out(str(deep))
    monkeypatch.chdir(deep)
    with pytest.raises(ConfigError, match="File name too long; name another"):
        check_out("out")
    assert not list(deep.iterdir())
