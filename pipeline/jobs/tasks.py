"""Tasks: pieces of sources, put together up to a size.

How work is cut depends only on the input and the config, never on workers. A task is named by the
content that it reads, so that a run that is continued finds what has been done.
"""

from __future__ import annotations

from collections.abc import Sequence

from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.types import Piece, Source, Task


def make_task(
    sources: Sequence[Source],
    index: int,
    pieces: Sequence[Piece],
    num_bytes: int,
    *,
    sizes: Sequence[int] = (),
    limit: int = -1,
) -> Task:
    """Return a task of these pieces; it stops after `limit` records, -1 reads all."""
    content = {
        "pieces": [[sources[p.source].fingerprint, p.start, p.stop, p.first_line] for p in pieces],
        "limit": limit,
    }
    return Task(
        index=index,
        identity=fingerprint(content).removeprefix("sha256:")[:16],
        pieces=tuple(pieces),
        num_bytes=num_bytes,
        sizes=tuple(sizes),
        limit=limit,
    )


def task_name(task: Task) -> str:
    """Return what the names of a task's files begin with: 000007-1f3a…"""
    return f"{task.index:06d}-{task.identity}"
