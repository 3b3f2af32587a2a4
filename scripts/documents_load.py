"""For `bench_load`: documents in batches by their lengths, beside rows of one length.

All loaders have the same documents, of at most 2,048 tokens a row, longer ones split. Speed is that
of one thread, in tokens of documents: padding does not count.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import dataprep
from dataprep import Buckets, ByTokens, DataLoader, Longest

SEQ_LEN, TOKENS, DOCUMENTS = 2048, 65_536, 40_000
MEGA = 1e6


def make_documents(work: Path) -> None:
    """Texts of 16 to 16,000 bytes, half of them shorter than 400."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(6, 1, DOCUMENTS), 16, 16_000).astype(int)
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "in.jsonl", "w", encoding="utf-8") as file:
        for length in lengths.tolist():
            file.write(
                json.dumps({"text": bytes(rng.integers(97, 123, length, np.uint8)).decode()}) + "\n"
            )
    tokenized = work / "tokenized"
    dataprep.tokenize(inputs=str(work / "in.jsonl"), tokenizer="bytes", out=tokenized)
    for strategy in ("best_fit", "pad"):
        dataprep.pack(
            inputs=str(tokenized),
            seq_len=SEQ_LEN,
            strategy=strategy,
            overflow="split",
            out=work / strategy,
        )


def settings_of(work: Path) -> dict[str, tuple[Path, Any]]:
    options: dict[str, Any] = {"overflow": "split"}
    rows, tokenized = TOKENS // SEQ_LEN, work / "tokenized"
    lengths = [SEQ_LEN // 8, SEQ_LEN // 4, SEQ_LEN // 2, SEQ_LEN]
    by_tokens = ByTokens(TOKENS, multiple_of=128, max_length=SEQ_LEN, **options)
    return {
        "packed, best_fit": (work / "best_fit", rows),
        "packed, pad": (work / "pad", rows),
        "Longest": (tokenized, Longest(rows, multiple_of=128, max_length=SEQ_LEN, **options)),
        "Buckets": (tokenized, Buckets(lengths, max_tokens=TOKENS, **options)),
        "ByTokens": (tokenized, by_tokens),
    }


def measure(folder: Path, batch_size: Any, seconds: float) -> dict[str, float]:
    """Figures of one epoch: padding, shapes, tokens of documents a second of this thread."""
    with DataLoader(
        folder, batch_size=batch_size, epochs=1, remainder="pad", prefetch=0, verify="off"
    ) as loader:
        places = filled = 0
        shapes = set()
        for batch in loader:
            shapes.add(batch["inputs"].shape)
            places += batch["inputs"].size
            filled += int((batch["segment_ids"] > 0).sum())
        steps, count, spent = len(loader), 0, 0.0
        while spent < seconds:
            start = time.process_time()
            for step in range(count, count + 20):
                loader[step % steps]
            count, spent = count + 20, spent + time.process_time() - start
    each = filled / steps
    return {
        "padding": 1 - filled / places,
        "batches": steps,
        "shapes": len(shapes),
        "tokens a batch": each,
        "ms a batch": 1000 * spent / count,
        "Mtok/s": each * count / spent / MEGA,
    }


def measure_documents(work: Path, seconds: float) -> dict[str, dict[str, float]]:
    if not (work / "pad/manifest.json").exists():
        make_documents(work)
    return {name: measure(*pair, seconds) for name, pair in settings_of(work).items()}


def show_documents(found: dict[str, dict[str, float]]) -> None:
    print(f"\ndocuments of 16 to 16,000 tokens, rows of at most {SEQ_LEN}, split if longer")
    names = ("padding", "batches", "shapes", "tokens a batch", "ms a batch", "Mtok/s")
    print(f"  {'':18}" + "".join(f"{name:>16}" for name in names))
    for name, figures in found.items():
        values = [f"{100 * figures['padding']:.1f} %", *(f"{figures[n]:,.4g}" for n in names[1:])]
        print(f"  {name:18}" + "".join(f"{value:>16}" for value in values), flush=True)
