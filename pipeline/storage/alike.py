"""Whether the ids of two datasets mean the same, so that one model can be trained on both.

    difference(a, b)    "tokenizer 3f1c… is not 9a07…", or '' where they go together

The tags and codes of a modality count only where both datasets have blocks of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, blocks_among

TokensManifest = TokenizedManifest | PackedManifest

# Settings of a modality that say what is taken of the input, not what its ids are. Tags are
# compared as ids, whatever text they were given as.
_NOT_OF_IDS = {"fields", "max_frames", "partial_frame", "raw_dtype", "start", "end"}


def difference(mine: TokensManifest, theirs: TokensManifest) -> str:
    """Return the first thing in which the ids of two datasets differ, or ''."""
    for name, one, other in _compared(mine, theirs):
        if one != other:
            return f"{name} {one} is not {other}"
    return ""


def _compared(mine: TokensManifest, theirs: TokensManifest) -> Iterator[tuple[str, Any, Any]]:
    yield "tokenizer", mine.tokenizer.sha256, theirs.tokenizer.sha256
    yield "vocab_size", mine.tokenizer.vocab_size, theirs.tokenizer.vocab_size
    yield "token_dtype", mine.token_dtype, theirs.token_dtype
    yield "pad", _pad(mine), _pad(theirs)
    for modality in blocks_among([mask for mask in _used(mine) if mask in _used(theirs)]):
        yield f"tags of {modality}", _tags(mine, modality), _tags(theirs, modality)
        yield f"{modality} settings", _settings(mine, modality), _settings(theirs, modality)


def _pad(manifest: TokensManifest) -> int | None:
    return manifest.pad if isinstance(manifest, PackedManifest) else manifest.tokenizer.pad


def _used(manifest: TokensManifest) -> list[str]:
    """Return the masks that mark any token; a tokenized dataset may list others too."""
    if isinstance(manifest, PackedManifest):
        return list(manifest.masks)
    return [mask for mask in manifest.masks if manifest.counts[MASKS[mask].count]]


def _tags(manifest: TokensManifest, modality: str) -> Any:
    tags = manifest.tags_of(modality)
    return tags and (tags.start, tags.end)


def _settings(manifest: TokensManifest, modality: str) -> Any:
    sections = manifest.config.get("modalities")
    section = sections.get(modality) if isinstance(sections, dict) else None
    if not isinstance(section, dict):
        return section
    return {key: value for key, value in section.items() if key not in _NOT_OF_IDS}
