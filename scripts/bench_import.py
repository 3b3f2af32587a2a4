"""What old datasets cost to bring in, beside reading the same bytes, in CPU seconds.

    python scripts/bench_import.py [--tokens 50000000] [--mean 700] [--rounds 3]

The same made-up documents in every format, in a temporary folder. For each:

    read     the bytes of its files, 4 MB at a time into one buffer: what the page cache gives
    hash     the same, with their xxh3-128: the least that a reader can do that looks at every byte
    as is    its own library reading every record, where one is at hand: array_record, pyarrow
    records  `dataprep` from the file to documents in memory: read, decoded, checked, laid out
    all      the whole of `tokenize` by one worker: shards written, hashed and made durable, too;
             what it takes for one document, above all to start, is taken off and shown as "fixed"
    cp       `cp` of the dataset that it wrote, made durable by `sync`

Speeds are in MB of the files for a second of CPU, that of `cp` in MB of what it copies; the best of
the rounds counts, since the machine may be busy. An import writes a dataset, so it can be no faster
than `cp` of that, however fast its files are read.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from array_record.python import array_record_module

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import keys_wanted
from dataprep.pipeline.documents.together import PieceRecords, process_together
from dataprep.pipeline.engine import reference_selection
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.sources import read_piece
from dataprep.pipeline.storage.foreign.mds import encode_head, encode_samples, settings_of
from dataprep.pipeline.storage.foreign.megatron import encode_index
from dataprep.pipeline.storage.foreign.tfexample import encode_examples
from dataprep.pipeline.tokenize import plan_of, tokenize
from dataprep.pipeline.tokenize.plan import TokenizePlan, rules_of
from dataprep.pipeline.tokenize.worker import engine_of

VOCABULARY = 50_000
EOS = 0
HEAD = (
    "              MB   out     read     hash    as is  records fixed s    all     cp "
    "| of read: records all | of hash: records all | all of cp"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The files of one format."""

    path: Path
    settings: Mapping[str, Any]
    files: tuple[Path, ...]
    own: Callable[[], int] | None = None  # read by its own library


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=50_000_000)
    parser.add_argument("--mean", type=int, default=700, help="tokens of a document")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = toy_tokenizer(folder / "tokenizer")
        ids, offsets = documents(arguments.tokens, arguments.mean)
        print(f"{len(ids):,} tokens in {len(offsets) - 1:,} documents; MB/s of CPU, best of rounds")
        print(HEAD)
        for kind, write in FORMATS.items():
            if arguments.only and kind not in arguments.only:
                continue
            place = folder / kind
            (place / "tiny").mkdir(parents=True)
            made = write(place, ids, offsets)
            tiny = write(place / "tiny", ids[: offsets[1]], offsets[:2])
            measure(kind, made, tiny, tokenizer, arguments.rounds)
            shutil.rmtree(place)


def measure(kind: str, made: Made, tiny: Made, tokenizer: Path, rounds: int) -> None:
    config, cache = _config(made, tokenizer), made.path.with_name("cache")
    small, out = _config(tiny, tokenizer), Path(config.out)
    copy = out.with_name("copy")
    plan = plan_of(config, cache)
    runs: dict[str, Callable[[], Any] | None] = {
        "read": lambda: read_bytes(made.files),
        "hash": lambda: [hash_file(path) for path in made.files],
        "as is": made.own,
        "records": lambda: read_records(plan),
        "fixed": lambda: whole(small, cache),
        "all": lambda: whole(config, cache),
        "cp": lambda: subprocess.run(["cp", "-r", out, copy], check=True),
        "sync": lambda: subprocess.run(["sync", *_files(copy)], check=True),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        shutil.rmtree(copy, ignore_errors=True)
        for name, run in runs.items():
            if run is not None:
                best[name] = min(best[name], seconds(run))
    size = sum(path.stat().st_size for path in made.files) / 1e6
    show(kind, size, sum(path.stat().st_size for path in _files(out)) / 1e6, best)


def show(kind: str, size: float, written: float, best: Mapping[str, float]) -> None:
    whole, copied = max(best["all"] - best["fixed"], 1e-9), best["cp"] + best["sync"]
    speeds = [size / best[name] for name in ("read", "hash", "as is", "records")]
    cells = [f"{speed:>8.0f}" if speed else f"{'':8}" for speed in speeds]
    cells += [f"{best['fixed']:>7.2f}", f"{size / whole:>6.0f}", f"{written / copied:>6.0f}"]
    for name in ("read", "hash"):
        cells += ["|", f"{best[name] / best['records']:>16.0%}", f"{best[name] / whole:>3.0%}"]
    print(f"{kind:10} {size:>5.0f} {written:>5.0f}", *cells, "|", f"{copied / whole:>9.0%}")


def _config(made: Made, tokenizer: Path) -> TokenizeConfig:
    where = {"inputs": [str(made.path)], "tokenizer": str(tokenizer), "workers": 1}
    out = {"out": str(made.path.with_name("out"))}
    return TokenizeConfig.model_validate({**where, **out, **made.settings})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def seconds(run: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call, those of processes that it waited for included."""
    began = used()
    run()
    return used() - began


def used() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, who))


def read_bytes(files: tuple[Path, ...]) -> int:
    """Read all bytes into one buffer."""
    buffer, total = memoryview(bytearray(4 << 20)), 0
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    return total


def read_records(plan: TokenizePlan) -> int:
    """Read all documents of a plan as a worker does, and count their tokens."""
    engine = engine_of(plan, reference_selection(plan.vocabulary.files))
    rules, total = rules_of(plan, 0), 0
    for task in plan.tasks:
        for place, piece in enumerate(task.pieces):
            source = plan.sources[piece.source]
            for records in read_piece(source, piece, keys_wanted(rules), held_by=rules.held_by):
                group = [PieceRecords(place=place, piece=piece, rules=rules, records=records)]
                made, _ = process_together(group, engine)
                assert not made.errors
                total += len(made.documents.tokens)
    return total


def whole(config: TokenizeConfig, cache: Path) -> None:
    """Make the dataset, by one worker."""
    shutil.rmtree(config.out, ignore_errors=True)
    tokenize(config, cache_dir=cache)


# --- the same documents in every format ---


def documents(count: int, mean: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    lengths = draw.geometric(1 / mean, max(1, count // mean)) + 1
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ids = draw.integers(1, VOCABULARY, int(offsets[-1])).astype(np.uint16)
    ids[offsets[1:] - 1] = EOS
    return ids, offsets


def toy_tokenizer(folder: Path) -> Path:
    folder.mkdir()
    vocabulary = {"</s>": EOS, **{f"t{i}": i for i in range(1, VOCABULARY)}}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "</s>"}
    none = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    whole: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "model": model,
        **dict.fromkeys(none),
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    return folder


def _each(ids: Any, offsets: Any, dtype: str) -> Iterator[bytes]:
    data, size = memoryview(ids.astype(dtype).tobytes()), np.dtype(dtype).itemsize
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield bytes(data[a * size : b * size])


def _array_record(path: Path, records: Iterator[bytes] | list[bytes], key: str) -> Made:
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()

    def own() -> int:
        reader = array_record_module.ArrayRecordReader(
            str(path), "readahead_buffer_size:1M,max_parallelism:1"
        )
        count, total = reader.num_records(), 0
        for first in range(0, count, 1000):
            total += sum(map(len, reader.read(first, min(first + 1000, count))))
        return total

    return Made(path=path, settings={"pretokenized": key}, files=(path,), own=own)


def _xlstm(folder: Path, ids: Any, offsets: Any) -> Made:
    return _array_record(folder / "a.arecord", _each(ids, offsets, "<i4"), "tokens")


def _maxtext(folder: Path, ids: Any, offsets: Any) -> Made:
    records = encode_examples("text", ids, offsets)
    return _array_record(folder / "a.arrayrecord", records, "text")


def _megatron(folder: Path, ids: Any, offsets: Any) -> Made:
    idx, data = folder / "a.idx", folder / "a.bin"
    idx.write_bytes(encode_index(np.diff(offsets), np.dtype("<u2")))
    data.write_bytes(ids.tobytes())
    return Made(path=idx, settings={"pretokenized": "tokens"}, files=(idx, data))


def _flat(folder: Path, ids: Any, offsets: Any) -> Made:
    path = folder / "a.npy"
    path.write_bytes(ids.tobytes())
    how = {"records": "tokens_uint16", "document_end": "eos"}
    return Made(path=path, settings={"pretokenized": "tokens", **how}, files=(path,))


def _mds(folder: Path, ids: Any, offsets: Any) -> Made:
    settings = settings_of({"tokens": "ndarray:int32"})
    samples, sizes = encode_samples([(ids.astype("<i4"), offsets)])
    path = folder / "a.mds"
    path.write_bytes(encode_head(sizes, settings) + samples)
    return Made(path=path, settings={"pretokenized": "tokens"}, files=(path,))


def _table(ids: Any, offsets: Any) -> pa.Table:
    values = pa.array(ids.astype(np.int32))
    return pa.table({"input_ids": pa.ListArray.from_arrays(offsets.astype(np.int32), values)})


def _parquet(folder: Path, ids: Any, offsets: Any) -> Made:
    path = folder / "a.parquet"
    table = _table(ids, offsets)
    pq.write_table(table, path, compression="none", use_dictionary=False, row_group_size=4096)

    def own() -> int:
        file = pq.ParquetFile(path)
        batches = file.iter_batches(batch_size=4096, use_threads=False)
        return sum(int(batch.nbytes) for batch in batches)

    return Made(path=path, settings={"pretokenized": "input_ids"}, files=(path,), own=own)


def _arrow(folder: Path, ids: Any, offsets: Any) -> Made:
    path = folder / "a.arrow"
    with pa.ipc.new_file(str(path), _table(ids, offsets).schema) as file:
        file.write_table(_table(ids, offsets), max_chunksize=1000)
    return Made(path=path, settings={"pretokenized": "input_ids"}, files=(path,))


def _jsonl(folder: Path, ids: Any, offsets: Any) -> Made:
    path = folder / "a.jsonl"
    with open(path, "w") as file:
        for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            file.write(json.dumps({"input_ids": ids[a:b].tolist()}) + "\n")
    return Made(path=path, settings={"pretokenized": "input_ids"}, files=(path,))


FORMATS: Mapping[str, Callable[[Path, Any, Any], Made]] = {
    "megatron": _megatron,
    "olmo .npy": _flat,
    "mds": _mds,
    "xlstm": _xlstm,
    "maxtext": _maxtext,
    "parquet": _parquet,
    "arrow": _arrow,
    "jsonl": _jsonl,
}

if __name__ == "__main__":
    main()
