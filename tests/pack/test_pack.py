"""Rows hold what the documents held: nothing lost, doubled, reordered or wrongly masked."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conftest import RunCli, Sample
from dataprep.configs.pack import PackConfig
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.look.inspect import layout_of
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.plan import plan_rows
from dataprep.pipeline.pack.rows import build_rows
from dataprep.pipeline.pack.strategies import STRATEGIES
from dataprep.pipeline.storage.manifest import PackedManifest, read_manifest
from dataprep.pipeline.storage.masks import MASKS, dense_mask, runs_of_numbers
from support.datasets import pack_here
from support.inprocess import tokenize_here, write_lines
from support.toy import write_toy_tokenizer
from support.trees import tree

PAD = 7


COUNTED = ("tokens", "tokens_truncated", "tokens_dropped", "tokens_shared", "blocks_cut")


class Packed:
    """Rows of a plan, unpacked into plain arrays."""

    def __init__(self, corpus: Corpus, **config: Any) -> None:
        settings = PackConfig.model_validate(config)
        self.capacity = settings.seq_len + 1
        self.rows: list[dict[str, np.ndarray]] = []
        self.pieces: list[
            tuple[int, int, int, int, int]
        ] = []  # row, place, document, start, length
        self.counts: dict[str, int] = {}
        for plan in plan_rows(corpus, settings):
            for name in COUNTED:
                self.counts[name] = self.counts.get(name, 0) + getattr(plan.counts, name)
            if not plan.num_rows:
                continue
            pieces = DocumentPieces(document=plan.document, start=plan.start, length=plan.length)
            rows, self.num_targets = build_rows(
                corpus,
                pieces,
                plan.row_offsets,
                capacity=self.capacity,
                pad=PAD,
                quirks=STRATEGIES[settings.strategy].quirks(settings, corpus.masks),
            )
            for r in range(plan.num_rows):
                masks = [
                    dense_mask(
                        runs_of_numbers(
                            stored.values[stored.offsets[r] : stored.offsets[r + 1]], MASKS[mask]
                        )
                    )
                    for mask, stored in zip(corpus.masks, rows.masks, strict=True)
                ]
                first, last = plan.row_offsets[r], plan.row_offsets[r + 1]
                ends = rows.ends.values[first:last]
                for p in range(first, last):
                    place = int(rows.ends.values[p] - plan.length[p])
                    piece = (int(plan.document[p]), int(plan.start[p]), int(plan.length[p]))
                    self.pieces.append((len(self.rows), place, *piece))
                self.rows.append(
                    {
                        "tokens": rows.tokens[r],
                        "ends": ends,
                        "left_padding": rows.left_padding[r],
                        **dict(zip(corpus.masks, masks, strict=True)),
                    }
                )


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


numbers = iter(range(10**9))


def corpus_of(folder: Path, toy: Path, records: list[dict[str, Any]], **config: Any) -> Corpus:
    home = folder / str(next(numbers))
    home.mkdir(parents=True)
    path = write_lines(home / "in.jsonl", records)
    audio = {"start": [92], "end": [93, 94], "codebooks": 2, "layout": "delay"}
    modalities = {"vision": {"tokens_per_frame": 2}, "audio": audio}
    config = {"modalities": modalities, **config}
    tokenize_here(home / "out", inputs=[str(path)], tokenizer=str(toy), **config)
    return Corpus([home / "out"])


texts = st.text("abcdefgh", max_size=30)
codes = st.lists(st.integers(0, 50), min_size=2, max_size=20)
pairs = st.lists(st.integers(0, 50), min_size=1, max_size=6).map(lambda c: [c, c])
segments = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts, "loss": st.booleans()}),
    st.fixed_dictionaries({"type": st.just("vision"), "codes": codes, "loss": st.booleans()}),
    st.fixed_dictionaries({"type": st.just("audio"), "codes": pairs, "loss": st.booleans()}),
)
records = st.lists(
    st.one_of(
        st.fixed_dictionaries({"fields": st.just("[q],a"), "q": texts, "a": texts}),
        st.fixed_dictionaries(
            {
                "fields": st.sampled_from(["vision,a", "[a],vision", "[vision],a,vision"]),
                "a": texts,
                "vision": codes,
            }
        ),
        st.fixed_dictionaries(
            {"fields": st.just("segments"), "segments": st.lists(segments, max_size=6)}
        ),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    records=records,
    seq_len=st.integers(3, 40),
    strategy=st.sampled_from(["best_fit", "first_fit", "concat", "pad"]),
    overflow=st.sampled_from(["split", "truncate", "drop"]),
    side=st.sampled_from(["left", "right"]),
    max_segments=st.sampled_from([None, 1, 3]),
    keep_blocks=st.booleans(),
    window=st.sampled_from([3, 1 << 22]),
)
def test_rows_hold_every_token_once_with_its_masks(
    toy: Path, tmp_path: Path, records: list[dict[str, Any]], **config: Any
) -> None:
    side = config.pop("side")
    corpus = corpus_of(tmp_path, toy, records, fields_from="fields", fields_index=0)
    documents = open_dataset(corpus.folders[0])
    assume(len(documents) > 0)
    packed = Packed(corpus, truncate_side=side, pad_side=side, **config)
    seen: dict[int, np.ndarray] = {
        i: np.zeros(len(documents[i]["tokens"]), int) for i in range(len(documents))
    }
    targets: dict[int, np.ndarray] = {i: seen[i].copy() for i in seen}
    covered = [np.zeros(packed.capacity, int) for _ in packed.rows]
    for row, place, document, start, length in packed.pieces:
        here, there = slice(place, place + length), slice(start, start + length)
        values, original = packed.rows[row], documents[document]
        covered[row][here] += 1
        seen[document][there] += 1
        assert (values["tokens"][here] == original["tokens"][there]).all()
        for modality in ("vision", "audio"):
            # One that no document has is not packed.
            mask = values.get(modality, np.zeros(packed.capacity, bool))[here]
            assert (mask == original[f"{modality}_mask"][there]).all()
        loss = original["loss_mask"][there].copy()
        loss[0] = False
        assert (values["loss"][here] == loss).all()
        targets[document][there] += loss
    for row, cover in zip(packed.rows, covered, strict=True):
        assert cover.max(initial=0) <= 1
        padding = cover == 0
        assert (row["tokens"][padding] == PAD).all()
        assert not row["loss"][padding].any()
        assert not any(row[m][padding].any() for m in ("vision", "audio") if m in row)
        used = np.flatnonzero(cover)
        assert (np.diff(used) == 1).all()
    lost = packed.counts["tokens_truncated"] + packed.counts["tokens_dropped"]
    assert sum(int((count == 0).sum()) for count in seen.values()) == lost
    assert sum(int((count == 2).sum()) for count in seen.values()) == packed.counts["tokens_shared"]
    for i, count in targets.items():
        if lost == 0:
            expected = documents[i]["loss_mask"].astype(int)
            expected[0] = 0
            assert count.tolist() == expected.tolist()
        assert count.max(initial=0) <= 1


@pytest.mark.parametrize("strategy", ["best_fit", "first_fit", "pad"])
def test_a_block_is_not_cut_unless_told(toy: Path, tmp_path: Path, strategy: str) -> None:
    record = {"a": "abcdefg", "vision": list(range(6))}
    corpus = corpus_of(tmp_path, toy, [record], fields="a,vision,a", add_bos=False, add_eos=False)
    # a: 7 tokens; block: tag, 3 frames of 3, tag = 11; a: 7.
    kept = Packed(corpus, seq_len=11, strategy=strategy)
    assert sorted(p[3:] for p in kept.pieces) == [(0, 7), (6, 12), (17, 8)]
    cut = Packed(corpus, seq_len=11, strategy=strategy, keep_blocks=False)
    assert sorted(p[3:] for p in cut.pieces) == [(0, 12), (11, 12), (22, 3)]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    segments=st.lists(segments, min_size=1, max_size=8),
    seq_len=st.integers(12, 40),
    strategy=st.sampled_from(["best_fit", "first_fit", "pad"]),
)
def test_no_block_that_fits_a_row_is_cut(
    toy: Path, tmp_path: Path, segments: list[dict[str, Any]], **config: Any
) -> None:
    assume(any(segment.get("text") != "" for segment in segments))  # else it is empty
    corpus = corpus_of(tmp_path, toy, [{"segments": segments}], fields="segments")
    packed = Packed(corpus, overflow="split", **config)
    cuts = {start + length for *_, start, length in packed.pieces}
    place = 1  # after BOS
    for segment in segments:
        if segment["type"] == "text":
            place += len(segment["text"])
            continue
        if segment["type"] == "vision":
            length = 2 + len(segment["codes"]) // 2 * 3
        else:
            length = 3 + 2 * (len(segment["codes"][0]) + 1)
        if length < packed.capacity:  # beside the token that is shared with the piece before
            assert not cuts & set(range(place + 1, place + length))
        place += length
    assert place + 1 == max(cuts)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    documents=st.lists(st.lists(segments, min_size=1, max_size=4), min_size=1, max_size=5),
    seq_len=st.integers(1, 30),
    strategy=st.sampled_from(["concat", "concat", "best_fit", "first_fit", "pad"]),
    overflow=st.sampled_from(["split", "truncate"]),
    truncate_side=st.sampled_from(["left", "right"]),
    drop_tail=st.booleans(),
    window=st.sampled_from([1, 2, 5, 1 << 22]),
)
def test_cut_blocks_are_counted_where_none_are_kept(
    toy: Path, tmp_path: Path, documents: list[list[dict[str, Any]]], **config: Any
) -> None:
    # A record without text or codes is empty, and none of the documents.
    documents = [parts for parts in documents if any(part.get("text") != "" for part in parts)]
    assume(documents)
    corpus = corpus_of(tmp_path, toy, [{"segments": s} for s in documents], fields="segments")
    packed = Packed(corpus, keep_blocks=False, **config)
    num_cut = 0
    for number, parts in enumerate(documents):
        mine = sorted(p[3:] for p in packed.pieces if p[2] == number)
        length = int(corpus.lengths_of(np.array([number]))[0])
        cuts = {start + size for start, size in mine if start + size < length}
        cuts |= {mine[0][0]} if mine else set()
        place = 1  # after BOS
        for part in parts:
            size = {
                "text": lambda p: len(p["text"]),
                "vision": lambda p: 2 + len(p["codes"]) // 2 * 3,
                "audio": lambda p: 3 + 2 * (len(p["codes"][0]) + 1),
            }[part["type"]](part)
            is_block = part["type"] != "text"
            num_cut += is_block and bool(cuts & set(range(place + 1, place + size)))
            place += size
    assert packed.counts["blocks_cut"] == num_cut


def test_datasets_whose_blocks_differ_cannot_be_packed_together(toy: Path, tmp_path: Path) -> None:
    record = {"a": "abcdefg", "audio": [[1, 2, 3], [4, 5, 6]]}
    folders = []
    for end in ([93], [93, 94, 95, 96]):
        audio = {"start": [92], "end": end, "codebooks": 2}
        corpus = corpus_of(
            tmp_path, toy, [record], fields="a,audio,a", modalities={"audio": audio}, add_bos=False
        )
        folders += corpus.folders
    for order in (folders, folders[::-1]):
        with pytest.raises(ConfigError, match="cannot be packed together: tags of audio"):
            Corpus(order)


def test_a_first_dataset_without_pictures_hides_nothing_of_the_others(
    toy: Path, tmp_path: Path
) -> None:
    """What it says of pictures describes no block: neither its tags nor the size of its frames."""
    folders = []
    for size in (0, 2, 4):
        vision = {"start": [90 + size], "end": [93], "tokens_per_frame": size or 8}
        record = {"a": "abc", "vision": [1] * 8} if size else {"a": "abc"}
        fields = "a,vision" if size else "a"
        corpus = corpus_of(
            tmp_path, toy, [record], fields=fields, modalities={"vision": vision}, add_bos=False
        )
        folders += corpus.folders
    with pytest.raises(ConfigError, match="cannot be packed together: tags of vision"):
        Corpus(folders)
    pack_here(tmp_path / "packed", *folders[:2], seq_len=16)
    packed = read_manifest(tmp_path / "packed")
    assert isinstance(packed, PackedManifest)
    assert packed.config["modalities"]["vision"]["tokens_per_frame"] == 2
    tags = packed.tags_of("vision")
    assert tags is not None
    assert tags.start == (92,)
    blocks = layout_of(packed, tmp_path / "packed")
    assert blocks["vision"].facts["tokens_per_frame"] == 2


def lwm_rows(packed: Packed) -> Iterator[tuple[list[int], list[int], list[int]]]:
    for row in packed.rows:
        yield (
            row["tokens"][:-1].tolist(),
            row["tokens"][1:].tolist(),
            row["loss"][1:].astype(int).tolist(),
        )


def test_concat_under_lwm_is_its_stream(toy: Path, tmp_path: Path) -> None:
    records = [{"q": "ab", "a": "c"}, {"q": "d", "a": "ef"}]
    corpus = corpus_of(tmp_path, toy, records, fields="[q],a")
    packed = Packed(corpus, seq_len=4, strategy="concat", compat="lwm", drop_tail=True)
    assert list(lwm_rows(packed)) == [
        ([1, 100, 101, 102], [100, 101, 102, 2], [0, 0, 1, 1]),
        ([2, 1, 103, 104], [1, 103, 104, 105], [0, 0, 1, 1]),
    ]


def test_loss_does_not_cross_documents_unless_lwm_is_asked_for(toy: Path, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, toy, [{"text": "ab"}] * 2, add_bos=False, add_eos=False)
    right = Packed(corpus, seq_len=3, strategy="concat")
    assert right.rows[0]["loss"].astype(int).tolist() == [0, 1, 0, 1]
    quirk = Packed(corpus, seq_len=3, strategy="concat", compat="lwm")
    assert quirk.rows[0]["loss"].astype(int).tolist() == [1, 1, 1, 1]


# The document of LWM's worked example: 12 tokens.
VISION = {"q": "a", "a": "b", "vision": [10, 11, 20, 21, 30, 31, 40]}
TWO_FRAMES = {"modalities": {"vision": {"tokens_per_frame": 2, "max_frames": 2}}}


@pytest.mark.parametrize(
    ("seq_len", "compat", "loss"),
    [
        (12, "none", [0] + [1] * 10 + [0]),
        (12, "lwm", [0] + [1] * 10 + [0]),
        (11, "none", [0] + [1] * 10),
        (11, "lwm", [1] * 10 + [0]),
        (6, "none", [0, 1, 1, 1, 1, 1]),
        (6, "lwm", [1, 1, 1, 1, 1, 0]),
    ],
)
def test_padding_one_document_a_row_is_lwms(
    toy: Path, tmp_path: Path, seq_len: int, compat: str, loss: list[int]
) -> None:
    corpus = corpus_of(tmp_path, toy, [VISION], fields="[q],vision,a", **TWO_FRAMES)
    packed = Packed(
        corpus,
        seq_len=seq_len,
        strategy="pad",
        overflow="truncate",
        compat=compat,
        keep_blocks=False,
    )
    ((inputs, targets, found),) = lwm_rows(packed)
    tokens = [1, 100, 90, 10, 11, 8192, 30, 31, 8193, 91, 101, 2, PAD]
    assert inputs == tokens[:seq_len]
    assert targets == tokens[1 : seq_len + 1]
    assert found == loss
    vision = [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert packed.rows[0]["vision"].astype(int).tolist() == vision[: seq_len + 1]


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Path:
    folder = tmp_path_factory.mktemp("tokenized")
    lines = sample.text.read_text("utf-8").splitlines(keepends=True)
    path = folder / "in.jsonl"
    path.write_text("".join(lines * 10), "utf-8")
    tokenize_here(
        folder / "out", inputs=[str(path)], tokenizer=str(sample.tokenizer), shard_bytes=1 << 16
    )
    return folder / "out"


def command(tokenized: Path, out: Path, *more: str) -> list[str]:
    sizes = ["--seq-len", "128", "--shard-rows", "50", "--out", str(out)]
    return ["pack", str(tokenized), *sizes, *more]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, tokenized: Path) -> Path:
    out = tmp_path_factory.mktemp("packed") / "out"
    words = [sys.executable, "-m", "dataprep.cli.main", *command(tokenized, out, "-q")]
    subprocess.run(words, check=True, timeout=60)
    return out


@pytest.mark.parametrize("workers", ["1", "3"])
def test_bytes_do_not_depend_on_workers(
    run_cli: RunCli, tokenized: Path, packed: Path, tmp_path: Path, workers: str
) -> None:
    run_cli(*command(tokenized, tmp_path / "out", "--workers", workers))
    assert tree(tmp_path / "out") == tree(packed)


@pytest.mark.slow  # faults/test_kills.py has others
def test_a_killed_run_ends_in_the_same_bytes(
    run_cli: RunCli, tokenized: Path, packed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [sys.executable, "-m", "dataprep.cli.main", *command(tokenized, out, "-q")]
    rng = random.Random(1)
    kills = 0
    for _ in range(5):
        process = subprocess.Popen(words)
        markers = len(list(out.glob(".work/tasks/*.done")))
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            if len(list(out.glob(".work/tasks/*.done"))) > markers:
                break
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.005))
        process.kill()
        if process.wait() != -signal.SIGKILL:
            break
        kills += 1
        assert not (out / "manifest.json").exists()
    assert kills >= 2
    run_cli(*command(tokenized, out))
    assert tree(out) == tree(packed)


def test_a_packed_dataset_is_verified_and_left_alone(
    run_cli: RunCli, tokenized: Path, packed: Path
) -> None:
    assert "whole" in run_cli("verify", packed).stdout
    assert "nothing to do" in run_cli(*command(tokenized, packed)).stdout
    result = run_cli(*command(tokenized, packed, "--seed", "1"), check=False)
    assert result.code == 4
    assert "seed: 0 -> 1" in result.stderr


def test_the_manifest_counts_what_happened(tokenized: Path, packed: Path) -> None:
    counts = json.loads((packed / "manifest.json").read_text())["counts"]
    before = open_dataset(tokenized).manifest["counts"]
    assert counts["tokens_read"] == before["tokens"]
    assert counts["tokens"] == before["tokens"] + counts["tokens_shared"]
    assert counts["rows"] * 129 == counts["tokens"] + counts["padding"]
    # Every loss token but a document's first, which never has loss here, is a target once.
    assert counts["target_tokens"] == before["target_tokens"]


def test_rows_without_targets_are_counted_and_dropped_on_request(
    run_cli: RunCli, toy: Path, tmp_path: Path
) -> None:
    records = [{"q": "abc", "a": ""}, {"q": "", "a": "abc"}]
    corpus = corpus_of(tmp_path, toy, records, fields="[q],a", add_bos=False, add_eos=False)
    words = ["pack", corpus.folders[0], "--seq-len", "2", "--json", "--out"]
    kept = json.loads(run_cli(*words, tmp_path / "a").stdout)["counts"]
    assert (kept["rows"], kept["rows_without_target"], kept["rows_dropped"]) == (2, 1, 0)
    left = json.loads(run_cli(*words, tmp_path / "b", "--drop-empty-targets").stdout)["counts"]
    assert (left["rows"], left["rows_without_target"], left["rows_dropped"]) == (1, 1, 1)
    assert left["tokens_in_dropped_rows"] == 3
    run_cli("verify", tmp_path / "b")


def test_several_datasets_are_packed_together(run_cli: RunCli, toy: Path, tmp_path: Path) -> None:
    text = corpus_of(tmp_path, toy, [{"text": "abc"}] * 3)
    vision = corpus_of(tmp_path, toy, [VISION], fields="[q],vision,a")
    out = tmp_path / "out"
    run_cli("pack", text.folders[0], vision.folders[0], "--seq-len", "16", "--out", out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["masks"] == ["loss", "vision"]
    assert manifest["counts"]["documents_read"] == 4
    assert len(manifest["parents"]) == 2
    run_cli("verify", out)


def test_datasets_of_different_tokenizers_are_refused(
    run_cli: RunCli, tokenized: Path, toy: Path, tmp_path: Path
) -> None:
    other = corpus_of(tmp_path, toy, [{"text": "abc"}])
    result = run_cli(
        "pack",
        tokenized,
        other.folders[0],
        "--seq-len",
        "64",
        "--out",
        tmp_path / "out",
        check=False,
    )
    assert result.code == 2
    assert "cannot be packed together: tokenizer" in result.stderr


def test_a_damaged_or_packed_input_is_refused(
    run_cli: RunCli, packed: Path, tmp_path: Path
) -> None:
    result = run_cli("pack", packed, "--seq-len", "64", "--out", tmp_path / "a", check=False)
    assert result.code == 2
    assert "only tokenized datasets can be packed" in result.stderr
    result = run_cli("pack", tmp_path, "--seq-len", "64", "--out", tmp_path / "b", check=False)
    assert result.code == 5
    assert "no manifest.json" in result.stderr


def test_an_output_that_is_or_holds_the_input_is_refused(
    run_cli: RunCli, toy: Path, tmp_path: Path
) -> None:
    corpus = corpus_of(tmp_path, toy, [{"text": "abc"}])
    folder = corpus.folders[0]
    before = tree(folder)
    for out in (folder, folder.parent):
        result = run_cli(
            "pack", folder, "--seq-len", "64", "--out", out, "--overwrite", check=False
        )
        assert result.code == 2
    assert tree(folder) == before


def test_a_missing_or_empty_shard_is_corrupt(run_cli: RunCli, toy: Path, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, toy, [{"text": "abc"}])
    (shard,) = (corpus.folders[0] / "shards").iterdir()
    shard.write_bytes(b"")
    result = run_cli(
        "pack", corpus.folders[0], "--seq-len", "64", "--out", tmp_path / "a", check=False
    )
    assert result.code == 5
    assert "has 0 bytes, the manifest says" in result.stderr
    shard.unlink()
    result = run_cli(
        "pack", corpus.folders[0], "--seq-len", "64", "--out", tmp_path / "b", check=False
    )
    assert result.code == 5
    assert f"{shard} is missing" in result.stderr


def test_rows_are_the_same_however_few_shards_are_open(
    tokenized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Packed(Corpus([tokenized]), seq_len=300)
    corpus = Corpus([tokenized])
    assert corpus.num_shards > 2
    monkeypatch.setattr("dataprep.pipeline.pack.corpus.MAX_OPEN_SHARDS", 2)
    few = Packed(corpus, seq_len=300)
    assert len(corpus._open) <= 2
    for left, right in zip(whole.rows, few.rows, strict=True):
        assert (left["tokens"] == right["tokens"]).all()
        assert (left["loss"] == right["loss"]).all()


@pytest.mark.parametrize("seq_len", [14, 12, 11, 6])
@pytest.mark.parametrize("compat", ["lwm", "none"])
def test_padded_rows_and_the_lwm_view_give_lwms_batches(
    toy: Path, tmp_path: Path, seq_len: int, compat: str
) -> None:
    """LWM pads inputs and targets by themselves, so that the last token is no input."""
    corpus = corpus_of(tmp_path, toy, [VISION], fields="[q],vision,a", **TWO_FRAMES)
    how = {"strategy": "pad", "overflow": "truncate", "keep_blocks": False, "compat": compat}
    pack_here(tmp_path / "packed", corpus.folders[0], seq_len=seq_len, **how)
    batch = DataLoader(tmp_path / "packed", batch_size=1, view="lwm", prefetch=0)[0]
    pad = read_manifest(tmp_path / "packed").pad  # type: ignore[union-attr]
    assert pad == 1 or compat == "none"
    tokens = [1, 100, 90, 10, 11, 8192, 30, 31, 8193, 91, 101, 2]
    inputs = tokens[:-1] if compat == "lwm" and seq_len >= len(tokens) else tokens
    padding = [pad] * seq_len
    assert batch["input_tokens"][0].tolist() == (inputs + padding)[:seq_len]
    assert batch["target_tokens"][0].tolist() == (tokens[1:] + padding)[:seq_len]
    vision = [0, 0, 0, 1, 1, 1, 1, 1, 1, *[0] * seq_len]
    assert batch["input_vision_masks"][0].tolist() == vision[:seq_len]
    assert batch["target_vision_masks"][0].tolist() == vision[1 : seq_len + 1]


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_concat_and_the_lwm_view_give_lwms_batches_for_any_batch_size(
    run_cli: RunCli, toy: Path, tmp_path: Path, batch_size: int
) -> None:
    """Batch k, row i is stream[(kB + i)S : (kB + i)S + S + 1], as LWM cuts it."""
    records = [VISION, {**VISION, "q": "xyz"}, {**VISION, "a": "bcd"}]
    corpus = corpus_of(tmp_path, toy, records, fields="[q],vision,a", **TWO_FRAMES)
    documents = open_dataset(corpus.folders[0])
    stream = {
        name: np.concatenate([documents[i][name] for i in range(len(documents))])
        for name in ("tokens", "loss_mask", "vision_mask")
    }
    flags = ["--strategy", "concat", "--compat", "lwm", "--drop-tail", "--seq-len", "5"]
    run_cli("pack", corpus.folders[0], *flags, "--out", tmp_path / "packed")
    loader = DataLoader(
        tmp_path / "packed", batch_size=batch_size, shuffle=False, epochs=1, view="lwm"
    )
    with loader:
        batches = list(loader)
    assert len(batches) == (len(stream["tokens"]) - 1) // 5 // batch_size > 0
    for k, batch in enumerate(batches):
        for i in range(batch_size):
            start = (k * batch_size + i) * 5
            now, after = slice(start, start + 5), slice(start + 1, start + 6)
            assert batch["input_tokens"][i].tolist() == stream["tokens"][now].tolist()
            assert batch["target_tokens"][i].tolist() == stream["tokens"][after].tolist()
            assert batch["loss_masks"][i].tolist() == stream["loss_mask"][after].tolist()
            assert batch["input_vision_masks"][i].tolist() == stream["vision_mask"][now].tolist()
            assert batch["target_vision_masks"][i].tolist() == stream["vision_mask"][after].tolist()
