"""What must go together in the manifest of an export, whose files are named as its trainer wants.

    shards/documents-00000-of-00002.bin, .idx      megatron
    train/train_000000.arecord                     xlstm
    README.md, data/train-00000-of-00001.parquet   hf

`agreement` asks for it, with all that manifests of any kind must have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dataprep.pipeline.errors import short
from dataprep.pipeline.storage.kinds import ExportedManifest, files_of

_NAME = re.compile(r"([a-z][a-z0-9_]*/)?[A-Za-z0-9][A-Za-z0-9_-]*(\.[a-z0-9]+)+")
_TAKEN = "manifest.json"


def wrong_names_in(manifest: ExportedManifest) -> Iterator[str]:
    """Yield what is wrong with the names of files."""
    for entry in files_of(manifest):
        if not _NAME.fullmatch(entry.path) or entry.path == _TAKEN:
            yield f"it lists {short(entry.path)!r}, which is outside the export or no file of one"


def wrong_counts_in(manifest: ExportedManifest) -> Iterator[str]:
    """Yield what is wrong with the format and the counts."""
    if manifest.config.get("to") != manifest.format:
        yield "its format is not the one of its config"
    sums = {
        "tokens": sum(shard.num_tokens for shard in manifest.shards),
        "records": sum(shard.num_records for shard in manifest.shards),
    }
    for name, total in sums.items():
        if manifest.counts.get(name) != total:
            yield f"its {name} is {manifest.counts.get(name)}, but its shards add up to {total}"
    if manifest.counts.get("documents_quarantined") != 0:
        yield "its counts lack documents_quarantined, which is 0 in an export"
