"""Flat files of token ids, as OLMo, nanoGPT and llm.c have them: documents end at a token.

    5 9 2 0 7 8 0 4          document_end 0:   5 9 2 0 | 7 8 0 | 4
    0 5 9 2 0 7 8            document_start 0: 0 5 9 2 | 0 7 8

    raw            the ids alone: `records` says their type      OLMo's .npy, nanoGPT's .bin
    .npy           a header, then the ids of one array
    llm.c's .bin   1,024 bytes of header: magic, version, count

    loss_masks shards=masks     shards/a.npy has its mask in masks/a.npy, a byte for each id

Pieces are ranges of bytes; a document is in the piece in which it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import empty_batch, too_long_batch
from dataprep.pipeline.sources.blobs import check_known
from dataprep.pipeline.sources.flat_hints import (
    ENDS,
    MASKS,
    ONE,
    Edge,
    doubts_of_edge,
    doubts_of_masks,
    mask_of,
    refuse_halves,
)
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.forms import ID_TYPES
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.megatron import BIN, Megatron, pair_of
from dataprep.pipeline.sources.npy_header import NPY_MAGIC, read_npy_header
from dataprep.pipeline.sources.stream import naming, open_file
from dataprep.pipeline.sources.tables import cut_rows
from dataprep.pipeline.sources.token_files import (
    MaskFile,
    id_records,
    open_ids,
    open_mask,
    read_ids,
)
from dataprep.pipeline.types import Offsets, Piece, Records, Source

LLMC_BYTES = 1024
LLMC_TYPES = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # by magic and version
_LOOKED_AT = 1 << 12  # ids, by which a wrong type is told
_AT_ONCE = 1 << 20  # ids, among which a token is looked for


class FlatTokens(Format):
    """Pieces are ranges of bytes."""

    kind = "tokens"
    endings = (BIN,)
    unit = "document"
    is_found_in_folders = False  # a .bin may be anything
    holds_media = False
    has_offsets = True
    options = MappingProxyType({"records": (*ID_TYPES,), **dict.fromkeys((*ENDS, MASKS), ())})

    def beside(self, path: str, options: Mapping[str, str]) -> tuple[str, ...]:
        return (mask_of(path, options[MASKS]),) if MASKS in options else ()

    def sniff(self, path: str, compression: str) -> str:
        idx, _ = pair_of(path)
        try:
            open_file(idx).close()
        except InputError:
            return self.kind
        return Megatron.kind

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        edge = _edge(source)
        with _open(source) as ids:
            check_known(keys, ids.mask.keys, source.path)
            ids.check()
            ids.check_edge(edge)
            item = ids.dtype.itemsize
            return cuts.byte_ranges(ids.count * item, max(item, target_bytes // item * item))

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        line, limit = 0, wanted.max_record_bytes
        with _open(source) as ids:
            item = ids.dtype.itemsize
            if piece.stop > ids.count * item:
                raise _broken(source.path, "it was cut short since it was looked at")
            for found in _documents(ids, _edge(source), piece, wanted):
                sizes = np.diff(found.offsets) * item
                skipped = min(len(sizes), max(0, wanted.from_line - line))
                if skipped:
                    num_bytes = int(sizes[:skipped].sum())
                    yield empty_batch(next_line=line + skipped, num_bytes=num_bytes)
                for a, b in cut_rows(sizes[skipped:].astype(np.float64), wanted):
                    start, stop = skipped + a, skipped + b
                    num_bytes = int(sizes[start:stop].sum())
                    if found.ids is None or sizes[start] > limit:
                        yield too_long_batch(line + start, num_bytes, limit)
                        continue
                    yield id_records(
                        IntegerLists(found.ids, found.offsets[start : stop + 1]),
                        ids.position + (found.first + found.offsets[start:stop]) * item,
                        line=line + start,
                        num_bytes=num_bytes,
                        more=ids.mask.lists(found.first, found.offsets[start : stop + 1]),
                    )
                line += len(sizes)
        yield empty_batch(next_line=line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        with _open(source) as ids:
            return _count(ids, _edge(source), piece)

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        found: list[int] = []
        total = 0
        with _open(source) as ids:
            for start, stop in zip([0, *starts], starts, strict=False):
                piece = Piece(source=0, start=start, stop=stop)
                total += _count(ids, _edge(source), piece)
                found.append(total)
        return found

    def doubts(self, sources: Sequence[Source]) -> Iterator[str]:
        with _open(sources[0]) as first, _open(sources[-1]) as last:
            if first.count and last.count:
                begins, ends = first.read(0, 1), last.read(last.count - 1, last.count)
                pairs = (first.path, int(begins[0])), (last.path, int(ends[0]))
                yield from doubts_of_edge(_edge(sources[0]), *pairs)
            if MASKS not in sources[0].options:
                yield from doubts_of_masks(first.path, first.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ids:
    """An open file of ids."""

    path: str
    file: Any
    dtype: np.dtype[Any]
    position: int  # of the first id, in bytes
    count: int
    is_told: bool  # a header says the type
    mask: MaskFile

    def read(self, start: int, stop: int) -> NDArray[Any]:
        place = self.position + start * self.dtype.itemsize
        return read_ids(self.file, self.dtype, place, stop - start, self.path)

    def check(self) -> None:
        """Raise an InputError if the ids look like halves of larger ones."""
        if not self.is_told:
            refuse_halves([self.read(0, min(self.count, _LOOKED_AT) // 2 * 2)], self.path)

    def check_edge(self, edge: Edge) -> None:
        """Raise an InputError if all of a file would be one document, since no token ends it."""
        token, is_end = edge
        starts = range(0, self.count, _AT_ONCE)
        parts = (self.read(start, min(start + _AT_ONCE, self.count)) for start in starts)
        if self.count and token is not None and not any((part == token).any() for part in parts):
            raise InputError(
                f"{self.path} has {self.count:,} ids, but none is {token}, with which documents "
                f"should {'end' if is_end else 'start'}; name the token that they do "
                f"{'end' if is_end else 'start'} with, or --set {ENDS[0]}={ONE} if it is one "
                "document"
            )


@contextmanager
def _open(source: Source) -> Iterator[_Ids]:
    path = source.path
    with open_ids(path) as (file, size):
        with naming(path):
            head = file.read(LLMC_BYTES)
            file.seek(0)
        dtype, position, count = _told(file, head, size, path)
        named = ID_TYPES.get(source.options.get("records", ""))
        if dtype is None and named is None:
            raise InputError(
                f"{path} has no header that tells the type of its ids; set it with --set "
                f"records=TYPE, one of {', '.join(ID_TYPES)}"
            )
        if dtype is not None and named is not None and dtype != named:
            raise InputError(
                f"{path} holds {dtype.name} numbers by its own header, but records says "
                f"{named.name}; leave records out"
            )
        found = dtype if dtype is not None else named
        assert found is not None
        if (size - position) % found.itemsize or 0 <= count != (size - position) // found.itemsize:
            stated = f"its header states {count:,} ids of" if count >= 0 else "its ids have"
            raise _broken(
                path, f"{stated} {found.itemsize} bytes, but it has {size - position:,} bytes"
            )
        count = (size - position) // found.itemsize
        mask = mask_of(path, source.options[MASKS]) if MASKS in source.options else ""
        with open_mask(mask, count, path) as opened:
            yield _Ids(
                path=path,
                file=file,
                dtype=found,
                position=position,
                count=count,
                is_told=dtype is not None,
                mask=opened,
            )


def _told(file: Any, head: bytes, size: int, path: str) -> tuple[np.dtype[Any] | None, int, int]:
    """Return what a header tells: the type of the ids, where they start, how many there are."""
    if head.startswith(NPY_MAGIC):
        try:
            header = read_npy_header(file)
        except ValueError as error:
            raise InputError(f"cannot read {path} as .npy: {error}") from None
        if len(header.shape) != 1:
            raise InputError(
                f"{path} is an array of {header.shape}, whose rows are documents already; leave "
                "document_end and document_start out"
            )
        return header.dtype, header.position, header.shape[0]
    if len(head) == LLMC_BYTES:
        magic, version, count = np.frombuffer(head, "<i4", 3).tolist()
        if (magic, version) in LLMC_TYPES:
            return np.dtype(LLMC_TYPES[magic, version]), LLMC_BYTES, count
    return None, 0, -1


def _count(ids: _Ids, edge: Edge, piece: Piece) -> int:
    """Count the documents that start in a piece."""
    return sum(len(found.offsets) - 1 for found in _documents(ids, edge, piece, Wanted()))


def _broken(path: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as token ids: {cause}; the file is damaged, cut off or something "
        "else: copy or write it again"
    )


def _edge(source: Source) -> Edge:
    given = [(name, source.options[name]) for name in ENDS if name in source.options]
    if len(given) != 1:
        raise InputError(
            f"{source.path} is a flat file of token ids: say which token ends a document, --set "
            "document_end=eos (or an id), or which starts one, --set document_start=bos"
        )
    ((name, value),) = given
    return None if value == ONE else int(value), name == ENDS[0]


class _Found(NamedTuple):
    """Documents that follow each other."""

    first: int  # where the first of them starts, in ids
    offsets: Offsets  # i64[d + 1], from there on
    ids: NDArray[Any] | None  # None: of a single document that is too long to be kept


def _documents(ids: _Ids, edge: Edge, piece: Piece, wanted: Wanted) -> Iterator[_Found]:
    """Yield the documents that start in the piece, in order.

    One starts at the first id of the file, and after each end or at each start.
    """
    token, is_end = edge
    item = ids.dtype.itemsize
    begin, limit = piece.start // item, piece.stop // item
    at_once = max(1, wanted.batch_bytes // item)
    most = wanted.max_record_bytes // item
    place = max(0, begin - is_end)
    first = 0 if begin == 0 else -1  # where the open document starts; -1: none is found yet
    parts: list[NDArray[Any]] = []  # of it, as long as it is not too long
    while place < ids.count and (first >= 0 or place + is_end < limit):
        new = ids.read(place, min(place + at_once, ids.count))
        base, place = place, place + len(new)
        starts = base + np.flatnonzero(False if token is None else new == token) + is_end
        starts = starts[(starts > max(first, begin - 1)) & (starts < ids.count)]
        if first < 0:
            if not len(starts):
                continue
            first, starts, new = int(starts[0]), starts[1:], new[int(starts[0]) - base :]
            base = max(base, first)
        parts.append(new)
        bounds = np.concatenate(([first], starts))
        ended = int(np.count_nonzero(bounds[:-1] < limit))
        if ended and base - first > most:  # the first of these was not kept
            yield _Found(first, bounds[:2] - first, None)
            parts = [new[int(bounds[1]) - base :]]
            bounds, ended = bounds[1:], ended - 1
            first = base = int(bounds[0])
        if ended:
            own = bounds[: ended + 1] - first
            joined = np.concatenate(parts)
            yield _Found(first, own, joined[: int(own[-1])])
            parts, first = [joined[int(own[-1]) :]], int(bounds[ended])
        if first >= limit:
            return
        if place - first > most:
            parts.clear()
    if 0 <= first < limit:
        size = ids.count - first
        if size:
            whole = np.concatenate(parts) if parts and size <= most else None
            yield _Found(first, np.array([0, size]), whole)
