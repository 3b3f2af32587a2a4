"""A tokenized dataset that grows with its inputs.

codes           the parts of `encoded` are one input more
inputs          what they name now, compared with what was read (`changes`)
new files       ─► one more part
new settings    ─► all parts anew: a tokenizer, a field or a template decides every token
files changed   ─► an error, all parts anew, or nothing, as `on_changed` says
limit           a part reads what the parts before it have left of it
weights         of messages: a part has a mask for them if those before it have; else it may not
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import InputConfig, TokenizeConfig
from dataprep.pipeline.documents.rules import Vocabulary
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.guards.twice import refuse_twice
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.differences import difference, sources_told
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import Identity
from dataprep.pipeline.run.changes import (
    MOST_NAMED,
    Changes,
    as_recorded,
    changes_since,
    judged,
    no_tails,
    refuse_new_weights,
    refuse_to_lose,
    tails_since,
)
from dataprep.pipeline.run.finder import DocumentFinder
from dataprep.pipeline.run.forget import remember_lines, without
from dataprep.pipeline.run.forgotten import ForgetRequest, lost_keys
from dataprep.pipeline.run.listed import MadeCodes
from dataprep.pipeline.run.parts import (
    Chosen,
    PlannedParts,
    WantedPart,
    current,
)
from dataprep.pipeline.run.renamed import (
    as_called_now,
    names_now,
    read_names,
    sources_of,
    told_apart,
    write_names,
)
from dataprep.pipeline.run.searched import Searched
from dataprep.pipeline.run.unpublished import unpublished
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.sources import all_files
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.manifest import TokenizedManifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.storage.source_lists import read_sources, with_sources
from dataprep.pipeline.tokenize.chats import with_weights
from dataprep.pipeline.tokenize.identity import settings_told
from dataprep.pipeline.tokenize.plan import FoundSources, find_all_sources
from dataprep.pipeline.tokenize.recipe import identity_told, tokenize
from dataprep.pipeline.tokenize.vocabulary import vocabulary_of
from dataprep.pipeline.types import Source

_BAD = ("documents_quarantined", "documents_dropped")

Part = WantedPart[TokenizedManifest]


def plan_tokenized(
    out: Path,
    config: TokenizeConfig,
    run: RunConfig,
    ledger: Sequence[ForgetRequest],
    cache_dir: Path,
    codes: MadeCodes | None = None,
) -> PlannedParts[TokenizedManifest]:
    """Compare the inputs with the dataset; read no more of them than is needed for that.

    `codes` of the corpus are one more input.
    """
    config, found = _found(config, codes, cache_dir)
    if not found.sources:
        raise ConfigError(f"no input for {out}; name files, folders, globs or hf:NAME")
    maker = _Maker(config, vocabulary_of(config, cache_dir), found, cache_dir)
    have = current(out, TokenizedManifest)
    read = (
        [(place, with_sources(place, part)) for place, part in parts_of(out, have)] if have else []
    )
    names = told_apart(read, read_names(out))
    called = as_called_now(read, names)
    recorded = [*sources_of(called)]
    parts = [part for _, part in called]
    tails = tails_since if run.append else no_tails
    changes = changes_since(recorded, found.sources, tails, names_kept=True)
    had_bytes = {source.path for source in recorded if source.start + source.bytes}
    lost = [path for path in changes.gone if path in had_bytes]  # of the others nothing was made
    gone = [path for path in lost if not _is_of(codes, path)]
    reasons, notes = judged(out, changes.changed, gone, run.on_changed)
    notes += [
        f"{request} is to be forgotten, but only in what was there when that was asked for: the "
        "splits are not by this key any more"
        for request in lost_keys(ledger, config.keys)[:MOST_NAMED]
    ]
    if len(gone) < len(lost):
        reasons.append("its codes were made anew")
    if have is None:
        reasons = ["it is not there yet"]
    if not reasons:
        reasons += _other_settings(called, changes, maker)
    refuse_to_lose(out, changes.changed, gone, reasons, run.on_changed)
    if reasons:
        kept, new = list[TokenizedManifest](), dict(enumerate(found.sources))
    elif changes.new and maker.after(parts).config.limit == 0:
        kept, new = parts, {}
        notes.append(f"not read, since the limit of {config.limit:,} records is reached: ")
        notes[-1] += "; ".join(changes.new_files())
        reasons += _to_forget(out, have, ledger)
    else:
        kept, new = parts, changes.new
        reasons += [*changes.new_files(), *_to_forget(out, have, ledger)]
    published = [entry.path for entry in have.parts] if have else []
    maker = maker.after(kept)
    groups = _groups(out, new, published, maker)
    made = [maker.part(group, may_be_empty=bool(kept)) for group in groups]
    became = {path: found.sources[place].path for path, place in changes.same.items()}

    def finish(
        out: Path, chosen: list[Chosen[TokenizedManifest]]
    ) -> list[Chosen[TokenizedManifest]]:
        write_names(out, names_now(read, names, became) if kept else {})
        return without(out, chosen, ledger if kept else remember_lines(Path(run.out), ledger))

    return PlannedParts(
        kind=TokenizedManifest,
        parts=(*(published if kept else ()), *made),
        reasons=tuple(reasons),
        notes=tuple(notes),
        finish=finish,
    )


def _found(
    config: TokenizeConfig, codes: MadeCodes | None, cache_dir: Path
) -> tuple[TokenizeConfig, FoundSources]:
    """Return the config with all inputs, and what they name; codes are one, however many parts."""
    if codes is None:
        return config, _find(config, cache_dir)
    own = config.inputs
    parts = (InputConfig(path=str(part)) for part in codes.parts)
    each = config.model_copy(update={"inputs": (*own, *parts)})
    found = _find(each, cache_dir)
    whole = (*own, InputConfig(path=str(codes.folder)))
    return (
        config.model_copy(update={"inputs": whole}),
        replace(found, inputs=tuple(min(i, len(own)) for i in found.inputs)),
    )


def _find(config: TokenizeConfig, cache_dir: Path) -> FoundSources:
    """Return the sources, which are known by their paths; ConfigError if one is there twice."""
    found = find_all_sources(config.model_copy(update={"allow_duplicates": True}), cache_dir, None)
    pairs = zip(found.sources, found.inputs, strict=True)
    named = ((config.inputs[i].path, file) for source, i in pairs for file in all_files(source))
    refuse_twice(named, " or name it in a corpus of its own")
    return found


def _is_of(codes: MadeCodes | None, path: str) -> bool:
    return codes is not None and Path(path).is_relative_to(codes.folder.absolute())


@dataclass(frozen=True, slots=True)
class _Maker:
    """Tells and makes the dataset of some of the sources."""

    config: TokenizeConfig
    vocabulary: Vocabulary
    found: FoundSources
    cache_dir: Path
    has_weights: bool | None = None  # what is there already has loss weights; None: nothing is

    def after(self, parts: Sequence[TokenizedManifest]) -> _Maker:
        """Return what makes the part that follows these, which have read some of the limit."""
        config = self.config
        if config.limit is not None:
            left = config.limit - sum(part.counts["records_read"] for part in parts)
            config = config.model_copy(update={"limit": max(left, 0)})
        has_weights = "weight" in parts[0].masks if parts else None
        config = with_weights(config) if has_weights else config
        return replace(self, config=config, has_weights=has_weights)

    def identity(self, chosen: dict[int, Source], on_error: str | None = None) -> dict[str, object]:
        return identity_told(self._with(on_error), self.vocabulary, self.found.only(chosen))

    def settings(self, on_error: str | None = None) -> dict[str, object]:
        """Return what of the identity does not depend on the sources."""
        return settings_told(self._with(on_error), self.vocabulary)

    def _with(self, on_error: str | None) -> TokenizeConfig:
        return self.config.model_copy(update={"on_error": on_error}) if on_error else self.config

    def part(self, chosen: dict[int, Source], *, may_be_empty: bool) -> Part:
        make = partial(self._make, self.found.only(chosen), may_be_empty)
        paths = tuple(source.path for source in chosen.values())
        identity = self.identity(chosen)
        if self.has_weights is False:
            refuse_new_weights(identity, paths)
        return WantedPart(fingerprint=fingerprint(identity), make=make, paths=paths)

    def _make(self, found: FoundSources, may_be_empty: bool, folder: str, report: Report) -> None:
        allow = may_be_empty or self.config.allow_empty
        config = self.config.model_copy(update={"out": folder, "allow_empty": allow})
        tokenize(
            config,
            cache_dir=self.cache_dir,
            report=report,
            found=found,
            vocabulary=self.vocabulary,
        )


def _other_settings(
    called: Sequence[tuple[Path, TokenizedManifest]], changes: Changes[Source], maker: _Maker
) -> Iterator[str]:
    """Yield how the settings differ from those that a part was made with, if they do."""
    parts = [part for _, part in called]
    for number, (folder, part) in enumerate(called):
        # Where no record was bad, it does not matter what would have been done with bad ones.
        has_bad = any(part.counts[name] for name in _BAD)
        on_error = None if has_bad else part.on_error
        own, first = maker.after(parts[:number]), origin_of(part)["identity"]
        recorded = [*read_sources(folder, part)]
        left = [i for i, source in enumerate(recorded) if source.path in changes.same]
        sources = [recorded[i] for i in left]
        prints = [source.fingerprint for source in recorded], [s.fingerprint for s in sources]
        identity = (
            own.identity(_as_read(sources, changes, maker.found), on_error)
            if left
            else own.settings(on_error)
        )
        if len(left) < len(recorded):  # others are ignored; what was set is not
            first = _of_some(first, left, identity, prints[0])
            identity = _of_some(identity, range(len(left)), identity, prints[1])
        if fingerprint(identity) != fingerprint(first):
            yield difference(first, identity, [source.path for source in sources], prints)
            return


def _of_some(
    identity: Identity, left: Sequence[int], now: Identity, prints: Sequence[str]
) -> dict[str, object]:
    """Return what an identity says of some of its sources, as far as they alone can tell it, as
    they do `now`: codes tell settings of media, and other conversations may have another form.
    `prints` are the fingerprints of all."""
    told = sources_told(identity, prints)
    own, wanted = ([*map(_set_for, each.get("chats", ()))] for each in (identity, now))
    config = {key: value for key, value in identity["config"].items() if key != "modalities"}
    return {
        **{key: identity[key] for key in ("format_version", "kind", "tags", "tokenizer")},
        "config": config,
        "sources": [told[i] for i in left],
        "chats": [chat if chat in own else next(iter(own), None) for chat in wanted],
    }


def _set_for(chat: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what of a chat was set, and not found out by its records."""
    kept = ("templates", "variables", "stop")
    return None if chat is None else {key: chat[key] for key in kept}


def _as_read(
    recorded: Sequence[TextSource], changes: Changes[Source], found: FoundSources
) -> dict[int, Source]:
    places = [(changes.same[old.path], old) for old in recorded]
    return {place: as_recorded(found.sources[place], old) for place, old in places}


def _groups(
    out: Path, new: dict[int, Source], published: Collection[str], maker: _Maker
) -> list[dict[int, Source]]:
    """Return the new sources as parts: those that a run began or made and did not publish, each as
    it is, then all others."""
    groups = []
    if maker.config.limit is not None:
        return [new] if new else []  # how much each would read of it is not known before
    for begun, said in unpublished(out, published):
        own = {i: source for i, source in new.items() if (source.fingerprint, source.start) in said}
        if own and fingerprint(maker.identity(own)) == fingerprint(begun):
            groups.append(own)
            new = {i: source for i, source in new.items() if i not in own}
    return [*groups, new] if new else groups


def _to_forget(
    out: Path, have: TokenizedManifest | None, ledger: Sequence[ForgetRequest]
) -> Iterator[str]:
    """Yield that documents are on the list which the dataset still holds."""
    if have is None or not ledger:
        return
    count, searched = 0, Searched(out, ledger)
    for place, part in parts_of(out, have):
        if not searched.has(part):
            gone = forgotten_in(place, part)
            count += len(np.setdiff1d(DocumentFinder(place, part).find(ledger), gone))
    if count:
        yield f"{counted(count, 'document')} to forget"
