"""Names like a tokenizer name that was not found.

"qwen/qwen3-8"  ->  ["Qwen/Qwen3-8B"]        well known, or in the local cache of the hub
"tok/gtp2"      ->  ["tok/gpt2"]             a folder that has a tokenizer, beside the one meant
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path

from dataprep.pipeline.engine.models import DEFINING
from dataprep.pipeline.engine.special import CONFIG_FILES
from dataprep.pipeline.guards.hub import NUM_NEAR, cached_names, nearest

MOST_BESIDE = 1000  # entries of a folder that are looked at

# Open tokenizers that people use, one of each kind.
WELL_KNOWN = (
    *("openai-community/gpt2", "Xenova/gpt-4", "EleutherAI/gpt-neox-20b"),
    *("Qwen/Qwen3-8B", "Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1", "allenai/OLMo-2-1124-7B"),
    *("meta-llama/Llama-3.1-8B", "meta-llama/Llama-2-7b-hf", "google/gemma-2-9b"),
    *("deepseek-ai/DeepSeek-V3", "microsoft/phi-4", "HuggingFaceTB/SmolLM2-1.7B"),
    *("google-bert/bert-base-uncased", "FacebookAI/roberta-base", "google-t5/t5-base"),
    *("bigscience/bloom", "tiiuae/falcon-7b", "bigcode/starcoder2-7b", "openai/gpt-oss-20b"),
)


def near_names(name: str) -> list[str]:
    """Return names like this one: of files and folders, then of the hub."""
    of_hub = nearest(name, {*WELL_KNOWN, *cached_names("models")} - {name})
    return [*beside(Path(name)), *of_hub][:NUM_NEAR]


def beside(path: Path) -> list[str]:
    """Return the tokenizers whose path differs only in the first part that is not there.

    tok/gtp2/tokenizer.json  ->  [tok/gpt2/tokenizer.json], if `tok` is a folder
    """
    wrong = next((part for part in (path, *path.parents) if part.parent.is_dir()), path)
    rest = path.relative_to(wrong)
    found: list[str] = []
    with suppress(OSError), os.scandir(wrong.parent) as entries:
        names = [entry.name for entry in islice(entries, MOST_BESIDE)]
        found = [name for name in names if _is_tokenizer(wrong.parent / name / rest)]
    return [str(wrong.parent / name / rest) for name in nearest(wrong.name, found)]


def _is_tokenizer(path: Path) -> bool:
    if path.suffix in {Path(name).suffix for name in DEFINING} and path.name not in CONFIG_FILES:
        return path.is_file()
    return any((path / name).is_file() for name in DEFINING)
