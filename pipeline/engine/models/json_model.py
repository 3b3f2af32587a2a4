"""tokenizer.json, which `tokenizers` parses and encodes with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, failures_told, flatten
from dataprep.pipeline.engine.models.model import (
    Around,
    CharacterPlaces,
    PlainTexts,
    TokenizerModel,
    runs_decoder,
)
from dataprep.pipeline.engine.models.spelling import by_blank_sign, by_byte_level
from dataprep.pipeline.engine.plain import Marked, PlainEngine, Spelled, spelled_in
from dataprep.pipeline.engine.special import AddedToken, Special, special_of_configs
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets

# With these, BPE and Unigram cut the same text differently each time: meant for training a model,
# and `tokenizers` has no switch for them.
RANDOM_SETTINGS = ("dropout", "alpha", "nbest_size")


class JsonModel(TokenizerModel):
    kind, parser, file, has_configs = "json", "tokenizers", "tokenizer.json", True

    @cached_property
    def _tokenizer(self) -> Any:
        return parse_json(self.data, self.files.path)

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        described: Mapping[str, Any] = json.loads(self.data)
        return described

    def vocabulary(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return vocabulary

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
        own = self._tokenizer.get_vocab(with_added_tokens=False)
        by_id = sorted(own.items(), key=lambda item: item[1])
        if self._is_byte_level:
            alone = [[id] for _, id in by_id]
            texts = self._tokenizer.decode_batch(alone, skip_special_tokens=False)
        else:
            # Decoders drop the sign for a leading space; the token itself has it.
            texts = [token.removeprefix("##").removesuffix("</w>") for token, _ in by_id]
        spelled = [text.replace("▁", " ") for text in texts]
        return list(dict.fromkeys(text for text in spelled if text and "\ufffd" not in text))

    def token_bytes(self) -> dict[int, bytes]:
        spell = by_byte_level if self._is_byte_level else by_blank_sign
        own = self._tokenizer.get_vocab(with_added_tokens=False)
        spelled = {id: spell(token) for token, id in own.items()}
        found = {id: value for id, value in spelled.items() if value is not None}
        added = self._described.get("added_tokens") or ()
        return found | {token["id"]: token["content"].encode("utf-8") for token in added}

    def added_tokens(self) -> list[AddedToken]:
        """Return the added tokens, with the ids that `tokenizers` gives them."""
        return [
            AddedToken(
                content=token.content,
                id=id,
                special=token.special,
                is_unknown=id == self._unknown,
                flags=(token.single_word, token.lstrip, token.rstrip, token.normalized),
            )
            for id, token in sorted(self._tokenizer.get_added_tokens_decoder().items())
        ]

    @cached_property
    def _unknown(self) -> int | None:
        """The id that the model gives to what it does not know."""
        model = self._described["model"]
        unknown: int | None = model.get("unk_id")  # of Unigram
        if unknown is None and model.get("unk_token") is not None:
            unknown = self._tokenizer.token_to_id(model["unk_token"])
        return unknown

    @cached_property
    def _is_byte_level(self) -> bool:
        return "ByteLevel" in json.dumps(self._described.get("decoder"))

    def template_ids(self) -> Around:
        path, size = self.files.path, self.files.vocab_size
        try:
            with failures_told():
                before, after = _around(self._tokenizer.encode("a", add_special_tokens=True))
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
        decode = self._tokenizer.decode
        return runs_decoder(
            lambda id: None,
            lambda ids: str(decode(ids, skip_special_tokens=False)),
            self.files.vocab_size,
        )

    def reference(self) -> Engine:
        return TokenizersEngine(self._tokenizer)

    def locate(self, text: str) -> CharacterPlaces:
        with failures_told():
            places: CharacterPlaces = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return places

    def spelled_in(self, text: str) -> list[Spelled]:
        tokens = {token.id: token for token in self.files.special}
        return list(spelled_in(self._tokenizer, text, tokens))

    def plain(self, marks: Mapping[str, Marked]) -> PlainTexts:
        own = parse_json(self.data, self.files.path)  # it is changed
        return PlainEngine(self.files, self._tokenizer, own, marks)


class TokenizersEngine:
    name = "tokenizers"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.version = distribution_version("tokenizers")

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return flatten([encoding.ids for encoding in encodings])


def parse_json(data: bytes, path: str) -> Any:
    """Return a `tokenizers.Tokenizer` that neither truncates nor pads, and draws no lots."""
    _check_tokenizers_version()
    from tokenizers import Tokenizer

    try:
        with failures_told():
            tokenizer = Tokenizer.from_str(data.decode("utf-8"))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            for name in RANDOM_SETTINGS:
                if getattr(tokenizer.model, name, None):
                    setattr(tokenizer.model, name, None)
    except EngineFailedError as error:
        raise ConfigError(
            f"{path} is not a tokenizer that `tokenizers` can load: {error}; "
            "save it again with `save_pretrained` or name another"
        ) from error
    return tokenizer


def _check_tokenizers_version() -> None:
    found = distribution_version("tokenizers")
    if not found.startswith("0."):
        raise ConfigError(
            f"tokenizers {found} is installed, but this dataprep works with versions below 1.0; "
            "pip install 'tokenizers>=0.21,<1.0'"
        )


def _around(encoding: Any) -> Around:
    # sequence ids of [CLS] a [SEP]: [None, 0, None]
    of_text = [place for place, sequence in enumerate(encoding.sequence_ids) if sequence == 0]
    first, last = (of_text[0], of_text[-1]) if of_text else (len(encoding.ids), len(encoding.ids))
    return tuple(encoding.ids[:first]), tuple(encoding.ids[last + 1 :])
