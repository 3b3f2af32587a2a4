"""Shards of MDS, the format of MosaicML streaming. Pieces are samples; records have its columns.

    shard.00000.mds, shard.00000.mds.zstd     each says itself which columns it has
    index.json                                lists the shards of a folder, with sizes and hashes

Columns of token ids are arrays (ndarray:int32), or bytes, whose type `records` says.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import xxhash

from dataprep.pipeline.errors import InputError, short
from dataprep.pipeline.guards.opening import open_regular, read_bounded
from dataprep.pipeline.ragged import HeldBy, offsets_of
from dataprep.pipeline.sources.blobs import DecodedBlobs, blob_batches, check_known
from dataprep.pipeline.sources.flat_hints import refuse_halves
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.forms import ID_TYPES
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.stream import naming, open_stream
from dataprep.pipeline.sources.token_files import open_ids
from dataprep.pipeline.storage.foreign.mds import INDEX
from dataprep.pipeline.storage.foreign.mds_read import (
    MdsHead,
    cut_columns,
    number_lists,
    read_head,
    value_of_mds,
)
from dataprep.pipeline.storage.foreign.megatron_read import read_exactly
from dataprep.pipeline.types import Piece, Records, Source

_READ_BYTES = 4 << 20
_JOINED = 3  # folders above a shard, of which one may have the index of joined datasets


class Mds(Format):
    """Pieces are samples."""

    kind = "mds"
    endings = (".mds",)
    unit = "sample"
    may_be_compressed = True
    knows_rows = True
    holds_media = False
    options = MappingProxyType({"records": (*ID_TYPES,)})

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        with _open(source) as shard:
            check_known(keys, [column.name for column in shard.head.columns], source.path)
            count = shard.head.num_samples
        size = max(1, source.num_bytes) / max(1, count)
        # What is compressed is decompressed as a whole by whoever reads some of it.
        step = max(1, count) if source.compression else max(1, int(target_bytes / size))
        return [
            Cut(start=a, stop=b, num_bytes=int((b - a) * size), first_line=a)
            for a in range(0, max(1, count), step)
            for b in (min(a + step, count),)
        ]

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        with _open(source) as shard:
            head = shard.head
            if head.num_samples < piece.stop:
                raise _broken(source.path, f"sample {piece.stop} no longer exists")
            names = check_known(wanted.keys, [c.name for c in head.columns], source.path)
            size = max(1, source.num_bytes) / max(1, head.num_samples)
            yield from blob_batches(
                piece,
                wanted,
                read=shard.samples,
                decode=partial(
                    _decode,
                    head=head,
                    names=names,
                    held_by=wanted.held_by,
                    ids=ID_TYPES.get(source.options.get("records", "")),
                    path=source.path,
                ),
                at_once=max(1, int(wanted.batch_bytes / size)),
                bytes_of_record=size,
                growth=Growth(place=source.path, stored=1 << 62, max_ratio=1),  # `stream` checks
            )

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenShard:
    """An open shard: a file, or all of its bytes."""

    path: str
    head: MdsHead
    file: Any = None
    data: bytes = b""

    def samples(self, start: int, stop: int) -> Sequence[bytes]:
        places = self.head.places[start : stop + 1].tolist()
        first, last = places[0], places[-1]
        if self.file is None:
            data = self.data[first:last]
        else:
            with naming(self.path):
                self.file.seek(first)
                data = read_exactly(self.file, last - first)
        if len(data) < last - first:
            raise _broken(self.path, "it was cut short while it was read")
        return [data[a - first : b - first] for a, b in pairwise(places)]


@contextmanager
def _open(source: Source) -> Iterator[_OpenShard]:
    path = source.path
    if source.compression:
        with open_stream(source, chunk_bytes=_READ_BYTES) as chunks:
            data = b"".join(chunks)
        yield _OpenShard(path=path, head=_head(data, len(data), path), data=data)
        return
    with open_ids(path) as (file, size):
        with naming(path):
            data = read_exactly(file, 8)  # how many samples there are, and where the first starts
            numbers = np.frombuffer(data[: len(data) // 4 * 4], "<u4").tolist()
            data += read_exactly(file, min(numbers[-1] if numbers else 0, size) - len(data))
        yield _OpenShard(path=path, head=_head(data, size, path), file=file)


def _head(data: bytes, num_bytes: int, path: str) -> MdsHead:
    try:
        return read_head(data, num_bytes)
    except ValueError as error:
        raise _broken(path, str(error)) from None


def _decode(
    samples: Sequence[bytes],
    *,
    head: MdsHead,
    names: frozenset[str],
    held_by: HeldBy,
    ids: np.dtype[Any] | None,
    path: str,
) -> DecodedBlobs:
    try:
        cut = cut_columns(b"".join(samples), offsets_of(list(map(len, samples))), head)
    except ValueError as error:
        raise _broken(path, str(error)) from None
    reasons: dict[int, str] = {}
    columns: dict[str, Sequence[Any]] = {}
    for column in head.columns:
        if column.name not in names:
            continue
        values, encoding = cut[column.name], column.encoding
        if encoding == "bytes" and ids is not None and held_by(column.name):
            columns[column.name] = found = [_ids(value, ids) for value in values]
            refuse_halves([each for each in found if not isinstance(each, bytes)], path)
            continue
        try:
            lists = number_lists(values, encoding) if held_by(column.name) else None
        except ValueError as error:  # nobody can read a value of it
            raise InputError(f"column {column.name!r} of {path} {error}; leave it out") from None
        if lists is not None:
            columns[column.name] = lists
            continue
        decoded: list[Any] = []
        for i, value in enumerate(values):
            try:
                decoded.append(value_of_mds(value, encoding))
            except ValueError as error:
                decoded.append(None)
                reasons.setdefault(i, f"column {column.name!r} {error}")
        columns[column.name] = decoded
    if reasons:
        good = [i for i in range(len(samples)) if i not in reasons]
        columns = {name: [values[i] for i in good] for name, values in columns.items()}
    return DecodedBlobs(reasons=reasons, columns=columns)


def _ids(value: bytes, dtype: np.dtype[Any]) -> Any:
    """Return the ids in some bytes; the bytes, which are refused later, if they are none."""
    return value if len(value) % dtype.itemsize else np.frombuffer(value, dtype)


# --- folders ---


def is_mds(folder: str) -> bool:
    """Return whether a folder has an index of MDS, be it damaged; shards tell that it is one."""
    path = os.path.join(folder, INDEX)
    if not os.path.isfile(path):
        return False
    try:
        return bool(_shards(path))
    except InputError:
        with naming(folder):
            return any(map(_is_shard, os.listdir(folder)))


def refuse_unlisted(folder: str, names: Iterable[str]) -> None:
    """Raise an InputError for shards in a folder without an index, which says how many they are."""
    for name in sorted(filter(_is_shard, names)):
        raise InputError(
            f"{os.path.join(folder, name)} is a shard of MDS, but {folder} has no {INDEX} that "
            "lists it, so nothing says whether all are there; copy that too, or name the files: "
            f"{os.path.join(folder, '*.mds')}"
        )


def _is_shard(name: str) -> bool:
    if Mds.endings[0] not in name.lower():
        return False
    stem, ending = os.path.splitext(name.lower())
    return Mds.endings[0] in (ending, os.path.splitext(stem)[1])


def mds_files(folder: str) -> list[str]:
    """Return the shards that the index lists, in order, as they are there: raw or compressed."""
    found: list[str] = []
    path = os.path.join(folder, INDEX)
    for shard in _shards(path):
        files = [shard.get(name) for name in ("raw_data", "zip_data")]
        places = [os.path.join(folder, _name(file, path)) for file in files if file]
        there = [place for place in places if os.path.isfile(place)]
        if not places:
            raise _no_index(path)
        if not there:
            raise InputError(f"{path} lists {places[0]}, which is not there; copy all shards")
        found.append(there[0])
    return found


def check_shards(sources: Iterable[Source]) -> None:
    """Raise an InputError for a shard that is not what an index says: that of its folder, or of one
    above, if several datasets were joined. One that no index lists is not checked.
    """
    listed = lru_cache(maxsize=None)(_files_in)
    for source in sources:
        if source.kind != Mds.kind:
            continue
        folder, name = os.path.split(source.path)
        for _ in range(_JOINED):
            if name in listed(folder):
                _check_shard(source, *listed(folder)[name])
                break
            folder, above = os.path.split(folder)
            name = os.path.join(above, name)


def _check_shard(source: Source, shard: Mapping[str, Any], file: Mapping[str, Any]) -> None:
    if file.get("bytes") != source.num_bytes:
        told = f"it has {source.num_bytes:,} bytes, but {INDEX} says {file.get('bytes')}"
        raise _broken(source.path, told)
    hashes = file.get("hashes")
    for kind, digest in hashes.items() if isinstance(hashes, dict) else ():
        if _hash(source.path, str(kind)) != digest:
            raise _broken(source.path, f"its {kind} is not that of {INDEX}")
    if source.compression:  # it would be decompressed as a whole
        return
    with _open(source) as opened:
        head = opened.head
    own = {
        "samples": head.num_samples,
        "column_names": [column.name for column in head.columns],
        "column_encodings": [column.encoding for column in head.columns],
    }
    for key, value in own.items():
        if shard.get(key, value) != value:
            told = f"its {key} are {value}, but {INDEX} says {short(str(shard[key]))}"
            raise _broken(source.path, told)


def _files_in(folder: str) -> dict[str, tuple[Any, Any]]:
    """Return the files that the index of a folder lists, by name, each with its shard."""
    if not is_mds(folder):
        return {}
    shards = _shards(os.path.join(folder, INDEX))
    pairs = [(shard, shard.get(name)) for shard in shards for name in ("raw_data", "zip_data")]
    return {
        os.path.normpath(str(file.get("basename"))): (shard, file)
        for shard, file in pairs
        if isinstance(file, dict)
    }


def _shards(path: str) -> list[dict[str, Any]]:
    """Return the entries of an index; an InputError if it is not one of MDS."""
    with naming(path):
        content = read_bounded(path)
    try:
        shards = json.loads(content)["shards"]
        if all(shard["format"] == "mds" and shard["version"] == 2 for shard in shards):
            return list(shards)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise _no_index(path)


def _no_index(path: str) -> InputError:
    return InputError(
        f"{path} is no index of MDS, version 2: it is damaged, cut off or something else; copy it "
        f"again, or name the shards: {os.path.join(os.path.dirname(path), '*.mds')}"
    )


def _name(file: Any, path: str) -> str:
    name = os.path.normpath(str(file.get("basename") if isinstance(file, dict) else ""))
    if name in ("", ".", "..") or name.startswith(("/", "../")) or "\0" in name:
        raise InputError(f"{path} names {name!r}, which is not in its folder")
    return name


def _hash(path: str, kind: str) -> str:
    """Return the hash of a file; an InputError if nobody here knows this kind of hash."""
    if kind in xxhash.algorithms_available:
        state = getattr(xxhash, kind)()
    elif kind in hashlib.algorithms_available and not kind.startswith("shake"):
        state = hashlib.new(kind)
    else:
        raise InputError(f"{path} has the hash {kind!r}, which is not known here")
    with naming(path), open_regular(path) as file:
        while chunk := file.read(_READ_BYTES):
            state.update(chunk)
    return str(state.hexdigest())


def _broken(path: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as MDS: {cause}; the file is damaged, cut off or not MDS at all: "
        "copy or write it again"
    )
