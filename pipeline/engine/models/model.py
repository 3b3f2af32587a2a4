"""What dataprep asks of a tokenizer, whatever its kind.

    class JsonModel(TokenizerModel):            one file
        kind, parser = "json", "tokenizers"
        def vocabulary(self): …                 and one line in `MODELS`

A model parses its file when it is first asked for something, and then once. A kind that lacks
something raises a ConfigError that says so and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import ClassVar, Protocol

from dataprep.pipeline.engine.facts import installed_version
from dataprep.pipeline.engine.files import TokenizerFiles, read_defining_file
from dataprep.pipeline.engine.interface import Engine
from dataprep.pipeline.engine.plain import Marked, Spelled
from dataprep.pipeline.engine.special import AddedToken, Special
from dataprep.pipeline.types import Ids

Around = tuple[tuple[int, ...], tuple[int, ...]]  # ids before a text, and after it
CharacterPlaces = Sequence[tuple[int, int]]  # of each token, its first character and its end


class PlainTexts(Engine, Protocol):
    """An engine to which special tokens in texts are text."""

    def spelled_in(self, text: str) -> Iterator[Spelled]:
        """Yield the special tokens that a text spells, each with its first character and end."""

    def without_marks(self, ids: Ids) -> Ids:
        """Return the ids with those that marks stand for."""

    def locate(self, text: str) -> tuple[Ids, CharacterPlaces]:
        """Return the ids of a text, marks among them, and the characters that each stands for."""


class TokenizerModel(Protocol):
    """A tokenizer of one kind; what has a default here suits one without special tokens."""

    kind: ClassVar[str]  # of TokenizerFiles
    parser: ClassVar[str]  # the distribution that parses it; also the name of its reference engine
    file: ClassVar[str] = ""  # that defines it, in its folder; "": it needs none
    has_configs: ClassVar[bool] = False  # config files beside it name BOS, EOS and padding

    files: TokenizerFiles
    given: bytes | None  # its defining file, where that was read already

    def __init__(self, files: TokenizerFiles, given: bytes | None = None) -> None:
        self.files, self.given = files, given

    @cached_property
    def data(self) -> bytes:
        return read_defining_file(self.files) if self.given is None else self.given

    @classmethod
    def parser_version(cls) -> str:
        return installed_version(cls.parser) or ""

    def vocabulary(self) -> dict[str, int]:
        """Return the id of each token, added tokens included."""

    def roles(
        self, vocabulary: Mapping[str, int], configs: Mapping[str, bytes]
    ) -> Mapping[str, Special]:
        """Return what it names as BOS, EOS and padding, itself or in the configs beside it."""

    def special(self, files: TokenizerFiles) -> tuple[AddedToken, ...]:
        """Return what text may spell; `files` say which tokens are BOS, EOS and padding."""
        return ()

    def random(self) -> str:
        """Return its settings that would choose tokens at random: "dropout 0.1"."""
        return ""

    def token_texts(self) -> list[str]:
        """Return the text of each token, in order of ids, without tokens that are only a part of
        one.

        Ġthe -> " the", ##ing -> "ing", ▁the -> " the", half of a UTF-8 sequence -> left out
        """
        return []

    def token_bytes(self) -> dict[int, bytes]:
        """Return the bytes that each token stands for in a text, where its spelling tells."""

    def added_tokens(self) -> list[AddedToken]:
        """Return the strings that are taken out of a text before the model sees it."""
        return []

    def template_ids(self) -> Around:
        """Return the ids that it adds before and after a text."""
        return (), ()

    def decoder(self) -> Callable[[Sequence[int]], str]:
        """Return the function that turns ids into text, as `load_decoder` does."""

    def reference(self) -> Engine:
        """Return the engine whose ids are right by definition."""

    def locate(self, text: str) -> CharacterPlaces:
        """Return the characters that each token of a text stands for."""

    def spelled_in(self, text: str) -> list[Spelled]:
        """Return the special tokens that a text spells, each with its first character and end."""
        return []

    def why_unmarkable(self, token: AddedToken) -> str:
        """Return why no mark can stand for a special token in a literal of the config, or ""."""
        return ""

    def plain(self, marks: Mapping[str, Marked]) -> PlainTexts:
        """Return the engine for texts that spell special tokens, and for those with marks."""
        raise AssertionError(f"{self.kind} has no special tokens")


def runs_decoder(
    named: Callable[[int], str | None], decode_run: Callable[[list[int]], str], size: int
) -> Callable[[Sequence[int]], str]:
    """Return a decoder that shows the ids that have a name, and decodes the runs between them."""

    def name_of(id: int) -> str | None:
        return named(id) or (f"<|{id}|>" if id >= size else None)

    def decode(ids: Sequence[int]) -> str:
        parts = []
        for special, run in groupby(map(int, ids), key=lambda id: name_of(id) is not None):
            run_ids = list(run)
            parts.append(
                "".join(name_of(i) or "" for i in run_ids) if special else decode_run(run_ids)
            )
        return "".join(parts)

    return decode
