"""From the shards that packing committed to a packed dataset: add up, name, move, manifest last."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import sync_folder
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.strategies import Counts
from dataprep.pipeline.pack.worker import (
    ENDINGS,
    PackedShard,
    PackPlan,
    PackTask,
    committed,
    shard_file,
)
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, fingerprint, write_manifest
from dataprep.pipeline.storage.rows import ends_dtype
from dataprep.pipeline.tokenize.manifest import move

NAME = "rows"
NEUTRAL = frozenset({"workers"})  # keys that do not decide what is written


def make_manifest(
    corpus: Corpus,
    plan: PackPlan,
    counts: Counts,
    config: dict[str, Any],
    identity: dict[str, Any],
    work: Path,
) -> dict[str, Any]:
    shards = _shards(plan, work)
    full = [shard for _, shard in shards if shard.num_rows]
    first = corpus.manifests[0]
    num_rows = sum(shard.num_rows for shard in full)
    num_tokens = sum(shard.num_tokens for shard in full)
    if not num_rows and corpus.num_documents:
        raise InputError("packing left no row at all: every document was dropped; set --overflow")
    return {
        "format_version": FORMAT_VERSION,
        "kind": "packed",
        "fingerprint": fingerprint(identity),
        "parents": [manifest["fingerprint"] for manifest in corpus.manifests],
        "config": {**first["config"], "pack": {k: config[k] for k in config if k not in NEUTRAL}},
        "tokenizer": first["tokenizer"],
        **{m: corpus.tags(m) for m in corpus.masks[1:]},
        "sources": [
            {
                "path": str(folder),
                "bytes": sum(shard["num_bytes"] for shard in manifest["shards"]),
                "fingerprint": manifest["fingerprint"],
                "records": manifest["counts"]["documents_written"],
            }
            for folder, manifest in zip(corpus.folders, corpus.manifests, strict=True)
        ],
        "seq_len": config["seq_len"],
        "token_dtype": corpus.token_dtype,
        "ends_dtype": ends_dtype(config["seq_len"]),
        "max_id": max(manifest["max_id"] for manifest in corpus.manifests),
        "pad": plan.pad,
        "compression": config["compression"],
        "masks": list(corpus.masks),
        "shards": [_shard_entry(shard, i, len(full)) for i, shard in enumerate(full)],
        "counts": {
            "documents_read": counts.documents,
            "documents_written": counts.documents - counts.documents_dropped,
            "documents_empty": counts.documents_empty,
            "documents_quarantined": 0,
            "documents_split": counts.documents_split,
            "documents_truncated": counts.documents_truncated,
            "documents_dropped": counts.documents_dropped,
            "tokens": num_tokens,
            "tokens_read": counts.tokens,
            "tokens_shared": counts.tokens_shared,
            "tokens_truncated": counts.tokens_truncated,
            "tokens_dropped": counts.tokens_dropped,
            "target_tokens": sum(shard.num_targets for shard in full),
            "padding": num_rows * plan.capacity - num_tokens,
            "rows": num_rows,
            "rows_without_target": sum(shard.rows_without_target for _, shard in shards),
            "rows_dropped": counts.rows - num_rows,
            "tokens_in_dropped_rows": sum(s.tokens_in_dropped_rows for _, s in shards),
            "segments": sum(shard.num_pieces for shard in full),
            "blocks_cut": counts.blocks_cut,
        },
        "identity": identity,
    }


def _shards(plan: PackPlan, work: Path) -> list[tuple[PackTask, PackedShard]]:
    found = []
    for task in plan.tasks:
        shard = committed(work, task)
        assert shard is not None, f"task {task.index} is not done"
        found.append((task, shard))
    return found


def _name(role: str, i: int, count: int) -> str:
    ending = ".arrayrecord" if role == "shards" else ".npy"
    return f"{role}/{NAME}-{i:05d}-of-{count:05d}{ending}"


def _shard_entry(shard: PackedShard, i: int, count: int) -> dict[str, Any]:
    return {
        "path": _name("shards", i, count),
        "num_records": shard.num_rows,
        "num_tokens": shard.num_tokens,
        **shard.files["shards"],
        "index": {"path": _name("index", i, count), **shard.files["index"]},
        "provenance": {"path": _name("provenance", i, count), **shard.files["provenance"]},
    }


def finish(plan: PackPlan, out: Path, work: Path, manifest: dict[str, Any]) -> None:
    for role in ENDINGS:
        (out / role).mkdir(exist_ok=True)
    full = [(task, shard) for task, shard in _shards(plan, work) if shard.num_rows]
    for i, (task, shard) in enumerate(full):
        for role in ENDINGS:
            target = out / _name(role, i, len(full))
            move(shard_file(work, task, role), target, shard.files[role]["num_bytes"])
    for role in ENDINGS:
        sync_folder(out / role)
    sync_folder(out)
    write_manifest(out, manifest)
    shutil.rmtree(work)
