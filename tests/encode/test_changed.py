"""What was planned and changes while encode reads it ends the run, wherever it is.

What is added meanwhile is not part of the dataset; the next run notices it.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.recipe import recipe_of
from dataprep.pipeline.encode.worker import begin, entries_name
from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.media import find
from support.encoding import png


def write_tar(path: Path, *names: str) -> None:
    with tarfile.open(path, "w") as tar:
        for i, name in enumerate(names):
            data = png(i)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def pictures(folder: Path) -> None:
    (folder / "a.png").write_bytes(png(0))
    (folder / "a.txt").write_text("a caption")


def tars(folder: Path) -> None:
    write_tar(folder / "x.tar", "1.png")
    write_tar(folder / "y.tar", "2.png")


def tables(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"image": "p/1.png"}\n')
    (folder / "p").mkdir()
    (folder / "p" / "1.png").write_bytes(png(1))


Make = Callable[[Path], None]
CHANGES: list[tuple[Make, Callable[[Path], Any], str]] = [
    (pictures, lambda d: (d / "a.png").write_bytes(png(2)), ""),
    (pictures, lambda d: (d / "a.txt").write_text("another"), ""),
    (tars, lambda d: write_tar(d / "y.tar", "4.png"), "y.tar"),
    (tables, lambda d: (d / "a.jsonl").write_text('{"image": "p/2.png"}\n'), "a.jsonl"),
    (tables, lambda d: (d / "p" / "1.png").write_bytes(png(3)), "a.jsonl"),
]
ADDITIONS: list[tuple[Make, Callable[[Path], Any]]] = [
    (pictures, lambda d: (d / "b.png").write_bytes(png(1))),
    (pictures, lambda d: (d / "a.json").write_text("{}")),
    (tars, lambda d: write_tar(d / "z.tar", "3.png")),
    (tables, lambda d: (d / "b.jsonl").write_text('{"image": "p/1.png"}\n')),
]
LOSSES: list[tuple[Make, str]] = [
    (pictures, "a.png"),
    (tars, "y.tar"),
    (tables, "a.jsonl"),
    (tables, "p/1.png"),
]


def planned_here(make: Make, tmp_path: Path) -> tuple[Path, Callable[[], str]]:
    """Plan; return the folder of the inputs and the function that tells what has changed."""
    folder = tmp_path / "in"
    folder.mkdir()
    make(folder)
    # Tables and what they name are in one folder here, so the tables are named.
    inputs = [str(folder / "*.jsonl" if make is tables else folder)]
    values = {"inputs": inputs, "encoder": "patches", "out": str(tmp_path / "out")}
    recipe = recipe_of(EncodeConfig.model_validate(values), tmp_path / "cache")
    planned = recipe.plan()
    assert recipe.changed(planned) == ""
    return folder, lambda: recipe.changed(planned)


@pytest.mark.parametrize(("make", "change", "name"), CHANGES)
def test_a_change_is_found(make: Make, change: Any, name: str, tmp_path: Path) -> None:
    folder, changed = planned_here(make, tmp_path)
    change(folder)
    assert changed() == str(folder / name)


@pytest.mark.parametrize(("make", "add"), ADDITIONS)
def test_what_is_added_is_no_change(make: Make, add: Any, tmp_path: Path) -> None:
    folder, changed = planned_here(make, tmp_path)
    add(folder)
    assert changed() == ""


@pytest.mark.parametrize(("make", "name"), LOSSES)
def test_what_cannot_be_reached_is_an_error_that_keeps_the_work(
    make: Make, name: str, tmp_path: Path
) -> None:
    folder, changed = planned_here(make, tmp_path)
    (folder / name).rename(tmp_path / "away")
    with pytest.raises(InputError, match=name):
        changed()
    (tmp_path / "away").rename(folder / name)
    assert changed() == ""


def test_a_tar_that_is_replaced_while_it_is_listed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = find.list_tar

    def replace_and_list(path: str, kind: Any) -> Any:
        write_tar(Path(path), "8.png", "9.png")
        return listing(path, kind)

    with monkeypatch.context() as patch:
        patch.setattr(find, "list_tar", replace_and_list)
        values = {"inputs": [str(tmp_path / "x.tar")], "encoder": "patches", "out": "o"}
        write_tar(tmp_path / "x.tar", "1.png")
        recipe = recipe_of(EncodeConfig.model_validate(values), tmp_path / "cache")
        planned = recipe.plan()
    assert recipe.changed(planned) == str(tmp_path / "x.tar")


def test_files_named_one_by_one_have_their_folder_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(20):
        (tmp_path / f"{i}.png").write_bytes(png(i))
        (tmp_path / f"{i}.txt").write_text(f"picture {i}")
    listed: list[str] = []
    listing = os.listdir

    def count(path: str) -> list[str]:
        listed.append(path)
        return listing(path)

    monkeypatch.setattr(os, "listdir", count)
    values = {"inputs": [str(tmp_path / f"{i}.png") for i in range(20)], "encoder": "patches"}
    planned = recipe_of(EncodeConfig.model_validate(values), tmp_path / "cache").plan()
    assert listed.count(str(tmp_path) + "/") == 1
    assert [item.entries[0].names for item in planned.found] == [
        [f"{i}.png", f"{i}.txt"] for i in range(20)
    ]


def test_a_worker_refuses_weights_that_were_not_planned_with(tmp_path: Path) -> None:
    from dataprep.pipeline.encoders.vqgan.weights import write_tensors
    from support.vqgan import SMALL, random_tensors

    (tmp_path / "a.png").write_bytes(png(0))
    weights = tmp_path / "w.safetensors"
    write_tensors(random_tensors(SMALL), weights)
    values = {
        "inputs": [str(tmp_path / "a.png")],
        "encoder": "vqgan",
        "weights": str(weights),
        "out": str(tmp_path / "out"),
    }
    recipe = recipe_of(EncodeConfig.model_validate(values), tmp_path / "cache")
    planned = recipe.plan()
    (tmp_path / "work").mkdir()
    recipe.begin(planned, tmp_path / "work", silent)
    begin(tmp_path / "work")
    write_tensors(random_tensors(SMALL, seed=1), weights)
    with pytest.raises(InputError, match=r"the weights .* changed while the run was on"):
        begin(tmp_path / "work")


@pytest.mark.parametrize("loss", ["missing", "damaged"])
def test_a_worker_without_the_list_of_a_folder_fails_and_commits_nothing(
    loss: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    pictures(tmp_path / "in")
    values = {"inputs": [str(tmp_path / "in")], "encoder": "patches", "out": str(tmp_path / "out")}
    recipe = recipe_of(EncodeConfig.model_validate(values), tmp_path / "cache")
    work = tmp_path / "work"
    work.mkdir()
    recipe.begin(recipe.plan(), work, silent)
    path = work / entries_name(0)
    path.unlink() if loss == "missing" else path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptError, match=path.name):
        begin(work)(0, lambda message: None)
    assert not list((work / "tasks").iterdir())
