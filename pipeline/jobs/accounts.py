"""What became of the records of each source, added up over the shards of all tasks.

tallies of shards   {"0": read 5, bad 1}  {"0": read 3, "1": read 2}
sums by source      0: read 8, bad 1      1: read 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from dataprep.pipeline.types import Source


def sums_of(tallies: Iterable[Mapping[str, Any]], num_sources: int) -> list[Counter[str]]:
    """Return the sums of each source; a tally has counts by the index of the source.

    The counts in `marked` are added under their own names.
    """
    sums = [Counter[str]() for _ in range(num_sources)]
    for by_source in tallies:
        for source, tally in by_source.items():
            counts = asdict(tally)
            sums[int(source)].update(counts.pop("marked", {}))
            sums[int(source)].update(counts)
    return sums


def has_bad(tallies: Mapping[str, Any]) -> bool:
    """Return whether any record of a shard was bad."""
    return any(tally.bad for tally in tallies.values())


def entry_of(source: Source, sums: Mapping[str, int], on_error: str) -> dict[str, Any]:
    """Return what the manifest lists of any source; bad records are quarantined or dropped."""
    quarantine = on_error == "quarantine"
    return {
        "path": source.path,
        "kind": source.kind,
        "bytes": source.num_bytes,
        "fingerprint": source.fingerprint,
        "records": sums["read"],
        "written": sums["written"],
        "quarantined": sums["bad"] if quarantine else 0,
        "dropped": 0 if quarantine else sums["bad"],
    }
