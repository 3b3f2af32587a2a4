"""What an objective is: it turns the documents of a batch into others.

    texts       before they are encoded: cut a document between two characters
    documents   after that: ranges of tokens in another order, sides marked

Both are functions of what they are given and of the keys of the documents (`draws`). Most
objectives need one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dataprep.configs.objective import ObjectiveConfig
from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.objectives.draws import Keys
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.types import Ids, Offsets

Named = Mapping[str, tuple[int, ...]]  # the ids of the tokens that an objective adds, by their use


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeDocuments:
    """New documents, and why some records have none."""

    documents: Documents
    owner: Offsets  # i64[d], ascending: the document that each was made of
    reasons: Mapping[int, str] = field(default_factory=dict)  # by document


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ids that stand around every document."""

    bos: Ids  # none or one
    eos: Ids

    @property
    def ids(self) -> Ids:
        return np.concatenate((self.bos, self.eos))


class Objective(Protocol):
    """An objective with its settings, for the documents of one input."""

    @property
    def seed(self) -> int: ...

    def of_texts(self, layout: Layout, keys: Keys) -> Layout:
        """Return the documents with their texts cut; those it was given, if it cuts none."""

    def of_documents(
        self, documents: Documents, masks: tuple[str, ...], keys: Keys
    ) -> MadeDocuments:
        """Return the new documents."""


Lookup = Callable[[str], int | None]  # the id of a token; None if the tokenizer has none of it


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveEntry:
    """One line of `OBJECTIVES`."""

    # The ids that the config names; ValueError says which token is not there.
    named: Callable[[ObjectiveConfig, Lookup], Named]
    # What turns documents into others, or else what makes rows of records.
    make: Callable[[ObjectiveConfig, Named, Ends], Objective] | None = None
    pairs: Callable[[ObjectiveConfig], Any] | None = None
    masks: tuple[str, ...] = ()  # that it sets, beside the loss
    may_be_chat: bool = False  # documents may be conversations


def untouched(documents: Documents) -> MadeDocuments:
    return MadeDocuments(documents=documents, owner=np.arange(len(documents.ends)))


def id_of(value: str | int, key: str, find: Lookup) -> int:
    """Return the id of a token that the config names."""
    if isinstance(value, int):
        return value
    found = find(value)
    if found is None:
        raise ValueError(
            f"{key}: the tokenizer has no token {value!r}; name one that it has, or an id"
        )
    return found
