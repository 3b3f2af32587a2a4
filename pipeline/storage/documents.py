"""Bytes ↔ arrays of one ArrayRecord record of a tokenized dataset.

A record holds many documents, because small records are costly. All numbers are little-endian; M is
the number of masks that the manifest lists:

    u32           num_documents
    u32           num_tokens
    u32[M]        num_runs of each mask
    u16|u32[num_tokens]     tokens, one document after another      (manifest: token_dtype)
    0 or 2 bytes of zero    so that what follows is aligned to 4
    u32[num_documents]      where each document ends among the tokens
    u32[num_runs] per mask  where each run of the mask ends; for weights and turns also the values
                            (`masks`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.masks import (
    MASKS,
    TURN_DTYPE,
    MaskRuns,
    check_runs,
    dense_mask,
    join_runs,
    runs_of_numbers,
    slice_runs,
    stored_numbers,
)
from dataprep.pipeline.storage.turns import check_turns
from dataprep.pipeline.types import Offsets

TokenDtype = Literal["uint16", "uint32"]
U32 = np.dtype("<u4")
TOKEN_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": U32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Consecutive documents with the runs of their masks over the flat tokens."""

    tokens: NDArray[Any]  # u16|u32[n]
    ends: Offsets  # i64[d]
    masks: tuple[MaskRuns, ...]  # in the order of the manifest


def token_dtype(max_id: int) -> TokenDtype:
    return "uint16" if max_id < 1 << 16 else "uint32"


def ends_dtype(seq_len: int) -> TokenDtype:
    """Return the type of where documents and runs end in a row, at most seq_len + 1."""
    return token_dtype(seq_len + 1)


def encode_documents(documents: Documents, masks: Sequence[str]) -> bytes:
    tokens = documents.tokens
    kinds = [MASKS[mask] for mask in masks]
    stored = [stored_numbers(r, kind) for r, kind in zip(documents.masks, kinds, strict=True)]
    counts = [len(numbers) // kind.numbers for numbers, kind in zip(stored, kinds, strict=True)]
    return b"".join(
        [
            np.array([len(documents.ends), len(tokens), *counts], U32).tobytes(),
            tokens.tobytes(),
            b"\0" * (-tokens.nbytes % 4),
            documents.ends.astype(U32).tobytes(),
            *(numbers.astype(U32).tobytes() for numbers in stored),
        ]
    )


def decode_documents(
    data: bytes | memoryview, dtype: TokenDtype, masks: Sequence[str]
) -> Documents:
    """Return the arrays of one record; tokens are a view of `data`."""
    kinds = [MASKS[mask] for mask in masks]
    head_bytes = 4 * (2 + len(kinds))
    if len(data) < head_bytes:
        raise CorruptError(f"a record of {len(data)} bytes is shorter than its header")
    num_documents, num_tokens, *num_runs = np.frombuffer(data, U32, 2 + len(kinds)).tolist()
    sizes = [num_documents, *(n * kind.numbers for n, kind in zip(num_runs, kinds, strict=True))]
    token_dtype = TOKEN_DTYPES[dtype]
    token_bytes = num_tokens * token_dtype.itemsize
    place = head_bytes + token_bytes + -token_bytes % 4
    if len(data) != place + 4 * sum(sizes):
        raise CorruptError(
            f"a record of {len(data)} bytes does not match its header "
            f"({counted(num_documents, 'document')}, {counted(num_tokens, 'token')})"
        )
    numbers = np.frombuffer(data, U32, sum(sizes), place).astype(np.int64)
    ends, *stored = np.split(numbers, np.cumsum(sizes)[:-1])
    return Documents(
        tokens=np.frombuffer(data, token_dtype, num_tokens, head_bytes),
        ends=ends,
        masks=tuple(runs_of_numbers(part, k) for part, k in zip(stored, kinds, strict=True)),
    )


def index_dtype(masks: Sequence[str]) -> np.dtype[Any]:
    """Return the type of an index entry: where a document and its mask runs are in their record."""
    places = [("record", "<u4"), ("start", "<u4"), ("length", "<u4")]  # start, length in tokens
    for mask in masks:
        places += [(f"{mask}_first", "<u4"), (f"{mask}_runs", "<u4")]  # runs that touch it
    return np.dtype(places)


def index_documents(documents: Documents, masks: Sequence[str], record: int) -> NDArray[Any]:
    index = np.empty(len(documents.ends), index_dtype(masks))
    starts = np.concatenate(([0], documents.ends[:-1]))
    index["record"] = record
    index["start"] = starts
    index["length"] = documents.ends - starts
    for mask, runs in zip(masks, documents.masks, strict=True):
        kind = MASKS[mask]
        stored = stored_numbers(runs, kind)
        ends = stored[: len(stored) // kind.numbers]
        first = np.searchsorted(ends, starts, side="right")
        index[f"{mask}_first"] = first
        index[f"{mask}_runs"] = np.searchsorted(ends, documents.ends, side="left") + 1 - first
    return index


def check_documents(documents: Documents, max_id: int) -> str:
    """Return what is wrong with a record's arrays, or ''."""
    length = len(documents.tokens)
    if length and int(documents.tokens.max()) > max_id:
        return f"token id {int(documents.tokens.max())} is above the largest allowed, {max_id}"
    if not _ascend_to(documents.ends, length):
        return "document ends do not ascend to the number of tokens"
    for runs in documents.masks:
        wrong = check_runs(runs, length)
        if not wrong and runs.values.dtype == TURN_DTYPE:
            wrong = check_turns(runs, documents.ends)
        if wrong:
            return wrong
    return ""


def _ascend_to(ends: Offsets, total: int) -> bool:
    if not len(ends):
        return total == 0
    return bool(ends[-1] == total and (np.diff(ends, prepend=0) >= 1).all())


def take_tokens(
    documents: Documents, start: int, stop: int
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return the tokens between two places, and their dense masks."""
    masks = [dense_mask(slice_runs(runs, start, stop)) for runs in documents.masks]
    return documents.tokens[start:stop], masks


def document_arrays(
    documents: Documents, masks: Sequence[str], start: int, stop: int
) -> dict[str, NDArray[Any]]:
    """Return the tokens between two places and their dense masks, under the names that they have
    for users."""
    tokens, dense = take_tokens(documents, start, stop)
    arrays = {MASKS[mask].array: values for mask, values in zip(masks, dense, strict=True)}
    weights = arrays.pop(MASKS["weight"].array, None)
    if weights is not None:
        arrays[MASKS["weight"].array] = weights.astype(np.float32) * arrays["loss_mask"]
    return {"tokens": tokens.astype(np.int32), **arrays}


def concatenate(parts: Sequence[Documents]) -> Documents:
    """Join several batches into one."""
    if len(parts) == 1:
        return parts[0]
    starts = offsets_of([len(part.tokens) for part in parts])
    masks = list(parts[0].masks)
    for part, start in zip(parts[1:], starts[1:].tolist(), strict=False):
        masks = [join_runs(a, start, b) for a, b in zip(masks, part.masks, strict=True)]
    return Documents(
        tokens=np.concatenate([part.tokens for part in parts]),
        ends=np.concatenate([part.ends + s for part, s in zip(parts, starts, strict=False)]),
        masks=tuple(masks),
    )


def cut(documents: Documents, count: int) -> tuple[Documents, Documents]:
    """Return the first `count` documents, and the rest."""
    place = int(documents.ends[count - 1]) if count else 0
    total = len(documents.tokens)
    left = Documents(
        tokens=documents.tokens[:place],
        ends=documents.ends[:count],
        masks=tuple(slice_runs(runs, 0, place) for runs in documents.masks),
    )
    right = Documents(
        tokens=documents.tokens[place:],
        ends=documents.ends[count:] - place,
        masks=tuple(slice_runs(runs, place, total) for runs in documents.masks),
    )
    return left, right
