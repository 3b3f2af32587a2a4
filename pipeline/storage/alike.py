"""Whether the ids of two datasets mean the same, so that one model can be trained on both.

    difference(a, b)            "tokenizer gpt2 (sha256 3f1c…) is not bert (…)", or ''
    difference_among([a, b, c]) the first dataset that differs from one before it, that one, and how

The tags and codes of a modality count only where both datasets have blocks of it. So a dataset is
compared with the first that has them, whatever the very first has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, blocks_among

TokensManifest = TokenizedManifest | PackedManifest

# Settings of a modality that say what is taken of the input, not what its ids are. Tags are
# compared as ids, whatever text they were given as.
_NOT_OF_IDS = {"fields", "max_frames", "partial_frame", "raw_dtype", "start", "end"}


def difference(mine: TokensManifest, theirs: TokensManifest) -> str:
    """Return the first thing in which the ids of two datasets differ, or ''."""
    if mine.tokenizer.sha256 != theirs.tokenizer.sha256:
        return f"tokenizer {_tokenizer(mine)} is not {_tokenizer(theirs)}"
    for name, one, other in _compared(mine, theirs):
        if one != other:
            return f"{name} {one} is not {other}"
    return ""


def difference_among(manifests: Sequence[TokensManifest]) -> tuple[int, int, str] | None:
    """Return which dataset cannot go with which one before it, and why; None if all can."""
    users: dict[str, int] = {}  # the first dataset that has blocks of a modality
    for number, manifest in enumerate(manifests):
        own = blocks_among(_used(manifest))
        for other in sorted({0, *(users.setdefault(modality, number) for modality in own)}):
            found = difference(manifest, manifests[other])
            if found:
                return number, other, found
    return None


def user_of(modality: str, manifests: Sequence[TokenizedManifest]) -> TokenizedManifest:
    """Return the first dataset that has blocks of a modality, else the first that may have."""
    able = [manifest for manifest in manifests if manifest.tags_of(modality) is not None]
    return next((manifest for manifest in able if modality in _used(manifest)), able[0])


def sections_of(manifest: TokensManifest) -> Json:
    """Return the settings of all modalities, as they stand in the config."""
    sections = manifest.config.get("modalities")
    return sections if isinstance(sections, dict) else {}


def _tokenizer(manifest: TokensManifest) -> str:
    """Return what a tokenizer was called when it was used, with the beginning of its hash."""
    return f"{manifest.config.get('tokenizer')} (sha256 {manifest.tokenizer.sha256[:8]}…)"


def _compared(mine: TokensManifest, theirs: TokensManifest) -> Iterator[tuple[str, Any, Any]]:
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
    section = sections_of(manifest).get(modality)
    if not isinstance(section, dict):
        return section
    return {key: value for key, value in section.items() if key not in _NOT_OF_IDS}
