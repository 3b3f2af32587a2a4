"""Files that are not what their name says: the message tells what they are and what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from conftest import RunCli
from support.installed import COMMAND

LINES = b'{"text": "one"}\n{"text": "two"}\n'
COMPRESSORS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "gzip": (gzip.compress, "gz"),
    "zstd": (zstandard.compress, "zst"),
    "xz": (lzma.compress, "xz"),
    "bzip2": (bz2.compress, "bz2"),
}


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("ending", ["jsonl", "csv", "txt", "json"])
def test_compressed_bytes_under_a_plain_name_are_told_with_the_right_one(
    run_cli: RunCli, tmp_path: Path, name: str, ending: str
) -> None:
    compress, right = COMPRESSORS[name]
    file = tmp_path / f"a.{ending}"
    file.write_bytes(compress(b"text\none\n" if ending == "csv" else LINES))
    words = ("--tokenizer", "bytes", "--out", tmp_path / "out", "--on-error", "skip")
    done = run_cli("tokenize", file, *words, check=False)
    assert done.code == 3
    told = f"{file} is compressed by {name}, which its name does not say; rename it to end in "
    assert f"{told}.{ending}.{right}" in done.stderr
    renamed = file.rename(tmp_path / f"a.{ending}.{right}")
    run_cli("tokenize", renamed, *words)


def test_a_file_that_is_compressed_twice_is_told(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(gzip.compress(LINES)))
    words = ("tokenize", "a.jsonl.gz", "--tokenizer", "bytes", "--out", "out")
    done = run_cli(*words, check=False)
    assert done.code == 3
    assert "is compressed by gzip twice; decompress it once: gzip -dc IN > OUT" in done.stderr


@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressed_stdin_is_told_with_the_pipe_to_put_before(tmp_path: Path, name: str) -> None:
    compress, _ = COMPRESSORS[name]
    words = [*COMMAND, "tokenize", "-", "--tokenizer", "bytes", "--out", str(tmp_path / "out")]
    done = subprocess.run(words, input=compress(LINES), capture_output=True, check=False)
    assert done.returncode == 3
    told = f"stdin (-) is compressed by {name}, but must be JSONL; decompress it on the way: {name}"
    assert f"{told} -dc < IN | dataprep tokenize - …" in done.stderr.decode()


def test_a_text_that_begins_like_bzip2_is_a_text(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BZh9 is how bzip2 begins")
    run_cli("tokenize", "a.txt", "--tokenizer", "bytes", "--out", "out")


@pytest.mark.parametrize(
    ("name", "header", "told"),
    [
        ("a.csv", "id;text;label", "separated by semicolons, but .csv means commas (row 1: 'id;te"),
        ("a.csv", "id\ttext", "separated by tabs, but .csv means commas (row 1: 'id\\ttext'); re"),
        ("a.tsv", "id,text", "(row 1: 'id,text'); rename it to end in .csv"),
        ("a.tsv", "id|text", "separated by bars, but .tsv means tabs"),
    ],
)
def test_a_table_with_another_separator_is_told(
    run_cli: RunCli, tmp_path: Path, name: str, header: str, told: str
) -> None:
    (tmp_path / name).write_text(f"{header}\n")
    words = ("tokenize", name, "--tokenizer", "bytes", "--out", "out", "--allow-empty")
    done = run_cli(*words, check=False)
    assert done.code == 3
    assert told in done.stderr


def test_the_command_that_converts_semicolons_works(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;text\n1;"one, two"\n')
    words = ("--tokenizer", "bytes", "--out", "out")
    said = run_cli("tokenize", "a.csv", *words, check=False).stderr
    command = said[said.index("python3 -c") :].strip()
    command = command.replace("< IN", "< a.csv").replace("> OUT", "> b.csv")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    run_cli("tokenize", "b.csv", *words)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["counts"]["tokens"] == len("one, two") + 2


def test_a_missing_column_of_a_good_table_is_told_as_before(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,body;x\n1,2\n")
    words = ("tokenize", "a.csv", "--tokenizer", "bytes", "--out", "out")
    assert "column 'text' not in " in run_cli(*words, check=False).stderr
