"""What a format is: how sources of one kind are cut into pieces and read.

    class Csv(Format):                     one file
        kind, endings = "csv", (".csv",)
        def split(…): …                    and one line in `known.FORMATS`

`kind`, `split`, `read` and `count` are what a format must have; all else has a default. A format
has no state: all it knows of a source is in the `Source`, so that a worker can go on where the
planner stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.types import Piece, Records, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader is told."""

    keys: frozenset[str] | None = None  # top-level keys of a record; None: all
    held_by: HeldBy = nothing_held  # which keys hold codes
    from_line: int = 0  # lines of the piece before it are passed over
    batch_bytes: int = 1 << 20
    max_record_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A range of a source that can be read by itself, in a unit of the format's own."""

    start: int
    stop: int
    num_bytes: int  # of input, -1 where that is not known
    first_line: int = -1  # lines of the source before it, where that is known without reading


class Format(Protocol):
    """One kind of source; subclass it and add a line to `known.FORMATS`."""

    kind: str
    endings: tuple[str, ...] = ()  # of file names; none: the user names it by a prefix, like hf:
    unit: str = "row"  # what people are told that its records are counted in
    may_be_compressed: bool = False  # .gz and .zst may follow the ending
    packed_endings: tuple[str, ...] = ()  # of files that users are told to decompress
    is_found_in_folders: bool = True  # its files are taken when the user names their folder
    has_separator: bool = False  # --text-separator parts its records
    is_stream: bool = False  # comes over a network: rows are counted by reading them all
    holds_media: bool = True  # `encode` may find media in its columns
    tells_of_media: bool = False  # in a folder of media it is about them, and no table to encode
    names_files: bool = False  # records may name files by paths relative to the source's folder
    is_json: bool = False  # records are JSON objects: {"path": …} is written by the user

    def split(self, source: Source, target_bytes: int, keys: frozenset[str] | None) -> list[Cut]:
        """Ranges of about `target_bytes` of the wanted keys, at least one, in order; they depend
        on the content and on the arguments alone."""

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        """The records of a piece. Empty batches are allowed anywhere (see `batches.settle`), and
        the last batch tells the piece's line count."""

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        """Records in a piece, readable or not; counting may end at `stop_after`."""

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        """Lines (or rows) of the source before each of some cuts, whose starts ascend from 0.

        Asked only of formats that make several cuts. This default suits those that cut by rows.
        """
        return list(starts)

    def sniff(self, path: str, compression: str) -> str:
        """The kind of a file by its content, where its ending may stand for several."""
        return self.kind

    def schema(self, source: Source) -> Any:
        """The Arrow schema of the columns; None where records are free to differ."""
        return None

    def row_shape(self, source: Source) -> tuple[int, ...] | None:
        """The shape of every record's codes; None where records are free to differ."""
        return None
