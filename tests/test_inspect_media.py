"""Codes back to pictures and sounds by `inspect --media`, and what encoders tell `tokenize`."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Finished, RunCli
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import tokenize_here, write_lines
from numpy.typing import NDArray
from test_encode import encode_here, png, rows_of
from test_encoders import install_plugin

from dataprep.cli.encode import next_command
from dataprep.cli.look import inspect_command
from dataprep.configs import TokenizeConfig, load_config
from dataprep.loaders import open_dataset
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.blocks import make_block
from dataprep.pipeline.decoders import named_decoder, recorded_decoder
from dataprep.pipeline.encoders import open_encoder
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.inspect import (
    Segment,
    layout_of,
    runs_of,
    segments_of_row,
    spans_of,
    whole_document,
)
from dataprep.pipeline.provenance import pieces_of_row
from dataprep.pipeline.render import FindDecoder, Media, whole_codes, write_media
from dataprep.pipeline.run import Outcome, plan_of

Image = pytest.importorskip("PIL.Image")
COLOURS = {"a": (200, 30, 30), "b": (20, 160, 60), "c": (40, 40, 220), "d": (250, 250, 0)}
SMALL = {"size": 8, "cells": 2}  # frames of four codes


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
    segment = whole_document(dataset.folder, dataset.manifest, number)
    found = find or recorded_decoder()
    return write_media(dataset[number], [segment], found, to, f"doc-{number}")


def row_segments(packed: PackedDataset, row: int) -> list[Segment]:
    pieces = pieces_of_row(packed.folder, packed.manifest, *packed.locate(row))
    return segments_of_row(packed.folder, packed.manifest, pieces)


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
        ({"encoder": "patches"}, "--encoder says nothing without --media DIR"),
        ({"media": "m", "weights": "w"}, "--weights says nothing without --encoder"),
        ({"media": "m", "sets": ["settings.cells=8"]}, "--set says nothing without --encoder"),
        ({"media": "m", "encoder": "patches", "sets": ["fps=3"]}, "--set fps=3: only settings"),
        ({"media": "m", "encoder": "patches", "weights": "w"}, "--weights w is no file"),
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
    with pytest.raises(ConfigError, match=r"codes was made anew since document 0 of .*--encoder"):
        document_media(dataset, 0, tmp_path)
    shutil.rmtree(codes)
    with pytest.raises(ConfigError, match=r"not from dataprep encode; name the encoder"):
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


def test_a_packed_dataset_finds_its_documents_where_both_were_moved(
    small: tuple[Path, Any], tmp_path: Path, run_cli: RunCli
) -> None:
    codes, dataset = small
    pack_here(run_cli, tmp_path / "packed", dataset.folder, flags="--seq-len 40")
    (tmp_path / "moved").mkdir()
    for name in ("tokens", "packed"):
        shutil.move(tmp_path / name, tmp_path / "moved" / name)
    packed: Any = open_dataset(tmp_path / "moved" / "packed")
    (path,) = row_media(packed, 0, tmp_path / "seen").paths
    assert (read_png(path) == patches(rows_of(codes)[0]["vision"], **SMALL)).all()
    shutil.rmtree(tmp_path / "moved" / "tokens")
    with pytest.raises(ConfigError, match=r"tokens is gone or was made anew.*--encoder NAME"):
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
    assert shapes(dataset[0], [whole_document(dataset.folder, dataset.manifest, 0)]) == [
        "<vision 12×4>"
    ]
    media = document_media(dataset, 0, tmp_path / "seen")
    assert [Path(path).name for path in media.paths] == [
        f"doc-0-block-0-frame-{i:02d}.png" for i in range(12)
    ]
    assert sorted(media.paths) == media.paths
    frames = patches(rows_of(tmp_path / "codes")[0]["vision"], **SMALL)
    assert (np.stack([read_png(path) for path in media.paths]) == frames).all()


@pytest.mark.parametrize("end", [8192, 5])  # 5 may also be a code
def test_of_a_video_that_packing_cut_whole_frames_are_written(
    tmp_path: Path, run_cli: RunCli, end: int
) -> None:
    table = write_table(tmp_path / "t.jsonl", [{"image": [png(i) for i in range(7)]}])
    encode_here(tmp_path / "codes", table, settings=SMALL)
    tokenized(
        *(tmp_path / "tokens", tmp_path / "codes"),
        fields="vision",
        modalities={"vision": {"end_of_frame": end}},
    )
    packed = pack_here(run_cli, tmp_path / "packed", tmp_path / "tokens", flags="--seq-len 20")
    frames = patches(rows_of(tmp_path / "codes")[0]["vision"], **SMALL)
    written, left_out = [], 0
    for row in range(len(packed)):
        media = row_media(packed, row, tmp_path / "seen")
        written += [read_png(path) for path in media.paths]
        runs = runs_of(packed[row])
        left_out += sum(run.stop - run.start for run in runs) - 5 * len(media.paths)
        for note in media.notes:
            assert "tokens fill no whole frame and are left out" in note
    assert left_out > 0
    # Each is one of the video's, whole; which of them are whole depends on where it was cut.
    places = [int(np.flatnonzero((frames == frame).all(axis=(1, 2, 3)))[0]) for frame in written]
    assert len(set(places)) == len(places)
    assert len(places) >= (3 if end == 8192 else 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_of_a_cut_sound_what_is_written_is_a_part_of_it(data: st.DataObject) -> None:
    books, frames = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    section = {
        **TokenizeConfig().modalities.audio.model_dump(mode="json"),
        "codebooks": books,
        "codebook_size": 10,
        "layout": data.draw(st.sampled_from(["flatten", "delay"])),
        "separate_codebooks": data.draw(st.booleans()),
    }
    nothing = np.zeros(0, np.uint32)
    block = make_block("audio", section, nothing, nothing)
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


def test_a_row_shows_each_segment_by_the_layout_of_its_own_dataset(
    tmp_path: Path, run_cli: RunCli
) -> None:
    table = write_table(tmp_path / "t.jsonl", [{"image": [png(i) for i in range(2)]}])
    for cells in (2, 4):
        encode_here(tmp_path / f"codes{cells}", table, settings={"size": 8, "cells": cells})
        tokenized(tmp_path / f"tokens{cells}", tmp_path / f"codes{cells}", fields="vision")
    tokens = [tmp_path / "tokens2", tmp_path / "tokens4"]
    packed = pack_here(run_cli, tmp_path / "packed", *tokens, flags="--seq-len 120")
    (row,) = range(len(packed))
    assert sorted(shapes(packed[row], row_segments(packed, row))) == [
        "<vision 2×16>",
        "<vision 2×4>",
    ]
    assert len(row_media(packed, row, tmp_path / "seen").paths) == 4


# --- sounds -------------------------------------------------------------------------------------


def test_a_sound_comes_back_as_wav_by_the_command(tmp_path: Path, run_cli: RunCli) -> None:
    pytest.importorskip("soundfile")
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
    assert "(audio) holds the first of 2 codebooks alone (modalities.audio.layout)" in note
    assert note.endswith("which cannot be decoded")


# --- what an encoder tells tokenize -------------------------------------------------------------


def adopted(tmp_path: Path, *inputs: Path | str, sets: tuple[str, ...] = ()) -> dict[str, Any]:
    """The sections of the config as tokenize would use them."""
    flags = {"inputs": [str(path) for path in inputs], "tokenizer": "bytes", "fields": "vision"}
    config = load_config(TokenizeConfig, sets=sets, flags=flags)
    found: dict[str, Any] = plan_of(config, tmp_path / "cache").config["modalities"]
    return found


def test_the_encoders_facts_are_taken_however_its_dataset_is_named(
    codes: Path, tmp_path: Path
) -> None:
    (shard,) = (codes / "shards").iterdir()
    (tmp_path / "link.parquet").symlink_to(shard)
    (tmp_path / "folder").symlink_to(codes)
    spellings = (
        *(codes, codes / "shards", shard, codes.parent, f"{codes}/shards/*.parquet"),
        *(os.path.relpath(codes), tmp_path / "link.parquet", tmp_path / "folder"),
        *(f"file://{shard}",),
    )
    for spelling in spellings:
        assert adopted(tmp_path, spelling)["vision"]["tokens_per_frame"] == 64, spelling
    # Beside it others change nothing, and without its manifest nobody knows.
    write_lines(tmp_path / "t.jsonl", [{"vision": [1]}])
    found = adopted(tmp_path, tmp_path / "t.jsonl", codes)
    assert found["vision"]["tokens_per_frame"] == 64
    shutil.copy(shard, tmp_path / "copy.parquet")
    assert adopted(tmp_path, tmp_path / "copy.parquet")["vision"]["tokens_per_frame"] == 256


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
    assert "modalities.vision.tokens_per_frame is set to 256, but the codes of" in done.stderr
    assert f"{codes} have 64 (encoder patches); leave it unset" in done.stderr
    assert not (tmp_path / "t").exists()
    with pytest.raises(ConfigError, match=r"codebook_size is set to 9, .* have 8192"):
        adopted(tmp_path, codes, sets=("modalities.vision.codebook_size=9",))


def test_inputs_of_encoders_that_disagree_are_refused(codes: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.jsonl", [{"image": png(0)}])
    encode_here(tmp_path / "other", table, settings={"cells": 4})
    with pytest.raises(ConfigError) as error:
        adopted(tmp_path, codes, tmp_path / "other")
    assert str(error.value) == (
        f"{codes} has tokens_per_frame 64 and codebook_size 8192, {tmp_path / 'other'} has "
        "tokens_per_frame 16 and codebook_size 8192; tokenize them apart, pack can put them "
        "together"
    )


@pytest.mark.parametrize(
    ("sets", "ends"),
    [
        ((), (65536, 65537)),
        (("codebook_size=65536",), (65536, 65537)),
        (("end_of_frame=70000",), (70000, 65536)),
        (("end_of_media=65536",), (65537, 65536)),
        (("end_of_frame=7", "end_of_media=8"), (7, 8)),
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
    manifest = encode_here(tmp_path / "out", pictures, into="tiles")
    outcome = Outcome(out=Path("my codes"), manifest=manifest, was_complete=False)
    assert next_command(outcome) == (
        "dataprep tokenize 'my codes' --fields '[tiles],text' "
        "--set 'modalities.vision.fields=[tiles]' --tokenizer T --out DIR"
    )


# --- spans --------------------------------------------------------------------------------------


def test_spans_and_runs_know_every_modality() -> None:
    manifest = {
        "config": {"modalities": {"vision": {"tokens_per_frame": 2}}},  # of an earlier version
        "masks": ["loss", "vision", "audio"],
        "vision": {"start": [90], "end": [91]},
    }
    tokens = np.array([1, 90, 10, 11, 8192, 30, 31, 8193, 91, 5, 6, 7, 2])
    vision, audio, loss = (np.zeros(len(tokens), bool) for _ in range(3))
    vision[2:8], audio[9:12], loss[9:] = True, True, True
    item = {"tokens": tokens, "loss_mask": loss, "vision_mask": vision, "audio_mask": audio}
    segment = whole_document(Path("d"), manifest, 0)
    assert list(layout_of(manifest)) == ["vision", "audio"]
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
