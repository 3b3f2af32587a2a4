"""Texts as ids of one length.

    TextModality(TextModalityConfig(encode=…, decode=…, max_length=6)).tokenize("hi you")
    [2, 71, 88, 3, 0, 0]                BOS, the ids of a tokenizer, EOS, padding

The tokenizer is the caller's: two functions, such as those of `tokenizers` or of `dataprep`
(tokenize_text, detokenize). What is too long is cut before its EOS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dataprep.loaders.compat.artifex.processors import BaseProcessor
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError, InputError


@dataclass(frozen=True, kw_only=True)
class TextModalityConfig:
    """Artifex's `text_params`, and the tokenizer, which it has none of."""

    encode: Callable[[str], Sequence[int]]
    decode: Callable[[Sequence[int]], str] | None = None
    vocab_size: int = 10000
    max_length: int = 512
    pad_token_id: int = 0
    bos_token_id: int | None = 2
    eos_token_id: int | None = 3
    case_sensitive: bool = True  # False: texts are made lower case

    def __post_init__(self) -> None:
        whole_number("max_length", self.max_length, least=2)


class TextModality(BaseProcessor):
    """Makes texts ready."""

    name = "text"

    def __init__(self, config: TextModalityConfig | None = None, *, rngs: Any = None) -> None:
        if not isinstance(config, TextModalityConfig):
            raise ConfigError("a text needs a tokenizer: TextModalityConfig(encode=…, decode=…)")
        super().__init__(config, rngs=rngs)
        self.vocab_size, self.max_length = config.vocab_size, config.max_length

    def tokenize(self, text: str) -> jax.Array:
        """Return i32[max_length]."""
        if not isinstance(text, str):
            raise InputError(f"tokenize needs one text, got {shown(text)}; call it for each")
        config = self.config
        ids = config.encode(text if config.case_sensitive else text.lower())
        before = [] if config.bos_token_id is None else [config.bos_token_id]
        after = [] if config.eos_token_id is None else [config.eos_token_id]
        room = config.max_length - len(before) - len(after)
        tokens = np.array([*before, *list(ids)[:room], *after], np.int64)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < config.vocab_size:
            wrong = tokens[(tokens < 0) | (tokens >= config.vocab_size)][0]
            raise InputError(f"id {wrong} is not below vocab_size {config.vocab_size}; set it")
        found = np.full(config.max_length, config.pad_token_id, np.int32)
        found[: len(tokens)] = tokens
        return jnp.asarray(found)

    process = tokenize

    def detokenize(self, tokens: Any) -> str:
        """Return the text between BOS and EOS, without padding."""
        if self.config.decode is None:
            raise ConfigError("TextModalityConfig has no decode, which detokenize needs")
        ids = np.asarray(tokens).tolist()
        ids = ids[1:] if ids[:1] == [self.config.bos_token_id] else ids
        if self.config.eos_token_id in ids:
            ids = ids[: ids.index(self.config.eos_token_id)]
        while ids and ids[-1] == self.config.pad_token_id:  # inside, it is an id of the text
            ids.pop()
        text: str = self.config.decode(ids)
        return text

    postprocess = detokenize
