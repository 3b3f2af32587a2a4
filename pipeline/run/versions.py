"""Make a new version of a part, without some of its documents.

    parts/00000      shards 0, 1, 2     document 12 is in shard 1
    parts/00000-1    shard 1 is written anew (`masking`), all other files are links to the old ones

The version lists what was taken out (FORGOTTEN), so that `verify` can prove that it is gone. It
knows which part it is of, so that the part is not made again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataprep.pipeline.files import Written, commit, sync_folder, temporary
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.commits import make_tasks_folder
from dataprep.pipeline.jobs.ownership import check_ours, make_work, remove_dataset, remove_work
from dataprep.pipeline.jobs.publish import Draft, Move, carry_out, prepare_publication
from dataprep.pipeline.jobs.stored import TASKS
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.run.masking import Overwritten, rewrite_documents, rewrite_rows
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.entries import FileEntry, Json
from dataprep.pipeline.storage.joined import contents_of
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest, files_of_shard
from dataprep.pipeline.storage.parts import Growing
from dataprep.pipeline.storage.provenance import FORGOTTEN, FORGOTTEN_NUMBER
from dataprep.pipeline.types import Offsets


def identity_without(manifest: Growing, documents: Offsets) -> Json:
    """Return the identity of the version of a part that lacks these documents."""
    return {
        "format_version": manifest.format_version,
        "kind": manifest.kind,
        "of": origin_of(manifest),
        "forgotten": fingerprint({"documents": documents.tolist()}),
    }


def origin_of(manifest: Growing) -> Json:
    """Return fingerprint, contents and identity of a part as it was first made."""
    known = manifest.identity.get("of")
    if isinstance(known, dict):
        return known
    return {
        "fingerprint": manifest.fingerprint,
        "contents": contents_of(manifest),
        "identity": manifest.identity,
    }


def write_without(old: Path, manifest: Growing, documents: Offsets, new: Path) -> None:
    """Write the version of the part in `old` that lacks these documents to the folder `new`."""
    with locked(new):
        check_ours(new)
        remove_dataset(new)  # what a run that was killed has left
        work = make_work(new)
        make_tasks_folder(work)
        publication = prepare_publication(_draft(old, manifest, documents, work), work)
        carry_out(publication, new, work)
        remove_work(work)


def _draft(old: Path, manifest: Growing, documents: Offsets, work: Path) -> Draft:
    names = _Names(work)
    found = Overwritten()
    shards, moves = [], list[Move]()
    for shard, made, more in _shards(old, manifest, documents, names, found):
        shards.append(_entry(shard, made, more))
        for entry in files_of_shard(shard):
            file = made.get(entry.path) or _linked(old, entry, names.of(entry.path))
            moves.append(Move(path=names.of(entry.path), name=entry.path, file=file))
    files = [entry for entry in manifest.files if entry.path != FORGOTTEN]
    for entry in files:
        file = _linked(old, entry, names.of(entry.path))
        moves.append(Move(path=names.of(entry.path), name=entry.path, file=file))
    listed = names.of(FORGOTTEN)
    file = save_array(listed, documents.astype(FORGOTTEN_NUMBER)).commit()
    moves.append(Move(path=listed, name=FORGOTTEN, file=file))
    sync_folder(work / TASKS)
    identity = identity_without(manifest, documents)
    counts = {name: count - found.lost[name] for name, count in manifest.counts.items()}
    counts["documents_masked"] = len(documents)
    counts["tokens_masked"] = counts.get("tokens_masked", 0) + found.tokens
    changes: dict[str, Any] = {
        "fingerprint": fingerprint(identity),
        "identity": identity,
        "shards": tuple(shards),
        "counts": counts,
        "files": (*files, FileEntry(path=FORGOTTEN, **file.listed)),
    }
    return Draft(
        manifest=replace(manifest, **changes),
        folders=tuple(dict.fromkeys(os.path.dirname(move.name) for move in moves)),
        moves=moves,
    )


def _shards(
    old: Path, manifest: Growing, documents: Offsets, names: _Names, found: Overwritten
) -> Iterator[tuple[Any, Mapping[str, Written], Mapping[str, Any]]]:
    """Yield each shard, its files that were written anew, and what else changed in its entry."""
    if isinstance(manifest, PackedManifest):
        for shard in manifest.shards:
            paths = {entry.path: names.of(entry.path) for entry in (shard, shard.index)}
            yield shard, rewrite_rows(old, manifest, shard, documents, paths, found), {}
        return
    assert isinstance(manifest, TokenizedManifest)
    firsts = offsets_of([shard.num_documents for shard in manifest.shards]).tolist()
    for each, first in zip(manifest.shards, firsts, strict=False):
        own = documents[(documents >= first) & (documents < first + each.num_documents)] - first
        paths = {entry.path: names.of(entry.path) for entry in (each, each.index)}
        if len(own):
            made, sizes = rewrite_documents(old, manifest, each, own, paths, found)
            yield each, made, {"record_bytes": tuple(sizes)}
        else:
            yield each, {}, {}


class _Names:
    """Names for files of a dataset in the work folder, in which there are no folders for them."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> Path:
        number = self._numbers.setdefault(name, len(self._numbers))
        return self._work / TASKS / f"{number:06d}-0.{name.rpartition('.')[2]}"


def _entry(shard: Any, made: Mapping[str, Written], more: Mapping[str, Any]) -> Any:
    """Return the entry of a shard of which some files were written anew."""
    if not made:
        return shard
    index = replace(shard.index, **made[shard.index.path].listed)
    return replace(shard, **made[shard.path].listed, index=index, **more)


def _linked(old: Path, entry: Any, target: Path) -> Written:
    """Give a file of the old version a second name; where a disk has no such links, copy it."""
    try:
        os.link(old / entry.path, target)
    except OSError:
        shutil.copyfile(old / entry.path, temporary(target))
        commit(temporary(target), target)
    return Written(num_bytes=entry.num_bytes, xxh3_128=entry.xxh3_128)
