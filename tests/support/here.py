"""Make datasets inside the test's own process: the whole of `make_dataset`, without workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.encode.recipe import recipe_of as encode_recipe
from dataprep.pipeline.jobs import make_dataset
from dataprep.pipeline.jobs.executors import EXECUTORS, JobError, Message
from dataprep.pipeline.jobs.recipes import Recipe
from dataprep.pipeline.pack.recipe import recipe_of as pack_recipe
from dataprep.pipeline.tokenize.recipe import recipe_of as tokenize_recipe

Happens = Callable[[Path], None]  # something that happens to the work folder


def nothing(work: Path) -> None:
    pass


def recipe_for(command: str, out: Path, values: Mapping[str, Any]) -> Recipe[Any, Any]:
    """Return the recipe of a command for the values of its config."""
    whole, cache = {**values, "out": str(out)}, out.parent / "cache"
    if command == "tokenize":
        return tokenize_recipe(TokenizeConfig.model_validate(whole), cache)
    if command == "encode":
        return encode_recipe(EncodeConfig.model_validate(whole), cache)
    return pack_recipe(PackConfig.model_validate(whole))


def make_here(
    command: str,
    out: Path,
    values: Mapping[str, Any],
    *,
    before: Happens = nothing,
    after_job: Happens = nothing,
    after_jobs: Happens = nothing,
    overwrite: bool = False,
) -> None:
    """Make a dataset; something may happen before the jobs, after each, or after all."""

    def execute(
        jobs: Sequence[int],
        *,
        worker: str,
        work: Path,
        on_message: Callable[[Message], None],
        **unused: Any,
    ) -> None:
        before(work)
        run = import_module(worker).begin(work)

        def send(message: Message) -> None:
            if message["type"] != "at":
                on_message(message)

        for job in jobs:
            try:
                run(job, send)()
            except JobError as error:
                raise error.cause from None
            after_job(work)
        after_jobs(work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXECUTORS, "local", execute)  # type: ignore[arg-type]
        make_dataset(recipe_for(command, out, values), overwrite=overwrite)
