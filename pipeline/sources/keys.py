"""Which keys of a record are read.

    needed    text  meta.url     a record that lacks one is read whole, so that an error can list
                                 the keys it has
    maybe     lang  lang?        read where they are there

With `nested`, a name with dots is a key, or else a path: `meta.url` is the key "meta.url", or "url"
in the object under "meta".
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

CONVERSATIONS = ("messages", "conversations", "conversation")  # what most datasets call them


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    needed: frozenset[str]
    maybe: frozenset[str] = frozenset()
    nested: bool = False
    flag: str = "--fields"  # what names them, for messages

    @property
    def names(self) -> frozenset[str]:
        return self.needed | self.maybe

    @property
    def tops(self) -> frozenset[str]:
        """Return the keys of the record itself under which the names may be found.

        >>> sorted(Keys(needed=frozenset({"text", "meta.url"}), nested=True).tops)
        ['meta', 'meta.url', 'text']
        """
        return self.names.union(map(self.top_of, self.names))

    @property
    def fixed(self) -> frozenset[str]:
        """Return the needed names that can be found under one key only."""
        return frozenset(name for name in self.needed if self.top_of(name) == name)

    def top_of(self, name: str) -> str:
        """Return the first key of a path; a name that is none as it is."""
        return name.partition(".")[0] if self.nested else name

    @property
    def ways(self) -> list[str]:
        """Return the keys under which paths begin, sorted."""
        return sorted(top for top in self.tops if self.paths_through(top))

    def paths_through(self, top: str) -> list[str]:
        """Return the names that are paths through the object under this key.

        >>> Keys(needed=frozenset({"meta", "meta.url", "text"}), nested=True).paths_through("meta")
        ['meta.url']
        """
        return sorted(name for name in self.names if name != top and self.top_of(name) == top)

    def lacking(self, present: Collection[str]) -> list[str]:
        """Return the needed names for which a record with these keys has no key."""
        return [n for n in self.needed if n not in present and self.top_of(n) not in present]


def keys_of(keys: Keys | frozenset[str] | None) -> Keys | None:
    """Return keys that every record must have as `Keys`; None stands for all keys."""
    return Keys(needed=keys) if isinstance(keys, frozenset) else keys


def tops_of(keys: Keys | None) -> frozenset[str] | None:
    return None if keys is None else keys.tops


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that begins a hint, or nothing.

    >>> did_you_mean("txet", ["id", "text"]), did_you_mean("body", ["id", "text"])
    ("did you mean 'text'? ", '')
    """
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def what_to_set(key: str, known: Collection[str], flag: str = "--fields") -> str:
    """Return how to name what is there instead of a key that is not.

    >>> what_to_set("text", ["messages"]), what_to_set(" n", ["n"])
    ('set --fields, or --chat messages for conversations', 'set --fields, without blanks')
    """
    blanks = ", without blanks" if key != key.strip() else ""
    talks = [name for name in CONVERSATIONS if name in known]
    chat = f", or --chat {talks[0]} for conversations" if talks else ""
    return f"set {flag}{blanks}{chat}"
