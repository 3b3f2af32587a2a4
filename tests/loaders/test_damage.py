"""Damage is an error before a batch made from it is handed out; it never ends the process."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import DataLoader, open_dataset, whole
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.storage import checked
from support.inprocess import tokenize_here, write_lines
from support.packed import Packed, write_packed
from support.toy import write_toy_tokenizer

LONG_AGO = 1_000_000_000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("damage") / "d"
    return write_packed(folder, num_rows=200, seq_len=64, masks=("loss", "weight"))


@pytest.fixture
def folder(original: Packed, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original.folder, tmp_path / "d"))


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("documents")
    records = [{"text": "abc def " * (i % 7 + 1)} for i in range(50)]
    path = write_lines(home / "in.jsonl", records)
    toy = write_toy_tokenizer(home / "toy")
    tokenize_here(home / "t", inputs=[str(path)], tokenizer=str(toy))
    return home / "t"


def shards_of(folder: Path) -> list[Path]:
    return sorted((folder / "shards").glob("*.arrayrecord"))


def used_files(folder: Path) -> list[Path]:
    """Shards and their indexes; `read_manifest` answers for the manifest."""
    return [p for kind in ("arrayrecord", "npy") for p in sorted(folder.glob(f"s*/*.{kind}"))] + [
        *sorted(folder.glob("index/*"))
    ]


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)


def read_all(folder: Path, **options: Any) -> None:
    with DataLoader(folder, batch_size=8, epochs=1, **options) as loader:
        for _ in loader:
            pass


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_any_flipped_bit_is_an_error_that_names_the_file(compression: str, tmp_path: Path) -> None:
    source = write_packed(tmp_path / "s", num_rows=100, seq_len=64, compression=compression)
    rng = random.Random(0)
    files = used_files(source.folder)
    read_all(source.folder)
    for number in range(60):
        copy = Path(shutil.copytree(source.folder, tmp_path / f"c{number}"))
        path = copy / files[number % len(files)].relative_to(source.folder)
        flip(path, rng.randrange(1 << 40), rng.randrange(8))
        with pytest.raises(CorruptError) as error:
            read_all(copy)
        assert path.name in str(error.value)


def test_every_part_of_a_tokenized_dataset_is_checked(tokenized: Path, tmp_path: Path) -> None:
    rng = random.Random(0)
    files = used_files(tokenized)
    for number in range(20):
        copy = Path(shutil.copytree(tokenized, tmp_path / f"c{number}"))
        path = copy / files[number % len(files)].relative_to(tokenized)
        flip(path, rng.randrange(1 << 40), rng.randrange(8))
        for verify in ("lazy", "open"):
            with pytest.raises(CorruptError) as error:
                open_dataset(copy, verify=verify)[list(range(50))]  # type: ignore[arg-type]
            assert path.name in str(error.value)


def test_no_batch_is_made_of_a_damaged_shard(folder: Path) -> None:
    flip(shards_of(folder)[1], 200_000)
    handed_out: list[str] = []
    with DataLoader(folder, batch_size=4, shuffle=False, epochs=1) as loader:
        with pytest.raises(CorruptError, match="rows-00001"):
            handed_out.extend(str(batch["inputs"]) for batch in loader)
        assert len(handed_out) == loader.get_state()["step"] == 16  # the 64 rows of the first shard


def test_open_finds_it_at_once_and_off_not_at_all(folder: Path) -> None:
    flip(shards_of(folder)[-1], -3)  # where no row is
    for make in (open_dataset, lambda place, **how: DataLoader(place, batch_size=2, **how)):
        with pytest.raises(CorruptError, match="rows-00003"):
            make(folder, verify="open")
        make(folder, verify="lazy")
    with pytest.raises(CorruptError, match="rows-00003"):
        DataLoader(open_dataset(folder), batch_size=2, verify="open")  # type: ignore[arg-type]
    read_all(folder, verify="off")
    with pytest.raises(ConfigError, match="verify 'x' is not one of lazy, open, off"):
        open_dataset(folder, verify="x")  # type: ignore[arg-type]


def test_a_file_is_hashed_once_in_a_process_unless_it_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Any] = []
    original = checked.hash_file
    monkeypatch.setattr(
        checked, "hash_file", lambda file, *more: (hashed.append(file), original(file, *more))[1]
    )
    monkeypatch.setattr(whole, "_SETTLED_NS", -1)
    for _ in range(3):
        read_all(folder)
    assert len(hashed) == 4
    path = shards_of(folder)[2]
    flip(path, 70_000)
    os.utime(path, (LONG_AGO, LONG_AGO))
    with pytest.raises(CorruptError, match="rows-00002"):
        read_all(folder)


def test_a_file_that_was_just_written_is_not_taken_for_proven(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes within a tick of the file system's clock have the same time."""
    monkeypatch.setattr(whole, "_proven", {})
    monkeypatch.setattr(whole, "_SETTLED_NS", 3600 * 10**9)  # a slow machine is no older file
    read_all(folder)
    assert not whole._proven


def link_outside(path: Path) -> None:
    path.rename(path.parent.parent.parent / path.name)
    path.symlink_to(path.parent.parent.parent / path.name)


def link_folder(path: Path) -> None:
    path.parent.rename(path.parent.parent.parent / "elsewhere")
    path.parent.symlink_to(path.parent.parent.parent / "elsewhere")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [link_outside, link_folder, make_folder, make_pipe, Path.unlink])
@pytest.mark.parametrize("ending", [".arrayrecord", ".npy"])
@pytest.mark.parametrize("verify", ["lazy", "off"])
def test_what_is_no_plain_file_is_refused(
    folder: Path, change: Callable[[Path], None], ending: str, verify: Any
) -> None:
    path = shards_of(folder)[1].with_suffix(ending)
    change(path)
    with pytest.raises(CorruptError, match="shards"):
        open_dataset(folder, verify=verify)


def test_a_swapped_shard_is_refused(folder: Path, tmp_path: Path) -> None:
    first, second = shards_of(folder)[:2]
    first.rename(tmp_path / "x")
    second.rename(first)
    (tmp_path / "x").rename(second)
    with pytest.raises(CorruptError, match="rows-0000"):
        read_all(folder)


@pytest.mark.parametrize("kind", ["packed", "tokenized"])
def test_an_index_cannot_ask_for_more_than_it_holds(
    folder: Path, tokenized: Path, kind: str, tmp_path: Path
) -> None:
    """Without hashes too: its header alone decides nothing."""
    home = folder if kind == "packed" else Path(shutil.copytree(tokenized, tmp_path / "t"))
    path = next(p for p in used_files(home) if p.suffix == ".npy")
    data = path.read_bytes()
    shape = data[data.index(b"(", data.index(b"'shape'")) : data.index(b"\n")]
    path.write_bytes(data.replace(shape, b"(999999999999999,), }".ljust(len(shape))))
    with pytest.raises(CorruptError, match=path.name):
        open_dataset(home, verify="off")[0]


# --- while a loader is in use ---


@pytest.mark.parametrize("touched", [True, False])
def test_deleted_and_replaced_shards_live_on(
    original: Packed, folder: Path, touched: bool, tmp_path: Path
) -> None:
    dataset = open_dataset(folder)
    if touched:
        dataset[list(range(200))]
    shards_of(folder)[0].unlink()
    (tmp_path / "new").write_bytes(b"x" * 100)
    os.replace(tmp_path / "new", shards_of(folder)[0])
    rows = dataset[[0, 70, 130, 199]]
    assert np.array_equal(rows["tokens"], original.tokens[[0, 70, 130, 199]])  # type: ignore[call-overload]
    with pytest.raises(CorruptError, match="rows-0000"):
        open_dataset(folder)


def test_a_file_that_is_written_to_is_proven_again(folder: Path) -> None:
    dataset = open_dataset(folder)
    dataset[list(range(200))]
    path = shards_of(folder)[1]
    os.utime(path)
    time.sleep(1.1)
    dataset[70]  # only its time is new
    with open(path, "r+b") as file:
        file.seek(70_000)
        file.write(b"\xff\x00\xff")
    time.sleep(1.1)
    dataset[0]  # in another shard
    for _ in range(2):
        with pytest.raises(CorruptError, match="rows-00001"):
            dataset[70]


def test_a_backup_of_hard_links_has_only_what_is_read_hashed_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset: Any = open_dataset(folder)
    dataset[list(range(200))]
    for path in shards_of(folder):
        os.link(path, tmp_path / path.name)  # as `cp -al` does: all have new times
    hashed: list[Any] = []
    original = checked.hash_file
    monkeypatch.setattr(
        checked, "hash_file", lambda file, *more: (hashed.append(file), original(file, *more))[1]
    )
    dataset._shards._watch._next_look = 0
    for row, expected in ((0, 1), (1, 1), (70, 2), (71, 2)):
        dataset[row]
        assert len(hashed) == expected


def test_verify_open_checks_what_was_opened_without_checks(folder: Path) -> None:
    dataset: Any = open_dataset(folder, verify="off")
    flip(shards_of(folder)[-1], -3)  # where no row is
    dataset[list(range(200))]
    with pytest.raises(CorruptError, match="rows-00003"):
        DataLoader(dataset, batch_size=2, verify="open")


CUT = """
import glob, os, random, sys, threading, time
from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import CorruptError
folder, prefetch, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
(shard,) = glob.glob(os.path.join(folder, "shards", "rows-00001-*.arrayrecord"))
rng = random.Random(seed)
def cut():
    time.sleep(rng.random() * 0.02)
    os.truncate(shard, rng.randrange(os.path.getsize(shard)))
loader = DataLoader(folder, batch_size=32, prefetch=prefetch)
next(loader)
thread = threading.Thread(target=cut)
thread.start()
try:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        next(loader)
except CorruptError as error:
    thread.join()
    assert "rows-00001" in str(error), error
    try:
        for _ in range(20):
            next(loader)
    except CorruptError:
        print("refused")
"""


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_shard_that_is_cut_short_while_it_is_read_is_an_error(
    original: Packed, tmp_path: Path, prefetch: int
) -> None:
    runs = []
    for seed in range(3):
        copy = shutil.copytree(original.folder, tmp_path / f"c{seed}")
        command = [sys.executable, "-c", CUT, str(copy), str(prefetch), str(seed)]
        runs.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    for run in runs:
        out, err = run.communicate(timeout=200)
        assert (run.returncode, out) == (0, b"refused\n"), err.decode()


def test_a_read_of_what_is_gone_is_zeros_and_known(tmp_path: Path) -> None:
    from dataprep.loaders.paging import MappedFiles

    path = tmp_path / "f"
    path.write_bytes(b"\x01" * (1 << 16))
    files = MappedFiles([(path, 1 << 16)])
    assert files.guard()
    assert files.memory.sum() == 1 << 16
    assert not files.torn
    os.truncate(path, 4096)
    assert files.memory.sum() == 4096
    assert files.torn


def test_other_bus_errors_go_where_they_went_before(tmp_path: Path) -> None:
    code = """
import faulthandler, mmap, os, sys
faulthandler.enable()
import numpy as np
from pathlib import Path
from dataprep.loaders.paging import MappedFiles
path = Path(sys.argv[1])
path.write_bytes(b"x" * 8192)
files = MappedFiles([(path, 8192)])
assert files.guard()
other = path.with_name("other")
other.write_bytes(b"x" * 8192)
with open(other, "rb") as file:
    foreign = np.frombuffer(mmap.mmap(file.fileno(), 8192, prot=mmap.PROT_READ), np.uint8)
os.truncate(other, 0)
print(foreign.sum())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "f")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200)
    assert done.returncode == -7
    assert "Fatal Python error: Bus error" in done.stderr


# What must be mapped and cut, and a read of what nobody guards.
BUS = """
import faulthandler, mmap, os, sys
import numpy as np
from pathlib import Path
from dataprep.loaders.paging import MappedFiles
def mapped(name):
    path = Path(sys.argv[1], name)
    path.write_bytes(b"x" * 8192)
    files = MappedFiles([(path, 8192)])
    assert files.guard()
    os.truncate(path, 0)
    return files
def read_foreign(size=8192):
    path = Path(sys.argv[1], "foreign")
    path.write_bytes(b"x" * size)
    with open(path, "rb") as file:
        foreign = np.frombuffer(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ), np.uint8)
    os.truncate(path, 0)
    print(foreign.sum())
"""


def run_bus(folder: Path, code: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", BUS + code, str(folder)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=200)
    return done.returncode, done.stdout, done.stderr


def test_a_handler_that_is_set_later_does_not_end_the_process(tmp_path: Path) -> None:
    code = """
first, second = mapped("a"), mapped("b")
faulthandler.enable()
print(first.memory.sum(), first.torn)
faulthandler.disable()
faulthandler.enable()
assert second.guard()  # as `Watch` asks for once a second
print("kept", file=sys.stderr)
print(second.memory.sum(), second.torn)
"""
    returncode, out, err = run_bus(tmp_path, code)
    assert (returncode, out) == (0, "0 True\n0 True\n"), err
    assert err.endswith("kept\n")  # ours was first again


def test_a_foreign_bus_error_ends_as_it_did_whoever_set_a_handler_when(tmp_path: Path) -> None:
    code = """
first = mapped("a")
faulthandler.enable()
second = mapped("b")
read_foreign()
"""
    returncode, out, err = run_bus(tmp_path, code)
    assert (returncode, out) == (-7, ""), err
    assert err.count("Fatal Python error: Bus error") == 1


def test_where_no_page_can_be_mapped_the_process_ends_instead_of_trying_for_ever(
    tmp_path: Path,
) -> None:
    limit = Path("/proc/sys/vm/max_map_count")
    if not limit.exists() or int(limit.read_text()) > 200_000:
        pytest.skip("there is no limit that is reached soon")
    code = f"""
import ctypes
files = mapped("a")
protect = ctypes.CDLL(None).mprotect
protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
room = np.frombuffer(mmap.mmap(-1, 2 * {limit.read_text().strip()} * 4096), np.uint8)
place = room.ctypes.data
while protect(place, 4096, 1) == 0:  # every second page is a map of its own
    place += 8192
print(files.memory.sum())
"""
    returncode, out, err = run_bus(tmp_path, code)
    assert (returncode, out) == (-7, ""), err


def test_a_foreign_bus_error_ends_the_process_after_a_handler_was_set_and_taken_back(
    tmp_path: Path,
) -> None:
    """faulthandler's does nothing once it is disabled: the read would be tried for ever."""
    code = """
files = mapped("a")
faulthandler.enable()
assert files.guard()
faulthandler.disable()
read_foreign()
"""
    returncode, out, err = run_bus(tmp_path, code)
    assert (returncode, out) == (-7, ""), err


def test_a_handler_of_others_that_mends_its_faults_stays(tmp_path: Path) -> None:
    """It may count on being asked each time; ours is asked first again after `guard`."""
    code = """
import ctypes
from dataprep.loaders import bus_errors
libc, calls = ctypes.CDLL(None), []
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
def mend(number, info, context):
    address = ctypes.cast(info, ctypes.POINTER(ctypes.c_int64))[2]
    calls.append(libc.mmap(address // 4096 * 4096, 4096, 1, 0x32, -1, 0))
kept = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(mend)
action = bus_errors._Action(handler=ctypes.cast(kept, ctypes.c_void_p).value, flags=4)
files = mapped("a")
libc.sigaction(7, ctypes.byref(action), None)
for _ in range(3):
    assert files.guard()
    read_foreign(4096)
assert files.guard()
assert files.memory.sum() == 0 and files.torn
print(len(calls))
"""
    returncode, out, err = run_bus(tmp_path, code)
    assert (returncode, out) == (0, "0\n0\n0\n3\n"), err


def test_a_dataset_that_is_dropped_is_gone_at_once(
    folder: Path, tokenized: Path, tmp_path: Path
) -> None:
    """It holds maps and open files; a cycle would hold them until the collector comes by."""
    zipped = write_packed(tmp_path / "z", num_rows=8, compression="zstd").folder
    gc.disable()
    try:
        for place in (folder, zipped, tokenized):
            dataset: Any = open_dataset(place)
            dataset[0]
            held = [weakref.ref(dataset)]
            if not isinstance(dataset._shards, tuple):
                held.append(weakref.ref(dataset._shards))
            del dataset
            assert [ref() for ref in held] == [None] * len(held)
    finally:
        gc.enable()


@pytest.mark.parametrize("later", ["", "faulthandler.enable(); f.guard()"])
def test_a_signal_that_is_sent_is_not_swallowed(later: str, tmp_path: Path) -> None:
    code = f"""
f = mapped("a")
{later}
import signal
os.kill(os.getpid(), signal.SIGBUS)
print("here")
"""
    returncode, out, err = run_bus(tmp_path, code)
    assert (returncode, out) == (-7, ""), err
    assert err.count("Fatal Python error: Bus error") == bool(later)


def test_two_threads_that_guard_at_once_both_see_what_is_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.loaders import bus_errors
    from dataprep.loaders.paging import MappedFiles

    path = tmp_path / "f"
    path.write_bytes(b"\x01" * 8192)
    files = MappedFiles([(path, 8192)])
    make, both = bus_errors.Guard, threading.Barrier(2)

    def slow(*arguments: int) -> Any:
        guard = make(*arguments)
        both.wait(20)  # each has made one, and set none
        return guard

    monkeypatch.setattr(bus_errors, "Guard", slow)
    free = len(bus_errors._free)
    threads = [threading.Thread(target=files.guard) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(bus_errors._free) == free - 1
    unused = make(files._address, 8192)  # one that another thread is about to let go
    os.truncate(path, 0)
    assert files.memory.sum() == 0
    assert files.torn
    assert unused.hits == 2
    unused.release()


def test_a_file_that_was_cut_since_its_size_was_checked_is_not_mapped(tmp_path: Path) -> None:
    from dataprep.loaders.paging import MappedFiles

    (tmp_path / "f").write_bytes(b"x" * 4096)
    with pytest.raises(CorruptError, match="4096 bytes, of 8192"):
        MappedFiles([(tmp_path / "f", 8192)])


def test_without_numba_a_failing_import_is_tried_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.loaders import paging

    tried: list[str] = []

    class Missing:
        @staticmethod
        def find_spec(name: str, *more: Any) -> None:
            if name == "dataprep.loaders.bus_errors":
                tried.append(name)
                raise ImportError("no numba")

    monkeypatch.delitem(sys.modules, "dataprep.loaders.bus_errors", raising=False)
    monkeypatch.delattr("dataprep.loaders.bus_errors", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing, *sys.meta_path])
    paging._bus_errors.cache_clear()
    try:
        dataset = open_dataset(folder)
        for row in range(5):
            dataset[row]
    finally:
        paging._bus_errors.cache_clear()
    assert len(tried) == 1


def test_numba_compiles_where_it_cannot_keep_or_load_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import numba
    from numba.core.caching import IndexDataCacheFile

    from dataprep.loaders import bus_errors
    from dataprep.pipeline.storage.compiled import compiled

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    def damaged(*arguments: Any) -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    for load in (IndexDataCacheFile.load, damaged):
        monkeypatch.setattr(IndexDataCacheFile, "load", load)
        inner = compiled(lambda x: x + 1)
        assert compiled(lambda x: inner(x) * 2)(3) == 8  # noqa: B023
        assert bus_errors._handler.__wrapped__()


def test_no_two_guards_take_one_slot() -> None:
    from dataprep.loaders.bus_errors import Guard

    for _ in range(100):
        start = threading.Barrier(4)
        guards: list[Any] = []

        def take(start: Any = start, guards: list[Any] = guards) -> None:
            start.wait()
            guards.append(Guard(8, 8))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        slots = {guard._slot for guard in guards}
        for guard in guards:
            guard.release()
        assert len(slots) == 4


def test_without_numba_a_cut_shard_is_seen_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.loaders.paging import MappedFiles

    monkeypatch.setattr(MappedFiles, "guard", lambda self: False)
    dataset = open_dataset(folder)
    dataset[list(range(200))]
    os.truncate(shards_of(folder)[3], 4096)
    with pytest.raises(CorruptError, match=r"rows-00003.* was cut short"):
        dataset[list(range(200))]
