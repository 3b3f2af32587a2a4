"""Forget documents: a new generation of every dataset of a run that holds them, without them.

    requests ─► documents of tokenized parts ─► versions of these parts without them
                                             ─► versions of the packed parts that were made of them
             ─► out/.run/forgotten.json, so that what comes in later is forgotten, too

The list is written first: if the rest is killed, the next run of anything finishes it. Older
generations hold the documents until `dataprep clean` removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dataprep.pipeline.errors import ConfigError, InputError, counted
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.run.finder import DocumentFinder
from dataprep.pipeline.run.forgotten import ForgetRequest, read_ledger, write_ledger
from dataprep.pipeline.run.generations import publish_generation
from dataprep.pipeline.run.named import Called, name_inputs
from dataprep.pipeline.run.parts import Chosen, current, finished_parts, version_without
from dataprep.pipeline.run.renamed import as_called_now, read_names, sources_of, told_apart
from dataprep.pipeline.run.searched import Searched
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.manifest import MANIFEST, manifests_remembered, read_manifest
from dataprep.pipeline.storage.parts import PARTS, G, parts_of
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.types import Offsets

CODES, TOKENIZED = "codes", "tokenized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A document that was taken out."""

    request: str
    dataset: str  # folder of the tokenized dataset
    document: int  # its number in there
    had_gone: bool  # before this was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    num_requests: int
    documents: tuple[Forgotten, ...]
    not_found: tuple[str, ...]  # requests
    notes: tuple[str, ...]  # on names that inputs have now, or had
    generations: dict[str, int]  # of the datasets that lost documents, by folder
    behind: tuple[str, ...]  # packed datasets of documents that are not there any more
    codes: tuple[str, ...]  # datasets of codes that still hold what was encoded


def forget(out: Path, requests: Sequence[ForgetRequest]) -> Forgetting:
    """Take the documents out of all datasets of a run; `out` is its output folder."""
    if not _corpora_in(out):
        raise _no_run(out)
    with locked(out), disk_errors_named(out), manifests_remembered():
        corpora = _corpora_in(out)  # again: a run may have ended meanwhile
        found = _look_up(corpora, requests)
        if not found.documents:
            raise InputError(
                f"none of these documents is in {out}, for example {requests[0]}; dataprep stats "
                "--by file shows the files of a dataset; values of a key are known if the splits "
                "are by that key"
            )
        write_ledger(out, (*read_ledger(out), *found.remembered))
        ledger = read_ledger(out)
        generations: dict[str, int] = {}
        behind: list[str] = []
        for corpus in corpora:
            new, left = forget_in(corpus, ledger)
            generations |= new
            behind += left
    asked = dict.fromkeys(map(str, requests))
    return Forgetting(
        num_requests=len(asked),
        documents=tuple(found.documents),
        not_found=tuple(request for request in asked if request not in found.requests),
        notes=found.notes,
        generations=generations,
        behind=tuple(behind),
        codes=tuple(codes_in(out)),
    )


def _corpora_in(out: Path) -> list[Path]:
    return sorted(place.parent.parent for place in out.glob(f"*/{TOKENIZED}/{MANIFEST}"))


def held_in(out: Path) -> dict[str, str]:
    """Return what of the list each dataset of a run still holds, or may hold, by folder: `forget`
    or the run after it did not end."""
    ledger = read_ledger(out)
    found: dict[str, str] = {}
    for place in sorted(out.glob(f"*/{TOKENIZED}")) if ledger else ():
        tokenized = current(place, TokenizedManifest)
        if tokenized is None:
            continue
        count = 0
        for folder, part in parts_of(place, tokenized):
            meant = DocumentFinder(folder, part).find(ledger)
            count += len(np.setdiff1d(meant, forgotten_in(folder, part)))
        found[str(place)] = counted(count, "document") if count else ""
        went = _Went(place, _parts(place, tokenized), ledger)
        for packed in packed_in(place.parent):
            found[str(packed)] = _held_in_rows(packed, went)
    return {folder: told for folder, told in found.items() if told}


def _held_in_rows(packed: Path, went: _Went) -> str:
    manifest, count = current(packed, PackedManifest), 0
    for folder, rows in parts_of(packed, manifest) if manifest else ():
        taken = went.from_rows(rows)
        if taken is None:
            return "rows of documents that are not there any more"
        count += len(np.setdiff1d(taken, forgotten_in(folder, rows)))
    return counted(count, "document") if count else ""


def codes_in(out: Path) -> list[str]:
    """Return the folders of a run that hold codes of media: of these nothing is forgotten."""
    return sorted(str(place) for place in out.glob(f"*/{CODES}") if (place / PARTS).is_dir())


def _no_run(out: Path) -> ConfigError:
    """Return what to say of a folder that is not the one of a run."""
    for above in [*out.absolute().parents][:2]:
        if any(above.glob(f"*/{TOKENIZED}/{MANIFEST}")):
            return ConfigError(
                f"{out} is a dataset of the run in {above}, all of whose datasets must lose the "
                f"documents; name {above}"
            )
    return ConfigError(
        f"{out} holds no dataset of dataprep run; name the folder that is `out` in its config"
    )


def forget_in(corpus: Path, ledger: Sequence[ForgetRequest]) -> tuple[dict[str, int], list[str]]:
    """Make the generations of a corpus without what is on the list; return those that are new, and
    the datasets of which it is not known whether they hold it."""
    changed: dict[str, int] = {}
    behind: list[str] = []
    place = corpus / TOKENIZED
    tokenized = current(place, TokenizedManifest)
    assert tokenized is not None, place
    names = _parts(place, tokenized)
    kept = without(place, names, ledger)
    if kept != names:
        changed[str(place)] = publish_generation(place, kept).generation
    went = _Went(place, kept, ledger)
    for packed in packed_in(corpus):
        manifest = current(packed, PackedManifest)
        assert manifest is not None, packed
        before = _parts(packed, manifest)
        taken = [went.from_rows(part) for _, part in before]
        after = [
            (name, part) if gone is None else version_without(packed, name, part, gone)
            for (name, part), gone in zip(before, taken, strict=True)
        ]
        if after != before:
            changed[str(packed)] = publish_generation(packed, after).generation
        if any(gone is None for gone in taken):
            behind.append(str(packed))
    return changed, behind


class _Went:
    """The documents that went, or are to go, from the parts of a tokenized dataset."""

    def __init__(
        self,
        place: Path,
        parts: Sequence[Chosen[TokenizedManifest]],
        ledger: Sequence[ForgetRequest],
    ) -> None:
        self._place, self._parts, self._ledger = place, parts, ledger
        self._known: dict[str, Offsets | None] = {}  # by what rows are made of

    def from_rows(self, packed: PackedManifest) -> Offsets | None:
        """Return those that go from a packed part; None if what it was made of is not there.

        A tokenized dataset that was made anew may have left it behind, with other documents.
        """
        (made_of,) = origin_of(packed)["identity"]["sources"]
        if made_of not in self._known:
            self._known[made_of] = self._from(made_of)
        return self._known[made_of]

    def _from(self, made_of: str) -> Offsets | None:
        for name, part in chain(self._parts, finished_parts(self._place, TokenizedManifest)):
            if made_of in (part.fingerprint, origin_of(part)["fingerprint"]):
                found = DocumentFinder(self._place / name, part).find(self._ledger)
                return np.union1d(found, forgotten_in(self._place / name, part))
        return None


def without(
    out: Path, chosen: Sequence[Chosen[TokenizedManifest]], ledger: Sequence[ForgetRequest]
) -> list[Chosen[TokenizedManifest]]:
    """Return the parts of a tokenized dataset without what is on the list."""
    if not ledger:
        return [*chosen]
    searched = Searched(out, ledger)
    kept = [
        (name, part)
        if searched.has(part)
        else version_without(out, name, part, DocumentFinder(out / name, part).find(ledger))
        for name, part in chosen
    ]
    searched.write(part for _, part in kept)
    return kept


def remember_lines(out: Path, ledger: Sequence[ForgetRequest]) -> Sequence[ForgetRequest]:
    """Return what is on the list, and the lines of all that has gone or is to go from the datasets
    of a run; write it.

    A dataset that is made anew with other fields, or of the same files for the first time, has the
    same records as documents of other contents.
    """
    found = [*ledger]
    for corpus in _corpora_in(out):
        for folder, part in _read_parts(corpus):
            finder = DocumentFinder(folder, part)
            meant = np.union1d(finder.find(ledger), finder.gone())
            found += finder.lines_of(meant) if len(meant) else []
    if len(found) > len(ledger):
        write_ledger(out, found)
    return read_ledger(out)


def packed_in(corpus: Path) -> Iterator[Path]:
    """Yield the folders of the packed datasets of a corpus."""
    for place in sorted(corpus.glob(f"packed-*/{MANIFEST}")):
        if getattr(read_manifest(place.parent), "generation", None) is not None:
            yield place.parent


def _parts(place: Path, manifest: G) -> list[Chosen[G]]:
    pairs = zip(manifest.parts, parts_of(place, manifest), strict=True)
    return [(entry.path, part) for entry, (_, part) in pairs]


class _Meant(NamedTuple):
    """What requests mean."""

    documents: list[Forgotten]  # those of equal content, too
    remembered: list[ForgetRequest]  # how they are found again
    requests: set[str]  # that mean any
    notes: tuple[str, ...]


def _look_up(corpora: Sequence[Path], requests: Sequence[ForgetRequest]) -> _Meant:
    named = name_inputs(requests, map(_called, corpora))
    told: dict[str, tuple[ForgetRequest, str]] = {}  # what is remembered, and for which request
    meaning = set[str]()
    newest = {
        corpus / TOKENIZED: {
            each.path: each.fingerprint for each in sources_of(_told_apart(corpus))
        }
        for corpus in corpora
    }
    for place, _, finder in _finders(corpora):
        for request, numbers in finder.find_each(named.requests):
            given = named.given[str(request)]
            for each in finder.resolved(request, numbers, newest[place]) if len(numbers) else ():
                told.setdefault(each.as_json(), (each, given[0]))
                meaning.update(given)
    remembered = [each for each, _ in told.values()]
    found = {
        (str(place), first + number): (told[each.as_json()][1], number in gone)
        for place, first, finder in _finders(corpora)
        for gone in [{*finder.gone().tolist()}]
        for each, numbers in finder.find_each(remembered)
        for number in numbers.tolist()
    }
    documents = [
        Forgotten(request=request, dataset=dataset, document=number, had_gone=had_gone)
        for (dataset, number), (request, had_gone) in sorted(found.items())
    ]
    return _Meant(documents, remembered, meaning, named.notes)


def _called(corpus: Path) -> Iterator[Called]:
    """Yield the inputs of a corpus, and the names that they have now."""
    parts = _read_parts(corpus)
    now = as_called_now(parts, read_names(corpus / TOKENIZED))
    for source, called in zip(sources_of(parts), sources_of(now), strict=True):
        yield source, called.path


def _told_apart(corpus: Path) -> list[tuple[Path, TokenizedManifest]]:
    """Return the parts by the names that inputs have now; no two that are not one file have one,
    though it may not be known any more that one was renamed."""
    parts = _read_parts(corpus)
    return as_called_now(parts, told_apart(parts, read_names(corpus / TOKENIZED)))


def _read_parts(corpus: Path) -> list[tuple[Path, TokenizedManifest]]:
    manifest = current(corpus / TOKENIZED, TokenizedManifest)
    assert manifest is not None, corpus
    return [*parts_of(corpus / TOKENIZED, manifest)]


def _finders(corpora: Sequence[Path]) -> Iterator[tuple[Path, int, DocumentFinder]]:
    """Yield for each part its tokenized dataset, the number of its first document there, and what
    finds documents in it, by the names that inputs have now."""
    for corpus in corpora:
        place, first = corpus / TOKENIZED, 0
        for folder, part in _told_apart(corpus):
            yield place, first, DocumentFinder(folder, part)
            first += part.counts["documents_written"]
