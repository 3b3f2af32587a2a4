"""Why records were quarantined: the reasons in errors.jsonl, the most frequent first.

not valid JSON: unexpected end of data (byte 17)     ┐ differ in their numbers alone:
not valid JSON: unexpected end of data (byte 208)    ┘ one reason, of 2 records
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.look.checks.errors import ErrorLine
from dataprep.pipeline.storage.agreement import ERRORS
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.manifest import Manifest
from dataprep.pipeline.typed import decoder_of

_NUMBER = re.compile(r"\d[\d,.]*")
MOST_KINDS = 10_000  # of reasons that are told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    count: int
    reason: str  # of the first such record
    file: str
    line: int | None

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"line {self.line} of {self.file}"


def reasons_of(folder: Path, manifest: Manifest) -> list[Reason]:
    """Return the reasons, the most frequent first; among equals, the first that was met."""
    entry = next((entry for entry in manifest.files if entry.path == ERRORS), None)
    if entry is None:  # no record was quarantined: see `storage.agreement`
        return []
    check_file(folder, entry)
    counts, firsts = Counter[str](), dict[str, ErrorLine]()
    decoder = decoder_of(ErrorLine)
    with open(folder / ERRORS, "rb") as file:
        for text in file:
            line = decoder.decode(text)
            kind = _NUMBER.sub("#", line.reason)
            if kind not in firsts and len(firsts) >= MOST_KINDS:
                kind = next(reversed(firsts))  # of so many kinds nobody reads the last
            firsts.setdefault(kind, line)
            counts[kind] += 1
    return [
        Reason(
            count=count, reason=firsts[kind].reason, file=firsts[kind].file, line=firsts[kind].line
        )
        for kind, count in counts.most_common()
    ]
