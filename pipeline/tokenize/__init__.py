"""`dataprep tokenize`: raw corpora to a tokenized dataset.

recipe       what make_dataset needs to know about this command
vocabulary   special ids and tags, by the tokenizer's files and the config
objectives   the tokens that objectives add; objectives that do not suit their input
adopt        settings that the encoders of codes give, put into the config
chats        the form of conversations, and the templates for them
preview      what some records tell of all, before the run
engines      how much there is to encode ─► which engine does it
first_keys   keys of the first record of an input; masks that are one place ahead
notes        what a user should know before the run starts
reading      how files without a schema are read
identity     what decides the dataset: its fingerprint is the hash of this
told         the plan in files, of which each worker reads what it needs
plan         inputs ─► sources ─► pieces ─► tasks
processor    one record ─► its document, in this process
worker       a task: read ─► documents ─► shards
careful      records that may kill the worker, cut out of their batch
sample       a small part of the texts, encoded again by the reference
sink         documents ─► shards, index, provenance, marker
media        what `encode` made the codes of, kept beside the documents
manifest     markers of the tasks ─► the manifest, and where files go
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.tokenize.recipe import (
        plan_of,
        planned,
        tokenize,
        tokenize_share,
    )

__all__ = ["plan_of", "planned", "tokenize", "tokenize_share"]


def __getattr__(name: str) -> Any:
    # Imported on first use: workers import this package too, and need none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.tokenize.recipe"), name)
