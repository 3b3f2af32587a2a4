"""Cut inputs into tasks, which are named by their content.

    inputs ─► sources ─► pieces of about task_bytes ─► tasks: one piece, or many small files

How work is cut depends only on the input and the config, never on workers. The plan is also all
that workers are told (`told`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.kinds import NoSpecialTokenError
from dataprep.pipeline.documents.lay_out import add_document
from dataprep.pipeline.documents.parts import Parts
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.documents.rules import (
    Vocabulary,
    blocks_of,
    chat_of,
    keys_wanted,
    make_rules,
    masks_of,
    pretokenized_of,
)
from dataprep.pipeline.engine import SpecialInText
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.guards.twice import refuse_twice
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.tasks import make_task
from dataprep.pipeline.sources import (
    Spools,
    all_files,
    count_records,
    find_sources,
    format_of,
    list_left_out,
    split_source,
)
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, TokenDtype, token_dtype
from dataprep.pipeline.tokenize.chats import ChatPlan
from dataprep.pipeline.tokenize.first_keys import refuse_masks_ahead
from dataprep.pipeline.tokenize.identity import identity_parts
from dataprep.pipeline.tokenize.objectives import check_budget, check_objective, check_pretokenized
from dataprep.pipeline.tokenize.reading import refuse_unused
from dataprep.pipeline.types import Piece, Source, Task

SMALLEST_TASK_BYTES = 4 << 20
MAX_PIECES = 1 << 14  # most pieces of a task: empty files have no bytes to count
TASKS_WANTED = 32  # enough for every core to be busy to the end, few enough to keep shards large


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSources:
    """What the inputs of a config name."""

    sources: tuple[Source, ...]
    inputs: tuple[int, ...]  # which input each source belongs to
    left_out: str = ""  # what to say about files in folders that are not read

    def only(self, chosen: Mapping[int, Source]) -> FoundSources:
        """Return some of the sources, by their places; of a file it may be a part."""
        return FoundSources(
            sources=tuple(chosen.values()), inputs=tuple(self.inputs[i] for i in chosen)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizePlan:
    config: TokenizeConfig
    vocabulary: Vocabulary
    sources: tuple[Source, ...]
    inputs: tuple[int, ...]  # which input each source belongs to
    tasks: tuple[Task, ...]
    task_bytes: int
    masks: tuple[str, ...]
    token_dtype: TokenDtype
    max_id: int
    identity: dict[str, Any]  # the fingerprint is its hash
    left_out: str = ""  # what to say about files in folders that are not read
    chats: tuple[ChatPlan | None, ...] = ()  # of each input

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.identity)

    @property
    def has_texts(self) -> bool:
        """Return whether the records of any input are more than token ids."""
        inputs = range(len(self.config.inputs))
        return any(pretokenized_of(self.config, i) is None for i in inputs)


def find_all_sources(
    config: TokenizeConfig, cache_dir: Path | None, spools: Spools | None, *, hashed: bool = True
) -> FoundSources:
    """Return the sources of all inputs, which input each belongs to, and what is left out; if they
    are not `hashed`, they can only be looked at."""
    left_out: list[str] = []
    sources: list[Source] = []
    inputs: list[int] = []
    for i, item in enumerate(config.inputs):
        own = item.text_separator
        separator = config.text_separator if own is None else own
        found = find_sources(
            item.path,
            separator=separator,
            max_ratio=config.max_ratio,
            cache_dir=cache_dir,
            left_out=left_out,
            spools=spools,
            hashed=hashed,
            options=config.how_read(i),
        )
        sources += found
        inputs += [i] * len(found)
    refuse_unused(config, sources, inputs)
    if not config.allow_duplicates:
        pairs = [(config.inputs[i].path, s) for s, i in zip(sources, inputs, strict=True)]
        refuse_twice((given, file) for given, source in pairs for file in all_files(source))
    return FoundSources(
        sources=tuple(sources), inputs=tuple(inputs), left_out=list_left_out(left_out)
    )


def identity_of(
    config: TokenizeConfig,
    vocabulary: Vocabulary,
    found: FoundSources,
    chats: tuple[ChatPlan | None, ...],
) -> dict[str, Any]:
    """Return what decides the dataset; the fingerprint is its hash."""
    blocks = blocks_of(config, vocabulary, wraps=True)
    masks = masks_of(config, blocks, has_weights=any(c and c.found.has_weights for c in chats))
    return identity_parts(config, vocabulary, found.sources, found.inputs, masks, chats)


def make_plan(
    config: TokenizeConfig,
    vocabulary: Vocabulary,
    found: FoundSources,
    chats: tuple[ChatPlan | None, ...] = (),
) -> TokenizePlan:
    blocks = blocks_of(config, vocabulary, wraps=True)
    for modality, block in blocks.items():
        if block.max_id >= 1 << 31:
            raise ConfigError(
                f"ids of {modality} go up to {block.max_id}, but batches hold 32-bit integers; "
                f"lower code_offset, codebook_size or the tags of modalities.{modality}"
            )
    added = [id for named in vocabulary.objectives for ids in named.values() for id in ids]
    max_id = max([vocabulary.files.vocab_size - 1, *added, *(b.max_id for b in blocks.values())])
    masks = masks_of(config, blocks, has_weights=any(c and c.found.has_weights for c in chats))
    draft = TokenizePlan(
        config=config,
        vocabulary=vocabulary,
        sources=found.sources,
        inputs=found.inputs,
        tasks=(),
        task_bytes=_task_bytes(found.sources, config.shard_bytes),
        masks=masks,
        token_dtype=token_dtype(max_id),
        max_id=max_id,
        identity=identity_parts(config, vocabulary, found.sources, found.inputs, masks, chats),
        left_out=found.left_out,
        chats=chats,
    )
    refuse_masks_ahead(config, found.sources, found.inputs)
    for i in range(len(config.inputs)):
        check_pretokenized(config, i)
        check_objective(config, i)
        check_budget(config, i)
        _check_rules(rules_of(draft, i))
    tasks = _make_tasks(draft)
    if config.limit is not None:
        tasks = _limit(draft, tasks, config.limit)
    return replace(draft, tasks=tuple(tasks))


def rules_of(plan: TokenizePlan, index: int) -> Rules:
    """Return how the records of one input become documents."""
    dtype = TOKEN_DTYPES[plan.token_dtype]
    config, found = chat_of(plan.config, index), plan.chats[index] if plan.chats else None
    chat = found.rules(config, plan.vocabulary.files) if found and config else None
    return make_rules(plan.config, plan.vocabulary, index, masks=plan.masks, dtype=dtype, chat=chat)


def special_in_text(config: TokenizeConfig, vocabulary: Vocabulary) -> SpecialInText:
    return SpecialInText(vocabulary.files, config.special_in_text, vocabulary.marks)


def _check_rules(rules: Rules) -> None:
    """Raise for faults that every record would have, before the first is read."""
    literal = [f for f in rules.fields if not f.keys]
    try:
        add_document(Parts(), {}, literal, rules)
    except NoSpecialTokenError as error:
        raise ConfigError(f"{error}, or switch it off with --no-add-bos / --no-add-eos") from None
    except ValueError as error:
        raise ConfigError(f"fields: {error}") from None


def _task_bytes(sources: Sequence[Source], shard_bytes: int) -> int:
    total = sum(max(source.num_bytes, 0) for source in sources)
    # Half a shard: tokens take about as many bytes as their text, and a task should give one shard.
    return min(max(total // TASKS_WANTED, SMALLEST_TASK_BYTES), max(shard_bytes // 2, 1 << 16))


def _make_tasks(plan: TokenizePlan) -> list[Task]:
    tasks: list[Task] = []
    pieces: list[Piece] = []
    sizes: list[int] = []
    num_bytes = 0
    rules_by_input = [rules_of(plan, i) for i in range(len(plan.config.inputs))]
    wanted = [keys_wanted(rules) for rules in rules_by_input]
    books = [_codebooks(rules) for rules in rules_by_input]
    for i, source in enumerate(plan.sources):
        rules = rules_by_input[plan.inputs[i]]
        _check_codebooks(source, books[plan.inputs[i]])
        by_line = bool(rules.fields_from) and plan.config.fields_index is None
        count_lines = by_line or (rules.objective is not None and _is_told_by_row(source))
        for piece, size in split_source(
            source, i, plan.task_bytes, wanted[plan.inputs[i]], count_lines
        ):
            pieces.append(piece)
            sizes.append(size if size >= 0 else plan.task_bytes)
            num_bytes += sizes[-1]
            if len(pieces) < MAX_PIECES and num_bytes < plan.task_bytes * 3 // 4:
                continue
            tasks.append(make_task(plan.sources, len(tasks), pieces, num_bytes, sizes=sizes))
            pieces, sizes, num_bytes = [], [], 0
    if pieces:
        tasks.append(make_task(plan.sources, len(tasks), pieces, num_bytes, sizes=sizes))
    return tasks


def _is_told_by_row(source: Source) -> bool:
    """Return whether a record is told from others by its row, which no reading is needed for."""
    kind = format_of(source.kind)
    return not (kind.has_offsets or kind.is_stream)


def _codebooks(rules: Rules) -> int:
    """Return the most codebooks that a field of these rules has."""
    return max((rules.blocks[f.mask].codebooks for f in rules.fields if f.mask), default=1)


def _check_codebooks(source: Source, books: int) -> None:
    """Raise if the rows of an .npy do not say which codes are of which codebook."""
    if books == 1:
        return
    shape = format_of(source.kind).row_shape(source)
    if shape is not None and len(shape) == 1:
        raise InputError(
            f"{source.path} has rows without codebooks, but modalities.audio.codebooks is "
            f"{books}; save it as an array of [records, codebooks, frames]"
        )


def _limit(plan: TokenizePlan, tasks: Sequence[Task], limit: int) -> list[Task]:
    """Return the tasks that hold the first `limit` records; the last one gets a limit."""
    kept: list[Task] = []
    for task in tasks:
        count = 0
        for piece in task.pieces:
            count += count_records(plan.sources[piece.source], piece, limit - count)
            if count >= limit:
                break
        if count >= limit:
            sizes = task.sizes
            kept.append(
                make_task(
                    plan.sources, task.index, task.pieces, task.num_bytes, sizes=sizes, limit=limit
                )
            )
            return kept
        kept.append(task)
        limit -= count
    return kept
