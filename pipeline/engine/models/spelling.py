"""The bytes that a token of a tokenizer.json stands for; None if its spelling does not tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def is_byte_level(described: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer.json spells bytes by characters of their own."""
    return "ByteLevel" in json.dumps(described.get("decoder"))


def spelled_bytes(described: Mapping[str, Any], own: Mapping[str, int]) -> dict[int, bytes]:
    """Return the bytes of each id of the model whose spelling tells."""
    spell = by_byte_level if is_byte_level(described) else by_blank_sign
    spelled = ((id, spell(token)) for token, id in own.items())
    return {id: value for id, value in spelled if value is not None}


def by_blank_sign(token: str) -> bytes | None:
    """
    >>> by_blank_sign("▁the"), by_blank_sign("<0x0A>")
    (b' the', b'\\n')
    """
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace("▁", " ").encode("utf-8", "surrogatepass")


def by_byte_level(token: str) -> bytes | None:
    """
    >>> by_byte_level("Ġthe"), by_byte_level("日")
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
