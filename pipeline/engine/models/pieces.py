"""SentencePiece, which parses and encodes by itself.

It has no way to keep what is one of its pieces as text, knows no marks, and does not say where in
a text a token is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any, NoReturn

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine, EngineFailedError, failures_told, flatten
from dataprep.pipeline.engine.models.model import (
    Around,
    CharacterPlaces,
    PlainTexts,
    TokenizerModel,
    runs_decoder,
)
from dataprep.pipeline.engine.plain import Marked, Spelled
from dataprep.pipeline.engine.special import AddedToken, Special, read_tokenizer_config
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets


class PiecesModel(TokenizerModel):
    kind, parser, file = "sentencepiece", "sentencepiece", "tokenizer.model"

    @cached_property
    def _processor(self) -> Any:
        return _parse(self.data, self.files.path)

    @property
    def _pieces(self) -> list[str]:
        return [self._processor.id_to_piece(i) for i in range(self._processor.get_piece_size())]

    def vocabulary(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self._pieces)}

    def roles(
        self, vocabulary: Mapping[str, int], configs: Mapping[str, bytes]
    ) -> Mapping[str, Special]:
        own = self._processor
        ids = {"bos": own.bos_id(), "eos": own.eos_id(), "pad": own.pad_id()}
        named = {role: id for role, id in ids.items() if id >= 0}
        return {role: Special(id=id, token=own.id_to_piece(id)) for role, id in named.items()}

    def special(self, files: TokenizerFiles) -> tuple[AddedToken, ...]:
        """Return BOS and EOS where a text can become them: control pieces are never made."""
        return tuple(
            AddedToken(content=token, id=id, in_model=True)
            for id, token in files.roles().items()
            if id in (files.bos_id, files.eos_id)
            and not self._processor.is_control(id)
            and not self._processor.is_unknown(id)
        )

    def token_texts(self) -> list[str]:
        spelled = [piece.replace("▁", " ") for piece in self._pieces]
        return list(dict.fromkeys(text for text in spelled if text and "\ufffd" not in text))

    def token_bytes(self) -> dict[int, bytes]:
        self._refuse_places()

    def added_tokens(self) -> list[AddedToken]:
        """Return the special pieces."""
        own = self._processor
        return [
            AddedToken(content=piece)
            for i, piece in enumerate(self._pieces)
            if own.is_control(i) or own.is_unknown(i) or own.get_score(i) == 0
        ]

    def template_ids(self) -> Around:
        config = read_tokenizer_config(Path(self.files.path).parent)
        bos = self.files.bos_id if config.get("add_bos_token") is True else None
        eos = self.files.eos_id if config.get("add_eos_token") is True else None
        return () if bos is None else (bos,), () if eos is None else (eos,)

    def decoder(self) -> Callable[[Sequence[int]], str]:
        own, pieces = self._processor, self._pieces
        control = {i: piece for i, piece in enumerate(pieces) if own.is_control(i)}
        return runs_decoder(control.get, own.decode, len(pieces))

    def reference(self) -> Engine:
        return SentencePieceEngine(self._processor)

    def locate(self, text: str) -> CharacterPlaces:
        self._refuse_places()

    def spelled_in(self, text: str) -> list[Spelled]:
        return list(self.plain({}).spelled_in(text))

    def why_unmarkable(self, token: AddedToken) -> str:
        return (
            f"the special token {token.content!r} in prepend_text, subfield_separator or "
            "fields cannot be told from text in a SentencePiece model; leave it out, or set "
            "--special-in-text parse"
        )

    def plain(self, marks: Mapping[str, Marked]) -> PlainTexts:
        return PiecesEngine(self._processor, self.files.special)

    def _refuse_places(self) -> NoReturn:
        raise ConfigError(
            f"{self.files.path} is a SentencePiece model, of whose tokens the places in a text are "
            "not known; use the tokenizer.json of the same model"
        )


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


class PiecesEngine(SentencePieceEngine):
    """SentencePiece for texts that spell a special token: they are encoded as always."""

    def __init__(self, processor: Any, special: Sequence[AddedToken]) -> None:
        super().__init__(processor)
        self._tokens = {token.id: token for token in special}

    def spelled_in(self, text: str) -> Iterator[Spelled]:
        """Yield the special tokens that a text spells, where the text of a piece is."""
        stop = 0
        for id in self.encode([text])[0].tolist():
            if id in self._tokens:
                spelled = self._tokens[id].content.replace("▁", " ").strip()
                start = max(text.find(spelled, stop), 0)
                stop = start + len(spelled)
                yield self._tokens[id], start, stop

    def without_marks(self, ids: Ids) -> Ids:
        return ids

    def locate(self, text: str) -> tuple[Ids, CharacterPlaces]:
        raise AssertionError("the model refuses to tell places")


def _parse(data: bytes, path: str) -> Any:
    """Return a `sentencepiece.SentencePieceProcessor`."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ConfigError(
            f"{path} is a SentencePiece model, but the package sentencepiece is not installed; "
            "pip install sentencepiece"
        ) from error
    try:
        with failures_told():
            processor = SentencePieceProcessor(model_proto=data)
            if processor.get_piece_size() <= 0:
                raise ValueError("it has no pieces")
            for id in range(processor.get_piece_size()):
                processor.id_to_piece(id)  # of a damaged model it may not be text
    except EngineFailedError as error:
        raise ConfigError(
            f"{path} is not a model that sentencepiece can load: {error}; name another file"
        ) from error
    return processor
