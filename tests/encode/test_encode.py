"""`dataprep encode` from outside: what it writes, says, refuses and survives."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import RunCli, Sample
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config
from dataprep.loaders import open_dataset
from dataprep.pipeline.encode import encode
from dataprep.pipeline.encode.plan import make_plan
from dataprep.pipeline.encode.recipe import begin_work
from dataprep.pipeline.encode.worker import EncodeTasks
from dataprep.pipeline.encoders import open_encoder
from dataprep.pipeline.errors import ConfigError, CorruptError, InputError
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.look.decoders import encoder_of
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.media.pictures import open_picture, png_of
from support.encoding import encode_here, png, rows_of
from support.media import to_square
from support.plugins import install_plugin
from support.trees import tree


def codes_of(*pictures: bytes) -> list[int]:
    """By the encoder itself, one picture at a time."""
    encoder: Any = open_encoder("patches")
    squares = [to_square(open_picture(data), 256) for data in pictures]
    return [code for square in squares for code in encoder.encode(square[None])[0].tolist()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pictures, most with a caption."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "sub").mkdir()
    for i in range(60):
        stem = folder / ("sub" if i % 3 else ".") / f"{i:03d}"
        stem.with_suffix(".png").write_bytes(png(i, (30 + i, 50)))
        if i % 4:
            stem.with_suffix(".txt").write_text(f"number {i}\n")
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    command = [sys.executable, "-m", "dataprep.cli.main"]
    subprocess.run([*command, *arguments(folder, out, "-q")], check=True, timeout=120)
    return out


def arguments(folder: Path, out: Path, *more: str) -> list[str]:
    shards = ["--shard-records", "8"]
    return ["encode", str(folder), "--encoder", "patches", "--out", str(out), *shards, *more]


# --- what is written ----------------------------------------------------------------------------


def test_a_folder_becomes_codes_in_the_order_of_names(folder: Path, finished: Path) -> None:
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    rows = rows_of(finished)
    assert [row["source"] for row in rows] == names
    for row in rows:
        number = int(Path(row["source"]).stem)
        assert row["text"] == (f"number {number}" if number % 4 else None)
        assert row["vision"] == codes_of((folder / row["source"]).read_bytes())


def test_the_manifest_tells_encoder_counts_and_shards(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_bytes())
    assert manifest["kind"] == "encoded"
    assert manifest["encoder"]["identity"]["encoder"] == "patches"
    assert manifest["encoder"]["tokens_per_frame"] == 256
    assert manifest["counts"] == {
        "documents_read": 60,
        "documents_written": 60,
        "documents_quarantined": 0,
        "documents_dropped": 0,
        "frames": 60,
        "codes": 60 * 256,
    }
    assert [shard["num_records"] for shard in manifest["shards"]] == [8] * 7 + [4]
    assert sorted(tree(finished)) == sorted(
        ["manifest.json", *(shard["path"] for shard in manifest["shards"])]
    )
    assert manifest["columns"] == {
        "vision": "list<element: uint16>",
        "text": "string",
        "source": "string",
    }


def test_the_same_bytes_for_any_number_of_workers(
    folder: Path, finished: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    run_cli(*arguments(folder, tmp_path / "out", "--workers", "3", "-q"))
    assert tree(tmp_path / "out") == tree(finished)


def test_encode_tokenize_and_read_back_in_three_steps(
    finished: Path, sample: Sample, tmp_path: Path, run_cli: RunCli
) -> None:
    run_cli(
        *("tokenize", finished / "shards", "--tokenizer", sample.tokenizer, "-q"),
        *("--fields", "[vision]", "--engine", "tokenizers", "--out", tmp_path / "tokens"),
    )
    dataset = open_dataset(tmp_path / "tokens")
    assert len(dataset) == 60
    document = dataset[3]
    codes = document["tokens"][document["vision_mask"]]
    assert codes.tolist() == [*rows_of(finished)[3]["vision"], 8193]


def test_videos_lists_and_single_pictures_become_frames_of_one_record(tmp_path: Path) -> None:
    a, b = png(1), png(2)
    rows = [{"image": [a, b], "n": 1}, {"image": [{"bytes": b, "path": None}], "n": 2}]
    pq.write_table(pa.Table.from_pylist(rows[:1]), tmp_path / "lists.parquet")
    pq.write_table(pa.Table.from_pylist(rows[1:]), tmp_path / "structs.parquet")
    inputs = [tmp_path / "lists.parquet", tmp_path / "structs.parquet"]
    manifest = encode_here(tmp_path / "out", *inputs)
    assert [(row["vision"], row["n"]) for row in rows_of(tmp_path / "out")] == [
        (codes_of(a, b), 1),
        (codes_of(b), 2),
    ]
    assert manifest["counts"]["frames"] == 3


def test_every_kind_of_input_gives_the_same_codes(tmp_path: Path) -> None:
    pictures = {f"{i}.png": png(i) for i in range(5)}
    (tmp_path / "folder").mkdir()
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        for name, data in pictures.items():
            (tmp_path / "folder" / name).write_bytes(data)
            tar.add(tmp_path / "folder" / name, name)
    hf = [{"image": {"bytes": data, "path": name}} for name, data in pictures.items()]
    pq.write_table(pa.Table.from_pylist(hf), tmp_path / "hf.parquet")
    lines = {
        "paths.jsonl": [f"folder/{name}" for name in pictures],
        "base64.jsonl": [base64.b64encode(data).decode() for data in pictures.values()],
    }
    for name, values in lines.items():
        text = "\n\n".join(json.dumps({"image": value, "k": 1}) for value in values)
        (tmp_path / name).write_text(text)
    expected = [codes_of(data) for data in pictures.values()]
    for i, name in enumerate(["folder", "folder/*.png", "t.tar", "hf.parquet", *lines]):
        encode_here(tmp_path / str(i), tmp_path / name, shard_records=2)
        rows = rows_of(tmp_path / str(i))
        assert [row["vision"] for row in rows] == expected, name
        assert [row["source"] for row in rows][-1] in (
            *("4.png", "t.tar/4.png", "hf.parquet:5", "paths.jsonl:9", "base64.jsonl:9"),
        )


def test_a_dataset_saved_by_datasets_is_read(tmp_path: Path) -> None:
    import datasets

    features = datasets.Features(
        {"image": datasets.Image(decode=False), "caption": datasets.Value("string")}
    )
    rows = [{"image": {"bytes": png(i), "path": None}, "caption": f"c{i}"} for i in range(3)]
    saved = tmp_path / "saved"
    datasets.Dataset.from_list(rows, features=features).save_to_disk(str(saved))
    encode_here(tmp_path / "out", saved)
    found = [(row["vision"], row["caption"]) for row in rows_of(tmp_path / "out")]
    assert found == [(codes_of(png(i)), f"c{i}") for i in range(3)]


def test_sound_becomes_one_code_a_sample(tmp_path: Path) -> None:
    import soundfile

    wave = np.sin(np.arange(800) / 9).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", wave, 16000, subtype="FLOAT")
    manifest = encode_here(tmp_path / "out", tmp_path / "a.wav", encoder="mulaw", loudness="none")
    (row,) = rows_of(tmp_path / "out")
    encoder: Any = open_encoder("mulaw")
    assert row == {"audio": encoder.encode(wave)[0].tolist(), "source": "a.wav"}
    assert manifest["encoder"]["num_codebooks"] == 1
    assert manifest["encoder"]["rate"] == 16000


TWO_CODEBOOKS = """
import numpy as np
from pydantic import BaseModel
from dataprep.pipeline.encoders import EncoderSpec

class Settings(BaseModel):
    pass

class Twofold:
    codebook_size, num_codebooks, rate = 70000, 2, 16000
    max_processes, can_decode, environment = None, False, {}
    identity = {"encoder": "twofold"}
    def encode(self, waveform):
        n = len(waveform) // 100
        return np.stack([np.arange(n), np.arange(n) + 66000]).astype(np.int32)

SPEC = EncoderSpec(name="twofold", kind="audio", about="", settings=Settings, packages=(),
    extra="", takes_weights=False, open=lambda settings, weights: Twofold())
"""


def test_several_codebooks_are_a_list_of_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import soundfile

    plugin = install_plugin(tmp_path / "plugin", "twofold = twofold_encoder:SPEC", "twofold")
    (plugin / "twofold_encoder.py").write_text(TWO_CODEBOOKS)
    monkeypatch.syspath_prepend(str(plugin))
    for name, samples in {"a.wav": 350, "b.wav": 200, "c.wav": 50}.items():
        soundfile.write(tmp_path / name, np.ones(samples), 16000)
    config = {"encoder": "twofold", "on_error": "skip"}
    manifest = encode_here(tmp_path / "out", tmp_path / "*.wav", **config)
    assert [row["audio"] for row in rows_of(tmp_path / "out")] == [
        [[0, 1, 2], [66000, 66001, 66002]],
        [[0, 1], [66000, 66001]],
    ]
    assert manifest["columns"]["audio"] == "list<element: list<element: uint32>>"
    assert manifest["counts"]["documents_dropped"] == 1  # too short for a code


# --- who made it --------------------------------------------------------------------------------


def said_of(out: Path) -> list[list[dict[str, Any]]]:
    """What each shard says of its codes."""
    metadata = [pq.read_schema(path).metadata for path in sorted(out.glob("shards/*"))]
    return [json.loads(item[b"dataprep"]) for item in metadata]


PATCHES = {
    "codebook_size": 8192,
    "column": "vision",
    "encoder": "patches",
    "kind": "vision",
    "tokens_per_frame": 256,
}
MULAW = {
    "codebook_size": 256,
    "column": "audio",
    "encoder": "mulaw",
    "kind": "audio",
    "num_codebooks": 1,
}


def wav(samples: int) -> str:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, np.sin(np.arange(samples) / 9), 16000, format="WAV")
    return base64.b64encode(file.getvalue()).decode()


def test_every_shard_says_what_made_its_codes(finished: Path) -> None:
    assert said_of(finished) == [[PATCHES]] * 8


def test_a_shard_that_was_written_again_says_it_too(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{"x": None}, {"x": 1}, {"x": 2.5}])
    encode_here(tmp_path / "out", path, shard_records=1)
    assert said_of(tmp_path / "out") == [[PATCHES]] * 3
    verify(tmp_path / "out")


def test_sounds_after_pictures_keep_what_made_the_pictures(tmp_path: Path) -> None:
    other = base64.b64encode(png(5)).decode()
    rows = [{"sound": wav(300 + i), "other": other} for i in range(3)]
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    encode_here(tmp_path / "seen", path, settings={"cells": 8})
    heard = {"encoder": "mulaw", "column": "sound"}
    # The dataset's folder will do: its manifest is no table.
    encode_here(tmp_path / "both", tmp_path / "seen", shard_records=2, **heard)
    before = {**PATCHES, "tokens_per_frame": 64}
    assert said_of(tmp_path / "both") == [[MULAW, before]] * 2
    verify(tmp_path / "both")
    # What is not kept has no maker, and of a column that is made anew the newest counts.
    rest = tmp_path / "seen/shards"
    encode_here(tmp_path / "sound", rest, keep=["t*"], **heard)
    assert said_of(tmp_path / "sound") == [[MULAW]]
    encode_here(tmp_path / "anew", rest, column="other", keep=["sound"])
    assert said_of(tmp_path / "anew") == [[PATCHES]]


def test_a_column_of_several_origins_names_them_all(tmp_path: Path) -> None:
    records = [{"sound": wav(300)}]
    for cells in (8, 4):
        path = write_jsonl(tmp_path / "t.jsonl", records)
        encode_here(tmp_path / str(cells), path, settings={"cells": cells})
    unknown = write_jsonl(tmp_path / "own.jsonl", [{**records[0], "vision": [1] * 256}])
    none = write_jsonl(tmp_path / "none.jsonl", records)
    made = [{**PATCHES, "tokens_per_frame": n} for n in (16, 64)]
    shards = [tmp_path / "8/shards", tmp_path / "4/shards", unknown]
    heard = {"encoder": "mulaw", "column": "sound"}
    encode_here(tmp_path / "all", *shards, **heard)
    assert said_of(tmp_path / "all") == [[MULAW, *made, {"column": "vision", "kind": "vision"}]]
    # Others without such a column have nothing to say of it.
    encode_here(tmp_path / "one", none, shards[0], **heard)
    assert said_of(tmp_path / "one") == [[MULAW, made[1]]]
    encode_here(tmp_path / "own", unknown, **heard)
    assert said_of(tmp_path / "own") == [[MULAW]]


def test_shards_of_codes_are_read_by_datasets_and_keep_what_others_say(
    folder: Path, finished: Path, tmp_path: Path
) -> None:
    import datasets

    shard = sorted(finished.glob("shards/*"))[0]
    cache = str(tmp_path / "cache")
    loaded = datasets.Dataset.from_parquet(str(shard), cache_dir=cache)
    assert loaded["source"] == [row["source"] for row in pq.read_table(shard).to_pylist()]
    # And what datasets writes into a schema is in the way of nobody.
    features = datasets.Features({"image": datasets.Image(decode=False)})
    rows = [{"image": {"bytes": png(0), "path": None}}]
    written = tmp_path / "hf.parquet"
    datasets.Dataset.from_list(rows, features=features).to_parquet(str(written))
    assert b"huggingface" in pq.read_schema(written).metadata
    encode_here(tmp_path / "out", written)
    assert said_of(tmp_path / "out") == [[PATCHES]]


# --- columns ------------------------------------------------------------------------------------


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    image = base64.b64encode(png(0)).decode()
    path.write_text("".join(json.dumps({"image": image, **row}) + "\n" for row in rows))
    return path


def test_a_column_has_one_type_in_all_shards(tmp_path: Path) -> None:
    rows = [{"x": None}, {"x": 1}, {"x": 2.5}, {"y": ["a"]}, {"source": "mine"}]
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    manifest = encode_here(tmp_path / "out", path, shard_records=1)
    schemas = {str(pq.read_schema(p)) for p in sorted((tmp_path / "out" / "shards").iterdir())}
    assert len(schemas) == 1
    assert manifest["columns"] == {
        "vision": "list<element: uint16>",
        "x": "double",
        "y": "list<element: string>",
        "source": "string",
    }
    found = rows_of(tmp_path / "out")
    assert [row["x"] for row in found] == [None, 1.0, 2.5, None, None]
    assert found[3]["y"] == ["a"]
    assert [row["source"] for row in found][3:] == ["t.jsonl:4", "mine"]


@pytest.mark.parametrize("shard_records", [1, 8])
def test_a_column_of_types_that_do_not_go_together_is_named(
    tmp_path: Path, shard_records: int
) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{"x": 1}, {"x": "one"}])
    with pytest.raises(InputError, match=r"x.*--keep"):
        encode_here(tmp_path / "out", path, shard_records=shard_records)


def test_keep_chooses_columns_and_into_names_the_codes(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{"a1": 1, "a2": 2, "b": {"c": 3}, "vision": "x"}])
    encode_here(tmp_path / "out", path, keep=["a*"], into="vision_left")
    assert list(rows_of(tmp_path / "out")[0]) == ["vision_left", "a1", "a2", "source"]
    with pytest.raises(ConfigError, match=r"has a column 'vision' of its own.*--into"):
        encode_here(tmp_path / "other", path)


# --- bad records --------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.png").write_bytes(png(0))
    (folder / "b.png").write_bytes(png(1)[:60])
    (folder / "c.png").write_bytes(png(2))
    (folder / "d.jpg").write_bytes(b"")
    return folder


def test_a_broken_picture_ends_the_run_by_name(mixed: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mixed/b\.png: cannot be read as a picture.*--on-error"):
        encode_here(tmp_path / "out", mixed)


def test_bad_records_are_left_out_and_counted(mixed: Path, tmp_path: Path) -> None:
    manifest = encode_here(tmp_path / "out", mixed, on_error="skip")
    assert [row["vision"] for row in rows_of(tmp_path / "out")] == [
        codes_of(png(i)) for i in (0, 2)
    ]
    assert manifest["counts"]["documents_dropped"] == 2
    assert not (tmp_path / "out" / "errors.jsonl").exists()


def test_quarantine_lists_bad_records(mixed: Path, tmp_path: Path) -> None:
    manifest = encode_here(tmp_path / "out", mixed, on_error="quarantine", shard_records=1)
    lines = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    errors = [json.loads(line) for line in lines]
    assert [Path(error["file"]).name for error in errors] == ["b.png", "d.jpg"]
    assert errors[1]["reason"] == "is empty"
    assert manifest["counts"]["documents_quarantined"] == 2
    assert [file["path"] for file in manifest["files"]] == ["errors.jsonl"]


def test_a_bad_line_of_a_table_is_named_with_its_number(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{}, {"image": None}])
    with pytest.raises(InputError, match=r"line 2 of .*t\.jsonl: column 'image' is null"):
        encode_here(tmp_path / "null", path)
    path.write_text('{"picture": "a.png"}\n')
    with pytest.raises(InputError, match=r"no column 'image' \(keys: picture\); set --column"):
        encode_here(tmp_path / "missing", path)
    (tmp_path / "folder.png").mkdir()
    for name, reason in {
        "gone.png": "No such file",
        "folder.png": "it is a folder",
        "nul\\u0000.png": "null byte",
    }.items():
        path.write_text(f'{{"image": "{name}"}}\n')
        with pytest.raises(InputError, match=rf"line 1 of .*{reason}"):
            encode_here(tmp_path / reason, path)


def test_a_table_without_the_column_is_refused_before_reading(tmp_path: Path) -> None:
    pq.write_table(pa.table({"img": [b"x"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"column 'image' not in .*columns: img.*--column"):
        encode_here(tmp_path / "out", tmp_path / "t.parquet")


def test_limit_takes_the_first_records(folder: Path, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", [{"n": i} for i in range(5)])
    encode_here(tmp_path / "out", folder, path, limit=62, shard_records=20)
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 62
    assert [row["n"] for row in rows[60:]] == [0, 1]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fps": 1, "frames": 2}, "set one of them"),
        ({"settings": {"cells": 3}}, "not a multiple"),
        ({"encoder": ""}, "no encoder"),
        ({"inputs": ()}, "no input"),
        ({"fps": 0}, "fps"),
    ],
)
def test_a_config_that_cannot_be_is_refused(
    folder: Path, tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    values = {"inputs": [str(folder)], "encoder": "patches", "out": str(tmp_path), **config}
    with pytest.raises(ConfigError, match=message):
        make_plan(load_config(EncodeConfig, flags=values), None, 1)


def test_an_output_below_its_own_input_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    encode_here(tmp_path / "codes", tmp_path)
    values = {"inputs": [str(tmp_path)], "encoder": "patches"}
    planned = make_plan(EncodeConfig.model_validate(values), None, 1)
    assert planned.plan.identity["sources"] == [planned.plan.sources[0].fingerprint]
    assert planned.plan.identity["ways"] == [{"kind": "files"}]
    assert [entry.name for entry in planned.found[0].entries] == ["a.png"]


def test_a_folder_with_videos_needs_a_rate(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"a\.mp4 is a video.*--fps or --frames"):
        encode_here(tmp_path / "out", tmp_path)


def test_an_encoder_that_owns_a_device_has_one_process_and_threads_that_decode(
    folder: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.pipeline.encoders.patches import Patches

    monkeypatch.setattr(Patches, "max_processes", 1)
    values = {"inputs": [str(folder)], "encoder": "patches", "shard_records": 8, "workers": 4}
    planned = make_plan(EncodeConfig.model_validate(values), None, 4)
    assert planned.num_workers == 1
    assert planned.plan.decode_threads == 4
    encode_here(tmp_path / "out", folder, shard_records=8, workers=4)
    assert tree(tmp_path / "out") == tree(finished)


def test_an_input_that_changes_while_it_is_read_ends_the_run(tmp_path: Path) -> None:
    folder, out = tmp_path / "pictures", tmp_path / "out"
    folder.mkdir()
    (folder / "a.png").write_bytes(png(0))
    config = {"inputs": [str(folder)], "encoder": "patches", "out": str(out)}

    def change(kind: str, values: Any) -> None:
        (folder / "a.png").write_bytes(png(1))

    with pytest.raises(InputError, match="pictures changed while it was read"):
        encode(EncodeConfig.model_validate(config), cache_dir=tmp_path / "cache", report=change)
    assert not list(out.iterdir())


@pytest.mark.parametrize("kept", range(4))
def test_a_task_goes_on_after_any_of_its_shards(tmp_path: Path, kept: int) -> None:
    rows = [{"n": i} if i != 3 else {"image": None} for i in range(7)]
    path = write_jsonl(tmp_path / "t.jsonl", rows)
    config = {"inputs": [str(path)], "encoder": "patches", "shard_records": 2, "on_error": "skip"}
    planned = make_plan(EncodeConfig.model_validate(config), None, 1)
    (task,) = planned.plan.tasks
    trees = []
    for name in ("whole", "resumed"):
        work = tmp_path / name
        work.mkdir()
        begin_work(planned, work, silent)
        EncodeTasks(planned.plan, work).run(task, lambda message: None)()
        if name == "resumed":
            assert len(list(work.glob("tasks/*.done"))) == 4
            for marker in sorted(work.glob("tasks/*.done"))[kept:]:
                marker.unlink()
            EncodeTasks(planned.plan, work).run(task, lambda message: None)()
        trees.append({name: _without_states(data) for name, data in tree(work).items()})
    assert trees[0] == trees[1]


def _without_states(data: bytes) -> bytes:
    """Return a marker without the inodes and times of its files, and without its own hash."""
    if b'"state":' not in data:
        return data
    return re.sub(rb'"state":\[[^]]*\]', b"", data).rpartition(b"\n")[0]


# --- looking at it ------------------------------------------------------------------------------


def test_verify_reads_everything(finished: Path, tmp_path: Path) -> None:
    found = verify(finished)
    assert (found.num_items, found.num_tokens, found.num_shards) == (60, 60 * 256, 8)
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    shard = sorted(copy.glob("shards/*"))[2]
    data = shard.read_bytes()
    shard.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(CorruptError, match=shard.name):
        verify(copy)
    shard.unlink()
    with pytest.raises(CorruptError, match="is missing"):
        verify(copy)


def test_the_encoder_of_a_dataset_shows_its_pictures(folder: Path, finished: Path) -> None:
    encoder: Any = encoder_of(finished)
    row = rows_of(finished)[0]
    (pixels,) = encoder.decode(np.array(row["vision"], np.int32)[None])
    original = to_square(open_picture((folder / row["source"]).read_bytes()), 256)
    assert np.abs(pixels.astype(int) - original).mean() < 25
    assert (to_square(open_picture(png_of(pixels)), 256) == pixels).all()


# --- the command --------------------------------------------------------------------------------


def test_a_killed_run_goes_on_to_the_same_bytes(
    folder: Path, finished: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dataprep.cli.main", *arguments(folder, out, "--workers", "1")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(out.glob(".work/tasks/*.done"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert list(out.glob(".work/tasks/*.done"))
    run_cli(*arguments(folder, out, "-q"))
    assert tree(out) == tree(finished)


def test_the_same_command_again_does_nothing_and_another_is_a_conflict(
    folder: Path, finished: Path, run_cli: RunCli
) -> None:
    before = tree(finished)
    assert "nothing to do" in run_cli(*arguments(folder, finished)).stdout
    done = run_cli(*arguments(folder, finished, "--set", "settings.cells=8"), check=False)
    assert done.code == 4
    assert "encoder cells: 16 -> 8" in done.stderr
    assert tree(finished) == before


def test_another_run_holds_the_lock(folder: Path, tmp_path: Path, run_cli: RunCli) -> None:
    out = tmp_path / "out"
    out.mkdir()
    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert run_cli(*arguments(folder, out), check=False).code == 75
    finally:
        os.close(descriptor)


def test_a_bad_picture_ends_the_command_with_3(
    mixed: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    done = run_cli(*arguments(mixed, tmp_path / "out"), check=False)
    assert done.code == 3
    assert "b.png: cannot be read as a picture" in done.stderr
    skipped = run_cli(
        *arguments(mixed, tmp_path / "out", "--on-error", "skip", "--max-errors", "1"), check=False
    )
    assert skipped.code == 3
    assert "more than --max-errors 1" in skipped.stderr


def test_list_shows_encoders_settings_and_plugins(tmp_path: Path, run_cli: RunCli) -> None:
    plugin = install_plugin(tmp_path / "plugin", "brightness = plug_encoder:SPEC")
    env = {"PYTHONPATH": os.pathsep.join([str(plugin), os.environ.get("PYTHONPATH", "")])}
    found = json.loads(run_cli("encode", "--list", "--json", env=env).stdout)
    names = ["patches", "vqgan", "mulaw", "mel", "stft", "brightness"]
    assert [item["name"] for item in found] == names
    assert found[0]["settings"]["cells"]["default"] == 16
    text = run_cli("encode", "--list").stdout
    assert "--set settings.cells=16" in text


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    import pickle

    from support.vqgan import SMALL, nested, random_tensors

    path = tmp_path / "vqgan.pkl"
    path.write_bytes(pickle.dumps(nested(random_tensors(SMALL))))
    return path


def test_a_vqgan_goes_from_checkpoint_to_codes(
    folder: Path, checkpoint: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    weights = tmp_path / "w.safetensors"
    said = run_cli("encode", "--convert-weights", checkpoint, weights).stdout
    assert "tensors" in said
    run_cli(
        *("encode", folder, "--encoder", "vqgan", "--weights", weights, "--limit", "5"),
        *("--set", "settings.size=32", "--shard-records", "3", "--out", tmp_path / "out"),
        *("--workers", "1", "-q"),
    )
    from dataprep.pipeline.encoders import find_weights

    encoder: Any = open_encoder("vqgan", {"size": 32}, find_weights(str(weights), None))
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 5
    for row in rows:
        square = to_square(open_picture((folder / row["source"]).read_bytes()), 32)
        assert row["vision"] == encoder.encode(np.stack([square, square]))[0].tolist()
