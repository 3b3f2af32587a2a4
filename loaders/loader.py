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
import os
import time
import weakref
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dataprep.loaders.batches import AnyBatch, make_batches, make_placement
from dataprep.loaders.batching import BatchSize
from dataprep.loaders.blocks import Shuffle
from dataprep.loaders.checkpoints import read_state, write_state
from dataprep.loaders.ends import check_flags, last_step
from dataprep.loaders.generations import GenerationsOf, check_generations
from dataprep.loaders.iterator import LoaderIterator
from dataprep.loaders.meter import Meter
from dataprep.loaders.mixture import Exhausted, epochs_before
from dataprep.loaders.open import Data, Mix
from dataprep.loaders.packed import Batch
from dataprep.loaders.planned import plan_steps
from dataprep.loaders.plans import counts_of, named_rows
from dataprep.loaders.prefetch import Prefetch
from dataprep.loaders.schedule import Remainder, shown, whole_number
from dataprep.loaders.sources import AnyDataset, dataset_of
from dataprep.loaders.state import State, check_state, make_state, parse_state
from dataprep.loaders.turnstile import Turnstile
from dataprep.loaders.views import UserView, ViewName
from dataprep.loaders.whole import Verify
from dataprep.pipeline.errors import ConfigError, ConflictError
from dataprep.pipeline.threads.exits import stopped_at_exit

if TYPE_CHECKING:
    from jax.sharding import Mesh, PartitionSpec


class DataLoader:
    """Batches of a packed dataset, of a tokenized one, or of several mixed.

    data        a folder, s3://… or another address of one in a store, an open dataset, or
                {name: (folder, weight)}; a weight is a share of rows, or {step: share}
    batch_size  rows of all hosts together, or {step: rows} for sizes that change; of documents
                ByTokens, Buckets or Longest
    mesh, spec  where batches are placed; rows are split over the whole mesh unless spec says
                otherwise. Without a mesh, batches are numpy arrays
    placed      False: the rows and columns that the devices of this host hold, as numpy arrays, for
                trainers that place them themselves (jax.make_array_from_process_local_data)
    shuffle     whether each epoch has an order of its own; seed decides which. "blocks": shards are
                permuted, then rows within windows of `window_shards` of them
    cache       the folder for shards of datasets in stores, and the most bytes that it may have
    cache_bytes (64 GiB). Remote data of more than 64 GiB are shuffled in blocks, or as shuffle says
    epochs      how often each dataset is read; None: for ever. A batch may span two epochs
    generation  of datasets that grow: a number, "latest", or {step: number or "latest"} to move on
                to a newer one at a step; for a mixture also {name: any of these}. Batches before
                the step stay as they are; from it on, a new order over all rows of the newer
                generation begins, and its epochs are counted from there
    view        the names of the arrays: default, lwm, lwm_bos, maxtext, xlstm,
                xlstm_unshifted, hf, seq2seq, preference, or a function of your own
    remainder   rows at the end that do not fill a batch: drop them, or pad with empty rows; an end
                is there only with epochs, but of ByTokens and Buckets every epoch has one
    prefetch    how many batches to make ahead in a thread; 0: none
    max_steps   how many batches to make at most
    max_steps_per_epoch
                how many batches an epoch has at most: its first rows, then the next begins. Of a
                mixture, that many batches of each dataset; of sizes that change, of the last size
    exhausted   when a dataset of a mixture has been read `epochs` times: stop, repeat it until all
                have been, or drop it. Without epochs none is ever used up: all are read for ever
    verify      when the hash of a shard is checked: lazy, before it is first read; open, all now;
                off, never. An already open dataset keeps the setting it was opened with;
                verify='open' checks it anyway
    """

    def __init__(
        self,
        data: Data | Mix,
        *,
        batch_size: BatchSize,
        mesh: Mesh | None = None,
        spec: PartitionSpec | None = None,
        placed: bool = True,
        shuffle: Shuffle = True,
        window_shards: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
        seed: int = 0,
        epochs: int | None = None,
        generation: GenerationsOf | None = None,
        view: ViewName | UserView = "default",
        remainder: Remainder = "drop",
        prefetch: int = 2,
        max_steps: int | None = None,
        max_steps_per_epoch: int | None = None,
        exhausted: Exhausted = "stop",
        verify: Verify = "lazy",
    ) -> None:
        check_flags(placed=placed)
        self._prefetch_depth = whole_number("prefetch", prefetch, least=0)
        planned = plan_steps(
            data,
            batch_size=batch_size,
            shuffle=shuffle,
            window_shards=window_shards,
            cache=cache,
            cache_bytes=cache_bytes,
            seed=seed,
            epochs=epochs,
            generation=generation,
            view=view,
            remainder=remainder,
            max_steps=max_steps,
            max_steps_per_epoch=max_steps_per_epoch,
            exhausted=exhausted,
            verify=verify,
        )
        self._planned, self._sizes, self._num_steps = planned, planned.sizes, planned.num_steps
        self._members, self._mixture = planned.members, planned.mixture
        self.datasets = {n: dataset_of(one.datasets[-1]) for n, one in self._members.items()}
        members, placement = [*self._members.values()], make_placement(mesh, spec, placed=placed)
        self._make = make_batches(members, planned.plan, view, placement)
        self._make.fetching = planned.remotes.fetching(planned, self._make, self)
        self.seq_len = max(width for _, width in self.shapes) - planned.more_columns
        self._meter = Meter()
        self._step = 0
        self._goes_on = False  # whether the next iterator does
        self._turns = Turnstile(self._next)
        self._ahead: Prefetch[AnyBatch] | None = None
        self._stop_thread: weakref.finalize[Any, Any] | None = None
        self._closed = False

    # --- batches ---

    def __iter__(self) -> LoaderIterator:
        """Start at step 0; once after a state was set, go on where the loader is."""
        self._check_open()
        goes_on, self._goes_on = self._goes_on, False
        if not goes_on and self._step:
            self._move(0)
        return LoaderIterator(self)

    @stopped_at_exit
    def __next__(self) -> AnyBatch:
        batch = self._turns.take()
        if batch is None:
            raise StopIteration
        return batch

    def __len__(self) -> int:
        if self._num_steps is None:
            raise TypeError("an endless loader has no length; set epochs or max_steps")
        return self._num_steps

    def __bool__(self) -> bool:
        """Return True: checkpoint handlers ask, and an endless loader has no length to ask for."""
        return True

    @stopped_at_exit
    def __getitem__(self, step: int) -> AnyBatch:
        """Return the batch of a step, wherever the loader is."""
        self._check_open()
        return self._make(self._checked(step))

    def __repr__(self) -> str:
        return f"<DataLoader {self._planned.told(self._step, self.seq_len)}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a DataLoader has a thread and a place, and cannot be pickled; pickle its get_state(), "
            "make a loader where it is needed, and set the state there"
        )

    def has(self, step: int) -> bool:
        """Return whether there is a batch for this step."""
        return 0 <= step < (last_step(self._sizes) if self._num_steps is None else self._num_steps)

    @stopped_at_exit
    def part(self, step: int, index: int, count: int) -> Batch:
        """Return one of `count` equal parts of the rows of a batch (see `plans`), as arrays."""
        self._check_open()
        return self._make.part(self._checked(step), index, count)

    def datasets_at(self, step: int) -> dict[str, AnyDataset]:
        """Return the datasets in the generations that a step reads."""
        return {name: dataset_of(member.at(step)) for name, member in self._members.items()}

    def rows_of(self, step: int) -> list[tuple[str, int]]:
        """Return (dataset, row or document in it) for each row of a batch; padding is left out. A
        row is numbered as in the generation that the step reads."""
        sources = [member.at(step) for member in self._members.values()]
        return named_rows(self._make.plan, self._checked(step), list(self._members), sources)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Return (rows, columns) of all batches that there may be, to compile for ahead of time."""
        return self._make.shapes()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Return what became of documents; of ByTokens and Buckets also of the first epoch."""
        return counts_of(self._make.plan, self._members)

    def metrics(self, window: int = 100) -> dict[str, float]:
        """Return what was handed out so far, how long it was waited for, and recent rates."""
        return self._meter.read(window)

    def epochs_at(self, step: int) -> dict[str, float]:
        """Return how often each dataset was read by the batches before a step, such as 1.5 times;
        a newer generation counts from the step on at which the loader moved to it, from 0."""
        number = whole_number("step", step)
        if number:
            self._checked(number - 1 if number > 0 else number)
        return epochs_before(self._mixture, self._sizes.first_row(number))

    @property
    def element_spec(self) -> dict[str, Any]:
        """Return shape and dtype (on a mesh, sharding too) of each array of the next batch."""
        return self._make.spec(self._step)

    def start_prefetch(self) -> None:
        """Begin to make batches ahead; grain's handler calls it, else the first batch does."""
        if self._prefetch_depth and self.has(self._step):
            self._running()

    # --- state ---

    def get_state(self) -> State:
        """Return the state after the batches handed out so far; those made ahead do not count."""
        return self.state_at(self._step)

    def state_at(self, step: int) -> State:
        """Return the state after the batches before a step."""
        read = {name: member.before(step) for name, member in self._members.items()}
        return make_state(step, self._sizes, self._mixture, read, self._planned.identity)

    def set_state(self, state: Mapping[str, Any] | bytes | str) -> None:
        """Go on where the loader of this state was; other data or another order is an error."""
        parsed = parse_state(state)
        step: int = parsed["step"]
        if step > last_step(self._sizes):
            raise ConflictError(f"the state has step {shown(step)}, which no loader reaches")
        check_generations(parsed, self._members)
        check_state(parsed, self.state_at(step), self._sizes.first_row(step))
        self._goes_on = True
        self._move(step)

    async def save(self, directory: Any) -> Awaitable[None]:
        """Write the state to a folder of a checkpoint; orbax calls this."""
        return write_state(directory, self.get_state())

    async def load(self, directory: Any) -> Awaitable[None]:
        """Set the state that a folder of a checkpoint holds; orbax calls this."""
        return read_state(directory, self.set_state)

    def close(self) -> None:
        """Hand out no more batches, and end the thread that makes them ahead."""
        self._closed = True
        self._stop()
        if self._make.fetching is not None:
            self._make.fetching.close()

    def _stop(self) -> None:
        """End the thread that makes batches ahead; the next batch starts another."""
        ahead, stop_thread = self._ahead, self._stop_thread  # another thread may close meanwhile
        if ahead is not None:
            ahead.close()
            self._ahead = None
        if stop_thread is not None:
            stop_thread.detach()
            self._stop_thread = None

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self) -> AnyBatch | None:
        """Return the next batch; None after the last."""
        self._check_open()
        step, asked = self._step, time.monotonic()
        if not self.has(step):
            self._stop()
            return None
        if not self._prefetch_depth:
            batch = self._make(step)
            self._step = step + 1
            self._meter.add(batch, self._make.shape(step), asked, time.monotonic())
            return batch
        ahead = self._running()
        try:
            batch = ahead.get(step)
        except StopIteration:
            self._check_open()  # it may be closed meanwhile, which is not the end of the data
            return None
        # An interrupt before this line leaves the batch to be handed out, one after it does not.
        self._step = step + 1
        ahead.forget(step)
        self._meter.add(batch, self._make.shape(step), asked, time.monotonic())
        return batch

    def _move(self, step: int) -> None:
        self._stop()
        self._step = step  # last, and at once: an interrupt leaves the loader here or there

    def _running(self) -> Prefetch[AnyBatch]:
        """Return the thread that makes batches ahead, a new one where there is none to use."""
        self._check_open()
        ahead = self._ahead  # asked once: another thread may close meanwhile
        if ahead is None or not ahead.usable:
            if ahead is not None:
                ahead.check_fork()
            self._stop()
            for member in self._members.values():
                member.datasets[-1].prepare()
            endless = itertools.count(self._step)
            steps = endless if self._num_steps is None else range(self._step, self._num_steps)
            ahead = Prefetch(self._make, steps, self._prefetch_depth)
            # The thread holds no reference to this loader, so that losing it ends the thread.
            self._stop_thread = weakref.finalize(self, ahead.close)
            self._stop_thread.atexit = False  # `Prefetch` closes itself at exit
            self._ahead = ahead
            ahead.start()
            if self._closed:  # before it was there to be closed
                self._stop()
                self._check_open()
        return ahead

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigError("this loader is closed; make another, and set its state to go on")

    def _checked(self, step: Any) -> int:
        number = whole_number("step", step)
        if not self.has(number):
            if self._num_steps is None:
                raise IndexError(f"an endless loader has no step {shown(step)}; the first is 0")
            raise IndexError(f"step {shown(step)} of a loader of {self._num_steps} steps")
        return number
