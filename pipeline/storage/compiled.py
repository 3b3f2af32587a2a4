"""Functions that numba compiles at their first call, and keeps for the next process.

`loaders` imports its own whenever it can. What runs once, offline, begins without: to load numba
takes as long as NumPy takes for fifty million varints (`Kernels`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Have numba compile a function at its first call, and keep the code if it can."""
    from numba import njit

    options = {"nogil": True, "error_model": "numpy"}
    try:
        made: Any = njit(cache=True, **options)(function)
    except RuntimeError:  # there is no place to keep the code
        made = njit(**options)(function)
    else:
        kept = made._cache
        kept._cache_file._source_stamp = _stamp(function, kept._cache_file._source_stamp)
        kept.load_overload = _or_none(kept.load_overload)
        kept.save_overload = _or_none(kept.save_overload)
    return cast(Function, made)


def _stamp(function: Any, of_file: Any) -> tuple[Any, ...]:
    """Return what kept code follows from: the time and size of its file, as numba has it, and the
    constants and functions that the code has from elsewhere, which numba puts into it unseen."""
    found = [of_file]
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, int | float | str | tuple):
            found.append((name, value))
        elif hasattr(value, "py_func"):
            kept = getattr(value._cache, "_cache_file", None)
            found.append((name, kept and kept._source_stamp))
    return tuple(found)


def _or_none(call: Callable[..., Any]) -> Callable[..., Any]:
    """Have a call return None where it fails: a full disk or a damaged file only cost time."""

    def called(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception:
            return None

    return called


class Kernels:
    """A module of compiled functions, which is loaded once that pays.

    What they return must equal, to the bit, what is done without them.
    """

    def __init__(self, module: str, *, pays_after: int) -> None:
        self._module, self._left = module, pays_after
        self._found: Any = None

    def after(self, count: int) -> Any:
        """Return the module after so many numbers were handled in all; None: go on without."""
        if self._left > 0:
            self._left -= count
            if self._left <= 0:
                self._found = self._loaded()
        return self._found

    def _loaded(self) -> Any:
        try:
            return import_module(self._module)
        except ImportError:  # no numba
            return None
