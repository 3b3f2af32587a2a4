"""Convert LWM's pickled checkpoint to safetensors, without running any code of the pickle.

A pickle is a program: it can call any function that it names. This reader knows the few names that
arrays and plain containers need, calls its own harmless functions instead, and refuses every other
name before anything is called.

    numpy arrays (any version), flax FrozenDict, jax arrays, OrderedDict    read
    everything else                                                         ConfigError
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.encoders.vqgan.weights import (
    Architecture,
    Tensors,
    architecture_of,
    check_finite,
    write_tensors,
)
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.opening import open_regular

MAX_DEPTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    network: Architecture
    num_tensors: int
    num_parameters: int


def convert_checkpoint(source: Path, target: Path) -> Converted:
    """Write the checkpoint's parameters as safetensors, float32, checked against the network."""
    if target.exists():
        raise ConfigError(f"{target} already exists; remove it, or name another file")
    tree = read_pickle(source)
    if set(tree) == {"params"} and isinstance(tree["params"], Mapping):
        tree = tree["params"]
    tensors: Tensors = {
        name: _as_float32(name, value) for name, value in _flatten(tree, str(source))
    }
    network = architecture_of({name: t.shape for name, t in tensors.items()}, str(source))
    check_finite(tensors, str(source))
    write_tensors(tensors, target)
    num_parameters = sum(t.size for t in tensors.values())
    return Converted(network=network, num_tensors=len(tensors), num_parameters=num_parameters)


def read_pickle(path: Path) -> Mapping[str, Any]:
    try:
        with open_regular(path) as raw, io.BufferedReader(raw) as file:
            tree = _ArraysOnly(file).load()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except Exception as error:
        # A broken pickle can raise anything: EOFError, UnpicklingError, IndexError, …
        raise ConfigError(f"{path} is not a pickled checkpoint: {error!r}") from None
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{path} holds a {type(tree).__name__}, not a tree of parameters")
    return tree


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module, name))
        if known is None:
            raise ConfigError(
                f"holds a {module}.{name}, but only arrays and plain containers are read; "
                "save the parameters as a dict of NumPy arrays"
            )
        return known


class _Array:
    """Stands for `numpy.ndarray` if a pickle names the type; never instantiated."""


def _reconstruct(kind: object, shape: object, typecode: object) -> NDArray[Any]:
    """Return an empty array; the pickle then sets its state: shape, dtype, bytes."""
    if kind is not _Array:
        raise ConfigError("holds an array of an unknown kind")
    return np.zeros(0, np.float32)


def _from_buffer(buffer: bytes, dtype: np.dtype[Any], shape: Any, order: str) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype).reshape(shape, order="F" if order == "F" else "C")


def _encode(text: str, encoding: str) -> bytes:
    """Return bytes as early protocols write them."""
    if encoding != "latin1":
        raise ConfigError(f"holds bytes written as {encoding!r}")
    return text.encode("latin1")


def _jax_array(function: object, arguments: Any, state: Any, about: object) -> NDArray[Any]:
    """Return a jax array, which is pickled as a NumPy array and a remark about its type."""
    if function is not _reconstruct:
        raise ConfigError("holds a jax array of an unknown kind")
    array = _reconstruct(*arguments)
    array.__setstate__(state)
    return array


_KNOWN = {
    **{
        (f"numpy.{core}.{module}", name): function
        for core in ("core", "_core")
        for module, name, function in (
            ("multiarray", "_reconstruct", _reconstruct),
            ("numeric", "_frombuffer", _from_buffer),
        )
    },
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): np.dtype,
    ("flax.core.frozen_dict", "FrozenDict"): dict,
    ("collections", "OrderedDict"): dict,
    ("_codecs", "encode"): _encode,
    ("jax._src.array", "_reconstruct_array"): _jax_array,
}


def _flatten(tree: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves with their names joined by dots, in order."""
    seen = {id(tree)}
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting:
        name, value = waiting.pop()
        if not isinstance(value, Mapping):
            yield name, value
            continue
        if name.count(".") > MAX_DEPTH:
            raise ConfigError(f"{place} is nested more than {MAX_DEPTH} levels deep")
        prefix = f"{name}." if name else ""
        for key, inner in list(value.items())[::-1]:
            if isinstance(inner, Mapping) and id(inner) in seen:  # it may even hold itself
                raise ConfigError(f"{place} holds the same table of parameters twice")
            seen.add(id(inner))
            waiting.append((f"{prefix}{key}", inner))


def _as_float32(name: str, value: Any) -> NDArray[np.float32]:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        what = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise ConfigError(f"parameter {name} is {what}, expected an array of floats")
    return value.astype(np.float32)
