"""Datasets that have grown answer every question as one that was made at once of the same content.

grown   parts of a.jsonl, of b.jsonl and c.jsonl, of d.jsonl      packed part by part
plain   of all four at once                                       one document a row, so that
                                                                  rows are the same
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import PLAIN, RunCli
from dataprep.loaders import DataLoader, PackedDataset, open_dataset
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.verify import bytes_of, compare, verify
from dataprep.pipeline.storage.origins import origins_of
from support.datasets import pack_here
from support.encoding import encode_here, png
from support.grown import grow, manifest_in, packed, parts_in, replace_part, tokenized
from support.inprocess import write_lines
from support.manifests import edit_manifest

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
PARTS = (["a"], ["b", "c"], ["d"])
CONFIG: dict[str, Any] = {"fields": "[q],text", "on_error": "quarantine"}
PACK: dict[str, Any] = {"seq_len": 40, "strategy": "pad", "overflow": "truncate", "shard_rows": 25}


def records(seed: int, count: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    made: list[Any] = [
        {
            "q": f"{seed}.{i}",
            "text": " ".join(rng.choice(WORDS, int(rng.integers(1, 12)))),
            "lang": str(rng.choice(["en", "de", "fr"])),
        }
        for i in range(count)
    ]
    made[count // 2] = "{bad"
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("grown")
    for i, name in enumerate("abcd"):
        write_lines(home / f"{name}.jsonl", records(i, 20 + 7 * i))
    for number, names in enumerate(PARTS):
        files = [home / f"{name}.jsonl" for name in names]
        grow(home / "tok", tokenized(files, shard_bytes=1 << 17, **CONFIG))
        grow(home / "packed", packed(home / f"tok/parts/{number:05d}", **PACK))
    tokenized([home / f"{name}.jsonl" for name in "abcd"], **CONFIG)(home / "plain-tok")
    packed(home / "plain-tok", **PACK)(home / "plain-packed")
    return home


def shown(run_cli: RunCli, *words: Any) -> Any:
    return json.loads(run_cli(*words, "--json").stdout)


# --- the same answers ---


def test_documents_and_rows_are_the_same(home: Path) -> None:
    for pair in (("tok", "plain-tok"), ("packed", "plain-packed")):
        one, other = (open_dataset(home / name) for name in pair)
        assert len(one) == len(other)
        for i in range(len(one)):
            assert all(np.array_equal(one[i][k], other[i][k]) for k in {**one[i], **other[i]})


@pytest.mark.parametrize("pair", [("tok", "plain-tok"), ("packed", "plain-packed")])
def test_stats_are_the_same(run_cli: RunCli, home: Path, pair: tuple[str, str]) -> None:
    one, other = (shown(run_cli, "stats", home / name) for name in pair)
    lost = [found.pop("lost_documents", []) for found in (one, other)]
    assert [Path(path).parent.parent.parent.name for path in lost[0]] == ["parts"] * len(lost[0])
    assert bool(lost[0]) == bool(lost[1]) == (pair[0] == "packed")
    for found in (one, other):
        del found["shards"], found["bytes"]
    assert one == other


@pytest.mark.parametrize("by", ["source", "file", "lang", "key:q"])
@pytest.mark.parametrize("pair", [("tok", "plain-tok"), ("packed", "plain-packed")])
def test_stats_by_source_file_and_key_are_the_same(
    run_cli: RunCli, home: Path, pair: tuple[str, str], by: str
) -> None:
    one, other = (shown(run_cli, "stats", home / name, "--by", by) for name in pair)
    assert one == other
    assert len(one["groups"]) == {"source": 4, "file": 4, "lang": 3, "key:q": 118}[by]


@pytest.mark.parametrize("number", [0, 18, 19, 20, 60, 117, -1])
def test_documents_are_shown_the_same(run_cli: RunCli, home: Path, number: int) -> None:
    one, other = (
        shown(run_cli, "inspect", home / name, "--doc", number) for name in ("tok", "plain-tok")
    )
    assert one == other
    origin = one["origin"]
    place = f"{Path(origin['path']).name}:{origin['line']}"
    assert shown(run_cli, "inspect", home / "tok", "--doc", place) == one


def without_places(found: Any) -> Any:
    """Origins without the tokenized dataset, which is another, and the number there."""
    if isinstance(found, dict):
        kept = {k: v for k, v in found.items() if k not in ("dataset", "document", "folder")}
        return {key: without_places(value) for key, value in kept.items()}
    return [without_places(item) for item in found] if isinstance(found, list) else found


@pytest.mark.parametrize("words", [["--row", 0], ["--row", 19], ["--row", 57], ["--row", -1]])
def test_rows_are_shown_the_same(run_cli: RunCli, home: Path, words: list[Any]) -> None:
    one, other = (
        shown(run_cli, "inspect", home / name, *words) for name in ("packed", "plain-packed")
    )
    assert without_places(one) == without_places(other)
    (segment,) = one["segments"]
    again = shown(run_cli, "inspect", segment["dataset"], "--doc", segment["document"])
    assert again["origin"]["line"] == segment["origin"]["line"]


@pytest.mark.parametrize("doc", ["a.jsonl:1", "c.jsonl:30", "d.jsonl:41", "0", "77", "-1"])
def test_rows_of_a_document_are_the_same(run_cli: RunCli, home: Path, doc: str) -> None:
    one, other = (
        shown(run_cli, "inspect", home / name, "--doc", doc) for name in ("packed", "plain-packed")
    )
    assert without_places(one) == without_places(other)
    assert one[0]["places"]
    text = run_cli("inspect", home / "packed", "--doc", doc)
    assert "--generation 2" in text.stdout + text.stderr


def test_cut_documents_are_listed_the_same(run_cli: RunCli, home: Path) -> None:
    words = ("--list", "truncated")
    one, other = (
        shown(run_cli, "inspect", home / name, *words) for name in ("packed", "plain-packed")
    )
    assert without_places(one) == without_places(other)
    assert len(one) > 20


def test_steps_are_shown_by_the_generation_that_they_read(run_cli: RunCli, home: Path) -> None:
    schedule = {0: 0, 3: 2}
    loader = DataLoader(home / "packed", batch_size=4, generation=schedule, prefetch=0)
    for _ in range(5):
        next(loader)
    (home / "state.json").write_text(json.dumps(loader.get_state()))
    for step in (1, 4):
        flags = ("--step", step, "--batch-size", 4, "--generation", "0:0,3:2")
        found = shown(run_cli, "inspect", home / "packed", *flags)
        assert [("", row["row"]) for row in found["rows"]] == loader.rows_of(step)
        assert found["epochs"] == loader.epochs_at(step)
        words = ("--step", step, "--state", home / "state.json")
        assert shown(run_cli, "inspect", home / "packed", *words) == found
        for row in found["rows"]:
            own = shown(run_cli, "inspect", home / "packed", "--row", row["row"])
            assert own["segments"] == row["segments"]


@pytest.mark.parametrize("strategy", ["best_fit", "concat"])
def test_every_piece_of_rows_of_many_documents_is_where_it_is_said_to_be(
    home: Path, tmp_path: Path, strategy: str
) -> None:
    from dataprep.pipeline.look.origins import RowOrigins

    for number in range(len(PARTS)):
        config = {"seq_len": 64, "strategy": strategy, "shard_rows": 9}
        grow(tmp_path / "p", packed(home / f"tok/parts/{number:05d}", **config))
    dataset = open_dataset(tmp_path / "p")
    assert isinstance(dataset, PackedDataset)
    origins = RowOrigins(dataset.folder, dataset.about)
    seen = set()
    for number in range(len(dataset)):
        row = dataset[number]
        for i, piece in enumerate(origins.of_row(*dataset.locate(number)), 1):
            line = Path(piece.origin.path).read_text().splitlines()[piece.origin.line - 1]
            record = json.loads(line)
            whole = [256, *f"{record['q']}{record['text']}".encode(), 257]
            own = row["tokens"][row["segment_ids"] == i].tolist()
            assert own == whole[piece.start : piece.start + piece.length]
            seen.add((piece.origin.path, piece.origin.line))
    assert len(seen) == 118


def test_generations_are_looked_at_by_their_number(run_cli: RunCli, home: Path) -> None:
    for name, counts in (("tok", "documents_written"), ("packed", "rows")):
        for generation, wanted in ((0, 19), (1, 19 + 26 + 33), (2, 118)):
            words = (home / name, "--generation", generation)
            assert shown(run_cli, "stats", *words)["counts"][counts] == wanted
            groups = shown(run_cli, "stats", *words, "--by", "file")["groups"]
            assert sum(group["documents"] for group in groups) == wanted
    flag = {"tok": "--doc", "packed": "--row"}
    for name, word in flag.items():
        done = run_cli("inspect", home / name, word, 19, "--generation", 0, check=False)
        assert (done.code, "numbered from 0" in done.stderr) == (2, True)
    for command in (("stats",), ("inspect", "--row", "0")):
        done = run_cli(command[0], home / "packed", *command[1:], "--generation", 3, check=False)
        assert (done.code, "has 3 generations" in done.stderr) == (2, True)
    assert run_cli("stats", home / "plain-tok", "--generation", 0).code == 0


def test_pictures_of_a_grown_dataset_are_those_of_their_part(
    run_cli: RunCli, tmp_path: Path
) -> None:
    config = {"tokenizer": "bytes", "fields": "[vision]"}
    for number in range(2):
        folder = tmp_path / f"pictures-{number}"
        folder.mkdir()
        for i in range(2):
            (folder / f"{number}-{i}.png").write_bytes(png(10 * number + i))
        encode_here(tmp_path / f"codes-{number}", folder, settings={"size": 8, "cells": 2})
        make = tokenized([tmp_path / f"codes-{number}"], **config)
        grow(tmp_path / "tok", make)
        grow(tmp_path / "packed", packed(tmp_path / f"tok/parts/{number:05d}", seq_len=16))
    tokenized([tmp_path / "codes-0", tmp_path / "codes-1"], **config)(tmp_path / "plain")
    pictures = []
    for number in range(4):
        one, other = (
            shown(
                run_cli,
                "inspect",
                tmp_path / name,
                "--doc",
                number,
                "--media",
                tmp_path / f"m-{name}",
            )
            for name in ("tok", "plain")
        )
        assert one["origin"] == other["origin"]
        assert one["origin"]["media"] == f"{number // 2}-{number % 2}.png"
        data = [Path(found["media"][0]).read_bytes() for found in (one, other)]
        assert data[0] == data[1]
        pictures.append(data[0])
    assert len(set(pictures)) == 4
    found = shown(run_cli, "inspect", tmp_path / "packed", "--row", -1, "--media", tmp_path / "m")
    names = [segment["origin"]["media"] for segment in found["segments"]]
    of_part = {"1-0.png": pictures[2], "1-1.png": pictures[3]}
    assert [Path(path).read_bytes() for path in found["media"]] == [of_part[n] for n in names]


def test_values_are_read_from_files_that_were_appended_to(
    run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    shutil.copyfile(home / "a.jsonl", path)
    grow(tmp_path / "tok", tokenized([path], **CONFIG))
    grow(tmp_path / "packed", packed(tmp_path / "tok/parts/00000", seq_len=40))
    before = [shown(run_cli, "stats", tmp_path / n, "--by", "lang") for n in ("tok", "packed")]
    with open(path, "a") as file:
        file.write('{"q": "new", "text": "x", "lang": "it"}\n')
    after = [shown(run_cli, "stats", tmp_path / n, "--by", "lang") for n in ("tok", "packed")]
    assert before == after
    path.write_text(path.read_text().replace("alpha", "omega", 1))
    done = run_cli("stats", tmp_path / "packed", "--by", "lang", check=False)
    assert (done.code, "changed since it was tokenized" in done.stderr) == (3, True)


# --- packing what has grown ---


@pytest.mark.parametrize("strategy", ["best_fit", "concat", "pad"])
def test_a_grown_dataset_is_packed_as_its_parts_in_order(
    home: Path, tmp_path: Path, strategy: str
) -> None:
    config = {"seq_len": 64, "strategy": strategy, "shard_rows": 11}
    pack_here(tmp_path / "one", home / "tok", **config)
    pack_here(tmp_path / "many", *(home / path for path in parts_paths(home / "tok")), **config)
    for folder in ("shards", "index"):
        one, many = (
            {p.name: p.read_bytes() for p in (tmp_path / name / folder).iterdir()}
            for name in ("one", "many")
        )
        assert one == many
    one, many = (manifest_in(tmp_path / name) for name in ("one", "many"))
    assert {**one.counts} == {**many.counts}
    own, theirs = (origins_of(tmp_path / n, m) for n, m in (("one", one), ("many", many)))
    assert np.array_equal(own.runs, theirs.runs)
    assert [f.path for f in own.files] == [f.path for f in theirs.files]
    verify(tmp_path / "one")


def parts_paths(folder: Path) -> list[str]:
    return [f"tok/{path}" for path, _ in parts_in(folder)]


# --- verify ---


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    """Both datasets; the packed one has a part that took the place of another."""
    for name in ("tok", "packed"):
        shutil.copytree(home / name, tmp_path / name)
    return tmp_path


def replaced(home: Path) -> Path:
    """A packed dataset in which other rows took the place of those of the first part."""
    out = home / "packed"
    replace_part(out, 0, 1, packed(home / "tok/parts/00000", **{**PACK, "seed": 9}))
    return out


def test_whole_datasets_are_found_whole(run_cli: RunCli, copy: Path, home: Path) -> None:
    read = []
    for name in ("tok", "packed"):
        found, plain = verify(copy / name, read.append), verify(home / f"plain-{name}")
        assert (found.num_items, found.num_tokens) == (plain.num_items, plain.num_tokens)
        assert (found.kind, found.num_generations, found.unreadable) == (plain.kind, 3, ())
    assert sum(read) == bytes_of(copy / "tok") + bytes_of(copy / "packed")
    assert compare(copy / "tok", home / "tok") > 10
    out = replaced(copy)
    assert verify(out).num_generations == 4
    done = run_cli("verify", out, "--against", out)
    assert "118 rows" in done.stdout
    assert "4 generations" in done.stdout
    assert shown(run_cli, "verify", out)["num_generations"] == 4
    with pytest.raises(CorruptError, match=r"are not equal: generations/00003.json is not in"):
        compare(out, home / "packed")


def test_what_was_removed_or_is_left_of_a_killed_run_is_passed_over(
    run_cli: RunCli, copy: Path
) -> None:
    out = replaced(copy)
    shutil.rmtree(out / "parts/00000")
    assert verify(out).unreadable == (0, 1, 2)
    assert "4 generations (of 0, 1, 2, parts were removed)" in run_cli("verify", out).stdout
    (out / "generations/00001.json").unlink()
    assert (verify(out).num_generations, verify(out).unreadable) == (3, (0, 2))
    (out / "generations/00004.json").write_text("{}")  # killed before manifest.json
    (out / "manifest.json.tmp").write_text("{")
    (out / "parts/00003/.work").mkdir(parents=True)
    (out / "parts/00003/.work/dataprep-work").touch()
    shutil.copytree(out / "parts/00001", out / "parts/00004")  # whole, but of no generation
    (out / "parts/00005").mkdir()
    (out / ".work").mkdir()
    assert verify(out).num_generations == 3


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def shard_of(folder: Path) -> Path:
    return next((folder / "shards").glob("*.arrayrecord"))


def swap_manifest(out: Path) -> None:
    """An older generation as if it were the newest."""
    shutil.copyfile(out / "generations/00001.json", out / "manifest.json")


def older_with_counts(out: Path) -> None:
    """A generation with other values, whose checksum fits."""
    saved = (out / "manifest.json").read_bytes()
    shutil.copyfile(out / "generations/00001.json", out / "manifest.json")
    edit_manifest(out, lambda values: values["config"].update(workers=99))
    shutil.copyfile(out / "manifest.json", out / "generations/00001.json")
    (out / "manifest.json").write_bytes(saved)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a shard of a part": (lambda out: flip(shard_of(out / "parts/00001")), "parts/00001/shards/"),
    "one of an older part": (lambda out: flip(shard_of(out / "parts/00000")), "parts/00000/shards"),
    "a manifest of a part": (lambda out: flip(out / "parts/00001/manifest.json"), "parts/00001"),
    "another part": (
        lambda out: (
            shutil.rmtree(out / "parts/00001"),
            shutil.copytree(out / "parts/00002", out / "parts/00001"),
        ),
        "is not what the parts of .* join to",
    ),
    "a missing part": (lambda out: shutil.rmtree(out / "parts/00002"), "parts/00002"),
    "an older manifest": (swap_manifest, "no generation of the dataset"),
    "a missing generation": (
        lambda out: (out / "generations/00003.json").unlink(),
        "generations/00003.json|no manifest.json",
    ),
    "a damaged generation": (lambda out: flip(out / "generations/00000.json"), "00000.json"),
    "a generation of other values": (older_with_counts, "00001.json is not what the parts of"),
    "a generation under another number": (
        lambda out: shutil.copyfile(out / "generations/00000.json", out / "generations/00001.json"),
        "is not generation 1 of",
    ),
    "a foreign file": (lambda out: (out / "notes.txt").touch(), "notes.txt is of no generation"),
    "one among the parts": (lambda out: (out / "parts/notes").touch(), "parts/notes is of no"),
    "a foreign folder": (lambda out: (out / "parts/old").mkdir(), "parts/old is of no generation"),
    "one in a part": (lambda out: (out / "parts/00001/x").touch(), "parts/00001/x is not in"),
    "a foreign generation": (
        lambda out: (out / "generations/00007.json").touch(),
        "00007.json is of no generation",
    ),
    "a link to a part": (
        lambda out: (
            (out / "parts/00001").rename(out.with_name("elsewhere")),
            (out / "parts/00001").symlink_to(out.with_name("elsewhere")),
        ),
        "parts/00001 is a link",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_named(copy: Path, damage: str) -> None:
    out = replaced(copy)
    harm, message = DAMAGES[damage]
    harm(out)
    with pytest.raises(CorruptError, match=message):
        verify(out)


# --- log ---


def test_the_log_tells_when_and_what_came_in(run_cli: RunCli, copy: Path, home: Path) -> None:
    out = replaced(copy)
    for number in range(4):
        os.utime(out / f"generations/{number:05d}.json", (86400 * number, 86400 * number))
    found = shown(run_cli, "log", out)
    assert [one["generation"] for one in found] == [0, 1, 2, 3]
    assert found[2]["time"] == datetime(1970, 1, 3, tzinfo=UTC).isoformat()
    assert [one["rows"] for one in found] == [19, 78, 118, 118]
    assert [one["documents"] for one in found] == [19, 78, 118, 118]
    assert [[part["part"] for part in one["came"]] for one in found] == [
        ["parts/00000"],
        ["parts/00001"],
        ["parts/00002"],
        ["parts/00000-1"],
    ]
    assert [one["came"][0]["rows"] for one in found] == [19, 59, 40, 19]
    assert found[3]["came"][0]["instead_of"] == "parts/00000"
    assert found[1]["came"][0]["sources"] == [str(home / "tok/parts/00001")]
    for one in found:
        dataset = open_dataset(out, generation=one["generation"])
        assert (one["fingerprint"], one["tokens"]) == (
            dataset.about.fingerprint,
            dataset.about.counts["tokens"],
        )
    lines = run_cli("log", out).stdout.splitlines()
    assert max(map(len, lines)) <= int(PLAIN["COLUMNS"])
    (at,) = (i for i, line in enumerate(lines) if found[3]["fingerprint"][:19] in line)
    assert lines[at].split()[0] == "3"
    rows = found[3]["came"][0]["rows"]
    assert lines[at + 1].startswith(
        f"   parts/00000-1 instead of parts/00000: {rows} rows out of 19 documents"
    )
    assert [line.split()[0] for line in lines[1:] if line[0].isdigit()] == ["0", "1", "2", "3"]


def test_the_log_of_a_tokenized_dataset_names_files(run_cli: RunCli, home: Path) -> None:
    found = shown(run_cli, "log", home / "tok")
    assert [one["came"][0]["sources"] for one in found] == [
        [str(home / f"{name}.jsonl") for name in names] for names in PARTS
    ]
    assert [one["rows"] for one in found] == [None] * 3
    lines = run_cli("log", home / "tok").stdout.splitlines()
    (line,) = (line for line in lines if "parts/00001: " in line)
    assert line.startswith("   parts/00001: 59 documents of ")
    assert "rows" not in lines[0]


def test_a_dataset_that_never_grew_has_one_generation(run_cli: RunCli, home: Path) -> None:
    for name in ("plain-tok", "plain-packed"):
        (one,) = shown(run_cli, "log", home / name)
        assert (one["generation"], one["came"][0]["part"]) == (0, "")
        assert one["documents"] == 118
        lines = run_cli("log", home / name).stdout.splitlines()
        assert [line.split()[0] for line in lines[1:] if not line.startswith("  ")] == ["0"]


def test_the_log_says_what_cannot_be_read_any_more(run_cli: RunCli, copy: Path) -> None:
    out = replaced(copy)
    shutil.rmtree(out / "parts/00000")
    (out / "generations/00001.json").unlink()
    found = shown(run_cli, "log", out)
    assert [(one["generation"], one["missing"]) for one in found] == [
        (0, ["parts/00000"]),
        (2, ["parts/00000"]),
        (3, []),
    ]
    assert [part["part"] for part in found[1]["came"]] == ["parts/00001", "parts/00002"]
    done = run_cli("stats", out, "--generation", 0, check=False)
    assert (done.code, "cannot be read any more" in done.stderr) == (2, True)
    assert "parts/00000 was removed" in run_cli("log", out).stdout
