"""What was forgotten stays away, whatever becomes of files, settings and datasets."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import RunCli
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.run import clean, masking
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.forget import forget as forget_in_run
from dataprep.pipeline.run.forget import held_in
from dataprep.pipeline.run.forgotten import read_requests
from dataprep.pipeline.run.summary import run_all
from dataprep.pipeline.run.versions import write_without
from dataprep.pipeline.storage.checked import FilesRead
from dataprep.pipeline.storage.keys import hex_of_content, map_keys
from dataprep.pipeline.storage.manifest import read_manifest
from support.datasets import pack_here
from support.exporting import export_here, megatron_documents
from support.inprocess import tokenize_here
from support.killable import without_processes
from support.nights import text_of, whole_texts, write_config, write_lines

PACKED = "out/data/packed-64"
INPUTS = {"inputs": ["raw/*.jsonl"]}


def forget(run_cli: RunCli, home: Path, *lines: str) -> Any:
    (home / "gone.txt").write_text("\n".join(lines))
    done = run_cli("forget", home / "out", "--documents", home / "gone.txt", "--json")
    return json.loads(done.stdout)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw/a.jsonl", ["one", "two", "three"])
    return tmp_path / "raw"


def test_a_line_stays_away_when_its_file_grew_or_moved_and_is_read_again(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", **INPUTS, append=True)
    run_cli("run", config)
    forget(run_cli, tmp_path, "a.jsonl:2")
    write_lines(raw / "a.jsonl", ["four"], mode="a")
    run_cli("run", config)
    write_config(config, **INPUTS, append=True, subfield_separator="-")
    run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["four", "one", "three"]
    (raw / "a.jsonl").rename(raw / "b.jsonl")
    write_config(config, **INPUTS, append=True, subfield_separator="+")
    run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["four", "one", "three"]
    assert '"why": []' in run_cli("run", config, "--why", "--json").stdout


def test_a_night_after_it_reads_no_older_generation_in_full(
    run_cli: RunCli, tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year has hundreds, each as long as a manifest; what has nothing to free needs none."""
    config = write_config(tmp_path / "c.json", **INPUTS)
    run_cli("run", config)
    forget(run_cli, tmp_path, "a.jsonl:2")
    asked: list[str] = []
    found = clean._named_by
    monkeypatch.setattr(clean, "_named_by", lambda *given: asked.append(given[1]) or found(*given))
    clean.free_replaced(tmp_path / "out")
    assert not asked
    shutil.copytree(tmp_path / PACKED / "parts/00000", tmp_path / PACKED / "parts/00001")
    shutil.copytree(tmp_path / PACKED / "parts/00000-1", tmp_path / PACKED / "parts/00001-1")
    clean.free_replaced(tmp_path / "out")
    assert set(asked) == {"generations/00000.json", "generations/00001.json"}
    assert (tmp_path / PACKED / "parts/00000/manifest.json").exists()


def test_a_line_goes_from_no_file_whose_name_another_has_by_now(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    """What the other begins with says nothing of what was read."""
    write_lines(raw / "b.jsonl", ["four", "five", "six", "seven"])
    config = write_config(tmp_path / "c.json", **INPUTS, on_changed="rebuild")
    run_cli("run", config)
    forget(run_cli, tmp_path, "a.jsonl:2")
    (raw / "a.jsonl").unlink()
    run_cli("run", config)  # remembers the line, and files that begin with a.jsonl
    (raw / "b.jsonl").rename(raw / "c.jsonl")
    write_lines(raw / "b.jsonl", ["one", "two", "three", "eight"])
    write_lines(raw / "d.jsonl", ["nine"])
    run_cli("run", config)
    (raw / "d.jsonl").unlink()
    run_cli("run", config)
    texts = ["eight", "five", "four", "one", "seven", "six", "three"]
    assert whole_texts(tmp_path / PACKED) == texts


@pytest.mark.parametrize("ends", ["as it should", "killed"])
def test_a_line_stays_away_when_other_fields_of_it_are_read(
    run_cli: RunCli, tmp_path: Path, raw: Path, ends: str
) -> None:
    """Its content is another then; also that of an equal line which came in later."""
    for name, texts in (("a", ["one", "two", "three"]), ("b", ["four", "two"])):
        records = ({"title": f"{name}{i}", "text": text} for i, text in enumerate(texts))
        (raw / f"{name}.new").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    (raw / "a.new").rename(raw / "a.jsonl")
    config = write_config(tmp_path / "c.json", **INPUTS, fields="text", dedup="exact")
    run_cli("run", config)
    before = shutil.copytree(tmp_path / "out/data", tmp_path / "before")
    forget(run_cli, tmp_path, "a.jsonl:2")
    if ends == "killed":  # after the list was written
        shutil.rmtree(tmp_path / "out/data")
        before.rename(tmp_path / "out/data")
    else:
        (raw / "b.new").rename(raw / "b.jsonl")
        run_cli("run", config)
    later = [] if ends == "killed" else ["b0four"]
    write_config(config, **INPUTS, fields="title,text")
    run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["a0one", "a2three", *later]
    corpora = {"data": INPUTS, "titles": {**INPUTS, "fields": "title"}}
    write_config(config, corpora=corpora, fields="title,text")
    run_cli("run", config)
    assert whole_texts(tmp_path / "out/titles/packed-64") == ["a0", "a2", *(t[:2] for t in later)]
    run_cli("verify", tmp_path / "out")
    assert not any(
        step["why"] for step in json.loads(run_cli("run", config, "--why", "--json").stdout)
    )


def test_contents_stay_away_without_splits_and_duplicates(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", **INPUTS, dedup="exact")
    run_cli("run", config)
    forget(run_cli, tmp_path, "a.jsonl:2")
    write_config(config, **INPUTS)
    run_cli("run", config)
    write_lines(raw / "b.jsonl", ["two", "four"])
    run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["four", "one", "three"]


def test_a_key_stays_away_when_splits_are_by_content(run_cli: RunCli, tmp_path: Path) -> None:
    texts = ["one", "two", "three"]
    lines = [json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.jsonl").write_text("".join(lines))
    config = write_config(tmp_path / "c.json", **INPUTS, splits={"a": 1.0}, split_by="key:id")
    run_cli("run", config)
    forget(run_cli, tmp_path, "id=1")
    write_config(config, **INPUTS, splits={"a": 1.0})
    done = run_cli("run", config)
    assert "id=1 is to be forgotten, but only in what was there" in done.stderr
    assert whole_texts(tmp_path / f"{PACKED}-a") == ["one", "three"]


def test_a_packed_dataset_that_is_behind_loses_its_own_documents(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", **INPUTS, on_changed="rebuild", dedup="exact")
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["zero", "one", "two", "three"])
    run_cli("run", config, "--only", "tokenize")  # or a run that is killed then
    assert forget(run_cli, tmp_path, "a.jsonl:3")["behind"] == []
    assert whole_texts(tmp_path / PACKED) == ["one", "three"]
    run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["one", "three", "zero"]


def test_a_packed_dataset_of_documents_that_are_gone_is_told(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", **INPUTS, on_changed="rebuild")
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["zero", "one", "two", "three"])
    run_cli("run", config, "--only", "tokenize")
    run_cli("clean", tmp_path / "out/data/tokenized", "--keep", "1", "--go")
    assert forget(run_cli, tmp_path, "a.jsonl:3")["behind"] == [str(tmp_path / PACKED)]
    done = run_cli("verify", tmp_path / "out", check=False)
    assert done.code == 5
    assert f"{PACKED}: rows of documents that are not there any more" in done.stderr
    assert "remove datasets that no config makes any more" in done.stderr
    run_cli("run", config)
    run_cli("verify", tmp_path / "out")
    assert whole_texts(tmp_path / PACKED) == ["one", "three", "zero"]


def test_documents_that_went_before_are_told_apart(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    run_cli("run", write_config(tmp_path / "c.json", **INPUTS))
    assert [each["had_gone"] for each in forget(run_cli, tmp_path, "a.jsonl:2")["documents"]] == [
        False
    ]
    (tmp_path / "gone.txt").write_text("a.jsonl:2\na.jsonl:3\n")
    again = ("forget", tmp_path / "out", "--documents", tmp_path / "gone.txt")
    assert "\n1 document taken out, 1 before\n" in run_cli(*again).stdout
    (tmp_path / "gone.txt").write_text("a.jsonl:2\na.jsonl:3\na.jsonl:9\nx.jsonl:1\n")
    told = run_cli(*again).stdout
    assert told.startswith("0 documents taken out, 2 before\nnot found: a.jsonl:9\n")
    assert "\n2 of 4 requests not found\n" in told
    quiet = run_cli(*again, "-q")
    assert quiet.stdout == ""
    assert quiet.stderr.startswith("not found: a.jsonl:9\nnot found: x.jsonl:1\n")


def test_a_value_that_looks_like_a_line_of_a_file_is_found(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "raw/of=x").mkdir(parents=True)
    records = [{"text": text, "id": f"user:{i}"} for i, text in enumerate("abc")]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "raw/of=x/a.jsonl").write_text(lines)
    inputs = {"inputs": ["raw/of=x/*.jsonl"], "split_by": "key:id", "splits": {"a": 1.0}}
    run_cli("run", write_config(tmp_path / "c.json", **inputs))
    found = forget(run_cli, tmp_path, "\ufeffid=user:0", "of=x/a.jsonl:3", "id=user:9")
    assert [each["request"] for each in found["documents"]] == ["id=user:0", "of=x/a.jsonl:3"]
    assert (found["num_requests"], found["not_found"]) == (3, ["id=user:9"])
    assert whole_texts(tmp_path / f"{PACKED}-a") == ["b"]


def test_all_documents_that_went_are_listed(run_cli: RunCli, tmp_path: Path, raw: Path) -> None:
    write_lines(raw / "b.jsonl", ["two", "four"])
    run_cli("run", write_config(tmp_path / "c.json", **INPUTS, splits={"a": 1.0}))
    found = forget(run_cli, tmp_path, "a.jsonl:2", "b.jsonl:1", "a.jsonl:99")
    assert [each["document"] for each in found["documents"]] == [1, 3]
    assert found["not_found"] == ["a.jsonl:99"]
    assert whole_texts(tmp_path / f"{PACKED}-a") == ["four", "one", "three"]


@pytest.mark.parametrize("kind", ["tokenized", "packed"])
def test_a_shard_that_changes_while_documents_are_taken_out_becomes_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It was hashed before; what is written of it gets a hash of its own."""
    folders = {name: tmp_path / name for name in ("tokenized", "packed")}
    lines = tmp_path / "in.jsonl"
    write_lines(lines, [f"text {i}" for i in range(50)])
    tokenize_here(folders["tokenized"], inputs=[str(lines)], tokenizer="bytes")
    pack_here(folders["packed"], folders["tokenized"], seq_len=30)
    read, fired = masking.read_records, []

    def read_and_change(folder: Path, shard: Any) -> Any:
        for batch in read(folder, shard):
            fired.append(shard.path)
            with open(folder / shard.path, "r+b") as file:
                file.seek(-100, os.SEEK_END)
                file.write(b"\xff")
            yield batch

    monkeypatch.setattr(masking, "read_records", read_and_change)
    manifest = read_manifest(folders[kind])
    with pytest.raises(CorruptError, match="changed while it was read"):
        write_without(folders[kind], manifest, np.array([3]), tmp_path / "new")  # type: ignore[arg-type]
    assert fired
    assert not (tmp_path / "new/manifest.json").exists()


@pytest.mark.parametrize("splits", [{}, {"train": 0.5, "validation": 0.5}])
def test_what_is_still_there_is_told_by_verify(
    run_cli: RunCli, tmp_path: Path, raw: Path, splits: dict[str, float]
) -> None:
    """The list is written first: what comes after may have been killed, or found no room."""
    config = write_config(tmp_path / "c.json", **INPUTS, splits=splits)
    run_cli("run", config)
    write_lines(raw / "b.jsonl", ["four", "five"])
    run_cli("run", config)
    first = shutil.copytree(tmp_path / "out", tmp_path / "first")
    forget(run_cli, tmp_path, "a.jsonl:2")
    run_cli("verify", tmp_path / "out")
    packed = [place.name for place in (tmp_path / "out/data").glob("packed-*")]
    for left in (["tokenized", *packed], packed):
        for name in left:
            shutil.rmtree(tmp_path / "out/data" / name)
            shutil.copytree(first / "data" / name, tmp_path / "out/data" / name)
        done = run_cli("verify", tmp_path / "out", check=False)
        assert done.code == 5
        assert f"out/data/{left[0]}: 1 document" in done.stderr
        assert ("out/data/tokenized" in done.stderr) == ("tokenized" in left)
        run_cli("run", config)
        run_cli("verify", tmp_path / "out")


def test_a_list_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="cannot read --documents"):
            read_requests(str(path))


@pytest.mark.parametrize("text", ["content:12", "content:", f"content:{'0' * 33}", "content:a=b"])
def test_a_content_that_is_none_is_neither_a_line_nor_a_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "list").write_text(f"./content:12\n{text}\n")
    with pytest.raises(ConfigError, match=r"line 2 of .* is no content; one has 32 hexadecimal"):
        read_requests(str(tmp_path / "list"))


def test_lines_of_a_list_end_at_newlines_alone(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("name=a\u2028b\r\n\nid=7\n", "utf-8", newline="")
    assert [r.value for r in read_requests(str(tmp_path / "list"))] == ["a\u2028b", "7"]


@pytest.mark.parametrize(
    ("dataset", "to", "column"),
    [("out/data/tokenized", "hf", "input_ids"), (PACKED, "hf", "input_ids"), (PACKED, "mds", "")],
)
def test_what_was_forgotten_is_in_no_export(
    run_cli: RunCli, tmp_path: Path, raw: Path, dataset: str, to: str, column: str
) -> None:
    run_cli("run", write_config(tmp_path / "c.json", **INPUTS))
    forget(run_cli, tmp_path, "a.jsonl:2")
    export_here(tmp_path / "export", tmp_path / dataset, to)
    if to == "mds":
        (shard,) = (tmp_path / "export").glob("*.mds")
        data = np.frombuffer(shard.read_bytes(), np.uint8)
        stored = bytes(data[data > 0])  # ids of bytes are int32: four bytes for a letter
    else:
        (table,) = (tmp_path / "export/data").glob("*.parquet")
        rows = pq.read_table(table)[column].to_pylist()
        stored = bytes(i for row in rows for i in row if i < 256)
    assert [text in stored for text in (b"one", b"two", b"three")] == [True, False, True]


def test_an_export_of_documents_leaves_out_what_was_forgotten(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    """Padding in its place would be learned, as most formats have no mask."""
    config = write_config(tmp_path / "c.json", **INPUTS)
    run_cli("run", config)
    write_lines(raw / "b.jsonl", ["four", "five"])
    run_cli("run", config)
    forget(run_cli, tmp_path, "a.jsonl:2", "b.jsonl:1")
    made = export_here(tmp_path / "export", tmp_path / "out/data/tokenized", "megatron").manifest
    counts = made.counts
    assert (counts["documents_read"], counts["documents_forgotten"], counts["records"]) == (5, 2, 3)
    documents = megatron_documents(tmp_path / "export/shards/documents-00000-of-00001")
    assert [text_of(each) for each in documents] == ["one", "three", "five"]
    notes = export_here(tmp_path / "mds", tmp_path / "out/data/tokenized", "mds").found.notes
    assert not notes
    # A mask that is about other documents is still not lost without a word.
    values = {"fields": "['question '],text", "out": "masked"}
    run_cli("run", write_config(tmp_path / "m.json", **INPUTS, **values))
    (tmp_path / "gone.txt").write_text("a.jsonl:2\n")
    run_cli("forget", tmp_path / "masked", "--documents", tmp_path / "gone.txt")
    with pytest.raises(ConfigError, match="have no loss, which this format cannot say"):
        export_here(tmp_path / "m", tmp_path / "masked/data/tokenized", "megatron")


def test_a_name_means_the_input_that_has_it_now(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs are rotated: each night a is renamed, and another comes in under its name."""
    monkeypatch.chdir(tmp_path)
    config = load_config(RunConfig, files=[str(write_config(Path("c.json"), **INPUTS))])
    raw, out = tmp_path / "raw", tmp_path / "out"

    def rename(names: str) -> None:
        for name, now in names.split():
            (raw / f"{name}.jsonl").rename(raw / f"{now}.jsonl")

    def night() -> None:
        with without_processes():
            run_all(StepChain(config=config, cache_dir=cache_dir), lambda todo: silent)

    def goes(line: str) -> tuple[set[str], tuple[str, ...]]:
        Path("gone.txt").write_text(line)
        before = whole_texts(tmp_path / PACKED)
        found = forget_in_run(out, read_requests("gone.txt"))
        assert not held_in(out)
        assert [each.request for each in found.documents] == [line]
        return {*before} - {*whole_texts(tmp_path / PACKED)}, found.notes

    write_lines(raw / "x.jsonl", ["x 1", "x 2"])
    for word, renamed in (("old", ""), ("mid", "ab xy"), ("new", "bc ab")):
        rename(renamed)
        write_lines(raw / "a.jsonl", [f"{word} {i}" for i in (1, 2, 3)])
        night()
    was = f"a.jsonl is {raw}/a.jsonl; what had that name before is called {raw}"
    assert goes("a.jsonl:1") == ({"new 1"}, (f"{was}/b.jsonl now", f"{was}/c.jsonl now"))
    assert goes("b.jsonl:2") == ({"mid 2"}, ())
    assert goes("raw/c.jsonl:3") == ({"old 3"}, ())
    assert goes("x.jsonl:1") == ({"x 1"}, (f"x.jsonl is called {raw}/y.jsonl now",))
    before = whole_texts(tmp_path / PACKED)
    rename("ad")
    night()
    told = f"was the name of several inputs; name {raw}/b.jsonl, {raw}/c.jsonl, {raw}/d.jsonl"
    (tmp_path / "gone.txt").write_text("x.jsonl:2\na.jsonl:3\n")
    with pytest.raises(ConfigError, match=told):
        forget_in_run(out, read_requests("gone.txt"))
    (out / ".run/renamed/data.json").unlink()
    with pytest.raises(ConfigError, match="not known which is called so now"):
        forget_in_run(out, read_requests("gone.txt"))
    assert whole_texts(tmp_path / PACKED) == before
    first = out / "data/tokenized/parts/00000"
    keys = map_keys(first, read_manifest(first).shards[0], FilesRead())
    # Other lines of the same number stay, in whatever had that name.
    assert goes(f"content:{hex_of_content(keys['content'])[1]}") == ({"old 2"}, ())
