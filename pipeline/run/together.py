"""Documents of one record, which are duplicates together or not at all.

documents     a1 a2 | b1 b2 b3 | a1 a2       of three records, as those of their turns
contents      a  a    b  b  b    a  a        as the whole record has it
rest          0  1    0  1  1    0  1        not the first of its record
first         1  0    1  0  0    0  0        of its content, if the rest does not count
kept          1  1    1  1  1    0  0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.run.duplicates import first_of_each
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN
from dataprep.pipeline.types import Mask


@dataclass(slots=True, kw_only=True)
class Contents:
    """Contents of documents, as `first_of_each` takes them."""

    arrays: list[NDArray[Any]] = field(default_factory=list)
    counted: dict[int, Mask] = field(default_factory=dict)


def firsts_of(
    before: Contents, contents: Sequence[NDArray[Any]], rest: Sequence[Mask]
) -> list[Mask]:
    """Return which of these contents occur for the first time; `rest` does not count."""
    first = len(before.arrays)
    counted = {first + i: ~mask for i, mask in enumerate(rest) if mask.any()}
    arrays = [*before.arrays, *contents]
    return first_of_each(arrays, first, counted={**before.counted, **counted})


def rest_of_records(place: Path, part: TokenizedManifest) -> Mask:
    """Return which documents of a part are not the first of their record."""
    rest = np.zeros(part.counts["documents_written"], np.bool_)
    if part.counts["documents_read"] == part.counts["records_read"]:
        return rest  # each record gave one at most
    first, before = 0, np.zeros(0, DOCUMENT_ORIGIN)  # the last document of the shard before
    for shard in part.shards:
        own = read_array(place, shard.provenance, DOCUMENT_ORIGIN, shard.num_documents).copy()
        own["piece"] += shard.provenance.first_piece  # each task numbers its own from 0
        every = np.concatenate((before, own))[["piece", "line"]]
        is_rest = every[1:] == every[:-1]
        first += len(own)
        rest[first - len(is_rest) : first] = is_rest
        before = own[-1:] if len(own) else before
    return rest


def with_rest(is_first: Mask, rest: Mask) -> Mask:
    """Return which documents are kept if the first of their record is.

    >>> with_rest(np.array([True, False, False]), np.array([False, True, False]))
    array([ True,  True, False])
    """
    heads = np.maximum.accumulate(np.where(rest, 0, np.arange(len(rest))))
    kept: Mask = is_first[heads]
    return kept
