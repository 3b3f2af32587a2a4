"""Texts to ids and back, without BOS and EOS."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.base import SpecialInTextMode
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.engine import (
    BadTextsError,
    Engine,
    SpecialInText,
    TokenizerFiles,
    encode_texts,
    load_decoder,
    load_reference,
    looks_like_hub_name,
    resolve_tokenizer,
)
from dataprep.pipeline.engine.objects import name_of_tokenizer
from dataprep.pipeline.errors import InputError, short

__all__ = ["detokenize", "tokenize_text"]

Ids = NDArray[np.uint32]


@overload
def tokenize_text(
    text: str, tokenizer: Any, *, special_in_text: SpecialInTextMode = "parse"
) -> Ids: ...
@overload
def tokenize_text(
    text: Sequence[str], tokenizer: Any, *, special_in_text: SpecialInTextMode = "parse"
) -> list[Ids]: ...
def tokenize_text(
    text: str | Sequence[str],
    tokenizer: Any,
    *,
    special_in_text: SpecialInTextMode = "parse",
) -> Ids | list[Ids]:
    """Return the ids of a text, or of each of several, without BOS and EOS.

    A tokenizer is a path, a name, or one of transformers or tokenizers that the program holds; it
    is loaded once in a process, and again when its files change; the hub is asked once.

    >>> tokenize_text("hi", "bytes").tolist()
    [104, 105]
    """
    texts = _texts(text)
    files = _tokenizer(name_of_tokenizer(tokenizer, default_cache()))
    try:
        ids, offsets = encode_texts(_reference(files), texts)
        settled = SpecialInText(files, special_in_text, {}).settle(texts, ids, offsets)
    except BadTextsError as error:
        number, reason = min(error.reasons.items())
        raise InputError(f"text {number}: {reason}") from None
    found = np.split(settled.ids, settled.offsets[1:-1]) if texts else []
    return found[0] if isinstance(text, str) else found


def detokenize(ids: Sequence[int] | NDArray[np.integer[Any]], tokenizer: Any) -> str:
    """Return the text of ids; special tokens are shown, ids outside the vocabulary as <|id|>.

    >>> detokenize([104, 105], "bytes")
    'hi'
    """
    try:
        numbers = [operator.index(id) for id in ids]
    except TypeError as error:
        raise InputError(f"ids must be a list of whole numbers: {error}") from None
    if min(numbers, default=0) < 0:
        raise InputError(f"id {min(numbers)} is negative; the first id of a tokenizer is 0")
    return _decoder(_tokenizer(name_of_tokenizer(tokenizer, default_cache())))(numbers)


def _texts(given: str | Sequence[str]) -> list[str]:
    if isinstance(given, str):
        return [given]
    try:
        texts = list(given)
    except TypeError:
        raise InputError(f"{given!r} must be a text or a list of texts") from None
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {number}: must be a str, got {short(repr(text), 200)}")
    return texts


def _tokenizer(name: str) -> TokenizerFiles:
    """Look at the files anew: the working folder, or what is saved there, may be another by now."""
    is_there = os.path.exists(os.path.expanduser(name))
    if looks_like_hub_name(name) and not is_there:
        return _tokenizer_of_hub(name)
    return resolve_tokenizer(name, default_cache())


@lru_cache(maxsize=8)
def _tokenizer_of_hub(name: str) -> TokenizerFiles:
    return resolve_tokenizer(name, default_cache())


# By all that is known of the files, their hash and their special tokens among it.
@lru_cache(maxsize=8)
def _reference(files: TokenizerFiles) -> Engine:
    return load_reference(files)


@lru_cache(maxsize=8)
def _decoder(files: TokenizerFiles) -> Callable[[Sequence[int]], str]:
    return load_decoder(files)
