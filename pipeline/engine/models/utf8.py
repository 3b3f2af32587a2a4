"""UTF-8 bytes as ids, with three more for BOS, EOS and padding, which no text becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dataprep.pipeline.engine.interface import Engine, failures_told
from dataprep.pipeline.engine.models.model import CharacterPlaces, TokenizerModel, runs_decoder
from dataprep.pipeline.engine.special import Special
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets

DEFINITION = b"dataprep bytes: utf-8 0..255, bos 256, eos 257, pad 258"
ROLES = {
    "bos": Special(id=256, token="<bos>"),
    "eos": Special(id=257, token="<eos>"),
    "pad": Special(id=258, token="<pad>"),
}


class Utf8Model(TokenizerModel):
    kind, parser = "bytes", "bytes"

    @classmethod
    def parser_version(cls) -> str:
        return BytesEngine.version

    def vocabulary(self) -> dict[str, int]:
        return {role.token: role.id for role in ROLES.values() if role.token}

    def roles(
        self, vocabulary: Mapping[str, int], configs: Mapping[str, bytes]
    ) -> Mapping[str, Special]:
        return ROLES

    def token_bytes(self) -> dict[int, bytes]:
        return {i: bytes([i]) for i in range(256)}

    def decoder(self) -> Callable[[Sequence[int]], str]:
        names = {role.id: role.token for role in ROLES.values()}
        return runs_decoder(names.get, lambda ids: bytes(ids).decode("utf-8", "replace"), 256)

    def reference(self) -> Engine:
        return BytesEngine()

    def locate(self, text: str) -> CharacterPlaces:
        return [(i, i + 1) for i, each in enumerate(text) for _ in each.encode("utf-8")]


class BytesEngine:
    name = "bytes"
    version = "1"

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():  # of a lone surrogate
            encoded = [text.encode("utf-8") for text in texts]
        ids = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint32)
        return ids, offsets_of([len(text) for text in encoded])
