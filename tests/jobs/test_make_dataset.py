"""One skeleton for three commands: what tokenize, pack and encode have in common holds for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli, Sample
from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode import encode
from dataprep.pipeline.encode import plan as encode_plan
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import read_sealed, write_sealed
from dataprep.pipeline.jobs import commits
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.media import find as media_find
from support.encoding import encode_here, png
from support.manifests import edit_manifest
from support.trees import tree


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    (folder / "sub").mkdir(parents=True)
    for i, name in enumerate(["a.png", "b.png", "sub/c.png"]):
        (folder / name).write_bytes(png(i))
    return folder


# --- the same content under another name ----------------------------------------------------------


def test_a_complete_dataset_says_if_its_inputs_have_other_names_now(
    run_cli: RunCli, tmp_path: Path
) -> None:
    """It is known by its content, and says where that was when it was made."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": name}))
    words = ("tokenize", "--tokenizer", "bytes", "--out", "tok")
    run_cli(*words, "a.jsonl", "b.jsonl")
    assert run_cli(*words, tmp_path / "a.jsonl", "./b.jsonl").stdout.count("\n") == 1
    (tmp_path / "a.jsonl").rename(tmp_path / "c.jsonl")
    said = run_cli(*words, "c.jsonl", "b.jsonl").stdout
    assert said.startswith("nothing to do: tok is complete")
    assert "a.jsonl is now " in said
    assert "c.jsonl; --overwrite makes it again" in said
    shown = json.loads(run_cli(*words, "c.jsonl", "b.jsonl", "--json").stdout)
    assert [Path(path).name for path in (*shown["moved"], *shown["moved"].values())] == [
        "a.jsonl",
        "c.jsonl",
    ]
    run_cli("pack", "tok", "--seq-len", "4", "--out", "p")
    (tmp_path / "tok").rename(tmp_path / "tok2")
    assert "tok is now tok2" in run_cli("pack", "tok2", "--seq-len", "4", "--out", "p").stdout
    run_cli(*words[:-1], "tok2", "c.jsonl", "b.jsonl", "--overwrite")
    assert "c.jsonl" in run_cli("inspect", "tok2", "--doc", "0").stdout


# --- an output that is, holds or lies in an input -------------------------------------------------


@pytest.mark.parametrize("out", ["pictures", "pictures/codes", "pictures/sub", "."])
@pytest.mark.parametrize("overwrite", [False, True])
def test_encode_refuses_an_output_that_overlaps_its_input_and_removes_nothing(
    run_cli: RunCli, pictures: Path, tmp_path: Path, out: str, overwrite: bool
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (pictures / "manifest.json").write_text("{}")  # so that it looks like something of ours
    (pictures / "shards").mkdir()
    (pictures / "shards" / "mine.txt").write_text("keep")
    before = tree(tmp_path)
    flags = ("--overwrite",) if overwrite else ()
    words = ("encode", pictures, "--encoder", "patches", "--out", tmp_path / out, *flags)
    done = run_cli(*words, check=False)
    assert done.code == 2, done.stderr
    assert "--out" in done.stderr
    assert "input" in done.stderr or "did not write" in done.stderr
    assert tree(tmp_path) == before


def test_encode_of_a_glob_refuses_the_folder_that_its_files_are_in(
    run_cli: RunCli, pictures: Path
) -> None:
    (pictures / "sub" / "manifest.json").write_text("{}")
    words = ("encode", f"{pictures}/*/*.png", "--encoder", "patches", "--out", pictures / "sub")
    done = run_cli(*words, "--overwrite", check=False)
    assert done.code == 2
    assert "is or holds the input" in done.stderr
    assert (pictures / "sub" / "c.png").exists()


def test_pack_refuses_its_own_input_as_output(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    tokenized = tmp_path / "tokenized"
    run_cli("tokenize", sample.text, "--tokenizer", sample.tokenizer, "--out", tokenized)
    before = tree(tokenized)
    for out in (tokenized, tmp_path, tokenized / "packed", tokenized / ".work"):
        done = run_cli(
            "pack", tokenized, "--seq-len", "8", "--out", out, "--overwrite", check=False
        )
        assert done.code == 2
    assert tree(tokenized) == before


# --- results that are nothing ---------------------------------------------------------------------


def test_encode_of_bad_records_alone_is_an_error(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "in" / name).write_bytes(b"none")
    words = ("encode", tmp_path / "in", "--encoder", "patches", "--on-error", "skip", "--out")
    done = run_cli(*words, tmp_path / "out", check=False)
    assert done.code == 3
    assert "the inputs hold 2 records, but none gave a document (2 bad, 0 empty)" in done.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = run_cli(*words, tmp_path / "out", "--allow-empty")
    assert done.code == 0


# --- planned once, markers read once --------------------------------------------------------------


def test_encode_plans_once_and_reads_a_table_once_for_what_it_names(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t.jsonl"
    table.write_text(f'{{"image": "{pictures.name}/a.png"}}\n')
    calls: list[str] = []

    def counting(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return function(*args)

        monkeypatch.setattr(module, name, call)

    counting(encode_plan, "_make_tasks")
    counting(media_find, "referenced_paths")
    values = {"inputs": [str(table)], "encoder": "patches", "out": str(tmp_path / "out")}
    encode(EncodeConfig.model_validate(values), cache_dir=tmp_path / "cache")
    assert sorted(calls) == ["_make_tasks", "referenced_paths"]


def test_the_parent_reads_each_marker_once(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    read_markers = commits.read_markers

    def counting(stem: Path, kind: Any) -> Any:
        markers = read_markers(stem, kind)
        found.append(len(markers))
        return markers

    monkeypatch.setattr(commits, "read_markers", counting)
    values = {"inputs": [str(pictures)], "encoder": "patches", "out": str(tmp_path / "out")}
    encode(EncodeConfig.model_validate(values), cache_dir=tmp_path / "cache")
    assert sum(found) == 1  # of the one task, when it was done


# --- pack is shaped like the others ---------------------------------------------------------------


def test_pack_takes_its_inputs_and_its_output_from_the_config(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    run_cli("tokenize", sample.text, "--tokenizer", sample.tokenizer, "--out", tmp_path / "t")
    pack = {"inputs": [str(tmp_path / "t")], "out": str(tmp_path / "packed"), "seq_len": 128}
    (tmp_path / "c.yaml").write_text(json.dumps({"pack": pack}))
    run_cli("pack", "--config", tmp_path / "c.yaml")
    run_cli("pack", tmp_path / "t", "--seq-len", "128", "--out", tmp_path / "by_flags")
    assert tree(tmp_path / "packed") == tree(tmp_path / "by_flags")
    assert (
        "inputs"
        not in json.loads((tmp_path / "packed" / "manifest.json").read_text())["config"]["pack"]
    )


def test_pack_without_inputs_says_so(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("pack", "--out", tmp_path / "out", check=False)
    assert done.code == 2
    assert "no tokenized dataset" in done.stderr


def test_a_dry_run_of_pack_tells_what_it_would_make_and_writes_nothing(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    tokenized = tmp_path / "t"
    run_cli("tokenize", sample.text, "--tokenizer", sample.tokenizer, "--out", tokenized)
    before = tree(tmp_path)
    words = ("pack", tokenized, "--seq-len", "128", "--out", tmp_path / "packed")
    told = json.loads(run_cli(*words, "--dry-run", "--json").stdout)
    assert "nothing written" in run_cli(*words, "--dry-run").stdout
    assert tree(tmp_path) == before
    counts = json.loads(run_cli(*words, "--json").stdout)["counts"]
    assert (told["rows"], told["padding"]) == (counts["rows"], counts["padding"])


# --- verify is as thorough for codes as for tokens ------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["counts"].update(codes=1), "its codes is 1, but its parts add up to"),
        (lambda m: m["counts"].update(documents_written=1), "its documents_written is 1"),
        (lambda m: m["sources"][0].update(written=1), "add up"),
        (lambda m: m["shards"][0].update(num_records=1), "add up to 1"),
        (lambda m: m["shards"][0].update(num_tokens=1), "add up to 1"),
        (lambda m: m["encoder"].update(codebook_size=2), "outside 0..1"),
        (lambda m: m["encoder"].update(tokens_per_frame=100), "its frames is 3, but its parts"),
        (lambda m: m["encoder"].pop("codebook_size"), "codebook_size"),
        (lambda m: m["shards"][0].update(num_bytes="7"), "num_bytes"),
        (lambda m: m["shards"][0].update(num_records=-1), "num_records"),
        (lambda m: m["shards"][0].update(num_records=10**30), "num_records"),
        (lambda m: m["counts"].update(codes=True), "counts"),
        (lambda m: m.update(masks=["unknown"]), "unknown"),
    ],
)
def test_a_changed_manifest_of_codes_is_found(
    pictures: Path, tmp_path: Path, change: Any, message: str
) -> None:
    encode_here(tmp_path / "out", pictures)
    verify(tmp_path / "out")
    edit_manifest(tmp_path / "out", change)
    with pytest.raises(CorruptError, match=message):
        verify(tmp_path / "out")


def test_a_dataset_with_a_config_key_of_another_version_is_whole(
    pictures: Path, tmp_path: Path
) -> None:
    encode_here(tmp_path / "out", pictures)
    edit_manifest(tmp_path / "out", lambda m: m["config"].update(from_the_future=1))
    verify(tmp_path / "out")


def test_an_unfinished_run_of_another_version_is_not_continued(
    run_cli: RunCli, pictures: Path, tmp_path: Path
) -> None:
    (pictures / "bad.png").write_bytes(b"none")
    words = ("encode", pictures, "--encoder", "patches", "--out", tmp_path / "out")
    assert run_cli(*words, check=False).code == 3
    identity = tmp_path / "out" / ".work" / "identity.json"
    begun = json.loads(read_sealed(identity) or b"")
    write_sealed(identity, json.dumps({**begun, "work_version": 1}).encode())
    (identity.parent / "tasks" / "000000-0000.done").touch()  # something was committed
    done = run_cli(*words, "--on-error", "skip", check=False)
    assert done.code == 4
    assert "another version of dataprep" in done.stderr
    run_cli(*words, "--on-error", "skip", "--overwrite")


def test_of_two_errors_in_small_files_the_first_is_told(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": [3]}\n')
    (tmp_path / "in" / "b.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00cut")
    words = ("tokenize", tmp_path / "in", "--tokenizer", "bytes", "--out", tmp_path / "out")
    done = run_cli(*words, check=False)
    assert done.code == 3
    assert "a.jsonl" in done.stderr


def test_a_file_that_the_manifest_of_codes_does_not_know_is_found(
    pictures: Path, tmp_path: Path
) -> None:
    encode_here(tmp_path / "out", pictures)
    (tmp_path / "out" / "shards" / "other.parquet").write_bytes(b"")
    with pytest.raises(CorruptError, match=r"other\.parquet is not in the manifest"):
        verify(tmp_path / "out")


def test_a_checksum_that_does_not_fit_is_found(pictures: Path, tmp_path: Path) -> None:
    encode_here(tmp_path / "out", pictures)
    path = tmp_path / "out" / "manifest.json"
    path.write_text(path.read_text().replace('"name": "patches"', '"name": "patched"'))
    with pytest.raises(CorruptError, match="was edited"):
        verify(tmp_path / "out")
