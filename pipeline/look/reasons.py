"""Why records were quarantined: the reasons in errors.jsonl."""

from __future__ import annotations

from pathlib import Path

from dataprep.pipeline.look.checks.errors import ErrorLine
from dataprep.pipeline.storage.agreement import ERRORS
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.manifest import Manifest
from dataprep.pipeline.storage.objects import open_objects
from dataprep.pipeline.storage.reasons import Reason, count_reasons
from dataprep.pipeline.typed import decoder_of


def reasons_of(folder: Path | str, manifest: Manifest) -> list[Reason]:
    """Return the reasons, the most frequent first; of a folder in a bucket, too."""
    entry = next((entry for entry in manifest.files if entry.path == ERRORS), None)
    if entry is None:  # no record was quarantined: see `storage.agreement`
        return []
    decoder = decoder_of(ErrorLine)
    if isinstance(folder, str):
        listed = open_objects(folder).get(ERRORS).splitlines()
        return count_reasons(decoder.decode(text) for text in listed)
    check_file(folder, entry)
    with open(folder / ERRORS, "rb") as file:
        return count_reasons(decoder.decode(text) for text in file)
