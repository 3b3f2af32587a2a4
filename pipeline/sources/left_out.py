"""What to say of files in a folder that are not read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dataprep.pipeline.sources.endings import ONLY_IF_NAMED, unknown_ending
from dataprep.pipeline.storage.manifest import kind_of

_NAMED = 3  # files that a message names
_BY_ENDING = "not read from a folder by their endings"


def list_left_out(names: Sequence[str]) -> str:
    """Return what to say of files, and of datasets, whose names end in a slash.

    >>> list_left_out(["a.md", "b.bin", "c.pdf", "d.pdf", "e.pdf"])
    'left out: a.md, b.bin, c.pdf and 2 more (not read from a folder by their endings)'
    >>> list_left_out(["a.md", "out/"])
    'left out: a.md (not read from a folder by their endings); out/ (datasets of dataprep)'
    """
    datasets = [name for name in names if name.endswith("/")]
    files = [name for name in names if not name.endswith("/")]
    reasons = ((files, _BY_ENDING), (datasets, "datasets of dataprep"))
    told = [f"{_first_of(these)} ({reason})" for these, reason in reasons if these]
    return f"left out: {'; '.join(told)}" if told else ""


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def nothing_readable(folder: str, others: list[str]) -> str:
    """Return what a folder without readable files has, and what to do about it."""
    if not others:
        return ": it is empty"
    if not others[0]:
        return f": it is a {kind_of(folder)} dataset, made by dataprep already"
    more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
    named = next((name for name in others if name.lower().endswith(tuple(ONLY_IF_NAMED))), "")
    if not named:
        return f", only {others[0]}{more}: {unknown_ending(others[0])}"
    shown = os.path.join(folder, os.path.dirname(named), f"*{os.path.splitext(named)[1]}")
    return (
        f", only {others[0]}{more}; name the files: {shown} "
        f"({' and '.join(ONLY_IF_NAMED)} files are read only if named like this)"
    )
