"""Why records are bad: the reasons, counted, the most frequent first.

not valid JSON: unexpected end of data (byte 17)     ┐ differ in their numbers alone:
not valid JSON: unexpected end of data (byte 208)    ┘ one reason, of 2 records
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

_NUMBER = re.compile(r"\d[\d,.]*")
MOST_KINDS = 10_000  # of reasons that are told apart


class BadRecord(Protocol):
    """A line of errors.jsonl."""

    file: str
    reason: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    count: int
    reason: str  # of the first such record
    file: str
    line: int | None

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"line {self.line} of {self.file}"


def count_reasons(records: Iterable[BadRecord]) -> list[Reason]:
    """Return the reasons, the most frequent first; among equals, the first that was met."""
    counts, firsts = Counter[str](), dict[str, BadRecord]()
    for record in records:
        kind = _NUMBER.sub("#", record.reason)
        if kind not in firsts and len(firsts) >= MOST_KINDS:
            kind = next(reversed(firsts))  # of so many kinds nobody reads the last
        firsts.setdefault(kind, record)
        counts[kind] += 1
    return [
        Reason(
            count=count, reason=firsts[kind].reason, file=firsts[kind].file, line=firsts[kind].line
        )
        for kind, count in counts.most_common()
    ]
