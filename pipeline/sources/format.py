"""A format: how sources of one kind are cut into pieces and read.

    class Csv(Format):                     one file
        kind, endings = "csv", (".csv",)
        def split(…): …                    and one line in `known.FORMATS`,
                                           or an entry point of a package (`plugins`)

A format must have `kind`, `split`, `read` and `count`; the rest has defaults. A format has no
state: everything about a source is in its `Source`, so a worker can read what the planner cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.types import Piece, Records, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `Format.read` should read, and in batches of what size."""

    keys: Keys | None = None  # None: all
    held_by: HeldBy = nothing_held  # which keys hold codes
    from_line: int = 0  # lines of the piece before this one are skipped
    batch_bytes: int = 1 << 20
    max_record_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A range of a source that can be read by itself, in the format's own unit."""

    start: int
    stop: int
    num_bytes: int  # of input, -1 if unknown
    first_line: int = -1  # lines of the source before it, if known without reading


class Format(Protocol):
    """One kind of source; subclass it and add a line to `known.FORMATS`."""

    kind: str
    version: str = ""  # of a plugin: raise it when records of the same input change
    endings: tuple[str, ...] = ()  # of file names; none: users name it by a prefix, like hf:
    prefix: str = ""  # "synthetic:": what begins so is looked up by `find`
    unit: str = "row"  # what messages call its records
    may_be_compressed: bool = False  # .gz, .zst, .xz, .bz2 may follow the ending
    packed_endings: tuple[str, ...] = ()  # of files that users are told to decompress
    is_found_in_folders: bool = True  # its files are taken when the user names their folder
    has_separator: bool = False  # --text-separator separates its records
    # Keys of the config that say how it is read, each with its values; (): any.
    options: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    knows_rows: bool = False  # rows are counted without reading them
    is_stream: bool = False  # comes over a network: rows are counted by reading them all
    holds_media: bool = True  # `encode` may find media in its columns
    tells_of_media: bool = False  # in a folder of media it describes them: not a table to encode
    names_files: bool = False  # records may name files by paths relative to the source's folder
    has_offsets: bool = False  # its records have a byte offset, which tells them apart
    is_json: bool = False  # records are JSON objects: {"path": …} is written by the user

    def find(self, spec: str) -> list[Source]:
        """Return the sources of a name that begins with `prefix`, each with a fingerprint that
        changes when its records do; InputError says what is wrong with the name."""
        raise InputError(f"{spec}: {self.kind} files have no names, only endings")

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        """Return at least one range, in order, each with about `target_bytes` of the wanted keys.

        The ranges depend only on the content and on the arguments.
        """

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        """Yield the records of a piece. Empty batches are allowed anywhere (`batches.settle`
        drops them); the last batch has the piece's line count."""

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        """Count the records of a piece, readable or not; counting may end at `stop_after`."""

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        """Count the lines (or rows) of the source before each of `starts`, which ascend from 0.

        Called only for formats that make several cuts. This default suits those that cut by rows.
        """
        return list(starts)

    def sniff(self, path: str, compression: str) -> str:
        """Return the kind of a file by its content, if its ending may stand for several kinds."""
        return self.kind

    def kind_for(self, options: Mapping[str, str]) -> str:
        """Return the kind of a file that is read with these options."""
        return self.kind

    def beside(self, path: str, options: Mapping[str, str]) -> tuple[str, ...]:
        """Return the other files of a source that is more than one file."""
        return ()

    def doubts(self, sources: Sequence[Source]) -> Iterator[str]:
        """Yield what may be wrong with how the sources of an input are read, although they can
        be."""
        return iter(())

    def schema(self, source: Source) -> Any:
        """Return the Arrow schema of the columns; None if records may differ."""
        return None

    def row_shape(self, source: Source) -> tuple[int, ...] | None:
        """Return the shape of every record's codes; None if records may differ."""
        return None
