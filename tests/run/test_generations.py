"""A new generation: published whole or not at all, and nothing of an older one ever changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.pipeline import files
from dataprep.pipeline.errors import ConflictError
from dataprep.pipeline.run import generations
from dataprep.pipeline.run.generations import publish_generation
from dataprep.pipeline.storage.manifest import read_manifest
from dataprep.pipeline.storage.parts import read_generation
from support.grown import Make, grow, manifest_in, packed, parts_in, replace_part, tokenized
from support.inprocess import write_lines


def texts(home: Path, name: str, count: int) -> Make:
    """What tokenizes so many documents."""
    home.mkdir(exist_ok=True)
    records = [{"text": f"{name} {i} " * (i % 7 + 1)} for i in range(count)]
    return tokenized([write_lines(home / f"{name}.jsonl", records)])


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a folder: its inode and what is in it."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(p.relative_to(folder)): (p.stat().st_ino, p.read_bytes()) for p in found}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    grow(tmp_path / "out", texts(tmp_path, "a", 20))
    return tmp_path / "out"


def test_a_generation_leaves_all_that_was_there_as_it_is(out: Path, tmp_path: Path) -> None:
    before = tree(out)
    grow(out, texts(tmp_path, "b", 10))
    after = tree(out)
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: found for name, found in before.items() if name != "manifest.json"
    }
    assert read_generation(out).counts["documents_written"] == 30
    assert read_generation(out, 0).counts["documents_written"] == 20
    assert (out / "manifest.json").read_bytes() == (out / "generations/00001.json").read_bytes()


def test_the_same_parts_are_no_new_generation(out: Path) -> None:
    before = tree(out)
    assert publish_generation(out, parts_in(out)) == read_manifest(out)
    assert tree(out) == before


def test_a_run_that_is_killed_before_the_manifest_leaves_the_older_generation(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(path: Path, data: bytes) -> None:
        if path.name == "manifest.json":
            raise KeyboardInterrupt
        files.write_atomic(path, data)

    monkeypatch.setattr(generations, "write_atomic", power_cut)
    with pytest.raises(KeyboardInterrupt):
        grow(out, texts(tmp_path, "b", 10))
    assert (out / "generations/00001.json").exists()
    assert read_manifest(out) == read_generation(out, 0)
    monkeypatch.undo()
    second = "parts/00001", manifest_in(out / "parts/00001")
    made = publish_generation(out, [*parts_in(out), second])
    assert made == read_manifest(out) == read_generation(out, 1)


def test_rows_never_move(tmp_path: Path) -> None:
    out, home = tmp_path / "out", tmp_path / "in"
    texts(home, "a", 30)(tmp_path / "a")
    texts(home, "b", 9)(tmp_path / "b")
    grow(out, packed(tmp_path / "a", seq_len=32))
    grow(out, packed(tmp_path / "b", seq_len=32))
    first, second = parts_in(out)
    with pytest.raises(ConflictError, match="cannot become one of 1"):
        publish_generation(out, [first])
    with pytest.raises(ConflictError, match="rows of a generation never move"):
        publish_generation(out, [second, first])
    with pytest.raises(ConflictError, match=r"parts/00000-1 \(\d+\) cannot stand for parts/00000"):
        replace_part(out, 0, 1, packed(tmp_path / "b", seq_len=32))
    assert read_manifest(out) == read_generation(out, 1)
    replace_part(out, 1, 1, packed(tmp_path / "b", seq_len=32, seed=3))
    assert [path for path, _ in parts_in(out)] == ["parts/00000", "parts/00001-1"]


def test_a_dataset_that_was_made_at_once_cannot_grow(out: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    texts(tmp_path, "b", 10)(plain)
    with pytest.raises(ConflictError, match="made at once"):
        publish_generation(plain, parts_in(out))
