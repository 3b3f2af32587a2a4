"""tokenizer.json, which `tokenizers` parses and encodes with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, failures_told
from dataprep.pipeline.engine.models.model import (
    Around,
    CharacterPlaces,
    PlainTexts,
    TokenizerModel,
    runs_decoder,
)
from dataprep.pipeline.engine.models.parsed import RANDOM_SETTINGS, ParsedTokenizer, parse_json
from dataprep.pipeline.engine.models.spelling import is_byte_level, spelled_bytes
from dataprep.pipeline.engine.plain import Marked, PlainEngine, Spelled, spelled_in
from dataprep.pipeline.engine.special import AddedToken, Special, special_of_configs
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets


class JsonModel(TokenizerModel):
    kind, parser, file, has_configs = "json", "tokenizers", "tokenizer.json", True

    @cached_property
    def _parsed(self) -> ParsedTokenizer:
        return parse_json(self.data, self.files.path)

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        described: Mapping[str, Any] = json.loads(self.data)
        return described

    def vocabulary(self) -> dict[str, int]:
        added = {token.content: token.id for token in self._parsed.added_tokens()}
        return self._parsed.own_vocabulary() | added

    def roles(
        self, vocabulary: Mapping[str, int], configs: Mapping[str, bytes]
    ) -> Mapping[str, Special]:
        return special_of_configs(Path(self.files.path).parent, configs, vocabulary)

    def special(self, files: TokenizerFiles) -> tuple[AddedToken, ...]:
        """Return the special tokens: those that say so, and BOS, EOS and padding.

        Padding that is a word of the model is none: it is known by its place, never by its id.
        """
        added = self.added_tokens()
        known = {token.id for token in added}
        roles = files.roles()
        return (
            *(token for token in added if token.special or token.id in roles),
            *(
                AddedToken(content=token, id=id, is_unknown=id == self._unknown, in_model=True)
                for id, token in roles.items()
                if id not in known and id in (files.bos_id, files.eos_id)
            ),
        )

    def random(self) -> str:
        model = self._described["model"]
        return ", ".join(f"{name} {model[name]}" for name in RANDOM_SETTINGS if model.get(name))

    def token_texts(self) -> list[str]:
        by_id = sorted(self._parsed.own_vocabulary().items(), key=lambda item: item[1])
        if is_byte_level(self._described):
            texts = self._parsed.decode_each([id for _, id in by_id])
        else:
            # Decoders drop the sign for a leading space; the token itself has it.
            texts = [token.removeprefix("##").removesuffix("</w>") for token, _ in by_id]
        spelled = [text.replace("▁", " ") for text in texts]
        return list(dict.fromkeys(text for text in spelled if text and "\ufffd" not in text))

    def token_bytes(self) -> dict[int, bytes]:
        found = spelled_bytes(self._described, self._parsed.own_vocabulary())
        return found | {token.id: token.content.encode("utf-8") for token in self.added_tokens()}

    def added_tokens(self) -> list[AddedToken]:
        """Return the added tokens, with the ids that `tokenizers` gives them."""
        tokens = self._parsed.added_tokens()
        return [replace(token, is_unknown=token.id == self._unknown) for token in tokens]

    @cached_property
    def _unknown(self) -> int | None:
        """The id that the model gives to what it does not know."""
        model = self._described["model"]
        unknown: int | None = model.get("unk_id")  # of Unigram
        if unknown is None and model.get("unk_token") is not None:
            unknown = self._parsed.id_of(model["unk_token"])
        return unknown

    def template_ids(self) -> Around:
        path, size = self.files.path, self.files.vocab_size
        try:
            with failures_told():
                before, after = self._parsed.around()
        except EngineFailedError as error:
            raise ConfigError(
                f"{path} cannot add its special tokens to a text ({error}); "
                "set --no-field-special-tokens or name another tokenizer"
            ) from None
        outside = [id for id in (*before, *after) if id >= size]
        if outside:
            raise ConfigError(
                f"the post_processor of {path} adds id {outside[0]}, which is outside its "
                f"vocabulary of {size}; correct it, or set --no-field-special-tokens"
            )
        return before, after

    def decoder(self) -> Callable[[Sequence[int]], str]:
        return runs_decoder(lambda id: None, self._parsed.decode, self.files.vocab_size)

    def reference(self) -> Engine:
        return TokenizersEngine(self._parsed)

    def locate(self, text: str) -> CharacterPlaces:
        with failures_told():
            _, places = self._parsed.locate(text)
        return places

    def spelled_in(self, text: str) -> list[Spelled]:
        tokens = {token.id: token for token in self.files.special}
        return list(spelled_in(self._parsed, text, tokens))

    def plain(self, marks: Mapping[str, Marked]) -> PlainTexts:
        return PlainEngine(self.files, self._parsed, marks)


class TokenizersEngine:
    name = "tokenizers"

    def __init__(self, parsed: ParsedTokenizer) -> None:
        self._parsed = parsed
        self.version = JsonModel.parser_version()

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():
            return self._parsed.encode(texts)
