"""Records that a Python program hands over: the dataset of a file with the same lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow as pa
import pytest

import dataprep
from conftest import PLAIN
from dataprep.configs.tokenize import InputConfig
from support.trees import tree

RECORDS: list[dict[str, Any]] = [{"text": f"line {i} – ü", "lang": "de"} for i in range(300)]


@pytest.fixture(autouse=True)
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where records are kept; nothing may be left there."""
    folder = tmp_path / "spools"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield folder
    assert os.listdir(folder) == []


def made(out: Path, inputs: Any, **settings: Any) -> Any:
    return dataprep.tokenize(
        inputs=inputs,
        tokenizer="bytes",
        out=out,
        **{"workers": 1, "add_bos": False, "add_eos": False, **settings},
    )


def texts_of(out: Path) -> list[str]:
    return [dataprep.detokenize(d["tokens"], "bytes") for d in dataprep.open_dataset(out)]


def test_records_give_the_shards_of_a_file_with_the_same_lines(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS)
    file.write_text("".join(lines), encoding="utf-8")
    of_file = made(tmp_path / "file", str(file)).manifest
    given: dict[str, Any] = {
        "list": [RECORDS],
        "iterator": [iter(RECORDS)],
        "alone": (record for record in RECORDS),
        "hub": [datasets.Dataset.from_list(RECORDS)],
        "hub alone": datasets.Dataset.from_list(RECORDS),
        "stream": [datasets.Dataset.from_list(RECORDS).to_iterable_dataset()],
        "table": [pa.Table.from_pylist(RECORDS)],
        "with settings": [{"path": RECORDS, "fields": "text"}],
    }
    for name, inputs in given.items():
        manifest = made(tmp_path / name, inputs).manifest
        assert manifest.sources[0].path == "python:0"
        assert manifest.sources[0].fingerprint == of_file.sources[0].fingerprint, name
        if name != "with settings":
            assert manifest.fingerprint == of_file.fingerprint, name
        assert manifest.shards == of_file.shards, name


def test_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    many = [{"text": f"{i} " * 400} for i in range(6000)]  # several tasks
    for workers in (1, 2):
        made(tmp_path / str(workers), [many], workers=workers)
    assert tree(tmp_path / "1") == tree(tmp_path / "2")


def test_the_same_records_again_find_the_dataset_and_others_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "out", [RECORDS])
    assert made(tmp_path / "out", [iter(RECORDS)]).was_complete
    with pytest.raises(dataprep.ConflictError, match="python:0 changed"):
        made(tmp_path / "out", [RECORDS[1:]])
    with pytest.raises(dataprep.ConflictError):
        made(tmp_path / "out", [RECORDS, RECORDS])


def test_texts_are_records(tmp_path: Path) -> None:
    made(tmp_path / "out", [["one", "two"], "synthetic:text?n=1", ["three"]])
    texts = texts_of(tmp_path / "out")
    assert (texts[:2], texts[3]) == (["one", "two"], "three")


def test_a_selection_of_a_dataset_keeps_its_order(tmp_path: Path) -> None:
    chosen = datasets.Dataset.from_list(RECORDS).select([5, 3, 4]).map(lambda r: {"n": 1})
    made(tmp_path / "out", [chosen])
    assert texts_of(tmp_path / "out") == [RECORDS[i]["text"] for i in (5, 3, 4)]


def test_values_of_many_kinds_are_read(tmp_path: Path) -> None:
    codes = np.arange(256, dtype=np.uint16)
    records = [
        {"vision": codes, "text": "a", "seen": date(2025, 1, 2), "score": np.float32(0.5)},
        {"vision": codes.astype("<i4").tobytes(), "text": "a", "file": Path("x")},
        {"vision": codes.tolist(), "text": "a", "nan": float("nan"), "half": "\ud800"},
    ]
    made(tmp_path / "out", [records], fields="[vision],text")
    rows = [d["tokens"].tolist() for d in dataprep.open_dataset(tmp_path / "out")]
    assert len(rows) == 3
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([[{"text": "a"}, 7]], "record 2 of python:0 is 7; give mappings"),
        ([["a"], [{"text": {1, 2}}]], "record 1 of python:1 cannot be written as JSON: .* set"),
        ([[{1: "a"}]], "record 1 of python:0 has the key 1; keys must be texts"),
        (
            datasets.DatasetDict({"val": datasets.Dataset.from_list([{"text": "a"}])}),
            r"several splits \(val\); .* inputs=\[splits\['val'\]\]",
        ),
        ([{"text": "a"}], r"no path \(keys: text\); if it is a record.*inputs=\[records\]"),
        ([{"one", "two"}], "a set, which has no order"),
        ([pandas.DataFrame({"text": ["a"]})], r"is a data frame; give its records"),
        ([[]], "no record"),
        ([[{"body": "a"}]], "line 1 of python:0.*'text'.*keys: body"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, inputs: Any, said: str) -> None:
    with pytest.raises(dataprep.DataprepError, match=said):
        made(tmp_path / "out", inputs)


def test_an_error_of_the_program_is_its_own(tmp_path: Path) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        made(tmp_path / "out", [broken()])
    assert not (tmp_path / "out").exists()


def test_configs_of_inputs_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    made(tmp_path / "out", [InputConfig(path=str(tmp_path / "a.jsonl"))])
    assert texts_of(tmp_path / "out") == ["a"]


PROGRAM = """
import os, resource, sys, dataprep
records = ({"text": "%d " % i * 400} for i in range(int(sys.argv[2])))
seen = []
def report(what, values):
    seen.append(what)
    if seen.count("progress") > 8 and "kill" in sys.argv:
        os.kill(os.getpid(), 9)
made = dataprep.tokenize(inputs=[records], tokenizer="bytes", out=sys.argv[1], workers=1,
                         report=report, shard_bytes=1 << 20)
print(made.was_complete, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def program(out: Path, count: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(out), str(count), *words],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **PLAIN},
        timeout=240,
        check=False,
    )


def test_a_killed_program_goes_on_with_the_same_records(tmp_path: Path, spools: Path) -> None:
    killed = program(tmp_path / "out", 4000, "kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()
    other = program(tmp_path / "out", 4001)
    assert "ConflictError" in other.stderr
    done = program(tmp_path / "out", 4000)
    assert done.returncode == 0, done.stderr
    program(tmp_path / "plain", 4000)
    assert tree(tmp_path / "out") == tree(tmp_path / "plain")
    for left in spools.iterdir():  # of the killed one, which a later run removes
        left.unlink()
