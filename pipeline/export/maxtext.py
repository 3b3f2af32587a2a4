"""MaxText: ArrayRecord files of tf.train.Example, whose feature `text` has the ids of a document.

    shards/documents-00000-of-00002.arrayrecord     {"text": [464, 2068, … 50256]}

It packs by itself, so it takes documents, cut into pieces of at most `max_target_length` ids. What
its trainer would be told of a mask does not reach it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dataprep.pipeline.export.format import (
    MAIN,
    Export,
    Facts,
    in_shards,
    max_length_of,
)
from dataprep.pipeline.export.pieces import cut, num_cut
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import Written
from dataprep.pipeline.storage.arrayrecord import RecordWriter
from dataprep.pipeline.storage.foreign.tfexample import encode_examples
from dataprep.pipeline.storage.kinds import ExportedManifest

ENDINGS = {MAIN: ".arrayrecord"}
OPTIONS = "group_size:1,uncompressed"  # Grain reads in random order
COLUMN = "text"  # not `inputs` or `targets`, which MaxText makes of it


class MaxTextFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        self._most = max_length_of(facts)
        self._writer = RecordWriter(paths[MAIN], OPTIONS)

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        offsets = cut(sequences.offsets, self._most)
        self._writer.write(*encode_examples(COLUMN, sequences.tokens, offsets))
        return {
            "records": len(offsets) - 1,
            "tokens": len(sequences.tokens),
            "documents_split": num_cut(np.diff(sequences.offsets), self._most),
        }

    def commit(self) -> dict[str, Written]:
        return {MAIN: self._writer.commit()}


def _check(facts: Facts) -> None:
    max_length_of(facts)


def _notes(facts: Facts, counts: Mapping[str, int]) -> Iterator[str]:
    tokenizer = facts.manifest.tokenizer
    if tokenizer.eos is not None and tokenizer.pad in (None, tokenizer.eos):
        cause = "is EOS" if tokenizer.pad is not None else "is not named, for which it may take EOS"
        yield (
            f"the pad id of the tokenizer {cause}: MaxText has no loss where a target is its pad "
            "id, so no document would learn to end; give it a tokenizer whose pad id is another"
        )


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    files = shlex.quote(str(out / "shards" / "*.arrayrecord"))
    return [
        f"dataset_type=grain grain_file_type=arrayrecord grain_train_files={files}",
        (
            f"tokenize_train_data=False train_data_columns=['{COLUMN}'] packing=True "
            f"max_target_length={manifest.config['max_length']}"
        ),
    ]


MAXTEXT = Export(
    name="maxtext",
    kinds=("tokenized",),
    why_not="MaxText would take a row of several documents for one; it packs documents itself: "
    "export the tokenized dataset that it was packed from",
    endings=ENDINGS,
    name_of=in_shards("documents", ENDINGS),
    open=MaxTextFiles,
    token_type=lambda facts: "varint",
    usage=usage,
    check=_check,
    notes=_notes,
)
