"""One record at a time: the same tokens and masks as `dataprep tokenize` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import dataprep
from conftest import Sample

CODES = list(range(256)) * 2
CHAT = [
    {"role": "user", "content": "Is 91 divisible by 9?"},
    {"role": "assistant", "content": "No, 1 is left over."},
]
FIM = {"prefix": 300, "middle": 301, "suffix": 302}
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "text": ({}, [{"text": "some text"}, {"text": "änd möre –"}]),
    "fields": (
        {"fields": "[prompt],'; ',answer*0.5,hint?"},
        [{"prompt": "q", "answer": "a"}, {"prompt": "p", "answer": "x", "hint": "h"}],
    ),
    "vision": ({"fields": "[vision],text"}, [{"vision": CODES, "text": "two frames"}]),
    "audio": ({"fields": "audio,text"}, [{"audio": CODES[:40], "text": "hm"}]),
    "segments": (
        {"fields": "segments"},
        [
            {
                "segments": [
                    {"type": "text", "text": "see", "loss": False},
                    {"type": "vision", "codes": CODES[:256]},
                ]
            }
        ],
    ),
    "fields from": (
        {"fields_from": "fields"},
        [{"a": "1", "b": "2", "fields": ["a,[b]", "[a],b", "b"]}] * 6,
    ),
    "chat": (
        {"chat": {"template": "chatml"}},
        [{"messages": CHAT}, {"messages": CHAT * 2}],
    ),
    "weighted chat": (
        {"chat": {"template": "chatml", "weights": True}},
        [{"messages": [CHAT[0], {**CHAT[1], "weight": 0.5}]}],
    ),
    "pretokenized": ({"pretokenized": "ids"}, [{"ids": [5, 6, 7]}]),
    "budget": ({"budget": {"tokens": 6}}, [{"text": "many words are cut off here " * 3}]),
    "fill in": (
        {"objective": {"kind": "fim", "rate": 0.9, "seed": 3, "tokens": FIM}},
        [{"text": f"document {i} of several, long enough to be cut"} for i in range(8)],
    ),
    "special": ({"special_in_text": "text"}, [{"text": "it says </s> here"}]),
}


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if "loss_weights" not in b and np.array_equal(a.get("loss_weights", 0), a["loss_mask"]):
        a = {key: values for key, values in a.items() if key != "loss_weights"}  # none has any
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and np.array_equal(a[k], b[k]) for k in a
    )


@pytest.mark.parametrize("name", CASES)
def test_a_record_gives_what_tokenize_writes(name: str, tmp_path: Path, sample: Sample) -> None:
    settings, records = CASES[name]
    file = tmp_path / "in.jsonl"
    lines = [json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records]
    file.write_bytes(b"".join(lines))
    made = dataprep.tokenize(
        inputs=str(file), tokenizer=sample.tokenizer, out=tmp_path / "out", workers=1, **settings
    )
    processor = dataprep.processor(tokenizer=sample.tokenizer, examples=records, **settings)
    offset, found = 0, []
    for number, (record, line) in enumerate(zip(records, lines, strict=True)):
        place = {"line": number, "offset": offset, "source": made.manifest.sources[0].fingerprint}
        found += processor.documents(record, **place)
        offset += len(line)
    written = list(dataprep.open_dataset(tmp_path / "out"))
    assert len(found) == len(written)
    for mine, theirs in zip(found, written, strict=True):
        assert equal(mine, theirs), (mine, theirs)
    assert equal(
        processor.process(records[0], source=made.manifest.sources[0].fingerprint, offset=0),
        written[0],
    )


def test_bad_and_empty_records_are_told(sample: Sample) -> None:
    processor = dataprep.processor(tokenizer=sample.tokenizer, add_bos=False, add_eos=False)
    with pytest.raises(dataprep.InputError, match=r"'text'.*keys: body"):
        processor.process({"body": "a"})
    with pytest.raises(dataprep.InputError, match="the record is empty"):
        processor.process({"text": ""})
    assert processor.documents({"text": ""}) == []
    with pytest.raises(dataprep.InputError, match="NaN"):
        processor.process({"text": "a", "x": float("nan")})
    with pytest.raises(dataprep.InputError, match="the record is 7"):
        processor.process(7)  # type: ignore[arg-type]
    assert processor.process("hi")["tokens"].tolist() == processor.tokenize("hi").tolist()


def test_texts_go_there_and_back(sample: Sample) -> None:
    processor = dataprep.processor(tokenizer=sample.tokenizer)
    ids = processor.tokenize("A ladybird – on a leaf.")
    assert (
        ids.tolist() == dataprep.tokenize_text("A ladybird – on a leaf.", sample.tokenizer).tolist()
    )
    assert processor.detokenize(ids) == dataprep.detokenize(ids, sample.tokenizer)


def test_settings_of_one_of_several_inputs_count(sample: Sample) -> None:
    inputs = ["a.jsonl", {"path": "b.jsonl", "fields": "[body]"}]
    processor = dataprep.processor(inputs=inputs, tokenizer=sample.tokenizer, index=1)
    assert not processor.process({"body": "x"})["loss_mask"][:-1].any()
    with pytest.raises(dataprep.ConfigError, match="no input 2; the config has 2"):
        dataprep.processor(inputs=inputs, tokenizer=sample.tokenizer, index=2)
    with pytest.raises(dataprep.ConfigError, match="no tokenizer"):
        dataprep.processor()


# --- tokenizers that the program holds ---


def words(**options: Any) -> Tokenizer:
    vocabulary = {"<s>": 0, "</s>": 1, "hello": 2, "world": 3, "Hello": 4, "?": 5}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def fast() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=words(),
        bos_token="<s>",
        eos_token="</s>",
        chat_template="{% for m in messages %}{{ m.content }} {% endfor %}",
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DATAPREP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_tokenizer_of_transformers_is_taken_as_it_is(tmp_path: Path, cache: Path) -> None:
    tokenizer = fast()
    made = dataprep.tokenize(
        inputs=[["hello world"]], tokenizer=tokenizer, out=tmp_path / "out", workers=1
    )
    (document,) = dataprep.open_dataset(tmp_path / "out")
    assert document["tokens"].tolist() == [0, 2, 3, 1]
    about = made.manifest.tokenizer
    assert (about.bos, about.eos) == (0, 1)
    tokenizer("hello world", truncation=True, max_length=1)  # leaves a setting behind in it
    again = dataprep.tokenize(
        inputs=[["hello world"]], tokenizer=fast(), out=tmp_path / "out", workers=1
    )
    assert again.was_complete
    assert dataprep.tokenize_text("hello world", tokenizer).tolist() == [2, 3]
    assert dataprep.detokenize([2, 3], tokenizer) == "helloworld"
    assert dataprep.processor(tokenizer=words()).tokenize("world").tolist() == [3]
    chat = dataprep.processor(tokenizer=tokenizer, chat={"train_on": "all"})
    assert chat.process({"messages": CHAT[:1]})["tokens"].tolist()


def test_a_switch_for_case_is_the_normalizer_of_the_tokenizer() -> None:
    tokenizer = words()
    assert dataprep.tokenize_text("Hello WORLD", tokenizer).tolist() == [4, 5]
    tokenizer.normalizer = normalizers.Lowercase()
    assert dataprep.tokenize_text("Hello WORLD", tokenizer).tolist() == [2, 3]


def test_what_is_no_tokenizer_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(dataprep.ConfigError, match="Slow is a slow tokenizer"):
        dataprep.tokenize_text("a", Slow())
    with pytest.raises(dataprep.ConfigError, match="int is no tokenizer"):
        dataprep.tokenize(inputs="x", tokenizer=7, out="y")
