"""Weights and turns of tokens, from those of the strings that they were made of.

strings   <user>hi<assistant>  0   |  hello<end>  1       bytes 0–19, 19–29
tokens    <user> hi <assistant> | hello <end>
weights   0      0  0             1     1      a token has loss if it overlaps a string that has
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.engine.places import TokenPlaces
from dataprep.pipeline.ragged import owner_of
from dataprep.pipeline.types import Offsets


def token_weights(
    places: TokenPlaces, string_stops: Offsets, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weight of each token: the largest of the strings that it overlaps.

    >>> places = TokenPlaces(starts=np.array([0, 2, 3]), stops=np.array([2, 3, 6]))
    >>> token_weights(places, np.array([4, 6]), np.array([0.0, 1.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    starts = np.concatenate(([0], string_stops[:-1])) if len(string_stops) else string_stops
    found = np.zeros(len(places.starts))
    for weight in np.unique(weights[weights > 0]).tolist():  # ascending: the largest stays
        which = (weights == weight) & (starts < string_stops)
        first = np.searchsorted(places.stops, starts[which], side="right")
        stop = np.searchsorted(places.starts, string_stops[which], side="left")
        steps = np.zeros(len(found) + 1, np.int64)
        is_some = first < stop
        np.add.at(steps, first[is_some], 1)
        np.add.at(steps, stop[is_some], -1)
        found[np.cumsum(steps[:-1]) > 0] = weight
    return found


def token_turns(
    places: TokenPlaces,
    string_stops: Offsets,
    turns: NDArray[Any],
    firsts: Offsets,
    offsets: Offsets,
) -> NDArray[Any]:
    """Return the turn of each token: that of the string which its first byte is in.

    Text i has strings from firsts[i] on, and tokens from offsets[i] on.

    >>> places = TokenPlaces(starts=np.array([0, 2, 3, 6]), stops=np.array([2, 3, 6, 6]))
    >>> stops, turns = np.array([4, 6, 8]), np.array([1, 6, 1])
    >>> token_turns(places, stops, turns, np.array([0, 2, 3]), np.array([0, 4, 4])).tolist()
    [1, 1, 1, 6]
    """
    starts = np.concatenate(([0], string_stops[:-1]))[: len(string_stops)]
    text = owner_of(np.diff(firsts))
    # A token of no bytes at the end of a text is not of the next one.
    edges = np.clip(np.searchsorted(places.starts, starts), offsets[text], offsets[text + 1])
    return np.repeat(turns, np.diff(np.append(edges, offsets[-1])))


def strings_at(string_stops: Offsets, places: Offsets) -> Offsets:
    """Return which string each byte is in."""
    return np.searchsorted(string_stops, places, side="right")
