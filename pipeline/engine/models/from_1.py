"""tokenizers 1, which encode and decode, and tell little else.

Ids of the vocabulary, flags of added tokens and the template are read in the JSON; which ids added
tokens have, the library is asked. It does not tell where tokens are in a text: their spelling does,
mostly (`alignment`).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from dataprep.pipeline.engine.models.alignment import FORMS, Form, characters_of
from dataprep.pipeline.engine.models.model import Around, CharacterPlaces
from dataprep.pipeline.engine.models.parsed import RANDOM_SETTINGS
from dataprep.pipeline.engine.models.spelling import spelled_bytes
from dataprep.pipeline.engine.rewrite import without_settings
from dataprep.pipeline.engine.special import FLAGS, AddedToken
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets

# Whether a JSON seems to have such a setting; most have it as null, and need not be rewritten.
_MAY_DRAW = re.compile(rf'"({"|".join(RANDOM_SETTINGS)})"\s*:\s*(?!null)'.encode()).search
UNREACHABLE = "\ufdd1"  # not a character: begins what takes the place of a token that is text now


def parse(data: bytes, path: str) -> ParsedFrom1:
    return ParsedFrom1(without_settings(data, RANDOM_SETTINGS) if _MAY_DRAW(data) else data, path)


class ParsedFrom1:
    def __init__(self, data: bytes, path: str) -> None:
        self._data, self._path = data, path
        module: Any = import_module("tokenizers")  # type checkers see the one that is installed
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            file.write(data)
            file.flush()
            self._tokenizer = module.Tokenizer.from_file(file.name)  # it has no from_str
        self._tokenizer.truncation = self._tokenizer.padding = None

    @cached_property
    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads(self._data)
        return described

    def own_vocabulary(self) -> dict[str, int]:
        words = self._described["model"]["vocab"]
        if isinstance(words, dict):
            return dict(words)
        return {token: id for id, (token, _) in enumerate(words)}  # of Unigram, with its score

    @cached_property
    def _added(self) -> list[AddedToken]:
        own = self.own_vocabulary()
        listed = {token["content"]: token for token in self._described.get("added_tokens") or ()}
        # As before 1.0, an added token has the id of the model's word, or else the next free one,
        # whatever the JSON says.
        first = max(own.values(), default=-1) + 1
        said = {token["id"] for token in listed.values()}
        free = {*range(first, first + len(listed)), *range(len(own), len(own) + len(listed))}
        words = {own[content] for content in listed if content in own}
        found = []
        for id in sorted(said | free | words):
            (content,) = self._tokenizer.decode_tokens([id]) or ("",)
            token = listed.get(content)
            if token is not None:
                flags = tuple(bool(token.get(flag)) for flag in FLAGS)
                special = bool(token.get("special"))
                found.append(AddedToken(content=content, id=id, special=special, flags=flags))
        return found

    def added_tokens(self) -> list[AddedToken]:
        return self._added

    def id_of(self, token: str) -> int | None:
        added = next((each.id for each in self._added if each.content == token), None)
        return self.own_vocabulary().get(token) if added is None else added

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Offsets]:
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ids = [encoding.ids_array for encoding in encodings]
        return np.concatenate([np.zeros(0, np.uint32), *ids]), offsets_of([len(i) for i in ids])

    def locate(self, text: str) -> tuple[Ids, CharacterPlaces]:
        ids, _ = self.encode([text])
        spelled, added, forms = self._spelling
        places = characters_of(text, ids.tolist(), spelled, added, forms)
        if places is None:
            raise ConfigError(
                "tokenizers 1 does not tell where tokens are in a text, and the spelling of those "
                f"of {self._path} does not tell either; pip install 'tokenizers>=0.21,<1.0'"
            )
        return ids, places

    @cached_property
    def _spelling(self) -> tuple[dict[int, bytes], dict[int, AddedToken], list[Form]]:
        """What tells where tokens are: their bytes, added tokens, how texts are normalized."""
        added = {token.id: token for token in self._added}
        spelled = spelled_bytes(self._described, self.own_vocabulary())
        spelled |= {id: token.content.encode("utf-8") for id, token in added.items()}
        normalizer = json.dumps(self._described.get("normalizer"))
        return spelled, added, [form for form in FORMS if f'"{form}"' in normalizer]

    def around(self) -> Around:
        alone = self._tokenizer.encode("a", add_special_tokens=False).ids
        ids = self._tokenizer.encode("a", add_special_tokens=True).ids
        size = len(alone)
        places = [i for i in range(len(ids) - size + 1) if ids[i : i + size] == alone]
        if len(places) != 1 or not alone:
            raise ValueError(f"the ids of 'a' are {alone}, with the template {ids}")
        return tuple(ids[: places[0]]), tuple(ids[places[0] + size :])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def decode_each(self, ids: Sequence[int]) -> list[str]:
        return [self.decode([id]) for id in ids]

    def normalize(self, text: str) -> str:
        if self._described.get("normalizer") is None:
            return text
        raise ConfigError(
            "tokenizers 1 does not tell what a normalizer makes of a text, which is needed with "
            f"{self._path}; pip install 'tokenizers>=0.21,<1.0'"
        )

    def plain(self, special: Sequence[AddedToken], marks: Mapping[str, AddedToken]) -> ParsedFrom1:
        own, text = self.own_vocabulary(), {token.content for token in special}
        tokens: list[dict[str, Any]] = []
        for place, token in enumerate(self._described.get("added_tokens") or ()):
            if token["content"] not in text:
                tokens.append(token)
            elif token["content"] not in own:
                # In its place, so that all others keep their ids.
                tokens.append({**token, "content": f"{UNREACHABLE}{place}"})
        for mark, token in marks.items():
            flags = dict(zip(FLAGS, token.flags, strict=True))
            id = max([*own.values(), *(t["id"] for t in tokens)], default=-1) + 1
            tokens.append({"id": id, "content": mark, "special": False, **flags})
        changed = {**self._described, "added_tokens": tokens}
        return ParsedFrom1(json.dumps(changed, ensure_ascii=False).encode(), self._path)
