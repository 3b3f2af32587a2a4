"""What decides a tokenized dataset: its fingerprint is the hash of this.

    sources   ["xxh3-128:99aa…", "xxh3-128:01bc…", …]     the content of each
    ways      [{"kind": "jsonl", "fields": "text", …}]    in which they are read, each once
    read_as   [[0, 1000000]]                              so many sources in turn, in that way

There may be a million sources: most are read alike, and of many only their number and the hash of
what stands above is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from dataprep.configs.tokenize import HOW_READ, TokenizeConfig
from dataprep.pipeline.documents.rules import Vocabulary
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.sources.known import version_of
from dataprep.pipeline.storage.manifest import FORMAT_VERSION
from dataprep.pipeline.storage.source_sums import told
from dataprep.pipeline.tokenize.chats import ChatPlan
from dataprep.pipeline.types import Source

# Keys that do not decide what is written.
NEUTRAL = frozenset(
    {
        *("inputs", "tokenizer", "out", "workers", "engine", "allow_empty", "max_errors"),
        *("max_ratio", "allow_duplicates", "task_timeout", "executor", "ray_address"),
        *("encode", "pack"),  # sections of other commands
    }
)
CHAT_NEUTRAL = {"replay", "template"}  # the template itself is part of the identity


def settings_told(config: TokenizeConfig, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the part of an identity that is the same whatever the sources are."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": "tokenized",
        "config": config.model_dump(
            mode="json", exclude={**dict.fromkeys(NEUTRAL, True), "chat": CHAT_NEUTRAL}
        ),
        "tags": {
            modality: {"start": list(tags.start), "end": list(tags.end)}
            for modality, tags in vocabulary.tags.items()
        },
        "tokenizer": {
            "sha256": vocabulary.files.sha256,
            "bos": vocabulary.files.bos_id,
            "eos": vocabulary.files.eos_id,
            "pad": vocabulary.files.pad_id,
        },
    }


def identity_parts(
    config: TokenizeConfig,
    vocabulary: Vocabulary,
    sources: Sequence[Source],
    inputs: Sequence[int],
    masks: Sequence[str],
    chats: Sequence[ChatPlan | None],
) -> dict[str, Any]:
    own = ("fields", "fields_from", "text_separator", "chat", "objective", "pretokenized")
    items = [
        item.model_dump(mode="json", include={*own, *HOW_READ}, exclude={"chat": CHAT_NEUTRAL})
        for item in config.inputs
    ]
    return {
        **settings_told(config, vocabulary),
        "masks": list(masks),
        "sources": told([source.fingerprint for source in sources]),
        **_ways(sources, inputs, items),
        # Of inputs that are read: others have no say in what is made.
        **({"chats": [_told(chats[i]) for i in dict.fromkeys(inputs)]} if any(chats) else {}),
    }


def _ways(
    sources: Sequence[Source], inputs: Sequence[int], items: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return how sources are read: each way once, and how many sources in turn are read in which,
    since there may be a million sources."""
    ways: dict[str, tuple[int, dict[str, Any]]] = {}  # by their text: inputs may be read alike

    def number_of(kind: str, compression: str, separator: str, start: int, item: int) -> int:
        way = {
            "kind": kind,
            "compression": compression,
            "separator": separator,
            **version_of(kind),
            **({"start": start} if start else {}),
            **items[item],
        }
        return ways.setdefault(fingerprint(way), (len(ways), way))[0]

    numbered = lru_cache(maxsize=None)(number_of)
    numbers = [
        numbered(source.kind, source.compression, source.separator, source.start, i)
        for source, i in zip(sources, inputs, strict=True)
    ]
    read_as = [[number, len(list(alike))] for number, alike in groupby(numbers)]
    return {"ways": [way for _, way in ways.values()], "read_as": read_as}


def _told(chat: ChatPlan | None) -> dict[str, Any] | None:
    return None if chat is None else chat.identity()
