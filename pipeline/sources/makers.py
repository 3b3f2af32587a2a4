"""Record in the Parquet file itself which encoder made a column of codes, so copies have it too.

    schema metadata  dataprep: [{"codebook_size":8192,"column":"vision","encoder":"patches",
                                 "kind":"vision","tokens_per_frame":256}]

A column that came with the records of another dataset of codes keeps its maker. If one column of a
shard has values from several makers, each is listed, also the unknown one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.encoded import KEY
from dataprep.pipeline.sources.known import format_of
from dataprep.pipeline.typed import decode_as
from dataprep.pipeline.types import Modality, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """What is known about the encoder of a column; None is unknown."""

    column: str
    kind: Modality
    encoder: str | None = None
    tokens_per_frame: int | None = None  # vision only
    num_codebooks: int | None = None  # audio only
    codebook_size: int | None = None

    @property
    def facts(self) -> dict[str, int]:
        """What is known, under the keys of the config section modalities.KIND."""
        frame = "tokens_per_frame" if self.kind == "vision" else "codebooks"
        of_frame = self.tokens_per_frame if self.kind == "vision" else self.num_codebooks
        named = {frame: of_frame, "codebook_size": self.codebook_size}
        return {key: value for key, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeMakers:
    """What a file says about its codes."""

    makers: tuple[Maker, ...] = ()
    columns: frozenset[str] = frozenset()  # of the file

    def by(self, column: str | None, kind: str) -> list[Maker]:
        """Return the makers of the column, or of every column of this kind if `column` is None.

        A maker whose own column is gone counts too: the column may have been renamed.
        """
        if column is None:
            return [maker for maker in self.makers if maker.kind == kind]
        own = [maker for maker in self.makers if maker.column == column]
        gone = [maker for maker in self.makers if maker.column not in self.columns]
        return own or [maker for maker in gone if maker.kind == kind]


def metadata_of(makers: Iterable[Maker]) -> dict[bytes, bytes]:
    """Return the metadata of a schema; the same bytes for any order of the makers."""
    said = ({k: v for k, v in asdict(maker).items() if v is not None} for maker in set(makers))
    texts = sorted(json.dumps(item, sort_keys=True, separators=(",", ":")) for item in said)
    return {KEY: f"[{','.join(texts)}]".encode()}


def read_made(source: Source) -> CodeMakers:
    """Read the schema of a table; other sources have no makers."""
    schema = format_of(source.kind).schema(source)
    if schema is None:
        return CodeMakers()
    value = (schema.metadata or {}).get(KEY, b"[]")
    try:
        makers = decode_as(value, tuple[Maker, ...])
    except msgspec.MsgspecError as error:
        raise InputError(
            f"cannot read what {source.path} says about its codes, the metadata {KEY.decode()!r} "
            f"of its schema: {error}; encode it again, or write it again without that metadata"
        ) from None
    return CodeMakers(makers=makers, columns=frozenset(schema.names))


def passed_on(records: Iterable[tuple[Mapping[str, Any], Sequence[Maker]]]) -> set[Maker]:
    """Return the makers of the columns in `records`, each given with the makers of its source."""
    records = list(records)
    kinds = {maker.column: maker.kind for _, makers in records for maker in makers}
    found: set[Maker] = set()
    for columns, makers in records if kinds else ():
        for column, kind in kinds.items():
            if columns.get(column) is not None:
                own = {maker for maker in makers if maker.column == column}
                found |= own or {Maker(column=column, kind=kind)}
    return found
