"""From the shards that tasks committed to a dataset: add up, name, move, manifest last.

Every step can be done again: a run killed in here finishes when it is run again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataprep.pipeline.documents.rules import named_modalities
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import commit, hash_file, sync_folder, temporary, write_atomic
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, PIECES, write_manifest
from dataprep.pipeline.tokenize.plan import Plan
from dataprep.pipeline.tokenize.sink import Shard, committed_shards, shard_path
from dataprep.pipeline.tokenize.worker import task_stem
from dataprep.pipeline.types import Source, Task

NAME = "documents"
ENDINGS = {"shards": ".arrayrecord", "index": ".npy", "provenance": ".npy"}
ERRORS = "errors.jsonl"
MEASURED = ("seconds", "megabytes_per_second", "reference_megabytes_per_second")  # of a proof
UNRECORDED = ("out", "workers", "pack", "encode")  # of the config: not about this dataset

CODE_COUNTS = ("codes_dropped", "codes_thinned")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Committed:
    task: Task
    number: int  # of the shard within its task
    first_piece: int  # of the task, among the pieces of all tasks
    shard: Shard


def make_manifest(plan: Plan, work: Path, selection: Mapping[str, Any]) -> dict[str, Any]:
    committed = list(_committed(plan, work))
    full = [c for c in committed if c.shard.num_documents]
    sources = source_entries(
        plan.sources,
        (c.shard.tallies for c in committed),
        on_error=plan.config["on_error"],
        counted=("empty", "tokens"),
    )
    files = plan.vocabulary.files
    by_reference = sum(t.by_reference for c in committed for t in c.shard.tallies.values())
    written = sum(s["written"] for s in sources)
    config = {key: value for key, value in plan.config.items() if key not in UNRECORDED}
    return {
        "format_version": FORMAT_VERSION,
        "kind": "tokenized",
        "fingerprint": plan.fingerprint,
        "parents": [],
        "config": config,
        "tokenizer": {
            "sha256": files.sha256,
            "kind": files.kind,
            "vocab_size": files.vocab_size,
            "bos": plan.vocabulary.files.bos_id,
            "eos": plan.vocabulary.files.eos_id,
            "pad": plan.vocabulary.files.pad_id,
            "engine": {
                **_without_speeds(selection),
                "documents": {"engine": written - by_reference, "reference": by_reference},
            },
        },
        **{
            modality: {**asdict(tags), "named": modality in named_modalities(plan.config)}
            for modality, tags in plan.vocabulary.tags.items()
        },
        "sources": sources,
        "seq_len": None,
        "token_dtype": plan.token_dtype,
        "max_id": plan.max_id,
        "masks": list(plan.masks),
        "shards": [_shard_entry(c, i, len(full)) for i, c in enumerate(full)],
        "counts": _counts(plan, committed, sources),
        "identity": plan.identity,
    }


def finish(plan: Plan, out: Path, work: Path, manifest: dict[str, Any]) -> None:
    """Move the shards to their names, write the rest, the manifest last."""
    committed = list(_committed(plan, work))
    for role in ENDINGS:
        (out / role).mkdir(exist_ok=True)
    full = [c for c in committed if c.shard.num_documents]
    for i, c in enumerate(full):
        for role in ENDINGS:
            source = shard_path(task_stem(work, c.task), c.number, role)
            target = out / _name(role, i, len(full))
            move(source, target, c.shard.files[role]["num_bytes"])
    first_lines = _first_lines(plan, committed)
    pieces = [
        {"source": piece.source, "first_line": first_lines[i]}
        for i, piece in enumerate(p for task in plan.tasks for p in task.pieces)
    ]
    write_atomic(out / PIECES, json.dumps(pieces, indent=0).encode())
    extra = [PIECES]
    if plan.config["on_error"] == "quarantine" and manifest["counts"]["documents_quarantined"]:
        with open(temporary(out / ERRORS), "w", encoding="utf-8") as file:
            file.writelines(_error_lines(plan, work, committed, first_lines))
        commit(temporary(out / ERRORS), out / ERRORS)
        extra.append(ERRORS)
    manifest["files"] = [
        {"path": name, "num_bytes": (out / name).stat().st_size, "xxh3_128": hash_file(out / name)}
        for name in extra
    ]
    for role in ENDINGS:
        sync_folder(out / role)
    sync_folder(out)
    write_manifest(out, manifest)
    shutil.rmtree(work)


def _without_speeds(selection: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured differs from run to run, so it stays out of the manifest."""
    proof = selection.get("proof")
    if proof is not None:
        proof = {k: v for k, v in proof.items() if k not in MEASURED}
    return {**selection, "proof": proof}


def _committed(plan: Plan, work: Path) -> Iterator[_Committed]:
    first_piece = 0
    for task in plan.tasks:
        shards = committed_shards(task_stem(work, task))
        assert shards, f"task {task.index} has no shard"
        assert shards[-1].final, f"task {task.index} is not done"
        for number, shard in enumerate(shards):
            yield _Committed(task=task, number=number, first_piece=first_piece, shard=shard)
        first_piece += len(task.pieces)


def _name(role: str, i: int, count: int) -> str:
    return f"{role}/{NAME}-{i:05d}-of-{count:05d}{ENDINGS[role]}"


def _shard_entry(c: _Committed, i: int, count: int) -> dict[str, Any]:
    files = c.shard.files
    return {
        "path": _name("shards", i, count),
        "num_records": len(c.shard.record_bytes),
        "num_documents": c.shard.num_documents,
        "num_tokens": c.shard.num_tokens,
        **files["shards"],
        "record_bytes": c.shard.record_bytes,
        "index": {"path": _name("index", i, count), **files["index"]},
        "provenance": {
            "path": _name("provenance", i, count),
            "first_piece": c.first_piece,
            **files["provenance"],
        },
    }


def source_entries(
    sources: Sequence[Source],
    tallies: Iterable[Mapping[str, Any]],
    *,
    on_error: str,
    counted: Sequence[str],
) -> list[dict[str, Any]]:
    """What became of the records of each source; `tallies` of shards, by the source's index."""
    sums = [Counter[str]() for _ in sources]
    for by_source in tallies:
        for source, tally in by_source.items():
            sums[int(source)].update(asdict(tally))
    quarantine = on_error == "quarantine"
    return [
        {
            "path": source.path,
            "kind": source.kind,
            "bytes": source.num_bytes,
            "fingerprint": source.fingerprint,
            "records": total["read"],
            "written": total["written"],
            "quarantined": total["bad"] if quarantine else 0,
            "dropped": 0 if quarantine else total["bad"],
            **{name: total[name] for name in counted},
        }
        for source, total in zip(sources, sums, strict=True)
    ]


def _counts(
    plan: Plan, committed: list[_Committed], sources: list[dict[str, Any]]
) -> dict[str, int]:
    total = Counter[str]()
    for c in committed:
        for tally in c.shard.tallies.values():
            total.update(asdict(tally))
    counts = {
        "documents_read": total["read"],
        "documents_written": total["written"],
        "documents_empty": total["empty"],
        "documents_quarantined": sum(s["quarantined"] for s in sources),
        "documents_dropped": sum(s["dropped"] for s in sources),
        "documents_split": 0,
        "documents_truncated": 0,
        "tokens": total["tokens"],
        "target_tokens": total["target_tokens"],
        "padding": 0,
    }
    modalities = plan.masks[1:]
    if modalities:
        names = (*(f"{modality}_tokens" for modality in modalities), *CODE_COUNTS)
        counts |= {name: total[name] for name in names}
    gone = ("written", "empty", "quarantined", "dropped")
    assert counts["documents_read"] == sum(counts[f"documents_{key}"] for key in gone)
    return counts


def _first_lines(plan: Plan, committed: list[_Committed]) -> list[int]:
    """Lines before each piece in its source, pieces of all tasks in order."""
    lines: dict[int, int] = {}  # by piece, among all
    for c in committed:
        for place, count in c.shard.lines.items():
            lines[c.first_piece + int(place)] = count
    result: list[int] = []
    total = Counter[int]()  # lines so far, by source
    for i, piece in enumerate(p for task in plan.tasks for p in task.pieces):
        result.append(total[piece.source])
        total[piece.source] += lines.get(i, 0)
    return result


def _error_lines(
    plan: Plan, work: Path, committed: list[_Committed], first_lines: list[int]
) -> Iterator[str]:
    for c in committed:
        path = shard_path(task_stem(work, c.task), c.number, "errors")
        with open(path, encoding="utf-8") as file:
            for line in file:
                error = json.loads(line)
                source = c.task.pieces[error["piece"]].source
                entry = {
                    "file": plan.sources[source].path,
                    "line": first_lines[c.first_piece + error["piece"]] + error["line"] + 1,
                    "byte_offset": error["offset"],
                    "reason": error["reason"],
                }
                yield json.dumps(entry) + "\n"


def move(source: Path, target: Path, num_bytes: int) -> None:
    if source.exists():
        os.replace(source, target)
    if not target.exists() or target.stat().st_size != num_bytes:
        raise CorruptError(f"{target.name} was lost or changed; start anew with --overwrite")
