"""Sources that are more than one file, as the .idx and the .bin of Megatron-LM.

a.bin a.idx       one source, named by the first of the two that was found
fingerprint       of the endings and the hashes of all its files
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain, islice

from dataprep.pipeline.sources.fingerprint import combine
from dataprep.pipeline.sources.known import FORMATS

# Of local files: the size and fingerprint of each.
Fingerprints = Callable[[Sequence[str]], list[tuple[int, str]]]
Kind = tuple[str, str]  # with the compression


def each_once(paths: Sequence[str], kinds: Sequence[Kind]) -> tuple[list[str], list[Kind]]:
    """Return the paths without those that a source before them has as its other file."""
    seen: set[str] = set()
    kept: list[int] = []
    for i, (path, (kind, _)) in enumerate(zip(paths, kinds, strict=True)):
        beside = _beside(path, kind)
        if seen & {*beside}:
            continue
        kept.append(i)
        if beside:
            seen.add(path)
    return [paths[i] for i in kept], [kinds[i] for i in kept]


def fingerprints_of(
    paths: Sequence[str], kinds: Sequence[str], of_files: Fingerprints
) -> list[tuple[int, str]]:
    """Return (size, fingerprint) of sources, of which some are several files."""
    beside = [_beside(path, kind) for path, kind in zip(paths, kinds, strict=True)]
    each = iter(of_files([*paths, *chain.from_iterable(beside)]))
    found = list(islice(each, len(paths)))
    for i, others in enumerate(beside):
        if others:
            whole = [found[i], *islice(each, len(others))]
            names = [os.path.splitext(path)[1] for path in (paths[i], *others)]
            files = sorted(zip(names, whole, strict=True))
            told = combine([name for name, _ in files], [digest for _, (_, digest) in files])
            # Files that were only looked at have no hash.
            found[i] = sum(size for size, _ in whole), told if whole[0][1] else ""
    return found


def _beside(path: str, kind: str) -> Sequence[str]:
    """Return the other files of a source; media have kinds of their own, and none of these."""
    return FORMATS[kind].beside(path) if kind in FORMATS else ()
