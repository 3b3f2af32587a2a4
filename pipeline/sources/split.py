"""Cut a source into pieces that can be read independently, and number their lines."""

from __future__ import annotations

from dataclasses import replace

from dataprep.pipeline.sources.format import Cut
from dataprep.pipeline.sources.keys import Keys, keys_of
from dataprep.pipeline.sources.known import format_of
from dataprep.pipeline.types import Piece, Source

Sized = tuple[Piece, int]  # a piece and its bytes of input, -1 if unknown


def split_source(
    source: Source,
    index: int,
    target_bytes: int,
    keys: Keys | frozenset[str] | None,
    count_lines: bool,
) -> list[Sized]:
    """Return at least one piece, in order; `index` is the source's place in the plan."""
    assert target_bytes > 0
    cuts = format_of(source.kind).split(source, target_bytes, keys_of(keys))
    if count_lines:
        cuts = _numbered(source, cuts)
    return [
        (
            Piece(
                source=index,
                start=cut.start,
                stop=cut.stop,
                first_line=cut.first_line if count_lines else -1,
            ),
            cut.num_bytes,
        )
        for cut in cuts
    ]


def _numbered(source: Source, cuts: list[Cut]) -> list[Cut]:
    """Return the cuts with `first_line` filled in."""
    if len(cuts) == 1:
        return [replace(cuts[0], first_line=source.lines_before)]
    if all(cut.first_line >= 0 for cut in cuts):
        return cuts
    starts = [cut.start for cut in cuts]
    before = [0] if starts[0] else []  # of a file that was appended to, they begin further on
    lines = format_of(source.kind).lines_before(source, [*before, *starts])[len(before) :]
    return [replace(cut, first_line=line) for cut, line in zip(cuts, lines, strict=True)]


def lines_before(source: Source, piece: Piece) -> int:
    """Count the lines (or rows) of the source before a piece, reading no further than its start."""
    if piece.start == 0:
        return 0
    return format_of(source.kind).lines_before(source, [0, piece.start])[1]
