"""Bombs are bounded, and rows of a table name no file outside its folder, no device, no FIFO."""

from __future__ import annotations

import io
import json
import os
import socket
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media import PictureRules, SoundRules
from dataprep.pipeline.media.values import is_inside
from support.encoding import encode_here, png
from support.media import FRAME, RULES, decode, encoded, picture

SOUND = SoundRules(rate=16000, loudness="none")
MOVING = PictureRules(framing=FRAME, fps=1000, frames=None)


def wav(rate: int, samples: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(1)
        out.setframerate(rate)
        out.writeframes(bytes(samples))
    return file.getvalue()


def test_a_sound_that_lasts_too_long_is_refused_before_it_grows() -> None:
    found = decode(wav(1, 8000), SOUND)
    assert "is longer than 7200 seconds" in found.reason
    assert "--max-seconds" in found.reason
    waveform = decode(wav(1, 80), replace(SOUND, max_seconds=80)).waveform
    assert waveform is not None
    assert len(waveform) == 80 * 16000


def test_a_sound_of_too_many_samples_is_refused_whatever_its_rate() -> None:
    rules = replace(SOUND, max_seconds=1)
    assert not decode(wav(48_000, 48_000), rules).reason
    assert "has more samples" in decode(wav(192_000, 48_001), rules).reason
    file = io.BytesIO()  # silence takes few bytes in FLAC
    soundfile.write(file, np.zeros((1 << 20, 8), np.float32), 655_350, format="FLAC")
    assert len(file.getvalue()) < 1 << 16
    assert "has more samples" in decode(file.getvalue(), rules).reason


def gif(count: int, duration: int) -> bytes:
    frames = [picture(4, 4, seed=i) for i in range(count)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=duration)
    return file.getvalue()


def test_frames_that_few_bytes_make_are_bounded() -> None:
    slow = gif(3, 600_000)  # ten minutes a frame, a thousand frames a second
    rules = replace(MOVING, max_frames=500)
    with pytest.raises(ValueError, match=r"more than 500 frames.*--max-frames"):
        list(decode(slow, rules).frames)
    assert "more than 2 frames" in decode(slow, replace(MOVING, max_frames=2)).reason
    assert len(list(decode(gif(3, 1000), replace(MOVING, fps=1)).frames)) == 3


@pytest.mark.filterwarnings("ignore")  # Pillow warns from half the limit on; workers do not show it
def test_pixels_are_bounded_by_the_users_own_number() -> None:
    for width, height in ((40, 30), (41, 31)):
        data, count = encoded(picture(width, height)), width * height
        assert not decode(data, replace(RULES, max_pixels=count)).reason
        refused = decode(data, replace(RULES, max_pixels=count - 1)).reason
        assert f"has more than {count - 1} pixels" in refused
        assert "--max-pixels" in refused


def test_caps_of_the_config_reach_the_decoders(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    (tmp_path / "a.wav").write_bytes(wav(8000, 80_000))
    with pytest.raises(InputError, match="raise --max-pixels"):
        encode_here(tmp_path / "o1", tmp_path / "a.png", max_pixels=100)
    with pytest.raises(InputError, match="raise --max-seconds"):
        encode_here(tmp_path / "o2", tmp_path / "a.wav", encoder="mulaw", max_seconds=9)
    (tmp_path / "a.gif").write_bytes(gif(5, 100))
    with pytest.raises(InputError, match="raise --max-frames"):
        encode_here(tmp_path / "o3", tmp_path / "a.gif", frames=2, max_frames=4)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").mkdir()
    for folder in ("in", "secret"):
        (tmp_path / folder / "a.png").write_bytes(png(0))
    (tmp_path / "in" / "out.png").symlink_to("../secret/a.png")
    (tmp_path / "in" / "far").symlink_to("../secret")
    (tmp_path / "in" / "near.png").symlink_to("a.png")
    return tmp_path / "in" / "t.jsonl"


@pytest.mark.parametrize(
    "name",
    ["../secret/a.png", "{tmp}/secret/a.png", "out.png", "far/a.png", "x/../../secret/a.png"],
)
def test_a_row_names_no_file_outside_unless_the_user_allows_it(
    tmp_path: Path, table: Path, name: str
) -> None:
    (tmp_path / "in" / "x").mkdir()
    table.write_text(json.dumps({"image": name.format(tmp=tmp_path)}) + "\n")
    with pytest.raises(InputError, match=r"outside the folder of its table.*--allow-outside"):
        encode_here(tmp_path / "no", table)
    encode_here(tmp_path / "yes", table, allow_outside=True)


@pytest.mark.parametrize("name", ["a.png", "./a.png", "near.png", "{tmp}/in/a.png"])
def test_a_row_names_files_inside_as_it_likes(tmp_path: Path, table: Path, name: str) -> None:
    table.write_text(json.dumps({"image": name.format(tmp=tmp_path)}) + "\n")
    assert encode_here(tmp_path / "o", table)["counts"]["documents_written"] == 1


def test_a_file_outside_is_not_even_hashed(tmp_path: Path, table: Path) -> None:
    table.write_text(json.dumps({"image": "../secret/a.png"}) + "\n")
    prints = []
    for content in (b"one", b"two"):
        (tmp_path / "secret" / "a.png").write_bytes(content)
        found = encode_here(tmp_path / content.decode(), table, on_error="skip", allow_empty=True)
        prints.append(found["sources"][0]["fingerprint"])
    assert prints[0] == prints[1]


@given(name=st.text("ab./", min_size=1, max_size=12))
def test_no_spelling_leads_out(name: str) -> None:
    place = os.path.realpath(os.path.join("/nowhere/in", name))
    assert is_inside("/nowhere/in", name) == place.startswith("/nowhere/in/")


def bind(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)


@pytest.mark.parametrize("kind", ["fifo", "socket", "zero", "zero_link", "proc"])
@pytest.mark.parametrize("as_input", [True, False])
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, kind: str, as_input: bool, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    name = f"{kind}.png"
    made = {
        "fifo": lambda: os.mkfifo(name),
        "socket": lambda: bind(name),
        "zero": lambda: None,
        "zero_link": lambda: os.symlink("/dev/zero", name),
        "proc": lambda: os.symlink("/proc/self/environ", name),
    }
    made[kind]()
    path = "/dev/./zero" if kind == "zero" else str(tmp_path / name)
    (tmp_path / "t.jsonl").write_text(json.dumps({"image": path}) + "\n")
    ended = run_cli(
        *("encode", path if as_input else "t.jsonl", "--encoder", "patches", "--out", "o"),
        *("--workers", "1", *(() if as_input else ("--allow-outside",))),
        check=False,
        timeout=60,
    )
    assert ended.code == 3, ended.stderr
    assert "Traceback" not in ended.stderr
