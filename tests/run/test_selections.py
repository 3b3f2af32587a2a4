"""Splits and duplicates are told by files that nothing has changed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.run import selections
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.summary import RunOutcome, run_all
from support.killable import without_processes
from support.nights import whole_texts, write_config, write_lines

Night = Callable[[], RunOutcome]


@pytest.fixture
def night(tmp_path: Path, cache_dir: Path) -> Iterator[Night]:
    def run() -> RunOutcome:
        write_config(Path("c.json"), inputs=["raw/*.jsonl"], dedup="exact", splits={"train": 1.0})
        chain = StepChain(config=load_config(RunConfig, files=["c.json"]), cache_dir=cache_dir)
        return run_all(chain, lambda todo: silent)

    with chdir(tmp_path), without_processes():
        write_lines(Path("raw/a.jsonl"), ["one", "two"])
        yield run


def replace_keys(part: str) -> None:
    """Put other keys in the place of those of a part, as large as they are."""
    (path,) = Path("out/data/tokenized/parts", part, "keys").iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    Path("other").write_bytes(data)
    os.replace("other", path)


def selected() -> list[Path]:
    return [*Path("out/.run/selections").glob("*/*.npy")]


@pytest.mark.parametrize(("called", "part"), [("split_of", "00001"), ("first_of_each", "00000")])
def test_keys_that_are_replaced_after_they_were_checked_are_noticed(
    night: Night, monkeypatch: pytest.MonkeyPatch, called: str, part: str
) -> None:
    night()
    write_lines(Path("raw/b.jsonl"), ["two", "three"])
    usual, before = getattr(selections, called), selected()

    def replaced(*values: Any, **more: Any) -> Any:
        replace_keys(part)
        return usual(*values, **more)

    with monkeypatch.context() as patch:
        patch.setattr(selections, called, replaced)
        with pytest.raises(CorruptError, match=rf"{part}/keys/.* changed while it was read"):
            night()
    assert selected() == before
    replace_keys(part)  # as they were
    night()
    assert whole_texts(Path("out/data/packed-64-train")) == ["one", "three", "two"]


def test_a_selection_that_is_replaced_after_it_was_checked_is_noticed(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night()
    write_lines(Path("raw/b.jsonl"), ["two", "three"])
    (path,) = selected()
    whole, make = path.read_bytes(), selections.Selections.make

    def made(*values: Any) -> Any:
        found = make(*values)
        if found.before.name == path.name:
            path.write_bytes(whole[:-1] + bytes([selections.DUPLICATE]))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(selections.Selections, "make", made)
        with pytest.raises(CorruptError, match=rf"{path.name} was lost or changed"):
            night()
    night()
    assert whole_texts(Path("out/data/packed-64-train")) == ["one", "three", "two"]
