"""From the shards that tasks committed to a dataset of codes: add up, agree on types, move.

Shards found the types of their columns each for itself: a column that is null in all of one shard,
or whole numbers here and fractions there, has another type in the next. What fits them all is
found from the markers, and shards that differ are written again beside the old ones. Every step
can be done again: a run killed in here finishes when it is run again.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from dataprep.pipeline.encode.plan import EncodePlan
from dataprep.pipeline.encode.tables import (
    CodeShard,
    code_dtype,
    committed_shards,
    shard_file,
    task_stem,
    write_table,
)
from dataprep.pipeline.encoders import AudioEncoder, Encoder, ImageEncoder, find_encoder
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import commit_files, sync_folder, temporary, write_atomic
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, write_manifest
from dataprep.pipeline.tokenize.manifest import move, source_entries

NAME = "codes"
ERRORS = "errors.jsonl"
UNRECORDED = ("out", "workers", "inputs")  # of the config: not about this dataset
DISTRIBUTIONS = {"PIL": "pillow"}  # where a package is not called what it is imported by


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    path: Path  # of its Parquet file
    errors: Path
    shard: CodeShard
    file: dict[str, Any]  # size and hash, of the file as it will be moved


def collect(plan: EncodePlan, work: Path) -> list[Committed]:
    """All shards in order, those of another type than the rest written again."""
    found = []
    for task in plan.tasks:
        stem = task_stem(work, task)
        shards = committed_shards(stem)
        assert shards, f"task {task.index} has no shard"
        assert shards[-1].final, f"task {task.index} is not done"
        for number, shard in enumerate(shards):
            found.append(
                Committed(
                    path=shard_file(stem, number, "shards"),
                    errors=shard_file(stem, number, "errors"),
                    shard=shard,
                    file=shard.files["shards"],
                )
            )
    full = [c for c in found if c.shard.num_records]
    common = common_schema([c.shard.schema for c in full])
    return [_retyped(c, common) if c.shard.num_records else c for c in found]


def common_schema(schemas: Sequence[str]) -> Any:
    """One that every shard can be written with; None without shards."""
    import pyarrow as pa

    parsed = [parse_schema(text) for text in dict.fromkeys(schemas)]
    if not parsed:
        return None
    try:
        merged = pa.unify_schemas(parsed, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(
            f"a column has values of types that do not go together ({error}); make them one type, "
            "or choose other columns with --keep; what was encoded so far is kept"
        ) from None
    first, last = parsed[0].names[0], parsed[0].names[-1]
    middle = sorted(set(merged.names) - {first, last})
    return pa.schema([merged.field(name) for name in (first, *middle, last)])


def parse_schema(text: str) -> Any:
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _retyped(committed: Committed, common: Any) -> Committed:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if parse_schema(committed.shard.schema).equals(common):
        return committed
    path = committed.path.with_suffix(".retyped.parquet")
    marker = path.with_suffix(".done")
    if not marker.exists():
        table = pq.read_table(committed.path)
        columns = {}
        for field in common:
            try:
                columns[field.name] = (
                    table.column(field.name).cast(field.type)
                    if field.name in table.column_names
                    else pa.nulls(table.num_rows, field.type)
                )
            except pa.ArrowException as error:
                raise InputError(
                    f"column {field.name!r} cannot be of type {field.type} throughout: {error}; "
                    "choose other columns with --keep; what was encoded so far is kept"
                ) from None
        retyped = pa.table(columns, schema=common.with_metadata(table.schema.metadata))
        write_table(retyped, temporary(path))
        files = commit_files({"shards": path})
        sync_folder(path.parent)
        write_atomic(marker, json.dumps(files["shards"]).encode())
    return Committed(
        path=path,
        errors=committed.errors,
        shard=committed.shard,
        file=json.loads(marker.read_bytes()),
    )


def make_manifest(
    plan: EncodePlan, encoder: Encoder, committed: Sequence[Committed]
) -> dict[str, Any]:
    full = [c for c in committed if c.shard.num_records]
    sources = source_entries(
        plan.sources,
        (c.shard.tallies for c in committed),
        on_error=plan.config["on_error"],
        counted=("frames", "codes"),
    )
    common = common_schema([c.shard.schema for c in full])
    config = {key: value for key, value in plan.config.items() if key not in UNRECORDED}
    return {
        "format_version": FORMAT_VERSION,
        "kind": "encoded",
        "fingerprint": plan.fingerprint,
        "parents": [],
        "config": config,
        "tokenizer": None,
        "masks": [],
        "token_dtype": code_dtype(encoder.codebook_size).name,
        "encoder": {
            "name": plan.config["encoder"],
            "kind": plan.kind,
            "identity": dict(encoder.identity),
            "codebook_size": encoder.codebook_size,
            **_shape(plan, encoder),
            "made_with": _versions(plan.config["encoder"]),
        },
        "columns": {} if common is None else {field.name: str(field.type) for field in common},
        "sources": sources,
        "shards": [
            {
                "path": _name(i, len(full)),
                "num_records": c.shard.num_records,
                "num_tokens": c.shard.num_codes,
                **c.file,
            }
            for i, c in enumerate(full)
        ],
        "counts": {
            "documents_read": sum(s["records"] for s in sources),
            "documents_written": sum(s["written"] for s in sources),
            "documents_quarantined": sum(s["quarantined"] for s in sources),
            "documents_dropped": sum(s["dropped"] for s in sources),
            "frames": sum(s["frames"] for s in sources),
            "codes": sum(s["codes"] for s in sources),
        },
        "identity": plan.identity,
    }


def finish(
    plan: EncodePlan,
    out: Path,
    work: Path,
    committed: Sequence[Committed],
    manifest: dict[str, Any],
) -> None:
    """Move the shards to their names, write the rest, the manifest last."""
    (out / "shards").mkdir(exist_ok=True)
    full = [c for c in committed if c.shard.num_records]
    for i, c in enumerate(full):
        move(c.path, out / _name(i, len(full)), c.file["num_bytes"])
    manifest["files"] = []
    if manifest["counts"]["documents_quarantined"]:
        with open(temporary(out / ERRORS), "w", encoding="utf-8") as file:
            file.writelines(c.errors.read_text("utf-8") for c in committed)
        manifest["files"] = [{"path": ERRORS, **commit_files({"errors": out / ERRORS})["errors"]}]
    sync_folder(out / "shards")
    sync_folder(out)
    write_manifest(out, manifest)
    shutil.rmtree(work)


def _name(i: int, count: int) -> str:
    return f"shards/{NAME}-{i:05d}-of-{count:05d}.parquet"


def _shape(plan: EncodePlan, encoder: Encoder) -> dict[str, int]:
    if plan.kind == "vision":
        return {"tokens_per_frame": cast(ImageEncoder, encoder).tokens_per_frame}
    audio = cast(AudioEncoder, encoder)
    return {"num_codebooks": audio.num_codebooks, "rate": audio.rate}


def _versions(name: str) -> dict[str, str]:
    """Of the packages that decode and encode: another one may read a file a little differently."""
    return dict(_installed(find_encoder(name).packages))


def _installed(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        name = DISTRIBUTIONS.get(package, package)
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "unknown"
