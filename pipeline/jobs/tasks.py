"""Work that one worker does: pieces of sources, put together up to a size.

How work is cut depends on the input and the config alone, never on workers; a task is known by the
content of what it reads, so that a run that is started again finds what it has already done.
"""

from __future__ import annotations

from collections.abc import Sequence

from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.types import Piece, Source, Task


def make_task(
    sources: Sequence[Source], index: int, pieces: Sequence[Piece], num_bytes: int, limit: int = -1
) -> Task:
    """A task of these pieces; `limit`: stop after so many records, -1: read all."""
    content = {
        "pieces": [[sources[p.source].fingerprint, p.start, p.stop, p.first_line] for p in pieces],
        "limit": limit,
    }
    return Task(
        index=index,
        identity=fingerprint(content).removeprefix("sha256:")[:16],
        pieces=tuple(pieces),
        num_bytes=num_bytes,
        limit=limit,
    )


def task_name(task: Task) -> str:
    """What the files of a task begin with: 000007-1f3a…"""
    return f"{task.index:06d}-{task.identity}"
