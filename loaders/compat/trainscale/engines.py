"""What a prompt engine makes of a record, as arrays by TrainScale's names.

    engine.process(record), or engine(record)
        {"tokens": [1, 5, 6], "loss_mask": [F, T, T]}      a document, as `dataprep` makes it
        [1, 5, 6]                                          ids alone: all of them have loss
        {"input_ids": …, "labels": …} or a record of them  TrainScale's; also its Ok(…) and Err(…)
    ─►  {"input_ids": [1, 5, 6], "attention_mask": [1, 1, 1], "labels": [-100, 5, 6]}

Columns are renamed before, by a mapping {new: old}, as TrainScale does it, or {old: new}, as it is
documented: the columns of the record tell which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.compat.trainscale.arrays import array_of
from dataprep.loaders.compat.trainscale.collate import IGNORED
from dataprep.pipeline.errors import ConfigError, InputError, short

# Of TrainScale's examples; it leaves them out of batches, and models take no such argument.
_LENGTHS = ("input_length", "prompt_length", "query_length", "num_documents")

Arrays = dict[str, NDArray[Any]]
Record = Mapping[str, Any]
Transform = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """A record to arrays; it can be pickled if its engine and its transform can."""

    engine: Any
    column_mapping: Mapping[str, str] | None = None
    transform: Transform | None = None

    def __post_init__(self) -> None:
        if not callable(self.engine) and not hasattr(self.engine, "process"):
            raise ConfigError(
                f"{short(repr(self.engine), 80)} is no prompt engine: give a function of a record, "
                "or an object with process(record)"
            )

    def __call__(self, record: Record) -> Arrays:
        example = renamed(record, self.column_mapping or {})
        if self.transform is not None:
            example = self.transform(example)
        process = getattr(self.engine, "process", self.engine)
        return arrays_of(process(example))


def arrays_of(result: Any) -> Arrays:
    """Return what an engine returned as arrays of int64, bools as 0 and 1."""
    if hasattr(result, "error"):
        raise InputError(str(result.error))
    result = getattr(result, "value", result)
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        named = (f.name for f in dataclasses.fields(result) if f.name not in _LENGTHS)
        result = {name: getattr(result, name) for name in named}
    if not isinstance(result, Mapping):
        result = {"tokens": result}
    arrays = {name: array_of(value) for name, value in result.items()}
    found = {name: _typed(array) for name, array in arrays.items() if array is not None}
    if "tokens" in found:
        return _as_example(found)
    if not any(name.endswith("input_ids") for name in found):
        raise InputError(
            f"the prompt engine returned {short(repr(result), 80)}; it must return ids, or a "
            "mapping that has tokens or input_ids"
        )
    return found


def _as_example(document: Arrays) -> Arrays:
    """Return a document by TrainScale's names."""
    tokens, loss = document.pop("tokens"), document.pop("loss_mask", None)
    labels = tokens if loss is None else np.where(loss != 0, tokens, IGNORED)
    named = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "labels": labels}
    return named | document


def _typed(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.kind == "f" else array.astype(np.int64)


def renamed(record: Record, mapping: Mapping[str, str]) -> Record:
    """
    >>> renamed({"body": "hi", "id": 3}, {"text": "body"})
    {'id': 3, 'text': 'hi'}
    >>> renamed({"body": "hi", "id": 3}, {"body": "text"})
    {'id': 3, 'text': 'hi'}
    """
    if not mapping:
        return record
    if all(source in record for source in mapping.values()):
        sources = dict(mapping)
    elif all(source in record for source in mapping):
        sources = {target: source for source, target in mapping.items()}
    else:
        missing = [source for source in mapping.values() if source not in record]
        raise InputError(
            f"column_mapping names {', '.join(map(repr, missing))}, which the record does not "
            f"have (columns: {', '.join(record)})"
        )
    kept = {name: value for name, value in record.items() if name not in sources.values()}
    twice = [target for target in sources if target in kept]
    if twice:
        raise ConfigError(
            f"column_mapping makes {', '.join(map(repr, twice))}, which the record has already; "
            "leave that column out before"
        )
    return {**kept, **{target: record[source] for target, source in sources.items()}}
