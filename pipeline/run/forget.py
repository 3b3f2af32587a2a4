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
from pathlib import Path

import numpy as np

from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.run.forgotten import (
    DocumentFinder,
    ForgetRequest,
    read_ledger,
    write_ledger,
)
from dataprep.pipeline.run.generations import publish_generation
from dataprep.pipeline.run.parts import Chosen, current, finished_parts, version_without
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.manifest import MANIFEST, read_manifest
from dataprep.pipeline.storage.parts import G, parts_of
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.types import Offsets

TOKENIZED = "tokenized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A document that was taken out."""

    request: str
    dataset: str  # folder of the tokenized dataset
    document: int  # its number in there


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    documents: tuple[Forgotten, ...]
    not_found: tuple[str, ...]  # requests
    generations: dict[str, int]  # of the datasets that lost documents, by folder


def forget(out: Path, requests: Sequence[ForgetRequest]) -> Forgetting:
    """Take the documents out of all datasets of a run; `out` is its output folder."""
    corpora = sorted(place.parent.parent for place in out.glob(f"*/{TOKENIZED}/{MANIFEST}"))
    if not corpora:
        raise ConfigError(
            f"{out} holds no dataset of dataprep run; name the folder that is `out` in its config"
        )
    with locked(out), disk_errors_named(out):
        found, remembered = _look_up(corpora, requests)
        if not found:
            raise InputError(
                f"none of these documents is in {out}, for example {requests[0]}; dataprep stats "
                "--by file shows the files of a dataset; contents are known if there are splits or "
                "dedup, values of a key if the splits are by that key"
            )
        write_ledger(out, (*read_ledger(out), *remembered))
        ledger = read_ledger(out)
        generations: dict[str, int] = {}
        for corpus in corpora:
            generations |= forget_in(corpus, ledger)
    said = {each.request for each in found}
    return Forgetting(
        documents=tuple(found),
        not_found=tuple(str(request) for request in requests if str(request) not in said),
        generations=generations,
    )


def forget_in(corpus: Path, ledger: Sequence[ForgetRequest]) -> dict[str, int]:
    """Make the generations of a corpus without what is on the list; return those that are new."""
    changed: dict[str, int] = {}
    place = corpus / TOKENIZED
    tokenized = current(place, TokenizedManifest)
    assert tokenized is not None, place
    names = _parts(place, tokenized)
    kept = without(place, names, ledger)
    if kept != names:
        changed[str(place)] = publish_generation(place, kept).generation
    for packed in packed_in(corpus):
        manifest = current(packed, PackedManifest)
        assert manifest is not None, packed
        before = _parts(packed, manifest)
        after = [
            version_without(packed, name, part, _taken(place, kept[i : i + 1], part, ledger))
            for i, (name, part) in enumerate(before)
        ]
        if after != before:
            changed[str(packed)] = publish_generation(packed, after).generation
    return changed


def _taken(
    place: Path,
    beside: Sequence[Chosen[TokenizedManifest]],
    packed: PackedManifest,
    ledger: Sequence[ForgetRequest],
) -> Offsets:
    """Return the documents to take out of a packed part, by the tokenized part that it is made of:
    the one of its place, unless the tokenized dataset was made anew and is not packed yet."""
    for name, part in beside:
        if packed.parents[0] in (part.fingerprint, origin_of(part)["fingerprint"]):
            return forgotten_in(place / name, part)
    for name, part in finished_parts(place, TokenizedManifest):
        if packed.parents[0] == part.fingerprint:
            return DocumentFinder(place / name, part).find(ledger)
    return np.zeros(0, np.int64)  # it is gone, and so will the packed part be after the next run


def without(
    out: Path, chosen: Sequence[Chosen[TokenizedManifest]], ledger: Sequence[ForgetRequest]
) -> list[Chosen[TokenizedManifest]]:
    """Return the parts of a tokenized dataset without what is on the list."""
    return [
        version_without(out, name, part, DocumentFinder(out / name, part).find(ledger))
        for name, part in chosen
    ]


def packed_in(corpus: Path) -> Iterator[Path]:
    """Yield the folders of the packed datasets of a corpus."""
    for pattern in (f"packed-*/{MANIFEST}", f"packed-*/*/{MANIFEST}"):
        for place in sorted(corpus.glob(pattern)):
            if getattr(read_manifest(place.parent), "generation", None) is not None:
                yield place.parent


def _parts(place: Path, manifest: G) -> list[Chosen[G]]:
    pairs = zip(manifest.parts, parts_of(place, manifest), strict=True)
    return [(entry.path, part) for entry, (_, part) in pairs]


def _look_up(
    corpora: Sequence[Path], requests: Sequence[ForgetRequest]
) -> tuple[list[Forgotten], list[ForgetRequest]]:
    """Return the documents that are meant, and how to find them again."""
    found: list[Forgotten] = []
    remembered: list[ForgetRequest] = []
    for corpus in corpora:
        place = corpus / TOKENIZED
        manifest = current(place, TokenizedManifest)
        assert manifest is not None
        first = 0
        for folder, part in parts_of(place, manifest):
            finder = DocumentFinder(folder, part)
            for request, documents in finder.find_each(requests):
                found += [
                    Forgotten(request=str(request), dataset=str(place), document=first + number)
                    for number in documents.tolist()
                ]
                if len(documents):
                    remembered += finder.resolved(request, documents)
            first += part.counts["documents_written"]
    return found, remembered
