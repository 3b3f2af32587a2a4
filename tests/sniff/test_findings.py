"""What records are is told by their keys and values; what cannot be told is not guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataprep.pipeline.sniff.findings import find, what_is_there
from dataprep.pipeline.sniff.lengths import suggested_length
from dataprep.pipeline.types import Record

LONG = "A long text of many words. " * 9
SAID = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
SHARED = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
FRAME = list(range(256))

CASES: dict[str, tuple[list[Record], str, dict[str, Any]]] = {
    "text by its name": ([{"text": "a", "url": LONG}], "texts", {"fields": "text"}),
    "text by its length": ([{"id": "a1", "abstract": LONG}], "texts", {"fields": "abstract"}),
    "named before longest": ([{"body": "short", "log": LONG}], "texts", {"fields": "body"}),
    "nested": ([{"id": 1, "doc": {"body": LONG}}], "texts", {"fields": "doc.body"}),
    "a key that some lack": ([{"text": "a"}, {"id": 3}], "texts", {"fields": "text?"}),
    "a key that is null": ([{"text": "a"}, {"text": None}], "texts", {"fields": "text?"}),
    "prompt and answer": (
        [{"prompt": "a", "answer": LONG}],
        "pairs",
        {"fields": "[prompt],answer"},
    ),
    "question and solution": (
        [{"question": "a", "solution": "b", "level": "easy"}],
        "pairs",
        {"fields": "[question],solution"},
    ),
    "openai": ([{"messages": SAID}], "conversations", {"messages": "messages", "form": "openai"}),
    "another key": ([{"dialog": SAID}], "conversations", {"messages": "dialog", "form": "openai"}),
    "nested chat": (
        [{"data": {"messages": SAID}}],
        "conversations",
        {"messages": "data.messages", "form": "openai"},
    ),
    "sharegpt": (
        [{"conversations": SHARED, "id": "x"}],
        "conversations",
        {"messages": "conversations", "form": "sharegpt"},
    ),
    "pairs of turns": (
        [{"conversation": [{"human": "a", "assistant": "b"}]}],
        "conversations",
        {"messages": "conversation", "form": "pairs"},
    ),
    "alpaca": (
        [{"instruction": "a", "input": "", "output": "b", "text": LONG}],
        "conversations",
        {"form": "alpaca"},
    ),
    "completion of messages": (
        [{"prompt": SAID[:1], "completion": SAID[1:]}],
        "conversations",
        {"form": "completion"},
    ),
    "preferences": (
        [{"prompt": "a", "chosen": "b", "rejected": "c"}],
        "preferences",
        {"objective": {"kind": "preference"}},
    ),
    "preferences without a prompt": (
        [{"chosen": "a b", "rejected": "a c"}],
        "preferences",
        {"objective": {"kind": "preference", "prompt": None}},
    ),
    "codes": ([{"vision": FRAME, "text": "a"}], "codes", {"fields": "[vision],text"}),
    "codes alone": ([{"vision": FRAME}], "codes", {"fields": "vision"}),
    "codes as arrays": (
        [{"vision": np.array(FRAME), "caption": "a"}],
        "codes",
        {"fields": "[vision],caption"},
    ),
    "codes of another frame and size": (
        [{"image_codes": [9000] * 64, "text": "a"}, {"image_codes": [1] * 128, "text": "b"}],
        "codes",
        {
            "fields": "[image_codes],text",
            "modalities": {
                "vision": {
                    "fields": ["image_codes"],
                    "tokens_per_frame": 64,
                    "codebook_size": 16384,
                    "end_of_frame": 16384,
                    "end_of_media": 16385,
                }
            },
        },
    ),
    "codebooks of audio": (
        [{"audio": [[1, 2, 3], [4, 5, 6]], "text": "a"}],
        "codes",
        {"fields": "[audio],text", "modalities": {"audio": {"codebooks": 2}}},
    ),
    "a spec in each record": (
        [{"fields": ["[vision],caption", "caption"], "vision": FRAME, "caption": "a"}],
        "specs",
        {"fields_from": "fields"},
    ),
    "interleaved": (
        [{"segments": [{"type": "text", "text": "a"}]}],
        "segments",
        {"fields": "segments"},
    ),
    "facts about pictures are no codes": (
        [{"text": "a", "image_size": [64, 64], "video_ids": list(range(20)), "frames": [0, 9]}],
        "texts",
        {"fields": "text"},
    ),
    "ids": ([{"id": 7, "tokens": [1, 2]}], "ids", {"pretokenized": {"tokens": "tokens"}}),
    "ids with labels": (
        [{"input_ids": [1, 2], "attention_mask": [1, 1], "labels": [-100, 2]}],
        "ids",
        {
            "pretokenized": {
                "tokens": "input_ids",
                "labels": "labels",
                "attention_mask": "attention_mask",
            }
        },
    ),
    "ids beside texts": ([{"text": "a", "input_ids": [1, 2]}], "texts", {"fields": "text"}),
}


@pytest.mark.parametrize("name", CASES)
def test_records_are_known(name: str) -> None:
    records, form, settings = CASES[name]
    found = find(records)
    assert found is not None
    assert found.form == form
    expected = {"chat": settings} if form == "conversations" else settings
    assert found.settings == expected


@pytest.mark.parametrize(
    "record",
    [{"labels": [1, 2]}, {"a": 1, "b": 2.5}, {}, {"data": b"\xff\xd8"}, {"a,b": LONG}],
    ids=str,
)
def test_what_gives_no_tokens_is_nothing(record: Record) -> None:
    assert find([record]) is None


def test_other_keys_are_told() -> None:
    assert what_is_there([{"a": 1, "b": [2]}]) == "a (other), b (integers)"


def test_other_texts_are_told_and_those_that_lack_the_key_counted() -> None:
    found = find([{"text": "a", "title": "b"}, {"title": "c"}])
    assert found is not None
    assert found.also == ("title",)
    assert found.notes == ("1 of the first 2 records lack 'text'",)


def test_a_column_of_an_encoder_is_what_its_file_says() -> None:
    found = find([{"pixels": [1, 2, 3], "text": "a"}], {"pixels": "audio"})
    assert found is not None
    assert found.settings == {
        "fields": "[pixels],text",
        "modalities": {"audio": {"fields": ["pixels"]}},
    }


def test_the_length_is_the_shortest_that_leaves_95_percent_whole() -> None:
    documents = np.array([100] * 94 + [600] + [5000] * 5)
    assert suggested_length([documents]) == 1024
    assert suggested_length([np.array([10])]) == 512
    assert suggested_length([np.array([1 << 20])]) == 32768
    assert suggested_length([np.array([10] * 9999), np.array([2049])]) == 2048
    assert suggested_length([np.array([2050])]) == 4096
