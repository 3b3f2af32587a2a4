"""xlstm-jax: ArrayRecord files of int32 ids, which it finds by the name of their split.

    train/train_000000.arecord      documents: 1 … L ids, the final EOS left out, pieces of L
    train/train_000000.arecord      rows: 1 … L ids, padding left out, and a final EOS before it

It adds an EOS to whatever is shorter than L, and tells the documents of a row apart by their EOS
alone. So a row can be exported if each of its documents ends with the only EOS in it; only the
last may lack one, if it fills the row. A mask cannot reach it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.errors import ConfigError, InputError, counted
from dataprep.pipeline.export.format import MAIN, Export, Facts, max_length_of
from dataprep.pipeline.export.pieces import num_cut, pieces_of
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import Written
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.arrayrecord import RecordWriter
from dataprep.pipeline.storage.kinds import ExportedManifest

ENDINGS = {MAIN: ".arecord"}
OPTIONS = "group_size:1,uncompressed"
ID = np.dtype("<i4")


class XlstmFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        eos = facts.eos
        assert eos is not None
        self._eos = eos
        self._most = facts.capacity if facts.is_packed else max_length_of(facts)
        self._writer = RecordWriter(paths[MAIN], OPTIONS)

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        if sequences.lengths is not None:
            is_cut = self._rows_to_cut(sequences)
        else:
            is_cut = sequences.tokens[sequences.offsets[1:] - 1] == self._eos
        lengths = np.diff(sequences.offsets) - is_cut
        starts, stops = pieces_of(sequences.offsets[:-1], lengths, self._most)
        data, size = sequences.tokens.astype(ID).view(np.uint8).data, ID.itemsize
        places = zip((starts * size).tolist(), (stops * size).tolist(), strict=True)
        self._writer.write(*[bytes(data[start:stop]) for start, stop in places])
        ends = {} if sequences.lengths is not None else {"ends_missing": int((~is_cut).sum())}
        return {
            "records": len(starts),
            "tokens": int(lengths.sum()),
            "ends_cut": int(is_cut.sum()),
            "ends_lost": int((is_cut & (lengths > 0) & (lengths % self._most == 0)).sum()),
            "left_out": int(np.count_nonzero(lengths == 0)),
            "documents_split": num_cut(lengths, self._most),
            **ends,
        }

    def _rows_to_cut(self, rows: Sequences) -> NDArray[np.bool_]:
        """Return which rows lose their final EOS: those that are shorter than a row can be."""
        assert rows.lengths is not None
        ends = offsets_of(rows.lengths.values)[1:]
        is_full: NDArray[np.bool_] = np.diff(rows.offsets) == self._most
        has_end = rows.tokens[ends - 1] == self._eos
        may_lack = np.zeros(len(ends), np.bool_)
        may_lack[rows.lengths.offsets[1:] - 1] = is_full
        lacks = int((~has_end & ~may_lack).sum())
        inside = int(np.count_nonzero(rows.tokens == self._eos)) - int(has_end.sum())
        if lacks or inside:
            what = (
                f"EOS is missing at the end of {counted(lacks, 'document')}"
                if lacks
                else f"{counted(inside, 'EOS id')} inside of documents"
            )
            raise InputError(
                f"{what} of some rows, but xlstm-jax tells the documents of a row apart by EOS "
                "alone; export the tokenized dataset, whose documents it packs itself"
            )
        return ~is_full

    def commit(self) -> dict[str, Written]:
        return {MAIN: self._writer.commit()}


def _check(facts: Facts) -> None:
    if facts.eos is None:
        raise ConfigError(
            "the tokenizer of this dataset names no EOS, which xlstm-jax needs to tell documents "
            "apart; tokenize again with a tokenizer that has one"
        )
    if facts.is_packed and facts.config.max_length not in (None, facts.capacity):
        raise ConfigError(
            f"--max-length {facts.config.max_length}: rows have {facts.capacity} tokens; leave it "
            "out, or pack again with --seq-len one below it"
        )
    if not facts.is_packed:
        max_length_of(facts)


def _name(role: str, number: int, count: int, config: ExportConfig) -> str:
    return f"{config.split}/{config.split}_{number:06d}{ENDINGS[role]}"


def _notes(facts: Facts, counts: Mapping[str, int]) -> Iterator[str]:
    if counts.get("ends_missing"):
        yield (
            f"EOS is missing at the end of {counted(counts['ends_missing'], 'document')}; "
            "xlstm-jax adds one to every document that is shorter than max_target_length"
        )
    if counts.get("ends_lost"):
        yield (
            f"the EOS of {counted(counts['ends_lost'], 'document')} is lost: where a document ends "
            "with a full piece of max_target_length, xlstm-jax adds none"
        )


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    packs = manifest.seq_len is None
    length = manifest.config["max_length"] if manifest.seq_len is None else manifest.seq_len + 1
    return [
        (
            f"data_path={out} split={manifest.config['split']} tokenize_data=False add_eod=True "
            f"grain_packing={packs} max_target_length={length}"
        ),
    ]


XLSTM = Export(
    name="xlstm",
    kinds=("tokenized", "packed"),
    endings=ENDINGS,
    name_of=_name,
    open=XlstmFiles,
    token_type=lambda facts: "int32",
    usage=usage,
    check=_check,
    notes=_notes,
)
