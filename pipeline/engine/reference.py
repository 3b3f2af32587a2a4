"""The reference: `tokenizers` for tokenizer.json, `sentencepiece` for .model, UTF-8 for bytes.

Its ids are right by definition, and every other engine is compared with it. With a large
vocabulary it takes hundreds of MB of memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version as distribution_version
from typing import Any

import numpy as np

from dataprep.pipeline.engine.facts import installed_version
from dataprep.pipeline.engine.files import (
    TokenizerFiles,
    parse_json,
    parse_sentencepiece,
    read_defining_file,
)
from dataprep.pipeline.engine.interface import Engine, failures_told, flatten
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets

NAMES = {"json": "tokenizers", "sentencepiece": "sentencepiece", "bytes": "bytes"}


def reference_name(files: TokenizerFiles) -> str:
    return NAMES[files.kind]


def reference_version(files: TokenizerFiles) -> str:
    if files.kind == "bytes":
        return "1"
    return installed_version(NAMES[files.kind]) or ""


def load_reference(files: TokenizerFiles) -> Engine:
    if files.kind == "bytes":
        return BytesEngine()
    data = read_defining_file(files)
    if files.kind == "sentencepiece":
        return SentencePieceEngine(parse_sentencepiece(data, files.path))
    return TokenizersEngine(parse_json(data, files.path))


class TokenizersEngine:
    name = "tokenizers"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.version = distribution_version("tokenizers")

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return flatten([encoding.ids for encoding in encodings])


class SentencePieceEngine:
    name = "sentencepiece"

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self.version = distribution_version("sentencepiece")
        # -1: all cores. It ignores the variable that limits the other engines to one thread.
        self._num_threads = 1 if os.environ.get("RAYON_NUM_THREADS") == "1" else -1

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        if not texts:
            return flatten([])
        options = {"add_bos": False, "add_eos": False, "num_threads": self._num_threads}
        with failures_told():
            lists = self._processor.encode(list(texts), out_type=int, **options)
        return flatten(lists)


class BytesEngine:
    name = "bytes"
    version = "1"

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():  # of a lone surrogate
            encoded = [text.encode("utf-8") for text in texts]
        ids = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint32)
        return ids, offsets_of([len(text) for text in encoded])
