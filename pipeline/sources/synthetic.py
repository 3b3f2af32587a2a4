"""Names of made-up data, and the format that reads it.

    text     {"text": 4 to 2047 words with punctuation}
    image    {"vision": codes in 0..8191, 256 for each of 1 to 4 frames}
    audio    {"audio": 75 to 300 codes in 0..1023}
    paired   {"caption": words, "vision": codes, "fields": "[vision],caption"}

With a pattern, or several of which each record draws one, there is something to see and hear:

    text?pattern=palindromes                 {"text", "pattern"}
    image?pattern=digits&size=28&classes=10  {"image": PNG, "vision_codes": 256 of 0..8191, "text",
                                              "pattern", "label": of digits}
    audio?pattern=sine,chirp&seconds=1&rate=16000
                                             {"audio": WAV, "audio_codes": 0..255, "text",
                                              "audio_type"}
    paired?alignment_strength=0.8            {"image", "vision_codes", "audio", "audio_codes",
                                              "text", "alignment_score", "latent": 32 numbers}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import batch_rows, empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.media_files import png_of, wav_of
from dataprep.pipeline.synthetic import images, sounds, texts
from dataprep.pipeline.synthetic.draws import Raw, one_of, raw_of
from dataprep.pipeline.synthetic.pairs import make_pair
from dataprep.pipeline.types import Piece, Record, Records, Source

PREFIX = "synthetic:"
# Raise it when the records change, so that outputs made from the old records are not continued.
_VERSION = 1
Options = Mapping[str, str]
Wants = Callable[[str], bool]  # whether a key is read


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticKind:
    """One kind of data, plain or by patterns: what follows `synthetic:`."""

    plain: Callable[[Raw], Record]
    mean_bytes: int  # of a plain record
    by: str  # the option that asks for patterns
    patterns: tuple[str, ...]  # its values; none: a share of 0 to 1
    options: Mapping[str, str]  # of patterns, with their defaults
    patterned: Callable[[Raw, Options, Wants], Record]
    patterned_bytes: Callable[[Options], int]


def _texts(raw: Raw, options: Options, wants: Wants) -> Record:
    pattern = one_of(raw, options["pattern"].split(","))
    return {"text": texts.PATTERNS[pattern](raw), "pattern": pattern}


def _images(raw: Raw, options: Options, wants: Wants) -> Record:
    pattern = one_of(raw, options["pattern"].split(","))
    picture = images.PATTERNS[pattern](raw, *_sides(options), int(options["classes"]))
    label = {} if picture.label is None else {"label": picture.label}
    return {**_seen(picture.pixels, wants), "text": picture.text, "pattern": pattern, **label}


def _sounds(raw: Raw, options: Options, wants: Wants) -> Record:
    pattern = one_of(raw, options["pattern"].split(","))
    samples, text = sounds.PATTERNS[pattern](raw, *_length(options))
    return {**_heard(samples, options, wants), "text": text, "audio_type": pattern}


def _pairs(raw: Raw, options: Options, wants: Wants) -> Record:
    strength = round(Fraction(options["alignment_strength"]) * 65536)
    pair = make_pair(raw, strength, *_sides(options), *_length(options))
    return {
        **_seen(pair.pixels, wants),
        **_heard(pair.samples, options, wants),
        "text": pair.text,
        "alignment_score": pair.alignment_score,
        "latent": pair.latent,
    }


def _seen(pixels: images.Pixels, wants: Wants) -> dict[str, Any]:
    image = {"image": png_of(pixels)} if wants("image") else {}
    return {**image, **({"vision_codes": images.codes_of(pixels)} if wants("vision_codes") else {})}


def _heard(samples: sounds.Samples, options: Options, wants: Wants) -> dict[str, Any]:
    audio = {"audio": wav_of(samples, int(options["rate"]))} if wants("audio") else {}
    return {**audio, **({"audio_codes": sounds.codes_of(samples)} if wants("audio_codes") else {})}


def _sides(options: Options) -> tuple[int, int]:
    height, _, width = options["size"].partition("x")
    return int(height), int(width or height)


def _length(options: Options) -> tuple[int, int]:
    """Return the number of samples, and how many there are in a second."""
    rate = int(options["rate"])
    return max(1, round(Fraction(options["seconds"]) * rate)), rate


def _picture_bytes(options: Options) -> int:
    height, width = _sides(options)
    return 3 * height * width + 600


_OF_IMAGES, _OF_SOUNDS = {"size": "64"}, {"seconds": "1", "rate": "16000"}
KINDS: Mapping[str, SyntheticKind] = {
    "text": SyntheticKind(
        plain=lambda raw: {"text": texts.sentences(raw, max_doublings=8)},
        mean_bytes=1000,
        by="pattern",
        patterns=tuple(texts.PATTERNS),
        options={},
        patterned=_texts,
        patterned_bytes=lambda options: 100,
    ),
    "image": SyntheticKind(
        plain=lambda raw: {"vision": images.random_codes(raw)},
        mean_bytes=3200,
        by="pattern",
        patterns=tuple(images.PATTERNS),
        options={**_OF_IMAGES, "classes": "10"},
        patterned=_images,
        patterned_bytes=_picture_bytes,
    ),
    "audio": SyntheticKind(
        plain=lambda raw: {"audio": sounds.random_codes(raw)},
        mean_bytes=900,
        by="pattern",
        patterns=tuple(sounds.PATTERNS),
        options=_OF_SOUNDS,
        patterned=_sounds,
        patterned_bytes=lambda options: 3 * _length(options)[0],
    ),
    "paired": SyntheticKind(
        plain=lambda raw: {
            "caption": texts.sentences(raw, max_doublings=3),
            "vision": images.random_codes(raw),
            "fields": "[vision],caption",
        },
        mean_bytes=4200,
        by="alignment_strength",
        patterns=(),
        options={**_OF_IMAGES, **_OF_SOUNDS},
        patterned=_pairs,
        patterned_bytes=lambda options: _picture_bytes(options) + 3 * _length(options)[0],
    ),
}
_WHOLE, _DECIMAL = r"\d{1,19}", r"\d{1,6}(\.\d{1,6})?"
# What an option may be: a pattern, and the least and most of each number in it.
_VALUES: Mapping[str, tuple[str, int, int]] = {
    "n": (_WHOLE, 0, (1 << 63) - 1),
    "seed": (_WHOLE, 0, (1 << 63) - 1),
    "size": (r"\d{1,4}(x\d{1,4})?", 1, 4096),
    "classes": (_WHOLE, 1, len(images.NAMES)),
    "seconds": (_DECIMAL, 0, 60),
    "rate": (_WHOLE, 1000, 384000),
    "alignment_strength": (_DECIMAL, 0, 1),
}


def find_synthetic(spec: str) -> Source:
    name, _, query = spec.removeprefix(PREFIX).partition("?")
    if name not in KINDS:
        raise InputError(f"{spec}: no synthetic data called {name!r}; use {', '.join(KINDS)}")
    kind, given = KINDS[name], dict(parse_qsl(query, keep_blank_values=True))
    known = {"n": "1000", "seed": "0"}
    own = [] if kind.by not in given else [kind.by, *kind.options]
    for key, value in given.items():
        if key not in known and key not in own:
            more = f"; {', '.join(kind.options)} go with {kind.by}" if key in kind.options else ""
            raise InputError(f"{spec}: no option {key!r}; use {', '.join([*known, kind.by])}{more}")
        _check(spec, key, value, kind)
    options = {**known, **({} if not own else {kind.by: "", **kind.options}), **given}
    spelled = "&".join(f"{key}={value}" for key, value in options.items())
    plain = f"{options['n']}:{options['seed']}"
    chosen = {"what": name, **options}
    return Source(
        kind="synthetic",
        path=f"{PREFIX}{name}?{spelled}",
        num_bytes=int(options["n"]) * _mean_bytes(chosen),
        fingerprint=f"synthetic:{_VERSION}:{name}:{spelled if own else plain}",
        options=chosen,
    )


def _check(spec: str, key: str, value: str, kind: SyntheticKind) -> None:
    if key == "pattern":
        unknown = [name for name in value.split(",") if name not in kind.patterns]
        if unknown:
            raise InputError(
                f"{spec}: no pattern {unknown[0]!r}; use one or several of "
                f"{','.join(kind.patterns)}"
            )
        return
    pattern, least, most = _VALUES[key]
    if not re.fullmatch(pattern, value, re.ASCII):
        form = {_WHOLE: "a whole number", _DECIMAL: "a number"}.get(pattern, "such as 64 or 32x64")
        raise InputError(f"{spec}: {key} must be {form}, got {value!r}")
    if not all(least <= Fraction(number) <= most for number in value.split("x")):
        raise InputError(f"{spec}: {key} must be from {least} to {most}, got {value}")


class Synthetic(Format):
    """Pieces are records."""

    kind = "synthetic"
    prefix = PREFIX
    knows_rows = True

    def find(self, spec: str) -> list[Source]:
        return [find_synthetic(spec)]

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        return cuts.rows(int(source.options["n"]), _mean_bytes(source.options), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        num_lines = piece.stop - piece.start
        first_line = min(wanted.from_line, num_lines)
        size = _mean_bytes(source.options)
        yield empty_batch(next_line=first_line, num_bytes=first_line * size)
        indices = range(piece.start + first_line, piece.stop)
        rows = ((make(source, i, wanted.held_by, wanted.keys), size) for i in indices)
        yield from batch_rows(rows, wanted, first_line=first_line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start


def _mean_bytes(options: Options) -> int:
    kind = KINDS[options["what"]]
    return kind.patterned_bytes(options) if kind.by in options else kind.mean_bytes


def make(
    source: Source, index: int, held_by: HeldBy = nothing_held, keys: Keys | None = None
) -> Record:
    """Return record `index`; codes are an array under a key that holds codes, else a list.

    Of pictures and sounds, only what the keys name is made.
    """
    record = _make(source.options, index, lambda key: keys is None or key in keys.tops)
    if keys is not None and keys.lacking(record):  # all of it, so that its keys can be told
        record = _make(source.options, index, lambda key: True)
    return {
        key: value.tolist() if isinstance(value, np.ndarray) and not held_by(key) else value
        for key, value in record.items()
    }


def _make(options: Options, index: int, wants: Wants) -> Record:
    kind, raw = KINDS[options["what"]], raw_of(int(options["seed"]), index)
    return kind.patterned(raw, options, wants) if kind.by in options else kind.plain(raw)
