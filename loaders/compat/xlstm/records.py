"""Token ids of any source as rows: one record a row, or several where they fit.

    records   1 2 3 E · 4 5 E · 6 E        L = 8
    rows      1 2 3 E 0 0 0 0 · …          without packing; an EOD ends a document, inside too
              1 2 3 E 4 5 E 0 · 6 E …      packed: as many of the next records as fit

For data that xlstm-jax has already: `dataprep pack` fills rows better, and only once. What is read
is encoded as a packed dataset has it, so that everything after this is the same code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.compat.xlstm.sources import RecordFiles
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.storage.documents import ends_dtype
from dataprep.pipeline.storage.entries import TokenizerEntry
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, PackedManifest
from dataprep.pipeline.storage.rows import RowLayout, Rows, encode_rows
from dataprep.pipeline.types import Offsets

Tokens = NDArray[np.int32]
ReadTokens = Callable[[int], Tokens]
_MOST = (1 << 31) - 1  # the highest id
_RECORDS_HASHED = 16  # of files


class RecordRows(PackedDataset):
    """The records of a source as rows of a packed dataset."""

    def __init__(
        self,
        source: Any,
        max_length: int,
        *,
        eod: int | None,
        operations: Sequence[Any] = (),
        packed: bool = False,
        ends_before_eod: bool = False,
    ) -> None:
        """`operations`: of grain, applied to each record; `ends_before_eod`: whether an EOD begins
        a document, as it does where nothing is shifted to the right."""

        def read(number: int) -> Tokens:
            return _tokens_of(source, number, operations, max_length)

        told = f"{max_length} {packed} {eod} {ends_before_eod}"
        about = _manifest(max_length, eod, _fingerprint_of(source, read, told))
        layout = RowLayout.of_manifest(about)
        starts = _packed(read, len(source), max_length) if packed else np.arange(len(source) + 1)
        splits = None if packed else eod
        shards = RecordShards(read, starts, layout, splits, ends_before_eod=ends_before_eod)
        super().__init__(Path(), about, shards=shards)
        self._count = len(starts) - 1
        self._made_anew = partial(
            RecordRows,
            source,
            max_length,
            eod=eod,
            operations=operations,
            packed=packed,
            ends_before_eod=ends_before_eod,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_anew, ()

    def __len__(self) -> int:
        return self._count


class RecordShards:
    """Reads records, and encodes the rows that they are in."""

    def __init__(
        self,
        read: ReadTokens,
        starts: Offsets,
        layout: RowLayout,
        splits: int | None,
        *,
        ends_before_eod: bool,
    ) -> None:
        """`starts`: the first record of each row; `splits`: the token that documents end with."""
        self._read, self._starts, self._layout = read, starts, layout
        self._splits, self._ends_before_eod = splits, ends_before_eod

    def fetch(self, rows: Offsets) -> RowBytes:
        made = [self._row(int(row)) for row in rows]
        tokens = np.zeros((len(rows), self._layout.capacity), np.int64)
        loss = np.zeros((len(rows), self._layout.capacity), bool)
        for i, (row, its_ends) in enumerate(made):
            tokens[i, : len(row)] = row
            loss[i, : len(row)] = True
            loss[i, np.append(0, its_ends[:-1])] = False
        ends = IntegerLists(
            values=np.concatenate([np.zeros(0, np.int64), *(own for _, own in made)]),
            offsets=offsets_of([len(own) for _, own in made]),
        )
        encoded = encode_rows(
            Rows(
                tokens=tokens.astype(self._layout.tokens),
                left_padding=np.zeros(len(rows), np.int64),
                ends=ends,
                first_loss=np.ones(len(ends.values), bool),
                masks=(_runs(loss),),
            ),
            self._layout,
        )
        sizes = np.array([len(payload) for payload in encoded], np.int64)
        return RowBytes(
            # With room after the last: an empty array has no memory to look at.
            memory=np.frombuffer(b"".join(encoded) + bytes(self._layout.tail_start), np.uint8),
            first=offsets_of(sizes)[:-1],
            size=sizes,
            in_blocks=False,
        )

    def _row(self, number: int) -> tuple[Tokens, Offsets]:
        """Return the tokens of a row, and where its documents end."""
        first, last = self._starts[number : number + 2].tolist()
        records = [self._read(i) for i in range(first, last)]
        tokens = np.concatenate([np.zeros(0, np.int32), *records])
        if self._splits is None:
            return tokens, np.unique(np.cumsum([len(record) for record in records]))
        ends = np.flatnonzero(tokens == self._splits) + (not self._ends_before_eod)
        return tokens, np.unique(np.append(ends[ends > 0], len(tokens)))[: len(tokens)]

    def check(self) -> None:
        """Do nothing: what was read is in memory."""

    def prove_all(self) -> None:
        """Do nothing: records have no hashes."""

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
        """Do nothing: sources cannot be told."""


def _runs(mask: NDArray[np.bool_]) -> IntegerLists:
    """Return where the runs of each row end, the first of which is False."""
    row, column = np.nonzero(mask[:, 1:] != mask[:, :-1])
    counts = np.bincount(row, minlength=len(mask)) + 1
    values = np.insert(column + 1, np.cumsum(counts - 1), mask.shape[1])
    return IntegerLists(values=values, offsets=offsets_of(counts))


def _tokens_of(source: Any, number: int, operations: Sequence[Any], max_length: int) -> Tokens:
    record = source[number]
    for operation in operations:
        record = operation.map(record) if hasattr(operation, "map") else operation(record)
    if isinstance(record, Mapping):
        named = [np.asarray(record[name]) for name in ("inputs", "targets") if name in record]
        if not named or not np.array_equal(named[0], named[-1]):
            raise InputError(f"record {number}: inputs and targets must be there, and be the same")
        record = named[0]
    if isinstance(record, bytes):
        if len(record) % 4:
            raise InputError(f"record {number} has {len(record)} bytes, which are no int32 ids")
        record = np.frombuffer(record, "<i4")
    tokens = np.asarray(record)
    if tokens.ndim != 1 or len(tokens) > max_length:
        raise InputError(
            f"record {number} has {tokens.size} tokens, max_target_length is {max_length}; cut it, "
            "or tokenize and pack it with dataprep, which splits what is longer"
        )
    if len(tokens) and (
        tokens.dtype.kind not in "iu" or not 0 <= int(tokens.min()) <= int(tokens.max()) <= _MOST
    ):
        raise InputError(f"record {number} does not hold token ids")
    return tokens.astype(np.int32)


def _packed(read: ReadTokens, count: int, max_length: int) -> Offsets:
    """Return the first record of each row, so that rows have as many records as fit in order."""
    starts, used = [0], 0
    for number in range(count):
        length = len(read(number))
        if used + length > max_length:
            starts.append(number)
            used = 0
        used += length
    return np.array([*starts, count] if count else [0], np.int64)


def _fingerprint_of(source: Any, read: ReadTokens, told: str) -> str:
    """Return what tells sources apart, and what is made of them: of files their names, sizes and
    some records, else all tokens."""
    digest = hashlib.sha256(f"records {len(source)} {told}".encode())
    step = 1
    if isinstance(source, RecordFiles):
        step = max(1, len(source) // _RECORDS_HASHED)
        for path in source.paths:
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
    for number in range(0, len(source), step):
        digest.update(read(number).tobytes() + b"\0")
    return f"sha256:{digest.hexdigest()}"


def _manifest(max_length: int, eod: int | None, fingerprint: str) -> PackedManifest:
    """Return the manifest of what is on no disk: what a loader asks of it."""
    tokenizer = TokenizerEntry(
        sha256="", kind="", vocab_size=0, bos=None, eos=eod, pad=0, engine=""
    )
    return PackedManifest(
        format_version=FORMAT_VERSION,
        kind="packed",
        fingerprint=fingerprint,
        parents=(),
        config={},
        tokenizer=tokenizer,
        sources=(),
        seq_len=max_length - 1,
        token_dtype="uint32",
        ends_dtype=ends_dtype(max_length - 1),
        max_id=_MOST,
        pad=0,
        compression="none",
        strategy="records",
        masks=("loss",),
        shards=(),
        counts={},
        identity={},
    )
