"""Cut the texts of documents that have too many tokens, by exact counts.

    budget     tokens 10, priority: answer 1, context 0, truncate word
    record     context "one two three four five six" (6 tokens)   answer "yes it is so" (4)
    document   BOS one two three four yes it is so EOS            context has what is left: 4

What is kept of a text is encoded again, so that its tokens are those of the shorter text; a cut
after a sentence or word is the last one whose text has few enough. The search for it compares the
counts of texts that were encoded, never estimates: no document has more tokens than the budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dataprep.configs.budget import BudgetConfig, FieldBudget, Truncate
from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.ragged import offsets_of, owner_of
from dataprep.pipeline.types import Ids, Offsets

# Where a sentence ends: at its marks and the quotes after them, before a blank; or before a line.
# Marks are looked at once, from their first on: a text may be a million dots.
SENTENCE_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]++[」』”’]*+|(?<=\S)(?=\s*\n)"
)
BLANKS = re.compile(r"\s*")
WORD_END = re.compile(r"(?<=\S)(?=\s)")
WORD_START = re.compile(r"(?<=\s)(?=\S)")
_CUTS: Mapping[Truncate, tuple[Truncate, ...]] = {  # what is tried, one after the other
    "sentence": ("sentence", "word"),
    "word": ("word",),
    "token": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of the documents of one input."""

    config: BudgetConfig
    names: tuple[str, ...]  # of the fields that may be cut; number i + 1 is that of names[i]
    numbers: Mapping[str, int]  # by key

    def number_of(self, keys: Sequence[str]) -> int:
        """Return the number of a field; 0 for one that is not cut."""
        return self.numbers[keys[0]] if keys else 0

    def limits(self, number: int) -> FieldBudget:
        return self.config.fields.get(self.names[number - 1]) or FieldBudget()


class Fitted(NamedTuple):
    """The texts of documents within their budget."""

    ids: Ids
    offsets: Offsets
    cut: Offsets  # i64[documents], tokens that were cut
    reasons: dict[int, str]  # why documents cannot be made to fit, by document


Encode = Callable[[Sequence[str]], tuple[Ids, Offsets]]


def fit(layout: Layout, ids: Ids, offsets: Offsets, budget: Budget, encode: Encode) -> Fitted:
    """Return the texts of the layout, cut where their documents have too many tokens."""
    counts = np.diff(offsets)
    parts = np.flatnonzero(layout.is_text)
    owner = np.searchsorted(layout.document_ends, parts, side="right")
    count = len(layout.document_ends)
    allowed = counts.copy()
    for number in range(1, len(budget.names) + 1):
        most = budget.limits(number).max
        if most is not None:
            allowed = np.where(layout.column == number, np.minimum(allowed, most), allowed)
    reasons: dict[int, str] = {}
    if budget.config.tokens is not None:
        literal = np.where(layout.is_text, 0, layout.lengths)
        of_parts = owner_of(np.diff(layout.document_ends, prepend=0))
        fixed = np.bincount(of_parts, literal, count).astype(np.int64)
        is_fixed = layout.column == 0
        fixed += np.bincount(owner[is_fixed], counts[is_fixed], count).astype(np.int64)
        total = fixed + np.bincount(owner[~is_fixed], allowed[~is_fixed], count).astype(np.int64)
        for document in np.flatnonzero(total > budget.config.tokens).tolist():
            room = budget.config.tokens - int(fixed[document])
            if room < 0:
                reasons[document] = (
                    f"has {fixed[document]} tokens that cannot be cut, more than budget.tokens "
                    f"{budget.config.tokens}"
                )
                continue
            first, last = np.searchsorted(owner, [document, document + 1])
            texts = first + np.flatnonzero(~is_fixed[first:last])
            limits = [budget.limits(int(layout.column[i])) for i in texts]
            share = SHARES[budget.config.by]
            allowed[texts] = share(allowed[texts].tolist(), limits, room)
    long = np.flatnonzero(allowed < counts)
    found = [
        _Cut(
            text=layout.texts[i],
            ids=ids[offsets[i] : offsets[i + 1]],
            most=int(allowed[i]),
            at_end=budget.limits(int(layout.column[i])).keep == "start",
        )
        for i in long.tolist()
    ]
    _cut_all(found, budget.config.truncate, encode)
    lengths = counts.copy()
    lengths[long] = [len(each.kept) for each in found]
    new = _replaced(ids, offsets, long, [each.kept for each in found])
    lost = np.bincount(owner, counts - lengths, count).astype(np.int64)
    return Fitted(ids=new, offsets=offsets_of(lengths), cut=lost, reasons=reasons)


def _replaced(ids: Ids, offsets: Offsets, places: Offsets, texts: Sequence[Ids]) -> Ids:
    """Return the ids with those of some texts replaced."""
    parts: list[Ids] = []
    start = 0
    for place, text in zip(places.tolist(), texts, strict=True):
        parts += [ids[start : offsets[place]], text]
        start = int(offsets[place + 1])
    return np.concatenate([*parts, ids[start:]])


# --- how much each field may have ---


def by_priority(needs: Sequence[int], limits: Sequence[FieldBudget], room: int) -> list[int]:
    """Give each field what it needs, the highest priority first, but keep the least for others.

    >>> by_priority([6, 4], [FieldBudget(), FieldBudget(priority=1)], 8)
    [4, 4]
    >>> by_priority([6, 9], [FieldBudget(min=2), FieldBudget(priority=1)], 8)
    [2, 6]
    """
    least = [min(need, limit.min) for need, limit in zip(needs, limits, strict=True)]
    given = [0] * len(needs)
    order = sorted(range(len(needs)), key=lambda i: (-limits[i].priority, i))
    for place, i in enumerate(order):
        kept = sum(least[j] for j in order[place + 1 :])
        given[i] = max(min(needs[i], room - kept), min(least[i], room), 0)
        room -= given[i]
    return given


def by_ratio(needs: Sequence[int], limits: Sequence[FieldBudget], room: int) -> list[int]:
    """Share what there is by ratio; what a field does not need is shared among the others.

    >>> by_ratio([10, 10], [FieldBudget(), FieldBudget(ratio=3)], 8)
    [2, 6]
    >>> by_ratio([10, 1], [FieldBudget(), FieldBudget(ratio=3)], 8)
    [7, 1]
    """
    given = [0] * len(needs)
    left = [i for i, need in enumerate(needs) if need]
    while left:
        whole = sum(limits[i].ratio for i in left)
        full = [i for i in left if needs[i] * whole <= room * limits[i].ratio]
        if not full:
            for i in left:
                given[i] = int(room * limits[i].ratio / whole)
            rest = room - sum(given[i] for i in left)
            for i in left[:rest]:  # of less than a token each
                given[i] += 1
            break
        for i in full:
            given[i] = needs[i]
            room -= needs[i]
        left = [i for i in left if i not in full]
    return given


SHARES = {"priority": by_priority, "ratio": by_ratio}


# --- where texts are cut ---


@dataclass(slots=True, kw_only=True)
class _Cut:
    """A text that must be shorter, and the search for where to cut it."""

    text: str
    ids: Ids
    most: int  # tokens
    at_end: bool  # its start is kept
    cuts: Sequence[int] = ()  # places to cut at, by how much is kept
    low: int = -1  # the last of these that is known to fit, -1 if none is
    high: int = 0  # the first that is known not to fit
    low_count: int = 0
    high_count: int = 0
    window: int = 0  # characters, from the end that is kept, in which places are looked for
    kept: Any = None  # the ids that are kept

    def begin(self, kind: Truncate) -> None:
        # Most texts are far longer than what is kept of them: this, if all tokens were as long.
        size = 5 * len(self.text) * self.most // (4 * len(self.ids)) + 256
        self.low, self.low_count = -1, 0
        self._look(kind, size)

    def is_open(self, kind: Truncate) -> bool:
        """Return whether there are places left to try."""
        while self.kept is None and self.high - self.low <= 1:
            if self.high < len(self.cuts) or self.window >= len(self.text):
                return False
            self._look(kind, 4 * self.window)  # all of these fit
        return self.kept is None

    def _look(self, kind: Truncate, window: int) -> None:
        self.window = min(window, len(self.text))
        self.cuts = cuts_of(self.text, kind, at_end=self.at_end, window=self.window)
        # Not known, but as good a guess as any: the next place to try is found by it.
        tokens = len(self.ids) * self.window // len(self.text)
        self.high, self.high_count = len(self.cuts), max(tokens, self.most + 1)

    def middle(self) -> int:
        """Return the next place to try: where the limit would be if all tokens were as long."""
        span, tokens = self.high - self.low, max(self.high_count - self.low_count, 1)
        guess = self.low + span * (self.most - self.low_count) // tokens
        return min(max(guess, self.low + 1), self.high - 1)

    def part(self, place: int) -> str:
        cut = self.cuts[place]
        return self.text[:cut] if self.at_end else self.text[cut:]


def cuts_of(text: str, kind: Truncate, *, at_end: bool, window: int | None = None) -> list[int]:
    """Return the places where a text may be cut, by how much of it is kept; not its ends.

    Not more than `window` characters are kept.

    >>> cuts_of("One. Two three.", "sentence", at_end=True)
    [4]
    >>> cuts_of("One. Two three.", "word", at_end=True), cuts_of("One. Two.", "word", at_end=False)
    ([4, 8], [5])
    """
    size = len(text) if window is None else window
    place = (0, size) if at_end else (len(text) - size, len(text))
    if kind == "sentence":
        ends = [match.end() for match in SENTENCE_END.finditer(text, *place)]
        if not at_end:  # a sentence starts after the blanks that follow another
            ends = [blanks.end() for end in ends if (blanks := BLANKS.match(text, end))]
    else:
        ends = [m.start() for m in (WORD_END if at_end else WORD_START).finditer(text, *place)]
    return sorted({end for end in ends if 0 < end < len(text)}, reverse=not at_end)


def _cut_all(texts: Sequence[_Cut], truncate: Truncate, encode: Encode) -> None:
    """Cut all texts; each step encodes one part of each text that is still open."""
    for each in texts:
        if each.most == 0:
            each.kept = each.ids[:0]
    for kind in _CUTS[truncate]:
        for each in texts:
            if each.kept is None:
                each.begin(kind)
        best: dict[int, Ids] = {}
        while tried := [(i, each.middle()) for i, each in enumerate(texts) if each.is_open(kind)]:
            ids, offsets = encode([texts[i].part(place) for i, place in tried])
            for n, (i, place) in enumerate(tried):
                found = ids[offsets[n] : offsets[n + 1]]
                each = texts[i]
                if len(found) <= each.most:
                    each.low, each.low_count, best[i] = place, len(found), found
                else:
                    each.high, each.high_count = place, len(found)
        for i, found in best.items():
            if len(found):
                texts[i].kept = found
    for each in texts:
        if each.kept is None:
            size = len(each.ids)
            each.kept = each.ids[: each.most] if each.at_end else each.ids[size - each.most :]
