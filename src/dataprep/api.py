"""The commands as functions, with the same settings under the same names.

    tokenize("config.yaml", out="data/tokenized")          a file or a preset, and settings over it
    tokenize(["lwm", "mine.yaml"])                         several files: later ones win
    tokenize(inputs="data/*.jsonl", tokenizer="gpt2", out="data/tokenized")
    export(dataset="data/packed", to="hf", out="data/hf")
    pack(PackConfig(inputs=("data/tokenized",), seq_len=4096, out="data/packed"))
    run("nightly.yaml")                                    all steps, as the data grows

Each makes its dataset, or continues an interrupted run, or finds it complete, and returns where it
is and its manifest; `run` does so for every step. Errors are the `DataprepError`s that give a
command its exit code.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.base import Model, SpecialInTextMode
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.export import ExportConfig
from dataprep.configs.flags import flags_told, in_python
from dataprep.configs.load import load_config
from dataprep.configs.pack import PackConfig
from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.encode.recipe import encode as make_encoded
from dataprep.pipeline.engine import (
    BadTextsError,
    Engine,
    SpecialInText,
    TokenizerFiles,
    encode_texts,
    load_decoder,
    load_reference,
    looks_like_hub_name,
    resolve_tokenizer,
)
from dataprep.pipeline.errors import ConfigError, InputError, short
from dataprep.pipeline.export.recipe import export as make_export
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.recipes import Outcome, Report
from dataprep.pipeline.look.groups import documents_of_groups
from dataprep.pipeline.pack.recipe import pack as make_packed
from dataprep.pipeline.run.chain import StepChain, Todo
from dataprep.pipeline.run.summary import RunOutcome, run_all
from dataprep.pipeline.sources.endings import kind_by_name
from dataprep.pipeline.storage.manifest import TokenizedManifest
from dataprep.pipeline.storage.parts import check_parts_there, read_generation
from dataprep.pipeline.storage.places import dataset_folder
from dataprep.pipeline.tokenize.recipe import tokenize as make_tokenized

__all__ = [
    "detokenize",
    "documents_by",
    "encode",
    "export",
    "pack",
    "run",
    "tokenize",
    "tokenize_text",
]

C = TypeVar("C", bound=Model)
PathLike = str | os.PathLike[str]
Ids = NDArray[np.uint32]


def tokenize(
    config: TokenizeConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    overwrite: bool = False,
    report: Report = silent,
    **settings: Any,
) -> Outcome:
    """Raw corpora to a tokenized dataset, as `dataprep tokenize` does."""
    with _told_in_python(TokenizeConfig):
        model, files = _config(TokenizeConfig, config, None, settings)
        return make_tokenized(
            model, cache_dir=default_cache(), overwrite=overwrite, report=report, reads=files
        )


def pack(
    config: PackConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    overwrite: bool = False,
    report: Report = silent,
    **settings: Any,
) -> Outcome:
    """Tokenized documents to rows of a fixed length, as `dataprep pack` does."""
    with _told_in_python(PackConfig):
        model, files = _config(PackConfig, config, "pack", settings)
        return make_packed(model, overwrite=overwrite, report=report, reads=files)


def encode(
    config: EncodeConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    overwrite: bool = False,
    report: Report = silent,
    **settings: Any,
) -> Outcome:
    """Pictures, videos and sounds to codes, as `dataprep encode` does."""
    with _told_in_python(EncodeConfig):
        model, files = _config(EncodeConfig, config, "encode", settings)
        return make_encoded(
            model, cache_dir=default_cache(), overwrite=overwrite, report=report, reads=files
        )


def export(
    config: ExportConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    overwrite: bool = False,
    report: Report = silent,
    **settings: Any,
) -> Outcome:
    """A dataset to the files of another trainer, as `dataprep export` does."""
    with _told_in_python(ExportConfig):
        model, files = _config(ExportConfig, config, None, settings)
        return make_export(model, overwrite=overwrite, report=report, reads=files)


def run(
    config: RunConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    only: Sequence[str] = (),
    wait: bool = False,
    report: Report = silent,
    **settings: Any,
) -> RunOutcome:
    """All steps for all corpora, as `dataprep run` does: only what is new since the last run.

    `only` are steps, corpora or folders; `wait` for another run to end. `report` also gets "step"
    with the folder and the reasons of a step that has something to do.
    """
    model, _ = _config(RunConfig, config, None, settings)

    def begin(todo: Todo) -> Report:
        report("step", {"step": todo.step.folder, "why": list(todo.reasons)})
        return report

    chain = StepChain(config=model, cache_dir=default_cache(), only=only)
    return run_all(chain, begin, wait=wait)


@overload
def tokenize_text(  # type: ignore[overload-overlap]  # a str is a Sequence[str], too
    text: str, tokenizer: PathLike, *, special_in_text: SpecialInTextMode = "parse"
) -> Ids: ...
@overload
def tokenize_text(
    text: Sequence[str], tokenizer: PathLike, *, special_in_text: SpecialInTextMode = "parse"
) -> list[Ids]: ...
def tokenize_text(
    text: str | Sequence[str],
    tokenizer: PathLike,
    *,
    special_in_text: SpecialInTextMode = "parse",
) -> Ids | list[Ids]:
    """Return the ids of a text, or of each of several, without BOS and EOS.

    A tokenizer is loaded once in a process, and again when its files change; the hub is asked once.

    >>> tokenize_text("hi", "bytes").tolist()
    [104, 105]
    """
    texts = _texts(text)
    files = _tokenizer(os.fspath(tokenizer))
    try:
        ids, offsets = encode_texts(_reference(files), texts)
        settled = SpecialInText(files, special_in_text, {}).settle(texts, ids, offsets)
    except BadTextsError as error:
        number, reason = min(error.reasons.items())
        raise InputError(f"text {number}: {reason}") from None
    found = np.split(settled.ids, settled.offsets[1:-1]) if texts else []
    return found[0] if isinstance(text, str) else found


def detokenize(ids: Sequence[int] | NDArray[np.integer[Any]], tokenizer: PathLike) -> str:
    """Return the text of ids; special tokens are shown, ids outside the vocabulary as <|id|>.

    >>> detokenize([104, 105], "bytes")
    'hi'
    """
    try:
        numbers = [operator.index(id) for id in ids]
    except TypeError as error:
        raise InputError(f"ids must be a list of whole numbers: {error}") from None
    if min(numbers, default=0) < 0:
        raise InputError(f"id {min(numbers)} is negative; the first id of a tokenizer is 0")
    return _decoder(_tokenizer(os.fspath(tokenizer)))(numbers)


def documents_by(dataset: PathLike, by: str) -> dict[str, NDArray[np.int64]]:
    """Return the numbers of the documents of a tokenized dataset by the value of a key in their
    records, such as "language", for which the raw files are read again; or by "source" or "file".
    """
    folder = dataset_folder(dataset)
    manifest = read_generation(folder)
    check_parts_there(folder, manifest)
    if not isinstance(manifest, TokenizedManifest):
        raise ConfigError(
            f"{folder} is {manifest.kind}; documents are those of a tokenized dataset, and a "
            "packed row may hold several"
        )
    return documents_of_groups(folder, manifest, by)


def _texts(given: str | Sequence[str]) -> list[str]:
    if isinstance(given, str):
        return [given]
    try:
        texts = list(given)
    except TypeError:
        raise InputError(f"{given!r} must be a text or a list of texts") from None
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {number}: must be a str, got {short(repr(text), 200)}")
    return texts


def _tokenizer(name: str) -> TokenizerFiles:
    """Look at the files anew: the working folder, or what is saved there, may be another by now."""
    is_there = os.path.exists(os.path.expanduser(name))
    if looks_like_hub_name(name) and not is_there:
        return _tokenizer_of_hub(name)
    return resolve_tokenizer(name, default_cache())


@lru_cache(maxsize=8)
def _tokenizer_of_hub(name: str) -> TokenizerFiles:
    return resolve_tokenizer(name, default_cache())


# By all that is known of the files, their hash and their special tokens among it.
@lru_cache(maxsize=8)
def _reference(files: TokenizerFiles) -> Engine:
    return load_reference(files)


@lru_cache(maxsize=8)
def _decoder(files: TokenizerFiles) -> Callable[[Sequence[int]], str]:
    return load_decoder(files)


def _told_in_python(model: type[Model]) -> AbstractContextManager[None]:
    """Let errors speak of settings instead of flags."""
    return flags_told({"": model}, in_python, switches=("overwrite",))


def _config(
    model: type[C], given: Any, section: str | None, settings: Mapping[str, Any]
) -> tuple[C, list[str]]:
    """Return the config, and the files that it was read from."""
    values: Mapping[str, Any] = {}
    files: list[str] = []
    if isinstance(given, Model):
        values = given.model_dump(exclude_unset=True)
    elif isinstance(given, Mapping):
        values = given
    elif isinstance(given, str | os.PathLike):
        files = [os.fspath(given)]
        is_data = kind_by_name(files[0]) and not files[0].endswith(".json")
        if os.path.isdir(given) or is_data:
            raise ConfigError(
                f"{files[0]} is no config, which the first argument is; to read it, write "
                f"inputs={files[0]!r}"
            )
    elif given is not None:
        files = _files(given)
    chosen = {key: _plain(value) for key, value in {**values, **settings}.items()}
    config = load_config(
        model, files=files, section=section, settings=chosen, by_hand="the arguments"
    )
    return config, files


def _files(given: Any) -> list[str]:
    try:
        return [os.fspath(file) for file in given]
    except TypeError:
        raise ConfigError(
            f"the config must be a file, a list of files, a mapping of settings or a model, "
            f"got {short(repr(given), 200)}"
        ) from None


def _plain(value: Any) -> Any:
    """Return paths as text, also those in lists and mappings."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
