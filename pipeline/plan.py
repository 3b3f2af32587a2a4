"""Inputs into tasks whose identity is their content.

    inputs ─► sources ─► pieces of about task_bytes ─► tasks: one piece, or many small files

How work is cut depends on the input and the config alone, never on workers. The plan is also the
whole of what a worker is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.pipeline.blocks import make_block
from dataprep.pipeline.engine import TokenizerFiles
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.fields import Field, Grammar, check_spec, keys_of
from dataprep.pipeline.manifest import FORMAT_VERSION, fingerprint
from dataprep.pipeline.modality import Block
from dataprep.pipeline.parts import Parts, Rules, add_document
from dataprep.pipeline.record import TOKEN_DTYPES, token_dtype
from dataprep.pipeline.sources import count_records, find_sources, row_shape, split_source
from dataprep.pipeline.types import MODALITIES, Ids, Piece, Source, Task

SMALLEST_TASK_BYTES = 4 << 20
MAX_PIECES = 1 << 14  # of a task: empty files have no bytes to count
TASKS_WANTED = 32  # enough for every core to be busy to the end, few enough to keep shards large

# Keys that do not decide what is written.
NEUTRAL = frozenset(
    {
        *("inputs", "tokenizer", "out", "workers", "engine", "allow_empty", "max_errors"),
        *("encode", "pack"),  # sections of other commands
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """Around a block of codes, as ids."""

    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What the config and the tokenizer say together, as ids."""

    files: TokenizerFiles
    tags: dict[str, Tags]  # of each modality that may occur
    text_prefix: tuple[int, ...]
    text_suffix: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    config: dict[str, Any]
    vocabulary: Vocabulary
    sources: tuple[Source, ...]
    inputs: tuple[int, ...]  # which input each source belongs to
    tasks: tuple[Task, ...]
    task_bytes: int
    masks: tuple[str, ...]
    token_dtype: str
    max_id: int
    identity: dict[str, Any]  # what the fingerprint is the hash of

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.identity)


def find_all_sources(
    config: Mapping[str, Any], cache_dir: Path | None
) -> tuple[list[Source], list[int]]:
    """The sources of all inputs, and which input each belongs to."""
    sources: list[Source] = []
    inputs: list[int] = []
    for i, item in enumerate(config["inputs"]):
        separator = item["text_separator"]
        found = find_sources(
            item["path"],
            separator=config["text_separator"] if separator is None else separator,
            cache_dir=cache_dir,
        )
        sources += found
        inputs += [i] * len(found)
    return sources, inputs


def make_plan(
    config: Mapping[str, Any],
    vocabulary: Vocabulary,
    sources: Sequence[Source],
    inputs: Sequence[int],
) -> Plan:
    """`config` is a TokenizeConfig as plain values; `inputs`: which one each source belongs to."""
    blocks = blocks_of(config, vocabulary, wraps=True)
    for modality, block in blocks.items():
        if block.max_id >= 1 << 31:
            raise ConfigError(
                f"ids of {modality} go up to {block.max_id}, but batches hold 32-bit integers; "
                f"lower code_offset, codebook_size or the tags of modalities.{modality}"
            )
    max_id = max([vocabulary.files.vocab_size - 1, *(b.max_id for b in blocks.values())])
    draft = Plan(
        config=dict(config),
        vocabulary=vocabulary,
        sources=tuple(sources),
        inputs=tuple(inputs),
        tasks=(),
        task_bytes=_task_bytes(sources, config["shard_bytes"]),
        masks=("loss", *blocks),
        token_dtype=token_dtype(max_id),
        max_id=max_id,
        identity=_identity(config, vocabulary, sources, inputs),
    )
    for i in range(len(config["inputs"])):
        _check_rules(rules_of(draft, i))
    tasks = _make_tasks(draft)
    if config["limit"] is not None:
        tasks = _limit(draft, tasks, config["limit"])
    return replace(draft, tasks=tuple(tasks))


def fields_of(config: Mapping[str, Any], index: int) -> tuple[Field, ...] | str:
    """The fields of an input, or the key of the record that names them."""
    item = config["inputs"][index]
    if item["fields"] is None and (item["fields_from"] or config["fields_from"]):
        key: str = item["fields_from"] or config["fields_from"]
        return key
    return check_spec(item["fields"] or config["fields"], grammar_of(config, from_record=False))


def grammar_of(config: Mapping[str, Any], *, from_record: bool) -> Grammar:
    """LWM takes any name with `vision` in it, but only where records bring their own specs."""
    return Grammar(
        codes=tuple((m, tuple(config["modalities"][m]["fields"])) for m in MODALITIES),
        segments=tuple(config["modalities"]["segments"]),
        only_vision=config["compat"] == "lwm" and from_record,
    )


def adds_special_tokens(config: Mapping[str, Any], index: int) -> bool:
    """Whether texts and tags of an input get the tokenizer's own special tokens."""
    wanted = config["field_special_tokens"]
    if wanted == "auto":
        return config["compat"] == "lwm" and isinstance(fields_of(config, index), str)
    return bool(wanted)


def modalities_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Those whose codes may occur: all where only a record tells."""
    found = set(named_modalities(config))
    for i in range(len(config["inputs"])):
        fields = fields_of(config, i)
        if isinstance(fields, str):
            # "vision" is all that LWM knows.
            found |= {"vision"} if config["compat"] == "lwm" else set(MODALITIES)
        elif any(f.kind == "segments" for f in fields):
            found |= set(MODALITIES)
    return tuple(modality for modality in MODALITIES if modality in found)


def named_modalities(config: Mapping[str, Any]) -> frozenset[str]:
    """Those that the fields of any input name."""
    all_fields = [fields_of(config, i) for i in range(len(config["inputs"]))]
    static = [fields for fields in all_fields if not isinstance(fields, str)]
    return frozenset(f.modality for fields in static for f in fields if f.kind == "codes")


def blocks_of(
    config: Mapping[str, Any], vocabulary: Vocabulary, *, wraps: bool
) -> dict[str, Block]:
    """`wraps`: tags that are text get the tokenizer's own special tokens, as texts do."""
    blocks: dict[str, Block] = {}
    for modality, ids in vocabulary.tags.items():
        settings = config["modalities"][modality]

        def tag(name: str, ids: tuple[int, ...], settings: Mapping[str, Any] = settings) -> Ids:
            if wraps and isinstance(settings[name], str):
                ids = (*vocabulary.text_prefix, *ids, *vocabulary.text_suffix)
            return np.array(ids, np.uint32)

        start, end = tag("start", ids.start), tag("end", ids.end)
        blocks[modality] = make_block(modality, settings, start, end)
    return blocks


def rules_of(plan: Plan, index: int) -> Rules:
    """How the records of one input become documents."""
    config, vocabulary = plan.config, plan.vocabulary
    fields = fields_of(config, index)
    wraps = adds_special_tokens(config, index)
    return Rules(
        fields=() if isinstance(fields, str) else fields,
        fields_from=fields if isinstance(fields, str) else "",
        fields_index=config["fields_index"],
        grammar=grammar_of(config, from_record=isinstance(fields, str)),
        bos=vocabulary.files.bos_id,
        eos=vocabulary.files.eos_id,
        add_bos=_add(config["add_bos"], vocabulary.files.bos_id),
        add_eos=_add(config["add_eos"], vocabulary.files.eos_id),
        prepend_text=config["prepend_text"],
        subfield_separator=config["subfield_separator"],
        text_prefix=np.array(vocabulary.text_prefix if wraps else (), np.uint32),
        text_suffix=np.array(vocabulary.text_suffix if wraps else (), np.uint32),
        blocks=blocks_of(config, vocabulary, wraps=wraps),
        vocab_size=vocabulary.files.vocab_size,
        masks=plan.masks,
        dtype=TOKEN_DTYPES[plan.token_dtype],
    )


def keys_wanted(rules: Rules) -> frozenset[str] | None:
    """Top-level keys that reading needs; None: all, as a record's own spec may name any."""
    return None if rules.fields_from else keys_of(rules.fields)


def _add(wanted: bool | str, special: int | None) -> bool:
    return special is not None if wanted == "auto" else bool(wanted)


def _check_rules(rules: Rules) -> None:
    """Find what is wrong for every record before reading the first."""
    literal = [f for f in rules.fields if f.kind in ("bos", "eos", "id")]
    try:
        add_document(Parts(), {}, literal, rules)
    except ValueError as error:
        raise ConfigError(
            f"{error}, or switch it off with --no-add-bos / --no-add-eos"
            if "names no" in str(error)
            else f"fields: {error}"
        ) from None


def _identity(
    config: Mapping[str, Any],
    vocabulary: Vocabulary,
    sources: Sequence[Source],
    inputs: Sequence[int],
) -> dict[str, Any]:
    own = ("fields", "fields_from", "text_separator")
    return {
        "format_version": FORMAT_VERSION,
        "kind": "tokenized",
        "config": {key: value for key, value in config.items() if key not in NEUTRAL},
        "tokenizer": {
            "sha256": vocabulary.files.sha256,
            "bos": vocabulary.files.bos_id,
            "eos": vocabulary.files.eos_id,
            "pad": vocabulary.files.pad_id,
        },
        "sources": [
            {
                "kind": source.kind,
                "fingerprint": source.fingerprint,
                "compression": source.compression,
                "separator": source.separator,
                **{key: config["inputs"][i][key] for key in own},
            }
            for source, i in zip(sources, inputs, strict=True)
        ],
    }


def _task_bytes(sources: Sequence[Source], shard_bytes: int) -> int:
    total = sum(max(source.num_bytes, 0) for source in sources)
    # Half a shard: tokens on disk are about as large as their text, and one task should give one.
    return min(max(total // TASKS_WANTED, SMALLEST_TASK_BYTES), max(shard_bytes // 2, 1 << 16))


def _make_tasks(plan: Plan) -> list[Task]:
    tasks: list[Task] = []
    pieces: list[Piece] = []
    num_bytes = 0
    for i, source in enumerate(plan.sources):
        rules = rules_of(plan, plan.inputs[i])
        _check_codebooks(source, rules)
        count_lines = bool(rules.fields_from) and plan.config["fields_index"] is None
        for piece, size in split_source(
            source, i, plan.task_bytes, keys_wanted(rules), count_lines
        ):
            pieces.append(piece)
            num_bytes += size if size >= 0 else plan.task_bytes
            if len(pieces) < MAX_PIECES and num_bytes < plan.task_bytes * 3 // 4:
                continue
            tasks.append(_task(plan, len(tasks), pieces, num_bytes))
            pieces, num_bytes = [], 0
    if pieces:
        tasks.append(_task(plan, len(tasks), pieces, num_bytes))
    return tasks


def _check_codebooks(source: Source, rules: Rules) -> None:
    """A row of an .npy must say which codes are of which codebook."""
    books = [rules.blocks[f.modality].codebooks for f in rules.fields if f.kind == "codes"]
    if source.kind == "npy" and max(books, default=1) > 1 and len(row_shape(source.path)) == 1:
        raise InputError(
            f"{source.path} has rows without codebooks, but modalities.audio.codebooks is "
            f"{max(books)}; save it as an array of [records, codebooks, frames]"
        )


def _task(plan: Plan, index: int, pieces: Sequence[Piece], num_bytes: int, limit: int = -1) -> Task:
    content = {
        "pieces": [
            [plan.sources[p.source].fingerprint, p.start, p.stop, p.first_line] for p in pieces
        ],
        "limit": limit,
    }
    return Task(
        index=index,
        identity=fingerprint(content).removeprefix("sha256:")[:16],
        pieces=tuple(pieces),
        num_bytes=num_bytes,
        limit=limit,
    )


def _limit(plan: Plan, tasks: Sequence[Task], limit: int) -> list[Task]:
    """The tasks that hold the first `limit` records; the last one stops within."""
    kept: list[Task] = []
    for task in tasks:
        count = 0
        for piece in task.pieces:
            count += count_records(plan.sources[piece.source], piece, limit - count)
            if count >= limit:
                break
        if count >= limit:
            kept.append(_task(plan, task.index, task.pieces, task.num_bytes, limit))
            return kept
        kept.append(task)
        limit -= count
    return kept
