"""Find the documents of a tokenized part that requests mean: all requests in one go over the part.

content 1cb9f4ab…   ─► documents 3, 17      by the keys of the documents
id = 17             ─► document 17
line 12 of 99aa…    ─► document 11          by where they came from
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UnsetType
from numpy.typing import NDArray

from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.run.forgotten import ForgetRequest
from dataprep.pipeline.run.named import Named
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.storage.checked import FilesRead
from dataprep.pipeline.storage.keys import (
    DOCUMENT_KEY,
    OF_KEY,
    content_of_hex,
    groups_of,
    hex_of_content,
    map_keys,
)
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.origins import Origins, origins_of
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.types import Offsets

Meant = tuple[ForgetRequest, Offsets]  # and the documents that it means


class DocumentFinder:
    """Finds the documents of a tokenized part that requests mean."""

    def __init__(self, place: Path, manifest: TokenizedManifest) -> None:
        self._place, self._manifest = place, manifest
        self._origins: Origins | None = None
        self._keys: list[NDArray[Any]] | None = None  # of each shard, mapped
        self._watch = FilesRead()

    @property
    def has_keys(self) -> bool:
        shards = self._manifest.shards
        return bool(shards) and not isinstance(shards[0].keys, UnsetType)

    def gone(self) -> Offsets:
        """Return the documents that were taken out of this version of the part."""
        return forgotten_in(self._place, self._manifest)

    def find(self, requests: Sequence[ForgetRequest]) -> Offsets:
        """Return the documents, ascending."""
        found = [np.zeros(0, np.int64), *(each for _, each in self.find_each(requests))]
        return np.unique(np.concatenate(found))

    def find_each(self, requests: Sequence[ForgetRequest]) -> Iterator[Meant]:
        """Yield each request that means documents here, and these."""
        by_content = [request for request in requests if request.content]
        by_key = [request for request in requests if self._knows(request.key)]
        by_line = [request for request in requests if request.path and not request.key]
        if by_content and self.has_keys:
            yield from self._by_content(by_content)
        if by_key:
            yield from self._by_key(by_key)
        if by_line:
            yield from self._by_line(by_line)
        self._watch.check_unchanged()

    def resolved(
        self, request: ForgetRequest, documents: Offsets, newest: Mapping[str, str]
    ) -> list[ForgetRequest]:
        """Return what to remember, so that the same documents are found again; `newest` is what
        inputs, by their names, held when they were last read."""
        lines = self.lines_of(documents)
        if request.key:
            return [request, *lines]  # splits may be by another key later
        if not self.has_keys:
            return lines
        contents = hex_of_content(self._keys_of(documents)["content"])
        found = [ForgetRequest(content=content) for content in contents]
        # Another corpus may make other contents of the same file; files that begin with it are not
        # looked for, as all larger ones would have to be read.
        for line in lines:
            for known in dict.fromkeys((line.fingerprint, newest[line.path])):
                found.append(replace(line, fingerprint=known, bytes=0))
        return found

    def lines_of(self, documents: Offsets) -> list[ForgetRequest]:
        """Return what finds these documents by their lines, whatever is made of the records there;
        nothing of files whose records are not told by lines, but by settings."""
        origins = self._read_origins()
        files, lines = origins.of(documents)
        return [
            ForgetRequest(
                path=file.path,
                line=line + 1,
                fingerprint=file.fingerprint,
                bytes=file.start + max(file.bytes, 0),
            )
            for file, line in zip((origins.files[i] for i in files), lines.tolist(), strict=True)
            if _has_own_records(file.kind)
        ]

    def _knows(self, key: str) -> bool:
        """Return whether the part knows this key of its documents."""
        return bool(key) and self.has_keys and self._manifest.keys == f"{OF_KEY}{key}"

    def _by_content(self, requests: Sequence[ForgetRequest]) -> Iterator[Meant]:
        own = (keys["content"][:, 0] for keys in self._all_keys())
        wanted = content_of_hex([request.content for request in requests])
        for i, places in _places_of(wanted[:, 0], own):
            exact = places[self._keys_of(places)["content"][:, 1] == wanted[i, 1]]
            if len(exact):
                yield requests[i], exact

    def _by_key(self, requests: Sequence[ForgetRequest]) -> Iterator[Meant]:
        wanted = groups_of(request.value for request in requests)
        for i, places in _places_of(wanted, (keys["group"] for keys in self._all_keys())):
            yield requests[i], places

    def _by_line(self, requests: Sequence[ForgetRequest]) -> Iterator[Meant]:
        named = Named(requests)
        sources = read_sources(self._place, self._manifest)
        if not any(named.of(each) or named.shorter_than(each) for each in sources):
            return
        origins = self._read_origins()
        found: dict[int, list[Offsets]] = {}
        for number, file in enumerate(origins.files):
            asked = named.of(file)
            longer = named.shorter_than(file)
            lines = [requests[i].line - 1 for i in (*asked, *longer)]
            own = dict(
                zip((*asked, *longer), origins.documents_of_lines(number, lines), strict=True)
            )
            meant = [i for i in longer if len(own[i])]
            for i in (*asked, *named.begun_by(file, meant)):
                if len(own[i]):
                    found.setdefault(i, []).append(own[i])
        for i, places in sorted(found.items()):
            yield requests[i], np.unique(np.concatenate(places))

    def _all_keys(self) -> list[NDArray[Any]]:
        if self._keys is None:
            shards = self._manifest.shards
            self._keys = [map_keys(self._place, shard, self._watch) for shard in shards]
        return self._keys

    def _keys_of(self, documents: Offsets) -> NDArray[Any]:
        """Return the keys of these documents, which ascend."""
        every = self._all_keys()
        firsts = offsets_of([len(keys) for keys in every])
        shard = np.searchsorted(firsts, documents, side="right") - 1
        own = [every[i][documents[shard == i] - firsts[i]] for i in np.unique(shard).tolist()]
        return np.concatenate([np.zeros(0, DOCUMENT_KEY), *own])

    def _read_origins(self) -> Origins:
        if self._origins is None:
            self._origins = origins_of(self._place, self._manifest)
        return self._origins


def _has_own_records(kind: str) -> bool:
    """Return whether a file of this kind has the same records, however it is read."""
    known = format_of(kind)
    return not (known.has_separator or known.options)


def _places_of(
    wanted: NDArray[Any], shards: Iterable[NDArray[Any]]
) -> Iterator[tuple[int, Offsets]]:
    """Yield the number of each wanted value that is there, and where it is in all shards.

    >>> shards = [np.array([5]), np.array([7, 5])]
    >>> [(i, places.tolist()) for i, places in _places_of(np.array([7, 5, 7]), shards)]
    [(0, [1]), (1, [0, 2]), (2, [1])]
    """
    distinct, which = np.unique(wanted, return_inverse=True)
    found, values, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for own in shards:
        nearest = np.minimum(np.searchsorted(distinct, own), len(distinct) - 1)
        hits = np.flatnonzero(distinct[nearest] == own)
        found.append(first + hits)
        values.append(nearest[hits])
        first += len(own)
    every, value = np.concatenate(found), np.concatenate(values)
    order = np.argsort(value, kind="stable")
    edges = np.searchsorted(value[order], np.arange(len(distinct) + 1))
    for i, number in enumerate(which.tolist()):
        places: Offsets = every[order[edges[number] : edges[number + 1]]]
        if len(places):
            yield i, places
