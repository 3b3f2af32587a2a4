"""Publish work that elements of a task array have done, of whatever command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from dataprep.pipeline.encode.recipe import recipe_begun as encode_begun
from dataprep.pipeline.jobs.finalize import FindRecipe, publish_begun
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.pack.recipe import recipe_begun as pack_begun
from dataprep.pipeline.tokenize.recipe import recipe_begun as tokenize_begun


def finalize(out: str, cache_dir: Path) -> Outcome:
    """Publish the dataset in this folder, or find it complete."""
    recipes: Mapping[str, FindRecipe] = {
        "encoded": partial(encode_begun, cache_dir=cache_dir),
        "tokenized": partial(tokenize_begun, cache_dir=cache_dir),
        "packed": pack_begun,
    }
    return publish_begun(out, recipes)
