"""Bytes ↔ arrays of one ArrayRecord record. Shared by the writers and by `loaders`.

A record of a tokenized dataset holds many documents, since small records are dear. All numbers
are little-endian; M is the number of masks that the manifest lists:

    u32           num_documents
    u32           num_tokens
    u32[M]        num_runs of each mask
    u16|u32[num_tokens]     tokens, one document after another      (manifest: token_dtype)
    0 or 2 bytes of zero    so that what follows is aligned to 4
    u32[num_documents]      where each document ends among the tokens
    u32[num_runs] per mask  where each run of the mask ends

Runs alternate, and the first is False, so a mask that starts True has a first run of length 0:

    mask 0 0 1 1 1 0   ->   run ends 2 5 6
    mask 1 1 0         ->   run ends 0 2 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.types import Mask, Offsets

U32 = np.dtype("<u4")
TOKEN_DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": U32}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Consecutive documents with their masks as run ends over the flat tokens."""

    tokens: NDArray[Any]  # u16|u32[n]
    ends: Offsets  # i64[d]
    runs: tuple[Offsets, ...]  # one i64[r] for each mask


def token_dtype(max_id: int) -> str:
    return "uint16" if max_id < 1 << 16 else "uint32"


def runs_of_parts(flags: Mask, lengths: Offsets) -> Offsets:
    """Run ends of a mask given as parts: flags [0,1,1,0], lengths [1,2,1,3] -> [1, 4, 7]."""
    flags, lengths = flags[lengths > 0], lengths[lengths > 0]
    if not len(flags):
        return np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    runs = ends[np.append(flags[1:] != flags[:-1], True)]
    return np.concatenate(([0], runs)) if flags[0] else runs


def mask_of_runs(runs: NDArray[Any], length: int) -> Mask:
    """Run ends to a dense mask: [0, 2, 3] -> [1, 1, 0]."""
    ends = np.asarray(runs, np.int64)
    flags = np.arange(len(ends)) % 2 == 1
    mask = np.repeat(flags, np.diff(ends, prepend=0))
    assert len(mask) == length, (len(mask), length)
    return mask


def count_true(runs: NDArray[Any]) -> int:
    """Tokens that a mask has: run ends [2, 5, 6] -> 3."""
    return int(np.diff(runs, prepend=0)[1::2].sum())


def slice_runs(runs: Offsets, start: int, stop: int) -> Offsets:
    """Run ends of the mask between two tokens: runs [2, 5, 6], tokens 3..6 -> [0, 2, 3]."""
    first = int(np.searchsorted(runs, start, side="right"))
    last = int(np.searchsorted(runs, stop, side="left"))
    inside = np.clip(runs[first : last + 1], start, stop) - start
    if start == stop:
        return np.zeros(0, np.int64)
    # Runs before `first` end at or before `start`; parity says what the first one here is.
    return np.concatenate((np.zeros(1, np.int64), inside)) if first % 2 else inside


def join_runs(left: Offsets, num_tokens: int, right: Offsets) -> Offsets:
    """Run ends of two masks one after the other; `left` covers `num_tokens`."""
    if not len(right):
        return left
    if not len(left):
        return right + num_tokens
    moved = right + num_tokens
    left_true, right_true = len(left) % 2 == 0, bool(right[0] == 0)
    if right_true:
        moved = moved[1:]
    # Where the touching runs are alike they become one, so the left one's end goes.
    return np.concatenate((left[:-1] if left_true == right_true else left, moved))


def encode_documents(documents: Documents) -> bytes:
    tokens = documents.tokens
    head = [len(documents.ends), len(tokens), *(len(r) for r in documents.runs)]
    return b"".join(
        [
            np.array(head, U32).tobytes(),
            tokens.tobytes(),
            b"\0" * (-tokens.nbytes % 4),
            documents.ends.astype(U32).tobytes(),
            *(runs.astype(U32).tobytes() for runs in documents.runs),
        ]
    )


def decode_documents(data: bytes, dtype: str, num_masks: int) -> Documents:
    """The arrays of one record; tokens are a view of `data`."""
    head_bytes = 4 * (2 + num_masks)
    if len(data) < head_bytes:
        raise CorruptError(f"record of {len(data)} bytes is shorter than its header")
    num_documents, num_tokens, *num_runs = np.frombuffer(data, U32, 2 + num_masks).tolist()
    kind = TOKEN_DTYPES[dtype]
    token_bytes = num_tokens * kind.itemsize
    place = head_bytes + token_bytes + -token_bytes % 4
    if len(data) != place + 4 * (num_documents + sum(num_runs)):
        raise CorruptError(
            f"record of {len(data)} bytes does not fit its header "
            f"({num_documents} documents, {num_tokens} tokens)"
        )
    arrays: list[Offsets] = []
    for count in (num_documents, *num_runs):
        arrays.append(np.frombuffer(data, U32, count, place).astype(np.int64))
        place += 4 * count
    return Documents(
        tokens=np.frombuffer(data, kind, num_tokens, head_bytes),
        ends=arrays[0],
        runs=tuple(arrays[1:]),
    )


def index_dtype(masks: Sequence[str]) -> np.dtype[Any]:
    """An entry of the index: where a document and its mask runs lie within their record."""
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
    for mask, runs in zip(masks, documents.runs, strict=True):
        first = np.searchsorted(runs, starts, side="right")
        index[f"{mask}_first"] = first
        index[f"{mask}_runs"] = np.searchsorted(runs, documents.ends, side="left") + 1 - first
    return index


def check_documents(documents: Documents, max_id: int) -> str:
    """What is wrong with a record's arrays, or ''."""
    length = len(documents.tokens)
    if length and int(documents.tokens.max()) > max_id:
        return f"token id {int(documents.tokens.max())} is above the largest allowed, {max_id}"
    if not _ascend_to(documents.ends, length, strict=True):
        return "document ends do not ascend to the number of tokens"
    for runs in documents.runs:
        if not _ascend_to(runs, length, strict=False):
            return "mask runs do not ascend to the number of tokens"
    return ""


def _ascend_to(ends: Offsets, total: int, *, strict: bool) -> bool:
    if not len(ends):
        return total == 0
    steps = np.diff(ends, prepend=0)
    lowest = int(steps[0 if strict else 1 :].min(initial=1))
    return bool(ends[-1] == total and ends[0] >= 0 and lowest >= 1)


def take_tokens(documents: Documents, start: int, stop: int) -> tuple[NDArray[Any], list[Mask]]:
    """Tokens between two places, and their dense masks."""
    masks = [mask_of_runs(slice_runs(r, start, stop), stop - start) for r in documents.runs]
    return documents.tokens[start:stop], masks


def concatenate(parts: Sequence[Documents]) -> Documents:
    """Several batches as one."""
    if len(parts) == 1:
        return parts[0]
    ends: list[Offsets] = []
    runs = list(parts[0].runs)
    total = 0
    for i, part in enumerate(parts):
        ends.append(part.ends + total)
        if i:
            runs = [join_runs(a, total, b) for a, b in zip(runs, part.runs, strict=True)]
        total += len(part.tokens)
    return Documents(
        tokens=np.concatenate([p.tokens for p in parts]),
        ends=np.concatenate(ends),
        runs=tuple(runs),
    )


def cut(documents: Documents, count: int) -> tuple[Documents, Documents]:
    """The first `count` documents, and the rest."""
    place = int(documents.ends[count - 1]) if count else 0
    total = len(documents.tokens)
    left = Documents(
        tokens=documents.tokens[:place],
        ends=documents.ends[:count],
        runs=tuple(slice_runs(r, 0, place) for r in documents.runs),
    )
    right = Documents(
        tokens=documents.tokens[place:],
        ends=documents.ends[count:] - place,
        runs=tuple(slice_runs(r, place, total) for r in documents.runs),
    )
    return left, right
