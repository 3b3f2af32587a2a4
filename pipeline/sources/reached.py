"""Find out in two seconds whether `datasets` can load a name, which would ask for half a minute.

    the hub has it            nothing is done
    the hub is busy (503)     nor here: `datasets` asks again
    it cannot be reached,     what the cache of `datasets` has, and nothing else is asked for;
    or has no such dataset    without that an InputError, with names like it
    hf:json, hf:text          refused: readers of `datasets`, which would read the working folder

What is in the cache is known by its folder, so that `datasets` need not be imported to say no.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.hub import (
    BusyError,
    UnansweredError,
    cached_names,
    did_you_mean,
    is_hub_name,
    nearest,
    newest_commit,
)

# Names that `datasets` takes for a way to read files, not for a dataset.
READERS = {
    *("arrow", "audiofolder", "conll", "csv", "eval", "fasta", "fastq", "genbank", "hdf5"),
    *("iceberg", "imagefolder", "json", "lance", "meshfolder", "niftifolder", "pandas", "parquet"),
    *("pdffolder", "spark", "sql", "text", "tsfile", "videofolder", "webdataset", "xml"),
}
# Open datasets that people use.
WELL_KNOWN_DATASETS = (
    *("HuggingFaceFW/fineweb", "HuggingFaceFW/fineweb-edu", "HuggingFaceFW/fineweb-2"),
    *("Salesforce/wikitext", "wikimedia/wikipedia", "allenai/c4", "allenai/dolma"),
    *("Skylion007/openwebtext", "roneneldan/TinyStories", "mlfoundations/dclm-baseline-1.0"),
    *("monology/pile-uncopyrighted", "cerebras/SlimPajama-627B", "HuggingFaceTB/smollm-corpus"),
    *("bigcode/the-stack", "bigcode/the-stack-v2", "openai/gsm8k", "tatsu-lab/alpaca"),
    *("HuggingFaceH4/ultrachat_200k", "HuggingFaceH4/ultrafeedback_binarized"),
    *("databricks/databricks-dolly-15k", "OpenAssistant/oasst1", "Open-Orca/OpenOrca"),
    *("teknium/OpenHermes-2.5", "allenai/tulu-3-sft-mixture", "Anthropic/hh-rlhf"),
    *("stanfordnlp/imdb", "rajpurkar/squad", "nyu-mll/glue", "cais/mmlu"),
)


@contextmanager
def reached(name: str, place: str) -> Iterator[None]:
    """Ask the hub for a dataset once; in the body, only the cache serves if that was in vain."""
    if name in READERS:
        raise InputError(
            f"{place} is a reader of `datasets`, not a dataset: it would read what is in the "
            "working folder; name the files instead, such as 'data/*.jsonl'"
        )
    if not (is_hub_name(name) or os.path.exists(name) or name.startswith("buckets/")):
        raise InputError(
            f"{place}: no such folder, and no name of the hub; write hf:ORG/NAME[:CONFIG][@SPLIT]"
        )
    unanswered = _ask(name) if is_hub_name(name) else ""
    if not unanswered:
        yield
        return
    cached = _in_datasets_cache()
    if _letters(name) not in {_letters(each) for each in cached}:
        raise _not_found(name, place, unanswered, cached)
    with _offline():
        yield


def _ask(name: str) -> str:
    """Return why the hub does not have it; "" if it has, or may be asked again."""
    try:
        newest_commit(name, "README.md", kind="dataset")
    except BusyError:
        return ""
    except UnansweredError as error:
        return str(error)
    return ""


def _not_found(name: str, place: str, unanswered: str, cached: list[str]) -> InputError:
    names = {*WELL_KNOWN_DATASETS, *cached_names("datasets"), *cached} - {name}
    return InputError(
        f"{place} not found: not in the local cache of `datasets`, nor on the Hugging Face hub, "
        f"which {unanswered}.{did_you_mean(nearest(name, names))} Check the name and the network, "
        "or name local files"
    )


def _in_datasets_cache() -> list[str]:
    """Return the names of the datasets that `datasets` has loaded before."""
    from huggingface_hub.constants import HF_HOME

    cache = os.environ.get("HF_DATASETS_CACHE", os.path.join(HF_HOME, "datasets"))
    with suppress(OSError):
        return ["/".join(name.split("___")) for name in sorted(os.listdir(cache))]
    return []


def _letters(name: str) -> str:
    """Return a name as it is compared: `datasets` writes TinyStories as tiny_stories.

    >>> _letters("roneneldan/TinyStories") == _letters("roneneldan/tiny_stories")
    True
    """
    return re.sub(r"[^a-z0-9/]", "", name.lower())


@contextmanager
def _offline() -> Iterator[None]:
    """Let `datasets` take what it has."""
    from datasets import config

    before = config.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = before
