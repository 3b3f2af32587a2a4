"""Datasets of Megatron-LM: NAME.idx and NAME.bin, named by either. Pieces are documents.

    NAME.idx    where sequences and documents are        NAME.bin    their ids

A record is a document, of one sequence or several; with `records: sequences`, each sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.blobs import TOKENS, check_known
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.stream import renamed
from dataprep.pipeline.sources.token_files import IdFile, document_batches, open_ids
from dataprep.pipeline.storage.foreign.megatron_read import MegatronIndex, read_index
from dataprep.pipeline.types import Offsets, Piece, Records, Source

IDX, BIN = ".idx", ".bin"
SEQUENCES = "sequences"


def pair_of(path: str) -> tuple[str, str]:
    """Return the .idx and the .bin of a dataset that is named by either.

    >>> pair_of("a/b.bin")
    ('a/b.idx', 'a/b.bin')
    """

    def ending(end: str) -> str:
        return renamed(path, lambda name: name[: -len(IDX)] + end)

    return ending(IDX), ending(BIN)


class Megatron(Format):
    """Pieces are documents, or sequences."""

    kind = "megatron"
    endings = (IDX,)
    unit = "document"
    knows_rows = True
    holds_media = False
    has_offsets = True
    options = MappingProxyType({"records": (SEQUENCES,)})

    def beside(self, path: str, options: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(other for other in pair_of(path) if other != path)

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        check_known(keys, [TOKENS], source.path)
        with _open(source) as opened:
            ends = np.cumsum(opened.check()) * opened.index.dtype.itemsize
        return cuts.at_ends(ends, target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        with _open(source) as opened:
            if opened.count < piece.stop:
                raise _broken(opened.idx, f"document {piece.stop} no longer exists")
            yield from document_batches(piece, wanted, opened.batches)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """An open dataset."""

    idx: str
    bin: str
    index: MegatronIndex
    idx_file: Any
    bin_file: Any
    bin_bytes: int
    by_sequence: bool

    @property
    def count(self) -> int:
        return self.index.num_sequences if self.by_sequence else self.index.num_documents

    def _array(self, name: str, start: int, stop: int) -> Offsets:
        try:
            return self.index.read(self.idx_file, name, start, stop)
        except (ValueError, OSError) as error:
            raise _broken(self.idx, str(error)) from None

    def _sequences(self, start: int, stop: int) -> Offsets:
        """Return where the sequences of each of some records begin, and those of the last end."""
        if self.by_sequence:
            return np.arange(start, stop + 1)
        return self._array("documents", start, stop + 1)

    def check(self) -> Offsets:
        """Return how many ids each record has; an InputError unless all of it fits together."""
        count = self.index.num_sequences
        lengths, places = self._array("lengths", 0, count), self._array("places", 0, count)
        documents = self._sequences(0, self.count)
        if (lengths < 0).any():
            raise _broken(self.idx, "a sequence has a negative length")
        offsets = offsets_of(lengths)
        if not np.array_equal(places, offsets[:-1] * self.index.dtype.itemsize):
            raise _broken(self.idx, "its sequences do not follow each other in the .bin")
        is_whole = int(documents[0]) == 0 and int(documents[-1]) == count
        if not is_whole or (np.diff(documents) < 0).any():
            raise _broken(self.idx, "its documents are not all of its sequences in order")
        needed = int(offsets[-1]) * self.index.dtype.itemsize
        if needed != self.bin_bytes:
            raise _broken(
                self.bin, f"it has {self.bin_bytes:,} bytes, but the .idx needs {needed:,}"
            )
        if self.index.has_modes and self._array("modes", 0, count).any():
            raise InputError(
                f"{self.idx} is multimodal: some of its sequences are no text; leave it out"
            )
        return np.diff(offsets[documents])

    def batches(self, start: int, stop: int, line: int, wanted: Wanted) -> Iterator[Records]:
        """Yield records [start, stop), of which the first has this line."""
        sequences = self._sequences(start, stop)
        first, last = int(sequences[0]), int(sequences[-1])
        if not 0 <= first <= last <= self.index.num_sequences or (np.diff(sequences) < 0).any():
            raise _broken(self.idx, "its documents do not ascend")
        lengths = self._array("lengths", first, last)
        offsets = offsets_of(lengths)[sequences - first]
        begin = int(self._array("places", first, first + 1)[0]) if first < last else 0
        ids = IdFile(path=self.bin, file=self.bin_file, dtype=self.index.dtype, position=begin)
        yield from ids.batches(offsets, line, wanted)


@contextmanager
def _open(source: Source) -> Iterator[_Pair]:
    idx, bin_path = pair_of(source.path)
    with open_ids(idx) as (idx_file, idx_bytes), open_ids(bin_path) as (bin_file, bin_bytes):
        try:
            index = read_index(idx_file, idx_bytes)
        except (ValueError, OSError) as error:
            raise _broken(idx, str(error)) from None
        yield _Pair(
            idx=idx,
            bin=bin_path,
            index=index,
            idx_file=idx_file,
            bin_file=bin_file,
            bin_bytes=bin_bytes,
            by_sequence=source.options.get("records") == SEQUENCES,
        )


def _broken(path: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as a dataset of Megatron-LM: {cause}; the file is damaged, cut off or "
        "something else: copy or write it again"
    )
