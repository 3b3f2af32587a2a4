"""Find which bytes of a text each token stands for.

    text    <|im_end|>né      ids   151645 | 77 | 963       places  0–10 | 10–11 | 11–13

Engines give no places. Where the bytes of the tokens, one after the other, are those of the text,
they are its places: so it is for byte-level models. For other texts (a normalizer changed them, a
tokenizer drops blanks) the reference is asked, whose characters are turned into bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.engine.files import TokenizerFiles, parse_json, read_defining_file
from dataprep.pipeline.engine.interface import failures_told
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.ragged import offsets_of, ranges
from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlaces:
    """Bytes of each token, in the texts end to end; those of a text ascend."""

    starts: Offsets  # i64[tokens]
    stops: Offsets  # i64[tokens]


class PlaceFinder:
    """Finds places for one tokenizer, which is a tokenizer.json or bytes."""

    def __init__(self, files: TokenizerFiles) -> None:
        if files.kind == "sentencepiece":
            raise ConfigError(
                f"{files.path} is a SentencePiece model, of whose tokens the places in a text are "
                "not known; use the tokenizer.json of the same model"
            )
        self._files = files
        self._tokenizer: Any = None
        spelled = _bytes_of_tokens(files)
        size = max(files.vocab_size, max(spelled, default=-1) + 1)
        # A token that is unknown here is longer than any text, so that no text fits it.
        self._lengths = np.full(size, 1 << 40, np.int64)
        known = sorted(spelled)
        self._lengths[known] = [len(spelled[id]) for id in known]
        self._firsts = np.zeros(size, np.int64)
        self._firsts[known] = offsets_of([len(spelled[id]) for id in known])[:-1]
        self._bytes = np.frombuffer(b"".join(spelled[id] for id in known), np.uint8)

    def find(self, texts: Sequence[str], ids: Ids, offsets: Offsets) -> TokenPlaces:
        """Return the places of all tokens, given what an engine made of the texts."""
        data = [text.encode("utf-8") for text in texts]
        bounds = offsets_of([len(each) for each in data])
        lengths = self._lengths[ids]
        sums = np.add.reduceat(np.append(lengths, 0), offsets[:-1]) if len(texts) else bounds[:0]
        sums = np.where(np.diff(offsets) > 0, sums, 0)
        fits = sums == np.diff(bounds)
        owners = np.repeat(np.arange(len(texts)), np.diff(offsets))
        if len(ids):
            fits &= self._agrees(ids, lengths, fits, owners, data)
        stops = np.cumsum(np.where(fits[owners], lengths, 0))
        starts = stops - np.where(fits[owners], lengths, 0)
        # Texts before that do not fit take no part in the sum.
        missing = offsets_of(np.where(fits, 0, np.diff(bounds)))[:-1]
        starts, stops = starts + missing[owners], stops + missing[owners]
        for i in np.flatnonzero(~fits).tolist():
            first, last = int(offsets[i]), int(offsets[i + 1])
            found = self.by_reference(texts[i], ids[first:last])
            starts[first:last] = found.starts + bounds[i]
            stops[first:last] = found.stops + bounds[i]
        return TokenPlaces(starts=starts, stops=stops)

    def _agrees(
        self,
        ids: Ids,
        lengths: Offsets,
        fits: NDArray[np.bool_],
        owners: Offsets,
        data: Sequence[bytes],
    ) -> NDArray[np.bool_]:
        """Return for each text whether its tokens spell it, if their bytes are as many as its."""
        kept = fits[owners]
        spelled = self._bytes[ranges(self._firsts[ids[kept]], lengths[kept])]
        given = np.frombuffer(
            b"".join(d for d, fit in zip(data, fits, strict=True) if fit), np.uint8
        )
        result = np.ones(len(data), np.bool_)
        differs = np.flatnonzero(spelled != given)
        if len(differs):
            which = np.flatnonzero(fits)
            bounds = offsets_of([len(data[i]) for i in which.tolist()])
            result[which[np.searchsorted(bounds, differs, side="right") - 1]] = False
        return result

    def by_reference(self, text: str, ids: Ids) -> TokenPlaces:
        if self._tokenizer is None:
            data = read_defining_file(self._files)
            self._tokenizer = parse_json(data, self._files.path)
        with failures_told():
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
        assert len(encoding.ids) == len(ids), "an engine gave other ids than the reference"
        return in_bytes(text, encoding.offsets)


def in_bytes(text: str, places: Sequence[tuple[int, int]]) -> TokenPlaces:
    """Return places in characters as places in bytes.

    >>> in_bytes("né!", [(0, 2), (2, 3)]).stops.tolist()
    [3, 4]
    """
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    sizes = 1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF)
    bytes_before = offsets_of(sizes.astype(np.int64))
    found = np.array(places, np.int64).reshape(-1, 2)
    return TokenPlaces(starts=bytes_before[found[:, 0]], stops=bytes_before[found[:, 1]])


def _bytes_of_tokens(files: TokenizerFiles) -> dict[int, bytes]:
    """Return the bytes that each token stands for in a text, where its spelling tells."""
    if files.kind == "bytes":
        return {i: bytes([i]) for i in range(256)}
    data = read_defining_file(files)
    vocabulary: Mapping[str, int] = parse_json(data, files.path).get_vocab(with_added_tokens=False)
    described = json.loads(data)
    added = {token["id"]: token["content"] for token in described.get("added_tokens") or ()}
    decoder = json.dumps(described.get("decoder"))
    spell = _by_byte_level if "ByteLevel" in decoder else _by_blank_sign
    spelled = {id: spell(token) for token, id in vocabulary.items()}
    found = {id: value for id, value in spelled.items() if value is not None}
    return found | {id: content.encode("utf-8") for id, content in added.items()}


def _by_blank_sign(token: str) -> bytes | None:
    """
    >>> _by_blank_sign("▁the"), _by_blank_sign("<0x0A>")
    (b' the', b'\\n')
    """
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace("▁", " ").encode("utf-8", "surrogatepass")


def _by_byte_level(token: str) -> bytes | None:
    """
    >>> _by_byte_level("Ġthe"), _by_byte_level("日")
    (b' the', None)
    """
    try:
        return bytes([_BYTE_OF[character] for character in token])
    except KeyError:
        return None


def _byte_alphabet() -> dict[str, int]:
    """Return the byte for each character by which byte-level models spell bytes.

    Printable bytes stand for themselves, the others for the characters from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + i): byte for i, byte in enumerate(others)
    }


_BYTE_OF = _byte_alphabet()
