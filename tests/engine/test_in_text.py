"""Text that spells a special token: parsed, kept as text, or refused, exactly as `tokenizers`."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from dataprep.pipeline.engine import (
    BadTextsError,
    EncodedTexts,
    SpecialInText,
    TokenizerFiles,
    load_reference,
    mark_literals,
    resolve_tokenizer,
    special_in_literals,
    with_special,
)
from dataprep.pipeline.errors import ConfigError

WORDS = ["[UNK]", "hello", "world", "user", "<", "|", ">", "end", "s", "mask", "[", "]", "unk", "x"]
SPECIAL = (
    AddedToken("<|end|>", special=True, normalized=False),
    AddedToken("[UNK]", special=True, normalized=False),
    AddedToken("<mask>", special=True, normalized=False, lstrip=True, rstrip=True),
    AddedToken("sword", special=True, normalized=False, single_word=True),
    AddedToken("<S>", special=True, normalized=True),
    AddedToken("Word", special=True, normalized=True, single_word=True),
    AddedToken("<Pad>", special=True, normalized=True, lstrip=True, rstrip=True),
    AddedToken("<x>", special=True, normalized=False, single_word=True),
)
PARTS = [
    *(t.content for t in SPECIAL),
    "<tool>",
    "<s>",
    "word",
    "<pad>",
    "hello",
    " ",
    "  ",
    "user",
    "\n",
    "é",
    "<|",
]


def save(tokenizer: Tokenizer, folder: Path, **config: Any) -> TokenizerFiles:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return resolve_tokenizer(str(folder))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TokenizerFiles:
    model = models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    return save(tokenizer, tmp_path_factory.mktemp("words"))


def settled(files: TokenizerFiles, mode: str, texts: list[str], marks: Any = None) -> EncodedTexts:
    ids, offsets = load_reference(files).encode(texts)
    return SpecialInText(files, mode, marks or {}).settle(texts, ids, offsets)


def lists(encoded: EncodedTexts) -> list[list[int]]:
    return [encoded.ids[a:b].tolist() for a, b in pairwise(encoded.offsets.tolist())]


def encodings(files: TokenizerFiles, *, plain: bool) -> Tokenizer:
    tokenizer = Tokenizer.from_file(files.path)
    tokenizer.encode_special_tokens = plain
    return tokenizer


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=6).map("".join), max_size=5))
def test_parse_and_text_give_the_ids_of_tokenizers(files: TokenizerFiles, texts: list[str]) -> None:
    counts = []
    for mode in ("parse", "text"):
        truth = encodings(files, plain=mode == "text")
        got = settled(files, mode, texts)
        expected = [truth.encode(text, add_special_tokens=False).ids for text in texts]
        assert lists(got) == expected
        counts.append(got.special.tolist())
    assert counts[0] == counts[1]
    if not any(counts[0]):
        assert lists(settled(files, "error", texts)) == expected
        return
    with pytest.raises(BadTextsError) as caught:
        settled(files, "error", texts)
    assert caught.value.special == {i: n for i, n in enumerate(counts[0]) if n}
    assert caught.value.reasons.keys() == caught.value.special.keys()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("hello world", 0),
        ("zzz unknown", 0),  # [UNK], which nobody wrote
        ("zzz [UNK]", 1),
        ("hello <|end|> <|end|>", 2),
        ("hello   <mask>  world", 1),
        ("sword", 1),
        ("swords", 0),  # not a single word
        ("<s> and <S>", 2),  # compared when both are in lower case
        ("<tool>", 0),  # added, but not special
        ("<|en", 0),
    ],
)
def test_occurrences_are_those_that_tokenizers_finds(
    files: TokenizerFiles, text: str, count: int
) -> None:
    for mode in ("parse", "text"):
        assert settled(files, mode, ["x", text]).special.tolist() == [0, count]


def test_an_error_names_the_token_and_its_place(files: TokenizerFiles) -> None:
    with pytest.raises(BadTextsError) as caught:
        settled(files, "error", ["hello", "hello   <mask>x", "é<|end|>"])
    assert list(caught.value.reasons) == [1, 2]
    assert "special token '<mask>' at character 8 " in caught.value.reasons[1]
    assert "special token '<|end|>' at character 1 " in caught.value.reasons[2]


@pytest.mark.parametrize("mode", ["text", "error"])
def test_literals_of_the_config_are_parsed_whatever_becomes_of_content(
    files: TokenizerFiles, mode: str
) -> None:
    (literal, plain), marks = mark_literals(files, ["<|end|>user <mask>", " "])
    assert plain == " "
    truth = encodings(files, plain=False)
    texts = [literal + "hello", literal + " x", "world"]
    got = settled(files, mode, texts, marks)
    unmarked = ["<|end|>user <mask>hello", "<|end|>user <mask> x", "world"]
    assert lists(got) == [truth.encode(text).ids for text in unmarked]
    assert got.special.tolist() == [0, 0, 0]
    if mode == "text":
        content = settled(files, mode, [literal + "hello<|end|>"], marks)
        head, tail = truth.encode("<|end|>user <mask>").ids, encodings(files, plain=True)
        assert lists(content) == [head + tail.encode("hello<|end|>").ids]
        assert content.special.tolist() == [1]
    else:
        with pytest.raises(BadTextsError, match=r"'<\|end\|>' at character 23 "):
            settled(files, mode, [literal + "hello<|end|>"], marks)


def slow_truth(files: TokenizerFiles, parts: list[str]) -> list[int]:
    """Encode literals and contents in turn: what parsing finds within literals is kept, the rest is
    encoded as text."""
    text = "".join(parts)
    ends = list(accumulate(map(len, parts), initial=0))
    literals = [(a, b) for i, (a, b) in enumerate(pairwise(ends)) if i % 2 == 0]
    special = {token.content.lower() for token in SPECIAL}
    parse, plain = encodings(files, plain=False), encodings(files, plain=True)
    parsed = parse.encode(text, add_special_tokens=False)
    ids, done = [], 0
    for id, (start, stop) in zip(parsed.ids, parsed.offsets, strict=True):
        spelled = text[start:stop].strip()
        first = text.index(spelled, start)
        inside = any(a <= first and first + len(spelled) <= b for a, b in literals)
        if inside and spelled.lower() in special and id in {t.id for t in files.special}:
            ids += [*plain.encode(text[done:start], add_special_tokens=False).ids, id]
            done = stop
    return [*ids, *plain.encode(text[done:], add_special_tokens=False).ids]


SOME = st.lists(st.sampled_from(PARTS), max_size=4).map("".join)


@settings(max_examples=300, deadline=None)
@given(SOME, SOME, SOME, SOME)
def test_literals_are_parsed_in_their_context_and_content_is_text(
    files: TokenizerFiles, prepended: str, first: str, separator: str, second: str
) -> None:
    marked, marks = mark_literals(files, [prepended, separator])
    got = settled(files, "text", [marked[0] + first + marked[1] + second], marks)
    assert lists(got) == [slow_truth(files, [prepended, first, separator, second])]


@pytest.mark.parametrize("mode", ["text", "error"])
def test_a_literal_that_is_no_token_where_it_stands_is_text_and_no_mark_is_tokenized(
    files: TokenizerFiles, mode: str
) -> None:
    """A single word before a letter is not a token, nor is the mark that stands for it."""
    (literal,), marks = mark_literals(files, ["<x>"])
    truth = encodings(files, plain=False)
    for content in ("hello", " hello"):
        got = settled(files, mode, [literal + content], marks)
        assert lists(got) == [truth.encode("<x>" + content).ids]


def test_content_cannot_spell_a_mark(files: TokenizerFiles) -> None:
    _, marks = mark_literals(files, ["<|end|>"])
    _, others = mark_literals(files, ["<|end|>"])
    assert marks.keys().isdisjoint(others)


def test_eos_is_special_even_if_its_file_does_not_say_so(tmp_path: Path) -> None:
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "a", "<", ">", "eos"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Punctuation()
    tokenizer.add_tokens([AddedToken("<eos>", special=False, normalized=False)])
    unnamed = save(tokenizer, tmp_path / "unnamed")
    by_config = save(tokenizer, tmp_path / "named", eos_token="<eos>")
    assert lists(settled(unnamed, "text", ["a<eos>"])) == [[1, 5]]
    for named in (by_config, with_special(unnamed, eos="<eos>")):
        assert lists(settled(named, "parse", ["a<eos>"])) == [[1, 5]]
        assert lists(settled(named, "text", ["a<eos>"])) == [[1, 2, 4, 3]]


def test_a_text_that_the_model_itself_makes_special_is_refused(tmp_path: Path) -> None:
    """In a Unigram model </s> is a word like any other."""
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("a", -3.0), ("b", -3.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    files = save(tokenizer, tmp_path)
    assert settled(files, "parse", ["a</s>b z"]).special.tolist() == [1]
    with pytest.raises(BadTextsError, match="model itself has '</s>'") as caught:
        settled(files, "text", ["ab", "a</s>b"])
    assert caught.value.special == {1: 1}


def test_roles_that_are_words_of_the_model_are_special_in_texts(tmp_path: Path) -> None:
    """They are no added tokens: the model itself makes them of text."""
    vocabulary = {word: i for i, word in enumerate(["[UNK]", "a", "<eos>", "<bos>", "<pad>"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    unnamed = save(tokenizer, tmp_path / "unnamed")
    assert settled(unnamed, "error", ["a <eos>"]).special.tolist() == [0]
    roles = {"eos": "<eos>", "bos": "<bos>", "pad": "<pad>"}
    by_config = save(tokenizer, tmp_path / "n", **{f"{k}_token": v for k, v in roles.items()})
    for named in (by_config, with_special(unnamed, **roles)):
        for token in ("<eos>", "<bos>"):
            texts = ["a", f"a {token} z", f"{token} {token}"]
            assert settled(named, "parse", texts).special.tolist() == [0, 1, 2]
            with pytest.raises(BadTextsError, match="model itself has") as caught:
                settled(named, "text", texts)
            assert caught.value.special == {1: 1, 2: 2}
            refused = rf"special token '{token}' at character 2 .*; --special-in-text parse makes"
            with pytest.raises(BadTextsError, match=refused):
                settled(named, "error", texts[:2])
        for mode in ("parse", "text", "error"):  # padding is known by its place
            assert settled(named, mode, ["a <pad> z"]).special.tolist() == [0]
        assert lists(settled(named, "text", ["a z"])) == [[1, 0]]
        (literal,), marks = mark_literals(named, ["<bos> "])
        assert lists(settled(named, "error", [f"{literal}a"], marks)) == [[3, 1]]


def test_eos_that_is_the_unknown_token_too_is_special_only_where_it_is_spelled(
    tmp_path: Path,
) -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    files = save(tokenizer, tmp_path, eos_token="[UNK]")
    assert settled(files, "parse", ["a z", "a [UNK]"]).special.tolist() == [0, 1]
    assert lists(settled(files, "error", ["a z"])) == [[1, 0]]


def test_pieces_of_sentencepiece_that_text_becomes_are_special_in_texts(tmp_path: Path) -> None:
    import sentencepiece

    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat on the mat\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(tmp_path / "small"),
        vocab_size=30,
        hard_vocab_limit=False,
        user_defined_symbols="<|end|>",
        minloglevel=9,
    )
    files = resolve_tokenizer(str(tmp_path / "small.model"))
    texts = ["the cat", "the</s> cat", "a cat<|end|>", "the cat zzz"]
    assert settled(files, "error", texts).special.tolist() == [0, 0, 0, 0]  # control: never made
    named = with_special(files, eos="<|end|>", pad="<unk>")
    assert settled(named, "parse", texts).special.tolist() == [0, 0, 1, 0]
    with pytest.raises(BadTextsError, match=r"model itself has '<\|end\|>'") as caught:
        settled(named, "text", texts)
    assert caught.value.special == {2: 1}
    with pytest.raises(BadTextsError, match=r"special token '<\|end\|>' at character 5"):
        settled(named, "error", texts)
    with pytest.raises(ConfigError, match="in a SentencePiece model"):
        mark_literals(named, ["<|end|>"])
    assert [len(found) for found in special_in_literals(named, ["<|end|>", "x"])] == [1, 0]
    assert mark_literals(files, ["</s>"]) == (["</s>"], {})


@pytest.mark.parametrize("mode", ["parse", "text", "error"])
def test_bytes_hold_no_special_token(mode: str) -> None:
    files = resolve_tokenizer("bytes")
    assert lists(settled(files, mode, ["<eos>"])) == [list(b"<eos>")]
