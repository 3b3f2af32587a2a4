"""One record at a time, as `dataprep tokenize` would write it, in this process.

    processor.process({"text": "hi"})  ─►  {"tokens": [1, 104, 105, 2], "loss_mask": [F, T, T, T]}

Nothing is read from inputs: how their records become documents is all that the config is asked for.
The tokenizer is loaded once. Reference engine, rules, masks and types are those of a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.tokenize import InputConfig, TokenizeConfig
from dataprep.pipeline.documents.rules import Vocabulary
from dataprep.pipeline.documents.together import PieceRecords, process_together
from dataprep.pipeline.engine import BadTextsError, load_decoder, reference_selection
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.sources.memory import PREFIX, line_of
from dataprep.pipeline.storage.documents import document_arrays
from dataprep.pipeline.tokenize.chats import chats_like
from dataprep.pipeline.tokenize.plan import FoundSources, TokenizePlan, make_plan, rules_of
from dataprep.pipeline.tokenize.sample import SampledEngine
from dataprep.pipeline.tokenize.vocabulary import vocabulary_of
from dataprep.pipeline.tokenize.worker import engine_of
from dataprep.pipeline.types import Ids, Piece, Record, Records

Document = dict[str, NDArray[Any]]  # tokens i32[n], loss_mask bool[n], …


class Processor:
    """Makes documents of records by a config; `dataprep.processor` makes one."""

    def __init__(
        self,
        config: TokenizeConfig,
        cache_dir: Path,
        *,
        index: int = 0,
        examples: Sequence[Record] = (),
    ) -> None:
        """`index` is the input whose settings count; `examples` tell the form of conversations."""
        if not config.tokenizer:
            raise ConfigError("no tokenizer; set it to a tokenizer.json, a folder or bytes")
        if not config.inputs:
            config = config.model_copy(update={"inputs": (InputConfig(path=f"{PREFIX}0"),)})
        if not 0 <= index < len(config.inputs):
            raise ConfigError(f"no input {index}; the config has {len(config.inputs)}")
        self.config, self._index = config, index
        self._vocabulary = vocabulary_of(config, cache_dir)
        self._examples = list(examples)

    def process(self, record: Record | str, **place: Any) -> Document:
        """Return the document of a record; InputError if it is bad, empty or makes several.

        `place` is as in `documents`.
        """
        found = self.documents(record, **place)
        if len(found) != 1:
            what = "is empty: it gives no token" if not found else f"gives {len(found)} documents"
            raise InputError(f"the record {what}; use documents(record), which returns a list")
        return found[0]

    def documents(
        self, record: Record | str, *, line: int = 0, offset: int = -1, source: str = ""
    ) -> list[Document]:
        """Return the documents of a record, mostly one; none if it gives no token.

        What a config leaves to chance follows from where the record is: its line, counted from 0,
        the offset of its first byte, and the fingerprint of its source.
        """
        plain = json.loads(line_of(record, "the record"), parse_constant=_refuse)
        plan = self._planned(plain)
        records = Records(
            lines=np.zeros(1, np.int64),
            offsets=np.array([offset]),
            next_line=1,
            num_bytes=0,
            rows=[plain],
        )
        piece = Piece(source=0, start=0, stop=1, first_line=line)
        rules = rules_of(plan, self._index)
        batch, _ = process_together(
            [PieceRecords(place=0, piece=piece, rules=rules, records=records, source=source)],
            self._engine,
        )
        if batch.errors:
            raise InputError(f"the record: {batch.errors[0].reason}")
        ends = batch.documents.ends.tolist()
        return [
            document_arrays(batch.documents, plan.masks, start, stop)
            for start, stop in zip([0, *ends], ends, strict=False)
        ]

    def tokenize(self, text: str) -> Ids:
        """Return the ids of a text, without BOS and EOS."""
        try:
            return self._engine.encode([text]).ids
        except BadTextsError as error:
            raise InputError(f"the text {error.reasons[0]}") from None

    def detokenize(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Return the text of ids; special tokens are shown."""
        return self._decode([int(id) for id in ids])

    @property
    def vocabulary(self) -> Vocabulary:
        """Special ids, tags and files of the tokenizer."""
        return self._vocabulary

    def _planned(self, record: Record) -> TokenizePlan:
        """Return the plan, which the first record completes: it tells the form of conversations."""
        if not hasattr(self, "_plan"):
            examples = self._examples or [record]
            chats = chats_like(self.config, self._vocabulary.files, examples, f"{PREFIX}0")
            nothing = FoundSources(sources=(), inputs=())
            self._plan = make_plan(self.config, self._vocabulary, nothing, chats)
        return self._plan

    @cached_property
    def _engine(self) -> SampledEngine:
        files = self._vocabulary.files
        plan = make_plan(self.config, self._vocabulary, FoundSources(sources=(), inputs=()))
        return engine_of(plan, reference_selection(files))

    @cached_property
    def _decode(self) -> Callable[[Sequence[int]], str]:
        return load_decoder(self._vocabulary.files)


def _refuse(constant: str) -> Mapping[str, Any]:
    raise InputError(f"the record has the number {constant}, which is none of JSON")
