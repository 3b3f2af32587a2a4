"""A document or row as people can read it: spans of text, and blocks of codes by their shape.

tokens  1 100 90 10 11 8192 30 31 8193 91     loss 0 0 1…     vision 0 0 0 1 1 1 1 1 1 0
spans   "<s>a" without loss, "<vision>" with, <vision 2×2> with, "</vision>" with
runs    vision, tokens 3..9
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.load import recorded
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.look.origins import Origin, PieceOrigin, origin_of
from dataprep.pipeline.modalities import BLOCKS
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, runs_of_parts
from dataprep.pipeline.storage.turns import ROLES, find_turns, roles_of
from dataprep.pipeline.types import MODALITIES

Decode = Callable[[Sequence[int]], str]
Item = Mapping[str, NDArray[Any]]  # tokens, their masks and, of a row, segment_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    text: str
    loss: bool
    weight: float  # of its tokens in the loss, where the dataset has weights
    modality: str  # "text", "padding" or the mask's name
    start: int  # its first token
    num_tokens: int
    segment: int  # from 1; 0 is padding
    side: str = ""  # encoder or decoder, where documents have two sides


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive codes of one modality in one segment, with or without loss."""

    modality: str
    segment: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The part of a document that a segment holds; a document by itself is one segment."""

    folder: Path  # of the tokenized dataset, which may be gone
    origin: Origin
    document: int
    start: int  # the token of the document that the segment starts with
    blocks: Mapping[str, Block]


def whole_document(folder: Path, manifest: TokenizedManifest, document: int) -> Segment:
    return Segment(
        folder=folder,
        origin=origin_of(folder, manifest, document),
        document=document,
        start=0,
        blocks=layout_of(manifest, folder),
    )


def segments_of_row(
    folder: Path, manifest: PackedManifest, pieces: Sequence[PieceOrigin]
) -> list[Segment]:
    """Return the segments of a row of the packed dataset `manifest`, one for each piece."""
    blocks = layout_of(manifest, folder)
    return [
        Segment(
            folder=Path(piece.dataset),
            origin=piece.origin,
            document=piece.document,
            start=0 if piece.head else piece.start,
            blocks=blocks,
        )
        for piece in pieces
    ]


def layout_of(manifest: TokenizedManifest | PackedManifest, folder: Path) -> dict[str, Block]:
    """Return how the blocks of each modality of a dataset are laid out."""
    config = recorded(TokenizeConfig, manifest.config, folder)
    blocks: dict[str, Block] = {}
    for modality in MODALITIES:
        tags = manifest.tags_of(modality)
        if modality in manifest.masks and tags is not None:
            start, end = np.array(tags.start, np.uint32), np.array(tags.end, np.uint32)
            section = config.modalities.section(modality)
            blocks[modality] = BLOCKS[modality](section, start, end)
    return blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn of a conversation: a user's message with all that follows up to the next."""

    start: int  # its first token
    num_tokens: int
    roles: tuple[str, ...]  # of its messages


def turns_of(document: Item) -> list[Turn]:
    """Return the turns of a document; what stands before the first is of none."""
    values = document.get("turns")
    if values is None:
        return []
    length = len(values)
    _, starts = find_turns(
        runs_of_parts(values, np.ones(length, np.int64)), np.array([length], np.int64)
    )
    return [
        Turn(start=start, num_tokens=stop - start, roles=_roles(values[start:stop]))
        for start, stop in pairwise([*starts.tolist(), length])
    ]


def _roles(values: NDArray[Any]) -> tuple[str, ...]:
    return tuple(ROLES[role] for role in roles_of(np.unique(values)).tolist())


class HasBlocks(Protocol):
    """Knows how the blocks of each modality are laid out."""

    @property
    def blocks(self) -> Mapping[str, Block]: ...


def spans_of(item: Item, decode: Decode, segments: Sequence[HasBlocks]) -> list[Span]:
    """Cut a document or row where its loss, modality, side or segment changes."""
    tokens, loss, numbers = item["tokens"], item["loss_mask"].astype(bool), _segment_ids(item)
    names, kinds = _modalities(item)
    spans = []
    weights = item.get("loss_weights", loss.astype(np.float32))
    sides, of_side = sides_of(item)
    for start, stop in _ranges(loss, weights, kinds, numbers, of_side):
        ids, segment, modality = tokens[start:stop], int(numbers[start]), names[kinds[start]]
        if not segment:
            text, modality = f"<padding {len(ids)}>", "padding"
        elif modality == "text":
            text = decode(ids.tolist())
        else:
            shape = segments[segment - 1].blocks[modality].shape(len(ids))
            text = f"<{modality} {shape}>"
        spans.append(
            Span(
                text=text,
                loss=bool(loss[start]),
                weight=float(weights[start]),
                modality=modality,
                start=start,
                num_tokens=len(ids),
                segment=segment,
                side=sides[of_side[start]] if segment else "",
            )
        )
    return spans


def sides_of(item: Item) -> tuple[list[str], NDArray[np.int8]]:
    """Return the names of the sides, and the number of the name of each token."""
    for kind in MASKS.values():
        if kind.side and kind.array in item:
            return [kind.other, kind.name], item[kind.array].astype(np.int8)
    return [""], np.zeros(len(item["tokens"]), np.int8)


def runs_of(item: Item) -> list[Run]:
    """Return the blocks of codes, in order."""
    numbers = _segment_ids(item)
    names, kinds = _modalities(item)
    return [
        Run(modality=names[kinds[start]], segment=int(numbers[start]), start=start, stop=stop)
        for start, stop in _ranges(kinds, numbers)
        if kinds[start]
    ]


def _segment_ids(item: Item) -> NDArray[Any]:
    return item.get("segment_ids", np.ones(len(item["tokens"]), np.int32))


def _modalities(item: Item) -> tuple[list[str], NDArray[np.int8]]:
    """Return names, and the number of the name of each token: 0 is text."""
    names = ["text", *(name for name in MODALITIES if f"{name}_mask" in item)]
    kinds = np.zeros(len(item["tokens"]), np.int8)
    for number, name in enumerate(names[1:], 1):
        kinds[item[f"{name}_mask"].astype(bool)] = number
    return names, kinds


def _ranges(*arrays: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield ranges in which none of the arrays changes."""
    length = len(arrays[0])
    changes = np.zeros(max(length - 1, 0), bool)
    for values in arrays:
        changes |= values[1:] != values[:-1]
    cuts = (np.flatnonzero(changes) + 1).tolist()
    return pairwise([0, *cuts, length]) if length else iter(())
