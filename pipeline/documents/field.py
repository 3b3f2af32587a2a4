"""A field of a spec, and the grammar by whose globs its kind is known; `fields` parses them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from dataprep.pipeline.ragged import Holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    kind: str  # of FIELD_KINDS
    keys: tuple[str, ...] = ()  # of the record; several only for text
    weight: float = 1.0  # of its tokens in the loss; 0: they have none
    id: int = 0  # kind "id" only
    mask: str = ""  # the modality of its codes; only fields of codes have one
    text: str = ""  # in quotes, of a field without keys
    special: int = 0  # special tokens that this text spells
    optional: frozenset[str] = frozenset()  # keys that are left out where absent or null
    plain: Field | None = None  # the field instead for a record that has keys spelled like it


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The globs of names that decide the kind of a field, besides its spelling."""

    codes: tuple[tuple[str, tuple[str, ...]], ...]  # (modality, its globs); the first match counts
    segments: tuple[str, ...]
    lwm: bool = False  # no x?, a.b and 'text'; values must be text
    only_vision: bool = False  # LWM: a field holds codes if its name has "vision" in it

    def modality_of(self, name: str) -> str:
        """Return the modality of the codes in a field, or ''."""
        if self.only_vision:
            return "vision" if "vision" in name else ""
        return next((modality for modality, globs in self.codes if _matches(name, globs)), "")

    def holds(self, name: str) -> Holds:
        if self.modality_of(name):
            return "codes"
        return "segments" if self.is_segments(name) else ""

    def is_segments(self, name: str) -> bool:
        return not self.only_vision and _matches(name, self.segments)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
