"""What xlstm-jax reads: folders of ArrayRecord shards, and datasets padded to a length.

load_array_record_dataset("data/train")     a packed dataset of ours, or
                                            train_000000.arecord, train_000001.arecord …: bytes
PaddedDataset(dataset, 64, "text")          64 elements: those of the dataset, then empty ones
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module

from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.open import open_dataset
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.manifest import kind_of


class RecordFiles:
    """The records of some ArrayRecord files, by number: bytes."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._open = lru_cache(maxsize=256)(_open)
        self._starts = offsets_of([self._open(path).num_records() for path in self.paths])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, key: Any) -> bytes:
        number = int(key)
        if not 0 <= number < len(self):
            raise IndexError(f"record {number} of {len(self)}")
        file = int(np.searchsorted(self._starts, number, side="right")) - 1
        place = number - int(self._starts[file])
        try:
            (found,) = self._open(self.paths[file]).read([place])
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            raise CorruptError(
                f"cannot read record {place} of {self.paths[file]}: {error}"
            ) from None
        return bytes(found)

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordFiles, (self.paths,)

    def __repr__(self) -> str:
        files = counted(len(self.paths), "file")
        return f"RecordFiles({counted(len(self), 'record')} of {files})"


class PaddedDataset:
    """A dataset with empty elements after its last, or without its last ones."""

    def __init__(self, dataset: Any, full_dataset_length: int, column_name: str) -> None:
        self.dataset = dataset
        self.full_dataset_length = full_dataset_length
        self.column_name = column_name

    def __len__(self) -> int:
        return self.full_dataset_length

    def __getitem__(self, record_key: Any) -> Any:
        if int(record_key) >= len(self):
            raise IndexError(f"element {record_key} of {len(self)}")
        if int(record_key) >= len(self.dataset):
            return self.empty_sequence
        return self.dataset[record_key]

    def __repr__(self) -> str:
        return (
            f"PaddedDataset({self.dataset!r}, full_dataset_length={self.full_dataset_length}, "
            f"column_name={self.column_name})"
        )

    @property
    def empty_sequence(self) -> Any:
        """What it is padded with: no bytes, no text, or a row without tokens."""
        if isinstance(self.dataset, PackedDataset):
            row = self.dataset[0]
            empty = {name: np.zeros_like(array) for name, array in row.items()}
            return {**empty, "tokens": np.full_like(row["tokens"], self.dataset.pad)}
        if hasattr(self.dataset, "select_columns"):  # of `datasets`
            return {self.column_name: ""}
        if len(self.dataset) and not isinstance(self.dataset[0], bytes):
            raise ValueError(f"Unsupported dataset type {type(self.dataset)}.")
        return b""


def pad_dataset(dataset: Any, global_batch_size: int, column_name: str) -> PaddedDataset:
    """Pad a dataset to a multiple of the batch size.

    >>> len(pad_dataset([b"a", b"b", b"c"], 2, "text"))
    4
    """
    length = -(-len(dataset) // global_batch_size) * global_batch_size
    return PaddedDataset(dataset, length, column_name)


def load_array_record_dataset(
    dataset_path: Path | str, file_extension: str = ".arecord"
) -> PackedDataset | RecordFiles:
    """Open a packed dataset, or the shards of a folder by the numbers in their names."""
    folder = Path(dataset_path)
    if not folder.is_dir():
        raise ConfigError(f"dataset path {folder} does not exist, or is not a folder")
    if kind_of(folder):
        return packed_in(folder)
    pattern = re.compile(r"_(\d+)" + re.escape(file_extension) + r"$")
    found = [(path, pattern.search(path.name)) for path in folder.glob(f"*{file_extension}")]
    if not found:
        raise ConfigError(f"{folder} has no files *{file_extension}, and is no dataset of dataprep")
    odd = [path.name for path, match in found if match is None]
    if odd:
        raise ConfigError(f"{folder / odd[0]} has no number before {file_extension}: NAME_000001")
    ordered = sorted((int(match[1]), path.name, path) for path, match in found if match)
    return RecordFiles([path for _, _, path in ordered])


def packed_in(folder: Path) -> PackedDataset:
    """Open a packed dataset; any other is a ConfigError that says what to do."""
    dataset = open_dataset(folder)
    if isinstance(dataset, TokenizedDataset):
        raise ConfigError(f"{folder} is not packed; run dataprep pack on it first")
    return dataset


def _open(path: Path) -> Any:
    reader = array_record_module.ArrayRecordReader(str(path), "readahead_buffer_size:0")
    if not reader.ok():
        raise CorruptError(f"{path} is not an ArrayRecord file, or is damaged")
    return reader
