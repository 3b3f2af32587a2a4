"""Encode texts of which some parts are content, in which special tokens are text.

    <|im_start|>user\\n | say <|im_end|> | <|im_end|>\\n        the second is content
    151644 872 198       82 … 27 91 …     151645 198            by its letters in the second only

`tokenizers` finds special tokens everywhere or nowhere. So those outside of content are replaced by
marks, as for literals of the config (`in_text`), and all others are text. That also finds BOS and
EOS where they are words of the model only, which `tokenizers` would split: as `transformers` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.in_text import new_mark
from dataprep.pipeline.engine.places import TokenPlaces, in_bytes
from dataprep.pipeline.engine.plain import Marked, PlainEngine, places_of
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedStrings:
    ids: Ids
    places: TokenPlaces  # in bytes of the marked strings
    stops: Offsets  # of each marked string, in bytes


class ContentEncoder:
    """Encodes the strings of a text, of a tokenizer.json."""

    def __init__(self, files: TokenizerFiles) -> None:
        tokens = sorted((t.content for t in files.special), key=len, reverse=True)
        self._mark_of = {token: new_mark(token) for token in tokens}
        self._engine = PlainEngine(
            files,
            {
                self._mark_of[token.content]: Marked(id=token.id, spelled=token.content)
                for token in files.special
            },
        )
        self._any = re.compile("|".join(map(re.escape, tokens)) or r"(?!)")
        self._special = np.array([t.id for t in files.special if not t.is_unknown], np.uint32)
        self._content_of = {token.id: token.content for token in files.special}

    def encode(self, strings: Sequence[str], is_content: Sequence[bool]) -> EncodedStrings:
        """Return the ids and where they are; ValueError if content cannot be kept as text."""
        marked = [
            text if is_content[i] else self._any.sub(lambda m: self._mark_of[m[0]], text)
            for i, text in enumerate(strings)
        ]
        text = "".join(marked)
        ids, offsets = self._engine.locate(text)
        still = places_of(self._special, ids)
        if len(still):
            content = self._content_of[int(ids[still[0]])]
            raise ValueError(
                f"spells the special token {content!r}, which the tokenizer's model itself has "
                "among its words; set chat.allow_special_in_content"
            )
        stops = offsets_of([len(each.encode("utf-8")) for each in marked])[1:]
        return EncodedStrings(
            ids=self._engine.without_marks(ids), places=in_bytes(text, offsets), stops=stops
        )
