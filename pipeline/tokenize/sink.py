"""Write the documents of one task into shards: temp -> fsync -> rename -> marker.

    documents ─► records of about 256k tokens ─► shard of at most about shard_bytes
        + index       place and length of each document, so that it can be read by itself
        + provenance  piece, line and byte of each document
        + errors      records that could not be used
        + marker      counts, hashes, where to continue

Where records and shards are cut depends only on the documents, never on the batches they come in.
A shard counts only when its marker exists; a task continues after its last marker.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.process import Processed
from dataprep.pipeline.files import Written, commit_files, temporary
from dataprep.pipeline.jobs.commits import Cursor, shard_file, write_marker
from dataprep.pipeline.storage.arrayrecord import (
    MAPPABLE,
    RecordWriter,
    check_written,
    save_array,
)
from dataprep.pipeline.storage.documents import (
    Documents,
    concatenate,
    cut,
    encode_documents,
    index_documents,
    index_dtype,
)
from dataprep.pipeline.storage.masks import MASKS, count_marked
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN

RECORD_TOKENS = 1 << 18

FILES = {  # of one shard, by their role in the dataset
    "shards": ".arrayrecord",
    "index": ".index.npy",
    "provenance": ".provenance.npy",
    "errors": ".errors.jsonl",
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of the records of one source."""

    read: int = 0
    written: int = 0
    empty: int = 0
    bad: int = 0
    tokens: int = 0
    marked: dict[str, int] = field(default_factory=dict)  # tokens by MaskKind.count
    codes_dropped: int = 0  # of partial frames
    codes_thinned: int = 0  # of frames or codebooks that the config leaves out
    by_reference: int = 0  # documents with a text that only the reference may encode


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsMarker:
    """The marker of one committed shard."""

    record_bytes: list[int]  # size of each record
    num_documents: int
    num_tokens: int
    tallies: dict[str, Tally]  # by source index
    lines: dict[str, int]  # lines seen so far of each piece that the task has touched
    files: dict[str, Written]  # by role
    cursor: Cursor
    final: bool  # whether it is the last shard of its task


@dataclass(slots=True)
class _Open:
    """The shard being written."""

    writer: RecordWriter
    record_bytes: list[int] = field(default_factory=list)
    index: list[NDArray[Any]] = field(default_factory=list)
    provenance: list[NDArray[Any]] = field(default_factory=list)
    num_documents: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)


class ShardSink:
    """Write the batches of one task in order; `stem` is the path of its shards without number."""

    def __init__(
        self,
        stem: Path,
        pieces: tuple[int, ...],
        masks: tuple[str, ...],
        shard_bytes: int,
        *,
        done: list[DocumentsMarker],
    ) -> None:
        self._stem = stem
        self._masks = masks
        self._sources = pieces  # source index of each piece of the task
        self._shard_bytes = shard_bytes
        self._number = len(done)
        self._lines: dict[str, int] = dict(done[-1].lines) if done else {}
        self._pending: list[Documents] = []
        self._pending_tokens = 0
        self._cursor = done[-1].cursor if done else Cursor()
        self._open = self._start()

    def add(self, batch: Processed, piece: int) -> None:
        """Write a batch of the piece at place `piece`; commit every shard that becomes full."""
        documents, origins = batch.documents, batch.origins
        line = self._cursor.line if piece == self._cursor.piece else 0
        while True:
            room = RECORD_TOKENS - self._pending_tokens
            count = int(np.searchsorted(documents.ends, room)) + 1
            if count > len(documents.ends):
                break
            taken, documents = cut(documents, count)
            self._append(taken, origins[:count], piece)
            next_line = int(origins["line"][count - 1]) + 1
            self._account(batch, piece, line, next_line)
            line, origins = next_line, origins[count:]
            self._advance(piece, line)
            self._flush_record()
            if self._open_bytes() >= self._shard_bytes:
                self._prepare_commit(final=False)()
                self._open = self._start()
        if len(documents.ends):
            self._append(documents, origins, piece)
        self._account(batch, piece, line, batch.next_line)
        self._advance(piece, batch.next_line)

    def finish(self) -> Callable[[], None]:
        """Return the function that commits the last shard of the task, which may be empty."""
        if self._pending_tokens:
            self._flush_record()
        return self._prepare_commit(final=True)

    def _advance(self, piece: int, line: int) -> None:
        self._cursor = Cursor(piece=piece, line=line)
        self._lines[str(piece)] = line

    def _append(self, documents: Documents, origins: NDArray[Any], piece: int) -> None:
        count = len(documents.ends)
        provenance = np.empty(count, DOCUMENT_ORIGIN)
        provenance["piece"] = piece
        provenance["line"], provenance["offset"] = origins["line"], origins["offset"]
        self._open.provenance.append(provenance)
        self._pending.append(documents)
        self._pending_tokens += len(documents.tokens)
        tally = self._tally(piece)
        self._open.num_documents += count
        tally.written += count
        tally.tokens += len(documents.tokens)
        for mask, runs in zip(self._masks, documents.masks, strict=True):
            kind = MASKS[mask]
            so_far = tally.marked.get(kind.count, 0)
            tally.marked[kind.count] = so_far + count_marked(runs, kind)
        tally.codes_dropped += int(origins["codes_dropped"].sum())
        tally.codes_thinned += int(origins["codes_thinned"].sum())
        tally.by_reference += int(origins["by_reference"].sum())

    def _account(self, batch: Processed, piece: int, start: int, stop: int) -> None:
        """Count the batch's records of lines [start, stop) that gave no document."""
        tally = self._tally(piece)
        errors = [e for e in batch.errors if start <= e.line < stop]
        empty = int(((batch.empty_lines >= start) & (batch.empty_lines < stop)).sum())
        if errors:  # written as they come: there may be more of them than fit in memory
            with open(temporary(self._path("errors")), "a", encoding="utf-8") as file:
                file.writelines(json.dumps({"piece": piece, **asdict(e)}) + "\n" for e in errors)
        tally.empty += empty
        tally.bad += len(errors)
        tally.read = tally.written + tally.empty + tally.bad

    def _tally(self, piece: int) -> Tally:
        return self._open.tallies.setdefault(str(self._sources[piece]), Tally())

    def _flush_record(self) -> None:
        documents = concatenate(self._pending)
        index = index_documents(documents, self._masks, len(self._open.record_bytes))
        self._open.index.append(index)
        data = encode_documents(documents, self._masks)
        self._open.writer.write(data)
        self._open.record_bytes.append(len(data))
        self._pending, self._pending_tokens = [], 0

    def _path(self, role: str) -> Path:
        return shard_file(self._stem, self._number, FILES[role])

    def _open_bytes(self) -> int:
        """Return the size of the open shard with its index and provenance, still in memory."""
        entry = index_dtype(self._masks).itemsize + DOCUMENT_ORIGIN.itemsize
        return sum(self._open.record_bytes) + entry * self._open.num_documents

    def _start(self) -> _Open:
        temporary(self._path("errors")).write_bytes(b"")
        return _Open(RecordWriter(temporary(self._path("shards")), MAPPABLE))

    def _prepare_commit(self, *, final: bool) -> Callable[[], None]:
        """End the open shard; return the function that commits it, independent of this sink."""
        paths = {role: self._path(role) for role in FILES}
        stem, number = self._stem, self._number
        shard, lines, cursor = self._open, dict(self._lines), self._cursor
        index_type = index_dtype(self._masks)
        self._number += 1

        def commit() -> None:
            shard.writer.close()
            index = np.concatenate([np.zeros(0, index_type), *shard.index])
            provenance = np.concatenate([np.zeros(0, DOCUMENT_ORIGIN), *shard.provenance])
            save_array(temporary(paths["index"]), index)
            save_array(temporary(paths["provenance"]), provenance)
            check_written(temporary(paths["shards"]), len(shard.record_bytes))
            committed = DocumentsMarker(
                record_bytes=shard.record_bytes,
                num_documents=len(index),
                num_tokens=int(index["length"].sum(dtype=np.int64)),
                tallies=shard.tallies,
                lines=lines,
                files=commit_files(paths),
                cursor=cursor,
                final=final,
            )
            write_marker(stem, number, committed)

        return commit
