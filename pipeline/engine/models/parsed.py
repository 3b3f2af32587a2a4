"""A tokenizer.json as `tokenizers` has parsed it: what dataprep asks of that library, in one place.

    before_1   tokenizers 0.21 and later, which tell all of this
    from_1     tokenizers 1, which encode and decode; the rest is read in the JSON

No other module knows which of them is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version as distribution_version
from typing import Protocol

from dataprep.pipeline.engine.interface import EngineFailedError, failures_told
from dataprep.pipeline.engine.models.model import Around, CharacterPlaces
from dataprep.pipeline.engine.special import AddedToken
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets

# With these, BPE and Unigram cut the same text differently each time: meant for training a model,
# and `tokenizers` has no switch for them.
RANDOM_SETTINGS = ("dropout", "alpha", "nbest_size")
MODULES = {"0": "before_1", "1": "from_1"}  # by the first number of the version


class ParsedTokenizer(Protocol):
    """Neither truncates nor pads, and draws no lots."""

    def own_vocabulary(self) -> dict[str, int]:
        """Return the id of each token of the model."""

    def added_tokens(self) -> list[AddedToken]:
        """Return what is taken out of a text before the model sees it, by id."""

    def id_of(self, token: str) -> int | None: ...

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Offsets]: ...

    def locate(self, text: str) -> tuple[Ids, CharacterPlaces]:
        """Return the ids of a text, and the characters that each stands for."""

    def around(self) -> Around:
        """Return the ids that its template adds before and after a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""

    def decode_each(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id alone."""

    def normalize(self, text: str) -> str: ...

    def plain(
        self, special: Sequence[AddedToken], marks: Mapping[str, AddedToken]
    ) -> ParsedTokenizer:
        """Return another one, to which special tokens are text, but marks are tokens.

        A mark is taken out of a text as the token that it stands for would be.
        """


def parse_json(data: bytes, path: str) -> ParsedTokenizer:
    """Parse a tokenizer.json by the `tokenizers` that is installed."""
    found = distribution_version("tokenizers")
    module = MODULES.get(found.partition(".")[0])
    if module is None:
        raise ConfigError(
            f"tokenizers {found} is installed, but this dataprep works with versions below 2; "
            "pip install 'tokenizers>=0.21,<2'"
        )
    try:
        with failures_told():
            parse = import_module(f"dataprep.pipeline.engine.models.{module}").parse
            parsed: ParsedTokenizer = parse(data, path)
    except EngineFailedError as error:
        raise ConfigError(
            f"{path} is not a tokenizer that `tokenizers` can load: {error}; "
            "save it again with `save_pretrained` or name another"
        ) from error
    return parsed
