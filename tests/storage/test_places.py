"""Folders that are named as datasets and cannot be meant: usage errors that name what is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import RunCli, Sample
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.sources import find_sources


@pytest.fixture
def packed(run_cli: RunCli, sample: Sample, tmp_path: Path) -> Path:
    run_cli("tokenize", sample.text, "--tokenizer", "bytes", "--out", "d/tokenized", "--limit", "5")
    run_cli("pack", "d/tokenized", "--seq-len", "64", "--out", "d/packed")
    return tmp_path / "d" / "packed"


def commands(name: str, packed: Path) -> list[list[str]]:
    return [
        ["inspect", name],
        ["inspect", name, "--step", "0", "--batch-size", "2"],
        ["stats", name],
        ["verify", name],
        ["verify", str(packed), "--against", name],
        ["pack", name, "--seq-len", "8", "--out", "new"],
    ]


def test_a_misspelt_folder_is_a_usage_error_that_names_the_near_one(
    run_cli: RunCli, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw.jsonl").write_text("{}\n")
    for name, message in (
        ("d/pakced", "d/pakced does not exist; did you mean d/packed?"),
        ("d", "d is not a dataset, but holds some: d/packed, d/tokenized; name one"),
        ("raw.jsonl", "raw.jsonl is a file, not the folder of a dataset; of raw data, dataprep to"),
        ("ftp://b/packed", "ftp://b/packed is neither on a local disk nor in a bucket"),
    ):
        for words in commands(name, packed):
            done = run_cli(*words, check=False)
            assert (done.code, message in done.stderr) == (2, True), (words, done.stderr)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError, match=message[:40].replace("?", r"\?")):
            open_dataset(name)
        with pytest.raises(ConfigError, match=message[:40].replace("?", r"\?")):
            DataLoader({"a": (name, 1), "b": (packed, 1)}, batch_size=2)


def test_a_misspelt_input_or_config_names_the_near_one(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.parquet").touch()
    with pytest.raises(InputError, match=r"raw/a.parqet does not exist; .* raw/a.parquet\?$"):
        find_sources("raw/a.parqet")
    with pytest.raises(InputError, match=r"rww/a.parquet does not exist; .* raw/a.parquet\?$"):
        find_sources("rww/a.parquet")
    with pytest.raises(InputError, match=r"nothing-like-it does not exist$"):
        find_sources("nothing-like-it")
    (tmp_path / "mine.yaml").write_text("fields: text\n")
    for name, near in (("lwmm", "lwm"), ("mine.yml", "mine.yaml")):
        done = run_cli("tokenize", "x", "-c", name, check=False)
        assert done.code == 2
        assert f"did you mean {near}?" in done.stderr
