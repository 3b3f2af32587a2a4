"""What is compiled gives the same bytes and numbers as NumPy, and is loaded only when it pays."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.compiled import Kernels
from dataprep.pipeline.storage.foreign import tfexample, varints
from dataprep.pipeline.storage.foreign.tfexample import encode_examples
from dataprep.pipeline.storage.foreign.varints import decode_varints, encode_varints

NAME = "dataprep.pipeline.storage.foreign.kernels"
NEVER = 1 << 60
IDS = st.integers(0, (1 << 32) - 1) | st.integers(0, 300) | st.integers(16_000, 17_000)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def used(*, pays_after: int) -> None:
        for module in (varints, tfexample):
            monkeypatch.setattr(module, "KERNELS", Kernels(NAME, pays_after=pays_after))

    return used


def both(use: Any, call: Any) -> list[Any]:
    """Return what a call gives, or the error that it raises, without numba and with it."""
    found: list[Any] = []
    for pays_after in (NEVER, 1):
        use(pays_after=pays_after)
        varints.KERNELS.after(1)
        tfexample.KERNELS.after(1)
        try:
            found.append(call())
        except ValueError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("key", ["text", "k" * 200])
def test_examples_are_the_same(use: Any, dtype: str, key: str) -> None:
    @given(st.lists(st.lists(IDS, max_size=40), max_size=6))
    @example([[0, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, 1 << 28, (1 << 32) - 1]])
    @settings(max_examples=60, deadline=None)
    def check(lists: list[list[int]]) -> None:
        values = np.array([id for one in lists for id in one], np.int64).astype(dtype)
        offsets = offsets_of([len(one) for one in lists])
        plain, fast = both(use, lambda: encode_examples(key, values, offsets))
        assert fast == plain

    check()


def test_numbers_are_the_same(use: Any) -> None:
    @given(
        st.lists(st.integers(0, (1 << 64) - 1) | IDS).map(
            lambda numbers: encode_varints(np.array(numbers, np.uint64))[0].tobytes()
        )
        | st.binary(max_size=30)
        | st.lists(st.sampled_from([0x80, 0xFF, 0x01, 0x7F]), max_size=30).map(bytes)
    )
    @settings(max_examples=150, deadline=None)
    def check(data: bytes) -> None:
        def decoded() -> list[list[int]]:
            return [array.tolist() for array in decode_varints(data)]

        plain, fast = both(use, decoded)
        assert fast == plain

    check()


def test_numba_is_loaded_when_it_pays_and_only_if_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = Kernels(NAME, pays_after=10)
    assert kernels.after(9) is None
    assert kernels.after(1).__name__ == NAME
    assert kernels.after(0).__name__ == NAME
    monkeypatch.delitem(sys.modules, NAME)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert Kernels(NAME, pays_after=1).after(5) is None


def test_kept_code_is_old_where_what_it_has_from_another_file_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Numba looks at the time and size of the file of a function alone: these do not change."""
    monkeypatch.syspath_prepend(str(tmp_path))
    above = """
        from kept_below import below
        from kept_number import NUMBER
        from dataprep.pipeline.storage.compiled import compiled

        @compiled
        def above(value):
            return NUMBER * below(value)
    """
    below = """
        from dataprep.pipeline.storage.compiled import compiled

        @compiled
        def below(value):
            return value {sign} 1
    """

    def found(number: int, sign: str) -> tuple[int, int]:
        """Return what a new process finds, and how many functions it had to compile."""
        texts = {"number": f"NUMBER = {number}", "below": below.format(sign=sign), "above": above}
        for name, text in texts.items():
            path = tmp_path / f"kept_{name}.py"
            path.write_text(dedent(text))
            time = {"number": number, "below": ord(sign), "above": 7}[name]
            os.utime(path, (time, time))
            sys.modules.pop(f"kept_{name}", None)
        importlib.invalidate_caches()
        function = importlib.import_module("kept_above").above
        return function(5), sum(function.stats.cache_misses.values())

    assert found(2, "+") == (12, 1)
    assert found(2, "+") == (12, 0)
    assert found(3, "+") == (18, 1)
    assert found(3, "-") == (12, 1)
