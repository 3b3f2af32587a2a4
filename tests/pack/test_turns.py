"""Conversations longer than a row lose whole turns, never a part of one, and all is counted."""

from __future__ import annotations

import json
import random
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import RunCli, Sample
from dataprep.configs.pack import PackConfig
from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.look.origins import RowOrigins
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.pack import turns as pack_turns
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.plan import plan_rows
from dataprep.pipeline.pack.recipe import pack_plan_of
from dataprep.pipeline.pack.strategies import Turns, keep_turns
from support.datasets import pack_here
from support.exporting import export_here
from support.inprocess import tokenize_here, write_lines

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
WAYS = ("drop_oldest", "cut", "drop")
STRATEGIES = ("best_fit", "first_fit", "pad")


class Kept(NamedTuple):
    """What the oracle keeps of a conversation: tokens [0, head) and [start, stop)."""

    head: int
    start: int
    stop: int

    @property
    def places(self) -> list[int]:
        return [*range(self.head), *range(self.start, self.stop)]


def oracle(preamble: int, turns: list[int], capacity: int, way: str) -> Kept | None:
    """Try every number of turns, the largest first."""
    edges = list(accumulate(turns, initial=preamble))
    if edges[-1] <= capacity:
        return Kept(0, 0, edges[-1])
    for count in range(len(turns) - 1, 0, -1):
        start = edges[len(turns) - count]
        if way == "drop_oldest" and preamble + edges[-1] - start <= capacity:
            return Kept(preamble, start, edges[-1])
        if way == "cut" and edges[count] <= capacity:
            return Kept(0, 0, edges[count])
    return None


@settings(max_examples=400)
@given(
    documents=st.lists(
        st.tuples(st.integers(0, 6), st.lists(st.integers(1, 9), max_size=7)), max_size=12
    ),
    capacity=st.integers(2, 30),
    way=st.sampled_from(WAYS),
)
def test_what_is_kept_is_what_trying_every_number_of_turns_finds(
    documents: list[tuple[int, list[int]]], capacity: int, way: Any
) -> None:
    long = [(preamble, turns) for preamble, turns in documents if preamble + sum(turns) > capacity]
    starts = [list(accumulate(turns, initial=preamble))[:-1] for preamble, turns in long]
    found = keep_turns(
        np.array([preamble + sum(turns) for preamble, turns in long], np.int64),
        Turns(
            document=np.repeat(np.arange(len(long)), [len(each) for each in starts]),
            start=np.array([start for each in starts for start in each], np.int64),
        ),
        capacity,
        way,
    )
    expected = []
    for number, (preamble, turns) in enumerate(long):
        kept = oracle(preamble, turns, capacity, way)
        if kept:
            expected.append((number, kept.start, len(kept.places), kept.head))
    columns = (found.document, found.start, found.length, found.head)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


# whole datasets against the same oracle


def size_of(message: dict[str, str]) -> int:
    return len(f"<{message['role']}>{message['content']}</s>".encode())


def layout_of(messages: list[dict[str, str]]) -> tuple[int, list[int]]:
    """The tokens of the preamble, and of each turn."""
    preamble, turns = 0, []
    for message in messages:
        role = message["role"]
        if role == "user" or (role != "system" and not turns):
            turns.append(0)
        if turns:
            turns[-1] += size_of(message)
        else:
            preamble += size_of(message)
    return preamble, turns


def text_of(messages: list[dict[str, str]]) -> bytes:
    return "".join(f"<{m['role']}>{m['content']}</s>" for m in messages).encode()


def says(*roles: str) -> Any:
    content = st.integers(0, 12).map(lambda n: "xyzé"[: n % 5] + "w" * n)
    one = st.tuples(st.sampled_from(roles), content)
    return one.map(lambda pair: {"role": pair[0], "content": pair[1] + "."})


REPLY = st.lists(says("assistant", "tool", "system"), max_size=3)
TURN = st.tuples(says("user"), REPLY, says("assistant")).map(lambda t: [t[0], *t[1], t[2]])
TALKS = st.tuples(
    st.lists(says("system"), max_size=2),
    st.lists(says("assistant"), max_size=1),
    st.lists(TURN, min_size=1, max_size=5),
).map(lambda talk: [*talk[0], *talk[1], *(m for turn in talk[2] for m in turn)])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "chat.jinja"
    path.write_text(TEMPLATE)
    return path


numbers = iter(range(10**9))


def tokenized(folder: Path, template: Path, talks: list[Any], **config: Any) -> Path:
    home = folder / str(next(numbers))
    home.mkdir(parents=True)
    path = write_lines(home / "in.jsonl", [{"messages": talk} for talk in talks])
    chat = {"template": str(template), "stop": ["</s>"], "form": "openai"}
    common = {"inputs": [str(path)], "tokenizer": "bytes", "chat": chat}
    tokenize_here(home / "out", **{**common, **config})
    return home / "out"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    talks=st.lists(TALKS, min_size=1, max_size=8),
    seq_len=st.integers(20, 160),
    way=st.sampled_from(WAYS),
    strategy=st.sampled_from(STRATEGIES),
    window=st.sampled_from([1, 5, 1 << 22]),
    at_once=st.sampled_from([1, 200, 1 << 24]),
)
def test_rows_hold_whole_turns_as_one_segment_and_everything_is_counted(
    tmp_path_factory: pytest.TempPathFactory,
    template: Path,
    talks: list[list[dict[str, str]]],
    seq_len: int,
    way: str,
    strategy: str,
    window: int,
    at_once: int,
) -> None:
    folder = tmp_path_factory.mktemp("turns")
    source = tokenized(folder, template, talks)
    documents = open_dataset(source)
    expected = [oracle(*layout_of(talk), seq_len + 1, way) for talk in talks]
    config = {"seq_len": seq_len, "strategy": strategy, "overflow": "turns", "turns": way}
    out = source.with_name("packed")
    if not any(expected):
        planned = pack_plan_of(PackConfig.model_validate({**config, "inputs": [str(source)]}))
        assert planned.documents_dropped == len(talks)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_turns, "TOKENS_AT_ONCE", at_once)
        pack_here(out, source, **config, window=window)
    rows = open_dataset(out)
    origins = RowOrigins(out, rows.about)
    seen = set()
    for number in range(len(rows)):
        row = rows[number]
        pieces = origins.of_row(*rows.locate(number))
        assert len(pieces) == row["segment_ids"].max()
        for segment, piece in enumerate(pieces, 1):
            kept = expected[piece.document]
            assert kept is not None
            assert piece.document not in seen
            seen.add(piece.document)
            assert (piece.start, piece.length) == (kept.start, len(kept.places))
            assert piece.head == kept.head
            own = row["segment_ids"] == segment
            document, places = documents[piece.document], kept.places
            assert row["tokens"][own].tolist() == document["tokens"][places].tolist()
            assert bytes(row["tokens"][own].tolist()) == bytes(
                text_of(talks[piece.document])[place] for place in places
            )
            assert row["positions"][own].tolist() == list(range(len(places)))
            loss = document["loss_mask"][places]
            loss[0] = False
            assert row["loss_mask"][own].tolist() == loss.tolist()
    assert seen == {i for i, kept in enumerate(expected) if kept}
    assert "turns" not in row
    lengths = [len(text_of(talk)) for talk in talks]
    left = [len(kept.places) if kept else 0 for kept in expected]
    counts = rows.about.counts
    is_cut = [0 < k < n for k, n in zip(left, lengths, strict=True)]
    assert counts["documents_truncated"] == sum(is_cut)
    assert counts["documents_dropped"] == left.count(0)
    lost = counts["tokens_truncated"] + counts["tokens_dropped"]
    assert counts["tokens_read"] == sum(lengths) == counts["tokens"] + lost
    listed = (out / "provenance" / "lost.jsonl").exists()
    assert listed == (sum(lengths) > sum(left))
    verify(out)


def test_heads_are_taken_from_the_beginning_of_their_documents(
    tmp_path: Path, template: Path
) -> None:
    rng = random.Random(1)
    talks = [talk(rng, turns=rng.randrange(1, 6)) for _ in range(50)]
    corpus = Corpus([tokenized(tmp_path, template, talks)])
    documents = rng.sample(range(50), 30)
    pieces = []
    for document in documents:
        length = len(text_of(talks[document]))
        start = rng.randrange(length)
        pieces.append((document, start, rng.randrange(start + 1), length))
    document, start, head, stop = map(np.array, zip(*pieces, strict=True))
    some = DocumentPieces(document=document, start=start, length=head + stop - start, head=head)
    target = np.zeros(int(some.length.sum()), np.uint16)
    corpus.copy_tokens(some, target, (np.cumsum(some.length) - some.length) * 2)
    expected = [text_of(talks[d])[:h] + text_of(talks[d])[s:] for d, s, h, _ in pieces]
    assert bytes(target.tolist()) == b"".join(expected)
    parts = corpus.mask_parts("turns", some)
    assert np.bincount(parts.piece, parts.length).tolist() == some.length.tolist()


def talk(rng: random.Random, turns: int) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": "Be kind."}] if rng.random() < 0.7 else []
    for _ in range(turns):
        messages.append({"role": "user", "content": "what " * rng.randrange(1, 12)})
        if rng.random() < 0.3:
            messages.append({"role": "assistant", "content": "let me look"})
            messages.append({"role": "tool", "content": "found " * rng.randrange(1, 5)})
        messages.append({"role": "assistant", "content": "this " * rng.randrange(1, 12)})
    return messages


# the command


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Path:
    """Tokenized conversations of the sample's tokenizer, in two shards or more."""
    home = tmp_path_factory.mktemp("chats")
    rng = random.Random(0)
    talks = [talk(rng, turns=rng.randrange(1, 9)) for _ in range(600)]
    # Of one turn, so that nothing whole fits.
    talks.append([{"role": "user", "content": "why " * 500}, {"role": "assistant", "content": "?"}])
    (home / "chat.jinja").write_text(TEMPLATE)
    path = write_lines(home / "in.jsonl", [{"messages": talk} for talk in talks])
    tokenize_here(
        home / "tokenized",
        inputs=[str(path)],
        tokenizer=str(sample.tokenizer),
        chat={"template": str(home / "chat.jinja")},
        shard_bytes=1 << 16,
    )
    return home / "tokenized"


@pytest.mark.parametrize("way", WAYS)
def test_the_command_counts_lists_and_shows_what_it_leaves_out(
    run_cli: RunCli, chats: Path, tmp_path: Path, way: str
) -> None:
    words = ["pack", chats, "--seq-len", "127", "--overflow", "turns", "--turns", way]
    planned = json.loads(run_cli(*words, "--dry-run", "--json").stdout)
    ran = run_cli(*words, "--out", "p", "--workers", "1", "--set", "shard_rows=40")
    run_cli(*words, "--out", "q", "--workers", "2", "--set", "shard_rows=40")
    run_cli("verify", "p", "--against", "q")
    counts = json.loads((tmp_path / "p" / "manifest.json").read_text())["counts"]
    for name in ("documents_truncated", "documents_dropped", "tokens_truncated", "tokens_dropped"):
        assert counts[name] == planned[name]
    assert counts["documents_dropped"] > 0
    assert f"{counted(counts['documents_dropped'], 'document')} dropped, " in ran.stdout
    assert bool(counts["documents_truncated"]) == (way != "drop")
    for fate in ("truncated", "dropped"):
        found = json.loads(run_cli("inspect", "p", "--list", fate, "--json").stdout)
        assert len(found) == counts[f"documents_{fate}"]
        assert sum(one["lost"] for one in found) == counts[f"tokens_{fate}"]
        assert all(one["kept"] + one["lost"] > 128 for one in found)
    lines = (tmp_path / "p" / "provenance" / "lost.jsonl").read_text().splitlines()
    assert len(lines) == counts["documents_truncated"] + counts["documents_dropped"]
    stats = json.loads(run_cli("stats", "p", "--json").stdout)
    assert stats["masks"] == ["loss"]


def test_a_row_says_which_tokens_of_a_conversation_it_holds(run_cli: RunCli, chats: Path) -> None:
    run_cli("pack", chats, "--seq-len", "127", "--overflow", "turns", "--out", "p")
    documents = open_dataset(chats)
    found = 0
    for row in range(40):
        shown = json.loads(run_cli("inspect", "p", "--row", str(row), "--json").stdout)
        place = 0
        for segment in shown["segments"]:
            whole = documents[segment["document"]]["tokens"].tolist()
            head, start, length = segment["head"], segment["start"], segment["length"]
            tail = whole[start : start + length - head]
            assert shown["tokens"][place : place + length] == whole[:head] + tail
            place += length
            if head and not found:
                found += 1
                text = run_cli("inspect", "p", "--row", str(row)).stdout
                stop = start + length - head
                assert f"tokens 0..{head} and {start}..{stop} of document" in text
                assert stop == len(whole)
        if found:
            break
    assert found


def test_a_document_says_where_its_turns_begin(run_cli: RunCli, chats: Path) -> None:
    document = open_dataset(chats)[0]
    shown = json.loads(run_cli("inspect", chats, "--doc", "0", "--json").stdout)
    starts = [turn["start"] for turn in shown["turns"]]
    values = document["turns"].astype(int)
    is_user = np.flatnonzero((np.diff(values, prepend=-1) != 0) & (values % 4 == 1))
    assert starts == is_user.tolist()
    assert all(turn["roles"][0] == "user" for turn in shown["turns"])
    text = run_cli("inspect", chats, "--doc", "0").stdout
    assert f"{len(starts)} turns (from token {starts[0]}, " in text
    assert "turns per document" in run_cli("stats", chats).stdout
    run_cli("verify", chats)


@pytest.mark.parametrize("to", ["hf", "mds"])
def test_an_export_says_that_turns_are_left_out(tmp_path: Path, chats: Path, to: str) -> None:
    def notes(folder: str, dataset: Path) -> list[str]:
        found = export_here(tmp_path / folder, dataset, to).found.notes
        return [note for note in found if note.startswith("where turns are")]

    (note,) = notes("out", chats)
    assert note.startswith("where turns are is left out, since no trainer reads it; to have conv")
    pack_here(tmp_path / "p", chats, seq_len=127, overflow="turns", strategy="pad")
    assert not notes("rows", tmp_path / "p")


def test_a_loader_sees_a_conversation_without_its_oldest_turns_as_one_segment(
    tmp_path: Path, chats: Path
) -> None:
    pack_here(tmp_path / "p", chats, seq_len=127, overflow="turns", strategy="pad")
    documents, rows = open_dataset(chats), open_dataset(tmp_path / "p")
    origins = RowOrigins(rows.folder, rows.about)
    loader = DataLoader(tmp_path / "p", batch_size=len(rows), shuffle=False)
    batch = {name: np.asarray(array) for name, array in loader[0].items()}
    num_heads = 0
    for number in range(len(rows)):
        (piece,) = origins.of_row(*rows.locate(number))
        whole, length = documents[piece.document], piece.length
        places = [*range(piece.head), *range(piece.start, piece.start + length - piece.head)]
        loss = whole["loss_mask"][places]
        num_heads += piece.head > 0
        size = min(length, 127)
        assert batch["segment_ids"][number].tolist() == [1] * size + [0] * (127 - size)
        assert batch["positions"][number][:size].tolist() == list(range(size))
        assert batch["inputs"][number][:size].tolist() == whole["tokens"][places[:size]].tolist()
        assert batch["loss_mask"][number][: length - 1].tolist() == loss[1:].tolist()
        assert not batch["loss_mask"][number][length - 1 :].any()
    assert num_heads > 20
    assert not {name for name in batch if "turn" in name}


def test_a_kept_part_without_a_target_is_a_row_without_a_target(
    tmp_path: Path, template: Path
) -> None:
    end = [{"role": "user", "content": "bye"}]
    first = [{"role": "user", "content": "a" * 99}, {"role": "assistant", "content": "b"}]
    source = tokenized(tmp_path, template, [first + end, first[1:]])
    config = {"seq_len": 50, "overflow": "turns", "strategy": "pad"}
    pack_here(tmp_path / "p", source, **config)
    counts = open_dataset(tmp_path / "p").about.counts
    assert (counts["rows"], counts["rows_without_target"]) == (2, 1)
    pack_here(tmp_path / "q", source, **config, drop_empty_targets=True)
    counts = open_dataset(tmp_path / "q").about.counts
    assert (counts["rows"], counts["rows_dropped"]) == (1, 1)
    assert counts["tokens_in_dropped_rows"] == len("<user>bye</s>")
    verify(tmp_path / "q")


def test_documents_that_are_no_conversation_are_left_out_if_they_do_not_fit(
    tmp_path: Path, template: Path
) -> None:
    chat = {"template": str(template), "stop": ["</s>"]}
    talks = write_lines(tmp_path / "chats.jsonl", [{"messages": talk(random.Random(3), 2)}])
    texts = write_lines(tmp_path / "texts.jsonl", [{"text": "a" * 400}, {"text": "short"}])
    inputs = [{"path": str(talks), "chat": chat}, {"path": str(texts), "fields": "text"}]
    tokenize_here(tmp_path / "out", inputs=inputs, tokenizer="bytes")
    plans = list(
        plan_rows(
            Corpus([tmp_path / "out"]), PackConfig(seq_len=300, overflow="turns", strategy="pad")
        )
    )
    assert [plan.document.tolist() for plan in plans] == [[0, 2]]


PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% else %}<image>{% endif %}{% endfor %}{% endif %}</s>{% endfor %}"
)


def test_a_picture_is_in_the_turn_of_its_message_and_never_cut(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text(PARTS)
    picture = {"type": "image", "codes": [1, 2, 3, 4]}

    def ask(text: str, *parts: Any) -> dict[str, Any]:
        return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}

    def answer(text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": text}

    system = [{"role": "system", "content": "Be kind."}]
    old = [ask("what is it? " * 5, picture), answer("a cat")]
    new = [ask("and this?", picture, picture), answer("two of them")]
    talks = [system + old + new, old + new, [ask("hi"), answer("hello")]]
    path = write_lines(tmp_path / "in.jsonl", [{"messages": talk} for talk in talks])
    tokenize_here(
        tmp_path / "tokenized",
        inputs=[str(path)],
        tokenizer="bytes",
        chat={"template": str(tmp_path / "chat.jinja"), "stop": ["</s>"], "media": True},
        modalities={"vision": {"tokens_per_frame": 4, "start": [1], "end": [2, 3]}},
        add_bos=True,
        add_eos=True,
    )
    documents = open_dataset(tmp_path / "tokenized")
    for number, roles in enumerate(([0, 5, 10, 13, 18], [0, 1, 6, 9, 14], [0, 1, 6])):
        turns = documents[number]["turns"].astype(int)
        assert np.unique(turns).tolist() == roles
        assert (np.diff(turns) >= 0).all()
        blocks = turns[documents[number]["vision_mask"]] % 4
        assert (blocks == 1).all()
    verify(tmp_path / "tokenized")
    config = {"seq_len": 110, "strategy": "pad", "overflow": "turns"}
    pack_here(tmp_path / "p", tmp_path / "tokenized", **config)
    rows = open_dataset(tmp_path / "p")
    for row, number in ((0, 0), (1, 1)):
        whole, found = documents[number], rows[row]
        own = found["segment_ids"] > 0
        is_kept = (whole["turns"] == 0) | (whole["turns"] >= 9 + 4 * (number == 0))
        for name in ("tokens", "vision_mask"):
            assert found[name][own].tolist() == whole[name][is_kept].tolist()
    assert rows.about.counts["blocks_cut"] == 0
    verify(tmp_path / "p")


# mistakes


def test_a_dataset_without_turns_is_named(tmp_path: Path, chats: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    tokenize_here(tmp_path / "texts", inputs=[str(path)], tokenizer="bytes")
    with pytest.raises(
        ConfigError, match=r"overflow turns: .*texts holds no conversations.*--chat"
    ):
        pack_here(tmp_path / "p", tmp_path / "texts", seq_len=64, overflow="turns")


def test_a_stream_is_cut_anywhere_so_it_cannot_keep_turns(
    tmp_path: Path, chats: Path, run_cli: RunCli
) -> None:
    with pytest.raises(ConfigError, match="strategy concat cuts a conversation wherever a row"):
        pack_here(tmp_path / "p", chats, seq_len=64, overflow="turns", strategy="concat")
    words = ["pack", chats, "--seq-len", "64", "--out", "p"]
    ran = run_cli(*words, "--overflow", "turns", "--strategy", "concat", check=False)
    assert (ran.code, "overflow turns has no effect" in ran.stderr) == (2, True)
    ran = run_cli(*words, "--turns", "cut", check=False)
    assert (ran.code, "turns cut has no effect without overflow turns" in ran.stderr) == (2, True)
