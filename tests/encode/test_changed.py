"""Whatever changes while encode reads ends the run, wherever it is."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.configs import EncodeConfig
from dataprep.pipeline.encode.recipe import recipe_of
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


CHANGES: list[tuple[Callable[[Path], None], Callable[[Path], Any]]] = [
    (pictures, lambda d: (d / "b.png").write_bytes(png(1))),
    (pictures, lambda d: (d / "a.png").write_bytes(png(2))),
    (pictures, lambda d: (d / "a.png").unlink()),
    (pictures, lambda d: (d / "a.txt").write_text("another")),
    (pictures, lambda d: (d / "a.json").write_text("{}")),
    (pictures, lambda d: write_tar(d / "z.tar", "3.png")),
    (tars, lambda d: write_tar(d / "z.tar", "3.png")),
    (tars, lambda d: (d / "y.tar").unlink()),
    (tars, lambda d: write_tar(d / "y.tar", "4.png")),
    (tars, lambda d: (d / "b.png").write_bytes(png(1))),
    (tables, lambda d: (d / "b.jsonl").write_text('{"image": "p/1.png"}\n')),
    (tables, lambda d: (d / "a.jsonl").write_text('{"image": "p/2.png"}\n')),
    (tables, lambda d: (d / "p" / "1.png").write_bytes(png(3))),
    (tables, lambda d: (d / "p" / "1.png").unlink()),
]


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_a_change_is_found(make: Any, change: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    make(folder)
    # Tables and what they name are in one folder here, so the tables are named.
    inputs = [str(folder / "*.jsonl" if make is tables else folder)]
    values = {"inputs": inputs, "encoder": "patches", "out": str(tmp_path / "out")}
    recipe = recipe_of(EncodeConfig.model_validate(values), tmp_path / "cache")
    planned = recipe.plan()
    assert recipe.changed(planned) == ""
    change(folder)
    assert recipe.changed(planned) != ""


def test_other_weights_are_found(tmp_path: Path) -> None:
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
    assert recipe.changed(planned) == ""
    write_tensors(random_tensors(SMALL, seed=1), weights)
    assert recipe.changed(planned) == str(weights)
