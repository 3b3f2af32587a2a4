"""tokenizers 0 and 1 behind one contract: what is told of a tokenizer.json is the same.

Only one of them can be installed. The API of 1 is acted here by 0, whose answers it has: what is
tried is how we make up for what 1 does not tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from dataprep.pipeline.engine.models import before_1, from_1
from dataprep.pipeline.engine.models.alignment import characters_of
from dataprep.pipeline.engine.models.parsed import ParsedTokenizer
from dataprep.pipeline.engine.special import AddedToken as Added
from dataprep.pipeline.errors import ConfigError

TEXT = ["the cat sat on the mat", "né é 日本語", "a  b\n\tc", "<|a|> <|b|>"]
MARK = "\ufdd0m\ufdd0"


class TokenizerOf1:
    """The public API of tokenizers 1.0.0rc3, as far as we use it."""

    truncation: Any = None
    padding: Any = None

    def __init__(self, tokenizer: Any) -> None:
        self._of_0 = tokenizer

    @classmethod
    def from_file(cls, path: str) -> TokenizerOf1:
        return cls(Tokenizer.from_str(Path(path).read_text("utf-8")))

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Any:
        ids = self._of_0.encode(text, add_special_tokens=add_special_tokens).ids
        return SimpleNamespace(ids=ids, ids_array=np.array(ids, np.uint32))

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool = True) -> list[Any]:
        return [self.encode(text, add_special_tokens=add_special_tokens) for text in texts]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return str(self._of_0.decode(ids, skip_special_tokens=skip_special_tokens))

    def decode_tokens(self, ids: Sequence[int]) -> list[str]:
        return [token for id in ids if (token := self._of_0.id_to_token(id)) is not None]


def byte_level(normalizer: Any = None, **flags: bool) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken("<|a|>", normalized=False, **flags)])
    tokenizer.add_tokens([AddedToken("<|b|>", normalized=False), AddedToken("at")])
    a = tokenizer.token_to_id("<|a|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|a|> $A", pair="<|a|> $A $B", special_tokens=[("<|a|>", a)]
    )
    return str(tokenizer.to_str())


def blank_signs() -> str:
    vocabulary = {"<unk>": 0, "▁": 1, "t": 2, "h": 3, "e": 4, "▁the": 5, "<|a|>": 6}
    scored = [(token, -1.0 - id) for token, id in vocabulary.items()]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<|a|>", normalized=False)])
    return str(tokenizer.to_str())


FILES: dict[str, Callable[[], str]] = {
    "bytes": byte_level,
    "nfc": lambda: byte_level(normalizers.NFC()),
    "strips": lambda: byte_level(lstrip=True, rstrip=True),
    "blank signs": blank_signs,
}


@pytest.fixture(scope="module", params=FILES, autouse=True)
def both(request: pytest.FixtureRequest) -> Iterator[tuple[ParsedTokenizer, ParsedTokenizer]]:
    data = FILES[request.param]().encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_1, "import_module", lambda name: SimpleNamespace(Tokenizer=TokenizerOf1))
        yield before_1.parse(data, "t.json"), from_1.parse(data, "t.json")


def test_vocabulary_template_and_added_tokens_are_the_same(
    both: tuple[ParsedTokenizer, ParsedTokenizer],
) -> None:
    old, new = both
    assert new.own_vocabulary() == old.own_vocabulary()
    assert new.added_tokens() == old.added_tokens()
    assert new.around() == old.around()
    for token in ("<|a|>", "t", "nowhere"):
        assert new.id_of(token) == old.id_of(token)
    ids = sorted(old.own_vocabulary().values())[:50]
    assert new.decode_each(ids) == old.decode_each(ids)
    assert new.decode(ids) == old.decode(ids)


pieces = st.sampled_from(
    ["the", " ", "  ", "\n", "at", "é", "日", "<|a|>", "<|b|>", "!", "<|", "🙂"]
)
texts = st.lists(pieces, max_size=12).map("".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(text=texts)
def test_places_are_those_that_were_told_before(
    text: str, both: tuple[ParsedTokenizer, ParsedTokenizer]
) -> None:
    old, new = both
    ids, places = old.locate(text)
    try:
        found, located = new.locate(text)
    except ConfigError:  # what is unknown to the model, and blanks that it drops, are not spelled
        assert 0 in ids or old.decode(ids.tolist()) != text
        return
    assert found.tolist() == ids.tolist()
    if "▁the" not in new.own_vocabulary():  # there 0 counts the blank before a word differently
        assert [tuple(place) for place in located] == [tuple(place) for place in places]


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(before=texts, after=texts)
def test_special_tokens_are_text_and_marks_are_tokens(
    before: str, after: str, both: tuple[ParsedTokenizer, ParsedTokenizer]
) -> None:
    old, new = both
    special = [token for token in old.added_tokens() if token.special]
    marks = {MARK: special[0]}
    plain = [each.plain(special, marks) for each in (old, new)]
    text = before + MARK + after
    (ids, _), (found, _) = (each.encode([text]) for each in plain)
    marked = []
    for each, encoded in zip(plain, (ids, found), strict=True):
        (mark,) = (token.id for token in each.added_tokens() if token.content == MARK)
        marked.append(np.where(encoded == mark, -1, encoded.astype(np.int64)).tolist())
    assert marked[1] == marked[0]
    if special[0].content not in old.own_vocabulary():  # else the model itself makes it of text
        assert special[0].id not in found


def test_composed_characters_are_placed_whole() -> None:
    data = byte_level(normalizers.NFC()).encode()
    ids, places = from_1.parse(data, "t.json").locate("ae\u0301b")
    assert list(places) == [(0, 1), *[(1, 3)] * (len(ids) - 2), (3, 4)]


def test_what_is_not_spelled_has_no_place() -> None:
    assert characters_of("ab", [1], {1: b"a"}, {}) is None
    assert characters_of("a", [1, 1], {1: b"a"}, {}) is None
    assert characters_of("a", [2], {1: b"a"}, {}) is None
    strip = Added(content="<x>", id=3, flags=(False, True, False, False))
    spelled = {1: b"a", 3: b"<x>"}
    assert characters_of("a  <x>", [1, 3], spelled, {3: strip}) == [(0, 1), (1, 6)]


def test_lots_are_not_drawn() -> None:
    described = json.loads(byte_level())
    described["model"]["dropout"] = 0.9
    for module in (before_1, from_1):
        parsed: ParsedTokenizer = module.parse(json.dumps(described).encode(), "t.json")
        assert len({tuple(parsed.encode(["the cat"])[0].tolist()) for _ in range(20)}) == 1
