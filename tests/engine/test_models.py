"""Every kind of tokenizer keeps the contract, and a new kind is a class and a line of the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from dataprep.pipeline.engine import (
    load_decoder,
    load_reference,
    reference_selection,
    resolve_tokenizer,
    select_engine,
    with_special,
)
from dataprep.pipeline.engine.interface import Engine
from dataprep.pipeline.engine.models import MODELS, load_model
from dataprep.pipeline.engine.models.model import CharacterPlaces, TokenizerModel, runs_decoder
from dataprep.pipeline.engine.places import PlaceFinder
from dataprep.pipeline.engine.special import Special
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets
from support.toy import write_toy_tokenizer


class LettersEngine:
    name, version = "letters", "1"

    def __init__(self, letters: str) -> None:
        self._letters = letters

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        ids = [self._letters.index(letter) for text in texts for letter in text]
        return np.array(ids, np.uint32), offsets_of([len(text) for text in texts])


class LettersModel(TokenizerModel):
    """A tokenizer whose file is its alphabet; the last letter is EOS."""

    kind, parser, file = "letters", "letters", "tokenizer.letters"

    @property
    def _letters(self) -> str:
        return self.data.decode()

    def vocabulary(self) -> dict[str, int]:
        return {letter: id for id, letter in enumerate(self._letters)}

    def roles(
        self, vocabulary: Mapping[str, int], configs: Mapping[str, bytes]
    ) -> Mapping[str, Special]:
        return {"eos": Special(id=len(vocabulary) - 1, token=self._letters[-1])}

    def token_bytes(self) -> dict[int, bytes]:
        return {id: letter.encode() for letter, id in self.vocabulary().items()}

    def decoder(self) -> Callable[[Sequence[int]], str]:
        letters = self._letters
        return runs_decoder(
            lambda id: None, lambda ids: "".join(letters[i] for i in ids), len(letters)
        )

    def reference(self) -> Engine:
        return LettersEngine(self._letters)

    def locate(self, text: str) -> CharacterPlaces:
        return [(i, i + 1) for i in range(len(text))]


def test_a_new_kind_of_tokenizer_is_a_class_and_a_line_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "letters", LettersModel)
    path = tmp_path / "some.letters"
    path.write_text("abcé.")
    files = resolve_tokenizer(str(path), tmp_path / "cache")
    assert (files.kind, files.vocab_size, files.eos_id, files.eos_token) == ("letters", 5, 4, ".")
    assert with_special(files, bos="a", eos=3).eos_token == "é"
    assert select_engine("auto", files, cache_dir=tmp_path) == reference_selection(files)
    ids, offsets = load_reference(files).encode(["cé.", "", "b"])
    assert (ids.tolist(), offsets.tolist()) == ([2, 3, 4, 1], [0, 3, 3, 4])
    assert load_decoder(files)([2, 3, 4, 9]) == "cé.<|9|>"
    assert PlaceFinder(files).find(["cé.", "", "b"], ids, offsets).stops.tolist() == [1, 3, 4, 5]


@pytest.mark.parametrize("text", ["the cat", "né 日本", ""])
def test_a_model_knows_the_characters_of_each_token_of_its_reference(
    text: str, tmp_path: Path
) -> None:
    for name in (str(write_toy_tokenizer(tmp_path)), "bytes"):
        model = load_model(resolve_tokenizer(name))
        ids, _ = model.reference().encode([text])
        places = model.locate(text)
        assert len(places) == len(ids)
        assert all(0 <= start < stop <= len(text) for start, stop in places)


def test_an_added_token_is_known_by_the_id_that_it_gets_not_by_the_one_in_the_file(
    tmp_path: Path,
) -> None:
    """A file may say any id, such as one for which no array has room."""
    path = write_toy_tokenizer(tmp_path / "toy") / "tokenizer.json"
    described = json.loads(path.read_text())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    new = {"id": 1 << 31, "content": "<new>", "special": True, **flags}
    described["added_tokens"].append(new)
    path.write_text(json.dumps(described))
    files = resolve_tokenizer(str(path), tmp_path / "cache")
    ids, offsets = load_reference(files).encode(["a<new>b"])
    assert load_model(files).token_bytes()[ids[1]] == b"<new>"
    places = PlaceFinder(files).find(["a<new>b"], ids, offsets)
    assert places.starts.tolist() == [0, 1, 6]
