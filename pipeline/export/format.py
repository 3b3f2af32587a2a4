"""What a format must define so that a dataset can be exported to it.

    MEGATRON = Export(name="megatron", kinds=("tokenized",), open=MegatronFiles, …)

and one line in `EXPORTS`. A format knows nothing of tasks, markers and manifests: it gets sequences
and writes them to files, which it commits when it is told to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.export.sequences import Sequences, TokensManifest
from dataprep.pipeline.files import Written
from dataprep.pipeline.storage.kinds import ExportedManifest, PackedManifest
from dataprep.pipeline.storage.masks import MASKS

DatasetKind = Literal["tokenized", "packed"]
TokenType = Literal["uint16", "uint32", "int32", "varint"]
MAIN = "main"  # the role of the file that a shard is named by

# What a trainer learns that does not look at a mask; of pictures and sounds, nothing else.
_UNHEARD = {
    "loss": "tokens without loss are learned, too",
    "encoder": "both sides are learned as one text",
    "rejected": "rejected answers are learned as chosen ones are",
    "weight": "all tokens count alike",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What formats ask about the dataset that is exported."""

    config: ExportConfig
    manifest: TokensManifest
    masks: tuple[str, ...]  # that go along

    @property
    def is_packed(self) -> bool:
        return isinstance(self.manifest, PackedManifest)

    @property
    def eos(self) -> int | None:
        return self.manifest.tokenizer.eos

    @property
    def num_ids(self) -> int:
        """Return how many different ids there may be: codes may be above the vocabulary."""
        return max(self.manifest.tokenizer.vocab_size, self.manifest.max_id + 1)

    @property
    def capacity(self) -> int:
        """Return the most tokens of a row."""
        assert isinstance(self.manifest, PackedManifest)
        return self.manifest.seq_len + 1


class ShardWriter(Protocol):
    """Writes the files of one shard."""

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        """Write sequences; return counts, `records` and `tokens` among them."""
        ...

    def commit(self) -> dict[str, Written]:
        """Write what is left; return the files by role, durable under their names."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One format; paths in `open` are by role, as in `endings`."""

    name: str
    kinds: tuple[DatasetKind, ...]
    why_not: str = ""  # why datasets of the other kind cannot be exported, and what can
    masks: frozenset[str] = frozenset()  # that its files can carry
    endings: Mapping[str, str]  # of the files of a shard, by role; MAIN is one
    only_with: Mapping[str, str] = field(default_factory=dict)  # roles of files for a mask
    name_of: Callable[[str, int, int, ExportConfig], str]  # role, number, count -> path in the out
    # Called with the number of sequences that are to come.
    open: Callable[[Facts, Mapping[str, Path], int], ShardWriter]
    token_type: Callable[[Facts], TokenType]
    usage: Callable[[Path, ExportedManifest], Sequence[str]]  # what to tell the trainer
    check: Callable[[Facts], None] = lambda facts: None  # raise ConfigError if it cannot be done
    one_file: Callable[[ExportConfig], bool] = lambda config: False
    notes: Callable[[Facts, Mapping[str, int]], Iterator[str]] = lambda facts, counts: iter(())
    # Files beside the shards, by name: README.md, index.json …
    texts: Callable[[ExportedManifest], Mapping[str, str]] = lambda manifest: {}

    def endings_of(self, facts: Facts) -> dict[str, str]:
        """Return the endings of the files of a shard: one for a mask only if that goes along."""
        return {
            role: ending
            for role, ending in self.endings.items()
            if self.only_with.get(role) in (None, *facts.masks)
        }


def in_shards(what: str, endings: Mapping[str, str]) -> Callable[[str, int, int, Any], str]:
    """Return how files are named that may have any name.

    >>> in_shards("documents", {"main": ".bin"})("main", 3, 16, None)
    'shards/documents-00003-of-00016.bin'
    """
    return lambda role, number, count, config: (
        f"shards/{what}-{number:05d}-of-{count:05d}{endings[role]}"
    )


def stored_type(facts: Facts) -> TokenType:
    """Return the type that the dataset itself has its ids in."""
    return facts.manifest.token_dtype


def max_length_of(facts: Facts) -> int:
    """Return the most ids of a record, which the user must know."""
    if facts.config.max_length is None:
        raise ConfigError(
            f"--to {facts.config.to} needs --max-length, the max_target_length that you train "
            "with; longer documents are cut into pieces of it"
        )
    return facts.config.max_length


def ends_of(sequences: Sequences, eos: int | None) -> dict[str, int]:
    """Count documents that do not end with EOS, and EOS inside of documents: trainers that know
    documents by EOS alone see those as other documents than they are."""
    if eos is None:
        return {"ends_missing": len(sequences), "ends_inside": 0}
    is_end = sequences.tokens[sequences.offsets[1:] - 1] == eos
    total = int(np.count_nonzero(sequences.tokens == eos))
    right = int(np.count_nonzero(is_end))
    return {"ends_missing": len(sequences) - right, "ends_inside": total - right}


def only_first_tokens_lack_loss(manifest: TokensManifest) -> bool:
    """Return whether no more tokens lack loss than there are documents: mostly, since only the data
    says which ones do (see `sequences`)."""
    counts = manifest.counts
    if isinstance(manifest, PackedManifest):
        return counts["tokens"] - counts["target_tokens"] <= counts["segments"]
    # What was forgotten is padding without loss, which is not exported.
    tokens = counts["tokens"] - counts.get("tokens_masked", 0)
    documents = counts["documents_written"] - counts.get("documents_masked", 0)
    return tokens - counts["target_tokens"] <= documents


def notes_on_unread(masks: Iterable[str], trainer: str) -> Iterator[str]:
    """Yield what a trainer learns that does not read masks which go along as columns."""
    for mask in masks:
        if mask in _UNHEARD:
            yield (
                f"{MASKS[mask].array} is a column that {trainer} not read, so that "
                f"{_UNHEARD[mask]}: train with a loss of your own that looks at it"
            )
