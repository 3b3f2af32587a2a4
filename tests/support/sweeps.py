"""Property tests that run with few examples, and with many among the slow tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings

Test = Callable[..., None]


def few_and_many(
    check: Test, drawn: Callable[[Test], Test], *, few: int, many: int
) -> tuple[Test, Test]:
    """Return an ordinary test and a slow one; `drawn`: what hypothesis draws, a `given`."""
    ordinary, slow = (settings(max_examples=n, deadline=None)(drawn(check)) for n in (few, many))
    return ordinary, pytest.mark.slow(slow)
