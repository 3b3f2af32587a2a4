"""Columns of codes: of which modality they are, and how their blocks are framed.

    vision        [754, 1512, …] of 256       ─► nothing to say: the defaults fit
    image_codes   [17, 4, …] of 64, up to 511 ─► modalities.vision: fields, tokens_per_frame 64
    audio         [[…], […]]                  ─► modalities.audio: codebooks 2
    input_ids     ids of a tokenizer, no codes

A dataset that `encode` wrote says itself what made its codes, so that nothing need be said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dataprep.configs.modalities import AudioConfig, ModalitiesConfig, VisionConfig
from dataprep.pipeline.documents.codes import Integers, integers_of
from dataprep.pipeline.documents.fields import Grammar
from dataprep.pipeline.sniff.columns import Column
from dataprep.pipeline.types import MODALITIES

NAMES = {
    "vision": re.compile(r"vision|image|img|picture|photo|video|frame|pixel|code", re.I),
    "audio": re.compile(r"audio|sound|speech|voice|wav|music", re.I),
}
IDS = re.compile(
    r"(input_|token_|tokens?_)?ids|(input_|target_)?tokens|labels|attention_mask", re.I
)
# Of a picture or sound, and yet none of its codes: image_size, video_ids.
FACTS = re.compile(
    r".*(ids?|ind(ex|ices)|offsets?|counts?|sizes?|shape|width|height|len(gths?)?)", re.I
)
SMALLEST_FRAME = 16  # codes: a smaller common measure of lengths is chance

DEFAULTS = ModalitiesConfig()
GRAMMAR = Grammar(
    codes=tuple((m, DEFAULTS.section(m).fields) for m in MODALITIES), segments=DEFAULTS.segments
)


def modality_of(column: Column, made: Mapping[str, str]) -> str:
    """Return the modality whose codes a column holds, or ''; `made` says it of some columns."""
    by_glob = GRAMMAR.modality_of(column.key)
    if column.key in made:
        return made[column.key]
    if column.kind == "integers":
        return by_glob or ("" if is_ids(column) else _by_name(column))
    return by_glob if column.kind in ("texts", "bytes") and _integers(column) else ""


def is_ids(column: Column) -> bool:
    """Return whether a column seems to hold the ids of a tokenizer."""
    last = column.key.rpartition(".")[2]
    return column.kind == "integers" and bool(IDS.fullmatch(last))


def section_for(column: Column, modality: str, made: Mapping[str, str]) -> dict[str, Any]:
    """Return what the section of a modality must say, besides its defaults, about a column."""
    section: dict[str, Any] = {}
    if GRAMMAR.modality_of(column.key) != modality:
        section["fields"] = [column.key]
    arrays = _integers(column)
    if column.key in made or not arrays:
        return section
    highest = max(int(array.max()) for array in arrays if array.size)
    return {**section, **_FRAMES[modality](arrays, highest + 1)}


def _by_name(column: Column) -> str:
    last = column.key.rpartition(".")[2]
    if FACTS.fullmatch(last) or min(map(np.size, column.values)) < SMALLEST_FRAME:
        return ""
    return next((m for m in reversed(MODALITIES) if NAMES[m].search(last)), "")


def _integers(column: Column) -> list[Integers]:
    """Return the codes of the records, in whatever form they have them; [] if they are none."""
    raw_dtype = np.dtype(np.int32)
    try:
        found = [integers_of(value, raw_dtype, may_nest=True) for value in column.values]
    except ValueError:
        return []
    found = [array for array in found if array.size]
    return found if all(int(array.min()) >= 0 for array in found) else []


def _vision(arrays: Sequence[Integers], size: int) -> dict[str, Any]:
    default = VisionConfig()
    measure = math.gcd(*(array.size for array in arrays))
    section: dict[str, Any] = {}
    if measure % default.tokens_per_frame and measure >= SMALLEST_FRAME:
        section["tokens_per_frame"] = measure
    if size > default.codebook_size:
        size = _power_of_two(size)
        section |= {"codebook_size": size, "end_of_frame": size, "end_of_media": size + 1}
    return section


def _audio(arrays: Sequence[Integers], size: int) -> dict[str, Any]:
    books = {len(array) for array in arrays if array.ndim == 2}
    section: dict[str, Any] = {"codebooks": books.pop()} if len(books) == 1 else {}
    if size > AudioConfig().codebook_size:
        section["codebook_size"] = _power_of_two(size)
    return section


_FRAMES = {"vision": _vision, "audio": _audio}


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
