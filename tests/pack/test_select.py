"""Packing a selection is packing a dataset of the selected records alone, with other numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.configs.pack import PackConfig
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError, InputError
from dataprep.pipeline.jobs.executors import EXECUTORS, run_local
from dataprep.pipeline.look.stats import stats
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.pack import pack, pack_plan_of
from dataprep.pipeline.storage.manifest import PackedManifest, read_manifest
from dataprep.pipeline.storage.origins import origins_of
from dataprep.pipeline.storage.provenance import ROW_PIECE
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines
from support.manifests import edit_manifest
from support.toy import write_toy_tokenizer
from support.trees import tree

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
REASONS = {"254": "documents_duplicate", "255": "documents_forgotten"}


def write_numbers(path: Path, numbers: Sequence[int]) -> Path:
    np.save(path, np.array(numbers, np.uint8))
    return path


def select(path: Path, value: int = 0, **more: Any) -> dict[str, Any]:
    return {"file": str(path), "value": value, **more}


def pieces_of(folder: Path) -> Any:
    manifest = read_manifest(folder)
    assert isinstance(manifest, PackedManifest)
    parts = [np.load(folder / shard.provenance.path) for shard in manifest.shards]
    return np.concatenate([np.zeros(0, ROW_PIECE), *parts])


def shards_of(folder: Path) -> dict[str, bytes]:
    return {
        name: data for name, data in tree(folder).items() if name.startswith(("shards/", "index/"))
    }


def check_same(
    home: Path, records: list[Any], numbers: list[int], tokenize: Any, pack: Any
) -> None:
    """Compare a selection of number 1 with a dataset that was made of nothing else."""
    chosen = [record for record, n in zip(records, numbers, strict=True) if n == 1]
    folders = {}
    for name, own in (("all", records), ("few", chosen)):
        half = len(own) // 2  # two datasets, so that numbers go through both
        inputs = []
        for i, part in enumerate((own[:half], own[half:])):
            path = write_lines(home / f"{name}{i}.jsonl", part)
            out = home / f"{name}{i}"
            tokenize_here(out, inputs=[str(path)], allow_empty=True, **tokenize)
            inputs.append(out)
        folders[name] = inputs
    path = write_numbers(home / "numbers.npy", numbers)
    picked = select(path, 1, reasons=REASONS)
    pack_here(home / "picked", *folders["all"], select=picked, **pack)
    pack_here(home / "alone", *folders["few"], **pack)
    verify(home / "picked")
    assert shards_of(home / "picked") == shards_of(home / "alone")
    own, alone = pieces_of(home / "picked"), pieces_of(home / "alone")
    real = np.flatnonzero(np.array(numbers) == 1)
    assert own["document"].tolist() == real[alone["document"].astype(int)].tolist()
    for name in ("row", "length", "start", "head"):
        assert own[name].tolist() == alone[name].tolist()
    check_counts(home, numbers)


def check_counts(home: Path, numbers: list[int]) -> None:
    counts, alone = (read_manifest(home / n).counts for n in ("picked", "alone"))
    others = {
        "documents_duplicate": numbers.count(254),
        "documents_forgotten": numbers.count(255),
        "documents_elsewhere": sum(n not in (1, 254, 255) for n in numbers),
        "documents_read": len(numbers),
    }
    assert counts == {**alone, **others}
    lost = home / "picked" / "provenance" / "lost.jsonl"
    lines = lost.read_text().splitlines() if lost.exists() else []
    assert len(lines) == counts["documents_truncated"] + counts["documents_dropped"]
    firsts = {str(home / "all0"): 0, str(home / "all1"): len(numbers) // 2}
    listed = [json.loads(line) for line in lines]
    assert all(numbers[firsts[row["dataset"]] + row["document"]] == 1 for row in listed)


NUMBERS = st.sampled_from([1, 1, 1, 0, 2, 254, 255])
options = st.fixed_dictionaries(
    {
        "seq_len": st.integers(3, 30),
        "strategy": st.sampled_from(["best_fit", "first_fit", "concat", "pad"]),
        "overflow": st.sampled_from(["split", "truncate", "drop"]),
        "truncate_side": st.sampled_from(["left", "right"]),
        "keep_blocks": st.booleans(),
        "drop_empty_targets": st.booleans(),
        "drop_tail": st.booleans(),
        "window": st.sampled_from([1, 3, 7, 1 << 22]),
        "seed": st.integers(0, 3),
    }
)
texts = st.text("abc", max_size=40)
codes = st.lists(st.integers(0, 50), min_size=2, max_size=20)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(texts, texts, codes, NUMBERS), min_size=1, max_size=14),
    options,
)
def test_rows_of_a_selection_are_those_of_its_records_alone(
    rows: list[tuple[str, str, list[int], int]], config: dict[str, Any]
) -> None:
    records = [{"q": q, "a": a, "vision": codes} for q, a, codes, _ in rows]
    vision = {"tokens_per_frame": 2, "start": [1], "end": [2, 3]}
    tokenize = {
        "tokenizer": "bytes",
        "fields": "[q],vision,a",
        "modalities": {"vision": vision},
    }
    with TemporaryDirectory() as folder:
        check_same(Path(folder), records, [n for *_, n in rows], tokenize, config)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.lists(texts, min_size=1, max_size=5), NUMBERS), min_size=2, max_size=8),
    st.sampled_from(["drop_oldest", "cut", "drop"]),
    st.sampled_from(["best_fit", "first_fit", "pad"]),
)
def test_turns_of_selected_conversations_are_kept_whole(
    rows: list[tuple[list[str], int]], turns: str, strategy: str
) -> None:
    records = [
        {
            "messages": [
                message
                for text in said
                for message in (
                    {"role": "user", "content": "q"},
                    {"role": "assistant", "content": text},
                )
            ]
        }
        for said, _ in rows
    ]
    numbers = [n for _, n in rows]
    numbers[0] = numbers[-1] = 1  # the first tell the form, so that no dataset is empty
    with TemporaryDirectory() as folder:
        template = Path(folder) / "t.jinja"
        template.write_text(TEMPLATE)
        chat = {"template": str(template), "form": "openai", "messages": "messages"}
        tokenize = {"tokenizer": "bytes", "eos_token": 0, "chat": chat}
        config = {"seq_len": 90, "overflow": "turns", "turns": turns, "strategy": strategy}
        check_same(Path(folder), records, numbers, tokenize, config)


def test_a_pair_that_is_too_long_does_no_harm_unless_it_is_selected(tmp_path: Path) -> None:
    toy = write_toy_tokenizer(tmp_path / "toy")
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    records = [pair, {**pair, "chosen": "b" * 50}, pair]
    tokenize = {"tokenizer": str(toy), "objective": {"kind": "preference"}}
    check_same(tmp_path, records, [1, 0, 1], tokenize, {"seq_len": 20})
    shutil.rmtree(tmp_path / "picked")
    path = write_numbers(tmp_path / "all.npy", [1, 1, 1])
    folders = [tmp_path / "all0", tmp_path / "all1"]
    with pytest.raises(ConfigError, match="documents of two sides"):
        pack_here(tmp_path / "picked", *folders, seq_len=20, select=select(path, 1))


# --- files and identity ---


@pytest.fixture
def tokenized(tmp_path: Path) -> Path:
    records = [{"text": "abc" * (i % 7 + 1)} for i in range(40)]
    path = write_lines(tmp_path / "in.jsonl", records)
    tokenize_here(tmp_path / "tokenized", inputs=[str(path)], tokenizer="bytes")
    return tmp_path / "tokenized"


def settings_of(tokenized: Path, out: Path, **config: Any) -> PackConfig:
    values = {"inputs": [str(tokenized)], "out": str(out), "seq_len": 16, "workers": 1, **config}
    return PackConfig.model_validate(values)


def test_a_selection_of_nothing_is_a_dataset_without_rows(
    tokenized: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    path = write_numbers(tmp_path / "n.npy", [3] * 40)
    out = tmp_path / "out"
    made = pack(settings_of(tokenized, out, select=select(path, 0)))
    assert (made.manifest.counts["rows"], made.manifest.shards) == (0, ())
    assert made.manifest.counts["documents_elsewhere"] == 40
    assert made.manifest.counts["documents_written"] == 0
    assert verify(out).num_items == 0
    assert len(open_dataset(out)) == 0
    assert stats(out, read_manifest(out))["counts"]["rows"] == 0
    assert run_cli("stats", out).code == 0
    assert pack(settings_of(tokenized, out, select=select(path, 0))).was_complete


def test_the_bytes_value_and_reasons_are_the_identity_and_not_the_name(
    tokenized: Path, tmp_path: Path
) -> None:
    numbers = [i % 3 for i in range(40)]
    path = write_numbers(tmp_path / "n.npy", numbers)
    configs = [
        {"select": None},
        {"select": select(path, 0)},
        {"select": select(path, 1)},
        {"select": select(path, 1, reasons={"2": "documents_duplicate"})},
        {"select": select(write_numbers(tmp_path / "other.npy", [0, *numbers[:-1]]), 1)},
    ]
    made = [
        pack(settings_of(tokenized, tmp_path / f"{i}", **config)).manifest.fingerprint
        for i, config in enumerate(configs)
    ]
    assert len({*made}) == 5
    moved = write_numbers(tmp_path / "moved.npy", numbers)
    again = settings_of(tokenized, tmp_path / "1", select=select(moved, 0))
    path.unlink()
    assert pack(again).was_complete
    write_numbers(moved, [0, *numbers[:-1]])
    with pytest.raises(ConflictError, match="the file of select has other bytes"):
        pack(again)
    assert str(tmp_path / "n.npy") not in (tmp_path / "1" / "manifest.json").read_text()


def test_a_file_that_changes_in_the_middle_ends_the_run(
    tokenized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_numbers(tmp_path / "n.npy", [0, 1] * 20)

    def run_and_change(*args: Any, **kwargs: Any) -> None:
        write_numbers(path, [1, 0] * 20)
        run_local(*args, **kwargs)

    monkeypatch.setitem(EXECUTORS, "local", run_and_change)
    config = settings_of(tokenized, tmp_path / "out", select=select(path, 0))
    with pytest.raises(InputError, match=r"n\.npy changed while it was read"):
        pack(config)
    assert not (tmp_path / "out" / "manifest.json").exists()
    monkeypatch.undo()
    pack(config)
    assert {*pieces_of(tmp_path / "out")["document"].tolist()} == {*range(1, 40, 2)}


def test_a_selection_is_read_from_a_config_file_and_told_by_the_command(
    tokenized: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    write_numbers(tmp_path / "n.npy", [0] * 30 + [254] * 4 + [1] * 6)
    config = tmp_path / "conf" / "c.yaml"
    config.parent.mkdir()
    chosen = {"file": "../n.npy", "value": 0, "reasons": REASONS}
    config.write_text(json.dumps({"pack": {"seq_len": 16, "select": chosen}}))
    words = ("pack", tokenized, "--config", config, "--out", "out")
    assert "30 documents" in run_cli(*words, "--dry-run").stdout
    assert "; 10 documents not selected" in run_cli(*words).stdout
    counts = read_manifest(tmp_path / "out").counts
    assert counts["documents_duplicate"] == 4
    assert counts["documents_elsewhere"] == 6
    assert counts["documents_forgotten"] == 0
    assert "row 0" in run_cli("inspect", "out", "--row", "0").stdout.lower()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, r"n\.npy cannot be read: No such file"),
        (lambda path: path.mkdir(), r"n\.npy cannot be read: it is a folder"),
        (lambda path: write_numbers(path, [0] * 39), "has 39 numbers, .* have 40 documents"),
        (lambda path: write_numbers(path, [0] * 200_000), "has 200,000 numbers, .* 40 documents"),
        (lambda path: path.write_bytes(b"none"), "does not hold an array of uint8"),
        (lambda path: np.save(path, np.zeros(40, np.int64)), "does not hold an array of uint8"),
        (lambda path: np.save(path, np.zeros((40, 1), "u1")), "does not hold an array of uint8"),
        (
            lambda path: path.write_bytes(write_numbers(path, [0] * 40).read_bytes()[:-1]),
            "does not hold an array of uint8",
        ),
    ],
)
def test_a_file_that_is_no_selection_is_refused(
    tokenized: Path, tmp_path: Path, write: Any, message: str
) -> None:
    write(tmp_path / "n.npy")
    config = settings_of(tokenized, tmp_path / "out", select=select(tmp_path / "n.npy"))
    for run in (pack, pack_plan_of):
        with pytest.raises(Exception, match=message) as error:
            run(config)
        assert type(error.value).__module__.startswith("dataprep")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "chosen",
    [
        {"value": 256},
        {"value": -1},
        {"value": True},
        {"value": 0, "reasons": {"0": "documents_duplicate"}},
        {"value": 0, "reasons": {"256": "documents_duplicate"}},
        {"value": 0, "reasons": {"01": "documents_duplicate"}},
        {"value": 0, "reasons": {"x": "documents_duplicate"}},
        {"value": 0, "reasons": {"1": "documents_read"}},
        {"value": 0, "reasons": {"1": "tokens"}},
        {"value": 0, "other": 1},
    ],
)
def test_a_selection_that_cannot_be_is_a_mistake_of_the_config(
    tokenized: Path, tmp_path: Path, run_cli: RunCli, chosen: dict[str, Any]
) -> None:
    write_numbers(tmp_path / "n.npy", [0] * 40)
    text = json.dumps({"file": "n.npy", **chosen})
    words = ("pack", tokenized, "--seq-len", "16", "--out", "out", "--set", f"select={text}")
    done = run_cli(*words, check=False)
    assert done.code == 2, done.stderr
    assert "select" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [("documents_elsewhere", 1), ("documents_duplicate", 1), ("documents_written", 40)],
)
def test_counts_of_documents_that_were_not_selected_must_add_up(
    tokenized: Path, tmp_path: Path, name: str, value: int
) -> None:
    path = write_numbers(tmp_path / "n.npy", [0] * 20 + [254] * 10 + [7] * 10)
    out = tmp_path / "out"
    pack_here(out, tokenized, seq_len=16, select=select(path, 0, reasons=REASONS))
    verify(out)
    edit_manifest(out, lambda values: values["counts"].update({name: value}))
    with pytest.raises(Exception, match="documents_written"):
        verify(out)


def test_the_selection_may_not_lie_in_the_output(tokenized: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = write_numbers(tmp_path / "out" / "n.npy", [0] * 40)
    with pytest.raises(ConfigError):
        pack(settings_of(tokenized, tmp_path / "out", select=select(path)))
    assert path.exists()


def test_rows_of_a_selection_say_where_they_come_from(tokenized: Path, tmp_path: Path) -> None:
    path = write_numbers(tmp_path / "n.npy", [i % 2 for i in range(40)])
    out = tmp_path / "out"
    pack_here(out, tokenized, seq_len=16, strategy="pad", select=select(path, 1))
    manifest = read_manifest(out)
    documents = pieces_of(out)["document"].astype(np.int64)
    origins = origins_of(out, manifest)
    run = origins.run_of(documents)
    lines = origins.runs["line"][run] + documents - origins.runs["document"][run]
    assert lines.tolist() == documents.tolist()
    source, rows = open_dataset(tokenized), open_dataset(out)
    firsts = {int(d): int(r) for r, d in reversed([*enumerate(documents.tolist())])}
    for document, row in firsts.items():
        tokens = source[document]["tokens"][:17].tolist()
        assert rows[row]["tokens"].tolist()[: len(tokens)] == tokens
    with DataLoader(out, batch_size=2) as loader:
        assert loader[0]["inputs"].shape == (2, 16)
