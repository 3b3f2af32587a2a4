"""Check errors.jsonl: a line for each quarantined record, which says where and why."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.storage.agreement import ERRORS
from dataprep.pipeline.storage.manifest import Manifest
from dataprep.pipeline.typed import decoder_of


class ErrorLine(msgspec.Struct):
    """A quarantined record."""

    file: str
    reason: str
    line: int | None
    byte_offset: int | None
    excerpt: str


def check_errors(folder: Path, manifest: Manifest) -> None:
    wanted = manifest.counts["documents_quarantined"]
    if not wanted:
        return  # then there is no such file: see `storage.agreement`
    path, decoder, count = folder / ERRORS, decoder_of(ErrorLine), 0
    with open(path, "rb") as file:
        for count, line in enumerate(file, 1):
            try:
                decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError) as error:
                raise CorruptError(f"line {count} of {path} is damaged: {error}") from None
    if count != wanted:
        raise CorruptError(
            f"{path} has {counted(count, 'line')}, the manifest counts {wanted:,} such records"
        )
