"""Pictures and sounds that a Python program hands over."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.sources.memory import line_of
from support.encoding import encode_here, png, rows_of
from support.media import sine
from support.trees import tree

SETTINGS = {"size": 32, "cells": 4}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(5):
        (folder / f"{i}.png").write_bytes(png(i))
    return folder


def as_array(data: bytes) -> Any:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def test_pictures_of_a_program_give_the_codes_of_their_files(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    encode_here(tmp_path / "files", pictures, settings=SETTINGS)
    codes = [row["vision"] for row in rows_of(tmp_path / "files")]
    files = [path.read_bytes() for path in sorted(pictures.iterdir())]
    feature = datasets.Features({"image": datasets.Image(), "text": datasets.Value("string")})
    stored = [{"image": {"bytes": data, "path": None}, "text": "t"} for data in files]
    given: dict[str, Any] = {
        "bytes": [{"image": data, "text": "t"} for data in files],
        "arrays": [{"image": as_array(data), "text": "t"} for data in files],
        "pil": [{"image": Image.fromarray(as_array(data)), "text": "t"} for data in files],
        "hub": datasets.Dataset.from_list(stored, features=feature),
    }
    for name, records in given.items():
        made = dataprep.encode(
            inputs=[records], encoder="patches", settings=SETTINGS, out=tmp_path / name, workers=1
        )
        assert [row["vision"] for row in rows_of(tmp_path / name)] == codes, name
        assert rows_of(tmp_path / name)[0]["source"] == "python:0:1"
        assert made.manifest.counts["documents_written"] == 5
        verify(tmp_path / name)
        again = dataprep.encode(
            inputs=[records], encoder="patches", settings=SETTINGS, out=tmp_path / name, workers=1
        )
        assert again.was_complete
    dataprep.encode(
        inputs=[given["bytes"]],
        encoder="patches",
        settings=SETTINGS,
        out=tmp_path / "two",
        workers=2,
    )
    assert tree(tmp_path / "two") == tree(tmp_path / "bytes")
    assert not [name for name in os.listdir(tmp_path) if name.startswith("dataprep-")]


def test_frames_in_a_list_are_one_video(pictures: Path, tmp_path: Path) -> None:
    frames = [as_array(path.read_bytes()) for path in sorted(pictures.iterdir())]
    dataprep.encode(
        inputs=[[{"image": frames}]],
        encoder="patches",
        settings=SETTINGS,
        out=tmp_path / "out",
        workers=1,
    )
    (row,) = rows_of(tmp_path / "out")
    encode_here(tmp_path / "files", pictures, settings=SETTINGS)
    assert row["vision"] == [c for r in rows_of(tmp_path / "files") for c in r["vision"]]


def test_sounds_of_a_program_are_encoded(tmp_path: Path) -> None:
    waveform = sine(16000, 440)
    levels = np.rint(waveform * 32767).astype(np.int16)
    dataprep.encode(
        inputs=[[{"audio": {"array": a, "sampling_rate": 16000}} for a in (waveform, levels)]],
        encoder="mulaw",
        loudness="none",
        out=tmp_path / "out",
        workers=1,
    )
    from dataprep.pipeline.encoders import open_encoder

    encoder: Any = open_encoder("mulaw")
    expected = [waveform, (levels / 32768).astype(np.float32)]
    assert [row["audio"] for row in rows_of(tmp_path / "out")] == [
        encoder.encode(one)[0].tolist() for one in expected
    ]


def test_records_of_a_program_name_no_files(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(dataprep.InputError, match="only a local table may hold"):
        dataprep.encode(
            inputs=[[{"image": "0.png"}]], encoder="patches", out=tmp_path / "out", workers=1
        )


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"audio": {"array": np.zeros((2, 99)), "sampling_rate": 16000}}, "several channels"),
        ({"audio": {"array": np.zeros((99, 2)), "sampling_rate": 16000}}, "several channels"),
        ({"audio": {"array": np.zeros(99), "sampling_rate": 0}}, "sampling_rate 0"),
        ({"audio": {"array": np.zeros(99), "sampling_rate": -1}}, "sampling_rate -1"),
        ({"audio": {"array": np.zeros(99), "sampling_rate": 44100.5}}, "sampling_rate 44100.5"),
        ({"audio": {"array": np.zeros(99), "sampling_rate": None}}, "key 'audio'"),
        ({"audio": {"array": np.zeros(99, np.int32), "sampling_rate": 9}}, "of type int32; give"),
        ({"image": np.zeros((0, 9, 3), np.uint8)}, "no pixels"),
        ({"image": Image.new("CMYK", (9, 9))}, "key 'image': cannot write mode CMYK"),
    ],
)
def test_what_is_no_picture_and_no_sound_of_one_channel_is_refused(
    record: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=f"record 1 of python:0: .*{reason}"):
        line_of(record, "record 1 of python:0", media=True)
