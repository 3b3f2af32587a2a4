#!/usr/bin/env python3
"""How fast batches are read: dataprep beside other loaders, all over the same rows.

    python scripts/bench_load.py [--work DIR] [--seconds 2] [--rounds 3] [--seq-len 2048 8192]
                                 [--batch 64 256] [--only NAME...] [--documents] [--json FILE]

Every loader gives the five default arrays (inputs, targets, loss mask, segments, positions) of
shuffled rows; where it hands out stored rows, they are expanded a batch at a time by dataprep's own
numpy code, which is the best that it could do. Each loader runs in a process of its own, right
after a memcpy of as many bytes in that process, since other work on a machine slows whoever is
running; of several rounds the median counts. What is not installed is named and left out. Then
reads from a cold cache are compared, and the costs of checking hashes and of opening a thousand
shards are measured. Last, documents of a tokenized dataset come in batches by their lengths, beside
rows that were packed and rows that were padded (`documents_load`); --documents does only that.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module
from documents_load import measure_documents, show_documents

from dataprep.loaders import DataLoader, PackedDataset, open_dataset
from dataprep.loaders import expand as with_numpy
from dataprep.loaders import packed as packed_module
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.packed import empty_arrays
from dataprep.pipeline.hashes import fingerprint, hash_file
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.entries import FileEntry, RowShard, TokenizerEntry
from dataprep.pipeline.storage.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    PackedManifest,
    manifest_text,
)
from dataprep.pipeline.storage.provenance import ROW_PIECE
from dataprep.pipeline.storage.rows import RowLayout, Rows, encode_rows

MEGA = 1e6
DATASET_BYTES = 256 << 20
SHARD_BYTES = 64 << 20
Step = Callable[[], Any]  # reads the next batch


class Setting:
    """One dataset and one batch size."""

    def __init__(self, folder: Path, seq_len: int, batch: int) -> None:
        self.folder, self.seq_len, self.batch = folder, seq_len, batch
        dataset = open_dataset(folder / "packed")
        assert isinstance(dataset, PackedDataset)
        self.dataset, self.layout = dataset, dataset.layout
        self.request = Request(
            start=0, width=seq_len, tokens=(0, 1), segments=(0,), positions=(0,), masks=((0, 1),)
        )

    def indices(self) -> Iterator[list[int]]:
        """Shuffled rows, batch after batch, for ever."""
        rng = np.random.default_rng(1)
        while True:
            order = rng.permutation(len(self.dataset))
            for first in range(0, len(order) - self.batch + 1, self.batch):
                yield order[first : first + self.batch].tolist()

    def expand(self, payloads: list[bytes], out: Arrays | None = None) -> Arrays:
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        return self.expand_memory(np.frombuffer(b"".join(payloads), np.uint8), sizes, out)

    def expand_memory(self, memory: Any, sizes: Any, out: Arrays | None = None) -> Arrays:
        out = out or empty_arrays(self.request, len(sizes))
        rows = RowBytes(memory=memory, first=np.cumsum(sizes) - sizes, size=sizes, in_blocks=False)
        with_numpy.expand(rows, self.layout, self.request, out, np.arange(len(sizes)))
        return out


# --- the loaders ---


def memcpy(setting: Setting) -> Step:
    """The output bytes copied, from and to memory that is in use and not only in the cache."""
    sets = [empty_arrays(setting.request, setting.batch) for _ in range(8)]
    for arrays, name in itertools.product(sets, ("tokens", "segments", "positions", "masks")):
        getattr(arrays, name)[...] = 1
    turn = itertools.cycle(range(4))

    def step() -> None:
        i = next(turn)
        for name in ("tokens", "segments", "positions", "masks"):
            np.copyto(getattr(sets[i], name), getattr(sets[4 + i], name))

    return step


def dataprep(setting: Setting, prefetch: int = 0) -> Step:
    loader = DataLoader(setting.dataset, batch_size=setting.batch, prefetch=prefetch)
    return lambda: next(loader)


def dataprep_numpy(setting: Setting) -> Step:
    inner = dataprep(setting)
    fastest = packed_module.fastest_expand

    def step() -> None:
        packed_module.fastest_expand = lambda: with_numpy.expand  # type: ignore[assignment]
        try:
            inner()
        finally:
            packed_module.fastest_expand = fastest

    return step


def dataprep_numba(setting: Setting) -> Step:
    import numba  # noqa: F401

    return dataprep(setting)


def dataprep_prefetch(setting: Setting) -> Step:
    return dataprep(setting, prefetch=2)


def official_batched(setting: Setting) -> Step:
    """ArrayRecordReader.read([...]) of each shard, then one expansion."""
    shards = setting.dataset.manifest["shards"]
    readers = [reader_of(setting.folder / "packed" / shard["path"]) for shard in shards]
    starts = np.cumsum([0, *(shard["num_records"] for shard in shards)])
    batches = setting.indices()
    return lambda: setting.expand(read_official(readers, starts, next(batches)))


def reader_of(path: Path) -> Any:
    return array_record_module.ArrayRecordReader(str(path), "readahead_buffer_size:0")


def read_official(readers: list[Any], starts: Any, rows: list[int]) -> list[bytes]:
    numbers = np.searchsorted(starts, rows, side="right") - 1
    payloads: list[bytes] = [b""] * len(rows)
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        found = readers[number].read((np.array(rows)[places] - starts[number]).tolist())
        for place, payload in zip(places.tolist(), found, strict=True):
            payloads[place] = payload
    return payloads


def grain_source(setting: Setting) -> Any:
    import grain

    paths = [str(setting.folder / "packed" / s["path"]) for s in setting.dataset.manifest["shards"]]
    return grain.MapDataset.source(grain.sources.ArrayRecordDataSource(paths))


def grain_batched(setting: Setting, threads: int = 16) -> Step:
    """Its fastest way here: records batched as bytes, then expanded together."""
    import grain

    rows = grain_source(setting).seed(1).shuffle().repeat()
    batches = rows.batch(setting.batch, batch_fn=setting.expand)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    iterator = iter(batches.to_iter_dataset(options))
    return lambda: next(iterator)


def grain_one_thread(setting: Setting) -> Step:
    return grain_batched(setting, threads=1)


def grain_mapped(setting: Setting) -> Step:
    """As its guide has it: decode each record, then batch."""
    import grain

    def decode(payload: bytes) -> dict[str, Any]:
        return named(setting.expand([payload]), 0)

    rows = grain_source(setting).seed(1).shuffle().repeat().map(decode).batch(setting.batch)
    iterator = iter(rows.to_iter_dataset(grain.ReadOptions(num_threads=4)))
    return lambda: next(iterator)


def mosaic(setting: Setting) -> Step:
    from streaming import MDSWriter, StreamingDataset

    folder = setting.folder / "mds"
    if not folder.exists():
        with MDSWriter(out=str(folder), columns={"row": "bytes"}) as writer:
            for payload in all_payloads(setting):
                writer.write({"row": payload})
    data = StreamingDataset(local=str(folder), batch_size=setting.batch, shuffle=True)
    batches = setting.indices()
    return lambda: setting.expand([data[i]["row"] for i in next(batches)])


def litdata(setting: Setting) -> Step:
    """Shuffles within chunks only, so it reads nearly in order."""
    from litdata import StreamingDataset, optimize

    folder = setting.folder / "litdata"
    if not folder.exists():
        optimize(
            fn=PayloadOf(setting),
            inputs=list(range(len(setting.dataset))),
            output_dir=str(folder),
            chunk_bytes="64MB",
            num_workers=1,
            verbose=False,
        )
    data = StreamingDataset(str(folder), shuffle=True)
    rows = itertools.chain.from_iterable(iter(data) for _ in itertools.count())
    return lambda: setting.expand(list(itertools.islice(rows, setting.batch)))


class PayloadOf:
    """A function that can be sent to the worker that writes."""

    def __init__(self, setting: Setting) -> None:
        self._folder = setting.folder / "packed"
        shards = setting.dataset.manifest["shards"]
        self._paths = [shard["path"] for shard in shards]
        self._starts = np.cumsum([0, *(shard["num_records"] for shard in shards)])
        self._readers: list[Any] = []

    def __call__(self, row: int) -> bytes:
        self._readers = self._readers or [reader_of(self._folder / path) for path in self._paths]
        return read_official(self._readers, self._starts, [row])[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": []}


def arrow_dataset(setting: Setting) -> Any:
    import datasets

    folder = setting.folder / "arrow"
    if not folder.exists():
        datasets.disable_progress_bars()
        rows = {"row": all_payloads(setting)}
        datasets.Dataset.from_dict(rows).save_to_disk(str(folder))
    return datasets.load_from_disk(str(folder))


def hugging_face(setting: Setting) -> Step:
    data = arrow_dataset(setting)
    batches = setting.indices()
    return lambda: setting.expand(data[next(batches)]["row"])


def hugging_face_by_hand(setting: Setting) -> Step:
    """The buffers of the Arrow table that it selects, without its own decoding."""
    data = arrow_dataset(setting).with_format("arrow")
    batches = setting.indices()

    def step() -> Arrays:
        column = data[next(batches)]["row"].combine_chunks()
        _, offsets, memory = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        start, stop = int(ends[0]), int(ends[-1])
        taken = np.frombuffer(memory, np.uint8)[start:stop]
        return setting.expand_memory(taken, np.diff(ends).astype(np.int64))

    return step


def torch_memmap(setting: Setting) -> Step:
    import torch

    path = setting.folder / "rows.bin"
    sizes = [len(payload) for payload in all_payloads(setting)]
    if not path.exists():
        path.write_bytes(b"".join(all_payloads(setting)))
    stops = np.cumsum([0, *sizes])
    memory = np.memmap(path, np.uint8, "r")

    class Data(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return len(sizes)

        def __getitem__(self, row: int) -> dict[str, Any]:
            payload = memory[stops[row] : stops[row + 1]]
            return named(setting.expand_memory(payload, np.array([len(payload)])), 0)

    loader = torch.utils.data.DataLoader(Data(), batch_size=setting.batch, shuffle=True)
    batches = itertools.chain.from_iterable(iter(loader) for _ in itertools.count())
    return lambda: next(batches)


LOADERS: dict[str, Callable[[Setting], Step]] = {
    "memcpy": memcpy,
    "dataprep numba": dataprep_numba,
    "dataprep numpy": dataprep_numpy,
    "dataprep prefetch=2": dataprep_prefetch,
    "official reader, batched": official_batched,
    "grain, batched decode": grain_batched,
    "grain, batched, 1 thread": grain_one_thread,
    "grain, map then batch": grain_mapped,
    "mosaicml-streaming": mosaic,
    "litdata": litdata,
    "HF datasets": hugging_face,
    "HF arrow by hand": hugging_face_by_hand,
    "torch DataLoader, memmap": torch_memmap,
}


def named(arrays: Arrays, row: int) -> dict[str, Any]:
    return {
        "inputs": arrays.tokens[0, row],
        "targets": arrays.tokens[1, row],
        "loss_mask": arrays.masks[0, row],
        "segment_ids": arrays.segments[0, row],
        "positions": arrays.positions[0, row],
    }


def all_payloads(setting: Setting) -> list[bytes]:
    payloads: list[bytes] = []
    for shard in setting.dataset.manifest["shards"]:
        payloads += reader_of(setting.folder / "packed" / shard["path"]).read_all()
    return payloads


# --- the rows ---


def make_rows(folder: Path, seq_len: int) -> None:
    """Rows of 1.7 documents and a little padding, in shards of about 64 MB."""
    capacity, rng = seq_len + 1, np.random.default_rng(0)
    layout = RowLayout(
        capacity=capacity, masks=("loss",), tokens=np.dtype("<u2"), ends=np.dtype("<u2")
    )
    per_shard = SHARD_BYTES // (2 * capacity)
    entries, count = [], DATASET_BYTES // SHARD_BYTES
    for number in range(count):
        payloads = encode_rows(random_rows(rng, per_shard, capacity), layout)
        path = folder / f"shards/rows-{number:05d}-of-{count:05d}.arrayrecord"
        entries.append(write_shard(folder, path, payloads, capacity))
    (folder / MANIFEST).write_text(manifest_text(manifest_of(entries, seq_len)), "utf-8")


COUNTS = (
    *("documents_read", "documents_written", "documents_quarantined"),
    *("tokens", "target_tokens", "rows", "padding"),
)


def manifest_of(entries: Sequence[RowShard], seq_len: int) -> PackedManifest:
    identity = {"shards": [entry.xxh3_128 for entry in entries]}
    tokenizer = TokenizerEntry(
        sha256="", kind="bytes", vocab_size=256, bos=None, eos=None, pad=None, engine="bytes"
    )
    return PackedManifest(
        format_version=FORMAT_VERSION,
        kind="packed",
        fingerprint=fingerprint(identity),
        parents=(),
        config={"pack": {"strategy": "best_fit"}},
        tokenizer=tokenizer,
        sources=(),
        seq_len=seq_len,
        token_dtype="uint16",
        ends_dtype="uint16",
        max_id=(1 << 16) - 1,
        pad=0,
        compression="none",
        strategy="best_fit",
        masks=("loss",),
        shards=tuple(entries),
        counts={
            **dict.fromkeys(COUNTS, 0),
            "rows": sum(entry.num_records for entry in entries),
            "tokens": sum(entry.num_tokens for entry in entries),
        },
        identity=identity,
    )


def random_rows(rng: np.random.Generator, count: int, capacity: int) -> Rows:
    tokens = (rng.random((count, capacity), np.float32) ** 3 * 32_000).astype("<u2")
    ends, runs = [], []
    for _ in range(count):
        cuts = rng.integers(2, capacity - 8, rng.poisson(0.7))
        edges = np.unique(np.concatenate((cuts, [capacity - rng.integers(0, 3)])))
        starts = np.concatenate(([0], edges[:-1])) + 1
        loss = np.stack([starts, edges], axis=1)[starts < edges].ravel()
        ends.append(edges)
        runs.append(loss if loss[-1] == capacity else np.append(loss, capacity))
    return Rows(
        tokens=tokens,
        left_padding=np.zeros(count, np.int64),
        ends=ragged(ends),
        first_loss=np.ones(sum(map(len, ends)), np.bool_),
        masks=(ragged(runs),),
    )


def ragged(arrays: list[Any]) -> IntegerLists:
    offsets = np.cumsum([0, *(len(array) for array in arrays)])
    return IntegerLists(values=np.concatenate(arrays), offsets=offsets)


def write_shard(folder: Path, path: Path, payloads: list[bytes], capacity: int) -> RowShard:
    for part in ("shards", "provenance"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for payload in payloads:
        writer.write(payload)
    writer.close()
    index, provenance = path.with_suffix(".npy"), folder / "provenance" / f"{path.stem}.npy"
    np.save(index, np.array([len(payload) for payload in payloads], "<u4"))
    np.save(provenance, np.zeros(0, ROW_PIECE))  # the loader reads none
    shard, beside, origins = (
        FileEntry(
            path=p.relative_to(folder).as_posix(),
            num_bytes=p.stat().st_size,
            xxh3_128=hash_file(p),
        )
        for p in (path, index, provenance)
    )
    return RowShard(
        first_document=0,
        **asdict(shard),
        num_records=len(payloads),
        num_tokens=len(payloads) * capacity,
        index=beside,
        provenance=origins,
    )


# --- measuring ---


def measure(setting: Setting, name: str, seconds: float) -> tuple[float, float]:
    """Million tokens a second of memcpy, then of a loader."""
    speeds = []
    for step in (memcpy(setting), LOADERS[name](setting)):
        for _ in range(3):
            step()
        gc.collect()
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            step()
            count += 1
        speed = count * setting.batch * setting.seq_len / (time.perf_counter() - start) / MEGA
        speeds.append(speed)
        seconds *= 3
    return speeds[0], speeds[1]


def measure_all(setting: Setting, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in options.only}
    for _ in range(options.rounds):
        for name in list(found):
            where = [str(setting.folder), str(setting.seq_len), str(setting.batch)]
            command = [sys.executable, __file__, "--one", name, *where, str(options.seconds / 4)]
            done = subprocess.run(command, capture_output=True, encoding="utf-8")
            if done.returncode == 3:
                print(f"{name}: not here ({done.stderr.splitlines()[-1]})", file=sys.stderr)
                del found[name]
                continue
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr}")
            copied, speed = map(float, done.stdout.split()[-2:])
            found[name].append((copied, speed))
    return {
        name: {
            "Mtok/s": statistics.median(speed for _, speed in pairs),
            "of memcpy": statistics.median(speed / copied for copied, speed in pairs),
        }
        for name, pairs in found.items()
    }


def one(name: str, folder: str, seq_len: str, batch: str, seconds: str) -> None:
    setting = Setting(Path(folder), int(seq_len), int(batch))
    try:
        print(*measure(setting, name, float(seconds)), flush=True)
    except ImportError as error:
        print(error, file=sys.stderr)
        os._exit(3)
    os._exit(0)  # threads of others may never end


def measure_cold(folder: Path, batches: int = 40, batch: int = 256) -> dict[str, float]:
    """Records a second, each in a process of its own over files that the cache has dropped."""
    found: dict[str, float] = {}
    for way in ("dataprep", "official", "dataprep", "official"):
        drop_cache(folder)
        command = [sys.executable, __file__, "--cold", way, str(folder), str(batches), str(batch)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        found[way] = max(found.get(way, 0.0), float(done.stdout.split()[-1]))
    return found


def drop_cache(folder: Path) -> None:
    for path in folder.rglob("*.arrayrecord"):
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def cold(way: str, folder: str, batches: str, batch: str) -> None:
    dataset = open_dataset(folder)
    assert isinstance(dataset, PackedDataset)
    shards = dataset.manifest["shards"]
    starts = np.cumsum([0, *(shard["num_records"] for shard in shards)])
    dataset[0]  # what is compiled or imported at the first read is not what is measured
    rng = np.random.default_rng()
    order = rng.permutation(len(dataset))[: int(batches) * int(batch)].reshape(-1, int(batch))
    readers = [reader_of(Path(folder) / shard["path"]) for shard in shards]
    start = time.perf_counter()
    if way == "official":
        for rows in order:
            read_official(readers, starts, rows.tolist())
    else:
        request = Request(start=0, width=dataset.seq_len, tokens=(0,))
        out = empty_arrays(request, int(batch))
        dataset.will_need(order[0])
        for rows, after in itertools.zip_longest(order, order[1:]):
            if after is not None:
                dataset.will_need(after)
            dataset.read(rows, request, out, np.arange(len(rows)))
    print(order.size / (time.perf_counter() - start))


def measure_verify(folder: Path, rounds: int, batch: int = 256) -> dict[str, dict[str, float]]:
    """What checking hashes costs: at open, for the first batch, and in batches after that.

    Each in processes of its own, whose first batch touches every shard; of the rounds the median.
    """
    code = """
import sys, time
from dataprep.loaders import DataLoader
folder, batch, verify = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with DataLoader(folder, batch_size=batch, prefetch=0, verify="off") as warm:
    warm[0]  # compiled, imported, and in the cache as far as it goes
    tokens = warm[0]["inputs"].size
start = time.perf_counter()
loader = DataLoader(folder, batch_size=batch, prefetch=0, verify=verify)
opened = time.perf_counter()
next(loader)
first = time.perf_counter()
for _ in range(300):
    next(loader)
print(opened - start, first - opened, 300 * tokens / (time.perf_counter() - first) / 1e6)
"""
    names = ("s to open", "s for the first batch", "Mtok/s after")
    found: dict[str, list[list[float]]] = {"off": [], "lazy": [], "open": []}
    for _ in range(rounds):
        for verify, runs in found.items():
            command = [sys.executable, "-c", code, str(folder), str(batch), verify]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
            runs.append([float(word) for word in done.stdout.split()])
    return {
        verify: dict(zip(names, map(statistics.median, zip(*runs, strict=True)), strict=True))
        for verify, runs in found.items()
    }


def measure_open(folder: Path) -> dict[str, float]:
    """A thousand shards of 16,000 short rows: seconds to open, and memory beside the cache."""
    capacity, rows = 17, 16_000
    layout = RowLayout(
        capacity=capacity, masks=("loss",), tokens=np.dtype("<u2"), ends=np.dtype("<u2")
    )
    payloads = encode_rows(random_rows(np.random.default_rng(0), rows, capacity), layout)
    entry = write_shard(folder, folder / "shards/rows.arrayrecord", payloads, capacity)
    entries = []
    for number in range(1000):
        name = f"rows-{number:05d}-of-01000"
        new = {key: f"shards/{name}.{key}" for key in ("arrayrecord", "npy")}
        shutil.copyfile(folder / "shards/rows.npy", folder / new["npy"])
        os.link(folder / "shards/rows.arrayrecord", folder / new["arrayrecord"])
        index = replace(entry.index, path=new["npy"])
        origins = replace(entry.provenance, path=f"provenance/{name}.npy")
        entries.append(replace(entry, path=new["arrayrecord"], index=index, provenance=origins))
    (folder / MANIFEST).write_text(manifest_text(manifest_of(entries, capacity - 1)), "utf-8")
    code = f"""
import gc, time
from dataprep.loaders import open_dataset
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])
open_dataset({str(folder)!r})
gc.collect()
before, start = anonymous(), time.perf_counter()
dataset = open_dataset({str(folder)!r})
seconds = time.perf_counter() - start
gc.collect()
print(seconds, (anonymous() - before) / len(dataset))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    seconds, num_bytes = map(float, done.stdout.split())
    return {"rows": 1000.0 * rows, "seconds": seconds, "bytes a row": num_bytes}


def show(setting: Setting, found: dict[str, dict[str, float]]) -> None:
    print(f"\n{setting.seq_len} tokens a row, batches of {setting.batch}")
    print(f"  {'':26}{'Mtok/s':>8}{'of memcpy':>11}{'times grain':>13}")
    ratios = {name: figures["of memcpy"] for name, figures in found.items()}
    grain = max((r for name, r in ratios.items() if name.startswith("grain")), default=0.0)
    for name, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
        times = f"{ratio / grain:.1f}" if grain else ""
        print(f"  {name:26}{found[name]['Mtok/s']:8.0f}{ratio:11.2f}{times:>13}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, help="keep the datasets here")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each loader and setting")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seq-len", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--only", nargs="+", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--documents", action="store_true", help="only batches by lengths")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    if options.documents:
        options.seq_len = []
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    work = options.work or Path(tempfile.mkdtemp(prefix="bench-load-"))
    try:
        for seq_len in options.seq_len:
            folder = work / str(seq_len)
            if not (folder / "packed/manifest.json").exists():
                make_rows(folder / "packed", seq_len)
            results[f"cold {seq_len}"] = measure_cold(folder / "packed")
            results[f"verify {seq_len}"] = measure_verify(folder / "packed", options.rounds)
            for batch in options.batch:
                setting = Setting(folder, seq_len, batch)
                results[f"{seq_len} x {batch}"] = measure_all(setting, options)
                show(setting, results[f"{seq_len} x {batch}"])
        if not options.documents:
            opened = work / "open"
            shutil.rmtree(opened, ignore_errors=True)
            results["open"] = measure_open(opened)
        results["documents"] = measure_documents(work / "documents", options.seconds)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)
    for seq_len in options.seq_len:
        speeds = {way: f"{speed:,.0f}" for way, speed in results[f"cold {seq_len}"].items()}
        print(f"\ncold cache, {seq_len} tokens a row, records/s: {speeds}")
        print(f"hashes of {DATASET_BYTES >> 20} MB in {DATASET_BYTES // SHARD_BYTES} shards:")
        for verify, figures in results[f"verify {seq_len}"].items():
            text = ", ".join(f"{value:.3g} {name}" for name, value in figures.items())
            print(f"  {verify:6}{text}")
    if "open" in results:
        print(f"\nopening 1,000 shards: {results['open']}")
    show_documents(results["documents"])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cold"]:
        cold(*sys.argv[2:])
    elif sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        main()
