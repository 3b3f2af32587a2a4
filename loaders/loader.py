"""The iterator that a trainer holds.

    loader = DataLoader("data/packed", batch_size=256, mesh=mesh, spec=P("data"))
    for batch in loader: ...

Batch k is a function of the datasets, the seed and k, and of nothing else: not of the number of
hosts, of what was read ahead, or of where a run was interrupted. So the state is the step, and
what the step belongs to. `batches` makes the batches, `prefetch` runs the thread, `state` checks
what a checkpoint holds.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dataprep.loaders.batches import PADDING, AnyBatch, BatchMaker, BatchReader, make_placement
from dataprep.loaders.mixture import Exhausted, plan_mixture
from dataprep.loaders.open import Data, Mix, open_mix
from dataprep.loaders.packed import Batch
from dataprep.loaders.prefetch import Prefetch
from dataprep.loaders.schedule import BatchSizes, Remainder, whole_number
from dataprep.loaders.state import State, check_state, make_state, parse_state
from dataprep.loaders.views import UserView, ViewName, make_view
from dataprep.pipeline.errors import ConfigError

if TYPE_CHECKING:
    from jax.sharding import Mesh, PartitionSpec

    from dataprep.loaders.place import Placement


class DataLoader:
    """Batches of a packed dataset, or of several mixed.

    data        a folder, an open dataset, or {name: (folder, weight)}; a weight is a share of rows,
                or {step: share} for shares that change
    batch_size  rows of all hosts together, or {step: rows} for sizes that change
    mesh, spec  where batches are placed; rows are split over the whole mesh unless spec says
                otherwise. Without a mesh, batches are numpy arrays
    shuffle     whether each epoch has an order of its own; seed decides which
    epochs      how often each dataset is read; None: for ever. A batch may span two epochs
    view        the names of the arrays: default, lwm, maxtext, hf, or a function of your own
    remainder   the rows at the end that do not fill a batch: drop them, or pad with empty rows
    prefetch    how many batches to make ahead in a thread; 0: none
    max_steps   how many batches to make at most
    exhausted   when a dataset of a mixture is used up: stop, repeat it until all are, or drop it
    """

    def __init__(
        self,
        data: Data | Mix,
        *,
        batch_size: int | Mapping[int, int],
        mesh: Mesh | None = None,
        spec: PartitionSpec | None = None,
        shuffle: bool = True,
        seed: int = 0,
        epochs: int | None = None,
        view: ViewName | UserView = "default",
        remainder: Remainder = "drop",
        prefetch: int = 2,
        max_steps: int | None = None,
        exhausted: Exhausted = "stop",
    ) -> None:
        _check_choice("remainder", remainder, ("drop", "pad"))
        _check_choice("exhausted", exhausted, ("stop", "repeat", "drop"))
        # Made plain ints, whatever kind they are: the state must be JSON.
        seed = whole_number("seed", seed)
        epochs = None if epochs is None else whole_number("epochs", epochs, least=1)
        max_steps = None if max_steps is None else whole_number("max_steps", max_steps, least=0)
        prefetch = whole_number("prefetch", prefetch, least=0)
        self._sizes = BatchSizes.of(batch_size)
        self.datasets, components = open_mix(data, self._sizes)
        self.seq_len = next(iter(self.datasets.values())).seq_len
        self._mixture = plan_mixture(
            components,
            epochs=epochs,
            exhausted=exhausted,
            shuffled=shuffle,
            seed=seed,
        )
        self._num_steps = self._count_steps(remainder, max_steps)
        self._make = self._batch_maker(view, make_placement(mesh, spec))
        self._prefetch_depth = prefetch
        self._step = 0
        self._ended = False
        self._ahead: Prefetch[AnyBatch] | None = None
        self._stop_thread: weakref.finalize[Any, Any] | None = None

    # --- batches ---

    def __iter__(self) -> Iterator[AnyBatch]:
        """Go on where the loader is; after the end, start again."""
        if self._ended:
            self._move(0)
        return self

    def __next__(self) -> AnyBatch:
        if not self.has(self._step):
            self._ended = True
            self.close()
            raise StopIteration
        batch = self._take() if self._prefetch_depth else self._make(self._step)
        self._step += 1
        return batch

    def __len__(self) -> int:
        if self._num_steps is None:
            raise TypeError("an endless loader has no length; set epochs or max_steps")
        return self._num_steps

    def __bool__(self) -> bool:
        """Return True: checkpoint handlers ask, and an endless loader has no length to ask for."""
        return True

    def __getitem__(self, step: int) -> AnyBatch:
        """Return the batch of a step, wherever the loader is."""
        if not self.has(step):
            raise IndexError(f"step {step} of a loader of {self._num_steps} steps")
        return self._make(step)

    def has(self, step: int) -> bool:
        """Return whether there is a batch for this step."""
        return step >= 0 and (self._num_steps is None or step < self._num_steps)

    def part(self, step: int, index: int, count: int) -> Batch:
        """Return one of `count` equal parts of the rows of a batch, as numpy arrays."""
        size, rest = divmod(self._sizes.size(step), count)
        if rest or not 0 <= index < count:
            raise ConfigError(
                f"part {index} of {count} of a batch of {self._sizes.size(step)} rows: "
                "the parts must be equal"
            )
        rows = np.arange(index * size, (index + 1) * size)
        return self._make.reader.read(step, (0, self.seq_len), rows)

    def rows_of(self, step: int) -> list[tuple[str, int]]:
        """Return (dataset, row in it) for each row of a batch; padding is left out."""
        names = list(self.datasets)
        datasets, rows = self._make.reader.rows(step)
        pairs = zip(datasets.tolist(), rows.tolist(), strict=True)
        return [(names[dataset], row) for dataset, row in pairs if dataset != PADDING]

    @property
    def element_spec(self) -> dict[str, Any]:
        """Return shape and dtype (on a mesh, sharding too) of each array of the next batch."""
        return self._make.spec(self._step)

    def start_prefetch(self) -> None:
        """Begin to make batches ahead; grain's handler calls it, else the first batch does."""
        if self._ahead is None and self._prefetch_depth:
            endless = itertools.count(self._step)
            steps = endless if self._num_steps is None else range(self._step, self._num_steps)
            self._ahead = Prefetch(self._make, steps, self._prefetch_depth)
            # The thread holds no reference to this loader, so that losing it ends the thread.
            self._stop_thread = weakref.finalize(self, self._ahead.close)
            self._stop_thread.atexit = False  # `Prefetch` closes itself at exit

    # --- state ---

    def get_state(self) -> State:
        """Return the state after the batches handed out so far; those made ahead do not count."""
        return self._state_at(self._step)

    def set_state(self, state: Mapping[str, Any] | bytes | str) -> None:
        """Go on where the loader of this state was; other data or another order is an error."""
        parsed = parse_state(state)
        check_state(parsed, self._state_at(parsed["step"]))
        self._move(parsed["step"])

    def close(self) -> None:
        """End the thread that makes batches ahead."""
        if self._stop_thread is not None:
            self._stop_thread()
        self._ahead = self._stop_thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _batch_maker(self, view: ViewName | UserView, placement: Placement | None) -> BatchMaker:
        masks = dict.fromkeys(mask for d in self.datasets.values() for mask in d.masks)
        reader = BatchReader(
            list(self.datasets.values()), self._mixture, self._sizes, make_view(view, list(masks))
        )
        maker = BatchMaker(reader, self._sizes, self.seq_len, placement)
        maker.check()
        return maker

    def _state_at(self, step: int) -> State:
        fingerprints = {name: dataset.fingerprint for name, dataset in self.datasets.items()}
        return make_state(step, self._sizes, self._mixture, fingerprints)

    def _move(self, step: int) -> None:
        self.close()
        self._step, self._ended = step, False

    def _take(self) -> AnyBatch:
        self.start_prefetch()
        assert self._ahead is not None
        try:
            return self._ahead.take()
        except BaseException:
            self.close()
            raise

    def _count_steps(self, remainder: Remainder, max_steps: int | None) -> int | None:
        rows = self._mixture.num_rows
        if rows is None:
            return max_steps
        steps = self._sizes.num_steps(rows, remainder)
        if not steps:
            noun = "row does" if rows == 1 else "rows do"
            raise ConfigError(
                f"{rows} {noun} not fill a batch of {self._sizes.size(0)}; "
                "set a smaller batch_size, or remainder='pad'"
            )
        return steps if max_steps is None else min(steps, max_steps)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} {value!r} is not one of {', '.join(choices)}")
