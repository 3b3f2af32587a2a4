"""tokenizers before 1.0, which tell all that is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dataprep.pipeline.engine.interface import flatten
from dataprep.pipeline.engine.models.model import Around, CharacterPlaces
from dataprep.pipeline.engine.models.parsed import RANDOM_SETTINGS
from dataprep.pipeline.engine.special import FLAGS, AddedToken
from dataprep.pipeline.types import Ids, Offsets


def parse(data: bytes, path: str) -> ParsedBefore1:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for name in RANDOM_SETTINGS:
        if getattr(tokenizer.model, name, None):
            setattr(tokenizer.model, name, None)
    return ParsedBefore1(tokenizer, data, path)


class ParsedBefore1:
    def __init__(self, tokenizer: Any, data: bytes, path: str) -> None:
        self._tokenizer, self._data, self._path = tokenizer, data, path

    def own_vocabulary(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=False)
        return vocabulary

    def added_tokens(self) -> list[AddedToken]:
        return [
            AddedToken(
                content=token.content,
                id=id,
                special=token.special,
                flags=tuple(getattr(token, flag) for flag in FLAGS),
            )
            for id, token in sorted(self._tokenizer.get_added_tokens_decoder().items())
        ]

    def id_of(self, token: str) -> int | None:
        id: int | None = self._tokenizer.token_to_id(token)
        return id

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Offsets]:
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return flatten([encoding.ids for encoding in encodings])

    def locate(self, text: str) -> tuple[Ids, CharacterPlaces]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return np.array(encoding.ids, np.uint32), encoding.offsets

    def around(self) -> Around:
        encoding = self._tokenizer.encode("a", add_special_tokens=True)
        # sequence ids of [CLS] a [SEP]: [None, 0, None]
        of_text = [place for place, sequence in enumerate(encoding.sequence_ids) if sequence == 0]
        end = len(encoding.ids)
        first, last = (of_text[0], of_text[-1]) if of_text else (end, end)
        return tuple(encoding.ids[:first]), tuple(encoding.ids[last + 1 :])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def decode_each(self, ids: Sequence[int]) -> list[str]:
        alone = [[id] for id in ids]
        texts: list[str] = self._tokenizer.decode_batch(alone, skip_special_tokens=False)
        return texts

    def normalize(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def plain(
        self, special: Sequence[AddedToken], marks: Mapping[str, AddedToken]
    ) -> ParsedBefore1:
        from tokenizers import AddedToken as Token

        other = parse(self._data, self._path)

        def added(content: str, token: AddedToken, *, special: bool) -> Any:
            return Token(content, special=special, **dict(zip(FLAGS, token.flags, strict=True)))

        # BOS and EOS may be among the added tokens without being called special there.
        other._tokenizer.add_special_tokens([added(t.content, t, special=True) for t in special])
        other._tokenizer.add_tokens([added(m, t, special=False) for m, t in marks.items()])
        other._tokenizer.encode_special_tokens = True
        return other
