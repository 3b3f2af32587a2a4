"""Preferences: what is better and what is worse, kept together in one document.

    record      {"prompt": "2+2=", "chosen": "4", "rejected": "5"}
    rows        {"prompt": "2+2=", "completion": "4"}  {"prompt": "2+2=", "completion": "5"}
    document    BOS 2 + 2 = 4 EOS BOS 2 + 2 = 5 EOS        of both rows, one after the other
    loss         0  0 0 0 0 1  1   0  0 0 0 0 1  1
    rejected     0  0 0 0 0 0  0   1  1 1 1 1 1  1

Rows are read as other records are, as fields or as conversations; `pairs` puts their documents
together. Without a key for the prompt, it is what both sides begin with: the same messages, or the
same characters, of which a last space is left to the completions. KTO has one side to a record, and
a label: {"prompt", "completion", "label": false} is a document that is all rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.objective import ObjectiveConfig
from dataprep.pipeline.documents.chat.forms import ROLES
from dataprep.pipeline.documents.chat.messages import parsed
from dataprep.pipeline.documents.lookup import find_value, value_of
from dataprep.pipeline.documents.objectives.objective import Lookup, Named, ObjectiveEntry
from dataprep.pipeline.documents.objectives.rearrange import Ranges, rearranged
from dataprep.pipeline.errors import short
from dataprep.pipeline.sources import Keys
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import TURN_DTYPE
from dataprep.pipeline.types import Mask, Offsets, Record, Records

PROMPT, COMPLETION = "prompt", "completion"  # keys of the rows
SPEC = f"[{PROMPT}],{COMPLETION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Which keys hold the sides; KTO has a label instead of a second side."""

    prompt: str | None
    chosen: str
    rejected: str  # "": there is a label
    label: str  # "": there are two sides

    @property
    def keys(self) -> Keys:
        """Return the keys of a record that are read."""
        named = (self.prompt, self.chosen, self.rejected, self.label)
        return Keys(needed=frozenset(key for key in named if key), nested=True)

    def of_records(self, records: Records, beside: Sequence[str], *, is_chat: bool) -> Records:
        """Return the rows of each record; line 2n is of its chosen side, 2n + 1 of the rejected.

        `beside`: keys that every row gets too.
        """
        rows: list[Record] = []
        lines: list[int] = []
        places: list[int] = []
        reasons: dict[int, str] = {}
        for i, record in enumerate(records.as_rows()):
            try:
                found = self.rows_of(record, is_chat=is_chat)
            except ValueError as error:
                reasons[i] = str(error)
                continue
            more = {key: record[key] for key in beside if key in record}
            line = 2 * int(records.lines[i])
            for number, row in found:
                rows.append({**more, **row})
                lines.append(line + number)
                places.append(i)
        errors = [*records.errors, *records.errors_at(reasons)]
        return Records(
            lines=np.array(lines, np.int64),
            offsets=records.offsets[places] if places else np.zeros(0, np.int64),
            next_line=2 * records.next_line,
            num_bytes=records.num_bytes,
            rows=rows,
            errors=[replace(error, line=2 * error.line) for error in errors],
        )

    def rows_of(self, record: Record, *, is_chat: bool) -> list[tuple[int, Record]]:
        """Return the side and the prompt and completion of each row; ValueError if it is bad."""
        chosen = _side(record, self.chosen, is_chat=is_chat)
        prompt = _side(record, self.prompt, is_chat=is_chat) if self.prompt else None
        if self.label:
            is_good = _label(record, self.label)
            return [(int(not is_good), {PROMPT: prompt, COMPLETION: chosen})]
        rejected = _side(record, self.rejected, is_chat=is_chat)
        if type(chosen) is not type(rejected):
            raise ValueError(
                f"fields {self.chosen!r} and {self.rejected!r} must both be texts, or both messages"
            )
        if chosen == rejected:
            raise ValueError(f"fields {self.chosen!r} and {self.rejected!r} are the same")
        if prompt is None:
            shared = _common(chosen, rejected)
            prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
            if is_chat and not (prompt and chosen and rejected):
                raise ValueError(
                    f"fields {self.chosen!r} and {self.rejected!r} must begin with the same "
                    "messages, and go on differently"
                )
        return [
            (0, {PROMPT: prompt, COMPLETION: chosen}),
            (1, {PROMPT: prompt, COMPLETION: rejected}),
        ]


def _side(record: Record, key: str, *, is_chat: bool) -> Any:
    """Return a text, or, of conversations, a text or a list of messages."""
    value = value_of(record, key, "objective.prompt, chosen, rejected, completion", lwm=False)
    if isinstance(value, str) and not (is_chat and value.lstrip().startswith("[{")):
        return value
    if not is_chat:
        if value is None or isinstance(value, list | dict):
            raise ValueError(
                f"field {key!r} must be text, got {short(repr(value))}; set --chat for messages"
            )
        return value
    found = parsed(value, f"field {key!r}")
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(
            f"field {key!r} must be text or a list of messages, got {short(repr(value))}"
        )
    return [_message(item) for item in found]


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as OpenAI has it; ShareGPT's have `from` and `value`."""
    kept = {key: value for key, value in item.items() if value is not None}
    if "role" in kept or not isinstance(kept.get("from"), str):
        return kept
    role = ROLES.get(kept["from"].lower(), kept["from"])
    return {"role": role, "content": kept.get("value", "")}


def _label(record: Record, key: str) -> bool:
    value = find_value(record, key)
    if value not in (0, 1):  # also true and false
        raise ValueError(f"field {key!r} must be true or false, got {short(repr(value))}")
    return bool(value)


def _common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return how many items two sequences begin with; of texts, without a last space.

    >>> _common("a b c", "a b d"), _common("ab", "abc"), _common([1, 2], [1, 3])
    (3, 2, 1)
    """
    low, high = 0, min(len(left), len(right))
    while low < high:  # the largest length whose beginnings are the same
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low - (isinstance(left, str) and low > 0 and left[low - 1] == " ")


def put_together(
    documents: Documents, masks: Sequence[str], is_rejected: Mask, first: Offsets, count: Offsets
) -> Documents:
    """Return documents that are `count` of these, from the `first` on, one after the other.

    Two conversations are none: they have no turns.
    """
    starts = np.concatenate(([0], documents.ends))
    chosen = np.zeros(len(documents.ends), np.bool_)
    chosen[first] = True
    chosen[(first + 1)[count > 1]] = True
    sides: dict[str, NDArray[Any]] = {"rejected": is_rejected[chosen]}
    if (count > 1).any():
        sides["turns"] = np.zeros(len(sides["rejected"]), TURN_DTYPE)
    wanted = Ranges(
        start=starts[:-1][chosen], length=np.diff(starts)[chosen], counts=count, sides=sides
    )
    return rearranged(documents, masks, np.zeros(0, np.uint32), wanted)


def _nothing_named(config: ObjectiveConfig, find: Lookup) -> Named:
    return {}


def _preference(config: ObjectiveConfig) -> Pairs:
    return Pairs(prompt=config.prompt, chosen=config.chosen, rejected=config.rejected, label="")


def _kto(config: ObjectiveConfig) -> Pairs:
    return Pairs(prompt=config.prompt, chosen=config.completion, rejected="", label=config.label)


PREFERENCE, KTO = (
    ObjectiveEntry(named=_nothing_named, pairs=pairs, masks=("rejected",), may_be_chat=True)
    for pairs in (_preference, _kto)
)
