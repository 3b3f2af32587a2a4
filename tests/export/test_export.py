"""How exports are made: refused, resumed, repeated, checked; of generations; by the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

import dataprep
from conftest import RunCli
from dataprep.configs.base import ExportName
from dataprep.pipeline.errors import (
    ConfigError,
    ConflictError,
    CorruptError,
    DataprepError,
)
from dataprep.pipeline.export.formats import EXPORTS
from dataprep.pipeline.export.plan import look_at
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.storage.manifest import kind_of
from support.exporting import Home, export_here, manifest_of, megatron_documents
from support.grown import grow, tokenized
from support.inprocess import tokenize_here, write_lines
from support.killable import Killed, dying
from support.nights import EOS
from support.trees import tree

SMALL = 1 << 16
NEEDS: dict[str, dict[str, Any]] = {"maxtext": {"max_length": 64}, "xlstm": {"max_length": 64}}


def test_the_table_and_the_config_name_the_same_formats() -> None:
    assert list(EXPORTS) == list(get_args(ExportName))


@pytest.mark.parametrize("to", list(EXPORTS))
def test_masks_are_carried_or_refused(home: Home, tmp_path: Path, to: str) -> None:
    """Never lost without a word."""
    rich = home.rich if "tokenized" in EXPORTS[to].kinds else home.packed_rich
    options = NEEDS.get(to, {})
    if {"loss", "weight", "vision"} <= EXPORTS[to].masks:
        assert manifest_of(export_here(tmp_path / "out", rich, to, **options)).masks == (
            *("loss", "vision", "weight"),
        )
        return
    with pytest.raises(ConfigError, match=r"cannot carry .*--drop-masks") as raised:
        export_here(tmp_path / "out", rich, to, **options)
    assert ": 0 tokens" not in str(raised.value)
    assert not (tmp_path / "out").exists()
    outcome = export_here(tmp_path / "out", rich, to, drop_masks=True, **options)
    assert {*manifest_of(outcome).masks} <= {"loss"}


def test_a_loss_that_only_the_data_shows_is_refused(tmp_path: Path) -> None:
    """A few tokens without loss among many documents, which counts cannot tell from BOS."""
    records: list[Any] = [{"q": "", "a": "x" * 50}] * 500
    records[7] = {"q": "why", "a": "because"}
    source = str(write_lines(tmp_path / "a.jsonl", records))
    values = {"inputs": [source], "tokenizer": "bytes", "fields": "[q],a", "add_bos": False}
    tokenize_here(tmp_path / "in", **values)
    with pytest.raises(ConfigError, match=r"2 tokens .* no loss.*--drop-masks"):
        export_here(tmp_path / "out", tmp_path / "in", "megatron")
    export_here(tmp_path / "out", tmp_path / "in", "megatron", drop_masks=True)


@pytest.mark.parametrize("to", list(EXPORTS))
def test_a_kind_that_cannot_be_exported_is_refused_with_a_cure(
    home: Home, tmp_path: Path, to: str
) -> None:
    for kind, folder in (("tokenized", home.plain), ("packed", home.packed)):
        if kind not in EXPORTS[to].kinds:
            with pytest.raises(ConfigError, match=rf"is {kind}, which --to {to} cannot take: .*:"):
                export_here(tmp_path / "out", folder, to)


def test_what_is_missing_is_named(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs --max-length"):
        export_here(tmp_path / "out", home.plain, "maxtext")
    with pytest.raises(ConfigError, match="no format; set to=…, one of: maxtext"):
        dataprep.export(dataset=home.plain, out=tmp_path / "out")
    with pytest.raises(ConfigError, match="no dataset"):
        dataprep.export(to="hf", out=tmp_path / "out")
    with pytest.raises(ConfigError, match=r"header llm\.c has no effect without to nanogpt"):
        dataprep.export(dataset=home.plain, to="hf", header="llm.c", out=tmp_path / "out")
    with pytest.raises(ConfigError, match="lies in the input"):
        export_here(home.plain / "out", home.plain, "megatron")


def test_a_run_that_dies_anywhere_is_continued_to_the_same_bytes(
    home: Home, tmp_path: Path
) -> None:
    export_here(tmp_path / "whole", home.masked, "datatrove", shard_bytes=SMALL)
    wanted, out = tree(tmp_path / "whole"), tmp_path / "out"
    dies_at, deaths = 1, 0
    while True:
        try:
            with dying(dies_at):
                export_here(out, home.masked, "datatrove", shard_bytes=SMALL)
            break
        except Killed:
            deaths, dies_at = deaths + 1, dies_at + 7
    assert deaths > 5
    assert tree(out) == wanted
    assert export_here(out, home.masked, "datatrove", shard_bytes=SMALL).was_complete


def test_another_format_or_dataset_is_a_conflict_until_it_is_overwritten(
    home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export_here(out, home.masked, "hf")
    (out / "data" / "own.txt").write_text("mine")
    with pytest.raises(ConflictError, match="to: 'hf' -> 'mds'"):
        export_here(out, home.masked, "mds")
    with pytest.raises(ConfigError, match=r"data/own\.txt, which dataprep did not write"):
        export_here(out, home.masked, "mds", overwrite=True)
    (out / "data" / "own.txt").unlink()
    export_here(out, home.masked, "mds", overwrite=True)
    assert sorted(path.name for path in out.iterdir()) == [
        *("README.md", "index.json", "manifest.json", "shard.00000.mds"),
    ]


def test_files_of_others_are_left_alone(home: Home, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.bin").write_text("mine")
    with pytest.raises(ConfigError, match=r"train\.bin, which dataprep did not write"):
        export_here(tmp_path / "out", home.plain, "nanogpt")
    assert (tmp_path / "out" / "train.bin").read_text() == "mine"


@pytest.mark.parametrize("to", list(EXPORTS))
def test_verify_finds_any_damage(home: Home, tmp_path: Path, to: str) -> None:
    out, kinds = tmp_path / "out", EXPORTS[to].kinds
    folder = home.plain if "tokenized" in kinds else home.packed
    outcome = export_here(out, folder, to, **NEEDS.get(to, {}))
    assert kind_of(out) == "exported"
    found = verify(out)
    assert found.num_tokens == manifest_of(outcome).counts["tokens"] > 0
    for name in [name for name in tree(out) if name != "manifest.json"]:
        whole = (out / name).read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1
        (out / name).write_bytes(damaged)
        with pytest.raises(CorruptError, match="damaged"):
            verify(out)
        (out / name).write_bytes(whole)
    (out / "more.txt").write_text("")
    with pytest.raises(CorruptError, match="not in the manifest"):
        verify(out)


def test_damaged_input_is_refused(home: Home, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home.plain, tmp_path / "in"))
    shard = sorted((copy / "shards").iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptError, match="damaged"):
        export_here(tmp_path / "out", copy, "olmo", shard_bytes=SMALL)


@pytest.mark.parametrize("to", list(EXPORTS))
def test_load_dataset_gives_records_or_an_error_and_never_the_manifest(
    home: Home, tmp_path: Path, to: str
) -> None:
    from datasets import load_dataset

    folder = home.plain if "tokenized" in EXPORTS[to].kinds else home.packed
    outcome = export_here(tmp_path / "out", folder, to, **NEEDS.get(to, {}))
    if to in ("hf", "megatron-bridge"):
        found = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
        assert found["train"].num_rows == manifest_of(outcome).counts["records"]
        return
    with pytest.raises(FileNotFoundError, match=f"files of {to}, which datasets cannot load"):
        load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))


def test_a_generation_is_exported(tmp_path: Path) -> None:
    sources = [
        write_lines(tmp_path / f"{n}.jsonl", [{"text": f"{n} {i}"} for i in range(20)])
        for n in range(2)
    ]
    for source in sources:
        grow(tmp_path / "grown", tokenized([source]))
    for generation, count in ((0, 20), (1, 40), (None, 40)):
        out = tmp_path / f"out-{generation}"
        export_here(out, tmp_path / "grown", "megatron", generation=generation)
        (prefix,) = [p.with_suffix("") for p in (out / "shards").glob("*.bin")]
        assert len(megatron_documents(prefix)) == count
    assert tree(tmp_path / "out-1") == tree(tmp_path / "out-None")
    with pytest.raises(ConfigError, match="generation 2"):
        export_here(tmp_path / "out", tmp_path / "grown", "megatron", generation=2)


def test_an_export_is_no_dataset_to_train_on(home: Home, tmp_path: Path, run_cli: RunCli) -> None:
    export_here(tmp_path / "out", home.plain, "olmo")
    for words in ((), ("--by", "file")):
        done = run_cli("stats", tmp_path / "out", *words, check=False)
        said = f"olmo; stats are of the dataset that it was made from, {home.plain}\n"
        assert done.stderr.endswith(f"out is an export to {said}")
    with pytest.raises(ConfigError, match="is an export to olmo; open the dataset"):
        dataprep.open_dataset(tmp_path / "out")
    with pytest.raises(DataprepError, match="only tokenized and packed"):
        export_here(tmp_path / "again", tmp_path / "out", "hf")


def test_documents_without_an_end_are_told(tmp_path: Path) -> None:
    source = str(write_lines(tmp_path / "a.jsonl", [{"text": "ab"}] * 5))
    values = {"inputs": [source], "tokenizer": "bytes", "add_eos": False}
    tokenize_here(tmp_path / "in", **values)
    outcome = export_here(tmp_path / "out", tmp_path / "in", "megatron")
    (note,) = outcome.found.notes
    assert note == (
        "EOS is missing at the end of 5 documents of 5: megatron tells documents apart by it; "
        "tokenize with --add-eos"
    )


def test_masks_that_the_usual_trainer_does_not_read_are_told(home: Home, tmp_path: Path) -> None:
    """They go along, but it would learn rejected answers, and what has no loss or little."""
    pair = {"prompt": "why?", "chosen": "so", "rejected": "no"}
    source = str(write_lines(tmp_path / "a.jsonl", [pair] * 9))
    values = {"inputs": [source], "tokenizer": "bytes", "objective": {"kind": "preference"}}
    tokenize_here(tmp_path / "pairs", **values)
    told = {
        ("hf", home.masked): [],
        ("hf", home.rich): ["loss_weights"],
        ("hf", tmp_path / "pairs"): ["rejected_mask"],
        ("mds", home.plain): [],  # only BOS has no loss
        ("mds", home.packed): [],
        ("mds", home.packed_rich): ["loss_mask", "loss_weights"],
    }
    for number, ((to, folder), columns) in enumerate(told.items()):
        notes = export_here(tmp_path / str(number), folder, to).found.notes
        assert [note.split()[0] for note in notes if "not read, so that" in note] == columns
        if "rejected_mask" in columns:
            assert "rejected answers are learned as chosen ones are" in notes[0]


def test_ends_that_the_trainer_will_not_add_are_told(tmp_path: Path) -> None:
    """xlstm-jax adds EOS to what is shorter than a piece."""
    ids = [{"ids": [1, 2, 3, 4, EOS]}, {"ids": [1, 2, 3, EOS]}, {"ids": [EOS]}]
    source = str(write_lines(tmp_path / "a.jsonl", ids))
    values = {"inputs": [source], "tokenizer": "bytes", "pretokenized": "ids"}
    tokenize_here(tmp_path / "in", **values)
    outcome = export_here(tmp_path / "out", tmp_path / "in", "xlstm", max_length=4)
    (note,) = outcome.found.notes
    assert note.startswith("the EOS of 1 document is lost: ")
    counts = manifest_of(outcome).counts
    assert (counts["ends_cut"], counts["ends_lost"], counts["left_out"]) == (3, 1, 1)


def test_the_command_says_how_to_train(home: Home, tmp_path: Path, run_cli: RunCli) -> None:
    words = ["export", str(home.packed_masked), "--to", "hf", "--out", str(tmp_path / "out")]
    planned = run_cli(*words, "--dry-run")
    assert "masks: loss" in planned.stdout
    assert not (tmp_path / "out").exists()
    done = run_cli(*words, "-j", "2", "--json")
    found = json.loads(done.stdout)
    assert found["counts"]["records"] == manifest_rows(home.packed_masked)
    assert found["usage"][0].startswith("datasets.load_dataset(")
    assert "nothing to do" in run_cli(*words).stdout


def manifest_rows(folder: Path) -> int:
    from dataprep.configs.export import ExportConfig

    return look_at(ExportConfig(dataset=str(folder), to="hf")).manifest.counts["rows"]
