"""Nights of `dataprep run` drawn at random, and what plain Python says its datasets must hold.

world.live     files of two corpora come, grow, are copied, change their names, go …
draw_night     corpora, dedup, splits, lengths of rows: the config of this night
run, killed    at some change of the disk; again, or not before the next night
check          documents of each corpus, and of all rows together, as counted here
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.look.history import history_of
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.clean import clean
from dataprep.pipeline.run.forget import forget, held_in
from dataprep.pipeline.run.forgotten import ForgetRequest
from dataprep.pipeline.run.summary import run_all
from dataprep.pipeline.storage.checked import FilesRead
from dataprep.pipeline.storage.keys import hex_of_content, map_keys
from dataprep.pipeline.storage.manifest import read_manifest
from dataprep.pipeline.storage.parts import parts_of
from support.killable import Killed, dying, without_processes
from support.nights import PAD, documents_in_rows
from support.random_files import CORPORA, RAW, Document, IgnoringWorld, Mode, Name, World

NEVER = 1 << 30  # changes of the disk
HALVES = {"train": 0.5, "val": 0.5}


@dataclass(frozen=True)
class Night:
    """What the config of a night says."""

    corpora: tuple[str, ...]  # in this order
    dedup: str
    splits: Mapping[str, float]
    seq_lens: tuple[int, ...]
    separator: str  # another one: all is made anew

    def packed(self, out: Path, seq_len: int, side: str) -> list[Path]:
        """Return the packed datasets of a side, or those that have none."""
        name = f"packed-{seq_len}-{side}" if side else f"packed-{seq_len}"
        return [out / corpus / name for corpus in self.corpora]


@dataclass
class RandomNights:
    """The nights of a seed; the folder of this process is theirs."""

    mode: Mode
    seed: int
    cache: Path
    sides: dict[int, str] = field(default_factory=dict)  # by record: never another

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.world = (IgnoringWorld if self.mode.ignores else World)(self.rng, self.mode)
        self.out = Path(f"out-{self.seed}")
        self.key = "" if self.mode.ignores else self.rng.choice(["", "id"])
        self.stops_early = self.rng.random() < 0.3  # on some nights, when documents are tokenized
        self.dedups = self.rng.choice([["exact"], ["none", "exact"]])
        self.separator = "-"

    def live(self, nights: int) -> None:
        for number in range(nights):
            self.world.log.append(f"night {number}")
            self.world.live()
            night = self._draw_night()
            self.world.log.append(f"  {night}")
            if not self._ran(night, last=number == nights - 1):
                continue
            self.world.was_read(night.corpora)
            self._check(night)
            if self._happens(self.mode.cleans):
                self._clean()
            if self._happens(0.3):
                self._check_folders(night)
            if self._happens(self.mode.forgets):
                self._forget(night)

    def _happens(self, chance: float) -> bool:
        return self.rng.random() < chance

    def _draw_night(self) -> Night:
        corpora = [*CORPORA]
        if self._happens(self.mode.leaves):
            corpora.remove(self.rng.choice(CORPORA))
        if self._happens(0.2):
            corpora.reverse()
        if self._happens(0.15) and not self.mode.ignores:  # anew, what went would not be held
            self.separator = self.rng.choice("-+")
        return Night(
            corpora=tuple(corpora),
            dedup=self.rng.choice(self.dedups),
            splits=HALVES if self.key or self._happens(2 / 3) else {},  # a key is of splits
            seq_lens=self.rng.choice([(64,), (64,), (32,), (64, 32)]),
            separator=self.separator,
        )

    def _ran(self, night: Night, *, last: bool) -> bool:
        """Run, killed or not; return whether all of it is done, as it always is in the end."""
        config = self._config(night)
        if self._dies(lambda: self._run(config), within=900):
            self.world.log.append("  killed")
            if not last and self._happens(0.4):
                return False  # what the run began is met by other files and another config
        if self.stops_early and not last and self._happens(0.3):
            self._run(config, only=("tokenize",))
            return False
        self._run(config)
        return True

    def _config(self, night: Night) -> RunConfig:
        inputs = {corpus: [f"{RAW}/{corpus}/*.jsonl"] for corpus in CORPORA}
        if self.world.shared:
            inputs["y"].append(*inputs["x"])
        values = {
            "tokenizer": "bytes",
            "subfield_separator": night.separator,
            "seq_lens": night.seq_lens,
            "out": str(self.out),
            "append": self.mode.append,
            "dedup": night.dedup,
            "splits": night.splits,
            "split_by": f"key:{self.key}" if self.key else "content",
            "corpora": {corpus: {"inputs": inputs[corpus]} for corpus in night.corpora},
            "pretokenized": {"tokens": "ids", "lengths": "lengths"},
            "on_changed": self.mode.on_changed,
        }
        Path("c.json").write_text(json.dumps(values))
        return load_config(RunConfig, files=["c.json"], flags={"allow_empty": True})

    def _run(self, config: RunConfig, *, only: Sequence[Any] = ()) -> None:
        chain = StepChain(config=config, cache_dir=self.cache, only=tuple(only))
        run_all(chain, lambda todo: silent)

    def _dies(self, act: Callable[[], object], *, within: int, always: bool = True) -> bool:
        """Return whether an act was killed at some change of the disk."""
        at = self.rng.randint(1, within) if always or self._happens(0.5) else NEVER
        try:
            with dying(at):
                act()
        except Killed:
            return True
        return False

    def _clean(self) -> None:
        killed = self._dies(lambda: clean(self.out, keep=1, go=True), within=40, always=False)
        self.world.log.append("  clean, killed" if killed else "  clean")

    def _forget(self, night: Night) -> None:
        chosen = self.world.line_to_forget(night.corpora)
        if chosen is None:
            return
        record = self.world.files[chosen[0]][chosen[1]]
        # A corpus that was not read tonight knows files of shared inputs by the names they had.
        has_lines = not self.world.shared or len(night.corpora) == len(CORPORA)
        request = self._request(*chosen, record, has_lines=has_lines)
        if self._dies(lambda: forget(self.out, [request]), within=60, always=False):
            self.world.log.append("  killed:")
            forget(self.out, [request])
        self.world.log.append(f"  forget {record}: {request}")
        self.world.gone.add(record)

    def _request(self, name: Name, place: int, record: int, *, has_lines: bool) -> ForgetRequest:
        ways = {"content": True, "line": has_lines, "key": bool(self.key)}
        how = self.rng.choice([way for way, is_one in ways.items() if is_one])
        if how == "key":
            return ForgetRequest(key=self.key, value=record)
        if how == "content":
            return ForgetRequest(content=_content_of(self.out / name.corpus / "tokenized", record))
        return ForgetRequest(path=str(name.path), line=place + 1)

    def _check(self, night: Night) -> None:
        held = {corpus: self.world.held(corpus) for corpus in night.corpora}
        for corpus, expected in held.items():
            _same(
                f"documents of {corpus}", _tokenized_in(self.out / corpus / "tokenized"), expected
            )
        together = sum(held.values(), Counter[Document]())
        expected = Counter({*together}) if night.dedup == "exact" else together
        for seq_len in night.seq_lens:
            packed = Counter[Document]()
            for side in night.splits or [""]:
                own = _packed_in(night.packed(self.out, seq_len, side))
                packed += own
                if side:
                    self._check_side(side, own)
            _same(f"rows of {seq_len}", packed, expected)

    def _check_side(self, side: str, documents: Iterable[Document]) -> None:
        for record, *_ in documents:
            always = self.sides.setdefault(record, side)
            assert always == side, f"{record} was in {always}, and is in {side}"

    def _check_folders(self, night: Night) -> None:
        left = [what for what in held_in(self.out).values() if not what.startswith("rows of")]
        assert not left or len(night.corpora) < len(CORPORA), f"still held: {left}"
        for corpus in night.corpora:
            for manifest in (self.out / corpus).glob("*/manifest.json"):
                verify(manifest.parent)
                history_of(manifest.parent)


def live_nights(mode: Mode, seed: int, nights: int, home: Path, cache: Path) -> None:
    """Live the nights of a seed; what fails says which world it was in."""
    lived = RandomNights(mode, seed, cache)
    with chdir(home), without_processes():
        try:
            lived.live(nights)
        except Exception as error:
            log = "\n".join(lived.world.log)
            raise AssertionError(f"seed {seed} of {mode}: {error!r}\n{log}") from error


def _tokenized_in(folder: Path) -> Counter[Document]:
    """Return the documents of a tokenized dataset; those that were forgotten are padding."""
    dataset = open_dataset(folder)
    tokens = (dataset[number]["tokens"].tolist() for number in range(len(dataset)))
    return Counter(tuple(own) for own in tokens if {*own} != {PAD})


def _packed_in(folders: Iterable[Path]) -> Counter[Document]:
    segments = (own for folder in folders for own in documents_in_rows(folder))
    return Counter(tuple(own) for own in segments if {*own} != {PAD})


def _content_of(tokenized: Path, record: int) -> str:
    """Return the content that the first document of a record is known by."""
    files = FilesRead()
    known = [
        content
        for folder, part in parts_of(tokenized, read_manifest(tokenized))
        for shard in part.shards
        for content in hex_of_content(map_keys(folder, shard, files)["content"])
    ]
    dataset = open_dataset(tokenized)
    own = (i for i in range(len(dataset)) if dataset[i]["tokens"][0] == record)
    return known[next(own)]


def _same(what: str, found: Counter[Document], expected: Counter[Document]) -> None:
    assert found == expected, f"{what}: doubled {found - expected}, lost {expected - found}"
