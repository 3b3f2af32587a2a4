"""Objectives of two sides over conversations: KTO, seq2seq, and pairs that outlive kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import InputError
from support.chat import CHATML, THINKING, message, write_chat_tokenizer
from support.datasets import pack_here
from support.forks import ForkServer
from support.inprocess import tokenize_here, write_lines
from support.jobs import Job
from support.kills import kill_loop
from support.trees import tree


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_tokenizer(tmp_path_factory.mktemp("chat"))


def tokenized(folder: Path, tokenizer: Path, records: list[Any], **config: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer=str(tokenizer), **config)
    return open_dataset(folder / "out")


def shown(document: Any, tokenizer: Path, mask: str = "loss_mask") -> str:
    from tokenizers import Tokenizer

    decode = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).decode
    pairs = zip(document["tokens"].tolist(), document[mask].tolist(), strict=True)
    runs = [(decode([id], skip_special_tokens=False), has) for id, has in pairs]
    return "".join(f"⟦{text}⟧" if has else text for text, has in runs).replace("⟧⟦", "")


ASKED = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        ("q", "a"),
        ([message("user", "q")], [message("assistant", "a")]),
        ([message("user", "q")], "a"),
    ],
)
def test_kto_of_conversations_has_loss_on_the_completion_and_its_label(
    tmp_path: Path, tokenizer: Path, prompt: Any, completion: Any
) -> None:
    records = [
        {"prompt": prompt, "completion": completion, "label": label} for label in (True, False)
    ]
    dataset = tokenized(tmp_path, tokenizer, records, chat={}, objective={"kind": "kto"})
    for i, is_good in enumerate((True, False)):
        assert shown(dataset[i], tokenizer) == ASKED + "⟦a<|im_end|>\n⟧"
        assert dataset[i]["rejected_mask"].all() == (not is_good)
        assert dataset[i]["rejected_mask"].any() == (not is_good)
    counts = dataset.manifest["counts"]
    assert (counts["records_read"], counts["documents_written"]) == (2, 2)


def test_kto_refuses_what_chat_refuses_by_its_line(tmp_path: Path, tokenizer: Path) -> None:
    good = {"prompt": "q", "completion": "a", "label": True}
    bad = {**good, "completion": [message("user", "a")]}
    with pytest.raises(InputError, match=r"line 2 of .*no message to train on"):
        tokenized(tmp_path, tokenizer, [good, bad], chat={}, objective={"kind": "kto"})


def test_seq2seq_of_a_conversation_is_what_has_no_loss_then_what_has(
    tmp_path: Path, tokenizer: Path, run_cli: RunCli
) -> None:
    talk = [message("user", "q"), message("assistant", "a")]
    records = [{"messages": talk}, {"messages": [message("system", "s"), *talk]}] * 8
    dataset = tokenized(tmp_path, tokenizer, records, chat={}, objective={"kind": "seq2seq"})
    assert shown(dataset[0], tokenizer) == ASKED + "⟦a<|im_end|>\n⟧"
    assert shown(dataset[0], tokenizer, "encoder_mask") == f"⟦{ASKED}⟧a<|im_end|>\n"
    pack_here(tmp_path / "packed", tmp_path / "out", seq_len=63)
    run_cli("verify", tmp_path / "packed")
    found = []
    with DataLoader(tmp_path / "packed", batch_size=1, epochs=1, view="seq2seq") as loader:
        for batch in loader:
            encoder, decoder = batch["encoder_segment_ids"][0], batch["decoder_segment_ids"][0]
            for segment in range(1, encoder.max() + 1):
                sides = (
                    batch["encoder_input_tokens"][0][encoder == segment],
                    batch["decoder_target_tokens"][0][decoder == segment],
                )
                found.append(tuple(tuple(side.tolist()) for side in sides))
                assert batch["decoder_loss_mask"][0][decoder == segment].all()
    expected = []
    for i in range(len(dataset)):
        tokens, encoder = dataset[i]["tokens"], dataset[i]["encoder_mask"]
        expected.append((tuple(tokens[encoder].tolist()), tuple(tokens[~encoder].tolist())))
    assert sorted(found) == sorted(expected)


def test_seq2seq_refuses_a_conversation_of_several_turns_unless_it_trains_on_the_last(
    tmp_path: Path, tokenizer: Path
) -> None:
    talk = [message("user", "q"), message("assistant", "a")] * 2
    records = [{"messages": talk}]
    with pytest.raises(InputError, match="after the first with it"):
        tokenized(tmp_path / "a", tokenizer, records, chat={}, objective={"kind": "seq2seq"})
    config: dict[str, Any] = {"objective": {"kind": "seq2seq"}}
    last = tokenized(tmp_path / "b", tokenizer, records, chat={"train_on": "last"}, **config)
    assert shown(last[0], tokenizer) == ASKED + "a<|im_end|>\n" + ASKED + "⟦a<|im_end|>\n⟧"
    each = tokenized(tmp_path / "c", tokenizer, records, chat={"history": "row_per_turn"}, **config)
    assert len(each) == 2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with ForkServer(tmp_path_factory.mktemp("server"), eager=False) as found:
        yield found


WAYS = {
    "preference": ("--set", "objective.kind=preference"),
    "preference-chat": ("--set", "objective.kind=preference", "--chat"),
    "kto-chat": ("--set", "objective.kind=kto", "--chat"),
}


@pytest.mark.parametrize("name", WAYS)
def test_pairs_have_the_same_bytes_for_any_workers_and_after_sigkill(
    tmp_path: Path, server: ForkServer, name: str
) -> None:
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer", THINKING)
    files = []
    for number in range(3):
        records = [
            {
                "prompt": f"file {number} line {i} " * (i % 9 + 1),
                "chosen": f"yes {i} " * (i % 7 + 1),
                "rejected": f"no {i}",
                "completion": f"it is {i}",
                "label": i % 3 == 0,
            }
            for i in range(300)
        ]
        files.append(write_lines(tmp_path / f"{number}.jsonl", records))
    words = (
        *("tokenize", *map(str, files), "--tokenizer", str(tokenizer), *WAYS[name]),
        *("--shard-bytes", "65536", "--engine", "tokenizers"),
    )
    clean = tmp_path / "clean"
    server.check([*words, "--out", str(clean), "--workers", "1"])
    job = Job(name=name, words=words, clean=tree(clean), folder=clean, seconds=0.2)
    seen = kill_loop(server, job, tmp_path, mid_run=3)  # resumed with 1 to 3 workers
    assert seen.mismatches == []
    assert seen.mid_run >= 3
    server.check(["verify", str(clean)])


def test_the_built_in_template_is_that_of_the_tests(tmp_path: Path) -> None:
    """So that what is shown here holds for `--chat-template chatml`."""
    plain = write_chat_tokenizer(tmp_path / "tokenizer", None)
    records = [{"messages": [message("user", "q"), message("assistant", "a")]}]
    dataset = tokenized(tmp_path, plain, records, chat={"template": "chatml"})
    own = tokenized(
        tmp_path / "own", write_chat_tokenizer(tmp_path / "t2", CHATML), records, chat={}
    )
    assert dataset[0]["tokens"].tolist() == own[0]["tokens"].tolist()
