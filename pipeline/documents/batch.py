"""The columns of a batch, by the keys and paths of fields, and which records have which fields.

spec       q,hint?              columns   q: a b c d      hint: x – y –
answers    is there a hint?     yes no yes no
classes    (yes) records 0 2    (no) records 1 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dataprep.pipeline.documents.lookup import find_value, text_of_scalar
from dataprep.pipeline.documents.settle import Answers, Question
from dataprep.pipeline.ragged import IntegerLists, taken
from dataprep.pipeline.types import ABSENT, Mask, Offsets, Records

_MAX_CLASSES = 16  # with more, few records of a batch have the same fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """Records that have the same answers, and so the same fields."""

    answers: Answers
    rows: Offsets  # their places in the batch


def chosen(records: Records, places: Offsets) -> Records:
    """Return the records at some places of a batch, in order."""
    if len(places) == len(records.lines):
        return records
    columns, rows = records.columns, records.rows
    return replace(
        records,
        lines=records.lines[places],
        offsets=records.offsets[places],
        columns=None if columns is None else {k: taken(v, places) for k, v in columns.items()},
        rows=None if rows is None else [rows[i] for i in places.tolist()],
    )


class BatchColumns:
    def __init__(self, columns: Mapping[str, Sequence[Any]], *, lwm: bool) -> None:
        self._columns = columns
        self._lwm = lwm

    def of(self, key: str) -> Sequence[Any] | None:
        """Return the values of a key or a path, null where a record has none; None if there is no
        such column, or a path leads through something else than objects."""
        column = self._columns.get(key)
        top = key if self._lwm else key.partition(".")[0]
        if top == key or top not in self._columns or (column is not None and all(_given(column))):
            return column
        tops = self._columns[top]
        spelled = [ABSENT] * len(tops) if column is None else column
        try:
            return [
                find_value({k: v for k, v in ((key, a), (top, b)) if v is not ABSENT}, key)
                for a, b in zip(spelled, tops, strict=True)
            ]
        except ValueError:
            return None

    def texts(self, key: str) -> Sequence[str] | None:
        """Return the values as texts; None if one is neither text nor a number."""
        column = self.of(key)
        if column is None or is_text(column):
            return column
        if self._lwm or isinstance(column, IntegerLists):
            return None
        texts = [value if isinstance(value, str) else text_of_scalar(value) for value in column]
        return None if None in texts else [text for text in texts if text is not None]

    def classes(self, questions: Sequence[Question], count: int) -> list[Class]:
        """Return the records by their answers; nothing if they must be looked at one by one."""
        if not questions:
            return [Class(answers=(), rows=np.arange(count))]
        found = [self._answers(question, count) for question in questions]
        known = [answers for answers in found if answers is not None]
        if len(known) < len(found):
            return []
        each = np.array(known, np.bool_).reshape(len(questions), count)
        if (each == each[:, :1]).all():
            answers = each[:, 0] if count else np.zeros(len(questions), np.bool_)
            return [Class(answers=tuple(answers.tolist()), rows=np.arange(count))]
        kinds, owners = np.unique(each, axis=1, return_inverse=True)
        if kinds.shape[1] > _MAX_CLASSES:
            return []
        return [
            Class(answers=tuple(answers), rows=np.flatnonzero(owners.reshape(-1) == number))
            for number, answers in enumerate(kinds.T.tolist())
        ]

    def _answers(self, question: Question, count: int) -> Mask | None:
        """Return the answer of each record; None if a path leads through no object."""
        answers = np.ones(count, np.bool_)
        for key in question.keys:
            column = self._columns.get(key) if question.spelled else self.of(key)
            if column is not None:
                there = [v is not ABSENT for v in column] if question.spelled else _given(column)
                answers &= np.array(there, np.bool_)
            elif not question.spelled and key.partition(".")[0] in self._columns:
                return None
            else:
                answers[:] = False
        return answers


def is_text(column: Sequence[Any]) -> bool:
    return not isinstance(column, IntegerLists) and set(map(type, column)) <= {str}


def _given(column: Sequence[Any]) -> list[bool]:
    """Return which records have a value that is not null."""
    if isinstance(column, IntegerLists):
        return [True] * len(column)
    return [value is not None and value is not ABSENT for value in column]
