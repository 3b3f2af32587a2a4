"""Why records were quarantined: the reasons in errors.jsonl."""

from __future__ import annotations

from pathlib import Path

from dataprep.pipeline.look.checks.errors import ErrorLine
from dataprep.pipeline.storage.agreement import ERRORS
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.manifest import Manifest
from dataprep.pipeline.storage.reasons import Reason, count_reasons
from dataprep.pipeline.typed import decoder_of


def reasons_of(folder: Path, manifest: Manifest) -> list[Reason]:
    """Return the reasons, the most frequent first."""
    entry = next((entry for entry in manifest.files if entry.path == ERRORS), None)
    if entry is None:  # no record was quarantined: see `storage.agreement`
        return []
    check_file(folder, entry)
    decoder = decoder_of(ErrorLine)
    with open(folder / ERRORS, "rb") as file:
        return count_reasons(decoder.decode(text) for text in file)
