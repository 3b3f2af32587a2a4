"""What was exported comes in again as it was: the same documents, the same loss."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import CorruptError, DataprepError, InputError
from dataprep.pipeline.sources import find_sources
from dataprep.pipeline.storage.manifest import MARK
from dataprep.pipeline.tokenize import plan_of
from dataprep.pipeline.tokenize.notes import notes_of
from support.exporting import Home, export_here
from support.inprocess import tokenize_here, write_lines

ARRAYS = ("tokens", "loss_mask")
LONG = 1 << 16  # ids of a document, more than any has
OF_HF = {"tokens": "input_ids", "labels": "labels"}
OF_MDS = {"tokens": "tokens", "loss_mask": "loss_mask"}
FLAT = {"records": "tokens_uint16", "document_end": "eos", "pretokenized": "tokens"}


def documents_in(folder: Path) -> list[list[Any]]:
    dataset = open_dataset(folder)
    return [
        [document[name].tolist() for name in ARRAYS]
        for document in dataset[list(range(len(dataset)))]
    ]


def imported(folder: Path, pattern: str = "", **config: Any) -> list[list[Any]]:
    back = folder.with_name(f"{folder.name}-back")
    tokenize_here(back, inputs=[f"{folder}{pattern}"], tokenizer="bytes", **config)
    return documents_in(back)


@pytest.mark.parametrize(
    ("to", "how", "pattern", "config"),
    [
        ("maxtext", {"max_length": LONG}, "", {"pretokenized": "text"}),
        ("xlstm", {"max_length": LONG}, "", {"pretokenized": "tokens", "add_eos": True}),
        ("megatron", {}, "", {"pretokenized": "tokens"}),
        ("olmo", {}, "/shards/*.npy", FLAT),
        ("nanogpt", {}, "/*.bin", FLAT),
        ("nanogpt", {"header": "llm.c"}, "/*.bin", {**FLAT, "records": None}),
        ("datatrove", {}, "", {"pretokenized": "tokens"}),
        ("mds", {}, "", {"pretokenized": "tokens"}),
        ("hf", {}, "", {"pretokenized": "input_ids"}),
    ],
)
def test_documents_come_back(
    home: Home, tmp_path: Path, to: Any, how: Any, pattern: str, config: Any
) -> None:
    export_here(tmp_path / to, home.plain, to=to, **how)
    found = imported(tmp_path / to, pattern, **config)
    expected = documents_in(home.plain)
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected]
    # The first token of a document, here BOS, is nobody's target: its loss is not carried.
    assert [loss[1:] for _, loss in found] == [loss[1:] for _, loss in expected]


@pytest.mark.parametrize(("to", "keys"), [("hf", OF_HF), ("mds", OF_MDS), ("datatrove", OF_MDS)])
def test_masks_come_back(home: Home, tmp_path: Path, to: Any, keys: dict[str, str]) -> None:
    export_here(tmp_path / to, home.masked, to=to)
    assert imported(tmp_path / to, pretokenized=keys) == documents_in(home.masked)


def test_masks_of_flat_files_come_back(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "olmo", home.masked, to="olmo", shard_bytes=1 << 16)
    assert len(list((tmp_path / "olmo" / "masks").iterdir())) > 1
    how = {**FLAT, "loss_masks": "shards=masks"}
    assert imported(tmp_path / "olmo", "/shards/*.npy", **how) == documents_in(home.masked)


@pytest.mark.parametrize(("to", "keys"), [("hf", OF_HF), ("mds", OF_MDS)])
def test_rows_come_back_as_their_documents(
    home: Home, tmp_path: Path, to: Any, keys: dict[str, str]
) -> None:
    export_here(tmp_path / to, home.packed_masked, to=to)
    found = imported(tmp_path / to, pretokenized={**keys, "lengths": "seq_lengths"})
    rows = open_dataset(home.packed_masked)
    expected = []
    for i in range(len(rows)):
        row = rows[i]
        for number in range(1, int(row["segment_ids"].max()) + 1):
            own = row["segment_ids"] == number
            expected.append([row[name][own].tolist() for name in ARRAYS])
    assert found == expected


def test_the_mask_of_megatron_bridge_is_not_taken_for_ours(home: Home, tmp_path: Path) -> None:
    """It says of each token whether the next one has loss."""
    export_here(tmp_path / "bridge", home.packed_masked, to="megatron-bridge")
    keys = {"tokens": "input_ids", "loss_mask": "loss_mask"}
    with pytest.raises(InputError, match="one place ahead"):
        imported(tmp_path / "bridge", pretokenized=keys)
    config = TokenizeConfig.model_validate(
        {
            "inputs": [str(tmp_path / "bridge")],
            "tokenizer": "bytes",
            "pretokenized": "input_ids",
            "out": str(tmp_path / "without"),
        }
    )
    notes = notes_of(plan_of(config, tmp_path / "cache"))
    assert any("one place ahead" in note for note in notes)
    assert not any("--set pretokenized.loss_mask" in note for note in notes)


@pytest.mark.parametrize("key", ["loss_masks", "assistant_mask", "labels_mask", "mask"])
def test_a_mask_by_any_of_its_names_is_told(tmp_path: Path, key: str) -> None:
    write_lines(tmp_path / "ids.jsonl", [{"ids": [1, 2], key: [0, 1]}])
    config = TokenizeConfig.model_validate(
        {
            "inputs": [str(tmp_path / "ids.jsonl")],
            "tokenizer": "bytes",
            "pretokenized": "ids",
            "out": str(tmp_path / "out"),
        }
    )
    notes = notes_of(plan_of(config, tmp_path / "cache"))
    assert any(f"--set pretokenized.loss_mask={key}" in note for note in notes)


HOW_READ: dict[str, tuple[str, dict[str, Any]]] = {
    "olmo": ("/shards/*.npy", {**FLAT, "loss_masks": "shards=masks"}),
    "datatrove": ("", {"pretokenized": OF_MDS}),
    "mds": ("", {"pretokenized": OF_MDS}),
    "hf": ("", {"pretokenized": OF_HF}),
    "hf by a pattern": ("/**/*.parquet", {"pretokenized": OF_HF}),
    "hf by the folder in it": ("/data", {"pretokenized": OF_HF}),
}


def test_an_export_in_a_store_comes_in_by_its_folder(home: Home, tmp_path: Path) -> None:
    import fsspec

    store = fsspec.filesystem("memory")
    for to, ending in (("megatron", ".idx"), ("datatrove", ".ds"), ("mds", ".mds")):
        out = tmp_path / to
        export_here(out, home.plain if to == "megatron" else home.masked, to, shard_bytes=1 << 16)
        for path in filter(Path.is_file, out.rglob("*")):
            store.pipe(f"/{to}/x/{path.relative_to(out)}", path.read_bytes())
        place = f"memory://{to}/x" + ("" if to == "mds" else "/shards")
        folders, patterns = (
            (f"memory://{to}", place),
            (f"{place}/*{ending}", f"{place}/*0*{ending}"),
        )
        for spec in (*folders, *patterns):
            found = find_sources(spec)
            names = sorted(path.name for path in out.rglob(f"*{ending}"))
            assert [source.path.rpartition("/")[2] for source in found] == names
        added, gone = f"{place}/zz{ending}", found[0].path
        store.pipe(added, b"")
        for spec in folders:
            with pytest.raises(CorruptError, match=rf"zz{ending} is not in the manifest"):
                find_sources(spec)
        store.rm_file(added)
        store.pipe(gone, store.cat_file(gone) + b"x")
        for spec in (*folders, *patterns):
            with pytest.raises(CorruptError, match=r"bytes, but the manifest\.json of .* says"):
                find_sources(spec)
        store.rm_file(gone)
        for spec in (*folders, *patterns):
            with pytest.raises(CorruptError, match=r"is missing, but the manifest"):
                find_sources(spec)
        assert find_sources(f"{place}/*1*{ending}")  # of which none is missing
        store.mv(f"/{to}/x/manifest.json", f"/{to}/x/.work/{MARK}")  # as while it is published
        for spec in (f"memory://{to}/x", place, *patterns):
            with pytest.raises(CorruptError, match="unfinished"):
                find_sources(spec)


def test_an_export_in_an_archive_comes_in_by_its_folder(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "hf", home.masked, "hf", shard_bytes=1 << 16)
    count = len(list((tmp_path / "hf/data").iterdir()))
    for name in ("whole", "less"):
        shutil.make_archive(str(tmp_path / name), "zip", tmp_path / "hf")
        min((tmp_path / "hf/data").iterdir()).unlink()
    for folder in ("", "data", "data/*.parquet"):
        assert len(find_sources(f"zip://{folder}::{tmp_path}/whole.zip")) == count
        with pytest.raises(CorruptError, match=r"is missing, but the manifest"):
            find_sources(f"zip://{folder}::{tmp_path}/less.zip")


@pytest.mark.parametrize("to", HOW_READ)
def test_an_export_that_is_damaged_does_not_come_in(home: Home, tmp_path: Path, to: str) -> None:
    """Not even where its format would not tell: a flipped bit, a document cut off, a file gone."""
    pattern, config = HOW_READ[to]
    out = tmp_path / "out"
    export_here(out, home.masked, to=to.split()[0], shard_bytes=1 << 16)
    files = [path for path in sorted(out.rglob("*")) if path.suffix not in ("", ".md", ".json")]
    assert len(files) > 1
    for path in (files[0], files[-1]):
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[-1] ^= 1
        for damaged in (bytes(flipped), whole[:-2], whole + b"\0\0", None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(DataprepError, match=path.stem):
                imported(out, pattern, **config)
            path.write_bytes(whole)
    (out / "manifest.json").unlink()
    (out / ".work").mkdir()
    (out / ".work" / MARK).touch()  # as it is while files are moved to their places
    with pytest.raises(CorruptError, match="unfinished"):
        imported(out, pattern, **config)


def test_a_linked_folder_of_an_export_is_held_against_its_manifest(
    home: Home, tmp_path: Path
) -> None:
    export_here(tmp_path / "hf", home.masked, "hf", shard_bytes=1 << 16)
    (tmp_path / "link").symlink_to(tmp_path / "hf/data")
    specs = [f"{tmp_path}/link{pattern}" for pattern in ("", "/*.parquet")]
    first, *others = sorted((tmp_path / "hf/data").iterdir())
    for spec in specs:
        assert len(find_sources(spec)) == 1 + len(others)
    whole = first.read_bytes()
    for damaged, why in ((whole[:-1] + b"x", "is not what"), (None, "is missing")):
        first.unlink() if damaged is None else first.write_bytes(damaged)
        for spec in specs:
            with pytest.raises(CorruptError, match=why):
                find_sources(spec)


def test_an_unfinished_export_of_array_records_says_so(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_here(out, home.plain, to="xlstm", max_length=LONG)
    (out / "manifest.json").rename(tmp_path / "manifest.json")
    (out / ".work").mkdir()
    (out / ".work" / MARK).touch()
    for pattern in ("", "/train", "/train/*.arecord"):
        with pytest.raises(CorruptError, match="unfinished"):
            imported(out, pattern, pretokenized="tokens")
