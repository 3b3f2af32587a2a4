"""Plans as files, by which the parent tells workers what to do.

A plan is a frozen record; the config in it is the validated model, in the parent and in workers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import read_sealed, write_sealed
from dataprep.pipeline.typed import decode_as

PLAN = "plan.json"

P = TypeVar("P")


def write_plan(work: Path, plan: object, name: str = PLAN) -> None:
    """Write a plan durably, unless it is there already: there may be thousands of them."""
    data = msgspec.json.encode(plan, enc_hook=_values_of)
    if read_sealed(work / name) != data:
        write_sealed(work / name, data)


def find_plan(work: Path, kind: type[P], name: str = PLAN) -> P | None:
    """Return the plan; None if there is none, or only what is left of a damaged one."""
    data = read_sealed(work / name)
    return None if data is None else decode_as(data, kind, _model_of)


def read_plan(work: Path, kind: type[P], name: str = PLAN) -> P:
    plan = find_plan(work, kind, name)
    if plan is None:
        raise CorruptError(f"{work / name} is missing or damaged; run the same command again")
    return plan


def _values_of(value: Any) -> Any:
    assert isinstance(value, BaseModel), type(value)
    return value.model_dump(mode="json")


def _model_of(kind: type[Any], values: Any) -> Any:
    assert issubclass(kind, BaseModel), kind
    return kind.model_validate(values)
