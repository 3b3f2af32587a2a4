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

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.base import Model
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.export import ExportConfig
from dataprep.configs.flags import flags_told, in_python
from dataprep.configs.load import load_config
from dataprep.configs.pack import PackConfig
from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.encode.recipe import encode as make_encoded
from dataprep.pipeline.engine.objects import name_of_tokenizer
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.export.recipe import export as make_export
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.jobs.recipes import Outcome, Report
from dataprep.pipeline.look.groups import documents_of_groups
from dataprep.pipeline.pack.recipe import pack as make_packed
from dataprep.pipeline.run.chain import StepChain, Todo
from dataprep.pipeline.run.summary import RunOutcome, run_all
from dataprep.pipeline.sources import Spools
from dataprep.pipeline.sources.endings import kind_by_name
from dataprep.pipeline.sources.memory import handed_over
from dataprep.pipeline.storage.manifest import TokenizedManifest
from dataprep.pipeline.storage.parts import check_parts_there, read_generation
from dataprep.pipeline.storage.places import dataset_folder
from dataprep.pipeline.tokenize.processor import Processor
from dataprep.pipeline.tokenize.recipe import tokenize as make_tokenized

__all__ = [
    "Processor",
    "documents_by",
    "encode",
    "export",
    "pack",
    "processor",
    "run",
    "tokenize",
]

C = TypeVar("C", bound=Model)
PathLike = str | os.PathLike[str]


def tokenize(
    config: TokenizeConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    overwrite: bool = False,
    report: Report = silent,
    **settings: Any,
) -> Outcome:
    """Raw corpora to a tokenized dataset, as `dataprep tokenize` does.

    An input may also be records: an iterable of mappings or of texts, or a dataset of `datasets`.
    """
    with _told_in_python(TokenizeConfig), _without_records(config, settings) as (named, spools):
        model, files = _config(TokenizeConfig, config, None, named)
        return make_tokenized(
            model,
            cache_dir=default_cache(),
            overwrite=overwrite,
            report=report,
            reads=files,
            spools=spools,
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
    """Pictures, videos and sounds to codes, as `dataprep encode` does.

    An input may also be records, as in `tokenize`, with pictures as bytes, of PIL or as arrays of
    u8[height, width, 3], and sounds as bytes or {"array": f32[samples], "sampling_rate": 16000}.
    """
    with (
        _told_in_python(EncodeConfig),
        _without_records(config, settings, media=True) as (named, spools),
    ):
        model, files = _config(EncodeConfig, config, "encode", named)
        return make_encoded(
            model,
            cache_dir=default_cache(),
            overwrite=overwrite,
            report=report,
            reads=files,
            spools=spools,
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


def processor(
    config: TokenizeConfig | Mapping[str, Any] | PathLike | Sequence[PathLike] | None = None,
    /,
    *,
    index: int = 0,
    examples: Sequence[Mapping[str, Any]] = (),
    **settings: Any,
) -> Processor:
    """Make documents of single records, as `tokenize` with these settings would write them.

    `index` is the input whose own settings count, if the config has several; `examples` are records
    that tell the form of conversations, else the first one that is processed does.
    """
    with _told_in_python(TokenizeConfig):
        model, _ = _config(TokenizeConfig, config, None, settings)
        return Processor(model, default_cache(), index=index, examples=examples)


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


@contextmanager
def _without_records(
    config: Any, settings: Mapping[str, Any], *, media: bool = False
) -> Iterator[tuple[Mapping[str, Any], Spools]]:
    """Yield settings that name their inputs, and the files that keep those that are records."""
    given = {**config, **settings} if isinstance(config, Mapping) else settings
    with handed_over(given.get("inputs", ()), media=media) as (inputs, spools):
        yield ({**settings, "inputs": inputs} if spools else settings), spools


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
    if "tokenizer" in chosen:
        chosen["tokenizer"] = name_of_tokenizer(chosen["tokenizer"], default_cache())
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
