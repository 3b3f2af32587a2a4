"""Documents, tokens and targets of a dataset by source, by file, or by the value of a key.

    source   the inputs that the user named
    file     the files that they are
    KEY      values of a key in the records: the raw files are read again (`keys`);
             key:source is the key `source`

    a.jsonl   1,200 documents   340,112 tokens   68.0 %
    b.jsonl     700 documents   160,004 tokens   32.0 %

Tokens are those in shards or rows: of a packed dataset, what was truncated is not among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.configs.load import recorded
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import CorruptError, DataprepError, InputError
from dataprep.pipeline.look.keys import HowRead, names_of, read_values
from dataprep.pipeline.look.records import read_records, read_rows
from dataprep.pipeline.look.row_rules import dense_masks, segment_lengths
from dataprep.pipeline.ragged import owner_of
from dataprep.pipeline.sources.known import known_format
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.documents import check_documents, decode_documents
from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.manifest import (
    PackedManifest,
    TokenizedManifest,
    files_of_shard,
    read_manifest,
)
from dataprep.pipeline.storage.masks import MASKS, marked_before
from dataprep.pipeline.storage.origins import Origins, origins_of
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.provenance import OriginFile, read_row_pieces
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.types import Offsets

Manifest = TokenizedManifest | PackedManifest
KEY = "key:"  # before a key that is called like something else
Between = Callable[[int], None]  # called with the bytes that were read since the last call


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    name: str
    documents: int
    tokens: int
    target_tokens: int
    share: float  # of all tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Parts of documents as they stand in a shard: whole ones, or pieces in rows."""

    document: Offsets
    tokens: Offsets
    targets: Offsets


def groups_of(folder: Path, manifest: Manifest, by: str, between: Between) -> list[GroupCounts]:
    """Return the groups in the order of their first documents."""
    origins = origins_of(folder, manifest)
    total = _num_documents(manifest)
    names, group_of = _grouping(folder, manifest, origins, by, between)
    sums = np.zeros((3, len(names)), np.int64)
    seen = np.zeros(total, bool)  # a document may be in several rows
    for shard in manifest.shards:
        for entry in files_of_shard(shard):
            check_file(folder, entry)
        for part in _parts(folder, manifest, shard):
            new = np.unique(part.document[~seen[part.document]])
            seen[new] = True
            sums[0] += np.bincount(group_of(new), minlength=len(names))
            group = group_of(part.document)
            np.add.at(sums[1], group, part.tokens)
            np.add.at(sums[2], group, part.targets)
        between(shard.num_bytes)
    tokens = max(1, int(sums[1].sum()))
    return [
        GroupCounts(
            name=name, documents=docs, tokens=own, target_tokens=targets, share=own / tokens
        )
        for name, docs, own, targets in zip(names, *sums.tolist(), strict=True)
    ]


def documents_of_groups(folder: Path, manifest: TokenizedManifest, by: str) -> dict[str, Offsets]:
    """Return the numbers of the documents of each group, ascending, in the order of the groups'
    first documents."""
    origins, total = origins_of(folder, manifest), _num_documents(manifest)
    names, group_of = _grouping(folder, manifest, origins, by, lambda num_bytes: None)
    group = group_of(np.arange(total))
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(group, minlength=len(names)))[:-1])
    return dict(zip(names, parts, strict=True))


def is_path(by: str) -> bool:
    """Return whether groups are inputs or files, not the values of a key.

    >>> is_path("source"), is_path("key:source"), is_path("lang")
    (True, False, False)
    """
    return by in ("source", "file")


def bytes_to_read(folder: Path, manifest: Manifest, by: str | None) -> int:
    """Return how many bytes `stats` reads, for progress."""
    raw = 0
    if by is not None and not is_path(by) and isinstance(manifest, TokenizedManifest):
        raw = sum(max(source.bytes, 0) for source in read_sources(folder, manifest))
    return raw + sum(shard.num_bytes for shard in manifest.shards)


def _num_documents(manifest: Manifest) -> int:
    if isinstance(manifest, TokenizedManifest):
        return manifest.counts["documents_written"]
    return sum(source.records for source in manifest.sources)


def _grouping(
    folder: Path, manifest: Manifest, origins: Origins, by: str, between: Between
) -> tuple[list[str], Callable[[Offsets], Offsets]]:
    """Return the names of the groups, and the function that gives the group of each document."""
    if is_path(by):
        labels = [file.input if by == "source" else file.path for file in origins.files]
        names = list(dict.fromkeys(labels))
        numbers = {name: i for i, name in enumerate(names)}
        of_file = np.array([numbers[label] for label in labels], np.int64)
        of_run = of_file[origins.runs["file"]]
        return names, lambda documents: of_run[origins.run_of(documents)]
    found = read_values(
        origins,
        _num_documents(manifest),
        by.removeprefix(KEY),
        reading_of=_readings(folder, manifest, origins.files),
        between=between,
    )
    names = names_of(found.spellings)
    return names, lambda documents: found.of_document[documents].astype(np.int64)


def _readings(
    folder: Path, manifest: Manifest, files: Sequence[OriginFile]
) -> Callable[[int], HowRead]:
    """Return the function that tells how a file, given by its number, was read."""
    times, first_of = _times_before(files), _firsts(folder, manifest)

    @cache
    def config_of(dataset: int) -> TokenizeConfig | None:
        """Return the config of a tokenized dataset; a packed one records that of its first."""
        if dataset in first_of:
            return recorded(TokenizeConfig, first_of[dataset], folder)
        source = read_sources(folder, manifest)[dataset]
        place = Path(source.path)
        try:
            own = read_manifest(place)
        except DataprepError:
            return None
        is_same = own.fingerprint == source.fingerprint
        return recorded(TokenizeConfig, own.config, place) if is_same else None

    def reading_of(number: int) -> HowRead:
        file = files[number]
        config = config_of(file.dataset)
        known = known_format(file.kind)
        has_separator = known is not None and known.has_separator
        if config is None and has_separator:
            place = read_sources(folder, manifest)[file.dataset].path
            raise InputError(
                f"how {file.path} was split into documents is recorded in {place}, which is not "
                "there any more, or another; restore it, or group by source or file"
            )
        if config is None:
            return HowRead()
        same = [i for i, item in enumerate(config.inputs) if item.path == file.input]
        index = same[min(times[number], len(same) - 1)] if same else None
        own = None if index is None else config.inputs[index].text_separator
        return HowRead(
            options={} if index is None else config.how_read(index),
            separator=config.text_separator if own is None else own,
            max_ratio=config.max_ratio,
            max_record_bytes=config.max_record_bytes,
        )

    return reading_of


def _firsts(folder: Path, manifest: Manifest) -> dict[int, Json]:
    """Return the configs that are recorded, each by the number of the dataset that it is of."""
    if not isinstance(manifest, PackedManifest):
        return {0: manifest.config}
    found, number = {}, 0
    for _, part in parts_of(folder, manifest):
        found[number] = part.config
        number += len(part.sources)
    return found


def _times_before(files: Sequence[OriginFile]) -> list[int]:
    """Return how many of the files before each are the same one.

    Files are in the order of the inputs, and an input has a file once: so the second time, it is of
    the second input of that name.
    """
    seen = Counter[tuple[int, str, str]]()
    found = []
    for file in files:
        key = file.dataset, file.input, file.path
        found.append(seen[key])
        seen[key] += 1
    return found


def _parts(folder: Path, manifest: Manifest, shard: Any) -> Iterator[_Parts]:
    if isinstance(manifest, TokenizedManifest):
        return _documents(folder, manifest, shard)
    return _pieces(folder, manifest, shard)


def _documents(folder: Path, manifest: TokenizedManifest, shard: Any) -> Iterator[_Parts]:
    """Yield the documents of each record of a shard."""
    first = sum(s.num_documents for s in _before(manifest.shards, shard))
    for _, records in read_records(folder, shard):
        for data in records:
            found = decode_documents(data, manifest.token_dtype, manifest.masks)
            wrong = check_documents(found, manifest.max_id)
            if wrong:
                raise CorruptError(f"{folder / shard.path} is damaged: {wrong}")
            edges = np.concatenate(([0], found.ends)).astype(np.int64)
            targets = np.diff(marked_before(found.masks[0], MASKS["loss"], edges))
            number = first + np.arange(len(found.ends))
            yield _Parts(document=number, tokens=np.diff(edges), targets=targets)
            first += len(found.ends)


def _pieces(folder: Path, manifest: PackedManifest, shard: Any) -> Iterator[_Parts]:
    """Yield the pieces of documents in the rows of a shard."""
    path = folder / shard.provenance.path
    pieces = read_row_pieces(folder, manifest, shard)
    layout = RowLayout.of_manifest(manifest)
    for first, rows in read_rows(folder, manifest, shard):
        start, stop = np.searchsorted(pieces["row"], [first, first + len(rows.tokens)])
        own = pieces[start:stop]
        counts = np.diff(rows.ends.offsets)
        if len(own) != len(rows.ends.values) or (own["row"] - first != owner_of(counts)).any():
            raise CorruptError(f"{path} does not list the segments of the rows of {shard.path}")
        length = segment_lengths(rows)
        if not np.array_equal(own["length"], length):
            raise CorruptError(f"{path} lists segments of other lengths than {shard.path} has")
        loss = dense_masks(rows, layout)[0]
        loss[:, 0] = False  # nothing predicts it
        before = np.concatenate(([0], np.cumsum(loss, dtype=np.int64)))
        ends = owner_of(counts) * layout.capacity + rows.ends.values
        yield _Parts(
            document=own["document"].astype(np.int64),
            tokens=length,
            targets=before[ends] - before[ends - length],
        )


def _before(shards: Sequence[Any], shard: Any) -> Sequence[Any]:
    return shards[: shards.index(shard)]
