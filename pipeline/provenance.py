"""Where a document came from: its source, its line (or row) counted from 1, its first byte."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.pipeline.finish import PIECES


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    path: str
    line: int
    byte_offset: int  # -1 where the format has none

    def __str__(self) -> str:
        place = f" (byte {self.byte_offset})" if self.byte_offset >= 0 else ""
        return f"line {self.line} of {self.path}{place}"


def origin_of(folder: Path, manifest: dict[str, Any], shard: int, place: int) -> Origin:
    """Of the document at `place` in a shard."""
    entry = manifest["shards"][shard]["provenance"]
    row = np.load(folder / entry["path"], mmap_mode="r", allow_pickle=False)[place]
    pieces = json.loads((folder / PIECES).read_bytes())
    piece = pieces[entry["first_piece"] + int(row["piece"])]
    return Origin(
        path=manifest["sources"][piece["source"]]["path"],
        line=piece["first_line"] + int(row["line"]) + 1,
        byte_offset=int(row["offset"]),
    )
