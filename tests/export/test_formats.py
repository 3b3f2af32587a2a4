"""Every format, read by plain means, has the documents or rows of the dataset, with their masks."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dataprep.loaders import PackedDataset, TokenizedDataset, open_dataset
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.export import usage_of
from dataprep.pipeline.look.verify import verify
from support.datasets import pack_here
from support.exporting import (
    Home,
    export_here,
    ids_of_example,
    manifest_of,
    mds_samples,
    megatron_documents,
    records_in,
)
from support.inprocess import tokenize_here, write_lines

SMALL = 1 << 16


def documents_of(folder: Path) -> list[dict[str, NDArray[Any]]]:
    dataset = open_dataset(folder)
    assert isinstance(dataset, TokenizedDataset)
    return dataset[:]


def rows_of(folder: Path) -> list[dict[str, NDArray[Any]]]:
    """The rows of a packed dataset, without their padding."""
    dataset = open_dataset(folder)
    assert isinstance(dataset, PackedDataset)
    rows = [dataset[i] for i in range(len(dataset))]
    return [{name: row[name][row["segment_ids"] > 0] for name in row} for row in rows]


def ids(documents: list[dict[str, NDArray[Any]]]) -> list[list[int]]:
    return [document["tokens"].tolist() for document in documents]


def test_megatron_has_every_document(home: Home, tmp_path: Path) -> None:
    outcome = export_here(tmp_path / "out", home.plain, "megatron", shard_bytes=SMALL)
    files = sorted((tmp_path / "out" / "shards").glob("*.bin"))
    assert len(files) > 2
    found = [megatron_documents(file.with_suffix("")) for file in files]
    assert list(chain(*found)) == ids(documents_of(home.plain))
    assert manifest_of(outcome).token_dtype == "uint16"
    assert verify(tmp_path / "out").num_items == 900
    (line,) = usage_of(tmp_path / "out", manifest_of(outcome))
    assert line.startswith("--data-path")


def test_megatron_joins_shards_up_to_a_size(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "out", home.plain, "megatron")
    (prefix,) = [p.with_suffix("") for p in (tmp_path / "out" / "shards").glob("*.bin")]
    assert megatron_documents(prefix) == ids(documents_of(home.plain))


@pytest.mark.parametrize("most", [7, 64, 10_000])
def test_maxtext_has_every_document_in_pieces(home: Home, tmp_path: Path, most: int) -> None:
    outcome = export_here(
        tmp_path / "out", home.plain, "maxtext", max_length=most, shard_bytes=SMALL
    )
    files = sorted((tmp_path / "out" / "shards").glob("*.arrayrecord"))
    found = [ids_of_example(record, "text") for record in records_in(files)]
    wanted = [
        document[start : start + most]
        for document in ids(documents_of(home.plain))
        for start in range(0, len(document), most)
    ]
    assert found == wanted
    assert manifest_of(outcome).counts["records"] == len(wanted)


def test_maxtext_warns_where_padding_is_the_end(home: Home, tmp_path: Path) -> None:
    outcome = export_here(tmp_path / "out", home.plain, "maxtext", max_length=64)
    tokenizer = manifest_of(outcome).tokenizer
    assert bool(outcome.found.notes) == (tokenizer.pad in (None, tokenizer.eos))


def test_xlstm_documents_lose_the_end_that_its_trainer_adds(home: Home, tmp_path: Path) -> None:
    outcome = export_here(tmp_path / "out", home.plain, "xlstm", max_length=50, split="validation")
    eos = manifest_of(outcome).tokenizer.eos
    found = [
        np.frombuffer(record, "<i4").tolist()
        for record in records_in(sorted((tmp_path / "out" / "validation").glob("*.arecord")))
    ]
    wanted = []
    for document in ids(documents_of(home.plain)):
        assert document[-1] == eos
        body = document[:-1]
        wanted += [body[start : start + 50] for start in range(0, len(body), 50)]
    assert found == wanted
    assert (tmp_path / "out" / "validation" / "validation_000000.arecord").exists()


def test_xlstm_rows_are_found_again_by_their_ends(home: Home, tmp_path: Path) -> None:
    whole = tmp_path / "packed"
    pack_here(whole, home.plain, seq_len=600, overflow="drop")
    outcome = export_here(tmp_path / "out", whole, "xlstm")
    eos = manifest_of(outcome).tokenizer.eos
    found = [
        np.frombuffer(record, "<i4").tolist()
        for record in records_in(sorted((tmp_path / "out" / "train").glob("*.arecord")))
    ]
    # As its loader does: an end behind what is shorter than a row, documents by their ends.
    rows = [[*row, eos] if len(row) < 601 else row for row in found]
    for row, own in zip(rows, rows_of(whole), strict=True):
        assert row == own["tokens"].tolist()
        segments = 1 + np.cumsum(np.array([eos, *row[:-1]]) == eos) - 1
        assert segments.tolist() == own["segment_ids"].tolist()


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"add_eos": False}, "EOS is missing"),
        ({"fields": "a,<|eos|>,b"}, "inside of"),
    ],
)
def test_xlstm_refuses_rows_that_it_would_take_for_others(
    tmp_path: Path, settings: dict[str, Any], cause: str
) -> None:
    source = str(write_lines(tmp_path / "a.jsonl", [{"a": "one", "b": "two"}] * 9))
    values: dict[str, Any] = {"fields": "a", "tokenizer": "bytes", "inputs": [source]}
    tokenize_here(tmp_path / "in", **{**values, **settings})
    pack_here(tmp_path / "packed", tmp_path / "in", seq_len=60)
    where = re.escape(str(tmp_path / "packed" / "shards" / "rows-00000-of-00001.arrayrecord"))
    with pytest.raises(InputError, match=f"{where}: .*{cause}"):
        export_here(tmp_path / "out", tmp_path / "packed", "xlstm")


@pytest.mark.parametrize("name", ["masked", "rich"])
def test_hf_documents_have_labels_and_masks(home: Home, tmp_path: Path, name: str) -> None:
    export_here(tmp_path / "out", getattr(home, name), "hf", shard_bytes=SMALL)
    files = sorted((tmp_path / "out" / "data").glob("train-*.parquet"))
    assert len(files) > 1
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    for row, own in zip(rows, documents_of(getattr(home, name)), strict=True):
        check_hf(row, own)
    assert {*rows[0]} == {
        "masked": {"input_ids", "labels"},
        "rich": {"input_ids", "labels", "vision_mask", "loss_weights"},
    }[name]


@pytest.mark.parametrize("name", ["packed", "packed_rich"])
def test_hf_rows_say_where_documents_begin(home: Home, tmp_path: Path, name: str) -> None:
    export_here(tmp_path / "out", getattr(home, name), "hf")
    rows = pq.read_table(next((tmp_path / "out" / "data").glob("*.parquet"))).to_pylist()
    for row, own in zip(rows, rows_of(getattr(home, name)), strict=True):
        check_hf(row, own)
        assert row["position_ids"] == own["positions"].tolist()
        assert row["seq_lengths"] == np.bincount(own["segment_ids"])[1:].tolist()


def check_hf(row: dict[str, Any], own: dict[str, NDArray[Any]]) -> None:
    tokens = own["tokens"].astype(int)
    assert row["input_ids"] == tokens.tolist()
    assert row["labels"] == np.where(own["loss_mask"], tokens, -100).tolist()
    if "vision_mask" in row:
        assert row["vision_mask"] == own["vision_mask"].tolist()
        assert row["loss_weights"] == own["loss_weights"].tolist()


def test_hf_folders_are_opened_by_datasets(home: Home, tmp_path: Path) -> None:
    import datasets

    export_here(tmp_path / "out", home.packed_masked, "hf", split="train")
    found = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert list(found) == ["train"]
    assert found["train"]["input_ids"][:] == [
        row["tokens"].tolist() for row in rows_of(home.packed_masked)
    ]


def test_row_groups_do_not_depend_on_how_records_come(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep.pipeline.export.parquet.GROUP_TOKENS", 5000)
    files = []
    for number, size in enumerate((5000, 1 << 21)):
        monkeypatch.setattr("dataprep.pipeline.storage.in_order.BYTES_AT_ONCE", size)
        export_here(tmp_path / str(number), home.packed_masked, "hf")
        files.append(next((tmp_path / str(number) / "data").glob("*.parquet")))
    assert files[0].read_bytes() == files[1].read_bytes()
    groups = pq.ParquetFile(files[0]).metadata
    assert groups.num_row_groups > 3


def test_bridge_masks_the_token_that_follows(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "out", home.packed_masked, "megatron-bridge")
    (file,) = (tmp_path / "out" / "shards").glob("*.idx.parquet")
    table = pq.read_table(file)
    assert [str(table.schema.field(n).type) for n in ("input_ids", "loss_mask")] == [
        "list<element: int32>",
        "list<element: int8>",
    ]
    for row, own in zip(table.to_pylist(), rows_of(home.packed_masked), strict=True):
        assert row["input_ids"] == own["tokens"].tolist()
        starts = np.flatnonzero(own["positions"] == 0).tolist()
        assert row["seq_start_id"] == starts
        loss = own["loss_mask"].astype(int).tolist()
        wanted = []
        for start, stop in zip(starts, [*starts[1:], len(loss)], strict=True):
            wanted += [*loss[start + 1 : stop], 0]
        assert row["loss_mask"] == wanted


def test_olmo_has_ids_and_label_masks(home: Home, tmp_path: Path) -> None:
    outcome = export_here(tmp_path / "out", home.masked, "olmo", shard_bytes=SMALL)
    own = documents_of(home.masked)
    found = [np.fromfile(p, "<u2") for p in sorted((tmp_path / "out" / "shards").glob("*.npy"))]
    masks = [np.fromfile(p, "?") for p in sorted((tmp_path / "out" / "masks").glob("*.npy"))]
    assert np.array_equal(np.concatenate(found), np.concatenate([d["tokens"] for d in own]))
    assert np.array_equal(np.concatenate(masks), np.concatenate([d["loss_mask"] for d in own]))
    assert [len(a) for a in found] == [len(a) for a in masks]
    assert verify(tmp_path / "out").num_tokens == sum(map(len, found))
    assert manifest_of(outcome).masks == ("loss",)


def test_datatrove_has_ids_ends_and_loss(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "out", home.masked, "datatrove", shard_bytes=SMALL)
    own, number = documents_of(home.masked), 0
    for path in sorted((tmp_path / "out" / "shards").glob("*.ds")):
        tokens, loss = np.fromfile(path, "<u2"), np.fromfile(f"{path}.loss", "?")
        start = 0
        for end in np.fromfile(f"{path}.index", "<u8").tolist():
            assert np.array_equal(tokens[start:end], own[number]["tokens"])
            assert np.array_equal(loss[start:end], own[number]["loss_mask"])
            start, number = end, number + 1
        assert start == len(tokens)
    assert number == len(own)


@pytest.mark.parametrize("name", ["masked", "rich", "packed_rich"])
def test_mds_has_every_column(home: Home, tmp_path: Path, name: str) -> None:
    folder = getattr(home, name)
    export_here(tmp_path / "out", folder, "mds", shard_bytes=SMALL)
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert (index["version"], len(index["shards"]) > 1) == (2, True)
    found = list(chain(*(mds_samples(tmp_path / "out", shard) for shard in index["shards"])))
    wanted = rows_of(folder) if name.startswith("packed") else documents_of(folder)
    for sample, own in zip(found, wanted, strict=True):
        for column in {*sample} - {"seq_lengths"}:
            assert np.array_equal(sample[column], own[column]), column
        if "seq_lengths" in sample:
            assert np.array_equal(sample["seq_lengths"], np.bincount(own["segment_ids"])[1:])
    assert {*found[0]} >= {"tokens", "loss_mask"}
    assert ("vision_mask" in found[0]) == ("loss_weights" in found[0]) == ("rich" in name)


def test_nanogpt_is_one_file_of_ids(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "out", home.plain, "nanogpt", split="val", shard_bytes=SMALL)
    wanted = np.concatenate([d["tokens"] for d in documents_of(home.plain)])
    assert np.array_equal(np.fromfile(tmp_path / "out" / "val.bin", "<u2"), wanted)


def test_the_header_of_llm_c_counts_the_ids(home: Home, tmp_path: Path) -> None:
    export_here(tmp_path / "out", home.plain, "nanogpt", header="llm.c", shard_bytes=SMALL)
    found = []
    for path in sorted((tmp_path / "out").glob("train_*.bin")):
        header = np.fromfile(path, "<i4", 256)
        tokens = np.fromfile(path, "<u2", offset=1024)
        assert header[:3].tolist() == [20240520, 1, len(tokens)]
        assert not header[3:].any()
        found.append(tokens)
    assert len(found) > 1
    wanted = np.concatenate([d["tokens"] for d in documents_of(home.plain)])
    assert np.array_equal(np.concatenate(found), wanted)


def test_large_ids_have_wider_types(tmp_path: Path) -> None:
    """Codes may be above the vocabulary, and above 16 bits."""
    records = [{"text": "ab", "vision": [70_000 + i, 7]} for i in range(20)]
    source = str(write_lines(tmp_path / "a.jsonl", records))
    vision: dict[str, Any] = {
        "tokens_per_frame": 2,
        "start": [1],
        "end": [2],
        "codebook_size": 1 << 18,
    }
    vision |= {"end_of_frame": 1 << 18, "end_of_media": (1 << 18) + 1}
    tokenize_here(
        tmp_path / "in",
        inputs=[source],
        tokenizer="bytes",
        fields="text,vision",
        modalities={"vision": vision},
    )
    wanted = ids(documents_of(tmp_path / "in"))
    options: dict[str, Any] = {"drop_masks": True}
    export_here(tmp_path / "m", tmp_path / "in", "megatron", **options)
    (prefix,) = [p.with_suffix("") for p in (tmp_path / "m" / "shards").glob("*.bin")]
    assert megatron_documents(prefix) == wanted
    export_here(tmp_path / "x", tmp_path / "in", "maxtext", max_length=99, **options)
    files = list((tmp_path / "x" / "shards").glob("*"))
    assert [ids_of_example(record, "text") for record in records_in(files)] == wanted
    export_here(tmp_path / "n", tmp_path / "in", "nanogpt", header="llm.c", **options)
    assert np.fromfile(tmp_path / "n" / "train_000000.bin", "<i4", 2).tolist() == [20240801, 7]
    with pytest.raises(Exception, match="nanoGPT reads uint16"):
        export_here(tmp_path / "o", tmp_path / "in", "nanogpt", **options)
