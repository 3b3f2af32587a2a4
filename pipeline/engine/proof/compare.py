"""Compare the ids of two engines, and describe where they differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataprep.pipeline.engine.interface import Engine, flatten
from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.types import Ids, Offsets

SHOWN_CHARACTERS = 80


def differing(ours: tuple[Ids, Offsets], theirs: tuple[Ids, Offsets]) -> list[int]:
    """Return the indices of the texts whose ids are not the same."""
    (ids, offsets), (other_ids, other_offsets) = ours, theirs
    assert len(offsets) == len(other_offsets), "an engine lost texts"
    if np.array_equal(offsets, other_offsets):
        if np.array_equal(ids, other_ids):
            return []
        places = np.flatnonzero(ids != other_ids)
        return [int(i) for i in np.unique(np.searchsorted(offsets, places, side="right") - 1)]
    return [
        i
        for i in range(len(offsets) - 1)
        if not np.array_equal(
            ids[offsets[i] : offsets[i + 1]], other_ids[other_offsets[i] : other_offsets[i + 1]]
        )
    ]


def check_sample(
    reference: Engine,
    texts: Sequence[str],
    ids: Ids | Sequence[Sequence[int]],
    offsets: Offsets | None = None,
    *,
    engine: str = "the engine",
) -> None:
    """Raise if `ids` (flat with offsets, or one list per text) differ from the reference's."""
    if offsets is None:
        flat, offsets = flatten(ids)  # type: ignore[arg-type]  # lists if there are no offsets
    else:
        flat = np.asarray(ids, np.uint32)
    expected, expected_offsets = reference.encode(texts)
    for i in differing((flat, offsets), (expected, expected_offsets)):
        got = flat[offsets[i] : offsets[i + 1]]
        want = expected[expected_offsets[i] : expected_offsets[i + 1]]
        raise DataprepError(
            f"{engine} gives other ids than {reference.name} {reference.version} for "
            f"{describe_difference(texts[i], got, want)}"
        )


def describe_difference(text: str, got: Ids, want: Ids) -> str:
    """Say where two engines differ: 'ab…' (9 characters): [5, 6] instead of [7] from token 3 on."""
    num_same = int(np.argmin(np.append(got[: len(want)] == want[: len(got)], False)))
    shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    some_got = got[num_same : num_same + 4].tolist()
    some_want = want[num_same : num_same + 4].tolist()
    length = "1 character" if len(text) == 1 else f"{len(text)} characters"
    return f"{shown!a} ({length}): {some_got} instead of {some_want} from token {num_same} on"
