"""Files of two corpora that live through nights drawn at random, and what plain Python says the
datasets that were made of them must hold.

A record is a number, and gives one document or several that begin with it: what was lost or doubled
is seen at once. `World` knows what is held where datasets follow their inputs, `IgnoringWorld`
where they keep what was read of files that changed or went.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

CORPORA = ("x", "y")
RAW = Path("raw")

Document = tuple[int, ...]  # tokens
Lines = tuple[int, ...]  # the records of a file


@dataclass(frozen=True)
class Mode:
    """What does not change from night to night; chances are of a night, `shares` of a seed."""

    name: str
    on_changed: str = "error"
    append: bool = True
    several: bool = True  # documents of a record
    shares: float = 0.3  # corpus y reads the inputs of x too
    leaves: float = 0.2  # one of the corpora is not in the config
    forgets: float = 0.2
    cleans: float = 0.2

    @property
    def ignores(self) -> bool:
        return self.on_changed == "ignore"


class Name(NamedTuple):
    corpus: str
    stem: str

    @property
    def path(self) -> Path:
        return RAW / self.corpus / f"{self.stem}.jsonl"


class World:
    """The files, and what becomes of them in a night."""

    def __init__(self, rng: random.Random, mode: Mode) -> None:
        self.rng, self.mode = rng, mode
        self.shared = not mode.ignores and rng.random() < mode.shares
        self.files: dict[Name, Lines] = {}
        self.known: dict[Name, Lines] = {}  # as the last whole run has read them
        self.gone: set[int] = set()  # forgotten
        self.log: list[str] = []
        self._count = 0

    def add(self) -> None:
        self._bring(self._name(self.rng.choice(CORPORA)), self._first_lines())

    def append(self) -> None:
        self.files[self._one()] += self._lines()

    def copy(self) -> None:
        name = self._one()
        corpus = self.rng.choice([name.corpus, *CORPORA])
        self._bring(self._name(corpus), self.files[name])

    def rename(self) -> None:
        old = self._one()
        self.files[self._name(old.corpus)] = self.files.pop(old)

    def exchange(self) -> None:
        a, b = self._one(), self._one()
        if a.corpus == b.corpus or self.mode.on_changed == "rebuild":
            self.files[a], self.files[b] = self.files[b], self.files[a]

    def remove(self) -> None:
        if len(self.files) > 2:
            del self.files[self._one()]

    def change(self) -> None:
        self.files[self._one()] = self._lines()

    def live(self) -> None:
        """Do some of it, and write the files."""
        for _ in range(self.rng.randint(0, 4)):
            act = self.rng.choice(self._acts())
            act()
            self.log.append(f"  {act.__name__}")
        self._end_of_day()
        for corpus in CORPORA:  # an input that names no file is an error
            if not any(name.corpus == corpus for name in self.files):
                self._bring(self._name(corpus), self._new_lines())
        self._write()

    def held(self, corpus: str) -> Counter[Document]:
        """Return the documents that the tokenized dataset of a corpus must hold."""
        read = [corpus, "x"] if corpus == "y" and self.shared else [corpus]
        lines = [line for name, own in self.files.items() if name.corpus in read for line in own]
        return self._documents(Counter(lines))

    def was_read(self, corpora: Sequence[str]) -> None:
        """A whole run of these corpora has ended."""
        self.known |= {name: own for name, own in self.files.items() if name.corpus in corpora}

    def line_to_forget(self, corpora: Sequence[str]) -> tuple[Name, int] | None:
        """Return a file and the place of a line that a dataset of these corpora holds."""
        name = self._one()
        lines = self.files[name]
        if not lines or name.corpus not in corpora:
            return None
        place = self.rng.randrange(len(lines))
        return None if lines[place] in self.gone else (name, place)

    def documents_of(self, record: int) -> list[Document]:
        many = record % 3 + 1 if self.mode.several else 1
        return [(record, number, 200) for number in range(many)]

    def _acts(self) -> list[Callable[[], None]]:
        if not self.files:
            return [self.add]
        acts = [self.add, self.append, self.copy, self.rename, self.exchange]
        return acts if self.mode.on_changed == "error" else [*acts, self.remove, self.change]

    def _end_of_day(self) -> None:
        """For worlds in which something waits until all else is done."""

    def _documents(self, lines: Counter[int]) -> Counter[Document]:
        held = Counter[Document]()
        for line, times in lines.items():
            if line not in self.gone:
                held.update(dict.fromkeys(self.documents_of(line), times))
        return held

    def _bring(self, name: Name, lines: Lines) -> None:
        self.files[name] = lines

    def _lines(self) -> Lines:
        """Return records; some are in other files too, few often."""
        draw = self.rng.randrange
        return tuple(self.rng.choice([draw(190), draw(12)]) for _ in range(self.rng.randint(1, 4)))

    def _new_lines(self) -> Lines:
        return self._lines()

    def _first_lines(self) -> Lines:
        return self._new_lines() if self.rng.random() < 0.8 else ()  # empty files, too

    def _name(self, corpus: str) -> Name:
        """Return a name that no file has had; it sorts before others, or behind them."""
        self._count += 1
        return Name(corpus, f"{self.rng.choice('bacrz')}{self._count}")

    def _one(self) -> Name:
        return self.rng.choice([*self.files])

    def _write(self) -> None:
        shutil.rmtree(RAW, ignore_errors=True)
        for name, lines in self.files.items():
            name.path.parent.mkdir(parents=True, exist_ok=True)
            name.path.write_text("".join(map(self._record, lines)))
            self.log.append(f"  {name.path}: {[*lines]}")

    def _record(self, number: int) -> str:
        documents = self.documents_of(number)
        ids = [token for document in documents for token in document]
        lengths = [len(document) for document in documents]
        return json.dumps({"ids": ids, "lengths": lengths, "id": number}) + "\n"


class IgnoringWorld(World):
    """What was read stays, also of files that changed or went since.

    Only files that a whole run has read, that nobody touched since and that no other begins like
    may change or go, and they stay so: of all others it is open what a run that was killed had
    read, and which of them is taken for what went.
    """

    def __init__(self, rng: random.Random, mode: Mode) -> None:
        super().__init__(rng, mode)
        self._frozen: set[Name] = set()  # have changed
        self._came = {corpus: Counter[int]() for corpus in CORPORA}
        self._waiting: list[Callable[[Name], None]] = []
        self._new = 0

    def append(self) -> None:
        name, more = self._one(), self._lines()
        self.files[name] += more
        self._came[name.corpus].update(more)

    def remove(self) -> None:
        self._waiting.append(self._remove)

    def change(self) -> None:
        self._waiting.append(self._change)

    def live(self) -> None:
        if len(self.files) - len(self._frozen) < 3:
            for corpus in CORPORA:
                self._bring(self._name(corpus), self._new_lines())
        super().live()

    def held(self, corpus: str) -> Counter[Document]:
        return self._documents(self._came[corpus])

    def _end_of_day(self) -> None:
        for act in self._waiting:
            safe = [name for name in self.files if self._is_safe(name)]
            if len(self.files) > 3 and safe:
                act(self.rng.choice(safe))
        self._waiting.clear()

    def _remove(self, name: Name) -> None:
        del self.files[name]
        self.log.append(f"  {name.path} is removed")

    def _change(self, name: Name) -> None:
        self.files[name] = (self._unique(),)  # which nobody reads
        self._frozen.add(name)
        self.log.append(f"  {name.path} is changed")

    def _is_safe(self, name: Name) -> bool:
        lines = self.files[name]
        alike = sum(other[:1] == lines[:1] for other in self.files.values())
        untouched = self.known.get(name) == lines
        return bool(lines) and untouched and alike == 1 and name not in self._frozen

    def _bring(self, name: Name, lines: Lines) -> None:
        super()._bring(name, lines)
        self._came[name.corpus].update(lines)

    def _new_lines(self) -> Lines:
        return (self._unique(), *self._lines())

    def _unique(self) -> int:
        self._new += 1
        return 20 + self._new

    def _one(self) -> Name:
        return self.rng.choice([name for name in self.files if name not in self._frozen])
