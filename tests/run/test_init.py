"""`dataprep init`: what it writes runs as it is, and the lines that `run` prints load it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from conftest import RunCli, Sample
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.loaders import open_dataset

SENTENCE = "The quick brown fox jumps over the lazy dog, again and again. "
TEXTS = [{"text": SENTENCE * (i % 5 + 1) + str(i), "lang": "en"} for i in range(40)]
TURNS = [{"from": "human", "value": "Say it."}, {"from": "gpt", "value": "It."}]


def write_jsonl(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def write_parquet(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(r) for r in records]), path)


def write_csv(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=[*records[0]])
        writer.writeheader()
        writer.writerows(records)


def init(run_cli: RunCli, folder: Path, *words: str | Path) -> dict[str, Any]:
    """Call it in a folder; return the config that it wrote."""
    run_cli("init", *words, cwd=folder)
    found: dict[str, Any] = yaml.safe_load((folder / "dataprep.yaml").read_text())
    return found


def run_and_load(run_cli: RunCli, folder: Path) -> dict[str, tuple[int, ...]]:
    """Run the config as it is, then the lines that are printed; return the shapes of the batch."""
    said = run_cli("run", "dataprep.yaml", cwd=folder).stdout
    lines = [line[2:] for line in said.partition("load it:\n")[2].splitlines()]
    assert lines[0] == "import dataprep"
    names: dict[str, Any] = {}
    with chdir(folder):
        exec("\n".join(lines), names)
    names["loader"].close()
    return {key: value.shape for key, value in names["batch"].items()}


Write = Callable[[Path], None]
FORMS: dict[str, tuple[str, Write, dict[str, Any]]] = {
    "jsonl": ("a.jsonl", lambda p: write_jsonl(p, TEXTS), {"fields": "text"}),
    "parquet": ("a.parquet", lambda p: write_parquet(p, TEXTS), {"fields": "text"}),
    "csv": (
        "a.csv",
        lambda p: write_csv(p, [{"id": i, "Review Text": r["text"]} for i, r in enumerate(TEXTS)]),
        {"fields": "Review Text"},
    ),
    "text": ("a.txt", lambda p: (p.write_text(SENTENCE * 9), None)[1], {"fields": "text"}),
    "nested": (
        "a.jsonl",
        lambda p: write_jsonl(p, [{"id": 1, "doc": {"body": r["text"]}} for r in TEXTS]),
        {"fields": "doc.body"},
    ),
    "some lack it": ("a.jsonl", lambda p: write_jsonl(p, [{"id": 1}, *TEXTS]), {"fields": "text?"}),
    "sharegpt": (
        "a.jsonl",
        lambda p: write_jsonl(p, [{"conversations": TURNS}] * 9),
        {"chat": {"messages": "conversations", "form": "sharegpt", "template": "chatml"}},
    ),
    "alpaca": (
        "a.json",
        lambda p: (
            p.write_text(json.dumps([{"instruction": "Add.", "input": "1", "output": "2"}] * 9)),
            None,
        )[1],
        {"chat": {"form": "alpaca", "template": "chatml"}},
    ),
    "chat in parquet": (
        "a.parquet",
        lambda p: write_parquet(
            p,
            [
                {
                    "data": {
                        "turns": [
                            {"role": "user", "content": "a"},
                            {"role": "assistant", "content": "b"},
                        ]
                    }
                }
            ]
            * 9,
        ),
        {"chat": {"messages": "data.turns", "form": "openai", "template": "chatml"}},
    ),
    "completion": (
        "a.jsonl",
        lambda p: write_jsonl(p, [{"prompt": "2+2=", "completion": "4"}] * 9),
        {"fields": "[prompt],completion"},
    ),
    "preferences": (
        "a.jsonl",
        lambda p: write_jsonl(p, [{"prompt": "a", "chosen": "b", "rejected": "c"}] * 9),
        {"objective": {"kind": "preference"}},
    ),
    "codes": (
        "a.jsonl",
        lambda p: write_jsonl(p, [{"img": [i] * 64, "caption": "a"} for i in range(9)]),
        {
            "fields": "[img],caption",
            "modalities": {"vision": {"fields": ["img"], "tokens_per_frame": 64}},
        },
    ),
    "arrays": (
        "a.npy",
        lambda p: np.save(p, np.arange(1024).reshape(4, 256)),
        {"fields": "vision"},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_written_runs_as_it_is(name: str, run_cli: RunCli, tmp_path: Path) -> None:
    file, write, settings = FORMS[name]
    write(tmp_path / file)
    written = init(run_cli, tmp_path, file)
    assert written["corpora"] == {"a": {"inputs": [file], **settings}}
    assert written["tokenizer"] == "bytes"
    shapes = run_and_load(run_cli, tmp_path)
    assert shapes["inputs"] == (8, *written["seq_lens"])


def test_every_key_has_a_comment_and_all_that_is_shown_is_valid(
    run_cli: RunCli, tmp_path: Path
) -> None:
    file, write, _ = FORMS["sharegpt"]
    write(tmp_path / file)
    init(run_cli, tmp_path, file)
    lines = (tmp_path / "dataprep.yaml").read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=dataprep.schema.json"
    assert all(len(line) <= 100 for line in lines)
    for before, line in pairwise(lines):
        assert line.lstrip().startswith("#") or not line or before.lstrip().startswith("#"), line
    shown = [line[2:] for line in lines if line.startswith("# ") and ": " in line]
    keys = {line.partition(":")[0]: line for line in shown}
    assert "splits: {train: 0.99, validation: 0.01}" in shown
    for key in ("splits", "dedup", "on_changed", "append"):
        lines.append(keys[key])
    (tmp_path / "all.yaml").write_text("\n".join(lines))
    config = load_config(RunConfig, files=[str(tmp_path / "all.yaml")])
    assert config.splits == {"train": 0.99, "validation": 0.01}
    assert config.append


def test_folders_become_patterns_so_that_new_files_are_found(
    run_cli: RunCli, tmp_path: Path
) -> None:
    write_jsonl(tmp_path / "raw/a.jsonl", TEXTS)
    write_parquet(tmp_path / "raw/b.parquet", TEXTS[:3])
    write_jsonl(tmp_path / "deep/x/[1]/a.jsonl", TEXTS)
    write_jsonl(tmp_path / "deep/b.jsonl", TEXTS[:2])
    written = init(run_cli, tmp_path, "raw", "deep/")
    assert {name: corpus["inputs"] for name, corpus in written["corpora"].items()} == {
        "raw": ["raw/*.jsonl", "raw/*.parquet"],
        "deep": ["deep/**/*.jsonl"],
    }
    run_and_load(run_cli, tmp_path)
    write_jsonl(tmp_path / "raw/c.jsonl", TEXTS[:5])
    run_cli("run", "dataprep.yaml", "-q", cwd=tmp_path)
    assert len(open_dataset(tmp_path / "prepared/raw/tokenized")) == 48
    assert len(open_dataset(tmp_path / "prepared/deep/tokenized")) == 42


def test_files_of_several_kinds_become_several_corpora(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "raw/a.jsonl", TEXTS)
    write_jsonl(tmp_path / "raw/b.jsonl", [{"prompt": "a", "answer": "b"}] * 3)
    write_jsonl(tmp_path / "raw/chats/c.jsonl", [{"conversations": TURNS}] * 3)
    written = init(run_cli, tmp_path, "raw")
    assert {name: corpus["inputs"] for name, corpus in written["corpora"].items()} == {
        "raw-texts": ["raw/a.jsonl"],
        "raw-pairs": ["raw/b.jsonl"],
        "raw-conversations": ["raw/chats/*.jsonl"],
    }
    run_and_load(run_cli, tmp_path)


def test_a_tokenizer_near_the_data_is_taken_with_its_template(
    run_cli: RunCli, tmp_path: Path, sample: Sample
) -> None:
    folder = tmp_path / "data" / "tokenizer"
    folder.mkdir(parents=True)
    for file in (sample.tokenizer, sample.tokenizer.with_name("tokenizer_config.json")):
        (folder / file.name).write_text(file.read_text())
    write_jsonl(tmp_path / "data/raw/a.jsonl", [{"conversations": TURNS}] * 3)
    written = init(run_cli, tmp_path, "data/raw")
    assert written["tokenizer"] == "./data/tokenizer/tokenizer.json"
    assert written["corpora"]["raw"]["chat"]["template"] == "chatml"
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    written = init(run_cli, tmp_path, "data/raw", "--force")
    assert "template" not in written["corpora"]["raw"]["chat"]
    run_and_load(run_cli, tmp_path)
    written = init(run_cli, tmp_path, "data", "--force", "--tokenizer", "bytes")
    assert written["tokenizer"] == "bytes"
    assert written["corpora"]["data"]["inputs"] == ["data/**/*.jsonl"]


def test_paths_are_relative_to_the_file(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "raw/a ${x}.jsonl", TEXTS)
    run_cli("init", "raw/a ${x}.jsonl", "--out", "conf/a.yaml", cwd=tmp_path)
    text = (tmp_path / "conf/a.yaml").read_text()
    assert "../raw/a $${x}.jsonl" in text
    run_cli("run", tmp_path / "conf/a.yaml", "-q")
    assert len(open_dataset(tmp_path / "conf/prepared/a-x/tokenized")) == 40
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    written = init(run_cli, elsewhere, tmp_path / "raw")
    assert written["corpora"]["raw"]["inputs"] == [f"{tmp_path}/raw/*.jsonl"]


def test_the_datasets_do_not_lie_where_inputs_are_searched(run_cli: RunCli, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_jsonl(home / "a/a.jsonl", TEXTS)
    written = init(run_cli, home, ".")
    assert written["corpora"]["home"]["inputs"] == ["**/*.jsonl"]
    assert written["out"] == "../home-prepared"
    run_and_load(run_cli, home)


def test_the_length_leaves_nearly_all_documents_whole(run_cli: RunCli, tmp_path: Path) -> None:
    records = [{"text": "x" * (1500 if i % 10 == 0 else 100)} for i in range(100)]
    write_jsonl(tmp_path / "a.jsonl", records)
    said = json.loads(run_cli("init", "a.jsonl", "--json", cwd=tmp_path).stdout)
    assert said["seq_len"] == 2048
    assert said["whole"] == {"1024": 0.9, "2048": 1.0, "4096": 1.0}
    assert said["config"] == yaml.safe_load((tmp_path / "dataprep.yaml").read_text())
    assert "100.0% of the documents in the sample are whole in rows of 2,048" in " ".join(
        (tmp_path / "dataprep.yaml").read_text().replace("\n#", "").split()
    )


def test_a_file_is_replaced_only_by_force(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", TEXTS)
    (tmp_path / "dataprep.yaml").write_text("mine")
    refused = run_cli("init", "a.jsonl", cwd=tmp_path, check=False)
    assert refused.code == 2
    assert "dataprep.yaml is there already; name another with --out, or add --force" in (
        refused.stderr
    )
    assert (tmp_path / "dataprep.yaml").read_text() == "mine"
    said = run_cli("init", "a.jsonl", "--force", cwd=tmp_path).stdout
    assert said.endswith("wrote dataprep.yaml\nnext: dataprep run dataprep.yaml\n")
    assert "a: texts under 'text'" in said


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (None, 3, "a.jsonl does not exist"),
        ("", 3, "a.jsonl has no record to find anything out by"),
        ('{"text": \n', 3, "line 1 of"),
        ('{"n": 1}\n', 3, "is a text, a conversation or codes: n (other)"),
        ('{"input_ids": [1, 900]}\n', 3, "name the tokenizer that made the ids"),
    ],
)
def test_input_that_says_nothing_is_an_error_with_place_and_fix(
    content: str | None, code: int, message: str, run_cli: RunCli, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "a.jsonl").write_text(content)
    done = run_cli("init", "a.jsonl", cwd=tmp_path, check=False)
    assert done.code == code, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "dataprep.yaml").exists()


def test_inputs_that_no_run_can_read_again_are_refused(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("init", "-", cwd=tmp_path, check=False)
    assert (done.code, "stdin cannot be read again" in done.stderr) == (2, True)
    done = run_cli("init", "s3://me:SECRET@bucket/a.jsonl", cwd=tmp_path, check=False)
    assert done.code == 2
    assert "SECRET" not in done.stderr


def test_a_file_that_is_named_twice_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "raw/a.jsonl", TEXTS)
    done = run_cli("init", "raw", "raw/a.jsonl", cwd=tmp_path, check=False)
    assert done.code == 2
    assert "is the same file as" in done.stderr
    assert done.stderr.endswith("leave one out\n")


def test_a_bad_record_among_the_first_is_told(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [*TEXTS, {"text": ["no text"]}])
    said = run_cli("init", "a.jsonl", cwd=tmp_path).stdout
    assert "note: 1 bad among the records that were read: line 41 of" in said
    assert yaml.safe_load((tmp_path / "dataprep.yaml").read_text())["on_error"] == "fail"


def test_large_inputs_are_only_looked_at(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", TEXTS * 1000)
    with open(tmp_path / "a.jsonl", "ab") as file:
        file.truncate(1 << 40)  # a terabyte of nothing, which nobody could read in a test
    run_cli("init", "a.jsonl", cwd=tmp_path, timeout=60)
    write_jsonl(tmp_path / "many/000.jsonl", TEXTS)
    for i in range(1, 1000):
        (tmp_path / f"many/{i:03}.jsonl").write_text(json.dumps(TEXTS[i % 40]) + "\n")
    said = json.loads(run_cli("init", "many", "--json", "--force", cwd=tmp_path).stdout)
    assert said["corpora"][0]["files"] == 1000
    assert said["corpora"][0]["records"] < 1000


def test_of_one_large_file_four_megabytes_are_tokenized(run_cli: RunCli, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"text": "x" * 900}] * 24_000)
    said = json.loads(run_cli("init", "a.jsonl", "--json", cwd=tmp_path).stdout)
    assert 4_000 < said["corpora"][0]["sampled"] < 6_000
