"""Settle which fields a record has: some forms of the grammar depend on its keys.

    spec       [q],hint?,a          questions: is there a `hint`? is there a key spelled "hint?"
    record     {"q": …, "a": …}     answers:   no, no      ─►   fields [q],a
    record     {"q": …, "hint": …, "a": …}     yes, no     ─►   fields [q],hint,a

Records with the same answers have the same fields, so they are settled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dataprep.pipeline.documents.field import Field
from dataprep.pipeline.documents.lookup import find_value
from dataprep.pipeline.types import Record

Fields = tuple[Field, ...]
Answers = tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whether a record has a value for an optional key, or all the keys spelled like a field."""

    field: int
    keys: tuple[str, ...]
    spelled: bool  # the keys of the field's `plain`, as they are

    def of_record(self, record: Record) -> bool:
        if self.spelled:
            return all(key in record for key in self.keys)
        return find_value(record, self.keys[0]) is not None


def questions_of(fields: Fields) -> tuple[Question, ...]:
    """Return what must be known of a record, by field, spelled keys first; often nothing."""
    return tuple(
        question
        for i, field in enumerate(fields)
        for question in (
            *([Question(field=i, keys=field.plain.keys, spelled=True)] if field.plain else ()),
            *(
                Question(field=i, keys=(key,), spelled=False)
                for key in field.keys
                if key in field.optional
            ),
        )
    )


def settle(fields: Fields, questions: Sequence[Question], answers: Answers) -> Fields:
    """Return the fields of a record with these answers: none is optional, none has a `plain`."""
    settled = []
    for i, field in enumerate(fields):
        known = [(q, yes) for q, yes in zip(questions, answers, strict=True) if q.field == i]
        if any(yes and question.spelled for question, yes in known):
            assert field.plain is not None
            settled.append(field.plain)
            continue
        absent = {question.keys[0] for question, yes in known if not yes and not question.spelled}
        keys = tuple(key for key in field.keys if key not in absent)
        if keys or not field.keys:
            settled.append(replace(field, keys=keys, optional=frozenset(), plain=None))
    return tuple(settled)


class Settler:
    """Settles the fields of many records; equal answers give the very same tuple."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self.questions = questions_of(fields)
        self._known: dict[Answers, Fields] = {}

    def of_record(self, record: Record) -> Fields:
        answers: list[bool] = []
        won = -1  # the last field whose keys are there as it is spelled: its path does not matter
        for question in self.questions:
            answers.append(question.field != won and question.of_record(record))
            won = question.field if question.spelled and answers[-1] else won
        return self.settled(tuple(answers))

    @property
    def there(self) -> frozenset[str]:
        """Return the optional keys that any record settled so far has."""
        found: set[str] = set()
        for answers in self._known:
            for question, yes in zip(self.questions, answers, strict=True):
                keys = self._fields[question.field].optional if question.spelled else question.keys
                found |= {*keys} if yes else set()
        return frozenset(found)

    def settled(self, answers: Answers) -> Fields:
        """Return the fields of records with these answers."""
        if not answers:
            return self._fields
        if answers not in self._known:
            self._known[answers] = settle(self._fields, self.questions, answers)
        return self._known[answers]
