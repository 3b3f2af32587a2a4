"""Check what is in a dataset against its manifest, shard by shard.

    documents   ids in range, ends and mask runs ascend, index and provenance match
    rows        the same, and the rules of `row_rules`; provenance has every piece of every row
    exports     as many records and tokens as the manifest says; their bytes are hashed
    codes       codes in range, whole frames, the columns that the manifest lists
    sources     of many: they add up to what the manifest says of them
    listing     nothing in the folder that the manifest does not list, no link, no gap
    growth      of a dataset that grows: generations are what their parts join to
    forgotten   nothing is left of documents that were taken out
    errors      errors.jsonl has a line for each quarantined record

Each check of a shard returns counts under the names that `said_by` has for them, so that all that
was counted can be compared with all that the manifest says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dataprep.pipeline.look.checks.codes import codes_checker, said_of_codes
from dataprep.pipeline.look.checks.documents import documents_checker, said_of_documents
from dataprep.pipeline.look.checks.exports import exports_checker, said_of_exports
from dataprep.pipeline.look.checks.rows import rows_checker, said_of_rows
from dataprep.pipeline.storage.manifest import (
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
)

CheckShard = Callable[[Any], Counter[str]]
MakeChecker = Callable[[Path, Any], CheckShard]
SaidBy = Callable[[Path, Any], Mapping[str, int]]

_BY_KIND: Mapping[type[Manifest], tuple[MakeChecker, SaidBy]] = {
    TokenizedManifest: (documents_checker, said_of_documents),
    PackedManifest: (rows_checker, said_of_rows),
    EncodedManifest: (codes_checker, said_of_codes),
    ExportedManifest: (exports_checker, said_of_exports),
}


def checker_of(folder: Path, manifest: Manifest) -> CheckShard:
    """Return the function that checks one shard of the dataset and counts what is in it."""
    return _BY_KIND[type(manifest)][0](folder, manifest)


def said_by(folder: Path, manifest: Manifest) -> Mapping[str, int]:
    """Return what the manifest says of the things that are counted."""
    return _BY_KIND[type(manifest)][1](folder, manifest)
