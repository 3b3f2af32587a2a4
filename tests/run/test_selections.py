"""Splits and duplicates are told by files that nothing has changed meanwhile."""

from __future__ import annotations

import json
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
from dataprep.pipeline.storage.manifest import read_manifest
from support.killable import without_processes
from support.nights import whole_texts, write_config, write_lines

Night = Callable[[], RunOutcome]
Live = Callable[..., RunOutcome]


@pytest.fixture
def live(tmp_path: Path, cache_dir: Path) -> Iterator[Live]:
    def run(**values: Any) -> RunOutcome:
        write_config(Path("c.json"), **values)
        chain = StepChain(config=load_config(RunConfig, files=["c.json"]), cache_dir=cache_dir)
        return run_all(chain, lambda todo: silent)

    with chdir(tmp_path), without_processes():
        yield run


@pytest.fixture
def night(live: Live) -> Night:
    write_lines(Path("raw/a.jsonl"), ["one", "two"])
    return lambda: live(inputs=["raw/*.jsonl"], dedup="exact", splits={"train": 1.0})


def test_documents_of_one_record_are_no_duplicates_of_each_other(live: Live) -> None:
    """Those of the turns of a conversation, or of a packed row, have the content of it all."""

    def turns(*texts: str) -> dict[str, Any]:
        roles = ("user", "assistant")
        said = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        return {"messages": said}

    def came_in(name: str, *records: dict[str, Any]) -> None:
        Path("raw").mkdir(exist_ok=True)
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        Path(f"raw/{name}.jsonl").write_text(lines)

    chat = {"template": "chatml", "history": "row_per_turn"}
    both = {name: {"inputs": [f"raw/{name}*.jsonl"]} for name in "ab"}
    settings = {"corpora": both, "seq_lens": [256], "dedup": "exact", "chat": chat}
    talk, other = turns("ab", "cd", "ef", "gh"), turns("ab", "cd")
    came_in("a", talk, other, talk)
    came_in("b", turns("ij", "kl", "mn", "op"))
    live(**settings)
    assert (kept("out/a/packed-256"), kept("out/b/packed-256")) == ([3, 2], [2, 0])
    came_in("b2", talk)
    live(**settings)
    assert kept("out/b/packed-256") == [2, 2]
    # It takes the place of what goes, with all of its documents.
    live(**{**settings, "corpora": {"b": both["b"]}})
    assert kept("out/b/packed-256") == [4, 0]
    keys = {"tokens": "ids", "lengths": "lengths"}
    rows = {"inputs": ["raw/r*.jsonl"], "pretokenized": keys, "dedup": "exact", "out": "rows"}
    came_in("r", *({"ids": [1, 2, 3, 4], "lengths": [2, 2]} for _ in range(2)))
    live(**rows)
    assert kept("rows/data/packed-64") == [2, 2]
    # Records that are read apart, each by itself, are not one.
    long = [{"ids": [n] * 30_000, "lengths": [20_000, 10_000]} for n in (1, 2, 3)]
    rows |= {"inputs": ["raw/long*.jsonl"], "out": "long", "shard_bytes": 1 << 16}
    came_in("long", long[0])
    live(**rows)
    came_in("long2", *long, long[1])
    live(**rows)
    assert kept("long/data/packed-64") == [6, 4]


def kept(folder: str) -> list[int]:
    counts = read_manifest(Path(folder)).counts
    return [counts["documents_written"], counts["documents_duplicate"]]


def replace_keys(part: str) -> None:
    """Put other keys in the place of those of a part, as large as they are."""
    (path,) = Path("out/data/tokenized/parts", part, "keys").iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    Path("other").write_bytes(data)
    os.replace("other", path)


def selected() -> list[Path]:
    return [*Path("out/.run/selections").glob("*/*.npy")]


@pytest.mark.parametrize(("called", "part"), [("split_of", "00001"), ("firsts_of", "00000")])
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
