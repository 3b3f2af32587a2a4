"""Decode blocks of codes to files that people can see and hear.

    row 3   "a cat" <vision 2×256> "it says" <audio 1×8000>
    files   row-3-block-0-frame-0.png  row-3-block-0-frame-1.png  row-3-block-1.wav

Blocks are numbered in order. Of a block that packing cut, only whole frames are written; notes say
what was left out. `decoders` finds the encoder that decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.encoders.interface import AudioEncoder, Codes, Encoder, ImageEncoder
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import disk_errors_named, write_atomic
from dataprep.pipeline.look.inspect import Item, Run, Segment, runs_of
from dataprep.pipeline.media.pictures import png_of
from dataprep.pipeline.media.sound import wav_of
from dataprep.pipeline.modalities.block import Block

# The encoder that decodes the codes of one modality in a segment, or why there is none.
FindDecoder = Callable[[str, Segment], Encoder | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    paths: list[str]  # in the order of their blocks
    notes: list[str]  # what was not written, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The part of a block that can be decoded."""

    codes: list[Codes]  # [frames, tokens] of each picture or video, or one [codebooks, frames]
    note: str  # about the rest, or ""


def write_media(
    item: Item, segments: Sequence[Segment], find: FindDecoder, folder: Path, stem: str
) -> Media:
    """Write every whole picture and sound of a document or row to files named `stem`-block-…."""
    runs = runs_of(item)
    if not runs:
        return Media(paths=[], notes=[f"{stem} has no block of codes, so no file was written"])
    blocks = [_whole(item, run, segments[run.segment - 1]) for run in runs]
    # All decoders are found before the first file is written.
    decoders = [
        find(run.modality, segments[run.segment - 1]) if block.codes else block.note
        for run, block in zip(runs, blocks, strict=True)
    ]
    if any(block.codes for block in blocks) and all(isinstance(d, str) for d in decoders):
        place = next(i for i, block in enumerate(blocks) if block.codes)
        raise ConfigError(f"block {place} ({runs[place].modality}) of {stem} {decoders[place]}")
    media = Media(paths=[], notes=[])
    for number, (run, block, decoder) in enumerate(zip(runs, blocks, decoders, strict=True)):
        name = f"block-{_padded(number, len(runs))}"
        note = decoder if isinstance(decoder, str) else block.note
        if note:
            media.notes.append(f"{name} ({run.modality}) {note}")
        if not isinstance(decoder, str):
            for ending, data in WRITERS[run.modality](block.codes, decoder):
                media.paths.append(_write(folder, f"{stem}-{name}{ending}", data))
    return media


def write_codes(codes: Codes, kind: str, encoder: Encoder, folder: Path, stem: str) -> list[str]:
    """Write the media of one record of codes to files named `stem`…; return their paths."""
    if not encoder.can_decode:
        raise ConfigError(
            "the encoder of these codes cannot decode, or its weights hold no decoder"
        )
    return [_write(folder, f"{stem}{end}", data) for end, data in WRITERS[kind]([codes], encoder)]


def _whole(item: Item, run: Run, segment: Segment) -> Whole:
    ids, block = item["tokens"][run.start : run.stop], segment.blocks[run.modality]
    if block.lost:
        return Whole(codes=[], note=block.lost)
    # A segment's first token is within a block only if the document was cut there.
    before = item["segment_ids"][run.start - 1] if run.start and "segment_ids" in item else 0
    is_cut = segment.start > 0 and before != run.segment
    codes = whole_codes(ids, block, is_cut=is_cut)
    rest = len(ids) - sum(_num_ids(block, part) for part in codes)
    note = f"was cut: {rest} of {len(ids)} tokens do not fill a frame and are left out"
    return Whole(codes=codes, note=note if rest else "")


def whole_codes(ids: NDArray[Any], block: Block, *, is_cut: bool) -> list[Codes]:
    """Return the codes of each picture or sound in a block; `is_cut`: its start may be missing."""
    if is_cut:
        return block.unwrap_cut(ids)
    frame = block.codebooks
    return block.unwrap(ids[: len(ids) // frame * frame])


def _num_ids(block: Block, codes: Codes) -> int:
    """Return how many ids these codes take in a block."""
    return int(block.wrap(block.flatten(codes), np.array([codes.size])).lengths[0])


def _pictures(media: Sequence[Codes], encoder: ImageEncoder) -> Iterator[tuple[str, bytes]]:
    frames = np.concatenate(media)
    for start in range(0, len(frames), encoder.batch_size):
        images = encoder.decode(frames[start : start + encoder.batch_size])
        for number, image in enumerate(images, start):
            yield f"-frame-{_padded(number, len(frames))}.png", png_of(image)


def _sounds(media: Sequence[Codes], encoder: AudioEncoder) -> Iterator[tuple[str, bytes]]:
    (codes,) = media
    yield ".wav", wav_of(encoder.decode(codes), encoder.rate)


# How the media of a modality become files.
WRITERS: Mapping[str, Callable[[Sequence[Codes], Any], Iterator[tuple[str, bytes]]]] = {
    "vision": _pictures,
    "audio": _sounds,
}


def _padded(number: int, of: int) -> str:
    """Pad with zeros, so that names sort as numbers do: 7 of 12 -> 07."""
    return f"{number:0{len(str(of - 1))}d}"


def _refuse_other(path: Path, data: bytes) -> None:
    """Raise a ConfigError if there is a file of the name that holds something else."""
    if path.is_file() and (path.stat().st_size != len(data) or path.read_bytes() != data):
        raise ConfigError(
            f"{path} is there and holds something else; remove it, or name another folder with "
            "--media"
        )


def _write(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    with disk_errors_named(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_other(path, data)
            write_atomic(path, data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}; name another folder with --media"
            ) from None
    return str(path)
