"""Kinds of tokenizers, each behind one contract: a file here, and a line in MODELS.

model        the contract: vocabulary, special tokens, decoder, reference engine …
json_model   tokenizer.json, parsed by `tokenizers`
parsed         what is asked of that library; before_1, from_1: by its version
alignment      where tokens are in a text, for the versions that do not tell
pieces       SentencePiece
utf8         UTF-8 bytes, which need no file
spelling     "Ġthe" -> b" the": the bytes that a token stands for

model = load_model(files)       parses nothing yet
model.vocabulary()              parses the file, once for all that is asked of this model
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine
from dataprep.pipeline.engine.models.json_model import JsonModel
from dataprep.pipeline.engine.models.model import TokenizerModel
from dataprep.pipeline.engine.models.pieces import PiecesModel
from dataprep.pipeline.engine.models.utf8 import Utf8Model

MODELS: dict[str, type[TokenizerModel]] = {
    model.kind: model for model in (JsonModel, PiecesModel, Utf8Model)
}
# Names of the file that defines a tokenizer in its folder; the first that is there counts.
DEFINING = tuple(model.file for model in MODELS.values() if model.file)


def model_of_file(path: Path) -> type[TokenizerModel]:
    """Return the kind of a tokenizer by the ending of its file; any other ending is JSON's."""
    kinds = {Path(model.file).suffix: model for model in MODELS.values() if model.file}
    return kinds.get(path.suffix, JsonModel)


def load_model(files: TokenizerFiles) -> TokenizerModel:
    return MODELS[files.kind](files)


def reference_name(files: TokenizerFiles) -> str:
    return MODELS[files.kind].parser


def reference_version(files: TokenizerFiles) -> str:
    return MODELS[files.kind].parser_version()


def load_reference(files: TokenizerFiles) -> Engine:
    """Return the engine whose ids are right by definition: every other is compared with it.

    With a large vocabulary it takes hundreds of MB of memory.
    """
    return load_model(files).reference()


def load_decoder(files: TokenizerFiles) -> Callable[[Sequence[int]], str]:
    """Return the function that turns ids into text for people to read.

    Special tokens are shown; ids that the tokenizer does not have appear as <|id|>.
    """
    return load_model(files).decoder()


def template_ids(files: TokenizerFiles) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the tokenizer adds before and after a text: ((101,), (102,)) for BERT."""
    return load_model(files).template_ids()


def read_vocabulary(files: TokenizerFiles) -> dict[str, int]:
    """Return the id of each token, added tokens included."""
    return load_model(files).vocabulary()
