"""Inputs of equal content, and what must know them apart; the order in which parts came in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError
from support.nights import texts_of, whole_texts, write_config, write_lines

TOKENIZED, PACKED = "out/data/tokenized", "out/data/packed-64"


def packed_texts(out: Path) -> list[str]:
    """Return the texts of all splits and corpora."""
    places = [path.parent for path in out.glob("*/packed-64*/**/manifest.json")]
    tops = [place for place in places if "parts" not in place.parts]
    return sorted(text for place in tops for text in whole_texts(place))


@pytest.mark.parametrize("texts", [["one", "two"], []], ids=["equal", "empty"])
def test_files_of_equal_content_are_parts_of_their_own(
    run_cli: RunCli, tmp_path: Path, texts: list[str]
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"])
    write_lines(tmp_path / "raw/a.jsonl", ["zero"])
    run_cli("run", config)
    for name in "bcd":  # a night each
        write_lines(tmp_path / f"raw/{name}.jsonl", texts)
        run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["zero", *texts * 3]
    assert whole_texts(tmp_path / PACKED) == sorted(["zero", *texts * 3])
    before = (tmp_path / TOKENIZED / "manifest.json").read_bytes()
    run_cli("run", config)
    assert (tmp_path / TOKENIZED / "manifest.json").read_bytes() == before
    for folder in (TOKENIZED, PACKED):
        run_cli("verify", tmp_path / folder)


def test_a_document_is_forgotten_in_equal_files(run_cli: RunCli, tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"])
    for name in "ab":
        write_lines(tmp_path / f"raw/{name}.jsonl", ["one", "two", "three"])
        run_cli("run", config)
    for line, left in ((2, ["one", "one", "three", "three"]), (3, ["one", "one"])):
        (tmp_path / "gone.txt").write_text(f"b.jsonl:{line}\n")
        run_cli("forget", tmp_path / "out", "--documents", tmp_path / "gone.txt")
        assert whole_texts(tmp_path / PACKED) == left
        run_cli("clean", tmp_path / "out", "--keep", "1", "--go")
        run_cli("run", config)
        assert whole_texts(tmp_path / PACKED) == left
        run_cli("verify", tmp_path / PACKED)


def test_a_copy_of_a_file_that_lost_a_document_is_a_part_of_its_own(
    run_cli: RunCli, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"])
    lines = ["one", "two"]
    write_lines(tmp_path / "raw/a.jsonl", lines)
    run_cli("run", config)
    (tmp_path / "gone.txt").write_text("a.jsonl:1\n")
    run_cli("forget", tmp_path / "out", "--documents", tmp_path / "gone.txt")
    run_cli("run", config, "--set", "seq_lens=[32]")  # rows that are masked when they are made
    write_lines(tmp_path / "raw/b.jsonl", lines)
    run_cli("run", config, "--set", "seq_lens=[32, 64]")
    (tmp_path / "raw/a.jsonl").rename(tmp_path / "raw/c.jsonl")
    write_lines(tmp_path / "raw/a.jsonl", lines)  # under the name of the first
    run_cli("run", config, "--set", "seq_lens=[32, 64]")
    for packed in ("out/data/packed-32", PACKED):
        assert whole_texts(tmp_path / packed) == ["two"] * 3
    run_cli("verify", tmp_path / "out")


def test_a_file_with_the_content_that_another_had_is_new(run_cli: RunCli, tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], on_changed="rebuild")
    write_lines(tmp_path / "raw/a.jsonl", ["one"])
    run_cli("run", config)
    write_lines(tmp_path / "raw/a.jsonl", ["two"])
    run_cli("run", config)
    write_lines(tmp_path / "raw/b.jsonl", ["one"])
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["two", "one"]
    assert '"why": []' in run_cli("run", config, "--why", "--json").stdout
    before = (tmp_path / TOKENIZED / "manifest.json").read_bytes()
    run_cli("run", config)
    assert (tmp_path / TOKENIZED / "manifest.json").read_bytes() == before


def test_duplicates_are_found_among_files_of_equal_content(run_cli: RunCli, tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], dedup="exact")
    for name in "ab":
        write_lines(tmp_path / f"raw/{name}.jsonl", ["one", "two"])
        run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["one", "two"]
    run_cli("verify", tmp_path / PACKED)


def test_other_rates_keep_the_order_in_which_parts_came_in(run_cli: RunCli, tmp_path: Path) -> None:
    corpora = {name: {"inputs": [f"{name}/*.jsonl"]} for name in ("web", "chat")}
    write_lines(tmp_path / "web/a.jsonl", ["one", "two"])
    write_lines(tmp_path / "chat/a.jsonl", ["one", "three"])

    def run(**splits: float) -> None:
        run_cli(
            "run",
            write_config(tmp_path / "c.json", corpora=corpora, splits=splits, dedup="exact"),
        )

    run(train=0.5, validation=0.5)
    write_lines(tmp_path / "web/b.jsonl", ["three", "four"])  # behind the first of chat
    run(train=0.5, validation=0.5)
    run(train=0.75, validation=0.25)
    assert packed_texts(tmp_path / "out") == ["four", "one", "three", "two"]
    assert texts_in(tmp_path / "out/chat") == ["three"]


def texts_in(corpus: Path) -> list[str]:
    tops = corpus.glob("packed-64-*/manifest.json")
    return sorted(text for path in tops for text in whole_texts(path.parent))


def write_chat(path: Path, *texts: str) -> None:
    answer = {"role": "assistant", "content": "yes"}
    records = [{"messages": [{"role": "user", "content": text}, answer]} for text in texts]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_each_input_of_conversations_grows_by_itself(run_cli: RunCli, tmp_path: Path) -> None:
    def reasons(*inputs: str) -> list[str]:
        write_config(config, inputs=inputs, chat={"template": "chatml"})
        found = json.loads(run_cli("run", config, "--why", "--json").stdout)
        run_cli("run", config)
        return [reason for step in found for reason in step["why"]]

    config = tmp_path / "c.json"
    write_chat(tmp_path / "one/a.jsonl", "first")
    reasons("one/*.jsonl")
    write_chat(tmp_path / "two/b.jsonl", "second")
    assert "1 new file" in reasons("one/*.jsonl", "two/*.jsonl")[0]
    write_chat(tmp_path / "one/c.jsonl")
    assert "1 new file" in reasons("one/*.jsonl", "two/*.jsonl")[0]
    assert reasons("two/*.jsonl", "one/*.jsonl") == []
    write_chat(tmp_path / "one/d.jsonl", "third")
    assert "1 new file" in reasons("two/*.jsonl", "one/*.jsonl")[0]
    run_cli("verify", tmp_path / TOKENIZED)
    assert len(open_dataset(tmp_path / TOKENIZED)) == 3


def test_conversations_may_lack_the_weights_of_others_but_not_bring_the_first(
    run_cli: RunCli, tmp_path: Path
) -> None:
    def came_in(name: str, **more: Any) -> None:
        said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": name, **more}]
        path = tmp_path / f"raw/{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"messages": said}) + "\n")

    values = {"inputs": ["raw/*.jsonl"], "chat": {"template": "chatml"}, "seq_lens": [256]}
    config = write_config(tmp_path / "c.json", **values)
    came_in("none")
    run_cli("run", config)
    came_in("half", weight=0.5)
    done = run_cli("run", config, "--why", check=False)
    assert done.code == 4
    assert f"messages of {tmp_path}/raw/half.jsonl have loss weights" in done.stderr
    assert "set chat.weights: true, and the corpus is made anew" in done.stderr
    run_cli("run", config, "--set", "chat.weights=true")
    came_in("other")
    run_cli("run", config, "--set", "chat.weights=true")
    assert len(open_dataset(tmp_path / TOKENIZED)) == 3
    write_config(config, **{**values, "out": "anew"})
    run_cli("run", config)  # all at once: some have weights
    came_in("last")
    run_cli("run", config)
    assert "nothing to do" in run_cli("run", config, "--why").stdout.splitlines()[0]
    assert "weight" in open_dataset(tmp_path / "anew/data/packed-256").masks


def test_a_number_of_a_part_that_was_removed_is_not_used_again(
    run_cli: RunCli, tmp_path: Path
) -> None:
    config = tmp_path / "c.json"
    write_lines(tmp_path / "raw/a.jsonl", ["one"])
    for separator in (" ", "-", " "):
        write_config(config, inputs=["raw/*.jsonl"], subfield_separator=separator)
        run_cli("run", config)
    run_cli("clean", tmp_path / "out", "--keep", "1", "--go")
    write_lines(tmp_path / "raw/b.jsonl", ["two"])
    run_cli("run", config)
    for folder in (TOKENIZED, PACKED):
        run_cli("verify", tmp_path / folder)
    with pytest.raises(ConfigError, match=r"generation 1 of .* cannot be read any more"):
        open_dataset(tmp_path / TOKENIZED, generation=1)


def test_a_file_that_a_corpus_names_twice_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    write_lines(tmp_path / "raw/a.jsonl", ["one"])
    inputs = [{"path": "raw/a.jsonl"}, {"path": "raw/*.jsonl", "fields": "'x',text"}]
    config = write_config(tmp_path / "c.json", inputs=inputs, allow_duplicates=True)
    done = run_cli("run", config, check=False)
    assert done.code == 2
    assert "is the same file as" in done.stderr
    assert "a corpus of its own" in done.stderr
