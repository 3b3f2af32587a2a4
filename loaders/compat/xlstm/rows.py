"""The rows of a host: a packed dataset, or records of token ids, cut into a part for each host.

    preprocess_dataset(1, 4, dataset, …)        the second of four parts, row by row

These are xlstm-jax's own building blocks, with its arguments. Text is not tokenized here; arguments
that only matter for that, or for packing in memory, are taken and have no effect.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, SupportsIndex

import numpy as np

from dataprep.loaders.compat.unheard import refuse_unheard
from dataprep.loaders.compat.xlstm.batch import ARRAYS
from dataprep.loaders.compat.xlstm.ranges import RowRange, share_of
from dataprep.loaders.compat.xlstm.records import RecordRows
from dataprep.loaders.compat.xlstm.sources import PaddedDataset, pad_dataset
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.packed import Batch, PackedDataset
from dataprep.loaders.views import UserView, ViewName
from dataprep.pipeline.errors import ConfigError, InputError


@dataclass(frozen=True, kw_only=True)
class HostRows:
    """Rows of a host and how to read them: six arrays each, one after another, or by their number.

    Those by number are of the first epoch, so that it is a source of grain, too.
    """

    rows: PackedDataset
    shuffle: bool
    seed: int
    epochs: int | None = None
    max_steps_per_epoch: int | None = None
    view: ViewName | UserView = "xlstm"

    def __iter__(self) -> Iterator[Batch]:
        with self._loader(prefetch=2) as loader:
            for batch in loader:
                yield {name: array[0] for name, array in batch.items()}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: SupportsIndex) -> Batch:
        if not 0 <= operator.index(key) < len(self):
            raise IndexError(f"row {key} of {len(self)}")
        batch = self._by_number[operator.index(key)]
        return {name: array[0] for name, array in batch.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to another process, such as a worker of grain: no open loader."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _by_number(self) -> DataLoader:
        return self._loader(prefetch=0)

    def _loader(self, prefetch: int) -> DataLoader:
        return DataLoader(
            self.rows,
            batch_size=1,
            shuffle=self.shuffle,
            seed=self.seed,
            epochs=self.epochs,
            view=self.view,
            prefetch=prefetch,
        )


# --- views ---


def _shifted_left(batch: Batch) -> Batch:
    targets = np.pad(batch["tokens"], ((0, 0), (0, 1)))[:, 1:]
    loss = np.pad(batch["segment_ids"] * batch["loss_mask"], ((0, 0), (0, 1)))[:, 1:]
    positions = batch["positions"]
    arrays = (batch["tokens"], targets, positions, batch["segment_ids"], positions, loss)
    return {name: array.astype(np.int32) for name, array in zip(ARRAYS, arrays, strict=True)}


def _view(shift: bool, shift_target: bool) -> ViewName | UserView:
    if not shift:
        return "xlstm_unshifted"
    return _shifted_left if shift_target else "xlstm"


# --- a host's part ---


def preprocess_dataset(
    dataloading_host_index: int,
    dataloading_host_count: int,
    dataset: Any,
    data_column_name: str,
    tokenize: bool,
    global_batch_size: int,
    max_target_length: int,
    shuffle: bool,
    data_shuffle_seed: int,
    tokenizer_path: str | None = None,
    hf_access_token: str | None = None,
    add_bos: bool = True,
    add_eos: bool = True,
    add_eod: bool = True,
    grain_packing: bool = False,
    grain_packing_bin_count: int | None = None,
    shift: bool = True,
    drop_remainder: bool = True,
    num_epochs: int | None = None,
    tokenizer_cache_dir: str | None = None,
    max_steps_per_epoch: int | None = None,
    eod_token_id: int | None = None,
) -> tuple[HostRows, Any]:
    """Return the rows of a host, and the source: a packed dataset, or records of token ids."""
    if global_batch_size % dataloading_host_count:
        raise ConfigError("Batch size should be divisible by the number of dataloading hosts.")
    source, operations = dataset, []
    if not _is_packed(dataset):
        check_ids(dataset, tokenize, data_column_name)
        operations = [with_eod_of(eod_token_id, max_target_length)] if add_eod else []
    if not drop_remainder and not grain_packing:
        source = pad_dataset(source, global_batch_size, data_column_name)
    most = None if max_steps_per_epoch is None else max_steps_per_epoch * global_batch_size
    if most is not None and len(source) > most:
        inner = source.dataset if isinstance(source, PaddedDataset) else source
        source = PaddedDataset(inner, most, data_column_name)
    rows = make_grain_llm_dataset(
        dataloading_host_index,
        dataloading_host_count,
        source,
        global_batch_size,
        max_target_length,
        shuffle,
        data_shuffle_seed,
        num_epochs=num_epochs,
        operations=operations,
        grain_packing=grain_packing,
        shift=shift,
        shift_target=False,
        eod_token_id=eod_token_id,
    )
    return rows, source


def make_grain_llm_dataset(
    dataloading_host_index: int,
    dataloading_host_count: int,
    dataset: Any,
    global_batch_size: int,
    max_target_length: int,
    shuffle: bool,
    data_shuffle_seed: int,
    num_epochs: int | None = None,
    operations: Sequence[Any] | None = None,
    grain_packing: bool = False,
    grain_packing_bin_count: int | None = None,
    shift: bool = True,
    shift_target: bool = True,
    eod_token_id: int | None = 0,
    apply_padding: bool = True,
) -> HostRows:
    """Return the rows of a host: the part of the dataset that is its share."""
    if not apply_padding:
        raise ConfigError("apply_padding=False: rows have one length; pad_shapes pads batches")
    source = dataset.dataset if isinstance(dataset, PaddedDataset) else dataset
    if grain_packing and len(dataset) < len(source) and not _is_packed(source):
        source = dataset  # only these records are packed
    if _is_packed(source):
        rows: PackedDataset = source
        check_packed(rows, max_target_length, eod_token_id or None)
    else:
        rows = RecordRows(
            source,
            max_target_length,
            eod=eod_token_id,
            operations=operations or (),
            packed=grain_packing,
            ends_before_eod=not shift or shift_target,
        )
    # Of packed records, a length says nothing: there are fewer rows.
    is_packed_here = isinstance(rows, RecordRows) and grain_packing
    length = len(rows) if source is dataset or is_packed_here else len(dataset)
    start, stop = share_of(length, dataloading_host_index, dataloading_host_count)
    if start == stop:
        raise ConfigError(
            f"host {dataloading_host_index} of {dataloading_host_count} has no row: there are "
            f"{length} in all; load with fewer hosts, or pad them with drop_remainder=False"
        )
    return HostRows(
        rows=RowRange(rows, start, stop),
        shuffle=shuffle,
        seed=data_shuffle_seed + dataloading_host_index,
        epochs=1 if num_epochs == 0 else num_epochs,  # 0: it is not repeated
        view=_view(shift, shift_target),
    )


def _is_packed(dataset: Any) -> bool:
    return isinstance(dataset, PackedDataset)


def check_packed(rows: PackedDataset, max_target_length: int, eod: int | None) -> None:
    refuse_unheard([rows], "xlstm-jax")
    if rows.seq_len + 1 != max_target_length:
        raise ConfigError(
            f"max_target_length={max_target_length}, but {rows} has rows of {rows.seq_len + 1} "
            f"tokens; set it so, or pack with --seq-len {max_target_length - 1}"
        )
    if eod is not None and eod != rows.about.tokenizer.eos:
        raise ConfigError(
            f"eod_token_id={eod}, but the EOS of {rows} is {rows.about.tokenizer.eos}; leave it out"
        )


def check_ids(dataset: Any, tokenize: bool, column: str) -> None:
    """Raise a ConfigError for text, which is tokenized before and not here."""
    if tokenize or hasattr(dataset, "select_columns"):
        raise ConfigError(
            f"{dataset!r} is text (tokenize={tokenize}); tokenize and pack it once: dataprep "
            f"tokenize INPUT --tokenizer T --fields {column} --out TOKENIZED; dataprep pack "
            "TOKENIZED --seq-len L-1 --out PACKED; and open that"
        )


def with_eod_of(eod: int | None, max_length: int) -> Any:
    """Return the operation that ends records with an EOD where it fits."""
    if eod is None:
        raise ConfigError("add_eod=True needs eod_token_id: records of ids do not tell it")
    return partial(_with_eod, eod, max_length)


def _with_eod(eod: int, max_length: int, record: Any) -> Any:
    if isinstance(record, Mapping):
        raise InputError(
            f"a record of ids must be bytes of int32 or an array, got one with {sorted(record)}"
        )
    ids = np.frombuffer(record, "<i4") if isinstance(record, bytes) else np.asarray(record)
    # A record without any token is padding.
    return np.append(ids, eod) if 0 < len(ids) < max_length else ids
