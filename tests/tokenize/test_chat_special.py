"""Special tokens of conversations: the template's are tokens, those in content are text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dataprep.loaders import open_dataset
from support.chat import THINKING, call, message, write_chat_tokenizer
from support.here import make_here

TURNS = [message("user", "hello"), message("assistant", "yes")]


def made(folder: Path, tokenizer: Path, record: Any, **chat: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "in.jsonl"
    path.write_text(json.dumps(record) + "\n")
    values = {"inputs": [str(path)], "tokenizer": str(tokenizer), "chat": chat}
    make_here("tokenize", folder / "out", values)
    return open_dataset(folder / "out")


TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"properties": {"</s>": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    ("record", "token"),
    [
        (
            {
                "messages": [
                    TURNS[0],
                    message("assistant", "", tool_calls=[call("f", {"<|im_end|>": 1})]),
                ]
            },
            "<|im_end|>",
        ),
        (
            {
                "messages": [
                    TURNS[0],
                    message("assistant", "", tool_calls=[call("f", {"a": [{"<|im_end|>": "x"}]})]),
                ]
            },
            "<|im_end|>",
        ),
        ({"messages": TURNS, "tools": [TOOL]}, "</s>"),
    ],
)
def test_keys_of_arguments_and_schemas_are_content(tmp_path: Path, record: Any, token: str) -> None:
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer", THINKING)
    id = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).token_to_id(token)
    as_text = made(tmp_path / "text", tokenizer, record)
    parsed = made(tmp_path / "ids", tokenizer, record, allow_special_in_content=True)
    found = [int((np.array(d[0]["tokens"]) == id).sum()) for d in (as_text, parsed)]
    assert found[1] == found[0] + 1
    for dataset in (as_text, parsed):
        assert dataset.manifest["counts"]["special_in_text"] == 1


def write_words(folder: Path) -> Path:
    """Write a tokenizer whose BOS and EOS are words of its model, and no added tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: i for i, word in enumerate(["<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|bot|>", normalized=False)])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    template = (
        "{{ bos_token }}{% for m in messages %}{{ '<|bot|>' if m.role == 'assistant' }}"
        "{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|bot|>' }}{% endif %}"
    )
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("is_allowed", [False, True])
def test_bos_that_is_only_a_word_of_the_model_is_the_token_as_in_transformers(
    tmp_path: Path, is_allowed: bool
) -> None:
    folder = write_words(tmp_path / "tokenizer")
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>"
    )
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    expected = theirs.apply_chat_template(TURNS, chat_template=template, return_dict=False)
    dataset = made(tmp_path / "a", folder, {"messages": TURNS}, allow_special_in_content=is_allowed)
    document = dataset[0]
    assert document["tokens"].tolist() == expected
    assert document["tokens"][0] == 0
    said = document["tokens"][document["loss_mask"]]
    assert theirs.decode(said) == "yes</s>"


@pytest.mark.parametrize("is_allowed", [False, True])
def test_bos_that_a_user_types_is_text_though_it_is_a_word(
    tmp_path: Path, is_allowed: bool
) -> None:
    folder = write_words(tmp_path / "tokenizer")
    typed = [message("user", "a<s>b"), message("assistant", "c")]
    dataset = made(tmp_path / "a", folder, {"messages": typed}, allow_special_in_content=is_allowed)
    assert (dataset[0]["tokens"] == 0).sum() == 1 + is_allowed
