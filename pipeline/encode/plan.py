"""Cut the inputs of `dataprep encode` into tasks, which are named by their content.

    inputs ─► sources ─► pieces: ranges of files, parts of tables ─► tasks

A task is so small that a killed run loses little and every worker has something to do. How work is
cut depends only on the input and the config. The plan is also all that a worker is told, except for
the lists of files, which are in files beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.kinds import KINDS
from dataprep.pipeline.encoders import Encoder, Weights, find_encoder, find_weights, open_encoder
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.twice import refuse_twice
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.tasks import make_task
from dataprep.pipeline.media import (
    Entry,
    FoundMedia,
    NamesBeside,
    files_read,
    find_media,
    is_listed,
)
from dataprep.pipeline.media.endings import medium_of
from dataprep.pipeline.sources import (
    Spools,
    count_records,
    format_of,
    list_left_out,
    split_source,
)
from dataprep.pipeline.sources.known import version_of
from dataprep.pipeline.storage.manifest import FORMAT_VERSION
from dataprep.pipeline.storage.source_sums import told
from dataprep.pipeline.types import Modality, Piece, Source, Task

TASKS_WANTED = 32  # enough for every core to be busy to the end
TASK_BYTES = (4 << 20, 64 << 20)  # least and most bytes of input in a task
FEWEST_FILES = 32  # least files in a task, if there are so many
DEFAULT_COLUMN: dict[Modality, str] = {"vision": "image", "audio": "audio"}
# Keys that do not decide what is written; the encoder's own are in its identity.
NEUTRAL = frozenset(
    {
        *("inputs", "out", "workers", "task_timeout", "allow_empty", "max_errors", "max_ratio"),
        *("allow_duplicates", "encoder", "weights", "settings", "executor", "ray_address"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodePlan:
    config: EncodeConfig  # with `column`, `into` and the place of the weights filled in
    kind: Modality
    weights: Weights | None
    sources: tuple[Source, ...]
    tasks: tuple[Task, ...]
    identity: dict[str, Any]  # the fingerprint is its hash
    decode_threads: int  # in each worker
    left_out: str = ""  # what to say about files in folders that are not read

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.identity)

    @property
    def num_variants(self) -> int:
        """How many records are made of each that is read."""
        return 1 if self.config.augment is None else len(self.config.augment.numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    plan: EncodePlan
    found: tuple[FoundMedia, ...]
    encoder: Encoder
    num_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInputs:
    """What the inputs of a config name."""

    media: tuple[FoundMedia, ...]
    left_out: str = ""  # what to say about files in folders that are not read


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEncoder:
    """The encoder of a config."""

    config: EncodeConfig  # with `column`, `into` and the place of the weights filled in
    kind: Modality
    weights: Weights | None
    encoder: Encoder

    def identity(self, found: Sequence[FoundMedia]) -> dict[str, Any]:
        """Return what decides the dataset that is made of these sources."""
        return _identity(self.config, self.encoder.identity, [item.source for item in found])


def opened(config: EncodeConfig, cache_dir: Path | None) -> OpenedEncoder:
    if not config.encoder:
        raise ConfigError("no encoder; set --encoder (dataprep encode --list shows them)")
    spec = find_encoder(config.encoder)
    _refuse_unused(config, spec.kind)
    weights = find_weights(config.weights, cache_dir)
    filled = {
        "weights": weights.path if weights else None,
        "column": config.column or DEFAULT_COLUMN[spec.kind],
        "into": config.into or spec.kind,
    }
    return OpenedEncoder(
        config=config.model_copy(update=filled),
        kind=spec.kind,
        weights=weights,
        encoder=open_encoder(config.encoder, config.settings, weights),
    )


def _refuse_unused(config: EncodeConfig, kind: Modality) -> None:
    """Raise a ConfigError for a setting that concerns only other media."""
    for other in {*KINDS} - {kind}:
        for key in sorted(KINDS[other].settings):
            if getattr(config, key) != EncodeConfig.model_fields[key].default:
                raise ConfigError(
                    f"{key} has no effect: encoder {config.encoder} makes {kind} codes; leave it "
                    "out"
                )


def find_all_media(
    config: EncodeConfig, kind: Modality, cache_dir: Path | None, spools: Spools | None = None
) -> FoundInputs:
    """Return the sources of all inputs, and what is left out."""
    left_out: list[str] = []
    beside = NamesBeside()
    by_input = [
        find_input(path, config, kind, cache_dir, beside, left_out, spools)
        for path in config.inputs
    ]
    if not config.allow_duplicates:
        pairs = zip(config.inputs, by_input, strict=True)
        refuse_twice((given, path) for given, each in pairs for path in files_read(each))
    found = tuple(chain.from_iterable(by_input))
    _check_videos(found, config)
    return FoundInputs(media=found, left_out=list_left_out(left_out))


def make_plan(
    config: EncodeConfig,
    cache_dir: Path | None,
    num_cores: int,
    found: FoundInputs | None = None,
    spools: Spools | None = None,
) -> Planned:
    """Plan the dataset of the sources that were found; None: of all that the inputs name, of which
    `spools` keep those that are no files."""
    if not config.inputs:
        raise ConfigError("no input; name folders, files, tars or tables of media")
    chosen = opened(config, cache_dir)
    found = found or find_all_media(config, chosen.kind, cache_dir, spools)
    workers = config.workers or num_cores
    processes = min(workers, chosen.encoder.max_processes or workers)
    plan = EncodePlan(
        config=chosen.config,
        kind=chosen.kind,
        weights=chosen.weights,
        sources=tuple(item.source for item in found.media),
        tasks=tuple(_make_tasks(found.media, config)),
        identity=chosen.identity(found.media),
        # An encoder that limits the number of processes leaves cores free, which decode.
        decode_threads=workers if processes < workers else 1,
        left_out=found.left_out,
    )
    return Planned(plan=plan, found=found.media, encoder=chosen.encoder, num_workers=processes)


def find_input(
    path: str,
    config: EncodeConfig,
    kind: Modality,
    cache_dir: Path | None,
    names_beside: NamesBeside,
    left_out: list[str],
    spools: Spools | None = None,
) -> list[FoundMedia]:
    """Return the sources of one input."""
    return find_media(
        path,
        kind,
        config.column or DEFAULT_COLUMN[kind],
        cache_dir,
        names_beside,
        allow_outside=config.allow_outside,
        max_ratio=config.max_ratio,
        left_out=left_out,
        spools=spools,
    )


def _check_videos(found: Sequence[FoundMedia], config: EncodeConfig) -> None:
    if config.fps is not None or config.frames is not None:
        return
    names = (entry.name for item in found for entry in item.entries)
    video = next((name for name in names if medium_of(name) == "video"), None)
    if video is not None:
        raise ConfigError(f"{video} is a video; say which frames to take: --fps or --frames")


def _identity(
    config: EncodeConfig, encoder: Mapping[str, Any], sources: Sequence[Source]
) -> dict[str, Any]:
    kinds = list(dict.fromkeys(source.kind for source in sources))
    return {
        "format_version": FORMAT_VERSION,
        "kind": "encoded",
        "config": {
            **config.model_dump(mode="json", exclude=set(NEUTRAL)),
            **{key if key == "encoder" else f"encoder {key}": encoder[key] for key in encoder},
        },
        "sources": told([source.fingerprint for source in sources]),
        # As tokenize tells it: each way to read sources once, and how many are in turn read so.
        "ways": [{"kind": kind, **version_of(kind)} for kind in kinds],
        "read_as": [
            [kinds.index(kind), len([*alike])] for kind, alike in groupby(s.kind for s in sources)
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSize:
    """A task ends when it has this many bytes or this many files."""

    num_bytes: int
    num_files: int


def task_size(found: Sequence[FoundMedia], shard_records: int) -> TaskSize:
    num_bytes = sum(max(item.source.num_bytes, 0) for item in found)
    num_files = sum(len(item.entries) + len(item.named) for item in found)
    return TaskSize(
        num_bytes=min(max(num_bytes // TASKS_WANTED, TASK_BYTES[0]), TASK_BYTES[1]),
        num_files=min(max(num_files // TASKS_WANTED, FEWEST_FILES), shard_records),
    )


def _make_tasks(found: Sequence[FoundMedia], config: EncodeConfig) -> Iterator[Task]:
    """Put pieces together up to the size of a task, until there are enough records."""
    size = task_size(found, config.shard_records)
    left = config.limit
    pieces: list[Piece] = []
    num_bytes = num_records = index = 0
    sources = [item.source for item in found]
    for piece, piece_bytes, count in _pieces(found, size):
        if left is not None:
            count = count_in(sources[piece.source], piece, left - num_records)
        pieces.append(piece)
        num_bytes += piece_bytes
        num_records += count
        is_last = left is not None and num_records >= left
        if is_last or num_bytes >= size.num_bytes or num_records >= size.num_files:
            limit = -1 if left is None or not is_last else left
            yield make_task(sources, index, pieces, num_bytes, limit=limit)
            if is_last:
                return
            left = None if left is None else left - num_records
            index, pieces, num_bytes, num_records = index + 1, [], 0, 0
    if pieces:
        yield make_task(sources, index, pieces, num_bytes)


def _pieces(found: Sequence[FoundMedia], size: TaskSize) -> Iterator[tuple[Piece, int, int]]:
    """Yield pieces with their bytes and number of files (0 if only reading would tell)."""
    for i, item in enumerate(found):
        if is_listed(item.source):
            yield from _ranges(i, item.entries, size)
        else:
            yield from _parts(i, item, size)


def _ranges(
    source: int, entries: Sequence[Entry], size: TaskSize
) -> Iterator[tuple[Piece, int, int]]:
    start = num_bytes = 0
    for stop, entry in enumerate(entries, 1):
        num_bytes += entry.num_bytes
        is_full = num_bytes >= size.num_bytes or stop - start == size.num_files
        if is_full or stop == len(entries):
            yield Piece(source=source, start=start, stop=stop), num_bytes, stop - start
            start, num_bytes = stop, 0


def _parts(index: int, item: FoundMedia, size: TaskSize) -> Iterator[tuple[Piece, int, int]]:
    target, share = size.num_bytes, 0.0
    if item.named:
        # The work is in the files, not in the lines that name them.
        share = len(item.named) / max(1, item.source.num_bytes)  # files per byte
        target = max(1, min(target, int(size.num_files / share)))
    # Lines are counted for names like a.jsonl:17; in a stream that would mean reading it all.
    count_lines = not format_of(item.source.kind).is_stream
    for piece, num_bytes in split_source(item.source, index, target, None, count_lines):
        yield piece, num_bytes, int(num_bytes * share)


def count_in(source: Source, piece: Piece, stop_after: int) -> int:
    if is_listed(source):
        return min(piece.stop - piece.start, stop_after)
    return count_records(source, piece, stop_after)
