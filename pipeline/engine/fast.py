"""Fast engines behind one interface: fastokens, gigatoken, splintr.

Each adapter says which version is installed and loads a tokenizer. No engine is trusted: its ids
are used only where `prove` found them equal to the reference's. Packages are imported on loading.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataprep.pipeline.engine.facts import installed_version
from dataprep.pipeline.engine.files import TokenizerFiles, read_defining_file
from dataprep.pipeline.engine.interface import (
    Engine,
    EngineFailedError,
    EngineUnavailableError,
    failures_told,
)
from dataprep.pipeline.engine.models.parsed import RANDOM_SETTINGS
from dataprep.pipeline.engine.rewrite import (
    without_control_tokens,
    without_holes,
    without_settings,
)
from dataprep.pipeline.types import Ids, Offsets

Encode = Callable[[Sequence[str]], tuple[Ids, Offsets]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    distribution: str
    loads: Mapping[str, Callable[[TokenizerFiles, bytes], Encode]]  # by the kind of tokenizer
    installed: Callable[[str], str | None] = installed_version

    def version(self) -> str | None:
        """Return the installed version; None if it is not installed."""
        return self.installed(self.distribution)


def single_threaded_environment() -> dict[str, str]:
    """Return the variables of worker processes; set them before they import an engine."""
    return {
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "FASTOKENS_BPE_THREADS": "1",  # its own pool, which uses the CPU while it waits
    }


class FastEngine:
    def __init__(self, name: str, version: str, encode: Encode) -> None:
        self.name = name
        self.version = version
        self._encode = encode

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        return self._encode(texts if isinstance(texts, list) else list(texts))


def load_fast(
    name: str, files: TokenizerFiles, *, adapters: Mapping[str, Adapter] | None = None
) -> Engine:
    """Load an engine; EngineUnavailableError if it is missing or cannot read this tokenizer."""
    adapter = (ADAPTERS if adapters is None else adapters)[name]
    version = adapter.version()
    if version is None:
        raise EngineUnavailableError(f"{adapter.distribution} is not installed")
    load = adapter.loads.get(files.kind)
    if load is None:
        raise EngineUnavailableError(f"it cannot read a tokenizer of kind {files.kind}")
    data = read_defining_file(files)
    if files.random:
        data = without_settings(data, RANDOM_SETTINGS)
    try:
        with failures_told():
            return FastEngine(name, version, load(files, data))
    except EngineFailedError as error:
        raise EngineUnavailableError(f"it does not load: {error}") from error


def _load_fastokens(files: TokenizerFiles, data: bytes) -> Encode:
    from fastokens import Tokenizer

    try:
        tokenizer = Tokenizer.from_json_str(data.decode("utf-8"))
    except ValueError:
        filled = without_holes(data)
        if filled is None:
            raise
        tokenizer = Tokenizer.from_json_str(filled)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> tuple[Ids, Offsets]:
        return _from_buffers(*tokenizer.encode_batch_flat(texts))

    return encode


def _load_gigatoken(files: TokenizerFiles, data: bytes) -> Encode:
    from gigatoken import Tokenizer

    return _gigatoken_encode(Tokenizer.from_json(data))


def _load_gigatoken_pieces(files: TokenizerFiles, data: bytes) -> Encode:
    from gigatoken import Tokenizer

    tokenizer = Tokenizer.from_sentencepiece(data)
    # To SentencePiece "<s>" in a text is three characters, not the control piece.
    plain = without_control_tokens(getattr(tokenizer, "_hf_json", None))
    return _gigatoken_encode(tokenizer if plain is None else Tokenizer.from_json(plain))


def _gigatoken_encode(tokenizer: Any) -> Encode:
    parallel = os.environ.get("RAYON_NUM_THREADS") != "1"

    def encode(texts: Sequence[str]) -> tuple[Ids, Offsets]:
        layout = tokenizer.encode_batch(texts, parallel=parallel).layout
        packed = layout.to_ListOffsetArray64(True)  # offsets that start at 0
        offsets = np.asarray(packed.offsets.data, np.int64)
        ids = np.asarray(packed.content.data, np.uint32)[: int(offsets[-1])]
        return ids, offsets

    return encode


def _load_splintr(files: TokenizerFiles, data: bytes) -> Encode:
    from splintr import from_json_bytes

    tokenizer = from_json_bytes(data)
    before, after = _added_around(tokenizer)

    def encode(texts: Sequence[str]) -> tuple[Ids, Offsets]:
        ids, offsets = _from_buffers(*tokenizer.encode_batch_flat(texts))
        return cut_around(ids, offsets, before, after)

    return encode


def _added_around(tokenizer: Any) -> tuple[int, int]:
    """Return how many ids the tokenizer puts before and after every text.

    "" gives [101, 102] and "a" gives [101, 1037, 102]: both begin with the same id, so (1, 1).
    """
    empty: list[int] = list(tokenizer.encode(""))
    letter: list[int] = list(tokenizer.encode("a"))
    before = 0
    while before < len(empty) and empty[before] == letter[before]:
        before += 1
    return before, len(empty) - before


def cut_around(ids: Ids, offsets: Offsets, before: int, after: int) -> tuple[Ids, Offsets]:
    """Drop `before` ids from the start and `after` from the end of every text."""
    if before + after == 0 or len(offsets) == 1:
        return ids, offsets
    keep = np.ones(len(ids), bool)
    for place in range(before):
        keep[offsets[:-1] + place] = False
    for place in range(after):
        keep[offsets[1:] - 1 - place] = False
    return ids[keep], offsets - np.arange(len(offsets)) * (before + after)


def _from_buffers(ids: bytes, offsets: bytes) -> tuple[Ids, Offsets]:
    return np.frombuffer(ids, "<u4"), np.frombuffer(offsets, "<i8")


# In order of preference: the first that is installed and proven equal does the work.
ADAPTERS: dict[str, Adapter] = {
    "fastokens": Adapter(distribution="fastokens", loads={"json": _load_fastokens}),
    "gigatoken": Adapter(
        distribution="gigatoken",
        loads={"json": _load_gigatoken, "sentencepiece": _load_gigatoken_pieces},
    ),
    "splintr": Adapter(distribution="splintr-rs", loads={"json": _load_splintr}),
}
