"""A row knows whether the first token of each document has loss, once for each document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.checks.rows import rows_checker
from dataprep.pipeline.look.records import read_rows
from dataprep.pipeline.run.masking import Overwritten, rewrite_rows
from dataprep.pipeline.storage.arrayrecord import MAPPABLE, RecordWriter, read_records
from dataprep.pipeline.storage.manifest import PackedManifest, read_manifest
from dataprep.pipeline.storage.provenance import read_row_pieces
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows, encode_rows
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines

SEQ_LEN = 7
ROWS: dict[str, dict[str, Any]] = {
    "best fit": {},
    "first fit": {"strategy": "first_fit"},
    "stream": {"strategy": "concat"},
    "stream of LWM": {"strategy": "concat", "compat": "lwm"},
    "one a row": {"strategy": "pad", "overflow": "truncate"},
    "one a row, left": {"strategy": "pad", "pad_side": "left", "overflow": "drop"},
    "one a row, as LWM": {"strategy": "pad", "compat": "lwm", "overflow": "truncate"},
    "without the beginning": {"overflow": "truncate", "truncate_side": "left"},
}


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tokenized")
    rng = np.random.default_rng(0)
    records = [
        {"f": str(rng.choice(["a", "[q],a"])), "q": "q", "a": "x" * int(rng.integers(1, 25))}
        for _ in range(200)
    ]
    path = write_lines(home / "in.jsonl", records)
    common = {"tokenizer": "bytes", "fields_from": "f", "add_bos": False, "add_eos": False}
    tokenize_here(home / "out", inputs=[str(path)], **common)
    return home / "out"


def packed_of(tokenized: Path, out: Path, **config: Any) -> PackedManifest:
    pack_here(out, tokenized, **{"seq_len": SEQ_LEN, **config})
    manifest = read_manifest(out)
    assert isinstance(manifest, PackedManifest)
    return manifest


def found_in(folder: Path, manifest: PackedManifest) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the pieces of all rows, and the first loss of each."""
    pieces = [read_row_pieces(folder, manifest, shard) for shard in manifest.shards]
    rows = [rows for shard in manifest.shards for _, rows in read_rows(folder, manifest, shard)]
    return np.concatenate(pieces), np.concatenate([part.first_loss for part in rows])


@pytest.mark.parametrize("name", ROWS)
def test_each_document_has_the_loss_of_its_first_token_in_one_row(
    tokenized: Path, tmp_path: Path, name: str
) -> None:
    manifest = packed_of(tokenized, tmp_path / "rows", **ROWS[name])
    pieces, first_loss = found_in(tmp_path / "rows", manifest)
    documents = open_dataset(tokenized)
    wanted = [i for i in range(len(documents)) if documents[i]["loss_mask"][0]]
    kept = set(pieces["document"][pieces["start"] == 0].tolist())
    assert sorted(pieces["document"][first_loss].tolist()) == [i for i in wanted if i in kept]
    assert 0 < first_loss.sum() < len(pieces)
    # A later piece begins with a token that the one before it ends with, and has as a target.
    assert not first_loss[pieces["start"] > 0].any()
    for shard in manifest.shards:
        rows_checker(tmp_path / "rows", manifest)(shard)


def rows_of(path: Path, manifest: PackedManifest) -> Rows:
    (_, records), *more = read_records(path.parent, replace(manifest.shards[0], path=path.name))
    assert not more
    return decode_rows(records, RowLayout.of_manifest(manifest))


def test_targets_are_counted_as_ever(tokenized: Path, tmp_path: Path) -> None:
    counts = packed_of(tokenized, tmp_path / "rows", overflow="drop").counts
    documents = open_dataset(tokenized)
    lost = sum(
        int(documents[i]["loss_mask"][1:].sum())
        for i in range(len(documents))
        if len(documents[i]["tokens"]) <= SEQ_LEN + 1
    )
    assert counts["target_tokens"] == lost


def test_a_piece_of_two_stretches_begins_with_its_document(tmp_path: Path) -> None:
    roles = ("system", *("user", "assistant") * 4)
    turns = [{"role": role, "content": "hello there"} for role in roles]
    path = write_lines(tmp_path / "in.jsonl", [{"messages": turns}] * 3)
    template = tmp_path / "t.jinja"
    template.write_text("{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}")
    chat = {"messages": "messages", "template": str(template), "train_on": "all"}
    tokenize_here(tmp_path / "out", inputs=[str(path)], tokenizer="bytes", chat=chat, add_bos=False)
    manifest = packed_of(tmp_path / "out", tmp_path / "rows", seq_len=64, overflow="turns")
    pieces, first_loss = found_in(tmp_path / "rows", manifest)
    document = open_dataset(tmp_path / "out")[0]
    assert (pieces["head"] > 0).any()
    expected = document["loss_mask"][0] & ((pieces["start"] == 0) | (pieces["head"] > 0))
    assert first_loss.tolist() == expected.tolist()
    assert first_loss.any()


def test_what_is_forgotten_has_no_first_loss_either(tokenized: Path, tmp_path: Path) -> None:
    manifest = packed_of(tokenized, tmp_path / "rows")
    (shard,) = manifest.shards
    pieces, before = found_in(tmp_path / "rows", manifest)
    gone = np.unique(pieces["document"][before])[:3].astype(np.int64)
    paths = {path: tmp_path / str(i) for i, path in enumerate((shard.path, shard.index.path))}
    assert rewrite_rows(tmp_path / "rows", manifest, shard, gone, paths, Overwritten())
    after = rows_of(paths[shard.path], manifest).first_loss
    assert np.array_equal(after, before & ~np.isin(pieces["document"], gone))


def test_damage_of_a_first_loss_is_found(tokenized: Path, tmp_path: Path) -> None:
    manifest = packed_of(tokenized, tmp_path / "rows")
    (shard,) = manifest.shards
    layout = RowLayout.of_manifest(manifest)
    pieces, _ = found_in(tmp_path / "rows", manifest)
    path = tmp_path / "rows" / shard.path
    rows = rows_of(path, manifest)
    rows.first_loss[np.flatnonzero(pieces["start"] > 0)[0]] = True
    writer = RecordWriter(path, MAPPABLE)
    for record in encode_rows(rows, layout):
        writer.write(record)
    writer.commit()
    with pytest.raises(CorruptError, match="loss on the document's first token"):
        rows_checker(tmp_path / "rows", manifest)(shard)
