"""Which split each document of a tokenized part goes to, and which are left out as duplicates.

    documents    a b a c d      content keys, in order
    selection    0 0 254 1 0    train, train, a duplicate, validation, train

    out/.run/selected.json                 the parts that were looked at, in this order
    out/.run/selections/web/1f0c….npy      the selection of a part, by its fingerprint and settings
    out/.run/selections/web/1f0c….json     its hash

A selection is made once and kept, since rows depend on it. Of equal documents the first is kept, in
the order in which parts came in; a document that was left out itself does not count as the first.
If the part of the first goes, as its corpus is made anew without it, the next takes its place.
A selection that is lost is made again, as it was, by the list; without both it cannot be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.run import RunConfig
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import (
    Written,
    lost,
    make_folder,
    read_sealed,
    sync_folder,
    write_sealed,
)
from dataprep.pipeline.hashes import fingerprint, hash_bytes
from dataprep.pipeline.run.forget import packed_in
from dataprep.pipeline.run.parts import STATE, current, number_in
from dataprep.pipeline.run.splits import split_of
from dataprep.pipeline.run.together import Contents, firsts_of, rest_of_records, with_rest
from dataprep.pipeline.run.versions import origin_of
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.checked import FilesRead, array_in, watching
from dataprep.pipeline.storage.keys import DOCUMENT_KEY, map_keys
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.typed import decode_as
from dataprep.pipeline.types import Mask

LEDGER = "selected.json"
FOLDER = "selections"
DUPLICATE, FORGOTTEN = 254, 255
REASONS = {str(DUPLICATE): "documents_duplicate", str(FORGOTTEN): "documents_forgotten"}

Numbers = NDArray[np.uint8]
Entry = tuple[str, int, str]  # of the list: corpus, number and fingerprint of a part
Entries = list[Entry]
BEGUN: Entry = ("", -1, "")  # others are selected in the place of what went


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The selections of a part: as it was first made, and without what was forgotten since."""

    before: Path
    now: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Selections:
    """The selections of all corpora of a run."""

    config: RunConfig

    @property
    def are_needed(self) -> bool:
        return bool(self.config.splits) or self.config.dedup != "none"

    def find(self, corpus: str, place: Path, part: TokenizedManifest) -> Selected | None:
        """Return the selections of a part, if they are there and whole.

        What was forgotten since may not be taken from them yet: rows do not depend on that.
        """
        before, now = self._paths(corpus, place, part)
        if not _is_whole(before):
            return None
        return Selected(before=before, now=now if _is_whole(now) else before)

    def hash_of(self, corpus: str, place: Path, part: TokenizedManifest) -> str:
        """Return the hash of the selection of a part as it was first made, by its list; "" if there
        is none."""
        data = read_sealed(self._paths(corpus, place, part)[0].with_suffix(".json"))
        return "" if data is None else decode_as(data, Written).xxh3_128

    def make(self, corpus: str, place: Path, part: TokenizedManifest) -> Selected:
        """Return the selections of a part; write them if they are missing."""
        before, now = self._paths(corpus, place, part)
        for path in (before, now):
            _finish(path)
        if not _is_whole(before):
            order = self._order(corpus, place, part)
            _write(before, self._numbers(place, part, order))
        if not _is_whole(now):
            _write(now, _without(_read(before), place, part))
        return Selected(before=before, now=now)

    def replace_lost(self) -> None:
        """Select others in the place of documents that went with their parts.

        The list says that this was begun until it is done: if it is killed, it is done again, also
        if what went is there again by then. Then that is looked at as what comes in.
        """
        ledger = Path(self.config.out) / STATE / LEDGER
        data = read_sealed(ledger)
        there = dict(self._current())
        if data is None or all(entry in there for entry in decode_as(data, Entries)):
            return
        left = [entry for entry in decode_as(data, Entries) if entry in there]
        write_sealed(ledger, json.dumps([*left, BEGUN]).encode())
        self._remove_others(there.values())
        if self.config.dedup == "exact":
            for keys in there.values():  # a corpus that was made anew keeps its own
                self.make(keys.corpus, keys.place, keys.part)
            said = decode_as(read_sealed(ledger) or b"[]", Entries)
            left = [entry for entry in dict.fromkeys((*said, *there)) if entry in there]
            self._select_orphans([there[entry] for entry in left])
        write_sealed(ledger, json.dumps(left).encode())

    def _select_orphans(self, parts: Sequence[_Keys]) -> None:
        """Select the first of each content that was left out, and is not kept anywhere."""
        numbers = [_read(part.selection) for part in parts]
        is_left_out = [each == DUPLICATE for each in numbers]
        rates = [*self.config.splits.values()] or [1.0]
        with watching() as watch:
            left_out = [_keys_of(p, m, watch) for p, m in zip(parts, is_left_out, strict=True)]
            kept = self._contents(parts, watch)
            rest = [
                rest_of_records(p.place, p.part)[m] for p, m in zip(parts, is_left_out, strict=True)
            ]
            firsts = firsts_of(kept, [keys["content"] for keys in left_out], rest)
        for part, own, mask, keys, found in zip(
            parts, numbers, is_left_out, left_out, zip(firsts, rest, strict=True), strict=True
        ):
            is_first = with_rest(*found)
            if not is_first.any():
                continue
            own[np.flatnonzero(mask)[is_first]] = split_of(keys["group"][is_first], rates)
            before, now = self._paths(part.corpus, part.place, part.part)
            if now != before:  # first: what is written last says that it is done
                _write(now, _without(own, part.place, part.part))
            _write(before, own)

    def _remove_others(self, parts: Iterable[_Keys]) -> None:
        """Remove selections of what is not there, and of other settings: they would be wrong if it
        came back, or these."""
        named = set[Path]()  # parts of two corpora may be alike
        for each in parts:
            for path in self._paths(each.corpus, each.place, each.part):
                _finish(path)
                named.add(path.with_suffix(""))
        for path in (Path(self.config.out) / STATE / FOLDER).glob("*/*"):
            if path.with_suffix("") not in named and path.suffix in (".npy", ".json"):
                path.unlink()

    def _paths(self, corpus: str, place: Path, part: TokenizedManifest) -> tuple[Path, Path]:
        config = self.config
        settings = {"splits": list(config.splits.values()), "dedup": config.dedup}
        first = origin_of(part)
        # Parts of equal files differ by their numbers alone, and in the second all are duplicates.
        own = {
            "part": first["fingerprint"],
            "of": first["contents"],
            "number": number_in(place.name),
        }
        before = fingerprint({**settings, **own})
        gone = forgotten_in(place, part).tolist()
        now = fingerprint({"before": before, "forgotten": gone}) if gone else before
        folder = Path(config.out) / STATE / FOLDER / corpus
        return _file(folder, before), _file(folder, now)

    def _numbers(self, place: Path, part: TokenizedManifest, before: Sequence[_Keys]) -> Numbers:
        rates = [*self.config.splits.values()] or [1.0]
        with watching() as watch:
            keys = [map_keys(place, shard, watch) for shard in part.shards]
            each = [split_of(own["group"], rates) for own in keys]
            numbers = np.concatenate([np.zeros(0, np.uint8), *each])
            if self.config.dedup == "exact":
                rest = rest_of_records(place, part)
                own = np.split(rest, np.cumsum([len(each) for each in keys])[:-1])
                earlier = self._contents(before, watch)
                firsts = firsts_of(earlier, [each["content"] for each in keys], own)
                is_first = np.concatenate([np.zeros(0, np.bool_), *firsts])
                numbers[~with_rest(is_first, rest)] = DUPLICATE
        return numbers

    def _order(self, corpus: str, place: Path, part: TokenizedManifest) -> list[_Keys]:
        """Return the parts that came in before this one, which is put behind them."""
        ledger = Path(self.config.out) / STATE / LEDGER
        own = _entry(corpus, place, part)
        there = dict(self._current())
        data = read_sealed(ledger)
        if data is None and self.config.dedup != "none" and self._was_packed(corpus, part):
            raise CorruptError(
                f"{ledger} is missing or damaged, and so is the selection of {place}, so it is not "
                "known which documents came in before it and are not to be repeated; restore "
                f"{ledger.parent}, or make all datasets anew in another folder"
            )
        said = decode_as(data, Entries) if data is not None else []
        known = [*said]
        # If the list was lost: what was selected came before what was not.
        known += [e for e, keys in there.items() if e not in known and _is_whole(keys.selection)]
        known += [own] if own not in known else []
        if known != said:
            make_folder(ledger.parent)
            write_sealed(ledger, json.dumps(known).encode())
        if self.config.dedup == "none":
            return []
        return [there[entry] for entry in known[: known.index(own)] if entry in there]

    def _was_packed(self, corpus: str, part: TokenizedManifest) -> bool:
        """Return whether there are rows of a part, by a selection."""
        own = {part.fingerprint, origin_of(part)["fingerprint"]}
        for folder in packed_in(Path(self.config.out) / corpus):
            manifest = current(folder, PackedManifest)
            for _, rows in parts_of(folder, manifest) if manifest else ():
                if own & {*rows.parents} and "selection" in origin_of(rows)["identity"]:
                    return True
        return False

    def _contents(self, parts: Sequence[_Keys], watch: FilesRead) -> Contents:
        """Return the contents of the documents of parts, and which of them were kept."""
        found = Contents()
        for keys in parts:
            numbers = _read(self.make(keys.corpus, keys.place, keys.part).before)
            first = 0
            for shard in keys.part.shards:
                own = map_keys(keys.place, shard, watch)["content"]
                kept = numbers[first : first + len(own)] != DUPLICATE
                if not kept.all():
                    found.counted[len(found.arrays)] = kept
                found.arrays.append(own)
                first += len(own)
        return found

    def _current(self) -> Iterator[tuple[Entry, _Keys]]:
        """Yield the parts of all corpora that are there now."""
        for name in self.config.names:
            folder = Path(self.config.out) / name / "tokenized"
            manifest = current(folder, TokenizedManifest)
            for place, part in parts_of(folder, manifest) if manifest else ():
                selection, _ = self._paths(name, place, part)
                keys = _Keys(corpus=name, place=place, part=part, selection=selection)
                yield _entry(name, place, part), keys


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """A part whose documents have keys, and which of them were left out."""

    corpus: str
    place: Path
    part: TokenizedManifest
    selection: Path


def _without(numbers: Numbers, place: Path, part: TokenizedManifest) -> Numbers:
    """Return a selection without what was forgotten."""
    kept = numbers.copy()
    kept[forgotten_in(place, part)] = FORGOTTEN
    return kept


def _keys_of(part: _Keys, is_meant: Mask, watch: FilesRead) -> NDArray[Any]:
    """Return the keys of some documents of a part."""
    found, first = [np.zeros(0, DOCUMENT_KEY)], 0
    for shard in part.part.shards:
        own = is_meant[first : first + shard.num_documents]
        if own.any():
            found.append(map_keys(part.place, shard, watch)[own])
        first += shard.num_documents
    return np.concatenate(found)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.removeprefix('sha256:')[:32]}.npy"


def _entry(corpus: str, place: Path, part: TokenizedManifest) -> Entry:
    return corpus, number_in(place.name), origin_of(part)["fingerprint"]


def _is_whole(path: Path) -> bool:
    return _listed(path) is not None


def _listed(path: Path) -> Written | None:
    """Return size and hash of a selection; None unless it is there and whole.

    A run that was killed while it replaced the files of one has left its hash under the next name.
    """
    for listed in (path, _next(path)):
        data = read_sealed(listed.with_suffix(".json"))
        written = None if data is None else decode_as(data, Written)
        if written is not None and written.is_at(path):
            return written
    return None


def _read(path: Path) -> Numbers:
    """Return a selection, whose bytes have the hash that was written with it."""
    listed = _listed(path)
    data = path.read_bytes()
    if listed is None or hash_bytes(data) != listed.xxh3_128:
        raise lost(path)
    return array_in(path, data, np.dtype("u1")).copy()


def _write(path: Path, numbers: Numbers) -> None:
    """Write a selection, so that a kill at any moment leaves the old one or this one: it could not
    be made again as it is."""
    make_folder(path.parent)
    written = save_array(_next(path), numbers).commit()
    sync_folder(path.parent)
    write_sealed(_next(path).with_suffix(".json"), json.dumps(written.listed).encode())
    os.replace(_next(path), path)
    _finish(path)


def _finish(path: Path) -> None:
    """Do what is left of the writing of a selection that is whole."""
    listed = _next(path).with_suffix(".json")
    if listed.exists():
        data = read_sealed(listed)
        if data is not None and decode_as(data, Written).is_at(path):
            os.replace(listed, path.with_suffix(".json"))
        sync_folder(path.parent)


def _next(path: Path) -> Path:
    return path.with_name(f"{path.stem}-next{path.suffix}")
