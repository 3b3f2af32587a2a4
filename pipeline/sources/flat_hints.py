"""What tells how flat files of token ids are meant, and whether it is said rightly.

document_end 0      5 9 0 | 7 0          a file that begins with 0, or does not end with it, is
                                         told: documents may start with it, or end with another
loss_masks          shards=masks         shards/a.npy has its mask in masks/a.npy
halves of ids       7 0 900 1 42 0       every second is nearly 0: ids of four bytes, not of two
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.token_files import open_mask

ENDS = ("document_end", "document_start")
MASKS = "loss_masks"
ONE = "none"  # as document_end: a file is one document
# What the paths of masks have instead, in exports and at OLMo's: looked for if nothing is said.
_KNOWN_MASKS = ("shards=masks", "token_ids=labels_mask")
_LISTS = 64  # that are looked at
_PAIRS = 8  # of ids: fewer tell nothing
_LARGER = {  # by the bytes of an id
    2: ("four bytes, not two", "tokens_uint32 or tokens_int32"),
    4: ("eight bytes, not four", "tokens_int64"),
}
_FEW = 16  # upper halves of ids, if these are below 2^20
# The token between documents, None if there is none; and whether it ends one, or starts one.
Edge = tuple[int | None, bool]
Seen = tuple[str, int]  # a file, and the id at its beginning or end


def mask_of(path: str, rule: str) -> str:
    """Return where the mask of a file of ids is, by a rule OLD=NEW.

    >>> mask_of("a/shards/b/shards/0.npy", "shards=masks")
    'a/shards/b/masks/0.npy'
    """
    old, _, new = rule.partition("=")
    before, found, after = path.rpartition(old)
    if not found:
        raise InputError(
            f"{MASKS} {rule} says where masks are by what {old!r} is replaced with, but {path} has "
            "none in it"
        )
    return before + new + after


def are_halves(low: NDArray[Any], high: NDArray[Any]) -> bool:
    """Return whether ids look like the halves of larger ones: every second is 0, or hardly more."""
    if not high.any():
        return bool(low.any())
    if high.itemsize > 2:  # of 2^32 and more, which no vocabulary has
        return False
    is_long = len(high) >= 4 * _FEW  # and not a few documents of one token and their end
    return is_long and int(high.max()) < _FEW <= int(low.max()) and len(np.unique(high)) > 1


def refuse_halves(lists: Sequence[NDArray[Any]], path: str) -> None:
    """Raise an InputError if the ids of these documents look like halves of larger ones."""
    larger = _LARGER.get(lists[0].itemsize) if lists else None
    if larger is None or any(len(ids) % 2 for ids in lists[:_LISTS]):
        return
    pairs = np.concatenate(lists[:_LISTS]).reshape(-1, 2)
    if len(pairs) > _PAIRS and are_halves(pairs[:, 0], pairs[:, 1]):
        raise InputError(
            f"every second id of {path} is 0 or nearly so, so its ids seem to have {larger[0]}; "
            f"set records to {larger[1]}"
        )


def doubts_of_edge(edge: Edge, begins: Seen, ends: Seen) -> Iterator[str]:
    """Yield what is strange about the first id of the first file, and the last of the last."""
    token, is_end = edge
    (first, first_id), (last, last_id) = begins, ends
    if token is None:
        return
    if is_end and first_id == token != last_id:
        yield f"{first} begins with {token}: do its documents start with it? Then {ENDS[1]}={token}"
    elif is_end and last_id != token:
        yield (
            f"{last} ends with {last_id}, not with {token}: does another token end its documents, "
            "or is the last one cut off?"
        )
    elif not is_end and first_id != token:
        instead = f", but ends with it: is {ENDS[0]}={token} meant?" if last_id == token else ""
        yield f"{first} does not begin with {token}, with which its documents should start{instead}"


def doubts_of_masks(path: str, count: int) -> Iterator[str]:
    """Yield where there seems to be a mask of a file of so many ids."""
    for rule in _KNOWN_MASKS:
        if rule.partition("=")[0] in path:
            place = mask_of(path, rule)
            with suppress(InputError), open_mask(place, count, path):
                yield (
                    f"{place} has a byte for each id of {path}, and is not read; if it is its loss "
                    f"mask: --set {MASKS}={rule}"
                )
