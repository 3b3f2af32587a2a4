"""The view `hf` trains a transformers model on packed rows as on their documents alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dataprep.loaders import DataLoader, PackedDataset, open_dataset
from support.inprocess import tokenize_here, write_lines
from support.toy import write_toy_tokenizer

SEQ_LEN = 24
BATCH = 8
WAYS = {
    "best_fit": ("--strategy", "best_fit"),
    "first_fit": ("--strategy", "first_fit"),
    "concat": ("--strategy", "concat"),
    "pad": ("--strategy", "pad"),
    "pad left": ("--strategy", "pad", "--pad-side", "left"),
}


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts have no loss; some documents are one token long after their BOS, some span rows."""
    folder = tmp_path_factory.mktemp("hf")
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh "), n)) for n in rng.integers(0, 60, 40)]
    records = [{"prompt": text[: len(text) // 3], "answer": text} for text in texts]
    tokenize_here(
        folder / "t",
        inputs=[str(write_lines(folder / "in.jsonl", records))],
        tokenizer=str(write_toy_tokenizer(folder / "toy")),
        fields="[prompt],answer",
    )
    return folder / "t"


@pytest.fixture(scope="module", params=WAYS)
def dataset(
    tokenized: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PackedDataset:
    out = tmp_path_factory.mktemp("packed") / "p"
    command = [sys.executable, "-m", "dataprep.cli.main", "pack", str(tokenized), "-q"]
    options = ["--seq-len", str(SEQ_LEN), "--out", str(out), *WAYS[request.param]]
    subprocess.run([*command, *options], check=True, timeout=120)
    packed = open_dataset(out)
    assert isinstance(packed, PackedDataset)
    return packed


def batches_of(data: Any, **options: Any) -> list[dict[str, NDArray[Any]]]:
    options = {"batch_size": BATCH, "epochs": 1, "remainder": "pad", "view": "hf", **options}
    with DataLoader(data, **options) as loader:
        return list(loader)


def found_documents(position_ids: NDArray[Any]) -> NDArray[Any]:
    """As `transformers.masking_utils.find_packed_sequence_indices` does it."""
    steps = np.diff(position_ids, prepend=position_ids[:, :1] - 1, axis=1)
    return np.cumsum(steps != 1, axis=1)


def test_labels_are_the_targets_of_the_manifest(dataset: PackedDataset) -> None:
    batches = batches_of(dataset, shuffle=False)
    rows = dataset[list(range(len(dataset)))]
    joined = {k: np.concatenate([b[k] for b in batches])[: len(dataset)] for k in batches[0]}
    assert np.array_equal(joined["input_ids"], rows["tokens"])
    assert np.array_equal(joined["labels"], np.where(rows["loss_mask"], rows["tokens"], -100))
    targets = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
    assert targets == dataset.manifest["counts"]["target_tokens"] > 100


def test_transformers_finds_our_documents_and_padding_is_in_none(dataset: PackedDataset) -> None:
    rows = dataset[list(range(len(dataset)))]
    batches = batches_of(dataset, shuffle=False)
    found = found_documents(np.concatenate([batch["position_ids"] for batch in batches]))
    for segments, documents in zip(rows["segment_ids"], found, strict=False):
        for segment in range(1, segments.max() + 1):
            (number,) = set(documents[segments == segment])
            assert not (documents[segments != segment] == number).any()
    labels = np.concatenate([batch["labels"] for batch in batches])
    # A label is predicted from the token before it, which must be of its document.
    assert not ((labels[:, 1:] != -100) & (found[:, 1:] != found[:, :-1])).any()


def test_only_rows_of_one_document_have_an_attention_mask(dataset: PackedDataset) -> None:
    """Any mask switches the search for documents off, even one of ones."""
    strategy = dataset.manifest["config"]["pack"]["strategy"]
    rows = dataset[list(range(len(dataset)))]
    batches = batches_of(dataset, shuffle=False)
    assert all(("attention_mask" in batch) == (strategy == "pad") for batch in batches)
    if strategy == "pad":
        masks = np.concatenate([batch["attention_mask"] for batch in batches])
        assert np.array_equal(masks[: len(dataset)], rows["segment_ids"] > 0)
        assert not masks[len(dataset) :].any()


def test_parts_and_torch_have_the_same_columns(dataset: PackedDataset) -> None:
    with DataLoader(dataset, batch_size=BATCH, view="hf", prefetch=0) as loader:
        assert loader.part(0, 1, 2)["labels"].shape == (BATCH // 2, SEQ_LEN + 1)
        assert loader.element_spec["input_ids"].shape == (BATCH, SEQ_LEN + 1)
    pytest.importorskip("torch")
    from dataprep.loaders.torch import PackedRows

    assert PackedRows(dataset, view="hf")[0]["labels"].shape == (SEQ_LEN + 1,)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.filterwarnings("ignore")
def test_a_model_has_the_loss_of_the_documents_alone(
    dataset: PackedDataset, attention: str
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)  # more only wait for each other over so little
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            attn_implementation=attention,
            use_cache=False,  # with a cache, transformers does not look for documents
        )
    )

    def total(arrays: dict[str, Any]) -> Any:
        """The loss of all labels together; the model returns their mean."""
        tensors = {name: torch.tensor(array).long() for name, array in arrays.items()}
        count = int((tensors["labels"][:, 1:] != -100).sum())
        return model(**tensors).loss * count if count else torch.zeros(())

    packed = sum(total(batch) for batch in batches_of(dataset))
    alone = torch.zeros(())
    for row in range(len(dataset)):
        found = dataset[row]
        for segment in range(1, found["segment_ids"].max() + 1):
            own = found["segment_ids"] == segment
            tokens = found["tokens"][None, own]
            labels = np.where(found["loss_mask"][own], tokens, -100)
            alone = alone + total({"input_ids": tokens, "labels": labels})
    assert torch.isfinite(packed)
    assert abs(packed.item() - alone.item()) < 1e-5 * alone.item()
    packed.backward()
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    alone.backward()
    for mine, parameter in zip(grads, model.parameters(), strict=True):
        assert torch.allclose(mine, parameter.grad, rtol=1e-3, atol=1e-4)


def test_a_mixture_of_one_and_several_documents_a_row_has_no_attention_mask(
    tmp_path: Path,
) -> None:
    from support.packed import write_packed

    several = write_packed(tmp_path / "a", num_rows=8, seq_len=8)
    single = write_packed(tmp_path / "b", num_rows=8, seq_len=8, max_documents=1, strategy="pad")
    assert "attention_mask" in batches_of(single.folder)[0]
    mixed = {"a": (several.folder, 1), "b": (single.folder, 1)}
    assert "attention_mask" not in batches_of(mixed)[0]
