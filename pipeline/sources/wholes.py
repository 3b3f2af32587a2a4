"""Sources that are more than one file, as the .idx and the .bin of Megatron-LM.

a.bin a.idx       one source, named by the first of the two that was found
fingerprint       of the endings and the hashes of all its files
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice

from dataprep.pipeline.sources.endings import kind_by_name
from dataprep.pipeline.sources.fingerprint import combine
from dataprep.pipeline.sources.known import known_format
from dataprep.pipeline.types import Source

# The size and fingerprint of each of some files.
Fingerprints = Callable[[Sequence[str]], list[tuple[int, str]]]
Kind = tuple[str, str]  # with the compression
Options = Mapping[str, str]


def each_once(paths: Sequence[str], kinds: Sequence[Kind]) -> tuple[list[str], list[Kind]]:
    """Return the paths without those that a source before them has as its other file."""
    seen: set[str] = set()
    kept: list[int] = []
    for i, (path, (kind, _)) in enumerate(zip(paths, kinds, strict=True)):
        beside = _beside(path, kind, {})
        if beside and seen & {*beside}:
            continue
        kept.append(i)
        if beside:
            seen.add(path)
    return [paths[i] for i in kept], [kinds[i] for i in kept]


def without_parts(paths: Sequence[str]) -> Sequence[str]:
    """Return the paths without those that are only read with another of them, as a .ds.index."""
    if all(map(kind_by_name, paths)):
        return paths
    read_with = beside_all(paths)
    return [path for path in paths if path not in read_with or kind_by_name(path)]


def beside_all(paths: Sequence[str]) -> frozenset[str]:
    """Return the other files of the sources that these names are of, by their endings."""
    known = [(path, kind_by_name(path)) for path in paths]
    return frozenset(other for path, kind in known if kind for other in _beside(path, kind[0], {}))


def all_files(source: Source) -> tuple[str, ...]:
    """Return the files of a source, of which the first names it.

    >>> all_files(Source(kind="megatron", path="a.bin", num_bytes=9, fingerprint=""))
    ('a.bin', 'a.idx')
    """
    return (source.path, *_beside(source.path, source.kind, source.options))


def fingerprints_of(
    paths: Sequence[str], kinds: Sequence[str], options: Sequence[Options], of_files: Fingerprints
) -> list[tuple[int, str]]:
    """Return (size, fingerprint) of sources, of which some are several files."""
    beside = [_beside(*source) for source in zip(paths, kinds, options, strict=True)]
    each = iter(of_files([*paths, *chain.from_iterable(beside)]))
    found = list(islice(each, len(paths)))
    for i, others in enumerate(beside):
        if others:
            whole = [found[i], *islice(each, len(others))]
            found[i] = sum(size for size, _ in whole), _joined((paths[i], *others), whole)
    return found


def _joined(paths: Sequence[str], whole: Sequence[tuple[int, str]]) -> str:
    """Return the fingerprint of several files, whichever of them is named first."""
    names = [os.path.splitext(path)[1] for path in paths]
    if len({*names}) < len(names):  # then the first of them is always the same
        names = [f"{i}{name}" for i, name in enumerate(names)]
    prefix, colon, _ = whole[0][1].partition(":")
    if not colon:  # files that were only looked at have no hash
        return ""
    files = sorted((name, digest) for name, (_, digest) in zip(names, whole, strict=True))
    told = combine([name for name, _ in files], [digest for _, digest in files])
    return f"{prefix}:{told.partition(':')[2]}"


def _beside(path: str, kind: str, options: Options) -> Sequence[str]:
    """Return the other files of a source; media have kinds of their own, and none of these."""
    known = known_format(kind)
    return () if known is None else known.beside(path, options)
