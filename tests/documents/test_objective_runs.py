"""Objectives through the commands: the same bytes however they are run; batches of both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from conftest import RunCli
from dataprep.loaders import DataLoader, Seq2Seq, open_dataset
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.tokenize import worker
from support.datasets import pack_here
from support.forks import ForkServer
from support.inprocess import tokenize_here, write_lines
from support.jobs import Job, wait_for_work, write_corpus
from support.kills import kill_loop
from support.trees import tree

SENTINELS = list(range(300, 400))
OBJECTIVES: dict[str, list[str]] = {
    "fim": [
        *("kind=fim", "tokens.prefix=300", "tokens.middle=301", "tokens.suffix=302", "seed=3"),
    ],
    "fim-context": [
        *("kind=fim", "unit=token", "context=100", "rate=0.9", "tokens.eot=303"),
        *("tokens.prefix=300", "tokens.middle=301", "tokens.suffix=302"),
    ],
    "spans": ["kind=spans", f"sentinels={SENTINELS}", "context=128"],
    "prefix": ["kind=prefix", "context=128"],
}


def flags(name: str) -> list[str]:
    return [word for item in OBJECTIVES[name] for word in ("--set", f"objective.{item}")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with ForkServer(tmp_path_factory.mktemp("server"), eager=False) as found:
        yield found


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bytes_are_the_same_for_any_workers_and_after_sigkill(
    tmp_path: Path, server: ForkServer, name: str
) -> None:
    corpus = write_corpus(tmp_path / "corpus", files=3, lines=400)
    words = (
        *("tokenize", *map(str, corpus), "--tokenizer", "bytes", *flags(name)),
        *("--shard-bytes", "65536"),
    )
    clean = tmp_path / "clean"
    server.check([*words, "--out", str(clean), "--workers", "1"])
    job = Job(name=name, words=words, clean=tree(clean), folder=clean, seconds=0.2)
    assert job.num_shards > 4
    seen = kill_loop(server, job, tmp_path, mid_run=5)  # resumed with 1 to 3 workers
    assert seen.mismatches == []
    assert seen.mid_run >= 5
    server.check(["verify", str(clean)])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_bytes_do_not_depend_on_batches_or_on_how_files_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    records = [{"text": f"number {i} " * (i % 40)} for i in range(300)]
    path = write_lines(tmp_path / "in.jsonl", records)
    values: dict[str, Any] = {}
    for item in OBJECTIVES[name]:
        key, value = item.split("=")
        inner = values
        *parents, last = key.split(".")
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = yaml.safe_load(value)
    common = {"inputs": [str(path)], "tokenizer": "bytes", "objective": values}
    tokenize_here(tmp_path / "a", **common)
    read = worker.read_piece
    monkeypatch.setattr(
        worker, "read_piece", lambda *args, **kw: read(*args, **{**kw, "batch_bytes": 700})
    )
    tokenize_here(tmp_path / "b", **common)
    assert tree(tmp_path / "a" / "shards") == tree(tmp_path / "b" / "shards")
    plain = tmp_path / "plain"
    tokenize_here(plain, inputs=[str(path)], tokenizer="bytes")
    assert tree(plain / "shards") != tree(tmp_path / "a" / "shards")


def test_a_limit_counts_records_and_not_what_is_made_of_them(
    tmp_path: Path, server: ForkServer
) -> None:
    (path,) = write_corpus(tmp_path / "corpus", files=1, lines=600)
    words = (
        *("tokenize", str(path), "--tokenizer", "bytes", *flags("fim-context"), "--limit", "500"),
        *("--shard-bytes", "65536"),
    )
    clean = tmp_path / "clean"
    server.check([*words, "--out", str(clean), "--workers", "1"])
    dataset: Any = open_dataset(clean)
    assert len(dataset) > 1000
    job = Job(name="limit", words=words, clean=tree(clean), folder=clean, seconds=0.5)
    out = tmp_path / "out"
    run = server.start(job.command(out, 1))
    wait_for_work(run, out)
    while not list(out.glob(".work/tasks/*.done")) and not server.has_answer(0.0005):
        pass
    run.kill(after=0)
    server.check(job.command(out, 1))
    assert job.verdict(out) == "equal"


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
def test_a_document_is_the_same_however_its_file_is_cut_and_whatever_is_beside_it(
    tmp_path: Path, ending: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = [{"text": f"{i} " + "word " * (i % 90)} for i in range(2000)]
    one, other = tmp_path / f"one.{ending}", tmp_path / f"other.{ending}"
    for path, rows in ((one, records), (other, records[::-1])):
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
        elif ending == "csv":
            path.write_text("text\n" + "".join(f"{row['text']}\n" for row in rows))
        else:
            write_lines(path, rows)
    found = []
    for number, (inputs, shard_bytes) in enumerate(
        [([one], 1 << 28), ([one], 1 << 16), ([one, other], 1 << 17)]
    ):
        out = tmp_path / f"out-{number}"
        tokenize_here(
            out,
            inputs=list(map(str, inputs)),
            tokenizer="bytes",
            shard_bytes=shard_bytes,
            objective={"kind": "fim", "tokens": {"prefix": 300, "middle": 301, "suffix": 302}},
        )
        dataset: Any = open_dataset(out)
        found.append([dataset[i]["tokens"].tolist() for i in range(2000)])
    assert found[0] == found[1] == found[2]
    assert 800 < sum(300 in tokens for tokens in found[0]) < 1200


# --- encoder and decoder sides, to batches ---


@pytest.fixture(scope="module")
def corrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of at most 64 tokens, `bytes`: BOS 256, EOS 257, padding 258."""
    home = tmp_path_factory.mktemp("corrupted")
    records = [{"text": "abcdefgh" * (i % 7 + 1)} for i in range(40)]
    path = write_lines(home / "in.jsonl", records)
    tokenize_here(
        home / "tokens",
        inputs=[str(path)],
        tokenizer="bytes",
        objective={"kind": "spans", "context": 64, "sentinels": SENTINELS},
    )
    return home / "tokens"


@pytest.fixture(scope="module", params=["best_fit", "pad"])
def packed(request: pytest.FixtureRequest, corrupted: Path) -> Path:
    out = corrupted.with_name(request.param)
    pack_here(out, corrupted, seq_len=127, strategy=request.param)
    return out


def segments_of(batch: dict[str, Any], side: str, name: str) -> list[list[int]]:
    """The values of each segment of each row of one side."""
    found = []
    for values, segments in zip(batch[name], batch[f"{side}_segment_ids"], strict=True):
        found += [values[segments == s].tolist() for s in range(1, segments.max() + 1)]
    return found


def test_every_document_is_there_with_both_sides(corrupted: Path, packed: Path) -> None:
    with DataLoader(packed, batch_size=1, epochs=1, view="seq2seq") as loader:
        batches = list(loader)
    expected = []
    dataset: Any = open_dataset(corrupted)
    for i in range(len(dataset)):
        document = dataset[i]
        tokens, is_encoder = document["tokens"], document["encoder_mask"].astype(bool)
        expected.append((tokens[is_encoder].tolist(), tokens[~is_encoder].tolist()))
    found = []
    for batch in batches:
        assert {a.shape for a in batch.values()} == {(1, 127)}
        encoder = segments_of(batch, "encoder", "encoder_input_tokens")
        targets = segments_of(batch, "decoder", "decoder_target_tokens")
        inputs = segments_of(batch, "decoder", "decoder_input_tokens")
        positions = segments_of(batch, "decoder", "decoder_positions")
        assert segments_of(batch, "encoder", "encoder_positions") == [
            list(range(len(part))) for part in encoder
        ]
        for target, given, place in zip(targets, inputs, positions, strict=True):
            assert given == [258, *target[:-1]]
            assert place == list(range(len(target)))
        assert np.array_equal(batch["decoder_loss_mask"], batch["decoder_segment_ids"] > 0)
        padding = batch["decoder_segment_ids"] == 0
        assert (batch["decoder_target_tokens"][padding] == 258).all()
        assert (batch["decoder_input_tokens"][padding] == 258).all()
        found += list(zip(encoder, targets, strict=True))
    assert sorted(found) == sorted(expected)


def test_the_lengths_of_both_sides_may_be_given(corrupted: Path, packed: Path) -> None:
    view = Seq2Seq(encoder_len=120, decoder_len=60, start_id=7)
    with DataLoader(packed, batch_size=2, view=view, shuffle=False) as loader:
        batch = next(iter(loader))
    assert batch["encoder_input_tokens"].shape == (2, 120)
    assert batch["decoder_target_tokens"].shape == (2, 60)
    assert (batch["decoder_input_tokens"][:, 0] == 7).all()
    with (
        DataLoader(packed, batch_size=2, view=Seq2Seq(decoder_len=3)) as loader,
        pytest.raises(ConfigError, match="decoder_len 3; set it to"),
    ):
        next(iter(loader))


def test_a_dataset_without_sides_has_no_such_view(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "abc"}] * 4)
    tokenize_here(tmp_path / "tokens", inputs=[str(path)], tokenizer="bytes")
    pack_here(tmp_path / "packed", tmp_path / "tokens", seq_len=8)
    with pytest.raises(ConfigError, match="needs documents of two sides"):
        DataLoader(tmp_path / "packed", batch_size=1, view="seq2seq")


def test_on_a_mesh_rows_are_split_and_columns_are_not(packed: Path) -> None:
    import jax
    from jax.sharding import Mesh, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "seq"))
    view = Seq2Seq(encoder_len=120, decoder_len=64)
    spec = PartitionSpec("data")
    with DataLoader(packed, batch_size=2, mesh=mesh, spec=spec, view=view, shuffle=False) as loader:
        batch = next(iter(loader))
    with DataLoader(packed, batch_size=2, view=view, shuffle=False) as loader:
        plain = next(iter(loader))
    for name, array in plain.items():
        assert np.array_equal(np.asarray(batch[name]), array), name


def test_packing_keeps_both_sides_together(corrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two sides"):
        pack_here(tmp_path / "a", corrupted, seq_len=64, strategy="concat")
    with pytest.raises(ConfigError, match="--overflow drop"):
        pack_here(tmp_path / "b", corrupted, seq_len=20)
    pack_here(tmp_path / "c", corrupted, seq_len=20, overflow="drop")
    with DataLoader(tmp_path / "c", batch_size=1, epochs=1, view="seq2seq") as loader:
        for batch in loader:
            segments = batch["encoder_segment_ids"].max()
            assert segments == batch["decoder_segment_ids"].max() > 0


def test_verify_and_inspect_know_sides(corrupted: Path, packed: Path, run_cli: RunCli) -> None:
    run_cli("verify", corrupted)
    run_cli("verify", packed)
    shown = run_cli("inspect", corrupted, "--doc", "3").stdout
    assert "of the encoder side" in shown
    assert "<|300|>" in shown


def test_all_documents_of_a_record_are_found_by_its_line(tmp_path: Path, run_cli: RunCli) -> None:
    records = [{"text": "ab", "lang": "de"}, {"text": "abc " * 40, "lang": "en"}]
    path = write_lines(tmp_path / "in.jsonl", records)
    values = {"kind": "prefix", "context": 64}
    tokenize_here(tmp_path / "d", inputs=[str(path)], tokenizer="bytes", objective=values)
    ended = run_cli("inspect", tmp_path / "d", "--doc", f"{path}:2", check=False)
    assert ended.code == 2
    assert "documents 1, 2, 3; give one of these" in ended.stderr
    stats = json.loads(run_cli("stats", tmp_path / "d", "--by", "lang", "--json").stdout)
    assert {g["name"]: g["documents"] for g in stats["groups"]} == {"de": 1, "en": 3}
    pack_here(tmp_path / "p", tmp_path / "d", seq_len=63)
    assert "document 3 of" in run_cli("inspect", tmp_path / "p", "--doc", f"{path}:2").stdout
