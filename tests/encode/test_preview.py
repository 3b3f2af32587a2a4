"""`encode --dry-run` says how many media there are, tries the first, and estimates the codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from conftest import RunCli
from support.encoding import png
from support.media import encoded, picture, sine
from support.trees import tree

soundfile = pytest.importorskip("soundfile")


def dry(run_cli: RunCli, *words: str) -> dict[str, object]:
    done = run_cli("encode", *words, "--out", "codes", "--dry-run", "--json")
    told: dict[str, object] = json.loads(done.stdout)
    return told


def codes_made(run_cli: RunCli, *words: str) -> int:
    done = run_cli("encode", *words, "--out", "codes", "--overwrite", "--json")
    codes: int = json.loads(done.stdout)["counts"]["codes"]
    return codes


def test_pictures_of_folders_and_tables_are_counted_and_their_codes_estimated(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "pictures").mkdir()
    for i in range(9):
        (tmp_path / "pictures" / f"{i}.png").write_bytes(png(i))
    pq.write_table(pa.table({"image": [png(i) for i in range(5)]}), tmp_path / "t.parquet")
    words = ("pictures", "t.parquet", "--encoder", "patches")
    before = tree(tmp_path)
    told = dry(run_cli, *words)
    assert told["media"] == {"pictures": 9, "records": 5}
    assert tree(tmp_path) == before
    assert told["estimated_codes"] == codes_made(run_cli, *words)
    limited = dry(run_cli, *words, "--limit", "7", "--overwrite")
    assert limited["estimated_codes"] == codes_made(run_cli, *words, "--limit", "7")
    said = run_cli("encode", *words, "--out", "new", "--dry-run").stdout.splitlines()
    assert said[-3:-1] == ["found: 9 pictures, 5 records", "the first 8 decoded: 0 bad"]
    assert said[-1].startswith("in all: about ")


def test_sounds_and_animations_are_estimated_by_the_first_of_them(
    run_cli: RunCli, tmp_path: Path
) -> None:
    for name in ("sounds", "moving"):
        (tmp_path / name).mkdir()
    frames = [picture(seed=i) for i in range(6)]
    assert isinstance(frames[0], Image.Image)
    for i in range(7):
        soundfile.write(tmp_path / "sounds" / f"{i}.wav", sine(16_000, 300.0), 16_000)
        gif = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
        (tmp_path / "moving" / f"{i}.gif").write_bytes(gif)
    for words, media in (
        (("sounds", "--encoder", "mulaw"), {"sounds": 7}),
        (("moving", "--encoder", "patches", "--frames", "3"), {"pictures": 7}),
    ):
        told = dry(run_cli, *words, "--overwrite")
        assert told["media"] == media
        assert told["estimated_codes"] == codes_made(run_cli, *words)


def test_a_bad_picture_among_the_first_fails_as_in_the_run_or_is_told(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(png(1))
    (tmp_path / "pictures" / "b.png").write_bytes(b"none")
    words = ("encode", "pictures", "--encoder", "patches", "--out", "codes")
    done, run = (run_cli(*words, *more, check=False) for more in (("--dry-run",), ()))
    assert (done.code, run.code) == (3, 3)
    assert done.stderr.splitlines()[-1] == run.stderr.splitlines()[-1]
    said = run_cli(*words, "--dry-run", "--on-error", "skip").stdout
    assert "the first 2 decoded: 1 bad" in said
    assert f"the first bad one: {tmp_path / 'pictures' / 'b.png'}: is not a picture" in said
