"""Whose turn it is in a bucket, which has no locks: conditional puts of .work/identity.json.

    run A   create  {run: A, turn: 0}            only if there is none
    run A   commits shards below .work/A/
    run B   finds A: it has commits, so that is a conflict; else
            replace {run: B, turn: 0}            only if it is still what B has seen
    run A   replace {run: A, turn: 1, publishes} before the first file of the dataset appears: after
                                                 that no other run can take its place

So of two runs that make different datasets one ends with a conflict. Two that make the same may
both go on: they write the same bytes under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dataprep.pipeline.errors import ConflictError, CorruptError
from dataprep.pipeline.files import sealed, unsealed
from dataprep.pipeline.storage.manifest import WORK
from dataprep.pipeline.storage.objects import (
    ChangedMeanwhileError,
    NoSuchObjectError,
    Objects,
    ThereAlreadyError,
)
from dataprep.pipeline.typed import decode_as

IDENTITY = f"{WORK}/identity.json"
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What stands in the object, and its e_tag."""

    run: str
    identity: Mapping[str, Any]
    turn: int = 0  # so that each writing gives other bytes, and another e_tag
    publishes: bool = False
    e_tag: str = ""

    @property
    def is_damaged(self) -> bool:
        return not self.run

    def may_be_of(self, run: str) -> bool:
        """Return whether it is of this run, or of nobody knows whom: it was damaged."""
        return self.run in ("", run)


class TakenOverError(ConflictError):
    """Another run has taken the place of this one, which had committed nothing."""


def find_claim(objects: Objects) -> Claim | None:
    """Return who has the folder; None if nobody has."""
    for _ in range(_TRIES):
        try:
            entry = objects.entry(IDENTITY)
            data = unsealed(objects.get_range(IDENTITY, 0, entry.num_bytes, e_tag=entry.e_tag))
        except NoSuchObjectError:
            return None
        except ChangedMeanwhileError:
            continue  # between the two requests: look again
        claim = Claim(run="", identity={})
        with suppress(msgspec.MsgspecError):  # of another version of dataprep
            claim = claim if data is None else decode_as(data, Claim)
        return replace(claim, e_tag=entry.e_tag)
    raise crowded(objects)


def take(objects: Objects, claim: Claim, seen: Claim | None) -> Claim:
    """Write a claim in the place of the one that was seen; ConflictError if somebody was faster."""
    claim = replace(claim, turn=seen.turn + 1 if seen else 0, e_tag="")
    data = sealed(msgspec.json.encode(claim))
    try:
        e_tag = (
            objects.replace(IDENTITY, data, seen.e_tag)
            if seen and seen.e_tag
            else objects.create(IDENTITY, data)
        )
    except (ChangedMeanwhileError, ThereAlreadyError, NoSuchObjectError):
        found = find_claim(objects)
        if found is not None and found.run == claim.run and found.publishes >= claim.publishes:
            return found  # another process makes the same dataset
        raise ConflictError(
            f"another run has just begun to write {objects.url}; wait for its end, or name another "
            "--out"
        ) from None
    return replace(claim, e_tag=e_tag)


def take_place(
    objects: Objects, claim: Claim, seen: Claim | None, has_committed: Callable[[str], bool]
) -> Claim:
    """As `take`, but in the place of another run only if that has committed nothing, of which
    `has_committed` is asked when nobody can take that one's place any more."""
    other = seen if seen and not seen.may_be_of(claim.run) else None
    if other and other.publishes:
        raise ConflictError(
            f"{objects.url} has an unfinished run of something else, which was about to end; "
            "finish it by its own command, throw it away with --overwrite, or name another --out"
        )
    taken = take(objects, claim, seen)
    if other and has_committed(other.run):
        take(objects, other, taken)
        raise ConflictError(
            f"{objects.url} has an unfinished run of something else, which is at work just now; "
            "wait for its end, or name another --out"
        )
    return taken


def announce(objects: Objects, claim: Claim) -> Claim | None:
    """Say that files of the dataset will appear now; None if the claim is gone, as it is when
    another process has published. TakenOverError if it is another run's by now."""
    for _ in range(_TRIES):
        found = find_claim(objects)
        if found is None:
            return None
        if not found.may_be_of(claim.run):
            raise TakenOverError(
                f"another run has taken {objects.url} over; name another --out, or run again "
                "when it has ended"
            )
        try:
            return take(objects, replace(claim, publishes=True), found)
        except ConflictError:
            continue  # the other process of the same run was faster: look again
    raise crowded(objects)


def crowded(objects: Objects) -> ConflictError:
    """Return the error for a folder that changes whenever one looks."""
    return ConflictError(f"several runs write {objects.url}; run again when they have ended")


def damaged(objects: Objects) -> CorruptError:
    """Return the error for work of which nobody knows any more whose it is."""
    return CorruptError(
        f"{objects.at(IDENTITY)} is damaged, so it is not known whose work is there; stop what "
        f"writes there, then remove {objects.at(WORK)}, or throw it away with --overwrite"
    )
