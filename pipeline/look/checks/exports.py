"""Check a shard of an export: its bytes are hashed, so what is left is that its counts add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from dataprep.pipeline.storage.entries import ExportShard
from dataprep.pipeline.storage.manifest import ExportedManifest


def said_of_exports(folder: Path, manifest: ExportedManifest) -> dict[str, int]:
    return {name: manifest.counts[name] for name in ("records", "tokens")}


def exports_checker(
    folder: Path, manifest: ExportedManifest
) -> Callable[[ExportShard], Counter[str]]:
    return lambda shard: Counter(records=shard.num_records, tokens=shard.num_tokens)
