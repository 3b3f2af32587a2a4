"""nanoGPT, llm.c and modded-nanogpt: .bin files of ids, one document after another.

    --header none    train.bin             uint16 and nothing else, all in one file: nanoGPT
    --header llm.c   train_000000.bin …    256 int32 first: magic, version, how many ids there are
                                           uint16 (20240520, 1), or uint32 (20240801, 7)

Neither has masks. llm.c and modded-nanogpt want documents to begin with their end-of-text id:
tokenize with --add-bos --no-add-eos for them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.export.flat import FlatFiles
from dataprep.pipeline.export.format import MAIN, Export, Facts, stored_type
from dataprep.pipeline.export.megatron import notes_on_ends
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import Content
from dataprep.pipeline.storage.kinds import ExportedManifest

HEADER_INTS = 256
MAGIC = {"uint16": (20240520, 1), "uint32": (20240801, 7)}  # with the version
MOST_TOKENS = (1 << 31) - 1  # the header counts in int32


class NanogptFiles:
    def __init__(self, facts: Facts, paths: Mapping[str, Path], count: int) -> None:
        self._flat = FlatFiles(facts, paths, count)
        self._magic = MAGIC[facts.manifest.token_dtype]
        self._has_header = facts.config.header == "llm.c"
        self._num_tokens, self._starts, self._bos = 0, 0, facts.manifest.tokenizer.bos
        if self._has_header:
            self._flat.tokens.write(bytes(4 * HEADER_INTS))

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        self._num_tokens += len(sequences.tokens)
        counts = self._flat.add(sequences)
        is_start = sequences.tokens[sequences.offsets[:-1]] == self._bos
        return {**counts, "starts_missing": len(sequences) - int(np.count_nonzero(is_start))}

    def close(self) -> Mapping[str, Content | None]:
        if self._has_header:
            if self._num_tokens > MOST_TOKENS:
                raise ConfigError(
                    f"{self._num_tokens:,} tokens are too many for one file of llm.c; set a "
                    "smaller --shard-bytes"
                )
            header = np.zeros(HEADER_INTS, "<i4")
            header[:3] = *self._magic, self._num_tokens
            self._flat.tokens.seek(0)
            self._flat.tokens.write(header.tobytes())
        return self._flat.close()


def _check(facts: Facts) -> None:
    if facts.config.header == "none" and facts.manifest.token_dtype != "uint16":
        raise ConfigError(
            f"ids go up to {facts.manifest.max_id:,}, but nanoGPT reads uint16; --header llm.c "
            "writes uint32"
        )


def _name(role: str, number: int, count: int, config: ExportConfig) -> str:
    number_of = "" if config.header == "none" else f"_{number:06d}"
    return f"{config.split}{number_of}.bin"


def _notes(facts: Facts, counts: Mapping[str, int]) -> Iterator[str]:
    if facts.config.header == "none":
        yield from notes_on_ends(facts, counts)
    elif counts.get("starts_missing"):
        yield (
            f"{counted(counts['starts_missing'], 'document')} of {counts['records']:,} do not "
            "begin with the end-of-text id, where llm.c and modded-nanogpt begin a document; "
            "tokenize with --add-bos --no-add-eos"
        )


def usage(out: Path, manifest: ExportedManifest) -> Sequence[str]:
    if manifest.config["header"] == "none":
        return [f"copy or link {out / manifest.shards[0].path} into nanoGPT's data/NAME/"]
    files = out / f"{manifest.config['split']}_*.bin"
    return [f"llm.c: -i {shlex.quote(str(files))}; modded-nanogpt: train_files = {str(files)!r}"]


NANOGPT = Export(
    name="nanogpt",
    kinds=("tokenized",),
    why_not="nanoGPT and llm.c cut documents into rows themselves: export the tokenized dataset "
    "that it was packed from",
    endings={MAIN: ".bin"},
    name_of=_name,
    open=NanogptFiles,
    token_type=stored_type,
    usage=usage,
    check=_check,
    one_file=lambda config: config.header == "none",
    notes=_notes,
)
