"""A tokenized dataset that grows with its inputs.

inputs          what they name now, compared with what was read (`changes`)
new files       ─► one more part
new settings    ─► all parts anew: a tokenizer, a field or a template decides every token
files changed   ─► an error, all parts anew, or nothing, as `on_changed` says
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import Vocabulary
from dataprep.pipeline.errors import ConflictError, counted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import begun_in, difference, fingerprint_begun
from dataprep.pipeline.run.changes import Changes, as_recorded, changes_since
from dataprep.pipeline.run.forget import without
from dataprep.pipeline.run.forgotten import DocumentFinder, ForgetRequest
from dataprep.pipeline.run.parts import (
    PlannedParts,
    WantedPart,
    current,
    never_made,
    unfinished_parts,
)
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.manifest import WORK, TokenizedManifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.tokenize.plan import FoundSources, find_all_sources
from dataprep.pipeline.tokenize.recipe import identity_told, tokenize
from dataprep.pipeline.tokenize.vocabulary import vocabulary_of
from dataprep.pipeline.types import Source

MOST_NAMED = 3  # files in a message
_BAD = ("documents_quarantined", "documents_dropped")

Part = WantedPart[TokenizedManifest]


def plan_tokenized(
    out: Path,
    config: TokenizeConfig,
    run: RunConfig,
    ledger: Sequence[ForgetRequest],
    cache_dir: Path,
) -> PlannedParts[TokenizedManifest]:
    """Compare the inputs with the dataset; read no more of them than is needed for that."""
    found = find_all_sources(config, cache_dir, None)
    maker = _Maker(config, vocabulary_of(config, cache_dir), found, cache_dir)
    have = current(out, TokenizedManifest)
    parts = [part for _, part in parts_of(out, have)] if have else []
    recorded = [source for part in parts for source in part.sources]
    changes = changes_since(recorded, found.sources, append=run.append)
    notes: list[str] = []
    reasons: list[str] = [] if have else ["it is not there yet"]
    if changes.changed or changes.gone:
        what = _told(changes)
        if run.on_changed == "error":
            raise ConflictError(
                f"{out} was made from inputs that are not what they were: {what}; restore them, or "
                "set on_changed: rebuild to make it anew, or ignore to keep what was made of them"
            )
        if run.on_changed == "ignore":
            notes.append(f"{what}: ignored, the dataset keeps what was made of them")
        else:
            reasons.append(f"{what}; on_changed is rebuild")
    if not reasons:
        reasons += _other_settings(parts, changes, maker)
    if reasons:
        kept, new = list[TokenizedManifest](), dict(enumerate(found.sources))
    else:
        kept, new = parts, changes.new
        reasons += [*_new_files(changes), *_to_forget(out, have, ledger)]
    groups = _groups(out, new, maker)
    made = [maker.part(group, may_be_empty=bool(kept)) for group in groups]
    known: list[Part] = [WantedPart(fingerprint=p.fingerprint, make=never_made) for p in kept]
    return PlannedParts(
        kind=TokenizedManifest,
        parts=(*known, *made),
        reasons=tuple(reasons),
        notes=tuple(notes),
        finish=lambda out, chosen: without(out, chosen, ledger),
    )


@dataclass(frozen=True, slots=True)
class _Maker:
    """Tells and makes the dataset of some of the sources."""

    config: TokenizeConfig
    vocabulary: Vocabulary
    found: FoundSources
    cache_dir: Path

    def identity(self, chosen: dict[int, Source], on_error: str | None = None) -> dict[str, object]:
        config = self.config
        if on_error is not None:
            config = config.model_copy(update={"on_error": on_error})
        return identity_told(config, self.vocabulary, self.found.only(chosen))

    def part(self, chosen: dict[int, Source], *, may_be_empty: bool) -> Part:
        make = partial(self._make, self.found.only(chosen), may_be_empty)
        return WantedPart(fingerprint=fingerprint(self.identity(chosen)), make=make)

    def _make(self, found: FoundSources, may_be_empty: bool, folder: str, report: Report) -> None:
        allow = may_be_empty or self.config.allow_empty
        config = self.config.model_copy(update={"out": folder, "allow_empty": allow})
        tokenize(config, cache_dir=self.cache_dir, report=report, found=found)


def _other_settings(
    parts: Sequence[TokenizedManifest], changes: Changes, maker: _Maker
) -> Iterator[str]:
    """Yield how the settings differ from those that a part was made with, if they do."""
    for part in parts:
        if not all(source.path in changes.same for source in part.sources):
            continue  # ignored: what was made of it is kept as it is
        # Where no record was bad, it does not matter what would have been done with bad ones.
        has_bad = any(part.counts[name] for name in _BAD)
        on_error = None if has_bad else str(part.config["on_error"])
        identity = maker.identity(_as_read(part.sources, changes, maker.found), on_error)
        first = origin_of(part)
        if fingerprint(identity) != first["fingerprint"]:
            paths = [source.path for source in part.sources]
            yield difference(first["identity"], identity, paths)
            return


def _as_read(
    recorded: Sequence[TextSource], changes: Changes, found: FoundSources
) -> dict[int, Source]:
    places = [(changes.same[old.path], old) for old in recorded]
    return {place: as_recorded(found.sources[place], old) for place, old in places}


def _groups(out: Path, new: dict[int, Source], maker: _Maker) -> list[dict[int, Source]]:
    """Return the new sources as parts: those that an unfinished run reads, then all others."""
    for place in unfinished_parts(out):
        begun = begun_in(place / WORK) or {}
        said = [(s.get("fingerprint"), s.get("start", 0)) for s in begun.get("sources", ())]
        own = {i: source for i, source in new.items() if (source.fingerprint, source.start) in said}
        if own and fingerprint(maker.identity(own)) == fingerprint_begun(place / WORK):
            rest = {i: source for i, source in new.items() if i not in own}
            return [own, rest] if rest else [own]
    return [new] if new else []


def _new_files(changes: Changes) -> Iterator[str]:
    grown = set(changes.appended)
    added = [source.path for source in changes.new.values() if source.path not in grown]
    if added:
        yield f"{counted(len(added), 'new file')}: {_some(added)}"
    if grown:
        yield f"appended to: {_some(sorted(grown))}"


def _to_forget(
    out: Path, have: TokenizedManifest | None, ledger: Sequence[ForgetRequest]
) -> Iterator[str]:
    """Yield that documents are on the list which the dataset still holds."""
    count = 0
    for place, part in parts_of(out, have) if have and ledger else ():
        gone = forgotten_in(place, part)
        count += len(np.setdiff1d(DocumentFinder(place, part).find(ledger), gone))
    if count:
        yield f"{counted(count, 'document')} to forget"


def _told(changes: Changes) -> str:
    told = []
    if changes.changed:
        told.append(f"{_some(changes.changed)} changed")
    if changes.gone:
        told.append(f"{_some(changes.gone)} {'is' if len(changes.gone) == 1 else 'are'} gone")
    return ", ".join(told)


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
