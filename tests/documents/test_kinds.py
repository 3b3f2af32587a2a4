"""A new kind of field is a class and a line of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dataprep.pipeline.documents.field import Field, Grammar
from dataprep.pipeline.documents.kinds import FIELD_KINDS, FieldKind
from dataprep.pipeline.documents.lookup import text_of
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.storage.keys import part, read_keys
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from dataprep.pipeline.types import Record
from support.inprocess import seen_in, tokenize_here, write_lines


class LengthField(FieldKind):
    """#x is the number of letters of x, as an id."""

    kind, has_pattern = "length", False

    def parse(self, name: str, grammar: Grammar) -> Field | None:
        return Field(kind=self.kind, keys=(name[1:],)) if name.startswith("#") else None

    def spell(self, keys: tuple[str, ...]) -> str:
        return f"#{keys[0]}"

    def add(self, parts: Parts, record: Record, field: Field, rules: Rules) -> None:
        length = len(text_of(record, field.keys[0], lwm=False))
        parts.add_ids(np.array([length], np.uint32), field.weight)

    def content(self, record: Record, field: Field, rules: Rules) -> Iterator[bytes]:
        yield part("length", b"%d" % len(text_of(record, field.keys[0], lwm=False)))


@pytest.fixture
def with_lengths() -> Iterator[None]:
    known = dict(FIELD_KINDS)
    FIELD_KINDS.clear()
    FIELD_KINDS.update({"length": LengthField(), **known})
    yield
    FIELD_KINDS.clear()
    FIELD_KINDS.update(known)


@pytest.mark.usefixtures("with_lengths")
def test_a_new_kind_of_field_is_a_class_and_a_line_of_the_table(tmp_path: Path) -> None:
    records = [{"a": "xyz", "b": "no"}, {"a": "z"}]
    path = write_lines(tmp_path / "in.jsonl", records)
    config = {"fields": "'>',[a],#a,#b?", "add_bos": False, "add_eos": False}
    tokenize_here(tmp_path / "out", inputs=[str(path)], tokenizer="bytes", **config)
    seen = [(list(each.tokens), list(each.loss)) for each in seen_in(tmp_path / "out")]
    assert seen == [([*b">xyz", 3, 2], [1, 0, 0, 0, 1, 1]), ([*b">z", 1], [1, 0, 1])]


@pytest.mark.usefixtures("with_lengths")
def test_a_new_kind_of_field_counts_in_the_keys_of_documents(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"a": "xyz"}, {"a": "z"}, {"a": "abc"}])
    config = {"inputs": [str(path)], "tokenizer": "bytes", "fields": "#a", "keys": "content"}
    tokenize_here(tmp_path / "out", **config)
    manifest = read_manifest(tmp_path / "out")
    assert isinstance(manifest, TokenizedManifest)
    first, second, third = read_keys(tmp_path / "out", manifest.shards[0])["content"].tolist()
    assert first == third != second
