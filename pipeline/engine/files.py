"""The files of a tokenizer: all that a worker needs to know of it, and its own bytes.

`resolve` finds and describes them, `models` parses them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.engine.special import AddedToken
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.opening import read_bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    kind: str  # of MODELS: json | sentencepiece | bytes
    path: str  # absolute; "" for bytes
    sha256: str  # of the defining file
    vocab_size: int  # highest id + 1, added tokens included
    bos_id: int | None = None  # None where the tokenizer names none
    eos_id: int | None = None
    pad_id: int | None = None
    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    special: tuple[AddedToken, ...] = ()  # what text may spell
    random: str = ""  # its settings that would choose tokens at random; they are switched off
    note: str = ""  # what a user should know about how it was found

    def roles(self) -> dict[int, str]:
        """Return BOS, EOS and padding by their ids."""
        roles = (
            (self.bos_id, self.bos_token),
            (self.eos_id, self.eos_token),
            (self.pad_id, self.pad_token),
        )
        return {id: token for id, token in roles if id is not None and token is not None}


def read_defining_file(files: TokenizerFiles) -> bytes:
    """Return the tokenizer's own bytes, which must still be those that `resolve_tokenizer` saw."""
    data = read_file(Path(files.path))
    if sha256_of(data) != files.sha256:
        raise ConfigError(
            f"tokenizer {files.path} changed while it was in use (sha256 was {files.sha256}); "
            "run the command again"
        )
    return data


def read_file(path: Path) -> bytes:
    try:
        return read_bounded(path)
    except OSError as error:
        raise ConfigError(
            f"tokenizer {path} cannot be read: {error.strerror}; name another or make it readable"
        ) from error


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
