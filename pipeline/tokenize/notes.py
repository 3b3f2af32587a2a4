"""What a user should know about a run, before it starts or at its end, although nothing failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rules import (
    adds_bos,
    blocks_of,
    chat_of,
    modalities_of_input,
    named_modalities,
    optional_keys,
    pretokenized_of,
)
from dataprep.pipeline.engine import Selection
from dataprep.pipeline.errors import short
from dataprep.pipeline.jobs.accounts import notes_on_sources
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.sources.makers import read_made
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.tokenize.first_keys import (
    MASK_OF_BRIDGE,
    STARTS_OF_BRIDGE,
    WHY_NOT_BRIDGE,
    first_sources,
    keys_there,
)
from dataprep.pipeline.tokenize.plan import TokenizePlan
from dataprep.pipeline.types import Source

MOST_NOTES = 5  # on optional fields
MASK_KEYS = {  # as datasets of token ids call them: the setting that reads them
    "labels": "labels",
    "loss_mask": "loss_mask",
    "completion_mask": "loss_mask",
    "assistant_masks": "loss_mask",
    "assistant_mask": "loss_mask",
    "labels_mask": "loss_mask",
    "loss_masks": "loss_mask",
    "target_mask": "loss_mask",
    "mask": "loss_mask",
    "loss_weights": "weights",
    "weights": "weights",
    "attention_mask": "attention_mask",
    "seq_lengths": "lengths",
}
# Of tokens that are no text, or of one side: ids alone do not have them.
LOST_KEYS = frozenset(
    kind.array for kind in MASKS.values() if kind.name != "loss" and not kind.is_weight
)
UNREAD_KEYS = LOST_KEYS | {*MASK_KEYS} | {STARTS_OF_BRIDGE}


def notes_of(plan: TokenizePlan) -> list[str]:
    found = plan.vocabulary.files.note
    return [
        *([found] if found else []),
        *_on_randomness(plan),
        *(_on_bos(plan) if has_fields(plan.config) else ()),
        *_on_chats(plan),
        *_on_token_ids(plan),
        *_on_unread_masks(plan),
        *_on_doubts(plan),
        *_on_codes(plan),
        *_on_unread_codes(plan),
    ]


def notes_on_result(
    plan: TokenizePlan, sources: Sequence[TextSource], there: Iterable[tuple[int, Iterable[str]]]
) -> Iterator[str]:
    """Yield what the records of a run that is done may have been meant otherwise.

    `there` are the optional keys that records have, each with a source of their input.
    """
    found = {(plan.inputs[source], key) for source, keys in there for key in keys}
    usable = {i for i, s in zip(plan.inputs, sources, strict=True) if s.written + s.empty}
    notes = [
        f"no record of {plan.config.inputs[i].path} has the optional field {key!r}; "
        "is it spelled right?"
        for i in sorted(usable)
        for key in optional_keys(plan.config, i)
        if (i, key) not in found
    ]
    yield from notes[:MOST_NOTES]
    if len(notes) > MOST_NOTES:
        yield f"{len(notes) - MOST_NOTES:,} more optional fields are in no record of their input"
    yield from notes_on_sources(sources, limited=plan.config.limit is not None)


def has_fields(config: TokenizeConfig) -> bool:
    """Return whether the records of some input have fields: no conversations, no token ids."""
    return any(
        chat_of(config, i) is None and pretokenized_of(config, i) is None
        for i in range(len(config.inputs))
    )


def leaves_bos_out(config: TokenizeConfig, bos: int | None, eos: int | None) -> bool:
    """Return whether there is a BOS, but none is added because it is EOS too, which is."""
    is_left_out = config.add_bos == "auto" and bos is not None and not adds_bos(config, bos, eos)
    return is_left_out and config.add_eos is not False


def note_on_engine(selection: Selection) -> list[str]:
    """Say why the reference does the work itself, if a fast engine might have."""
    if selection.proof is not None or not selection.rejected:
        return []
    why = "; ".join(f"{r.engine}: {short(r.why, 100)}" for r in selection.rejected)
    return [f"{selection.name} does the work, as no fast engine can ({why})"]


def _on_randomness(plan: TokenizePlan) -> Iterator[str]:
    random = plan.vocabulary.files.random
    if random:
        yield (
            f"the tokenizer has {random}, by which equal texts get different tokens; it is "
            "switched off"
        )


def _on_bos(plan: TokenizePlan) -> Iterator[str]:
    files = plan.vocabulary.files
    if leaves_bos_out(plan.config, files.bos_id, files.eos_id):
        token = f"{files.eos_token!r} " if files.eos_token else ""
        yield (
            f"BOS and EOS are the same token, {token}(id {files.eos_id}), so no BOS is added; "
            "add_bos: true (--add-bos) adds it before each document too"
        )
    if files.eos_id is None and plan.config.add_eos == "auto":
        yield "the tokenizer names no EOS, so documents end without one; --eos-token names it"


def _on_chats(plan: TokenizePlan) -> Iterator[str]:
    """Say what the records were taken for, and if nothing would teach a model to stop."""
    special = {token.content for token in plan.vocabulary.files.special}
    for i, (item, chat) in enumerate(zip(plan.config.inputs, plan.chats, strict=False)):
        config = chat_of(plan.config, i)
        if chat is None or config is None:
            continue
        keys = ", ".join(chat.found.keys)
        yield f"{item.path} has conversations: {chat.found.form} ({keys})"
        if not chat.stops:
            known = ", ".join(chat.templates.stop) or "none is known"
            yield (
                f"no token that ends a turn has loss ({known}), so a model may not learn to stop; "
                "name the token with --set 'chat.stop=[TOKEN]'"
            )
        for token in config.stop:
            if token not in special:
                yield (
                    f"chat.stop {token!r} is no special token of this tokenizer, but text of "
                    "several tokens; generation must stop at that text"
                )


def _on_token_ids(plan: TokenizePlan) -> Iterator[str]:
    """Say that token ids are taken as they are, where nobody said what to add to them."""
    config = plan.config
    for i, item in enumerate(config.inputs):
        if pretokenized_of(config, i) and "auto" in (config.add_bos, config.add_eos):
            ends = [("BOS", config.add_bos), ("EOS", config.add_eos)]
            names = " or ".join(name for name, value in ends if value == "auto")
            yield f"{item.path} has token ids, to which no {names} is added"


def _on_unread_masks(plan: TokenizePlan) -> Iterator[str]:
    """Say if the first record of an input of token ids has a mask that is not read."""
    for i, source in first_sources(plan.sources, plan.inputs):
        ids = pretokenized_of(plan.config, i)
        if ids is None:
            continue
        path = plan.config.inputs[i].path
        there = keys_there(source, UNREAD_KEYS - {ids.tokens})
        if STARTS_OF_BRIDGE in there:
            yield f"{path} has {WHY_NOT_BRIDGE}"
            there -= {STARTS_OF_BRIDGE, MASK_OF_BRIDGE}
        has_loss = ids.labels or ids.loss_mask
        for key in sorted(there):
            setting = MASK_KEYS.get(key, "")
            is_told = has_loss and setting in ("labels", "loss_mask")
            if not setting:
                yield f"{path} has {key!r}, which is lost: ids come in as text alone"
            elif not getattr(ids, setting) and not is_told:
                yield (
                    f"{path} has {key!r}, which is not read; if it is what its name says: "
                    f"--set pretokenized.{setting}={key}"
                )


def _on_doubts(plan: TokenizePlan) -> Iterator[str]:
    """Say what the formats of the inputs find strange."""
    found: dict[tuple[int, str], list[Source]] = {}
    for source, i in zip(plan.sources, plan.inputs, strict=True):
        found.setdefault((i, source.kind), []).append(source)
    for (_, kind), sources in found.items():
        yield from format_of(kind).doubts(sources)


def _on_codes(plan: TokenizePlan) -> Iterator[str]:
    """Say if codes have the ids of text: only their mask tells the two apart."""
    config, named = plan.config, named_modalities(plan.config)
    if config.compat == "lwm":  # as LWM means it
        return
    for modality, block in blocks_of(config, plan.vocabulary, wraps=False).items():
        section = config.modalities.section(modality)
        lowest = section.code_offset
        # A code_offset that somebody set, be it 0, is meant.
        if "code_offset" in section.model_fields_set or lowest >= plan.vocabulary.files.vocab_size:
            continue
        codes = f"{modality} codes" if modality in named else f"{modality} codes, if there are any,"
        yield (
            f"{codes} are ids {lowest}..{block.max_code_id}, which are text ids too; "
            f"modalities.{modality}.code_offset moves them"
        )


def _on_unread_codes(plan: TokenizePlan) -> Iterator[str]:
    """Say if an input holds codes of `dataprep encode` and no field names them."""
    first = {i: source for source, i in zip(plan.sources[::-1], plan.inputs[::-1], strict=True)}
    for i, source in sorted(first.items()):
        if chat_of(plan.config, i) is None and not modalities_of_input(plan.config, i):
            columns = sorted({maker.column for maker in read_made(source).makers})
            if columns:
                named = ",".join(f"[{column}]" for column in columns)
                yield (
                    f"{plan.config.inputs[i].path} holds codes ({', '.join(columns)}) that are not "
                    f"read, since no field names them: --fields '{named},text'"
                )
