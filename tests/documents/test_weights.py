"""Loss weights: from `answer*0.5` to the loss weights of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import RunCli, Sample
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import ConfigError
from support.inprocess import tokenize_here, write_lines
from support.toy import write_toy_tokenizer

# BOS 1, EOS 2, a..z 100..
RECORDS = [{"q": "ab", "a": "cde", "n": "f"}, {"q": "g", "a": "h", "n": ""}]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def tokenized(folder: Path, toy: Path, records: list[Any], **config: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer=str(toy), **config)
    return open_dataset(folder / "out")


def test_a_weight_holds_for_its_field_and_nothing_else(tmp_path: Path, toy: Path) -> None:
    dataset = tokenized(tmp_path, toy, RECORDS, fields="[q],a*0.5,n")
    document = dataset[0]
    assert document["tokens"].tolist() == [1, 100, 101, 102, 103, 104, 105, 2]
    assert document["loss_mask"].astype(int).tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert document["loss_weights"].tolist() == [0, 0, 0, 0.5, 0.5, 0.5, 1, 1]
    assert document["loss_weights"].dtype == np.float32
    assert dataset.manifest["masks"] == ["loss", "weight"]
    assert dataset.manifest["counts"]["weighted_tokens"] == 4


def test_without_a_weight_there_are_none(tmp_path: Path, toy: Path) -> None:
    dataset = tokenized(tmp_path, toy, RECORDS, fields="[q],a")
    assert dataset.manifest["masks"] == ["loss"]
    assert "loss_weights" not in dataset[0]


def test_records_may_bring_weights_of_their_own(tmp_path: Path, toy: Path) -> None:
    records = [{**RECORDS[0], "spec": "[q],a*0.25"}, {**RECORDS[1], "spec": "q,a"}]
    dataset = tokenized(tmp_path, toy, records, fields_from="spec")
    assert dataset[0]["loss_weights"].tolist() == [0, 0, 0, 0.25, 0.25, 0.25, 1]
    assert dataset[1]["loss_weights"].tolist() == [0, 1, 1, 1]


def test_records_that_bring_none_show_none_and_packing_drops_the_mask(
    tmp_path: Path, toy: Path, run_cli: RunCli
) -> None:
    records = [{**record, "spec": "[q],a"} for record in RECORDS]
    dataset = tokenized(tmp_path, toy, records, fields_from="spec")
    assert "loss_weights" not in dataset[0]
    run_cli("pack", tmp_path / "out", "--seq-len", "8", "--out", tmp_path / "packed")
    assert open_dataset(tmp_path / "packed").manifest["masks"] == ["loss"]


def test_lwms_own_grammar_knows_no_weights(tmp_path: Path, toy: Path) -> None:
    records = [{"a*0.5": "ab", "spec": "a*0.5"}]
    dataset = tokenized(tmp_path, toy, records, fields_from="spec", compat="lwm")
    assert dataset[0]["tokens"].tolist() == [1, 100, 101, 2]
    assert "weight" not in dataset.manifest["masks"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("a*0", "write \\[x\\] for a field without loss"),
        ("a*70000", "not within"),
        ("a*1e9", "not within"),
        ("a*-1", "not within"),
        ("a*nan", "not within"),
        ("a*0x1", "not a number"),
        ("a*1.2.3", "not a number"),
        ("a*0.00000001", "not within"),
        ("[a*0.5]", "a weight but no loss"),
        ("[a]*0.5", "a weight but no loss"),
    ],
)
def test_a_weight_that_is_none_is_refused(
    tmp_path: Path, toy: Path, spec: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        tokenized(tmp_path, toy, RECORDS, fields=spec)


def test_a_weight_may_be_written_with_an_exponent(tmp_path: Path, toy: Path) -> None:
    dataset = tokenized(tmp_path, toy, RECORDS, fields="[q],a*5e-1")
    assert dataset[0]["loss_weights"].tolist() == [0, 0, 0, 0.5, 0.5, 0.5, 1]


def test_a_star_without_a_number_is_part_of_the_name(tmp_path: Path, toy: Path) -> None:
    assert len(tokenized(tmp_path, toy, [{"a*b": "b"}], fields="a*b")) == 1


def test_a_bad_weight_in_a_record_is_an_error_of_that_record(
    tmp_path: Path, toy: Path, run_cli: RunCli
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"spec": "[a]*0.5", "a": "b"}])
    words = ("tokenize", path, "--tokenizer", toy, "--fields-from", "spec", "--out")
    done = run_cli(*words, tmp_path / "out", check=False)
    assert done.code == 3
    assert "line 1 of" in done.stderr
    assert "a weight but no loss" in done.stderr


def test_weights_cannot_follow_lwms_shifted_loss(
    tmp_path: Path, sample: Sample, run_cli: RunCli
) -> None:
    """It is the loss of codes that LWM shifts."""
    words = ("--tokenizer", sample.tokenizer, "--fields", "vision,caption*0.5")
    run_cli("tokenize", sample.vision, *words, "--out", tmp_path / "out")
    words = ("pack", tmp_path / "out", "--strategy", "pad", "--seq-len", "2048", "--compat", "lwm")
    done = run_cli(*words, "--out", tmp_path / "packed", check=False)
    assert done.code == 2
    assert "loss weights" in done.stderr


weights = st.sampled_from(["", "*0.5", "*2", "*0.1"])


@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_weights_go_with_their_tokens_into_rows(
    data: st.DataObject, toy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every token of a row has the weight that it has in its document, for every strategy."""
    from dataprep.configs.pack import PackConfig
    from dataprep.pipeline.pack import pack

    folder = tmp_path_factory.mktemp("rows")
    texts = st.text("abcdefgh", max_size=12)
    drawn = data.draw(st.lists(st.fixed_dictionaries({"q": texts, "a": texts})))
    records = [{"q": "a", "a": ""}, *drawn]  # the first is not empty, so that there is a row
    spec = f"q{data.draw(weights)},a*0.5"
    dataset = tokenized(folder, toy, records, fields=spec)
    strategy = data.draw(st.sampled_from(["best_fit", "first_fit", "concat", "pad"]))
    pack(
        PackConfig(
            inputs=(str(folder / "out"),), out=str(folder / "packed"), seq_len=9, strategy=strategy
        )
    )
    packed = open_dataset(folder / "packed")
    has_weights = dataset.manifest["counts"]["weighted_tokens"] > 0
    assert ("loss_weights" in packed[0]) == has_weights
    if not has_weights:
        return
    from dataprep.pipeline.look.origins import pieces_of_row

    for row in range(len(packed)):
        values = packed[row]
        for i, piece in enumerate(pieces_of_row(packed.folder, packed.about, *packed.locate(row))):
            own = values["segment_ids"] == i + 1
            document = dataset[piece.document]
            expected = document["loss_weights"][piece.start : piece.start + piece.length].copy()
            expected[0] = 0  # the first token of a piece is no target
            assert values["loss_weights"][own].tolist() == expected.tolist()
        assert not values["loss_weights"][values["segment_ids"] == 0].any()
    loader = DataLoader(folder / "packed", batch_size=1, epochs=1, shuffle=False, remainder="pad")
    batch = loader[0]
    assert batch["loss_weights"].tolist() == packed[[0]]["loss_weights"][:, 1:].tolist()
