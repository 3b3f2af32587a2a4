"""More sources than a manifest lists stand in files beside it, which are read when asked for."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConflictError, CorruptError
from dataprep.pipeline.files import write_sealed
from dataprep.pipeline.hashes import fingerprint, hash_bytes
from dataprep.pipeline.jobs.ownership import make_work
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.jobs.workspace import begun_by
from dataprep.pipeline.look.groups import groups_of
from dataprep.pipeline.look.origins import origin_of, pieces_of_row
from dataprep.pipeline.look.stats import stats
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.pack import pack
from dataprep.pipeline.run.unpublished import unpublished
from dataprep.pipeline.storage.apart import Apart
from dataprep.pipeline.storage.manifest import (
    PackedManifest,
    TokenizedManifest,
    read_manifest,
)
from dataprep.pipeline.storage.objects import open_objects
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.storage.source_sums import MOST_TOGETHER, count_of
from dataprep.pipeline.tokenize.recipe import plan_of, tokenize
from dataprep.pipeline.tokenize.told import write_whole_plan
from support.encoding import encode_here, png
from support.killable import without_processes
from support.manifests import edit_manifest
from support.nights import write_config
from support.stores import S3

NUM_FILES = MOST_TOGETHER + 104
FIRST, SECOND = "provenance/sources-00000.json", "provenance/sources-00001.json"


def settings(raw: Path, out: str | Path, **more: Any) -> TokenizeConfig:
    values = {"inputs": [str(raw)], "tokenizer": "bytes", "fields": "text", "out": str(out)}
    return TokenizeConfig.model_validate({**values, **more})


def make(raw: Path, out: str | Path, **more: Any) -> Outcome:
    with without_processes():
        return tokenize(settings(raw, out, **more), cache_dir=Path(os.environ["DATAPREP_CACHE"]))


def name(number: int) -> str:
    return f"{number:05d}.jsonl"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for i in range(NUM_FILES):
        (folder / name(i)).write_text(json.dumps({"text": f"file {i}"}) + "\n")
    return folder


@pytest.fixture(scope="module")
def made(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "tok"
    make(raw, out)
    return out


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "tok"))


def read(folder: Path) -> TokenizedManifest:
    manifest = read_manifest(folder)
    assert isinstance(manifest, TokenizedManifest)
    return manifest


def say_there_are(manifest: dict[str, Any], count: int) -> None:
    """Let all of a manifest say that it has so many sources."""
    manifest["sources"]["count"] = manifest["identity"]["sources"]["count"] = count
    manifest["fingerprint"] = fingerprint(manifest["identity"])


def change_file(folder: Path, path: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the sources in a file, and the hash of it in the manifest."""
    values = json.loads((folder / path).read_bytes())
    change(values)
    data = msgspec.json.encode(values)
    (folder / path).write_bytes(data)

    def listed(manifest: dict[str, Any]) -> None:
        (entry,) = (entry for entry in manifest["files"] if entry["path"] == path)
        entry.update(num_bytes=len(data), xxh3_128=hash_bytes(data))

    edit_manifest(folder, listed)


def test_a_manifest_of_many_has_their_sums_and_files_have_them(raw: Path, made: Path) -> None:
    values = json.loads((made / "manifest.json").read_bytes())
    assert values["sources"] == {
        "count": NUM_FILES,
        "sums": {
            "records": NUM_FILES,
            "written": NUM_FILES,
            "quarantined": 0,
            "dropped": 0,
            "empty": 0,
            "tokens": values["counts"]["tokens"],
        },
        "files": [FIRST, SECOND],
    }
    assert values["identity"]["sources"]["count"] == NUM_FILES
    assert len(json.dumps(values)) < 20_000
    sources = read_sources(made, read(made))
    assert len(sources) == NUM_FILES
    assert [source.path for source in sources] == [str(raw / name(i)) for i in range(NUM_FILES)]
    assert sources[-1] == sources[NUM_FILES - 1]
    assert sources[MOST_TOGETHER].path == str(raw / name(MOST_TOGETHER))
    assert len(json.loads((made / SECOND).read_bytes())) == NUM_FILES - MOST_TOGETHER
    verify(made)
    found = origin_of(made, read(made), NUM_FILES - 1)
    assert (found.path, found.fingerprint) == (sources[-1].path, sources[-1].fingerprint)


def test_a_loader_and_pack_do_with_the_rows_what_they_did_and_name_the_files(
    made: Path, raw: Path, tmp_path: Path
) -> None:
    with without_processes():
        pack(PackConfig(inputs=[str(made)], out=str(tmp_path / "packed"), seq_len=64, workers=1))
    verify(tmp_path / "packed")
    manifest = read_manifest(tmp_path / "packed")
    assert isinstance(manifest, PackedManifest)
    pieces = pieces_of_row(tmp_path / "packed", manifest, 0, 3)
    assert {piece.origin.path for piece in pieces} == {
        str(raw / name(piece.document)) for piece in pieces
    }
    groups = groups_of(tmp_path / "packed", manifest, "file", lambda num_bytes: None)
    assert (len(groups), {group.documents for group in groups}) == (NUM_FILES, {1})


def test_whoever_needs_no_sources_does_without_their_files(
    copy: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    (copy / SECOND).write_bytes(b"[]")
    assert len(open_dataset(copy)) == NUM_FILES
    sources = read_sources(copy, read(copy))
    assert (len(sources), sources[7].records) == (NUM_FILES, 1)
    with pytest.raises(CorruptError, match=f"{SECOND} has 2 bytes"):
        list(sources)
    found = run_cli("inspect", copy, "--doc", str(NUM_FILES - 1), check=False)
    assert (found.code, SECOND in found.stderr) == (5, True)
    assert run_cli("verify", copy, check=False).code == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["sources"]["sums"].update(tokens=1), "add up to its tokens"),
        (lambda m: m["sources"]["sums"].pop("empty"), "summed up by"),
        (lambda m: m["sources"].update(count=NUM_FILES + 1), "not those of its identity"),
        (lambda m: m["sources"].update(count=MOST_TOGETHER), "not those of its identity"),
        (lambda m: say_there_are(m, 1 << 53), "other files of sources"),
        (lambda m: m["sources"]["files"].reverse(), "other files of sources"),
        (lambda m: m["sources"]["files"].pop(), "other files of sources"),
        (lambda m: m["files"].pop(), "other files of sources"),
        (lambda m: m.update(sources=[]), "not those of its identity"),
    ],
)
def test_a_manifest_that_disagrees_with_itself_is_refused(
    copy: Path, change: Any, message: str
) -> None:
    edit_manifest(copy, change)
    with pytest.raises(CorruptError, match=message):
        read_manifest(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s[0].update(written=0), f"counts of .*{name(0)} do not add up"),
        (lambda s: s[0].update(tokens=1), "do not add up to the tokens"),
        (lambda s: s[0].update(fingerprint="xxh3-128:0"), "not those of its identity"),
        (lambda s: s.reverse(), "not those of its identity"),
        (lambda s: s.pop(), f"has {MOST_TOGETHER - 1:,} entries, by its manifest it has"),
        (lambda s: s[0].update(records="1"), "is damaged"),
    ],
)
def test_verify_finds_files_that_do_not_add_up(copy: Path, change: Any, message: str) -> None:
    change_file(copy, FIRST, change)
    with pytest.raises(CorruptError, match=message):
        verify(copy)


def test_an_input_of_many_that_changed_is_named(raw: Path, made: Path, tmp_path: Path) -> None:
    again = make(raw, made)
    assert (again.was_complete, again.moved) == (True, ())
    other = tmp_path / "raw"
    shutil.copytree(raw, other)
    moved = make(other, made)
    assert moved.moved[7] == (str(raw / name(7)), str(other / name(7)))
    (other / name(4)).write_text('{"text": "other"}\n')
    with pytest.raises(ConflictError, match=f"input {other / name(4)} changed"):
        make(other, made)
    (other / name(4)).unlink()
    with pytest.raises(ConflictError, match=f"sources: {NUM_FILES} -> {NUM_FILES - 1}"):
        make(other, made)


def test_a_dataset_of_many_grows_and_its_generations_copy_no_sources(
    raw: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    here = tmp_path / "raw"
    shutil.copytree(raw, here)
    config = write_config(tmp_path / "c.json", inputs=["raw"])
    run_cli("run", config, "-q")
    (here / "new.jsonl").write_text('{"text": "new"}\n')
    (here / name(3)).rename(here / "renamed.jsonl")
    run_cli("run", config, "-q")
    assert "nothing to do" in run_cli("run", config).stderr
    place = tmp_path / "out/data/tokenized"
    manifest = read(place)
    assert manifest.generation == 1
    assert not isinstance(manifest.sources, tuple)
    assert (manifest.sources.count, manifest.sources.files) == (NUM_FILES + 1, ())
    sources = read_sources(place, manifest)
    assert len(sources) == count_of(manifest.sources)
    assert [source.path for source in sources][-2:] == [
        str(here / name(NUM_FILES - 1)),
        str(here / "new.jsonl"),
    ]
    verify(place)
    told = json.loads(run_cli("log", place, "--json").stdout)
    assert [len(each["came"][0]["sources"]) for each in told] == [NUM_FILES, 1]
    assert told[0]["documents"] == NUM_FILES
    found = run_cli("inspect", place, "--doc", f"{here / 'new.jsonl'}:1")
    assert "new" in found.stdout
    shutil.rmtree(place / "parts/00000")
    shutil.copytree(place / "parts/00001", place / "parts/00000")
    wrong = run_cli("log", place, check=False)
    assert (wrong.code, "parts/00000/manifest.json is not the one" in wrong.stderr) == (5, True)


@pytest.mark.slow
def test_many_tars_of_pictures_stand_in_files_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(MOST_TOGETHER + 1):
        with tarfile.open(tmp_path / f"in/{i:05d}.tar", "w") as tar:
            info, data = tarfile.TarInfo("a.png"), png(i)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    out = tmp_path / "codes"
    encode_here(out, tmp_path / "in", settings={"size": 8, "cells": 2})
    verify(out)
    manifest = read_manifest(out)
    sources = read_sources(out, manifest)
    assert [Path(source.path).name for source in sources][-1] == f"{MOST_TOGETHER:05d}.tar"
    assert [each["records"] for each in stats(out, manifest)["sources"]] == [1] * len(sources)
    (out / SECOND).unlink()
    with pytest.raises(CorruptError, match=f"{SECOND} is missing"):
        verify(out)


def test_a_part_of_many_that_was_begun_is_known_by_its_plan(raw: Path, tmp_path: Path) -> None:
    plan = plan_of(settings(raw, ""), Path(os.environ["DATAPREP_CACHE"]))
    work = make_work(tmp_path / "parts/00000")
    write_sealed(work / "identity.json", begun_by(plan.identity))
    assert list(unpublished(tmp_path, ())) == [(plan.identity, set())]
    write_whole_plan(work, plan)
    marks = {(source.fingerprint, 0) for source in plan.sources}
    assert list(unpublished(tmp_path, ())) == [(plan.identity, marks)]


def test_sources_in_a_bucket_are_read_there(
    raw: Path, made: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in s3.env().items():
        monkeypatch.setenv(variable, value)
    s3.make_bucket("many-sources")
    out = "s3://many-sources/data/tok"
    make(raw, out)
    objects = open_objects(out)
    assert objects.get(SECOND) == (made / SECOND).read_bytes()
    assert make(raw, out).was_complete
    sources = read_sources(Path(out), read(Path(out)))
    assert [*sources] == [*read_sources(made, read(made))]


@given(
    places=st.lists(st.lists(st.integers(), max_size=5), max_size=6),
    number=st.integers(-40, 40),
    part=st.slices(12),
)
def test_sources_apart_are_the_sequence_of_all(
    places: list[list[int]], number: int, part: slice
) -> None:
    whole = tuple(each for place in places for each in place)
    apart = Apart((len(place), lambda place=place: place) for place in places)
    assert (len(apart), tuple(apart), apart[part]) == (len(whole), whole, whole[part])
    assert [*reversed(apart)] == [*reversed(whole)]
    if -len(whole) <= number < len(whole):
        assert apart[number] == whole[number]
    else:
        with pytest.raises(IndexError):
            apart[number]
