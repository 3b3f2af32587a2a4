"""Write the documents of one task into shards: temp -> fsync -> rename -> marker.

    documents ─► records of about 256k tokens ─► shard of at most about shard_bytes
        + index       place and length of each document, so that it can be read by itself
        + provenance  piece, line and byte of each document
        + keys        hashes of its content and its group, if they are asked for
        + errors      records that could not be used
        + marker      counts, hashes, where to continue

Where records and shards are cut depends only on the documents, never on the batches they come in.
A shard counts only when its marker exists; a task continues after its last marker.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.process import Processed
from dataprep.pipeline.documents.together import PieceLines
from dataprep.pipeline.files import NewFile, Written, commit_files
from dataprep.pipeline.jobs.commits import Cursor, shard_file, write_marker
from dataprep.pipeline.jobs.progress import EXAMPLES, Example
from dataprep.pipeline.storage.arrayrecord import MAPPABLE, RecordWriter, save_array
from dataprep.pipeline.storage.documents import (
    Documents,
    concatenate,
    cut,
    encode_documents,
    index_documents,
    index_dtype,
)
from dataprep.pipeline.storage.keys import DOCUMENT_KEY
from dataprep.pipeline.storage.masks import MASKS, marked_before
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN
from dataprep.pipeline.types import Offsets, RecordError

RECORD_TOKENS = 1 << 18

FILES = {  # of one shard, by their role in the dataset
    "shards": ".arrayrecord",
    "index": ".index.npy",
    "provenance": ".provenance.npy",
    "keys": ".keys.npy",  # only if documents have keys
    "errors": ".errors.jsonl",
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of the records of one source."""

    records: int = 0
    read: int = 0  # documents: written, or records that gave none
    written: int = 0
    empty: int = 0
    bad: int = 0
    tokens: int = 0
    marked: dict[str, int] = field(default_factory=dict)  # tokens by MaskKind.count
    codes_dropped: int = 0  # of partial frames
    codes_thinned: int = 0  # of frames or codebooks that the config leaves out
    special_in_text: int = 0  # special tokens that texts spell, of bad records too
    with_special: int = 0  # documents and bad records whose texts spell one
    tokens_cut: int = 0  # by the budget
    truncated: int = 0  # documents that it cut
    thinking_left_out: int = 0  # messages with thinking that the chat template does not write


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsMarker:
    """The marker of one committed shard."""

    record_bytes: list[int]  # size of each record
    num_documents: int
    num_records: int  # that these were made of, and those that gave none
    num_tokens: int
    tallies: dict[str, Tally]  # by source index
    examples: list[Example]  # its first bad records
    optional: dict[str, list[str]]  # optional keys that records have, by a source of their input
    lines: dict[str, int]  # lines seen so far of each piece that the task has touched
    files: dict[str, Written]  # by role
    cursor: Cursor
    final: bool  # whether it is the last shard of its task

    @property
    def is_empty(self) -> bool:
        return not self.num_documents


@dataclass(slots=True)
class _Open:
    """The shard being written."""

    writer: RecordWriter
    errors: NewFile
    record_bytes: list[int] = field(default_factory=list)
    index: list[NDArray[Any]] = field(default_factory=list)
    provenance: list[NDArray[Any]] = field(default_factory=list)
    keys: list[NDArray[Any]] = field(default_factory=list)
    num_documents: int = 0
    num_records: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    optional: dict[str, list[str]] = field(default_factory=dict)


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
        has_keys: bool = False,
    ) -> None:
        self._stem = stem
        self._masks = masks
        self._sources = pieces  # source index of each piece of the task
        self._shard_bytes = shard_bytes
        self._roles = [role for role in FILES if has_keys or role != "keys"]
        dtypes = (index_dtype(masks), DOCUMENT_ORIGIN, *([DOCUMENT_KEY] if has_keys else []))
        self._entry_bytes = sum(dtype.itemsize for dtype in dtypes)
        self._number = len(done)
        self._lines: dict[str, int] = dict(done[-1].lines) if done else {}
        self._pending: list[Documents] = []
        self._pending_tokens = 0
        self._cursor = done[-1].cursor if done else Cursor()
        self._open = self._start()

    def add(self, batch: Processed, lines: PieceLines) -> None:
        """Write a batch; commit every shard that becomes full. `lines` say whose records it has."""
        documents, origins, keys = batch.documents, batch.origins, batch.keys
        self._note_optional(batch, lines)
        line = 0
        while True:
            room = RECORD_TOKENS - self._pending_tokens
            count = int(np.searchsorted(documents.ends, room)) + 1
            if count > len(documents.ends):
                break
            # The documents of one record stay together: a run goes on after a whole record.
            same = origins["line"][count:] == origins["line"][count - 1]
            count += int(np.argmin(np.append(same, False)))
            taken, documents = cut(documents, count)
            self._append(taken, origins[:count], lines)
            keys = self._append_keys(keys, count)
            next_line = int(origins["line"][count - 1]) + 1
            self._account(batch, lines, line, next_line)
            line, origins = next_line, origins[count:]
            self._flush_record()
            if self._open_bytes() >= self._shard_bytes:
                self._prepare_commit(final=False)()
                self._open = self._start()
        if len(documents.ends):
            self._append(documents, origins, lines)
            self._append_keys(keys, len(origins))
        self._account(batch, lines, line, batch.next_line)

    def finish(self) -> Callable[[], None]:
        """Return the function that commits the last shard of the task, which may be empty."""
        if self._pending_tokens:
            self._flush_record()
        return self._prepare_commit(final=True)

    def _append(self, documents: Documents, origins: NDArray[Any], lines: PieceLines) -> None:
        owners = lines.owners(origins["line"])
        provenance = np.empty(len(documents.ends), DOCUMENT_ORIGIN)
        provenance["piece"] = lines.places[owners]
        provenance["line"] = origins["line"] - lines.firsts[owners]
        provenance["offset"] = origins["offset"]
        self._open.provenance.append(provenance)
        self._pending.append(documents)
        self._pending_tokens += len(documents.tokens)
        self._open.num_documents += len(documents.ends)
        self._open.num_records += _num_runs(origins["line"])
        starts = np.searchsorted(owners, np.arange(len(lines.firsts)))  # documents of each piece
        tokens = np.concatenate(([0], documents.ends))[starts]
        sums = _sums(documents, origins, starts, tokens)
        marked = _marked(documents, self._masks, tokens)
        for i in np.flatnonzero(np.bincount(owners)).tolist():
            tally = self._tally(int(lines.places[i]))
            for name, values in sums.items():
                setattr(tally, name, getattr(tally, name) + values[i])
            for name, values in marked.items():
                tally.marked[name] = tally.marked.get(name, 0) + values[i]

    def _append_keys(self, keys: NDArray[Any] | None, count: int) -> NDArray[Any] | None:
        """Keep the keys of the first documents; return those of the others."""
        if keys is None:
            return None
        self._open.keys.append(keys[:count])
        return keys[count:]

    def _account(self, batch: Processed, lines: PieceLines, start: int, stop: int) -> None:
        """Count the batch's records of lines [start, stop) that gave no document, and go on."""
        is_here = (batch.empty_lines >= start) & (batch.empty_lines < stop)
        empty = Counter(lines.owners(batch.empty_lines[is_here]).tolist())
        errors = [e for e in batch.errors if start <= e.line < stop]
        self._open.num_records += int(is_here.sum()) + len(errors)
        owners = lines.owners(np.array([e.line for e in errors], np.int64)).tolist()
        bad = Counter(owners)
        special, with_special = Counter[int](), Counter[int]()
        for owner, e in zip(owners, errors, strict=True):
            special[owner] += e.special
            with_special[owner] += e.special > 0
        if errors:  # written as they come: there may be more of them than fit in memory
            self._write_errors(errors, owners, lines)
        for i, piece, line in lines.within(start, stop):
            tally = self._tally(piece)
            tally.records += empty[i] + bad[i]
            tally.empty += empty[i]
            tally.bad += bad[i]
            tally.special_in_text += special[i]
            tally.with_special += with_special[i]
            tally.read = tally.written + tally.empty + tally.bad
            self._lines[str(piece)] = line
            self._cursor = Cursor(piece=piece, line=line)

    def _write_errors(
        self, errors: Sequence[RecordError], owners: Sequence[int], lines: PieceLines
    ) -> None:
        listed = []
        for owner, e in zip(owners, errors, strict=True):
            own = replace(e, line=e.line - int(lines.firsts[owner]))
            piece = int(lines.places[owner])
            listed.append(json.dumps({"piece": piece, **asdict(own)}) + "\n")
            if len(self._open.examples) < EXAMPLES:
                self._open.examples.append((piece, own.line, own.reason))
        self._open.errors.write_lines(listed)

    def _note_optional(self, batch: Processed, lines: PieceLines) -> None:
        """Note the optional keys that are there: of the whole batch, which is of one input."""
        if batch.optional:
            source = str(self._sources[int(lines.places[0])])
            known = self._open.optional.get(source, [])
            self._open.optional[source] = sorted({*known, *batch.optional})

    def _tally(self, piece: int) -> Tally:
        source = str(self._sources[piece])
        tally = self._open.tallies.get(source)
        if tally is None:
            tally = self._open.tallies[source] = Tally()
        return tally

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
        """Return the size of the open shard with its index and the like, still in memory."""
        return sum(self._open.record_bytes) + self._entry_bytes * self._open.num_documents

    def _start(self) -> _Open:
        writer = RecordWriter(self._path("shards"), MAPPABLE)
        return _Open(writer, NewFile(self._path("errors")))

    def _prepare_commit(self, *, final: bool) -> Callable[[], None]:
        """End the open shard; return the function that commits it, independent of this sink."""
        paths = {role: self._path(role) for role in self._roles}
        stem, number = self._stem, self._number
        shard, lines, cursor = self._open, dict(self._lines), self._cursor
        index_type = index_dtype(self._masks)
        self._number += 1

        def commit() -> None:
            index = np.concatenate([np.zeros(0, index_type), *shard.index])
            provenance = np.concatenate([np.zeros(0, DOCUMENT_ORIGIN), *shard.provenance])
            arrays = {"index": index, "provenance": provenance}
            if "keys" in paths:
                arrays["keys"] = np.concatenate([np.zeros(0, DOCUMENT_KEY), *shard.keys])
            saved = {role: save_array(paths[role], array) for role, array in arrays.items()}
            committed = DocumentsMarker(
                record_bytes=shard.record_bytes,
                num_documents=len(index),
                num_records=shard.num_records,
                num_tokens=int(index["length"].sum(dtype=np.int64)),
                tallies=shard.tallies,
                examples=shard.examples,
                optional=shard.optional,
                lines=lines,
                files=commit_files({"shards": shard.writer, **saved, "errors": shard.errors}),
                cursor=cursor,
                final=final,
            )
            write_marker(stem, number, committed, paths)

        return commit


def _num_runs(lines: NDArray[Any]) -> int:
    """Return how many different lines there are, in order; `np.unique` imports a package more."""
    return int(np.count_nonzero(np.diff(lines))) + min(len(lines), 1)


def _sums(
    documents: Documents, origins: NDArray[Any], starts: Offsets, tokens: Offsets
) -> dict[str, list[int]]:
    """What to add to the tally of each piece.

    Its documents begin at `starts`, their tokens at `tokens`.
    """
    sums = {"written": np.diff(starts).tolist(), "tokens": np.diff(tokens).tolist()}
    names = ("codes_dropped", "codes_thinned", "special_in_text", "thinking_left_out")
    counts = {name: origins[name] for name in names}
    # The documents of a record follow each other, and are added together.
    counts["records"] = np.diff(origins["line"], prepend=-1) != 0
    counts["with_special"] = origins["special_in_text"] > 0
    counts |= {"tokens_cut": origins["tokens_cut"], "truncated": origins["tokens_cut"] > 0}
    for name, values in counts.items():
        before = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
        sums[name] = np.diff(before[starts]).tolist()
    return sums


def _marked(documents: Documents, masks: Sequence[str], tokens: Offsets) -> dict[str, list[int]]:
    """The marked tokens of each piece, by MaskKind.count."""
    kinds = [MASKS[mask] for mask in masks]
    return {
        kind.count: np.diff(marked_before(runs, kind, tokens)).tolist()
        for kind, runs in zip(kinds, documents.masks, strict=True)
    }
