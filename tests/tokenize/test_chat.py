"""Chat from outside: files to masks, by the command and in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from conftest import RunCli
from dataprep.configs.load import validate
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError, InputError
from support.chat import (
    CHATML,
    NEXT_ENDS,
    PARTS,
    SPECIAL,
    THINKING,
    call,
    message,
    write_chat_tokenizer,
)
from support.here import make_here
from support.trees import tree


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_tokenizer(tmp_path_factory.mktemp("chat"))


def as_jsonl(records: list[Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def made(folder: Path, tokenizer: Path, records: list[Any], **config: Any) -> list[Any]:
    """Tokenize in this process; return the documents."""
    path = as_jsonl(records, folder)
    values = {"inputs": [str(path)], "tokenizer": str(tokenizer), "chat": {}, **config}
    make_here("tokenize", folder / "out", values)
    dataset = open_dataset(folder / "out")
    return [dataset[i] for i in range(len(dataset))]


def shown(document: Any, tokenizer: Path) -> str:
    """Return the text with the tokens that have loss in brackets."""
    decode = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).decode
    pairs = zip(document["tokens"].tolist(), document["loss_mask"].tolist(), strict=True)
    runs = [(decode([id], skip_special_tokens=False), mask) for id, mask in pairs]
    return "".join(f"⟦{text}⟧" if mask else text for text, mask in runs).replace("⟧⟦", "")


TURNS = [message("user", "hello"), message("assistant", "what is it")]


def test_a_conversation_has_loss_on_what_the_assistant_says(
    tmp_path: Path, tokenizer: Path
) -> None:
    (document,) = made(tmp_path, tokenizer, [{"messages": TURNS}])
    assert shown(document, tokenizer) == (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n⟦what is it<|im_end|>\n⟧"
    )


texts = st.lists(
    st.sampled_from([*"ab \n.", "hello", "é", "😀", "e\u0301", "日本", "<|im_end|>", "</s>"]),
    max_size=6,
).map("".join)


@settings(max_examples=60, deadline=None)
@given(
    said=st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    template=st.sampled_from([CHATML, NEXT_ENDS]),
)
def test_a_token_has_loss_if_its_characters_overlap_a_span(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str, str]], template: str
) -> None:
    folder = tmp_path_factory.mktemp("masks")
    tokenizer = write_chat_tokenizer(folder / "tokenizer", template)
    messages = [m for u, a in said for m in (message("user", u), message("assistant", a))]
    chat = {"allow_special_in_content": True}
    (document,) = made(folder, tokenizer, [{"messages": messages}], chat=chat)
    text, spans = expected_of(messages, template)
    encoding = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).encode(text)
    assert document["tokens"].tolist() == encoding.ids
    mask = [any(a < stop and start < b for a, b in spans) for start, stop in encoding.offsets]
    assert document["loss_mask"].tolist() == mask


def expected_of(messages: list[Any], template: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text and spans, written by hand for the two templates."""
    text, spans = "<s>" if template == NEXT_ENDS else "", []
    for i, m in enumerate(messages):
        before, header, after = (
            ("<|stop|>" if i else "", f"<|start|>{m['role']}\n", "")
            if template == NEXT_ENDS
            else ("", f"<|im_start|>{m['role']}\n", "<|im_end|>\n")
        )
        text += before + header
        start = len(text)
        text += m["content"] + after
        if m["role"] == "assistant":
            has_next = template == NEXT_ENDS and i + 1 < len(messages)
            spans.append((start, len(text) + (len("<|stop|>") if has_next else 0)))
    return text, spans


def test_special_tokens_that_users_type_are_text(tmp_path: Path, tokenizer: Path) -> None:
    typed = [message("user", "a<|im_end|>b"), message("assistant", "c</s>")]
    records = [{"messages": typed}, {"messages": TURNS}]
    as_text, plain = made(tmp_path / "text", tokenizer, records)
    parsed, _ = made(tmp_path / "ids", tokenizer, records, chat={"allow_special_in_content": True})
    end = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).token_to_id("<|im_end|>")
    assert (np.array(as_text["tokens"]) == end).sum() == 2
    assert (np.array(parsed["tokens"]) == end).sum() == 3
    assert shown(as_text, tokenizer) == shown(parsed, tokenizer)  # the same letters and spans
    assert shown(plain, tokenizer).endswith("⟦what is it<|im_end|>\n⟧")
    for name in ("text", "ids"):
        manifest = json.loads((tmp_path / name / "out" / "manifest.json").read_text())
        assert manifest["counts"]["special_in_text"] == 2
        assert manifest["counts"]["documents_with_special"] == 1


def test_special_tokens_of_the_template_next_to_typed_ones_stay_tokens(
    tmp_path: Path, tokenizer: Path
) -> None:
    typed = [message("user", "<|im_end|>"), message("assistant", "<|im_start|>")]
    (document,) = made(tmp_path, tokenizer, [{"messages": typed}])
    loaded = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    special = [loaded.token_to_id(name) for name in SPECIAL]
    found = [loaded.id_to_token(i) for i in document["tokens"].tolist() if i in special]
    assert found == ["<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>"]


def test_weights_of_messages_become_loss_weights(tmp_path: Path, tokenizer: Path) -> None:
    messages = [*TURNS, message("user", "a"), message("assistant", "b", weight=0.25)]
    (document,) = made(tmp_path, tokenizer, [{"messages": messages}])
    values = set(document["loss_weights"][document["loss_mask"]].tolist())
    assert values == {1.0, 0.25}
    late = [{"messages": TURNS}] * 70 + [{"messages": messages}]
    with pytest.raises(InputError, match=r"line 71 .*weight 0\.25.*set chat\.weights"):
        made(tmp_path / "late", tokenizer, late)
    found = made(tmp_path / "said", tokenizer, late, chat={"weights": True})
    assert set(found[-1]["loss_weights"][found[-1]["loss_mask"]].tolist()) == {1.0, 0.25}


def test_a_row_per_turn_has_the_thinking_that_later_turns_lose(tmp_path: Path) -> None:
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer", THINKING)
    messages = [
        message("user", "a"),
        message("assistant", "b", reasoning_content="x"),
        message("user", "c"),
        message("assistant", "d", reasoning_content="y"),
    ]
    found = made(tmp_path, tokenizer, [{"messages": messages}], chat={"history": "row_per_turn"})
    first, second = (shown(document, tokenizer) for document in found)
    assert first.endswith("assistant\n⟦<think>\nx\n</think>\n\nb<|im_end|>\n⟧")
    assert "⟦<think>\ny\n</think>\n\nd<|im_end|>\n⟧" in second
    assert second.count("⟦") == 1


def test_a_dataset_of_a_row_per_turn_is_whole_and_tells_its_lines(
    tmp_path: Path, run_cli: RunCli
) -> None:
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer", THINKING)
    turns = [*TURNS, message("user", "c"), message("assistant", "d")]
    records = [{"messages": turns[: 2 + 2 * (i % 2)], "lang": "ab"[i % 2]} for i in range(6)]
    made(tmp_path, tokenizer, records, chat={"history": "row_per_turn"})
    run_cli("verify", tmp_path / "out")
    run_cli("pack", tmp_path / "out", "--seq-len", "64", "--out", tmp_path / "packed")
    run_cli("verify", tmp_path / "packed")
    by = json.loads(run_cli("stats", tmp_path / "packed", "--by", "lang", "--json").stdout)
    assert {row["name"]: row["documents"] for row in by["groups"]} == {"a": 3, "b": 6}
    found = run_cli("inspect", tmp_path / "out", "--doc", "in.jsonl:2", check=False)
    assert "became the documents 1, 2" in found.stderr


def test_bad_conversations_are_refused_by_line_and_reason(tmp_path: Path, tokenizer: Path) -> None:
    calls = [call("f", {"x": 1})]
    records = [
        {"messages": TURNS},
        {"messages": [message("user", "a"), message("assistant", "b", tool_calls=calls)]},
        {"messages": [message("user", "a")]},
        {"messages": [{"role": "user"}]},
        {"messages": TURNS},
    ]
    with pytest.raises(
        InputError, match=r"line 2 of .*tool_calls\[0\] that the template leaves out"
    ):
        made(tmp_path / "fail", tokenizer, records)
    found = made(tmp_path / "skip", tokenizer, records, on_error="quarantine")
    assert len(found) == 2
    text = (tmp_path / "skip/out/errors.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["line"] for line in lines] == [2, 3, 4]
    assert "no message to train on" in lines[1]["reason"]


def test_the_template_is_found_where_transformers_looks(tmp_path: Path) -> None:
    records = [{"messages": TURNS}]
    with pytest.raises(ConfigError, match=r"has no chat template.*--chat-template FILE\|NAME"):
        made(tmp_path / "none", write_chat_tokenizer(tmp_path / "t0", None), records)
    folder = write_chat_tokenizer(tmp_path / "t1", "{{ raise_exception('not this one') }}")
    (folder / "chat_template.jinja").write_text(CHATML)
    assert made(tmp_path / "file", folder, records)
    more = folder / "additional_chat_templates"
    more.mkdir()
    (more / "loud.jinja").write_text(CHATML.replace("message.content", "message.content | upper"))
    (named,) = made(tmp_path / "named", folder, records, chat={"template": "loud"})
    assert "⟦WHAT IS IT<|im_end|>\n⟧" in shown(named, folder)
    listed = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": THINKING}]
    both = write_chat_tokenizer(tmp_path / "t2", None, chat_template=listed)
    tools = [{"type": "function", "function": {"name": "f"}}]
    found = made(tmp_path / "both", both, [*records, {"messages": TURNS, "tools": tools}])
    assert ["Tools:" in shown(document, both) for document in found] == [False, True]


def test_the_same_bytes_for_any_number_of_workers(
    tmp_path: Path, tokenizer: Path, run_cli: RunCli
) -> None:
    records = [
        {"messages": [message("user", f"hello {i}"), message("assistant", "it is " * (i % 7 + 1))]}
        for i in range(300)
    ]
    path = as_jsonl(records, tmp_path)
    for workers in (1, 3):
        run_cli(
            *("tokenize", path, "--chat", "messages", "--tokenizer", tokenizer),
            *("--out", tmp_path / f"w{workers}", "--workers", str(workers)),
        )
    assert tree(tmp_path / "w1") == tree(tmp_path / "w3")


def test_chat_needs_no_key_and_no_value_and_a_dry_run_shows_the_mask(
    tmp_path: Path, tokenizer: Path, run_cli: RunCli
) -> None:
    path = as_jsonl([{"prompt": "hello", "completion": "what"}], tmp_path)
    done = run_cli(
        *("tokenize", "--chat", path, "--tokenizer", tokenizer, "--out", tmp_path / "out"),
        "--dry-run",
    )
    assert "has conversations: completion (prompt, completion)" in done.stdout
    assert (
        "[<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n]what<|im_end|>" in done.stdout
    )


def test_the_clock_of_a_template_is_part_of_the_dataset(tmp_path: Path) -> None:
    tokenizer = write_chat_tokenizer(
        tmp_path / "tokenizer", "{{ strftime_now('%Y-%m-%d %H') }}" + CHATML
    )
    records = [{"messages": TURNS}]
    (found,) = made(tmp_path / "a", tokenizer, records, chat={"now": "2025-01-02T03:04:05"})
    assert shown(found, tokenizer).startswith("2025-01-02 03")
    with pytest.raises(ConfigError, match="must be a time such as"):
        validate(TokenizeConfig, {"chat": {"now": "tomorrow"}}, "here")


def test_training_detail_chooses_characters_of_a_content(tmp_path: Path, tokenizer: Path) -> None:
    details = [
        {"begin_offset": 0, "end_offset": 3, "train": True},
        {"begin_offset": 4, "end_offset": 9, "train": False},
    ]
    said = message("assistant", "what is it", training_detail=details)
    (document,) = made(tmp_path, tokenizer, [{"messages": [message("user", "a"), said]}])
    assert shown(document, tokenizer).endswith("assistant\n⟦what⟧ is it⟦<|im_end|>\n⟧")


def test_pictures_and_sounds_in_messages_are_blocks_in_their_place(tmp_path: Path) -> None:
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer", PARTS)
    seen = {"type": "image", "codes": [1, 2, 3, 4]}
    heard = {"type": "audio", "codes": [7, 8]}
    messages = [
        message("user", [seen, {"type": "text", "text": "what"}, heard]),
        message("assistant", [{"type": "text", "text": "a thing"}, seen]),
    ]
    modalities = {
        "vision": {"tokens_per_frame": 4, "code_offset": 5000, "start": "<a>", "end": "</a>"},
        "audio": {"code_offset": 20000},
    }
    config = {"chat": {"media": True}, "modalities": modalities}
    records = [{"messages": messages}, {"messages": TURNS}]
    document, plain = made(tmp_path, tokenizer, records, **config)
    tokens, vision = document["tokens"], document["vision_mask"]
    codes = [5001, 5002, 5003, 5004, 5000 + 8193]
    assert tokens[vision].tolist() == codes * 2
    assert tokens[document["audio_mask"]].tolist() == [20007, 20008]
    assert document["loss_mask"][vision].tolist() == [False] * 5 + [True] * 5
    text = shown(
        {key: document[key][~vision & ~document["audio_mask"]] for key in ("tokens", "loss_mask")},
        tokenizer,
    )
    assert text == "USER: <a></a>what<audio></audio><|stop|>\nASSISTANT:⟦ a thing<a></a><|stop|>\n⟧"
    assert not plain["vision_mask"].any()
    with pytest.raises(InputError, match=r"message 1, content\[0\] is vision; set chat\.media"):
        made(tmp_path / "off", tokenizer, records)
    bare = [{"messages": [message("user", [{"type": "image"}]), message("assistant", "a")]}]
    with pytest.raises(InputError, match=r"content\[0\] is of type 'image', but has no codes"):
        made(tmp_path / "bare", tokenizer, bare, **config)
    bad = [{"messages": [message("user", [{"type": "image", "codes": [1, 9999, 3, 4]}]), TURNS[1]]}]
    with pytest.raises(InputError, match=r"line 1 of .*message 1, content\[0\].*9999"):
        made(tmp_path / "bad", tokenizer, bad, **config)
    lost = write_chat_tokenizer(
        tmp_path / "lost", CHATML.replace("message.content", "message.content | string")
    )
    with pytest.raises(InputError, match="is vision that the template leaves out"):
        made(tmp_path / "loses", lost, [{"messages": messages}], **config)


def test_a_cure_for_turns_without_an_end_can_be_pasted_and_says_what_it_is_not(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = as_jsonl([{"messages": TURNS}], tmp_path)
    words = ["tokenize", path, "--tokenizer", "bytes", "--chat", "--chat-template", "chatml"]
    said = run_cli(*words, "--out", "a", "--dry-run").stdout
    assert "name the token with --set 'chat.stop=[TOKEN]'" in said  # brackets are a glob in zsh
    said = run_cli(*words, "--out", "a", "--dry-run", "--set", "chat.stop=[<|im_end|>]").stdout
    assert "may not learn to stop" not in said
    assert "chat.stop '<|im_end|>' is no special token of this tokenizer, but text of" in said
