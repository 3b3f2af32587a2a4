"""Pictures and rows that kill their worker, and a disk that is full, while encode runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from conftest import RunCli
from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.plan import make_plan
from dataprep.pipeline.encode.recipe import begin_work
from dataprep.pipeline.encode.worker import EncodeTasks
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.plans import write_plan
from dataprep.pipeline.jobs.poison import Poison, poison_name
from dataprep.pipeline.jobs.worker import Message
from dataprep.pipeline.look.verify import verify
from support.encoding import png, rows_of
from support.poison import POISON, deaths, poisoned
from support.trees import tree


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(40):
        (folder / f"{i:02}.png").write_bytes(png(i))
    (folder / f"17-{POISON}.png").write_bytes(png(99))
    return folder


# A hang is noticed and ended by the same code for every command: `jobs` has one of tokenize.
@pytest.mark.parametrize("mode", ["segv", pytest.param("hang", marks=pytest.mark.slow)])
def test_a_picture_that_kills_its_worker_is_quarantined(
    run_cli: RunCli, pictures: Path, tmp_path: Path, mode: str
) -> None:
    folder, out = tmp_path / "poison", tmp_path / "out"
    words = ["encode", pictures, "--encoder", "patches", "--on-error", "quarantine"]
    run_cli(*words, "--task-timeout", "2", "--out", out, env=poisoned(folder, mode))
    assert deaths(folder) == 3
    verify(out)
    (error,) = (out / "errors.jsonl").read_text().splitlines()
    assert json.loads(error)["file"] == str(pictures / f"17-{POISON}.png")
    assert "on this record" in json.loads(error)["reason"]
    # The others are encoded as if it were a picture that cannot be read.
    (pictures / f"17-{POISON}.png").write_bytes(b"none")
    run_cli(*words, "--out", tmp_path / "bad")
    assert tree(out / "shards") == tree(tmp_path / "bad" / "shards")


def test_under_fail_the_row_of_a_table_is_named(
    run_cli: RunCli, pictures: Path, tmp_path: Path
) -> None:
    rows = [{"image": f"pictures/{i:02}.png", "text": POISON if i == 7 else "a"} for i in range(9)]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["encode", table, "--encoder", "patches", "--out", tmp_path / "out"]
    result = run_cli(*words, env=poisoned(tmp_path / "poison", "abort"), check=False)
    assert result.code == 3
    assert f"line 8 of {table}: a worker died of SIGABRT on this record" in result.stderr
    run_cli(*words)
    assert len(rows_of(tmp_path / "out")) == 9


def test_too_many_bad_pictures_are_named(run_cli: RunCli, pictures: Path, tmp_path: Path) -> None:
    for i in (3, 5, 8):
        (pictures / f"{i:02}.png").write_bytes(b"none")
    words = ["encode", pictures, "--encoder", "patches", "--on-error", "skip", "--out"]
    result = run_cli(*words, tmp_path / "out", "--max-errors", "2", check=False)
    assert result.code == 3
    assert f"more than --max-errors 2 allows; the first: {pictures}/03.png: " in result.stderr
    assert f"; {pictures}/05.png: " in result.stderr


def test_each_frame_of_an_animation_that_is_tried_alone_is_a_sign_of_life(tmp_path: Path) -> None:
    """Else a long one is taken for hung, while it is tried, and quarantined."""
    frames = [Image.new("L", (8, 8), 10 * i) for i in range(20)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    values = {
        "inputs": [str(tmp_path / "a.gif")],
        "encoder": "patches",
        "frames": 20,
        "out": str(tmp_path / "out"),
    }
    planned = make_plan(EncodeConfig.model_validate(values), None, 1)
    work = tmp_path / "work"
    work.mkdir()
    begin_work(planned, work, silent)
    record = ((0, 0), (0, 1))
    write_plan(work, Poison(suspects=record), poison_name(0))
    sent: list[Message] = []
    EncodeTasks(planned.plan, work).run(planned.plan.tasks[0], sent.append)
    alone = [message for message in sent if message["type"] == "at" and message["alone"]]
    assert [message["span"] for message in alone] == [record] * (1 + len(frames))
