"""Which inputs the names in requests mean.

    inputs        raw/a.1.jsonl, which was read as raw/a.jsonl, and raw/a.jsonl, which came later
    a.jsonl:1     of raw/a.jsonl, as that is its name now; the other is told
    a.1.jsonl:2   of raw/a.1.jsonl
    .jsonl        of none, as ends of names are whole

A name that no input has now means the one that had it. What fits several is refused: a document
that nobody named must not go.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.run.forgotten import ForgetRequest
from dataprep.pipeline.sources.tail import starts_of
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.provenance import OriginFile

MOST_NAMED = 5

File = OriginFile | TextSource
Called = tuple[TextSource, str]  # an input, and its name now


class Named:
    """Requests by the files that they name; each is told by its place."""

    def __init__(self, requests: Sequence[ForgetRequest]) -> None:
        self._requests = requests
        self._by_path: dict[str, list[int]] = {}
        self._by_ending: dict[str, list[int]] = {}
        self._by_content: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            if request.fingerprint:
                self._by_content.setdefault(request.fingerprint, []).append(i)
                continue
            for path in {request.path, os.path.abspath(request.path)}:
                self._by_path.setdefault(path, []).append(i)
            self._by_ending.setdefault(request.path.removeprefix("./"), []).append(i)
        self._sizes = sorted({(r.bytes, r.fingerprint) for r in requests if r.bytes})

    def of(self, file: File) -> list[int]:
        """Return the requests that name this file, by its path, the end of its path or content."""
        found = [*self._by_content.get(file.fingerprint, ())]
        return list(dict.fromkeys([*self.of_path(file.path), *found, *self.of_ending(file.path)]))

    def of_path(self, path: str) -> Sequence[int]:
        return self._by_path.get(path, ())

    def of_ending(self, path: str) -> Sequence[int]:
        """Return the requests that name the end of this path, in whole names of folders."""
        if not self._by_ending:
            return ()
        folders = path.split("/")
        endings = ("/".join(folders[i:]) for i in range(1, len(folders)))
        return [i for ending in endings for i in self._by_ending.get(ending, ())]

    def shorter_than(self, file: File) -> list[int]:
        """Return the requests of files that this one may begin with: it may have been appended."""
        return [
            i
            for size, known in self._sizes
            if file.start < size < file.start + file.bytes and known != file.fingerprint
            for i in self._by_content[known]
        ]

    def begun_by(self, file: OriginFile, meant: Sequence[int]) -> list[int]:
        """Return those of these requests whose file this one begins with; none if another file has
        its name by now: that tells nothing of this one."""
        if not meant:
            return []
        end = file.start + file.bytes
        starts = starts_of(file.path, {end, *(self._requests[i].bytes for i in meant)})
        if starts.get(end) != file.fingerprint:
            return []
        return [i for i in meant if self._is_start(self._requests[i], starts)]

    @staticmethod
    def _is_start(request: ForgetRequest, starts: Mapping[int, str]) -> bool:
        return starts.get(request.bytes) == request.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedNow:
    """Requests with the names that inputs have now, each in full."""

    requests: tuple[ForgetRequest, ...]
    given: dict[str, tuple[str, ...]]  # the requests as they were given, by what they became
    notes: tuple[str, ...]  # on names that were those of other inputs


def name_inputs(requests: Sequence[ForgetRequest], corpora: Iterable[Iterable[Called]]) -> NamedNow:
    """Return the requests by the names that the inputs of corpora have now; ConfigError if a name
    may mean several."""
    by_path = {request.path: request for request in requests if _is_by_name(request)}
    names = _Fitting([*by_path.values()])  # lists are long, and files few
    for sources in corpora:
        names.add(sources)
    full = {path: names.now(i, request) for i, (path, request) in enumerate(by_path.items())}
    names.refuse()
    found = [replace(r, path=full[r.path]) if _is_by_name(r) else r for r in requests]
    given: dict[str, tuple[str, ...]] = {}
    for request, now in zip(requests, found, strict=True):
        given[str(now)] = (*given.get(str(now), ()), str(request))
    return NamedNow(requests=tuple(found), given=given, notes=tuple(names.notes))


def _is_by_name(request: ForgetRequest) -> bool:
    return bool(request.path) and not request.key and not request.fingerprint


class _Fitting:
    """The names that fit requests; each request is told by its place."""

    def __init__(self, requests: Sequence[ForgetRequest]) -> None:
        self._named = Named(requests)
        self._exact = [set[str]() for _ in requests]
        self._ending = [set[str]() for _ in requests]
        self._older = [set[str]() for _ in requests]  # what is called so now, and was as asked
        self._shared = set[str]()  # by several inputs
        self._refused: list[str] = []
        self.notes: list[str] = []

    def add(self, sources: Iterable[Called]) -> None:
        """Add the inputs of a corpus."""
        contents: dict[str, set[str]] = {}
        for source, name in sources:
            for i in self._named.of_path(name):
                self._exact[i].add(name)
            for i in self._named.of_ending(name):
                self._ending[i].add(name)
            if source.path != name:
                for i in (*self._named.of_path(source.path), *self._named.of_ending(source.path)):
                    self._older[i].add(name)
            if source.start == 0 and source.bytes:  # else it is what was appended
                contents.setdefault(name, set()).add(source.fingerprint)
        self._shared |= {name for name, known in contents.items() if len(known) > 1}

    def now(self, i: int, request: ForgetRequest) -> str:
        """Return the name in full; as it is if it fits none, or is refused."""
        fits = self._exact[i] or self._ending[i]
        others = self._older[i] - fits
        names = sorted(fits or others)
        if len(names) > 1:
            told = ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
            has = "is" if fits else "was"
            self._refused.append(f"{request}: that {has} the name of several inputs; name {told}")
        elif self._shared.intersection(names):
            self._refused.append(
                f"{request}: several inputs were read as {names[0]}, and it is not known which is "
                "called so now; dataprep run finds out, or name its content"
            )
        elif not fits:
            self.notes += [f"{request.path} is called {name} now" for name in names]
        else:
            self.notes += [
                f"{request.path} is {names[0]}; what had that name before is called {other} now"
                for other in sorted(others)
            ]
        return names[0] if len(names) == 1 else request.path

    def refuse(self) -> None:
        if self._refused:
            more = len(self._refused) - 1
            also = f"; so it is with {counted(more, 'more name')}" if more else ""
            raise ConfigError(f"nothing was forgotten. {self._refused[0]}{also}")
