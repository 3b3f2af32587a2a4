"""Read shards of MDS, the format of MosaicML streaming: columns of samples, by their encodings.

    u32 n | u32[n + 1] where samples start, and the last ends | JSON: names, encodings, sizes
    sample      u32 size of each column without a fixed one | the columns, one after another

    ndarray           u8 type | u8 4 · axes + s | the shape, of 2^s bytes each | the values
    ndarray:int32     the same without the type;  ndarray:int32:8 neither type nor shape

Values that would have to be unpickled are refused. A ValueError says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.types import Offsets

U32 = np.dtype("<u4")
_ARRAY_TYPES = {
    size + number: f"{name}{size}"
    for size in (8, 16, 32, 64)
    for number, name in enumerate(("uint", "int", "float"))
    if (name, size) != ("float", 8)
}
_SCALARS = frozenset(_ARRAY_TYPES.values())
_ARRAY = "ndarray"


@dataclass(frozen=True, slots=True, kw_only=True)
class MdsColumn:
    name: str
    encoding: str  # str | int | bytes | ndarray:int32 | uint16 …
    size: int  # of each value, 0 if they differ


@dataclass(frozen=True, slots=True, kw_only=True)
class MdsHead:
    """What a shard says of itself before its samples."""

    places: Offsets  # i64[n + 1]: where each sample starts in the file, and the last ends
    columns: tuple[MdsColumn, ...]

    @property
    def num_samples(self) -> int:
        return len(self.places) - 1


def head_bytes(first: bytes) -> int:
    """Return how many bytes come before the JSON and samples, by the first four of a shard."""
    if len(first) < 4:
        raise ValueError("it is too short for its number of samples")
    return 4 * (2 + int(np.frombuffer(first, U32, 1)[0]))


def read_head(data: bytes, num_bytes: int) -> MdsHead:
    """Return the head of a shard of so many bytes, `data` being those before its first sample."""
    stop = head_bytes(data)
    if len(data) < stop:
        raise ValueError("it ends within the places of its samples")
    places = np.frombuffer(data, U32, stop // 4 - 1, 4).astype(np.int64)
    if int(places[0]) < stop or (np.diff(places) < 0).any():
        raise ValueError("the places of its samples do not ascend")
    if int(places[-1]) != num_bytes:
        raise ValueError(f"it has {num_bytes:,} bytes, but its samples end at {int(places[-1]):,}")
    try:
        told = json.loads(data[stop : int(places[0])])
        pairs = zip(
            told["column_names"], told["column_encodings"], told["column_sizes"], strict=True
        )
        columns = tuple(
            MdsColumn(name=str(name), encoding=str(encoding), size=int(size or 0))
            for name, encoding, size in pairs
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("what it says of its columns is not JSON of MDS") from None
    if told.get("format", "mds") != "mds" or told.get("version", 2) != 2:
        raise ValueError(f"it is {told.get('format')} {told.get('version')}; only mds 2 is known")
    if any(column.size < 0 for column in columns):
        raise ValueError("a column has a negative size")
    return MdsHead(places=places, columns=columns)


def cut_columns(data: bytes, bounds: Offsets, head: MdsHead) -> dict[str, list[bytes]]:
    """Return the bytes of each column of samples; sample i is data[bounds[i]:bounds[i + 1]]."""
    codes = np.frombuffer(data, np.uint8)
    varying = [column for column in head.columns if not column.size]
    starts = bounds[:-1]
    if (np.diff(bounds) < 4 * len(varying)).any():
        raise ValueError("a sample is too short for the sizes of its columns")
    sizes = {
        column.name: sum(
            codes[starts + 4 * i + byte].astype(np.int64) << (8 * byte) for byte in range(4)
        )
        for i, column in enumerate(varying)
    }
    place = starts + 4 * len(varying)
    found: dict[str, list[bytes]] = {}
    for column in head.columns:
        stop = place + (sizes[column.name] if not column.size else column.size)
        if (stop > bounds[1:]).any():
            raise ValueError(f"column {column.name!r} of a sample ends after it")
        pairs = zip(place.tolist(), stop.tolist(), strict=True)
        found[column.name] = [data[a:b] for a, b in pairs]
        place = stop
    if not np.array_equal(place, bounds[1:]):
        raise ValueError("a sample has more bytes than its columns")
    return found


# --- values ---


def value_of_mds(data: bytes, encoding: str) -> Any:
    """Return one value; ValueError says what is wrong with it, or that its encoding is unknown."""
    name, _, rest = encoding.partition(":")
    if name == _ARRAY:
        return _array(data, rest)
    if name in _SCALARS:
        return _scalar(data, name)
    if name not in _DECODERS:
        raise ValueError(f"has the encoding {encoding!r}, which is not read")
    try:
        return _DECODERS[name](data)
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except ValueError:
        raise ValueError(f"is no value of the encoding {encoding!r}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def number_lists(values: Sequence[bytes], encoding: str) -> IntegerLists | None:
    """Return a column of flat arrays of one type as one array; None if it is something else."""
    dtype, shape = _told(encoding) if encoding.startswith(_ARRAY) else ("", "")
    if not dtype:
        return None
    joined, sizes = values, [len(value) for value in values]
    item = np.dtype(dtype).itemsize
    if not shape:
        heads = np.frombuffer(b"".join(value[:1] for value in values), np.uint8)
        if len(heads) != len(values) or (heads >> 2 != 1).any():
            return None
        widths = (1 << (heads & 3)).tolist()
        joined = [value[1 + width :] for value, width in zip(values, widths, strict=True)]
        stated = [
            int.from_bytes(value[1 : 1 + width], "little")
            for value, width in zip(values, widths, strict=True)
        ]
        sizes = [item * count for count in stated]
    elif "," in shape:
        return None
    if [len(each) for each in joined] != sizes or any(size % item for size in sizes):
        return None
    flat = np.frombuffer(b"".join(joined), np.dtype(dtype).newbyteorder("<"))
    return IntegerLists(flat, offsets_of([size // item for size in sizes]))


def _told(encoding: str) -> tuple[str, str]:
    """Return the type and the shape that all arrays of a column have, as far as it tells them."""
    _, _, rest = encoding.partition(":")
    dtype, _, shape = rest.partition(":")
    if dtype and dtype not in _SCALARS:
        raise ValueError(f"has the encoding {encoding!r}, which is not read")
    return dtype, shape


def _array(data: bytes, told: str) -> NDArray[Any]:
    """Return an array by its bytes, and by what the encoding tells of all arrays."""
    dtype, shape_told = _told(f"{_ARRAY}:{told}")
    place = 0
    if not dtype:
        if not data or data[0] not in _ARRAY_TYPES:
            raise ValueError("holds an array of an unknown type")
        dtype, place = _ARRAY_TYPES[data[0]], 1
    if shape_told:
        shape = tuple(map(int, shape_told.split(",")))
    else:
        if len(data) <= place:
            raise ValueError("holds an array without a shape")
        axes, width = data[place] >> 2, 1 << (data[place] & 3)
        stop = place + 1 + axes * width
        if len(data) < stop:
            raise ValueError("holds an array that ends within its shape")
        shape = tuple(np.frombuffer(data, f"<u{width}", axes, place + 1).tolist())
        place = stop
    values = np.dtype(dtype).newbyteorder("<")
    if (len(data) - place) % values.itemsize:
        raise ValueError("holds an array that ends within a number")
    try:
        return np.frombuffer(data, values, -1, place).reshape(shape)
    except ValueError:
        raise ValueError(f"holds an array that does not have its shape {shape}") from None


def _scalar(data: bytes, dtype: str) -> int | float:
    kind = np.dtype(dtype).newbyteorder("<")
    if len(data) != kind.itemsize:
        raise ValueError(f"must have {kind.itemsize} bytes for {dtype}, got {len(data)}")
    value: int | float = np.frombuffer(data, kind)[0].item()
    return value


_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "bytes": lambda data: data,
    "str": lambda data: data.decode("utf-8"),
    "int": lambda data: _scalar(data, "int64"),
    "json": json.loads,
    "str_int": lambda data: int(data.decode("ascii")),
    "str_float": lambda data: float(data.decode("ascii")),
    **dict.fromkeys(("jpeg", "png"), bytes),  # files of pictures
}
