"""Questions that people have about their data: where from, how much of what, what was cut."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import RunCli
from dataprep.loaders import DataLoader, PackedDataset, open_dataset
from dataprep.pipeline.look import listing
from dataprep.pipeline.look.listing import documents_of_fate
from dataprep.pipeline.look.origins import RowOrigins
from dataprep.pipeline.storage.manifest import PackedManifest, read_manifest
from support.encoding import encode_here, png, rows_of
from support.inprocess import tokenize_here, write_lines
from support.packed import write_packed

LANGUAGES = ("en", "de", None)


def records(seed: int, count: int) -> list[Any]:
    """Records with a blank line and a bad one among them."""
    rng = np.random.default_rng(seed)
    made: list[Any] = [
        {
            "text": "".join(rng.choice(list("abc "), int(rng.integers(1, 60)))) + f" {seed}-{i}",
            "lang": LANGUAGES[int(rng.integers(3))],
            "meta": {"site": int(rng.integers(2))},
        }
        for i in range(count)
    ]
    made[3], made[5] = "", "{bad"
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, two tokenized datasets of them, and a packed one of both."""
    from dataprep import pack

    home = tmp_path_factory.mktemp("answers")
    (home / "web").mkdir()
    for i, name in enumerate(("web/a", "web/b", "code")):
        write_lines(home / f"{name}.jsonl", records(i, 40 + 10 * i))
    common = {"tokenizer": "bytes", "on_error": "quarantine", "fields": "text"}
    tokenize_here(home / "tok-web", inputs=[str(home / "web")], **common)
    tokenize_here(home / "tok-code", inputs=[str(home / "code.jsonl")], **common)
    inputs = [str(home / "tok-web"), str(home / "tok-code")]
    pack(inputs=inputs, seq_len=48, out=str(home / "packed"), workers=1, shard_rows=30)
    return home


@pytest.fixture
def packed_alone(home: Path, tmp_path: Path) -> Path:
    """The packed dataset, moved to where nothing else is."""
    return Path(shutil.copytree(home / "packed", tmp_path / "alone"))


def line_of(origin: dict[str, Any]) -> dict[str, Any]:
    text = Path(origin["path"]).read_text("utf-8").split("\n")[origin["line"] - 1]
    record: dict[str, Any] = json.loads(text)
    return record


def check_segment(segment: dict[str, Any], tokens: list[int]) -> None:
    """The tokens of a segment are those of the line that it names."""
    text = line_of(segment["origin"])["text"].encode()
    whole = [256, *text, 257]
    assert tokens == whole[segment["start"] : segment["start"] + segment["length"]]


# --- step, row ----------------------------------------------------------------------------------


def rows_shown(run_cli: RunCli, *words: Any) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(run_cli("inspect", *words, "--json").stdout)
    return shown


@pytest.mark.parametrize("flags", [{}, {"seed": 5}, {"shuffle": False}])
def test_a_step_names_file_and_line_of_every_document_by_the_packed_dataset_alone(
    run_cli: RunCli, packed_alone: Path, flags: dict[str, Any]
) -> None:
    loader = DataLoader(packed_alone, batch_size=4, prefetch=0, **flags)
    words = {"seed": ["--seed", "5"], "shuffle": ["--no-shuffle"]}
    given = [word for flag in flags for word in words[flag]]
    shown = rows_shown(run_cli, packed_alone, "--step", 17, "--batch-size", 4, *given)
    assert [("", row["row"]) for row in shown["rows"]] == loader.rows_of(17)
    assert shown["epochs"] == loader.epochs_at(17)
    dataset = open_dataset(packed_alone)
    for row in shown["rows"]:
        values = dataset[row["row"]]
        for number, segment in enumerate(row["segments"], 1):
            check_segment(segment, values["tokens"][values["segment_ids"] == number].tolist())
    text = run_cli("inspect", packed_alone, "--step", 17, "--batch-size", 4, *given).stdout
    origin = shown["rows"][0]["segments"][0]["origin"]
    assert f"  line {origin['line']} of {origin['path']}; tokens " in text


def test_a_row_shows_file_and_line(run_cli: RunCli, packed_alone: Path) -> None:
    shown = rows_shown(run_cli, packed_alone, "--row", 7)
    ids = np.array(shown["tokens"])
    values = open_dataset(packed_alone)[7]
    assert ids.tolist() == values["tokens"].tolist()
    for number, segment in enumerate(shown["segments"], 1):
        check_segment(segment, ids[values["segment_ids"] == number].tolist())
    place = f"line {segment['origin']['line']} of {segment['origin']['path']}"
    assert place in run_cli("inspect", packed_alone, "--row", 7).stdout


def test_a_saved_state_is_enough_to_find_a_step(
    run_cli: RunCli, packed_alone: Path, tmp_path: Path
) -> None:
    loader = DataLoader(packed_alone, batch_size={0: 2, 5: 3}, seed=3, prefetch=0)
    loader.set_state(loader.state_at(9))
    state = tmp_path / "state.json"
    state.write_text(json.dumps(loader.get_state()))
    for step, words in ((4, ["--step", "4"]), (7, ["--step", "7"]), (8, [])):
        shown = rows_shown(run_cli, packed_alone, "--state", state, *words)
        assert shown["step"] == step
        assert [("", row["row"]) for row in shown["rows"]] == loader.rows_of(step)
        assert shown["epochs"] == loader.epochs_at(step)
    later = run_cli("inspect", packed_alone, "--state", state, "--step", "9")
    assert "comes after the state" in later.stderr


def test_a_padded_batch_is_shown_with_the_rows_that_it_had(
    run_cli: RunCli, packed_alone: Path, tmp_path: Path
) -> None:
    size = len(open_dataset(packed_alone)) * 2 // 3
    loader = DataLoader(packed_alone, batch_size=size, epochs=1, remainder="pad", prefetch=0)
    state = tmp_path / "state.json"
    for step in (1, 2):  # before the padded batch, after it
        state.write_text(json.dumps(loader.state_at(step)))
        shown = rows_shown(run_cli, packed_alone, "--state", state, "--step", 1)
        assert [("", row["row"]) for row in shown["rows"]] == loader.rows_of(1)
        assert len(shown["rows"]) < size
        assert shown["epochs"] == loader.epochs_at(1)
    done = run_cli("inspect", packed_alone, "--state", state, "--step", 2, check=False)
    assert done.code == 2
    assert "has 2 steps" in done.stderr


def test_a_dataset_that_is_twice_in_a_mixture_is_shown_by_both_names(
    run_cli: RunCli, packed_alone: Path, tmp_path: Path
) -> None:
    loader = DataLoader(
        {"web": (packed_alone, 0.75), "same": (packed_alone, 0.25)}, batch_size=8, prefetch=0
    )
    (tmp_path / "state.json").write_text(json.dumps(loader.state_at(3)))
    shown = rows_shown(run_cli, packed_alone, "--state", tmp_path / "state.json")
    assert [(row["dataset"], row["row"]) for row in shown["rows"]] == loader.rows_of(2)
    assert all(row["segments"] for row in shown["rows"])
    assert shown["epochs"] == loader.epochs_at(2)


def test_a_mixture_is_told_by_its_settings_or_its_state(
    run_cli: RunCli, packed_alone: Path, tmp_path: Path, home: Path
) -> None:
    from dataprep import pack

    pack(inputs=[str(home / "tok-code")], seq_len=48, out=str(tmp_path / "code"), workers=1)
    shares: dict[str, Any] = {"web": (packed_alone, {0: 0.75, 6: 0.5}), "code": ("code", 0.25)}
    shares["code"] = (tmp_path / "code", 0.25)
    loader = DataLoader(shares, batch_size=8, seed=1, prefetch=0)
    mix = ["--mix", f"web=0:0.75,6:0.5@{packed_alone}", "--mix", f"code=0.25@{tmp_path / 'code'}"]
    shown = rows_shown(run_cli, packed_alone, "--step", 9, "--batch-size", 8, "--seed", 1, *mix)
    of_all = [*map(str, ("--step", 9, "--batch-size", 8, "--seed", 1)), *mix]
    assert shown == rows_shown(run_cli, *of_all)  # a mixture names its datasets itself
    assert [(row["dataset"], row["row"]) for row in shown["rows"]] == loader.rows_of(9)
    assert all(row["segments"] for row in shown["rows"])
    assert shown["epochs"] == loader.epochs_at(9)
    loader.set_state(loader.state_at(10))
    (tmp_path / "state.json").write_text(json.dumps(loader.get_state()))
    for name, folder in (("web", packed_alone), ("code", tmp_path / "code")):
        shown = rows_shown(run_cli, folder, "--state", tmp_path / "state.json", "--step", 9)
        own = [(row["dataset"], row["row"]) for row in shown["rows"]]
        wanted = loader.rows_of(9)
        assert own == [(n, row if n == name else None) for n, row in wanted]
        assert shown["epochs"] == {name: loader.epochs_at(9)[name]}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--step", "3"], 2, "give --step and --batch-size"),
        (["--step", "-1", "--batch-size", "2"], 2, "--step -1"),
        (["--step", "999", "--batch-size", "2", "--epochs", "1"], 2, "these settings give"),
        (["--seed", "3"], 2, "--seed has no effect without --step"),
        (["--list", "split", "--media", "x"], 2, "--media has no effect: --list lists"),
        (["--step", "3", "--row", "2", "--batch-size", "2"], 2, "--row and --step ask for diff"),
        (["--step", "3", "--batch-size", "2x"], 2, "--batch-size 2x: must be a number"),
        (["--step", "3", "--batch-size", "2", "--mix", "web"], 2, "must be NAME=SHARE@FOLDER"),
        (["--step", "3", "--batch-size", "2", "--mix", "a=1@nowhere"], 2, "--mix does not have"),
        (["--step", "3", "--batch-size", "0"], 2, "--batch-size 0: needs a positive"),
        (["--step", "3", "--batch-size", "0:0"], 2, "or step:rows from step 0 on, such as 0:64,10"),
        (["--step", "3", "--batch-size", "2", "--epochs", "0"], 2, "--epochs must be at least 1"),
        (
            ["--step", "3", "--batch-size", "2", "--exhausted", "drop"],
            2,
            "--exhausted drop has no effect without --epochs: data is read for ever; set --epochs,",
        ),
        (["--state", "none.json"], 2, "cannot read none.json"),
        (["--state", "bad.json"], 4, "not the state of a loader"),
        (["--state", "first.json"], 4, "this state knows no batch"),
        (["--state", "fourth.json", "--step", str(2**63 - 1)], 2, "--step 92233720368547758"),
        (["--state", "other.json"], 4, "state of a loader of other datasets"),
        (["--state", "other.json", "--seed", "1"], 2, "--seed has no effect with --state"),
    ],
)
def test_mistakes_in_what_a_step_needs_are_told(
    run_cli: RunCli, packed_alone: Path, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "bad.json").write_text("{}")
    loader = DataLoader(packed_alone, batch_size=2, prefetch=0)
    (tmp_path / "first.json").write_text(json.dumps(loader.get_state()))
    (tmp_path / "fourth.json").write_text(json.dumps(loader.state_at(4)))
    other = {**loader.state_at(4), "datasets": {"": {"0": [0, "sha256:0"]}}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    done = run_cli("inspect", packed_alone, *words, check=False)
    assert (done.code, message in done.stderr) == (code, True), done.stderr


def test_pictures_are_named_in_rows_when_all_between_is_gone(
    run_cli: RunCli, tmp_path: Path
) -> None:
    for i in range(6):
        folder = tmp_path / "pictures" / f"kind{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(png(i))
        (folder / f"{i}.txt").write_text(f"number {i}")
    settings = {"size": 8, "cells": 2}
    encode_here(tmp_path / "codes", tmp_path / "pictures", shard_records=4, settings=settings)
    tokenize_here(
        tmp_path / "tok", inputs=[str(tmp_path / "codes")], tokenizer="bytes", fields="vision,text"
    )
    document = rows_shown(run_cli, "tok", "--doc", 4)
    assert document["origin"]["media"] == "kind1/3.png"
    run_cli("pack", "tok", "--seq-len", 80, "--out", "packed", "-q")
    shutil.rmtree(tmp_path / "codes")
    shutil.rmtree(tmp_path / "tok")
    shown = rows_shown(run_cli, "packed", "--step", 0, "--batch-size", 1, "--no-shuffle")
    segments = shown["rows"][0]["segments"]
    assert len(segments) > 1
    names = [f"kind{i % 2}/{i}.png" for i in (0, 2, 4, 1, 3, 5)]
    assert [s["origin"]["media"] for s in segments] == [names[s["document"]] for s in segments]
    run_cli("verify", "packed")


# --- stats --by ---------------------------------------------------------------------------------


def expected(home: Path, label: Callable[[Path, dict[str, Any]], str]) -> dict[str, list[int]]:
    """Documents, tokens and targets by group, counted one by one."""
    found: dict[str, Counter[str]] = {}
    for name in ("web/a", "web/b", "code"):
        path = home / f"{name}.jsonl"
        for line in path.read_text("utf-8").splitlines():
            if not line.startswith('{"'):
                continue
            record = json.loads(line)
            group = found.setdefault(label(path, record), Counter())
            group.update(documents=1, tokens=len(record["text"].encode()) + 2)
    return {name: [c["documents"], c["tokens"] - c["documents"]] for name, c in found.items()}


LABELS: dict[str, Callable[[Path, dict[str, Any]], str]] = {
    "source": lambda path, record: str(path.parent if path.parent.name == "web" else path),
    "file": lambda path, record: str(path),
    "lang": lambda path, record: record["lang"] or "(none)",
    "meta.site": lambda path, record: str(record["meta"]["site"]),
}


@pytest.mark.parametrize("by", LABELS)
def test_stats_by_a_group_count_what_is_in_it(
    run_cli: RunCli, home: Path, packed_alone: Path, by: str
) -> None:
    wanted = expected(home, LABELS[by])
    both = [home / "tok-web", home / "tok-code"]
    tokenized = Counter[str]()
    for folder in both:
        for group in json.loads(run_cli("stats", folder, "--by", by, "--json").stdout)["groups"]:
            tokenized.update({group["name"]: group["target_tokens"]})
    packed = json.loads(run_cli("stats", packed_alone, "--by", by, "--json").stdout)
    groups = packed["groups"]
    # Every target of a document is one of the rows: what is split shares a token, which is no
    # target twice.
    assert {g["name"]: [g["documents"], g["target_tokens"]] for g in groups} == wanted
    assert tokenized == {name: targets for name, (_, targets) in wanted.items()}
    counts = open_dataset(packed_alone).manifest["counts"]
    assert sum(g["tokens"] for g in groups) == counts["tokens"]
    assert sum(g["share"] for g in groups) == pytest.approx(1)
    table = run_cli("stats", packed_alone, "--by", by).stdout
    largest = max(groups, key=lambda g: g["tokens"])
    assert table.splitlines()[0].split() == [by, "documents", "tokens", "with", "loss", "share"]
    assert table.splitlines()[1].split()[:2] == [largest["name"], str(largest["documents"])]


def test_a_key_is_not_answered_from_files_that_changed_or_are_gone(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a", "k": 1}, {"text": "b", "k": 2}])
    tokenize_here(tmp_path / "tok", inputs=[str(path)], tokenizer="bytes")
    assert "1" in run_cli("stats", "tok", "--by", "k").stdout
    done = run_cli("stats", "tok", "--by", "langs", check=False)
    assert (done.code, "under the key 'langs' (keys: text, k)" in done.stderr) == (2, True)
    write_lines(path, [{"text": "a", "k": 5}, {"text": "b", "k": 2}])
    done = run_cli("stats", "tok", "--by", "k", check=False)
    assert (done.code, "in.jsonl changed since it was tokenized" in done.stderr) == (3, True)
    path.unlink()
    done = run_cli("stats", "tok", "--by", "k", check=False)
    assert (done.code, "in.jsonl cannot be read again" in done.stderr) == (3, True)
    assert "in.jsonl" in run_cli("stats", "tok", "--by", "file").stdout


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl.gz"])
def test_a_key_is_read_from_any_format(run_cli: RunCli, tmp_path: Path, ending: str) -> None:
    import gzip

    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    path = tmp_path / f"in.{ending}"
    rows = [{"text": "a" * i, "lang": "en" if i % 3 else "de"} for i in range(1, 20)]
    table = pa.Table.from_pylist(rows)
    if ending == "parquet":
        nested = table.append_column("meta", pa.array([{"n": i % 2} for i in range(19)]))
        pq.write_table(nested, path, row_group_size=4)
        pq.write_table(table.select(["text"]), tmp_path / "other.parquet")
    elif ending == "csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    inputs = sorted(map(str, tmp_path.glob("*.*")))
    tokenize_here(tmp_path / "tok", inputs=inputs, tokenizer="bytes", fields="text")

    def documents(by: str) -> dict[str, int]:
        shown = json.loads(run_cli("stats", "tok", "--by", by, "--json").stdout)
        return {group["name"]: group["documents"] for group in shown["groups"]}

    rest = {"(none)": 19} if ending == "parquet" else {}
    assert documents("lang") == {"en": 13, "de": 6, **rest}
    if ending == "parquet":
        assert documents("meta.n") == {"0": 10, "1": 9, **rest}


def test_a_text_file_that_is_read_twice_is_split_again_as_each_input_of_it_says(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one. two. three|four|five")
    (tmp_path / "b.txt").write_text("six|seven")
    texts = str(tmp_path / "*.txt")
    inputs = [
        {"path": texts, "text_separator": "|"},
        {"path": str(tmp_path / "a.txt"), "text_separator": ". "},
        {"path": texts, "text_separator": "e"},
        texts,
    ]
    config = {"tokenizer": "bytes", "text_separator": "t", "allow_duplicates": True}
    for name, given in (("tok", inputs), ("other", inputs[::-1])):
        tokenize_here(tmp_path / name, inputs=given, **config)
    run_cli("pack", "tok", "other", "--seq-len", 8, "--out", "packed", "-q")
    for dataset, times in (("tok", 1), ("packed", 2)):
        shown = json.loads(run_cli("stats", dataset, "--by", "text", "--json").stdout)
        found = {group["name"]: group["documents"] for group in shown["groups"]}
        documents = [piece for item in inputs for piece in pieces_of(item, tmp_path)]
        assert found == {text: times * count for text, count in Counter(documents).items()}


def pieces_of(item: Any, folder: Path) -> list[str]:
    separator = item["text_separator"] if isinstance(item, dict) else "t"
    names = ["a.txt"] if isinstance(item, dict) and "a.txt" in item["path"] else ["a.txt", "b.txt"]
    texts = [(folder / name).read_text() for name in names]
    return [piece for text in texts for piece in text.split(separator) if piece]


def test_padding_is_said_once_and_not_rounded_twice(run_cli: RunCli, packed_alone: Path) -> None:
    text = run_cli("stats", packed_alone).stdout
    found = json.loads(run_cli("stats", packed_alone, "--json").stdout)
    assert text.count("\n  padding ") == 1
    counts = found["counts"]
    assert found["padding_share"] == counts["padding"] / (counts["rows"] * 49)
    assert f"  {found['padding_share']:.3%}\n" in text


def test_verify_and_stats_are_silent_about_what_takes_no_time_and_with_q(
    run_cli: RunCli, home: Path
) -> None:
    assert run_cli("verify", home / "tok-code").stderr == ""
    done = run_cli("verify", home / "tok-code", "-q")
    assert (done.stdout, done.stderr) == ("", "")
    loud, quiet = (run_cli("stats", home / "tok-code", *flags) for flags in ((), ("-q",)))
    assert (loud.stderr, quiet.stderr) == ("", "")
    assert quiet.stdout == loud.stdout


def test_an_empty_dataset_has_no_groups_and_no_lists(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [])
    inputs = [str(path)]
    tokenize_here(tmp_path / "tok", inputs=inputs, tokenizer="bytes", allow_empty=True)
    for by in ("source", "file", "lang"):
        found = json.loads(run_cli("stats", "tok", "--by", by, "--json").stdout)["groups"]
        assert sum(group["documents"] for group in found) == 0
    run_cli("pack", "tok", "--seq-len", 8, "--out", "packed", "-q")
    run_cli("verify", "packed")
    assert run_cli("inspect", "packed", "--list", "split").stdout == "0 documents split\n"
    assert json.loads(run_cli("stats", "packed", "--by", "file", "--json").stdout)["by"] == "file"


# --- lists --------------------------------------------------------------------------------------


def test_lost_documents_are_looked_up_many_at_once(
    run_cli: RunCli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--seq-len", 20, "--overflow", "drop", "--out", tmp_path / "p", "-q"]
    run_cli("pack", home / "tok-web", *flags)
    manifest = read_manifest(tmp_path / "p")
    assert isinstance(manifest, PackedManifest)
    whole = list(documents_of_fate(tmp_path / "p", manifest, "dropped"))
    asked: list[int] = []
    find = RowOrigins.of

    def counting(self: RowOrigins, documents: Any) -> Any:
        asked.append(len(documents))
        return find(self, documents)

    monkeypatch.setattr(RowOrigins, "of", counting)
    monkeypatch.setattr(listing, "AT_ONCE", 3)
    assert list(documents_of_fate(tmp_path / "p", manifest, "dropped")) == whole
    assert len(whole) > 3
    assert asked == [3] * (len(whole) // 3) + [len(whole) % 3] * bool(len(whole) % 3)


@pytest.mark.parametrize(("fate", "overflow"), [("truncated", "truncate"), ("dropped", "drop")])
def test_lost_documents_are_listed_with_file_and_line(
    run_cli: RunCli, home: Path, tmp_path: Path, fate: str, overflow: str
) -> None:
    inputs = [home / "tok-web", home / "tok-code"]
    flags = ["--seq-len", 20, "--overflow", overflow, "--out", "p", "-q"]
    run_cli("pack", *inputs, *flags)
    found = json.loads(run_cli("inspect", "p", "--list", fate, "--json").stdout)
    wanted = {
        (str(path), number): len(json.loads(line)["text"].encode()) + 2
        for path in (home / "web/a.jsonl", home / "web/b.jsonl", home / "code.jsonl")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.startswith('{"')
    }
    long = {place: length for place, length in wanted.items() if length > 21}
    kept = 21 if overflow == "truncate" else 0
    listed = {(d["origin"]["path"], d["origin"]["line"]): (d["kept"], d["lost"]) for d in found}
    assert listed == {place: (kept, length - kept) for place, length in long.items()}
    text = run_cli("inspect", "p", "--list", fate)
    assert f"line {found[0]['origin']['line']} of {found[0]['origin']['path']}; " in text.stdout
    assert f"{len(long)} documents {fate}" in text.stderr


def test_split_documents_are_listed_with_their_rows(run_cli: RunCli, packed_alone: Path) -> None:
    found = json.loads(run_cli("inspect", packed_alone, "--list", "split", "--json").stdout)
    dataset = open_dataset(packed_alone)
    assert len(found) == dataset.manifest["counts"]["documents_split"] > 0
    for one in found:
        text = line_of(one["origin"])["text"]
        assert one["kept"] == len(text.encode()) + 2 + len(one["rows"]) - 1
        ids = [i for row in one["rows"] for i in dataset[row]["tokens"].tolist()]
        assert 257 in ids
    none = run_cli("inspect", packed_alone, "--list", "dropped")
    assert none.stdout == "0 documents dropped\n"


# --- codes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("codes")
    (home / "pictures").mkdir()
    for i in range(5):
        (home / "pictures" / f"{i}.png").write_bytes(png(i))
        (home / "pictures" / f"{i}.txt").write_text(f"number {i}")
    settings = {"size": 8, "cells": 2}
    encode_here(home / "codes", home / "pictures", shard_records=2, settings=settings)
    return home / "codes"


def test_a_record_of_codes_is_shown_with_its_shape_source_and_columns(
    run_cli: RunCli, codes: Path
) -> None:
    import pyarrow.parquet as pq

    rows = [
        row for shard in sorted(codes.glob("shards/*")) for row in pq.read_table(shard).to_pylist()
    ]
    for number in (0, 3, -1):
        shown = rows_shown(run_cli, codes, "--doc", number)
        row = rows[number]
        assert np.ravel(shown["codes"]).tolist() == row["vision"]
        assert shown["shape"] == [1, 4]
        assert shown["columns"] == {"text": row["text"], "source": row["source"]}
    text = run_cli("inspect", codes, "--doc", 3, "--media", "seen").stdout
    assert "record 3: row 2 of " in text
    assert "  vision: 1×4 codes: " in text
    assert "  source: 3.png" in text
    assert "seen/doc-3-frame-0.png" in text
    assert run_cli("inspect", codes, "--row", 0, check=False).code == 2
    assert run_cli("inspect", codes, "--tokenizer", "bytes", check=False).code == 2
    words = ["inspect", codes, "--step", 0, "--batch-size", 1]
    assert "holds codes; run dataprep tokenize" in run_cli(*words, check=False).stderr
    assert run_cli("inspect", codes, "--doc", 5, check=False).code == 2


def test_a_record_of_codes_has_the_row_that_a_document_of_it_says_it_came_from(
    run_cli: RunCli, codes: Path, tmp_path: Path
) -> None:
    tokenize_here(tmp_path / "out", inputs=[str(codes)], tokenizer="bytes", fields="vision")
    for number in range(5):
        record = rows_shown(run_cli, codes, "--doc", number)
        origin = rows_shown(run_cli, tmp_path / "out", "--doc", number)["origin"]
        assert (origin["unit"], origin["line"]) == ("row", record["row"])
        assert origin["path"] == record["file"]


def test_stats_of_codes_tell_how_they_are_used(run_cli: RunCli, codes: Path) -> None:
    found = json.loads(run_cli("stats", codes, "--json").stdout)
    every = [code for row in rows_of(codes) for code in row["vision"]]
    uses = Counter(every)
    shares = np.array(list(uses.values())) / len(every)
    assert found["codebook"]["ids_used"] == len(uses)
    assert found["codebook"]["perplexity"] == round(
        float(np.exp(-(shares * np.log(shares)).sum())), 1
    )
    assert found["frames_per_record"]["count"] == 5
    assert found["uses_per_code"]["histogram"]["0"] == 8192 - len(uses)
    assert [(s["records"], s["codes"]) for s in found["sources"]] == [(5, 20)]
    assert "codes used" in run_cli("stats", codes).stdout
    assert run_cli("stats", codes, "--by", "source", check=False).code == 2


# --- loaders ------------------------------------------------------------------------------------


def test_epochs_are_the_rows_taken_by_the_rows_there_are(tmp_path: Path) -> None:
    for name, rows in (("a", 30), ("b", 50)):
        write_packed(tmp_path / name, num_rows=rows, seed=rows)
    mix: Any = {"a": (tmp_path / "a", {0: 0.5, 4: 0.25}), "b": (tmp_path / "b", 0.5)}
    loader = DataLoader(mix, batch_size={0: 4, 6: 8}, epochs=2, exhausted="drop", prefetch=0)
    taken = Counter[str]()
    sizes = {"a": 30, "b": 50}
    for step in range(len(loader)):
        assert loader.epochs_at(step) == {name: taken[name] / sizes[name] for name in sizes}
        taken.update(name for name, _ in loader.rows_of(step))
    assert loader.epochs_at(len(loader)) == {name: taken[name] / sizes[name] for name in sizes}
    with pytest.raises(IndexError):
        loader.epochs_at(len(loader) + 1)


def test_loaders_and_datasets_say_what_they_are(home: Path, tmp_path: Path) -> None:
    write_packed(tmp_path / "a", num_rows=30)
    dataset = open_dataset(tmp_path / "a")
    assert isinstance(dataset, PackedDataset)
    assert str(dataset) == f"<PackedDataset {tmp_path / 'a'}: rows=30, seq_len=16>"
    loader = DataLoader(dataset, batch_size=4, epochs=1, prefetch=0)
    next(loader)
    assert repr(loader) == (
        f"<DataLoader {tmp_path / 'a'}: step=1/7, batch_size=4, seq_len=16, seed=0>"
    )
    mixed = DataLoader({"x": (dataset, 1)}, batch_size=4, shuffle=False)
    assert repr(mixed) == (
        f"<DataLoader x={tmp_path / 'a'}: step=0, batch_size=4, seq_len=16, shuffle=False>"
    )
    tokenized = open_dataset(home / "tok-code")
    tokens = tokenized.manifest["counts"]["tokens"]
    assert str(tokenized) == (
        f"<TokenizedDataset {home / 'tok-code'}: documents=58, tokens={tokens}>"
    )


def test_every_token_has_a_line_with_its_id_its_loss_and_its_text(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"p": "hi", "a": "é\\n", "b": "x"}\n')
    fields = ("--fields", "[p],a*0.5,b", "--no-add-bos")
    run_cli("tokenize", "in.jsonl", "--tokenizer", "bytes", *fields, "--out", "out")
    lines = run_cli("inspect", "out", "--doc", "0", "--tokens", "-q").stdout.splitlines()
    texts = ["h", "i", "\ufffd", "\ufffd", "\n", "x", "<eos>"]
    losses = ["", "", "0.5", "0.5", "0.5", "loss", "loss"]
    ids = [104, 105, 195, 169, 10, 120, 257]
    expected = zip(range(7), ids, losses, texts, strict=True)
    assert lines == [f"{i}  {id:>3}  {loss:>4}  {text!r}" for i, id, loss, text in expected]
    told = json.loads(run_cli("inspect", "out", "--tokens", "--json").stdout)
    assert (told["tokens"], told["texts"]) == (ids, texts)
    refused = run_cli("inspect", "out", "--tokens", "--list", "split", check=False)
    assert (refused.code, "--tokens has no effect" in refused.stderr) == (2, True)
