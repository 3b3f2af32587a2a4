"""Try one engine against the reference: which code points it gets wrong, or why it is ruled out.

document differs  ->  try its units one by one  ->  blame their code points
the rest differs too, or a strict document does  ->  ruled out, with the shortest example found
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataprep.pipeline.engine.exact import CodePointFinder
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, failures_told
from dataprep.pipeline.engine.proof.compare import describe_difference, differing
from dataprep.pipeline.engine.proof.sweep import Chain
from dataprep.pipeline.types import Ids, Offsets

MAX_BAD_CODE_POINTS = 20_000
# If one of these is bad, hardly any document is left for the engine.
ORDINARY = frozenset(map(chr, range(0x20, 0x7F))) | {"\n", "\t", "\r"}
MAX_REDUCTIONS = 400

Encoded = tuple[Ids, Offsets]


class Trial:
    """An engine under trial. `why_not` is empty until something rules it out."""

    def __init__(self, engine: Engine, reference: Engine) -> None:
        self.engine = engine
        self.why_not = ""
        self.failed = False  # with an exception, which may not be the engine's fault
        self.bad: set[str] = set()
        self._reference = reference

    def judge_chains(self, chains: Sequence[Chain], texts: Sequence[str], truth: Encoded) -> None:
        self._guarded(lambda: self._judge_chains(chains, texts, truth))

    def judge_strict(self, texts: Sequence[str], truth: Encoded) -> None:
        self._guarded(lambda: self._judge_strict(texts, truth))

    def bad_ranges(self) -> tuple[tuple[int, int], ...]:
        return compact(sorted(map(ord, self.bad)))

    def _judge_chains(self, chains: Sequence[Chain], texts: Sequence[str], truth: Encoded) -> None:
        wrong = [chains[i] for i in differing(self._encode(texts), truth)]
        # A code point that is known to be bad goes to the reference, whatever is beside it.
        known = [c for c in wrong if self.bad.isdisjoint(c.context.before + c.context.after)]
        doubted = self._still_wrong(known)
        if not doubted:
            return
        units = [(c.context.unit(e), max(e)) for c in doubted for e in c.elements]
        blamed = {units[i][1]: units[i][0] for i in self._wrong([unit for unit, _ in units])}
        self.bad.update(blamed)
        if ordinary := sorted(ORDINARY.intersection(blamed)):
            self._rule_out(blamed[ordinary[0]])
        elif len(self.bad) > MAX_BAD_CODE_POINTS:
            self._fail(f"more than {MAX_BAD_CODE_POINTS} code points are encoded differently")
        rest = self._still_wrong(doubted)
        if rest and not self.why_not:
            self._rule_out(min((chain.text for chain in rest), key=len))

    def _still_wrong(self, chains: Sequence[Chain]) -> list[Chain]:
        """Return those of the wrong chains that stay wrong without their bad code points."""
        rests = [Chain(c.context, self._good(c.elements)) for c in chains]
        return [
            rests[i] for i in self._wrong([rest.text if rest.elements else "" for rest in rests])
        ]

    def _judge_strict(self, texts: Sequence[str], truth: Encoded) -> None:
        finder = CodePointFinder(self.bad_ranges())
        excused = finder.find(texts)
        wrong = set(differing(self._encode(texts), truth)) - set(excused)
        if wrong:
            self._rule_out(texts[min(wrong)])
            return
        self._must_equal([finder.remove(texts[i]) for i in excused])

    def _good(self, elements: Sequence[str]) -> list[str]:
        return [element for element in elements if self.bad.isdisjoint(element)]

    def _must_equal(self, texts: Sequence[str]) -> None:
        wrong = self._wrong(texts)
        if wrong and not self.why_not:
            self._rule_out(min((texts[i] for i in wrong), key=len))

    def _wrong(self, texts: Sequence[str]) -> list[int]:
        return differing(self._encode(texts), self._reference.encode(texts)) if texts else []

    def _rule_out(self, text: str) -> None:
        shortest = reduce_text(text, lambda part: bool(self._wrong([part])))
        got, want = self._encode([shortest])[0], self._reference.encode([shortest])[0]
        self._fail(f"{self._reference.name} differs on {describe_difference(shortest, got, want)}")

    def _fail(self, why: str) -> None:
        self.why_not = self.why_not or why

    def _encode(self, texts: Sequence[str]) -> Encoded:
        with failures_told():
            ids, offsets = self.engine.encode(texts)
        if len(offsets) != len(texts) + 1:
            raise EngineFailedError(f"{len(texts)} texts gave {len(offsets) - 1} results")
        return ids, offsets

    def _guarded(self, judge: Callable[[], None]) -> None:
        if self.why_not:
            return
        try:
            judge()
        except EngineFailedError as error:
            self._fail(f"it fails on texts of the trial: {error}")
            self.failed = True


def reduce_text(text: str, is_wrong: Callable[[str], bool]) -> str:
    """Return a short part of `text` that is still wrong, found by leaving out ranges of it."""
    size, tries = len(text) // 2, 0
    while size and tries < MAX_REDUCTIONS:
        start = 0
        while start < len(text) and tries < MAX_REDUCTIONS:
            tries += 1
            shorter = text[:start] + text[start + size :]
            if shorter and is_wrong(shorter):
                text = shorter
            else:
                start += size
        size = min(size // 2, len(text) // 2)
    return text


def compact(codes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return code points as inclusive ranges.

    >>> compact([1, 2, 3, 7])
    ((1, 3), (7, 7))
    """
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return tuple(ranges)
