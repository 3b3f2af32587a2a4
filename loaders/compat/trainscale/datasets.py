"""TrainScale's wrappers: records of a dataset, made into examples when they are asked for.

    PreprocessedDataset(hf_dataset, prompt_engine)              by number, kept in memory
    StreamingPreprocessedDataset(hf_iterable, prompt_engine)    in turn, shared out to workers

Where TrainScale is wrong, this is right: a stream is shared out by records, so that every worker
has some, whatever the number of its files, and none is lost (`datasets` shares out a second time
what TrainScale has shared out already); ranks read different records; shuffling has a seed and
epochs; records that are skipped are counted, with a warning; keys of preference pairs stay.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"dataprep.loaders.compat.trainscale needs torch ({error}); pip install torch",
        name=error.name,
    ) from None

from dataprep.loaders.compat.trainscale.arrays import tensors_of
from dataprep.loaders.compat.trainscale.engines import Arrays, Preprocess, Transform
from dataprep.loaders.compat.trainscale.shares import Share, in_buffer
from dataprep.loaders.schedule import whole_number
from dataprep.pipeline.errors import ConfigError, DataprepError, InputError, counted, short

_READ_AT_ONCE = 64  # records that `datasets` is asked for


class PreprocessedDataset(Dataset):  # type: ignore[misc]
    """Examples by their number."""

    def __init__(
        self,
        hf_dataset: Any,
        prompt_engine: Any,
        column_mapping: Mapping[str, str] | None = None,
        cache_enabled: bool = True,
        transform: Transform | None = None,
    ) -> None:
        """`hf_dataset` is a dataset of `datasets`, or any sequence of records."""
        self._records = hf_dataset
        self._preprocess = Preprocess(
            engine=prompt_engine, column_mapping=column_mapping, transform=transform
        )
        self._cache: dict[int, Arrays] | None = {} if cache_enabled else None

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, idx: int) -> dict[str, Any]:
        place = operator.index(idx)
        number = place + len(self) if place < 0 else place
        if not 0 <= number < len(self):
            raise IndexError(f"no example {place}: there are {len(self)}")
        arrays = self._cache.get(number) if self._cache is not None else None
        if arrays is None:
            arrays = told(self._preprocess, self._records[number], number)
            if self._cache is not None:
                self._cache[number] = arrays
        return tensors_of({name: array.copy() for name, array in arrays.items()})

    def clear_cache(self) -> None:
        if self._cache is not None:
            self._cache.clear()

    @property
    def features(self) -> Any:
        return getattr(self._records, "features", None)

    def select(self, indices: Iterable[int]) -> Self:
        """Return some of the examples; no record is read for it."""
        numbers = list(indices)
        chosen = getattr(self._records, "select", lambda found: SomeRecords(self._records, found))
        return type(self)(
            chosen(numbers),
            self._preprocess.engine,
            self._preprocess.column_mapping,
            self._cache is not None,
            self._preprocess.transform,
        )


class SomeRecords(Sequence[Any]):
    """Some items of a sequence."""

    def __init__(self, items: Sequence[Any], numbers: Sequence[int]) -> None:
        self._items, self._numbers = items, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        return self._items[self._numbers[place]]


class StreamingPreprocessedDataset(IterableDataset):  # type: ignore[misc]
    """Examples in turn; `skipped` counts those that were left out by the last iterator."""

    def __init__(
        self,
        hf_iterable: Any,
        prompt_engine: Any,
        column_mapping: Mapping[str, str] | None = None,
        buffer_size: int = 1000,
        skip_errors: bool = False,
        transform: Transform | None = None,
    ) -> None:
        """`hf_iterable` is a dataset of `datasets`, or any iterable of records that can be read
        again."""
        self._records = hf_iterable
        self._preprocess = Preprocess(
            engine=prompt_engine, column_mapping=column_mapping, transform=transform
        )
        self._buffer_size = whole_number("buffer_size", buffer_size, least=1)
        self._skip_errors = skip_errors
        self._share, self._seed = Share(), -1  # no shuffling
        self._is_begun = False
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # workers see it, too
        self.skipped = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        self.skipped = 0
        if self._is_begun and isinstance(self._records, Iterator):
            raise ConfigError(
                f"{type(self._records).__name__} can be read only once, and there is a second "
                "epoch; give an iterable that begins anew, such as a list or a dataset"
            )
        self._is_begun = True
        numbered: Iterable[tuple[int, Any]] = enumerate(records_of(self._records))
        if self._seed >= 0:
            numbered = in_buffer(numbered, self._buffer_size, (self._seed, int(self._epoch)))
        first = ""
        for place, record in self._share.of(numbered, number, workers):
            try:
                arrays = told(self._preprocess, record, place)
            except DataprepError as error:
                if not self._skip_errors:
                    raise
                first = first or str(error)
                self.skipped += 1
                continue
            yield tensors_of({name: array.copy() for name, array in arrays.items()})
        if self.skipped:
            warnings.warn(
                f"skipped {counted(self.skipped, 'record')}; the first: {first}", stacklevel=2
            )

    def shuffle(self, buffer_size: int | None = None, seed: int = 42) -> Self:
        """Return the same examples, each drawn from a buffer; every epoch has its own order."""
        size = self._buffer_size if buffer_size is None else buffer_size
        found = self._like(buffer_size=size)
        found._seed = whole_number("seed", seed, least=0)
        return found

    def set_epoch(self, epoch: int) -> None:
        """Have the next iterators begin an epoch, also those of workers that run already."""
        self._epoch.fill_(whole_number("epoch", epoch, least=0))

    def shared(self, share: Share) -> Self:
        """Return the examples of one rank."""
        if self._skip_errors and share.world_size > 1:
            raise ConfigError(
                "skip_errors with several ranks: they would get different numbers of batches, and "
                "wait for each other; filter bad records before, or use `dataprep tokenize`"
            )
        found = self._like()
        found._seed, found._share = self._seed, share
        return found

    def _like(self, **options: Any) -> Self:
        settings = {"buffer_size": self._buffer_size, "skip_errors": self._skip_errors, **options}
        made = self._preprocess
        found = type(self)(
            self._records, made.engine, made.column_mapping, transform=made.transform, **settings
        )
        found._epoch = self._epoch
        return found


def create_preprocessed_dataset(
    hf_dataset: Any,
    prompt_engine: Any,
    column_mapping: Mapping[str, str] | None = None,
    streaming: bool = False,
    **options: Any,
) -> PreprocessedDataset | StreamingPreprocessedDataset:
    """Return examples in turn if asked for, or if the records have no numbers; else by number."""
    # A stream of `datasets` has __getitem__, too, from torch, which TrainScale falls for.
    if streaming or not hasattr(hf_dataset, "__len__"):
        return StreamingPreprocessedDataset(hf_dataset, prompt_engine, column_mapping, **options)
    return PreprocessedDataset(hf_dataset, prompt_engine, column_mapping, **options)


def records_of(records: Any) -> Iterator[Any]:
    """Yield all records. Of a stream of `datasets`, its loop would yield a worker's part of the
    files only; its `iter` yields all."""
    batches = getattr(records, "iter", None)
    if batches is None:
        yield from records
        return
    for batch in batches(batch_size=_READ_AT_ONCE):
        names = list(batch)
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(names, values, strict=True))


def told(preprocess: Callable[[Any], Arrays], record: Any, number: int) -> Arrays:
    """Return the arrays of a record; an error of whatever kind says which it was."""
    try:
        return preprocess(record)
    except Exception as error:
        kind = "" if isinstance(error, DataprepError) else f"{type(error).__name__}: "
        raise InputError(f"record {number}: {kind}{short(str(error), 300)}") from error
