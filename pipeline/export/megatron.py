"""Megatron-LM: pairs of .bin and .idx, each byte by byte as its IndexedDatasetBuilder writes it.

    shards/documents-00000-of-00002.bin     ids, one document after another
    shards/documents-00000-of-00002.idx     lengths, places, documents

It packs by itself, so it takes documents, which should end with EOS and begin without BOS. It has
no masks.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import counted
from dataprep.pipeline.export.format import (
    MAIN,
    Export,
    Facts,
    TokenType,
    ends_of,
    in_shards,
)
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import NewFile, Written, commit_files
from dataprep.pipeline.storage.foreign.megatron import encode_index, token_type
from dataprep.pipeline.storage.kinds import ExportedManifest

ENDINGS = {MAIN: ".bin", "index": ".idx"}
MOST_NAMED = 4  # prefixes that a command line shows


class MegatronFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        self._eos = facts.eos
        self._dtype = token_type(facts.num_ids)
        self._file, self._index = NewFile(paths[MAIN]), NewFile(paths["index"])
        self._lengths: list[NDArray[Any]] = [np.zeros(0, np.int64)]

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        self._file.write(np.ascontiguousarray(sequences.tokens, self._dtype))
        self._lengths.append(np.diff(sequences.offsets))
        counts = {"records": len(sequences), "tokens": len(sequences.tokens)}
        return {**counts, **ends_of(sequences, self._eos)}

    def commit(self) -> dict[str, Written]:
        self._index.write(encode_index(np.concatenate(self._lengths), self._dtype))
        return commit_files({MAIN: self._file, "index": self._index})


def notes_on_ends(facts: Facts, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what may be a mistake for a trainer that knows documents by their EOS."""
    missing, inside = counts.get("ends_missing", 0), counts.get("ends_inside", 0)
    if missing:
        yield (
            f"EOS is missing at the end of {counted(missing, 'document')} of "
            f"{counts['records']:,}: {facts.config.to} tells documents apart by it; tokenize with "
            "--add-eos"
        )
    if inside:
        yield f"{counted(inside, 'EOS id')} inside of documents: they look like several there"


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    prefixes = [str(out / os.path.splitext(shard.path)[0]) for shard in manifest.shards]
    shown = shlex.join(prefixes)
    if len(prefixes) > MOST_NAMED:
        files = f"{shlex.quote(str(out / 'shards'))}/*.bin"
        shown = f"$(ls {files} | sed 's/\\.bin$//')"
    return [f"--data-path {shown}"]


def _token_type(facts: Facts) -> TokenType:
    return "uint16" if token_type(facts.num_ids).itemsize == 2 else "int32"


MEGATRON = Export(
    name="megatron",
    kinds=("tokenized",),
    why_not="Megatron-LM packs documents itself: export the tokenized dataset that it was packed "
    "from; for packed fine-tuning, --to megatron-bridge",
    endings=ENDINGS,
    name_of=in_shards("documents", ENDINGS),
    open=MegatronFiles,
    token_type=_token_type,
    usage=usage,
    notes=notes_on_ends,
)
