"""What `dataprep inspect --tokens` prints: a line a token, so that every cut and mask can be seen.

    0  151644        '<|im_start|>'
    1     872        'user'
    2    2753  loss  ' yes'
    3      17   0.5  '2'                 a weight of its own
    4     754        vision              codes and padding by what they are

A token that is a part of a character has the replacement character for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby

import typer

from dataprep.cli.items import Shown, shade_of
from dataprep.cli.show import echo, use_colour
from dataprep.cli.streams import visible
from dataprep.pipeline.look.inspect import Decode, Span


def texts_of(ids: Sequence[int], spans: Sequence[Span], decode: Decode) -> list[str | None]:
    """Return the text of every token; None for codes and padding."""
    return [
        decode([token]) if span.modality == "text" else None
        for span in spans
        for token in ids[span.start : span.start + span.num_tokens]
    ]


def show_tokens(
    shown: Shown, spans: Sequence[Span], texts: Sequence[str | None], *, quiet: bool
) -> None:
    """Print the lines under the title, each segment under its heading, unless it is `quiet`."""
    if not quiet:
        typer.echo(shown.title)
    ids, colour = shown.item["tokens"].tolist(), use_colour(sys.stdout)
    wide, wider = len(str(len(ids))), len(str(max(ids, default=0)))
    for segment, group in groupby(spans, key=lambda span: span.segment):
        if segment and shown.headings and not quiet:
            echo(shown.headings[segment - 1])
        for span in group:
            for place in range(span.start, span.start + span.num_tokens):
                text = texts[place]
                said = span.modality if text is None else visible(repr(text))
                line = f"{place:>{wide}}  {ids[place]:>{wider}}  {_loss(span):>4}  {said}"
                typer.echo(shade_of(span, line) if colour else line, color=colour)


def _loss(span: Span) -> str:
    if not span.loss:
        return ""
    return "loss" if span.weight in (0.0, 1.0) else f"{span.weight:.3g}"
