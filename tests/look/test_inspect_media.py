"""Codes back to pictures and sounds by `inspect --media`, and what encoders tell `tokenize`."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shlex
import shutil
import wave
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from conftest import Finished, RunCli
from dataprep.cli.encode import next_command
from dataprep.cli.inspect import inspect_command
from dataprep.configs.load import load_config
from dataprep.configs.modalities import AudioConfig, VisionConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.encoders import open_encoder
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.look.decoders import named_decoder, recorded_decoder
from dataprep.pipeline.look.inspect import (
    Segment,
    runs_of,
    segments_of_row,
    spans_of,
    whole_document,
)
from dataprep.pipeline.look.media import FindDecoder, Media, whole_codes, write_media
from dataprep.pipeline.look.origins import Origin, pieces_of_row
from dataprep.pipeline.modalities import BLOCKS
from dataprep.pipeline.sources import find_sources
from dataprep.pipeline.sources.makers import Maker, metadata_of, read_made
from dataprep.pipeline.storage.manifest import EncodedManifest, read_manifest
from dataprep.pipeline.tokenize import plan_of
from support.encoding import encode_here, png, rows_of
from support.inprocess import tokenize_here, write_lines
from support.plugins import install_plugin

COLOURS = {"a": (200, 30, 30), "b": (20, 160, 60), "c": (40, 40, 220), "d": (250, 250, 0)}
SMALL = {"size": 8, "cells": 2}  # frames of four codes

NO_TAG = np.zeros(0, np.uint32)


def read_png(path: str | Path) -> NDArray[np.uint8]:
    return np.asarray(Image.open(path))


def read_wav(path: str | Path) -> tuple[int, NDArray[np.int16]]:
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        return file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")


def patches(codes: Any, **settings: Any) -> NDArray[np.uint8]:
    """Frames by the encoder itself."""
    encoder: Any = open_encoder("patches", settings)
    pixels: NDArray[np.uint8] = encoder.decode(np.array(codes, np.int32).reshape(-1, 4))
    return pixels


def write_table(path: Path, records: list[dict[str, Any]]) -> Path:
    """Media as base64, bytes of a list as frames of one record."""

    def text(value: Any) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return [text(item) for item in value] if isinstance(value, list) else value

    return write_lines(path, [{k: text(v) for k, v in record.items()} for record in records])


def sound(samples: int, step: float = 0.1) -> bytes:
    levels = (20000 * np.sin(np.arange(samples) * step)).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16000)
        out.writeframes(levels.tobytes())
    return file.getvalue()


def tokenized(out: Path, *inputs: Path, **config: Any) -> Any:
    values = {"tokenizer": "bytes", **config, "inputs": [str(path) for path in inputs]}
    tokenize_here(out, **values)
    return open_dataset(out)


def document_media(dataset: Any, number: int, to: Path, find: FindDecoder | None = None) -> Media:
    segment = whole_document(dataset.folder, dataset.about, number)
    found = find or recorded_decoder()
    return write_media(dataset[number], [segment], found, to, f"doc-{number}")


def row_segments(packed: PackedDataset, row: int) -> list[Segment]:
    pieces = pieces_of_row(packed.folder, packed.about, *packed.locate(row))
    return segments_of_row(packed.folder, packed.about, pieces)


def row_media(packed: PackedDataset, row: int, to: Path, find: FindDecoder | None = None) -> Media:
    found = find or recorded_decoder()
    return write_media(packed[row], row_segments(packed, row), found, to, f"row-{row}")


def shapes(item: Any, segments: list[Segment]) -> list[str]:
    spans = spans_of(item, lambda ids: "", segments)
    return [span.text for span in spans if span.modality not in ("text", "padding")]


def pack_here(run_cli: RunCli, out: Path, *inputs: Path, flags: str) -> PackedDataset:
    run_cli("pack", *inputs, "--out", out, "-q", *flags.split())
    dataset = open_dataset(out)
    assert isinstance(dataset, PackedDataset)
    return dataset


# --- the whole way, by the command --------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for i, (name, colour) in enumerate(COLOURS.items()):
        picture = Image.new("RGB", (30 + 20 * i, 70), colour)
        picture.paste(tuple(255 - c for c in colour), (0, 0, 20, 20))
        picture.save(folder / f"{name}.png")
        (folder / f"{name}.txt").write_text(f"picture {name}")
    return folder


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """Frames of 64."""
    out = tmp_path_factory.mktemp("codes") / "codes"
    encode_here(out, pictures, settings={"cells": 8})
    return out


def test_pictures_go_through_encode_tokenize_and_pack_and_come_back(
    pictures: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    said = run_cli(
        *("encode", pictures, "--encoder", "patches", "--set", "settings.cells=8"),
        *("--out", "codes"),
    ).stdout
    shown = "dataprep tokenize codes --fields '[vision],text' --tokenizer T --out DIR"
    assert said.splitlines()[-1] == f"next: {shown}"
    run_cli(
        *("tokenize", "codes", "--fields", "[vision],text", "--tokenizer", "bytes"),
        *("--out", "tokens", "-q"),
    )
    manifest = open_dataset(tmp_path / "tokens").manifest
    assert manifest["config"]["modalities"]["vision"]["tokens_per_frame"] == 64

    text = run_cli("inspect", "tokens", "--doc", "2", "--media", "seen/here").stdout
    assert "[<vision 1×64>]" in text
    assert text.splitlines()[-1] == "seen/here/doc-2-block-0-frame-0.png"
    encoder: Any = open_encoder("patches", {"cells": 8})
    expected = encoder.decode(
        np.array([row["vision"] for row in rows_of(tmp_path / "codes")], np.int32)
    )
    assert (read_png(tmp_path / "seen/here/doc-2-block-0-frame-0.png") == expected[2]).all()
    # Of one colour but for a corner: what comes back looks like it.
    assert np.abs(expected[2][200, 200].astype(int) - COLOURS["c"]).max() <= 20

    packed = pack_here(run_cli, tmp_path / "packed", Path("tokens"), flags="--seq-len 200")
    command = ("inspect", "packed", "--row", "1", "--media", "rows", "--json")
    found = json.loads(run_cli(*command).stdout)
    assert found["notes"] == []
    assert found["media"] == [f"rows/row-1-block-{i}-frame-0.png" for i in range(2)]
    spans = [span for span in found["spans"] if span["modality"] == "vision"]
    assert len(packed) == 2
    for path, span in zip(found["media"], spans, strict=True):
        document = found["segments"][span["segment"] - 1]["document"]
        assert (read_png(tmp_path / path) == expected[document]).all()
        tokens = found["tokens"][span["start"] : span["start"] + span["num_tokens"]]
        assert tokens == [*rows_of(tmp_path / "codes")[document]["vision"], 8193]


def test_a_document_without_codes_says_so_and_ends_well(tmp_path: Path, run_cli: RunCli) -> None:
    write_lines(tmp_path / "t.jsonl", [{"text": "words"}])
    tokenized(tmp_path / "tokens", tmp_path / "t.jsonl")
    said = run_cli("inspect", "tokens", "--media", "seen").stdout
    assert said.splitlines()[-1] == "doc-0 has no block of codes, so no file was written"
    assert not (tmp_path / "seen").exists()


def test_codes_made_elsewhere_are_decoded_by_the_encoder_that_is_named(
    tmp_path: Path, run_cli: RunCli
) -> None:
    codes = [100, 2000, 3000, 8191]
    write_lines(tmp_path / "t.jsonl", [{"vision": codes}])
    modalities = {"vision": {"tokens_per_frame": 4}}
    dataset = tokenized(
        tmp_path / "tokens", tmp_path / "t.jsonl", fields="vision", modalities=modalities
    )

    def inspect(*flags: str) -> Finished:
        return run_cli("inspect", "tokens", *flags, check=False)

    done = inspect("--media", "seen")
    assert done.code == 2
    assert "are from line 1 of" in done.stderr
    assert "t.jsonl (byte 0), not from dataprep encode; name the encoder" in done.stderr
    assert "--encoder NAME [--weights FILE] [--set settings.NAME=VALUE]" in done.stderr
    settings = ("--set", "settings.size=8", "--set", "settings.cells=2")
    done = inspect("--media", "seen", "--encoder", "patches", *settings)
    assert done.code == 0, done.stderr
    assert (read_png(tmp_path / "seen/doc-0-block-0-frame-0.png") == patches(codes, **SMALL)).all()
    again = inspect("--media", "seen", "--encoder", "patches", *settings)  # the same file
    assert again.code == 0, again.stderr
    (tmp_path / "seen/doc-0-block-0-frame-0.png").write_bytes(b"mine")
    done = inspect("--media", "seen", "--encoder", "patches", *settings)
    assert done.code == 2
    assert "frame-0.png is there and holds something else; remove it, or name" in done.stderr
    assert (tmp_path / "seen/doc-0-block-0-frame-0.png").read_bytes() == b"mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*file/doc-0.*File exists; name another"):
        document_media(dataset, 0, tmp_path / "file", named_decoder("patches", None, SMALL))
    with pytest.raises(ConfigError) as error:
        document_media(dataset, 0, tmp_path, named_decoder("patches", None, {}))
    assert "encoder patches has tokens_per_frame 256, codebook_size 8192, but" in str(error.value)
    assert "tokenized with tokens_per_frame 4, codebook_size 8192" in str(error.value)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"encoder": "patches"}, "--encoder has no effect without --media DIR"),
        ({"media": "m", "weights": "w"}, "--weights has no effect without --encoder"),
        ({"media": "m", "sets": ["settings.cells=8"]}, "--set has no effect without --encoder"),
        ({"media": "m", "encoder": "patches", "sets": ["fps=3"]}, "--set fps=3: only settings"),
        ({"media": "m", "encoder": "patches", "weights": "w"}, "--weights w is not a file"),
        ({"media": "m", "encoder": "patch"}, "no encoder called 'patch'; did you mean patches?"),
        ({"media": "m", "encoder": "vqgan"}, "needs weights; name their file with --weights"),
        ({"media": "m", "encoder": "mulaw", "sets": ["settings.rat=1"]}, "did you mean 'rate'?"),
    ],
)
def test_flags_of_media_that_cannot_be_are_refused(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        inspect_command("nowhere", **flags)


# --- who decodes --------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Any]:
    """Codes of one picture in frames of four, and their documents."""
    table = write_table(tmp_path / "t.jsonl", [{"image": png(0)}])
    encode_here(tmp_path / "codes", table, settings=SMALL)
    return tmp_path / "codes", tokenized(tmp_path / "tokens", tmp_path / "codes", fields="vision")


def test_an_encoder_of_another_kind_is_refused(small: tuple[Path, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"block 0 \(vision\) of doc-0 .*mulaw makes audio codes"):
        document_media(small[1], 0, tmp_path, named_decoder("mulaw", None, {}))


def test_codes_that_were_made_anew_since_are_not_decoded(
    small: tuple[Path, Any], tmp_path: Path
) -> None:
    codes, dataset = small
    assert document_media(dataset, 0, tmp_path).paths
    shutil.rmtree(codes)
    encode_here(codes, tmp_path / "t.jsonl", settings={"size": 16, "cells": 2}, limit=1)
    # The codes of that picture differ, and so does the size it would be decoded to.
    with pytest.raises(ConfigError, match=r"codes was made again since document 0 of .*--encoder"):
        document_media(dataset, 0, tmp_path)
    shutil.rmtree(codes)
    with pytest.raises(
        ConfigError, match=r"are from .*, which is gone; put it back, or name the enc"
    ):
        document_media(dataset, 0, tmp_path)


def test_a_link_to_codes_is_known_by_what_it_links_to(
    small: tuple[Path, Any], tmp_path: Path
) -> None:
    (shard,) = (small[0] / "shards").iterdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.parquet").symlink_to(shard)
    dataset = tokenized(tmp_path / "linked", tmp_path / "links", fields="vision")
    (path,) = document_media(dataset, 0, tmp_path / "seen").paths
    assert (read_png(path) == patches(rows_of(small[0])[0]["vision"], **SMALL)).all()


def test_a_packed_dataset_knows_its_encoder_wherever_it_is_and_without_the_tokenized_one(
    small: tuple[Path, Any], tmp_path: Path, run_cli: RunCli
) -> None:
    codes, dataset = small
    pack_here(run_cli, tmp_path / "packed", dataset.folder, flags="--seq-len 40")
    shutil.move(tmp_path / "packed", tmp_path / "moved")
    shutil.rmtree(tmp_path / "tokens")
    packed: Any = open_dataset(tmp_path / "moved")
    (path,) = row_media(packed, 0, tmp_path / "seen").paths
    assert (read_png(path) == patches(rows_of(codes)[0]["vision"], **SMALL)).all()
    shutil.rmtree(codes)
    with pytest.raises(ConfigError, match=r"parquet.*, which is gone; put .*--encoder NAME"):
        row_media(packed, 0, tmp_path / "seen")
    named = named_decoder("patches", None, SMALL)
    assert row_media(packed, 0, tmp_path / "seen", named).paths == [path]
    assert shapes(packed[0], row_segments(packed, 0)) == ["<vision 1×4>"]


DECODES_NOT = """
import numpy as np
from pydantic import BaseModel
from dataprep.pipeline.encoders import EncoderSpec

class Settings(BaseModel):
    codebook_size: int = 65536

class Wide:
    tokens_per_frame, size, batch_size = 4, 2, 1
    max_processes, can_decode, environment = None, False, {}
    identity = {"encoder": "wide"}
    def __init__(self, settings):
        self.codebook_size = settings.codebook_size
    def encode(self, images):
        return images[..., 0].reshape(len(images), 4).astype(np.int32) * self.codebook_size // 256

SPEC = EncoderSpec(name="wide", kind="vision", about="", settings=Settings, packages=(),
    extra="", takes_weights=False, open=lambda settings, weights: Wide(settings))
"""


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Codes of an encoder with a larger codebook than LWM's, and no decoder."""
    plugin = install_plugin(tmp_path / "plugin", "wide = wide_encoder:SPEC", "wide")
    (plugin / "wide_encoder.py").write_text(DECODES_NOT)
    monkeypatch.syspath_prepend(str(plugin))
    write_table(tmp_path / "wide.jsonl", [{"image": png(1)}])
    encode_here(tmp_path / "wide", tmp_path / "wide.jsonl", encoder="wide")
    return tmp_path / "wide"


def test_an_encoder_that_cannot_decode_is_named(wide: Path, tmp_path: Path) -> None:
    dataset = tokenized(tmp_path / "tokens", wide, fields="vision")
    with pytest.raises(ConfigError, match=r"the encoder of .*wide cannot decode.*--encoder NAME"):
        document_media(dataset, 0, tmp_path)


def test_pictures_and_their_sounds_are_decoded_each_by_its_encoder(tmp_path: Path) -> None:
    table = write_table(
        tmp_path / "t.jsonl", [{"image": png(i), "sound": sound(300 + i)} for i in range(2)]
    )
    encode_here(tmp_path / "seen", table, settings=SMALL)
    with_sound = {"encoder": "mulaw", "column": "sound", "settings": {"rate": 8000}}
    encode_here(tmp_path / "both", tmp_path / "seen" / "shards", **with_sound)
    dataset = tokenized(tmp_path / "tokens", tmp_path / "both", fields="vision,audio")
    modalities = dataset.manifest["config"]["modalities"]
    assert modalities["vision"]["tokens_per_frame"] == 4
    assert modalities["audio"]["codebook_size"] == 256
    media = document_media(dataset, 1, tmp_path / "media")
    assert [Path(path).name for path in media.paths] == [
        "doc-1-block-0-frame-0.png",
        "doc-1-block-1.wav",
    ]
    row = rows_of(tmp_path / "both")[1]
    assert (read_png(media.paths[0]) == patches(row["vision"], **SMALL)).all()
    encoder: Any = open_encoder("mulaw")
    waveform = encoder.decode(np.array([row["audio"]], np.int32))
    rate, samples = read_wav(media.paths[1])
    assert rate == 8000
    assert np.abs(samples / 32767 - waveform).max() <= 0.5 / 32767 + 1e-7
    # One that is named decodes what it makes, and says what it left out.
    media = document_media(dataset, 1, tmp_path / "named", named_decoder("mulaw", None, {}))
    assert [Path(path).name for path in media.paths] == ["doc-1-block-1.wav"]
    (note,) = media.notes
    assert note.startswith("block-0 (vision) is left out: encoder mulaw makes audio codes; name")


# --- videos and blocks that packing cuts --------------------------------------------------------


def test_a_video_is_a_picture_for_each_frame_and_names_sort(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.jsonl", [{"image": [png(i) for i in range(12)]}])
    encode_here(tmp_path / "codes", table, settings=SMALL)
    dataset = tokenized(tmp_path / "tokens", tmp_path / "codes", fields="vision")
    assert shapes(dataset[0], [whole_document(dataset.folder, dataset.about, 0)]) == [
        "<vision 12×4>"
    ]
    media = document_media(dataset, 0, tmp_path / "seen")
    assert [Path(path).name for path in media.paths] == [
        f"doc-0-block-0-frame-{i:02d}.png" for i in range(12)
    ]
    assert sorted(media.paths) == media.paths
    frames = patches(rows_of(tmp_path / "codes")[0]["vision"], **SMALL)
    assert (np.stack([read_png(path) for path in media.paths]) == frames).all()


def test_of_a_video_that_packing_cut_whole_frames_are_written(
    tmp_path: Path, run_cli: RunCli
) -> None:
    table = write_table(tmp_path / "t.jsonl", [{"image": [png(i) for i in range(7)]}])
    encode_here(tmp_path / "codes", table, settings=SMALL)
    tokenized(tmp_path / "tokens", tmp_path / "codes", fields="vision")
    packed = pack_here(run_cli, tmp_path / "packed", tmp_path / "tokens", flags="--seq-len 20")
    frames = patches(rows_of(tmp_path / "codes")[0]["vision"], **SMALL)
    written, left_out = [], 0
    for row in range(len(packed)):
        media = row_media(packed, row, tmp_path / "seen")
        written += [read_png(path) for path in media.paths]
        runs = runs_of(packed[row])
        left_out += sum(run.stop - run.start for run in runs) - 5 * len(media.paths)
        for note in media.notes:
            assert "tokens do not fill a frame and are left out" in note
    assert left_out > 0
    # Each is one of the video's, whole; which of them are whole depends on where it was cut.
    places = [int(np.flatnonzero((frames == frame).all(axis=(1, 2, 3)))[0]) for frame in written]
    assert len(set(places)) == len(places)
    assert len(places) >= 3


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_of_a_cut_sound_what_is_written_is_a_part_of_it(data: st.DataObject) -> None:
    books, frames = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    section = AudioConfig(
        codebooks=books,
        codebook_size=10,
        layout=data.draw(st.sampled_from(["flatten", "delay"])),
        separate_codebooks=data.draw(st.booleans()),
    )
    block = BLOCKS["audio"](section, NO_TAG, NO_TAG)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = rng.integers(0, 10, (books, frames)).astype(np.int32)
    ids = block.wrap(block.flatten(codes), np.array([codes.size])).ids
    start = data.draw(st.integers(0, len(ids) - 1))
    stop = data.draw(st.integers(start + 1, len(ids)))
    found = whole_codes(ids[start:stop], block, is_cut=start > 0)
    if (start, stop) == (0, len(ids)):
        assert len(found) == 1
        assert (found[0] == codes).all()
    for part in found:
        width = part.shape[1]
        shifted = (codes[:, i : i + width] for i in range(frames - width + 1))
        assert any((part == whole).all() for whole in shifted)


# --- sounds -------------------------------------------------------------------------------------


def test_a_sound_comes_back_as_wav_by_the_command(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").write_bytes(sound(1000))
    encode_here(tmp_path / "codes", tmp_path / "in", encoder="mulaw")
    tokenized(tmp_path / "t", tmp_path / "codes", fields="audio")
    said = run_cli("inspect", "t", "--media", "seen").stdout.splitlines()
    assert said[-1] == "seen/doc-0-block-0.wav"
    assert "<audio 1×1000>" in said[-2]
    encoder: Any = open_encoder("mulaw")
    waveform = encoder.decode(np.array([rows_of(tmp_path / "codes")[0]["audio"]], np.int32))
    rate, samples = read_wav(tmp_path / said[-1])
    assert (rate, len(samples)) == (16000, 1000)
    assert np.abs(samples / 32767 - waveform).max() <= 0.5 / 32767 + 1e-7


def test_the_first_of_several_codebooks_cannot_be_decoded_and_says_so(tmp_path: Path) -> None:
    write_lines(tmp_path / "t.jsonl", [{"audio": [[1, 2], [3, 4]]}])
    audio = {"codebooks": 2, "codebook_size": 8, "layout": "first"}
    dataset = tokenized(
        tmp_path / "tokens", tmp_path / "t.jsonl", fields="audio", modalities={"audio": audio}
    )
    media = document_media(dataset, 0, tmp_path)
    assert media.paths == []
    (note,) = media.notes
    assert "(audio) holds only the first of 2 codebooks (modalities.audio.layout)" in note
    assert note.endswith("which cannot be decoded")


# --- what an encoder tells tokenize -------------------------------------------------------------


def adopted(
    tmp_path: Path, *inputs: Any, sets: tuple[str, ...] = (), **flags: Any
) -> dict[str, Any]:
    """The sections of the config as tokenize would use them."""
    named = [item if isinstance(item, dict) else str(item) for item in inputs]
    given = {"inputs": named, "tokenizer": "bytes", "fields": "vision", **flags}
    config = load_config(TokenizeConfig, sets=sets, flags=given)
    return plan_of(config, tmp_path / "cache").config.modalities.model_dump(mode="json")


def test_the_encoders_facts_are_taken_wherever_its_files_lie(codes: Path, tmp_path: Path) -> None:
    (shard,) = (codes / "shards").iterdir()
    (tmp_path / "link.parquet").symlink_to(shard)
    (tmp_path / "folder").symlink_to(codes)
    shutil.copy(shard, tmp_path / "copy.parquet")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.write(shard, "deep/renamed.parquet")
    fsspec.filesystem("memory").pipe("/bucket/shards/a.parquet", shard.read_bytes())
    spellings = (
        *(codes, codes / "shards", shard, codes.parent, f"{codes}/shards/*.parquet"),
        *(os.path.relpath(codes), tmp_path / "link.parquet", tmp_path / "folder"),
        *(tmp_path / "copy.parquet", f"file://{shard}", "memory://bucket"),
        *(f"zip://*/*.parquet::{tmp_path}/z.zip",),
    )
    for spelling in spellings:
        assert adopted(tmp_path, spelling)["vision"]["tokens_per_frame"] == 64, spelling
    together = adopted(tmp_path, *spellings, allow_duplicates=True)
    assert together["vision"]["tokens_per_frame"] == 64


class CountingFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """One file that counts what is read of it."""

    protocol = "counting"
    data = b""
    num_read = 0

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self.data), "type": "file"}

    def _open(self, path: str, *_: Any, **options: Any) -> Any:
        class Counting(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                data = super().read(size)
                CountingFiles.num_read += len(data)
                return data

        return Counting(self.data)


def test_of_a_file_behind_a_url_the_plan_reads_the_ends_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vision = [np.random.default_rng(0).integers(0, 8192, 1 << 20).astype(np.uint16)]
    maker = Maker(column="vision", kind="vision", encoder="e", tokens_per_frame=1024)
    table = pa.table({"vision": vision}).replace_schema_metadata(metadata_of([maker]))
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setattr(CountingFiles, "data", (tmp_path / "a.parquet").read_bytes())
    monkeypatch.setattr(CountingFiles, "num_read", 0)
    fsspec.register_implementation("counting", CountingFiles, clobber=True)
    assert adopted(tmp_path, "counting://a.parquet")["vision"]["tokens_per_frame"] == 1024
    assert 0 < CountingFiles.num_read < len(CountingFiles.data) / 2


def test_own_codes_keep_their_frames_beside_an_encoder(codes: Path, tmp_path: Path) -> None:
    own = write_lines(tmp_path / "own.jsonl", [{"vision": [1] * 256}])
    assert adopted(tmp_path, own)["vision"]["tokens_per_frame"] == 256
    with pytest.raises(ConfigError) as error:
        adopted(tmp_path, own, codes)
    assert str(error.value) == (
        f"column 'vision' of {codes} has tokens_per_frame 64 and codebook_size 8192 (encoder "
        f"patches), but nothing tells what made the vision codes of {own}; if they are framed so "
        "too, say it: --set modalities.vision.tokens_per_frame=64; else tokenize them apart"
    )
    said = ("modalities.vision.tokens_per_frame=64",)
    assert adopted(tmp_path, own, codes, sets=said)["vision"]["tokens_per_frame"] == 64
    with pytest.raises(
        ConfigError, match=r"set to 256, .* has 64 .*; tokenize it apart from .*own"
    ):
        adopted(tmp_path, own, codes, sets=("modalities.vision.tokens_per_frame=256",))


def test_an_encoder_that_agrees_with_the_config_needs_no_word(
    pictures: Path, tmp_path: Path
) -> None:
    encode_here(tmp_path / "codes", pictures)  # 256 of 8192, as the config has it
    own = write_lines(tmp_path / "own.jsonl", [{"vision": [1] * 256}])
    assert adopted(tmp_path, own, tmp_path / "codes") == adopted(tmp_path, own)


def test_what_to_say_of_own_codes_is_complete(wide: Path, tmp_path: Path) -> None:
    own = write_lines(tmp_path / "own.jsonl", [{"vision": [1] * 4}])
    with pytest.raises(ConfigError, match=r"nothing tells") as error:
        adopted(tmp_path, wide, own)
    sets = tuple(re.findall(r"--set ([^ ;]+)", str(error.value)))
    assert len(sets) == 4  # frames, codebook and both ends
    found = adopted(tmp_path, wide, own, sets=sets)
    assert found == adopted(tmp_path, wide)


def test_an_encoder_has_no_say_where_its_codes_are_not_used(codes: Path, tmp_path: Path) -> None:
    own = write_lines(tmp_path / "own.jsonl", [{"vision": [1] * 256, "fields": "vision"}])
    captions = {"path": str(codes), "fields": "text"}
    assert adopted(tmp_path, own, captions)["vision"]["tokens_per_frame"] == 256
    text = {"path": str(own), "fields": "text"}
    assert adopted(tmp_path, text, codes)["vision"]["tokens_per_frame"] == 64
    # Where only the records tell, they may hold any codes.
    from_record = {"path": str(own), "fields_from": "fields"}
    for unsure in (from_record, {"path": str(own), "fields": "segments"}):
        with pytest.raises(ConfigError, match=r"what made the vision codes of .*own\.jsonl"):
            adopted(tmp_path, unsure, codes)
    found = adopted(tmp_path, {"path": str(codes), "fields_from": "text"})
    assert found["vision"]["tokens_per_frame"] == 64
    # LWM's records hold no sound.
    sounds = Maker(column="audio", kind="audio", encoder="e", num_codebooks=3, codebook_size=9)
    table = pa.table({"audio": [[1, 2, 3]]}).replace_schema_metadata(metadata_of([sounds]))
    pq.write_table(table, tmp_path / "audio.parquet")
    audio = {"path": str(tmp_path / "audio.parquet"), "fields": "audio"}
    assert adopted(tmp_path, from_record, audio, compat="lwm")["audio"]["codebooks"] == 3
    with pytest.raises(ConfigError, match=r"what made the audio codes of .*own\.jsonl"):
        adopted(tmp_path, from_record, audio)


def test_of_several_columns_each_has_its_own_encoder(codes: Path, tmp_path: Path) -> None:
    (shard,) = (codes / "shards").iterdir()
    table = pq.read_table(shard)
    more = table.append_column("vision_own", table.column("vision"))
    pq.write_table(more, tmp_path / "two.parquet")
    path = tmp_path / "two.parquet"
    assert adopted(tmp_path, path)["vision"]["tokens_per_frame"] == 64
    assert adopted(tmp_path, path, fields="vision_own")["vision"]["tokens_per_frame"] == 256
    with pytest.raises(ConfigError, match=r"nothing tells what made the vision codes of .*two"):
        adopted(tmp_path, path, fields="vision,vision_own")
    # Of several origins in one column (encode wrote a shard of several inputs) all must agree.
    (maker,) = read_made(find_sources(str(shard))[0]).makers
    for other in (Maker(column="vision", kind="vision"), replace(maker, tokens_per_frame=16)):
        pq.write_table(table.replace_schema_metadata(metadata_of([maker, other])), path)
        with pytest.raises(ConfigError, match=r"tokenize them apart"):
            adopted(tmp_path, path)
    # A column that is gone was renamed, most likely.
    pq.write_table(more.drop_columns("vision"), path)
    assert adopted(tmp_path, path, fields="vision_own")["vision"]["tokens_per_frame"] == 64
    sets = ("modalities.vision.fields=[x]", "modalities.audio.fields=[vision]")
    with pytest.raises(ConfigError, match=r"'vision' of .* holds vision codes .* taken for audio"):
        adopted(tmp_path, codes, sets=sets)


def test_facts_that_cannot_be_read_are_an_input_error(tmp_path: Path) -> None:
    for value in (b"?", b'{"column": "vision"}', b'[{"column": "vision", "kind": 3}]'):
        table = pa.table({"vision": [[1] * 256]}).replace_schema_metadata({b"dataprep": value})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(InputError, match=r"cannot read what .*a\.parquet says about its codes"):
            adopted(tmp_path, tmp_path / "a.parquet")


def test_what_was_adopted_is_as_if_it_had_been_set(codes: Path, tmp_path: Path) -> None:
    sets = ("modalities.vision.tokens_per_frame=64", "modalities.vision.codebook_size=8192")
    flags = {"inputs": [str(codes)], "tokenizer": "bytes", "fields": "vision"}
    plans = [
        plan_of(load_config(TokenizeConfig, sets=given, flags=flags), tmp_path / "cache")
        for given in ((), sets[:1], sets)
    ]
    assert len({plan.fingerprint for plan in plans}) == 1


def test_a_config_against_the_encoder_is_refused(
    codes: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("modalities: {vision: {tokens_per_frame: 256}}\n")
    command = ("tokenize", codes, "--fields", "vision", "--tokenizer", "bytes", "--out", "t")
    done = run_cli(*command, "--config", config, check=False)
    assert done.code == 2
    assert "modalities.vision.tokens_per_frame is set to 256, but column 'vision'" in done.stderr
    assert f"{codes} has 64 (encoder patches); leave it unset" in done.stderr
    assert not (tmp_path / "t").exists()
    with pytest.raises(ConfigError, match=r"codebook_size is set to 9, .* has 8192"):
        adopted(tmp_path, codes, sets=("modalities.vision.codebook_size=9",))


def test_inputs_of_encoders_that_disagree_are_refused(codes: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.jsonl", [{"image": png(0)}])
    encode_here(tmp_path / "other", table, settings={"cells": 4})
    with pytest.raises(ConfigError) as error:
        adopted(tmp_path, codes, tmp_path / "other")
    assert str(error.value) == (
        f"column 'vision' of {codes} has tokens_per_frame 64 and codebook_size 8192, column "
        f"'vision' of {tmp_path / 'other'} has tokens_per_frame 16 and codebook_size 8192; "
        "tokenize them apart"
    )


@pytest.mark.parametrize(
    ("sets", "ends"),
    [
        ((), (65536, 65537)),
        (("codebook_size=65536", "end_of_frame=70001", "end_of_media=70000"), (70001, 70000)),
        (("end_of_frame=70000",), (70000, 65536)),
        (("end_of_media=65536",), (65537, 65536)),
    ],
)
def test_ends_of_frames_are_no_codes_of_a_larger_codebook(
    wide: Path, tmp_path: Path, sets: tuple[str, ...], ends: tuple[int, int]
) -> None:
    found = adopted(tmp_path, wide, sets=tuple(f"modalities.vision.{item}" for item in sets))
    vision = found["vision"]
    assert (vision["tokens_per_frame"], vision["codebook_size"]) == (4, 65536)
    assert (vision["end_of_frame"], vision["end_of_media"]) == ends


def test_a_codebook_smaller_than_lwms_leaves_the_ends_alone(wide: Path, tmp_path: Path) -> None:
    config = {"encoder": "wide", "settings": {"codebook_size": 100}}
    encode_here(tmp_path / "codes", tmp_path / "wide.jsonl", **config)
    vision = adopted(tmp_path, tmp_path / "codes")["vision"]
    assert vision["codebook_size"] == 100
    assert (vision["end_of_frame"], vision["end_of_media"]) == (8192, 8193)


def test_the_next_command_names_a_column_that_no_glob_does(pictures: Path, tmp_path: Path) -> None:
    encode_here(tmp_path / "out", pictures, into="tiles")
    manifest = read_manifest(tmp_path / "out")
    assert isinstance(manifest, EncodedManifest)
    assert shlex.join(next_command(Path("my codes"), manifest)) == (
        "dataprep tokenize 'my codes' --fields '[tiles],text' "
        "--set 'modalities.vision.fields=[tiles]' --tokenizer T --out DIR"
    )


# --- tags ---------------------------------------------------------------------------------------


def spelling(path: Path, letters: str) -> Path:
    """A tokenizer that knows these letters and makes nothing of others."""
    model = {"type": "BPE", "vocab": {c: i for i, c in enumerate(letters)}, "merges": []}
    path.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))
    return path


def tags_of(tmp_path: Path, tokenizer: Any, *sets: str) -> dict[str, tuple[Any, Any]]:
    own = write_lines(tmp_path / "own.jsonl", [{"vision": [1] * 256, "audio": [1]}])
    flags = {"inputs": [str(own)], "tokenizer": str(tokenizer), "fields": "vision,audio"}
    config = load_config(TokenizeConfig, sets=[f"modalities.{item}" for item in sets], flags=flags)
    tags = plan_of(config, tmp_path / "cache").vocabulary.tags
    return {modality: (tag.start, tag.end) for modality, tag in tags.items()}


def test_tags_are_text_ids_or_nothing(tmp_path: Path) -> None:
    letters = spelling(tmp_path / "t.json", "abc")
    sets = ("vision.start=ab", "vision.end=[7, 8]", "audio.start=", "audio.end=cab")
    assert tags_of(tmp_path, letters, *sets) == {
        "vision": ((0, 1), (7, 8)),
        "audio": ((), (2, 0, 1)),
    }
    nothing = [f"{key}=[]" for key in ("vision.start", "vision.end", "audio.start", "audio.end")]
    assert tags_of(tmp_path, letters, *nothing) == {"vision": ((), ()), "audio": ((), ())}


@pytest.mark.parametrize("key", ["vision.end", "audio.start"])
def test_a_tag_that_the_tokenizer_cannot_spell_is_refused(tmp_path: Path, key: str) -> None:
    letters = spelling(tmp_path / "t.json", "abc")
    tags = {"vision.start": "a", "vision.end": "b", "audio.start": "c", "audio.end": "a"}
    sets = [f"{name}={'<x>' if name == key else tag}" for name, tag in tags.items()]
    with pytest.raises(ConfigError) as error:
        tags_of(tmp_path, letters, *sets)
    assert str(error.value) == (
        f"modalities.{key}: the tokenizer gives no id for '<x>'; set another text, a list of ids, "
        "or [] for no tag"
    )


# --- spans --------------------------------------------------------------------------------------


def test_spans_and_runs_know_every_modality() -> None:
    blocks = {
        "vision": BLOCKS["vision"](VisionConfig(tokens_per_frame=2), NO_TAG, NO_TAG),
        "audio": BLOCKS["audio"](AudioConfig(), NO_TAG, NO_TAG),
    }
    tokens = np.array([1, 90, 10, 11, 8192, 30, 31, 8193, 91, 5, 6, 7, 2])
    vision, audio, loss = (np.zeros(len(tokens), bool) for _ in range(3))
    vision[2:8], audio[9:12], loss[9:] = True, True, True
    item = {"tokens": tokens, "loss_mask": loss, "vision_mask": vision, "audio_mask": audio}
    origin = Origin(path="a", unit="line", line=1, byte_offset=0, media="", fingerprint="")
    segment = Segment(folder=Path("d"), origin=origin, document=0, start=0, blocks=blocks)
    spans = spans_of(item, lambda ids: " ".join(map(str, ids)), [segment])
    assert [(span.text, span.modality, span.loss, span.start) for span in spans] == [
        ("1 90", "text", False, 0),
        ("<vision 2×2>", "vision", False, 2),
        ("91", "text", False, 8),
        ("<audio 1×3>", "audio", True, 9),
        ("2", "text", True, 12),
    ]
    assert [(run.modality, run.start, run.stop) for run in runs_of(item)] == [
        ("vision", 2, 8),
        ("audio", 9, 12),
    ]
