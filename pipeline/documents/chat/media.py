"""Pictures, sounds and videos among the parts of a message: codes that become blocks in place.

content   [{"type": "image", "codes": [5, 9]}, {"type": "text", "text": "what is it?"}]
template  is given the part without its codes, and writes something for it: <image>what is it?
document  the block of codes stands where that was

Which text a template writes for a part is known from the loop over the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.assemble import Layout
from dataprep.pipeline.documents.chat.lay import Laid
from dataprep.pipeline.documents.chat.marks import MediaPart
from dataprep.pipeline.documents.codes import NotCodesError, integers_of
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.errors import short
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.storage.masks import TURN_DTYPE
from dataprep.pipeline.types import Ids, Offsets

MODALITY_OF = {
    **dict.fromkeys(("image", "image_url", "input_image", "video", "vision"), "vision"),
    **dict.fromkeys(("audio", "input_audio", "sound"), "audio"),
}


class Medium(NamedTuple):
    modality: str
    codes: Any  # in any form that `codes` reads
    label: str  # message 1, content[0]


def take_media(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], tuple[Medium, ...]]:
    """Return the messages without codes, and the media in order; ValueError if one has no codes."""
    found: list[Medium] = []
    given: list[Mapping[str, Any]] = []
    for number, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list):
            parts = [
                _taken(part, f"message {number + 1}, content[{i}]", found)
                for i, part in enumerate(content)
            ]
            message = {**message, "content": parts}
        given.append(message)
    return given, tuple(found)


def media_in(message: Mapping[str, Any]) -> list[MediaPart]:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return [part for part in parts if isinstance(part, MediaPart)]


def _taken(part: Mapping[str, Any], label: str, found: list[Medium]) -> Mapping[str, Any]:
    kind = part.get("type")
    modality = MODALITY_OF.get(kind) if isinstance(kind, str) else None
    if modality is None:
        return part
    keys = [key for key in ("codes", modality) if isinstance(part.get(key), list | str | bytes)]
    if not keys:
        raise ValueError(
            f"{label} is of type {short(repr(kind))}, but has no codes; make them with "
            "`dataprep encode`, and put them under 'codes'"
        )
    found.append(Medium(modality, part[keys[0]], label))
    return MediaPart(len(found) - 1, {k: v for k, v in part.items() if k not in keys})


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A medium in a document."""

    medium: Medium
    weight: float
    turn: int  # as in `storage.turns`


Item = int | Placed  # the number of a text, or a medium


class TextIds(NamedTuple):
    """A text, encoded."""

    ids: Ids
    weights: NDArray[np.float64]
    turns: NDArray[Any]


def split_at_media(laid: Laid, media: Sequence[Medium]) -> list[Laid | Placed]:
    """Return the texts between media, and the media."""
    items: list[Laid | Placed] = []
    start = 0
    for i, number in enumerate(laid.media):
        if number < 0:
            continue
        placed = Placed(medium=media[number], weight=laid.weights[i], turn=laid.turns[i])
        items += [_between(laid, start, i), placed]
        start = i + 1
    return [*items, _between(laid, start, len(laid.strings))]


def _between(laid: Laid, start: int, stop: int) -> Laid:
    return replace(
        laid,
        strings=laid.strings[start:stop],
        weights=laid.weights[start:stop],
        is_content=laid.is_content[start:stop],
        messages=laid.messages[start:stop],
        media=laid.media[start:stop],
        turns=laid.turns[start:stop],
    )


def layout_with_media(
    documents: Sequence[Sequence[Item]],
    texts: Sequence[TextIds],
    blocks: Mapping[str, Block],
    *,
    bos: Ids,
    eos: Ids,
    kept: Sequence[int],
) -> tuple[Layout | None, dict[int, str]]:
    """Return the documents, or what is wrong with the codes of which of them."""
    parts = Parts()
    turns: list[int] = []  # of each part
    reasons: dict[int, str] = {}
    for number, items in enumerate(documents):
        if len(bos):
            parts.add_ids(bos, 0.0)
            turns.append(0)
        for item in items:
            if isinstance(item, int):
                turns += _add_runs(parts, texts[item])
                continue
            medium = item.medium
            block = blocks[medium.modality]
            try:
                codes = integers_of(medium.codes, block.raw_dtype, may_nest=block.may_nest)
                flat = block.flatten(codes)
            except (NotCodesError, ValueError) as error:
                reasons[number] = f"{medium.label} {error}"
                flat = np.zeros(0, np.int64)
            parts.add_block(flat, medium.modality, block, item.weight, medium.label)
            turns += [item.turn] * (len(parts.lengths) - len(turns))  # with its tags
        if len(eos):
            parts.add_ids(eos, 1.0)
            turns.append(turns[-1])
        parts.end_document()
    reasons = parts.code_faults(blocks) | reasons
    if reasons:
        return None, reasons
    return replace(parts.wrapped(blocks, kept), turn=np.array(turns, TURN_DTYPE)), {}


def _add_runs(parts: Parts, text: TextIds) -> list[int]:
    """Add a text as runs of equal weight and turn; return the turns."""
    ids, weights, turns = text
    if not len(ids):  # between two media
        return []
    changes = (weights[1:] != weights[:-1]) | (turns[1:] != turns[:-1])
    starts: Offsets = np.flatnonzero(np.append(True, changes))
    for start, stop in zip(starts, np.append(starts[1:], len(ids)), strict=True):
        parts.add_ids(ids[start:stop], float(weights[start]))
    found: list[int] = turns[starts].tolist()
    return found
