"""Plans as files, by which the parent tells workers what to do.

A plan is a frozen record; the config in it is the validated model, in the parent and in workers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import write_atomic

PLAN = "plan.json"

P = TypeVar("P")


def write_plan(work: Path, plan: object, name: str = PLAN) -> None:
    write_atomic(work / name, msgspec.json.encode(plan, enc_hook=_values_of))


def read_plan(work: Path, kind: type[P], name: str = PLAN) -> P:
    try:
        return msgspec.json.decode((work / name).read_bytes(), type=kind, dec_hook=_model_of)
    except (msgspec.MsgspecError, FileNotFoundError) as error:
        raise CorruptError(
            f"{work / name} is damaged: {error}; start again with --overwrite"
        ) from None


def _values_of(value: Any) -> Any:
    assert isinstance(value, BaseModel), type(value)
    return value.model_dump(mode="json")


def _model_of(kind: type[Any], values: Any) -> Any:
    assert issubclass(kind, BaseModel), kind
    return kind.model_validate(values)
