"""Measure how few rows packing plans, how fast it plans, and how fast rows are then written.

    python scripts/bench_pack.py [DATA] [--lengths FILE.npy ...] [--documents 10000000]

DATA holds mix20.jsonl, chat.jsonl and tokenizers/NAME/tokenizer.json; a `text` counts its tokens
and one for its end, a conversation the tokens of `<|im_start|>role\\ncontent<|im_end|>\\n` for each
message. The lognormal set (mean 604, median 330 tokens) stands for a web corpus. "bound" is
ceil(tokens in rows / row), or more with a cap on segments; no plan has fewer rows. "first" is the
first of three runs, which still gets its memory from the system, "best" the best.

If grain is installed, its packers get the same pieces, in corpus order, as arrays of zeros; they
copy while they pack, so their speed is not a planning speed.

Last, with DATA: `dataprep pack` of mix20.jsonl repeated, compared with `cp` of what it wrote and
`cp` followed by `sync` (packing syncs what it writes), less the time for one tiny document.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.pack.strategies import RowPlan, best_fit, concat, first_fit, pad

Lengths = NDArray[np.int64]
HEAD = (
    "set        seq_len  strategy            documents       rows      bound  excess %"
    "   first docs/s    best docs/s"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--tokenizer", default="gpt2", help="of mix20.jsonl")
    parser.add_argument("--chat-tokenizers", nargs="+", default=["gpt2", "qwen3"])
    parser.add_argument("--lengths", type=Path, nargs="*", default=[], help=".npy of lengths")
    parser.add_argument("--documents", type=int, default=10_000_000, help="of the lognormal set")
    parser.add_argument("--seq-lens", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--max-segments", type=int, nargs="*", default=[32])
    parser.add_argument("--copies", type=int, default=20, help="of mix20.jsonl, written as rows")
    parser.add_argument("--peer-documents", type=int, default=20_000)
    parser.add_argument("--peer-bins", type=int, default=256)
    arguments = parser.parse_args()
    for name, lengths in length_sets(arguments):
        print(f"\n{HEAD}")
        for seq_len in arguments.seq_lens:
            bench_ours(name, lengths, seq_len, arguments.max_segments)
            bench_grain(name, lengths[: arguments.peer_documents], seq_len, arguments.peer_bins)
    if arguments.data is not None:
        with tempfile.TemporaryDirectory() as folder:
            bench_rows(arguments.data, Path(folder), arguments.copies)


def bench_rows(data: Path, folder: Path, copies: int) -> None:
    tokenizer = data / "tokenizers" / "gpt2" / "tokenizer.json"
    corpus, tiny = folder / "corpus.jsonl", folder / "tiny.jsonl"
    corpus.write_bytes((data / "mix20.jsonl").read_bytes() * copies)
    tiny.write_text(json.dumps({"text": "hello"}) + "\n")
    for path in (corpus, tiny):
        dataprep("tokenize", path, "--tokenizer", tokenizer, "--out", folder / path.stem)
    print("\nrows written   seq_len   dataprep MB/s    cp MB/s   cp+sync MB/s   of cp   of cp+sync")
    for seq_len in (2048, 8192):
        seconds = {}
        for name in ("tiny", "corpus"):
            out = folder / f"{name}-{seq_len}"
            seconds[name] = dataprep(
                "pack", folder / name, "--seq-len", seq_len, "--out", out, "--overwrite"
            )
        shards = folder / f"corpus-{seq_len}" / "shards"
        num_bytes = sum(path.stat().st_size for path in shards.iterdir())
        subprocess.run(["sync"], check=True)
        copy = wall(["cp", "-r", str(shards), str(folder / "copy")])
        synced = copy + wall(["sync"])
        shutil.rmtree(folder / "copy")
        ours = seconds["corpus"] - seconds["tiny"]
        speeds = [num_bytes / 1e6 / s for s in (ours, copy, synced)]
        print(
            f"{num_bytes / 1e6:9.0f} MB {seq_len:9} {speeds[0]:15.0f} {speeds[1]:10.0f} "
            f"{speeds[2]:14.0f} {speeds[0] / speeds[1]:7.2f} {speeds[0] / speeds[2]:12.2f}"
        )


def dataprep(*words: object) -> float:
    return wall([sys.executable, "-m", "dataprep.cli.main", *map(str, words), "-q"])


def wall(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begin


def length_sets(arguments: argparse.Namespace) -> Iterator[tuple[str, Lengths]]:
    for path in arguments.lengths:
        yield path.stem, np.load(path).astype(np.int64)
    if arguments.data is not None:
        texts = [record["text"] for record in records(arguments.data / "mix20.jsonl")]
        yield "mix20", 1 + token_counts(arguments.data, arguments.tokenizer, texts)
        chats = [
            "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in r["messages"])
            for r in records(arguments.data / "chat.jsonl")
        ]
        for tokenizer in arguments.chat_tokenizers:
            yield f"chat/{tokenizer}", token_counts(arguments.data, tokenizer, chats)
    if arguments.documents:
        generator = np.random.Generator(np.random.PCG64(0))
        drawn = np.exp(generator.normal(5.8, 1.1, arguments.documents))
        yield "lognormal", np.maximum(1, drawn).astype(np.int64)


def records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def token_counts(data: Path, tokenizer: str, texts: list[str]) -> Lengths:
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(data / "tokenizers" / tokenizer / "tokenizer.json"))
    loaded.no_truncation()
    loaded.no_padding()
    encodings = loaded.encode_batch(texts, add_special_tokens=False)
    return np.array([len(encoding.ids) for encoding in encodings], np.int64)


def bench_ours(name: str, lengths: Lengths, seq_len: int, caps: Iterable[int]) -> None:
    capacity = seq_len + 1
    bench(name, lengths, "best_fit", capacity, partial(best_fit, capacity=capacity))
    for cap in caps:
        plan_of = partial(best_fit, capacity=capacity, max_segments=cap)
        bench(name, lengths, f"best_fit ≤{cap} segs", capacity, plan_of, cap)
    some = lengths[:1_000_000]  # it takes one by one, so it is the slowest
    bench(name, some, "first_fit", capacity, partial(first_fit, capacity=capacity))
    bench(name, lengths, "concat", capacity, partial(concat, capacity=capacity))


def bench(
    name: str,
    lengths: Lengths,
    strategy: str,
    capacity: int,
    plan_of: Callable[[Lengths], RowPlan],
    cap: int | None = None,
) -> None:
    plan, seconds = timed(plan_of, lengths)
    speeds = [len(lengths) / seconds[0], len(lengths) / min(seconds)]
    bound = -(-int(plan.length.sum()) // capacity)
    if cap is not None:
        num_full = int(np.count_nonzero(plan.length == capacity))
        bound = max(bound, num_full + -(-(len(plan.length) - num_full) // cap))
    show(name, capacity - 1, strategy, len(lengths), plan.num_rows, bound, speeds)


def timed(plan_of: Callable[[Lengths], RowPlan], lengths: Lengths) -> tuple[RowPlan, list[float]]:
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        plan = plan_of(lengths)
        seconds.append(time.perf_counter() - begin)
    return plan, seconds


def bench_grain(name: str, lengths: Lengths, seq_len: int, bins: int) -> None:
    try:
        import grain
        from grain.experimental import BestFitPackIterDataset, FirstFitPackIterDataset
    except ImportError:
        return
    capacity = seq_len + 1
    pieces = pad(lengths, capacity, overflow="split").length.tolist()
    source = grain.MapDataset.source(pieces).map(lambda n: {"tokens": np.zeros(n, np.int32)})
    bound = -(-sum(pieces) // capacity)
    bench(name, lengths, "best_fit, the same", capacity, partial(best_fit, capacity=capacity))
    for packer in (FirstFitPackIterDataset, BestFitPackIterDataset):
        rows = packer(
            source.to_iter_dataset(), length_struct={"tokens": capacity}, num_packing_bins=bins
        )
        begin = time.perf_counter()
        num_rows = sum(1 for _ in rows)
        speed = len(lengths) / (time.perf_counter() - begin)
        label = f"grain {packer.__name__.removesuffix('PackIterDataset')}"
        show(name, seq_len, label, len(lengths), num_rows, bound, [speed])


def show(
    name: str,
    seq_len: int,
    strategy: str,
    documents: int,
    rows: int,
    bound: int,
    speeds: list[float],
) -> None:
    excess = 100 * (rows / bound - 1)
    rates = "".join(f"{speed:15,.0f}" for speed in speeds)
    print(
        f"{name:10s} {seq_len:7d}  {strategy:18s} {documents:10d} {rows:10d} {bound:10d} "
        f"{excess:9.4f}{rates}",
        flush=True,
    )


if __name__ == "__main__":
    main()
