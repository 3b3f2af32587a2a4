"""What a program asks of the disk, recorded by strace, in order.

    open .work/plan.json.tmp   write .work/plan.json.tmp {"tasks"…   sync .work/plan.json.tmp
    rename .work/plan.json.tmp .work/plan.json                       sync .work

Calls on files below one folder, with all the bytes that were written. Calls that `power` could not
replay (links, copies within the kernel) fail the recording rather than be left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TRACED = (
    *("openat", "open", "creat", "write", "pwrite64", "writev", "lseek", "ftruncate", "truncate"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat"),
    *("fsync", "fdatasync", "link", "linkat", "symlink", "symlinkat"),
    *("fallocate", "copy_file_range", "sendfile"),
)
NOT_REPLAYED = {"link", "linkat", "symlink", "symlinkat", "fallocate", "copy_file_range"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One system call that succeeded, on files below the recorded folder."""

    name: str
    paths: tuple[str, ...]  # relative to the folder; '' is the folder itself
    data: bytes = b""
    number: int = 0  # a position, or a length
    descriptor: int = -1
    flags: str = ""


# --- recording ---


def record(words: Sequence[str], root: Path, log: Path) -> list[Call]:
    """Run a program under strace; return what it did to files below `root`, in order."""
    strace = shutil.which("strace")
    assert strace
    done = subprocess.run(
        [
            *(strace, "-f", "-y", "--seccomp-bpf", "-s", str(1 << 28), "-o", str(log)),
            *("-e", f"trace={','.join(TRACED)}", "-e", "signal=none", *words),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return calls_in(log.read_text("utf-8", "surrogateescape").splitlines(), root.resolve())


def record_command(words: Sequence[str], root: Path, log: Path) -> list[Call]:
    return record([sys.executable, "-m", "dataprep.cli.main", *words], root, log)


def calls_in(lines: Iterable[str], root: Path) -> list[Call]:
    calls = []
    begun: dict[str, str] = {}
    for line in lines:
        process, _, text = line.partition(" ")
        text = text.lstrip()
        if text.endswith("<unfinished ...>"):
            begun[process] = text.removesuffix("<unfinished ...>")
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>", text):
            text = begun.pop(process) + text[resumed.end() :]
        call = _call(text, str(root))
        if call is not None:
            calls.append(call)
    return calls


def _call(text: str, root: str) -> Call | None:
    """Return the call of a line, or None if it failed or is about other files."""
    match = re.match(r"(\w+)\((.*)\) += (\d+)(?:<([^<>]*)>)?", text, re.DOTALL)
    if match is None or root not in text:
        return None
    name, arguments, result, of_result = match.groups()
    strings = [_text(s) for s in re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)]
    annotated = re.findall(r"(\d+|AT_FDCWD)<([^<>]*)>", arguments)
    if name in ("openat", "open", "creat"):
        flags = arguments if name != "creat" else "O_CREAT|O_TRUNC"
        paths, data, number = [of_result], b"", 0
        if not re.search("O_CREAT|O_TRUNC|O_RDWR|O_WRONLY", flags):
            return None
    elif name in ("write", "pwrite64", "writev"):
        paths, flags = [annotated[0][1]], ""
        data = b"".join(strings)[: int(result)]
        assert len(data) == int(result), "strace cut the data short"
        number = int(arguments.rpartition(",")[2]) if name == "pwrite64" else -1
    elif name in ("ftruncate", "truncate", "lseek"):
        paths = [annotated[0][1] if annotated else strings[0].decode()]
        data, flags = b"", ""
        number = int(result) if name == "lseek" else int(arguments.rpartition(",")[2])
    elif name in ("fsync", "fdatasync"):
        paths, data, number, flags = [annotated[0][1]], b"", 0, ""
    else:
        folders = [path for _, path in annotated] or [""] * len(strings)
        named = [s.decode() for s in strings]
        paths = [os.path.join(f, n) for f, n in zip(folders, named, strict=False)]
        data, number, flags = b"", 0, arguments.rpartition('"')[2]
    inside = [os.path.relpath(p, root) for p in paths if p == root or p.startswith(f"{root}/")]
    if not inside:
        return None
    assert len(inside) == len(paths), f"{name} leads out of {root}: {paths}"
    assert name not in NOT_REPLAYED, f"{name} is not replayed: {text[:200]}"
    owner = annotated[0][0] if annotated else ""
    descriptor = int(result) if of_result else int(owner) if owner.isdigit() else -1
    return Call(
        name=_KINDS.get(name, name),
        paths=tuple("" if p == "." else p for p in inside),
        data=data,
        number=number,
        descriptor=descriptor,
        flags=flags,
    )


_KINDS = {
    **dict.fromkeys(("openat", "open", "creat"), "open"),
    **dict.fromkeys(("pwrite64", "writev", "write"), "write"),
    **dict.fromkeys(("ftruncate", "truncate"), "truncate"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), "remove"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("fsync", "fdatasync"), "sync"),
}


def _text(quoted: str) -> bytes:
    """Undo strace's escapes, which are those of C."""
    return quoted.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")
