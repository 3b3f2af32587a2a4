"""What `iter(loader)` returns.

    for batch in loader: ...      from step 0, or from a state that was set
    for batch in loader: ...      from step 0 again: what evaluations count on

    batches = iter(loader)
    first = next(batches)
    for batch in batches: ...     goes on: an iterator is its own iterator

A loader has one place, which its iterators share: a new one moves it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Self

from dataprep.loaders.batches import AnyBatch
from dataprep.loaders.state import State

if TYPE_CHECKING:
    from dataprep.loaders.loader import DataLoader


class LoaderIterator:
    """The batches of a loader from where it is; what a checkpoint handler asks is passed on."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnyBatch:
        return next(self._loader)

    def __repr__(self) -> str:
        return f"<iterator of {self._loader!r}>"

    @property
    def element_spec(self) -> dict[str, Any]:
        return self._loader.element_spec

    def get_state(self) -> State:
        return self._loader.get_state()

    def set_state(self, state: Mapping[str, Any] | bytes | str) -> None:
        self._loader.set_state(state)

    def start_prefetch(self) -> None:
        self._loader.start_prefetch()

    async def save(self, directory: Any) -> Awaitable[None]:
        return await self._loader.save(directory)

    async def load(self, directory: Any) -> Awaitable[None]:
        return await self._loader.load(directory)

    def close(self) -> None:
        self._loader.close()
