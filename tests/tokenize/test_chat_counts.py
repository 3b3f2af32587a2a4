"""What a run over conversations counts: records, documents, thinking that is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from support.chat import CHATML, THINKING, message, write_chat_tokenizer
from support.here import make_here

TALK = [
    message("user", "a"),
    message("assistant", "b", reasoning_content="x"),
    message("user", "c"),
    message("assistant", "d", reasoning_content="y"),
]


def counts_of(folder: Path, template: str, records: list[Any], **config: Any) -> Any:
    """Tokenize in this process; return the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    tokenizer = write_chat_tokenizer(folder / "tokenizer", template)
    values = {"inputs": [str(path)], "tokenizer": str(tokenizer), "chat": {}, **config}
    make_here("tokenize", folder / "out", values)
    return json.loads((folder / "out" / "manifest.json").read_text())


def test_records_are_counted_once_however_many_documents_they_give(
    tmp_path: Path, run_cli: RunCli
) -> None:
    records = [{"messages": TALK}, {"messages": TALK[:2]}, {"messages": TALK[:1]}]
    manifest = counts_of(
        tmp_path, THINKING, records, chat={"history": "row_per_turn"}, on_error="skip"
    )
    counts, (source,) = manifest["counts"], manifest["sources"]
    assert (counts["records_read"], source["records"]) == (3, 3)
    assert (counts["documents_written"], source["written"]) == (3, 3)
    assert counts["documents_dropped"] == 1
    assert counts["documents_read"] == 4
    run_cli("verify", tmp_path / "out")


def test_the_share_of_bad_records_is_one_of_records(tmp_path: Path) -> None:
    long = [message("user", "a"), message("assistant", "b")] * 20
    records = [{"messages": long}, {"messages": TALK[:1]}]  # 20 documents, and a bad one
    config = {"chat": {"history": "row_per_turn"}, "on_error": "skip"}
    assert counts_of(tmp_path / "half", CHATML, records, **config, max_errors="50%")
    with pytest.raises(Exception, match="40%"):
        counts_of(tmp_path / "less", CHATML, records, **config, max_errors="40%")


INLINE = [message("user", "a"), message("assistant", "<think>hm</think>b")]
NO_THINKING = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{{ m.content.split('</think>')[-1] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "messages", "history", "expected"),
    [
        (CHATML, TALK, "as_rendered", 2),
        (THINKING, TALK, "as_rendered", 1),  # that of the first turn
        (THINKING, TALK, "row_per_turn", 0),
        (THINKING, TALK, "last_turn", 0),  # the first turn has no loss
        (CHATML, INLINE, "as_rendered", 0),
        (NO_THINKING, INLINE, "as_rendered", 1),
        (CHATML, [TALK[0], message("assistant", "b", reasoning_content=" ")], "as_rendered", 0),
    ],
)
def test_thinking_that_the_template_leaves_out_is_counted(
    tmp_path: Path, template: str, messages: list[Any], history: str, expected: int
) -> None:
    other = [message(m["role"], m["content"] + "z") | _more(m) for m in messages]
    records = [{"messages": m} for m in (messages, other, messages)]  # rendered, then replayed
    manifest = counts_of(tmp_path, template, records, chat={"history": history})
    assert manifest["counts"]["thinking_left_out"] == 3 * expected


def _more(m: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in m.items() if key not in ("role", "content")}


def test_a_replay_knows_whether_there_was_any_thinking(tmp_path: Path) -> None:
    blank = [TALK[0], message("assistant", "b", reasoning_content="")]
    records = [{"messages": m} for m in (blank, TALK[:2], blank, TALK[:2])]
    assert counts_of(tmp_path, CHATML, records)["counts"]["thinking_left_out"] == 2


def test_the_summary_tells_what_was_left_out(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"messages": TALK}) + "\n")
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer", CHATML, bos_token="</s>")
    words = ("tokenize", "in.jsonl", "--chat", "--tokenizer", tokenizer, "--out", "out")
    said = run_cli(*words)
    assert "thinking of 2 messages left out by the template" in said.stdout
    assert "BOS" not in said.stdout + said.stderr  # is the template's affair


def test_what_goes_with_chat_and_what_does_not(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"messages": TALK}) + "\n")
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer")
    words = ("tokenize", "in.jsonl", "--tokenizer", tokenizer, "--out", "out", "--dry-run")
    (tmp_path / "fields.yaml").write_text("fields: '[a],b'\n")
    for more, said in (
        (("--chat-template", "chatml"), "add --chat, or leave --chat-template out"),
        (("--chat", "--fields", "text"), "leave one of them out"),
        (("--chat", "--config", "fields.yaml"), "leave fields out, or chat"),
        (("--set", "chat.span=turn", "--fields-from", "x"), "leave fields_from out, or chat"),
    ):
        done = run_cli(*words, *more, check=False)
        assert (done.code, said in done.stderr) == (2, True), done.stderr
    for more in (("--chat", "--chat-template", "chatml"), ("--set", "chat.span=turn")):
        assert "has conversations" in run_cli(*words, *more).stdout
    named = run_cli(*words, "--set", "chat.span=turn", "--chat-template", "chatml")
    assert "has conversations" in named.stdout
