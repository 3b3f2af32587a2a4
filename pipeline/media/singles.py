"""The media of sources one by one: a file with those beside it, a tar, a table.

    photos/                a.jpg, a.txt, b.jpg         two singles: a.jpg with its text, and b.jpg
    photos/c.tar           any number of pictures      one

So of a folder that grows, what is new can be read alone.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from dataprep.pipeline.media.find import FoundMedia, media_of
from dataprep.pipeline.media.holders import holder_of
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.sources.fingerprint import combine
from dataprep.pipeline.types import SingleMedia


def singles_of(found: Sequence[FoundMedia]) -> list[SingleMedia]:
    """Return all that the sources consist of, in order."""
    return [single for item in found for single in _singles(item)]


def only(found: Sequence[FoundMedia], chosen: Collection[int]) -> tuple[FoundMedia, ...]:
    """Return sources of some of their media, which are told by their places in `singles_of`."""
    wanted, first, kept = set(chosen), 0, list[FoundMedia]()
    for item in found:
        can_be_parted = holder_of(item.source).can_be_parted
        count = len(item.entries) if can_be_parted else 1
        own = [i for i in range(count) if first + i in wanted]
        first += count
        if not can_be_parted:
            kept += [item] if own else []
        elif own:
            ends = _ends(item)
            hashes = [digest for i in own for digest in item.hashes[ends[i] : ends[i + 1]]]
            kept.append(media_of(item.source.path, [item.entries[i] for i in own], hashes))
    return tuple(kept)


def _singles(item: FoundMedia) -> Iterator[SingleMedia]:
    source = item.source
    if not holder_of(source).can_be_parted:
        yield SingleMedia(path=source.path, fingerprint=source.fingerprint)
        return
    for entry, (start, stop) in zip(item.entries, pairwise(_ends(item)), strict=True):
        yield SingleMedia(
            path=os.path.join(source.path, entry.name),
            fingerprint=combine(entry.names, item.hashes[start:stop]),
        )


def _ends(item: FoundMedia) -> list[int]:
    """Return where the files of each entry begin and end."""
    ends: list[int] = offsets_of([len(entry.names) for entry in item.entries]).tolist()
    return ends
