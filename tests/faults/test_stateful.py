"""Any sequence of runs, kills, changes and damage holds the invariants.

I1  a manifest means a whole dataset, unless it was damaged since, which verify finds
I2  read = written + empty + quarantined
I3  a run that ends well gives the bytes of an undisturbed run
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.storage.manifest import json_of, read_manifest
from support.damage import DAMAGES, damage, files_below
from support.inprocess import write_lines
from support.killable import Killed, run_here
from support.trees import tree

Version = tuple[int, bool]  # of the input, and whether BOS is added


class Runs(RuleBasedStateMachine):
    """One output folder, an input of three versions, a config of two."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="stateful-"))
        self.out, self.cache = self.folder / "out", self.folder / "cache"
        self.input, self.adds_bos = 0, True
        self.complete: Version | None = None  # of the dataset in `out`
        self.begun: Version | None = None  # of the unfinished run in `out`
        self.is_damaged = False
        self.references: dict[Version, Mapping[str, bytes]] = {}
        self._write_input()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def version(self) -> Version:
        return self.input, self.adds_bos

    def _write_input(self) -> None:
        for part in range(3):
            texts = [f"{part} {self.input} {i} " + "x" * (4200 + i) for i in range(12)]
            records = [{"text": text} for text in texts]  # a task for each file
            bad: list[object] = ["{bad", {"text": ""}]
            write_lines(self.folder / f"in-{part}.jsonl", [*records, *bad])

    def _config(self, out: Path) -> TokenizeConfig:
        values = {
            "inputs": [str(self.folder / f"in-{part}.jsonl") for part in range(3)],
            "tokenizer": "bytes",
            "on_error": "quarantine",
            "add_bos": False,
            "add_eos": self.adds_bos,
            "out": str(out),
        }
        return TokenizeConfig.model_validate(values)

    def _published(self) -> tuple[int, int] | None:
        """Return what tells the manifest that is there from one written later."""
        path = self.out / "manifest.json"
        return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None

    def _identity(self) -> bytes | None:
        """Return what the unfinished run in `out` says that it is."""
        path = self.out / ".work" / "identity.json"
        return path.read_bytes() if path.exists() else None

    def _reference(self) -> Mapping[str, bytes]:
        if self.version not in self.references:
            fresh = self.folder / f"reference-{self.version}"
            run_here(self._config(fresh), self.cache)
            self.references[self.version] = tree(fresh)
        return self.references[self.version]

    def _conflicts(self) -> bool:
        there = self.complete or self.begun
        return there is not None and there != self.version

    @rule(overwrite=st.booleans())
    def run(self, overwrite: bool) -> None:
        """Run to the end: a conflict, a complaint about damage, or the right bytes."""
        expected = self._reference()
        try:
            run_here(self._config(self.out), self.cache, overwrite=overwrite)
        except ConflictError:
            assert self._conflicts() or self.is_damaged
            assert not overwrite
            return
        except (CorruptError, ConfigError):  # perhaps nothing shows any more that this is ours
            assert self.is_damaged
            return
        was_complete = self.complete == self.version and not overwrite
        self.complete, self.begun = self.version, None
        if not was_complete:
            self.is_damaged = False
        if not self.is_damaged:
            assert tree(self.out) == expected  # I3

    @rule(moment=st.integers(1, 40), overwrite=st.booleans())
    def run_and_die(self, moment: int, overwrite: bool) -> None:
        self._reference()
        before, begun = self._published(), self._identity()
        try:
            run_here(self._config(self.out), self.cache, overwrite=overwrite, dies_at=moment)
        except Killed:
            if (after := self._published()) is not None:
                if after != before:  # else it died before it began to write or remove
                    self.complete, self.begun = self.version, None
                    self.is_damaged = False
                return
            self.complete = None  # what is damaged may be there still
            # An overwrite may die while it removes what another version has begun.
            if self._identity() != begun or begun is None:
                self.begun = self.version if (self.out / ".work").exists() else None
        except (ConflictError, CorruptError, ConfigError):
            assert self._conflicts() or self.is_damaged
        else:
            if self.complete != self.version or overwrite:
                self.is_damaged = False
            self.complete, self.begun = self.version, None

    @rule()
    def change_the_input(self) -> None:
        self.input = (self.input + 1) % 3
        self._write_input()

    @rule()
    def change_the_config(self) -> None:
        self.adds_bos = not self.adds_bos

    @precondition(lambda self: self.out.exists() and files_below(self.out))
    @rule(how=st.sampled_from(sorted(DAMAGES)), seed=st.integers(0, 1 << 16))
    def damage_a_file(self, how: str, seed: int) -> None:
        rng = random.Random(seed)
        path = rng.choice(files_below(self.out))
        if not damage(path, how, rng):
            return
        self.is_damaged = True
        if path.name == "manifest.json" and how == "delete":
            self.complete = None

    @precondition(lambda self: self.complete is not None)
    @rule()
    def verify_it(self) -> None:
        try:
            verify(self.out)
            assert not self.is_damaged
        except CorruptError:
            assert self.is_damaged

    @precondition(lambda self: self.complete is not None and not self.is_damaged)
    @rule()
    def load_it(self) -> None:
        dataset = open_dataset(self.out)
        assert len(dataset) == 36
        counts = json_of(read_manifest(self.out))["counts"]
        parts = ("documents_written", "documents_empty", "documents_quarantined")
        assert counts["documents_read"] == sum(counts[part] for part in parts)  # I2

    @invariant()
    def a_manifest_means_a_whole_dataset(self) -> None:
        if (self.out / "manifest.json").exists() and not self.is_damaged:
            verify(self.out)  # I1


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take minutes
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
