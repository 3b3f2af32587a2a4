"""Rules for the documents of an input, made from the config and the tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dataprep.configs.chat import ChatConfig
from dataprep.configs.objective import ObjectiveConfig
from dataprep.configs.pretokenized import PretokenizedConfig
from dataprep.configs.tokenize import InputConfig, TokenizeConfig
from dataprep.pipeline.documents.budgets import Budget
from dataprep.pipeline.documents.chat.forms import BESIDE
from dataprep.pipeline.documents.chat.rules import ChatRules
from dataprep.pipeline.documents.field import Field, Grammar
from dataprep.pipeline.documents.fields import check_spec
from dataprep.pipeline.documents.kinds import FIELD_KINDS
from dataprep.pipeline.documents.objectives import OBJECTIVES
from dataprep.pipeline.documents.objectives.objective import Ends, Objective
from dataprep.pipeline.documents.objectives.preference import SPEC, Pairs
from dataprep.pipeline.documents.rule_set import Rules, TokenKeys
from dataprep.pipeline.engine import Marked, TokenizerFiles
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.modalities import BLOCKS
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.sources import Keys
from dataprep.pipeline.storage.keys import group_key
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.types import MODALITIES, Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The tags around a block of codes, as ids."""

    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The ids of special tokens and tags, by the config and the tokenizer."""

    files: TokenizerFiles
    tags: dict[str, Tags]  # by modality, of those that may occur
    text_prefix: tuple[int, ...]
    text_suffix: tuple[int, ...]
    prepend_text: str = ""  # literals of the config, in which marks may stand for special tokens
    subfield_separator: str = ""
    prepend_special: int = 0  # special tokens in prepend_text; 0 if marks stand for them
    separator_special: int = 0  # the same of subfield_separator
    marks: Mapping[str, Marked] = field(default_factory=dict)
    literals: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # texts of the fields
    # Of each input, the ids that its objective adds, by their use.
    objectives: tuple[Mapping[str, tuple[int, ...]], ...] = ()


def with_literals(fields: tuple[Field, ...], vocabulary: Vocabulary) -> tuple[Field, ...]:
    """Return the fields with their texts in quotes marked, as the other literals of the config."""
    return tuple(
        replace(f, text=vocabulary.literals[f.text][0], special=vocabulary.literals[f.text][1])
        if f.text
        else f
        for f in fields
    )


def literals_of(config: TokenizeConfig) -> list[str]:
    """Return the texts in quotes of all fields that the config names."""
    found = [fields_of(config, i) for i in range(len(config.inputs))]
    static = [fields for fields in found if not isinstance(fields, str)]
    return sorted({f.text for fields in static for f in fields if f.text})


def chat_of(config: TokenizeConfig, index: int) -> ChatConfig | None:
    """Return the chat of an input; None if its records have fields."""
    item = config.inputs[index]
    is_other = _has_fields(item) or item.pretokenized is not None
    return item.chat or (None if is_other else config.chat)


def pretokenized_of(config: TokenizeConfig, index: int) -> PretokenizedConfig | None:
    """Return which keys hold the token ids of an input; None if its records are something else."""
    item = config.inputs[index]
    is_other = _has_fields(item) or item.chat is not None
    found = item.pretokenized or (None if is_other else config.pretokenized)
    if found is None or found.labels or found.loss_mask:
        return found
    has_masks = "loss_masks" in config.how_read(index)  # which are files of their own
    return found.model_copy(update={"loss_mask": "loss_mask"}) if has_masks else found


def _has_fields(item: InputConfig) -> bool:
    return item.fields is not None or item.fields_from is not None


def objective_of(config: TokenizeConfig, index: int) -> ObjectiveConfig | None:
    """Return the objective of an input."""
    return config.inputs[index].objective or config.objective


def pairs_of(config: TokenizeConfig, index: int) -> Pairs | None:
    """Return which keys hold the preferences of an input; None if its records are none."""
    objective = objective_of(config, index)
    make = OBJECTIVES[objective.kind].pairs if objective else None
    return make(objective) if make and objective else None


def fields_of(config: TokenizeConfig, index: int) -> tuple[Field, ...] | str:
    """Return the fields of an input, or the key under which records name their own.

    What an input says of either goes before both at the top.
    """
    if chat_of(config, index) is not None or pretokenized_of(config, index) is not None:
        return ()
    if pairs_of(config, index) is not None:
        return check_spec(SPEC, grammar_of(config, from_record=False))
    item = config.inputs[index]
    key = item.fields_from or config.fields_from
    if item.fields is None and key:
        return key
    spec = config.fields if item.fields is None else item.fields
    return check_spec(spec, grammar_of(config, from_record=False))


def optional_keys(config: TokenizeConfig, index: int) -> list[str]:
    """Return the keys that records of an input may lack; none if the records name the fields."""
    fields = fields_of(config, index)
    return [] if isinstance(fields, str) else sorted({k for f in fields for k in f.optional})


def grammar_of(config: TokenizeConfig, *, from_record: bool) -> Grammar:
    """Return the grammar; LWM's own holds only where records bring their own specs."""
    return Grammar(
        codes=tuple((m, config.modalities.section(m).fields) for m in MODALITIES),
        segments=config.modalities.segments,
        lwm=config.compat == "lwm",
        only_vision=config.compat == "lwm" and from_record,
    )


def adds_special_tokens(config: TokenizeConfig, index: int) -> bool:
    """Return whether texts and tags of an input get the tokenizer's own special tokens."""
    if config.field_special_tokens == "auto":
        return config.compat == "lwm" and isinstance(fields_of(config, index), str)
    return config.field_special_tokens


def modalities_of(config: TokenizeConfig) -> tuple[str, ...]:
    """Return the modalities whose codes may occur in any input."""
    found = {m for i in range(len(config.inputs)) for m in modalities_of_input(config, i)}
    return tuple(modality for modality in MODALITIES if modality in found)


def modalities_of_input(config: TokenizeConfig, index: int) -> frozenset[str]:
    """Return the modalities whose codes may occur in an input: all, if records name the fields."""
    chat = chat_of(config, index)
    if chat is not None:
        return frozenset(MODALITIES if chat.media else ())
    fields = fields_of(config, index)
    if isinstance(fields, str):
        # LWM knows only "vision".
        return frozenset({"vision"} if config.compat == "lwm" else MODALITIES)
    return frozenset(m for f in fields for m in FIELD_KINDS[f.kind].modalities(f))


def masks_of(
    config: TokenizeConfig, blocks: Collection[str], *, has_weights: bool = False
) -> tuple[str, ...]:
    """Return the masks that any document may need, in their order: `blocks` are the modalities.

    `has_weights`: messages of conversations have weights.
    """
    found = {"loss", *blocks, *(("weight",) if has_weights else ())}
    if any(chat_of(config, i) is not None for i in range(len(config.inputs))):
        found.add("turns")
    for i in range(len(config.inputs)):
        fields = fields_of(config, i)
        if not isinstance(fields, str):
            found |= {"weight" for f in fields if f.weight not in (0.0, 1.0)}
        elif config.compat != "lwm":  # only a record tells
            found |= {"loss", "weight"}
        given = pretokenized_of(config, i)
        found |= {"weight"} if given and given.weights else set()
        objective = objective_of(config, i)
        found |= {*OBJECTIVES[objective.kind].masks} if objective else set()
    return tuple(name for name in MASKS if name in found)


def named_modalities(config: TokenizeConfig) -> frozenset[str]:
    """Return the modalities that the fields of any input name."""
    all_fields = [fields_of(config, i) for i in range(len(config.inputs))]
    static = [fields for fields in all_fields if not isinstance(fields, str)]
    return frozenset(f.mask for fields in static for f in fields if f.mask)


def blocks_of(config: TokenizeConfig, vocabulary: Vocabulary, *, wraps: bool) -> dict[str, Block]:
    """Return the block of each modality.

    With `wraps`, tags that are text get the tokenizer's own special tokens, as texts do.
    """
    blocks: dict[str, Block] = {}
    for modality, tags in vocabulary.tags.items():
        section = config.modalities.section(modality)

        def ids_of(tag: str | tuple[int, ...], ids: tuple[int, ...]) -> Ids:
            if wraps and isinstance(tag, str):
                ids = (*vocabulary.text_prefix, *ids, *vocabulary.text_suffix)
            return np.array(ids, np.uint32)

        start, end = ids_of(section.start, tags.start), ids_of(section.end, tags.end)
        blocks[modality] = BLOCKS[modality](section, start, end)
    return blocks


def make_rules(
    config: TokenizeConfig,
    vocabulary: Vocabulary,
    index: int,
    *,
    masks: tuple[str, ...],
    dtype: np.dtype[Any],
    chat: ChatRules | None = None,
) -> Rules:
    fields = fields_of(config, index)
    wraps = adds_special_tokens(config, index)
    files = vocabulary.files
    given = pretokenized_of(config, index)
    has_own = chat is not None or given is not None
    add_bos = adds_bos(config, files.bos_id, files.eos_id, has_own=has_own)
    add_eos = adds_eos(config, files.eos_id, has_own=has_own)
    return Rules(
        fields=() if isinstance(fields, str) else with_literals(fields, vocabulary),
        fields_from=fields if isinstance(fields, str) else "",
        fields_index=config.fields_index,
        grammar=grammar_of(config, from_record=isinstance(fields, str)),
        bos=files.bos_id,
        eos=files.eos_id,
        add_bos=add_bos,
        add_eos=add_eos,
        prepend_text=vocabulary.prepend_text,
        subfield_separator=vocabulary.subfield_separator,
        prepend_special=vocabulary.prepend_special,
        separator_special=vocabulary.separator_special,
        text_prefix=np.array(vocabulary.text_prefix if wraps else (), np.uint32),
        text_suffix=np.array(vocabulary.text_suffix if wraps else (), np.uint32),
        blocks=blocks_of(config, vocabulary, wraps=wraps),
        vocab_size=files.vocab_size,
        masks=masks,
        dtype=dtype,
        chat=chat,
        objective=make_objective(config, vocabulary, index, add_bos=add_bos, add_eos=add_eos),
        pairs=pairs_of(config, index),
        budget=budget_of(config, index),
        keys=config.keys,
        pretokenized=None if given is None else TokenKeys(roles=tuple(given.roles.items())),
    )


def budget_of(config: TokenizeConfig, index: int) -> Budget | None:
    """Return how many tokens the documents of an input may have, or None."""
    fields = fields_of(config, index)
    if config.budget is None or isinstance(fields, str):
        return None
    named = [f for f in fields if FIELD_KINDS[f.kind].is_text and f.keys]
    names = tuple(dict.fromkeys("+".join(f.keys) for f in named))
    numbers = {key: 1 + names.index("+".join(f.keys)) for f in named for key in f.keys}
    return Budget(config=config.budget, names=names, numbers=numbers)


def make_objective(
    config: TokenizeConfig, vocabulary: Vocabulary, index: int, *, add_bos: bool, add_eos: bool
) -> Objective | None:
    """Return the objective of an input, or None."""
    objective, files = objective_of(config, index), vocabulary.files
    make = OBJECTIVES[objective.kind].make if objective else None
    if objective is None or make is None:
        return None
    bos, eos = (
        np.array([id] if added and id is not None else [], np.uint32)
        for added, id in ((add_bos, files.bos_id), (add_eos, files.eos_id))
    )
    named = vocabulary.objectives[index]
    try:
        return make(objective, named, Ends(bos=bos, eos=eos))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def keys_wanted(rules: Rules) -> Keys | None:
    """Return the keys of a record that are read; None for all: its own spec may name any."""
    found, group = _keys_of_documents(rules), group_key(rules.keys)
    if found is None or group is None or group in found.needed:
        return found
    return replace(found, maybe=found.maybe | {group})


def _keys_of_documents(rules: Rules) -> Keys | None:
    if rules.fields_from:
        return None
    if rules.pairs is not None:
        beside = {*BESIDE, rules.chat.config.tools} if rules.chat else set()
        return replace(rules.pairs.keys, maybe=frozenset(beside - rules.pairs.keys.needed))
    if rules.chat is not None:
        return rules.chat.keys
    if rules.pretokenized is not None:
        names = frozenset(key for _, key in rules.pretokenized.roles)
        return Keys(needed=names, nested=not rules.grammar.lwm, flag="--pretokenized")
    spelled = {key for f in rules.fields if f.plain for key in f.plain.keys}
    needed = {key for f in rules.fields for key in f.keys if key not in f.optional}
    maybe = spelled.union(*(f.optional for f in rules.fields))
    return Keys(
        needed=frozenset(needed), maybe=frozenset(maybe - needed), nested=not rules.grammar.lwm
    )


def adds_eos(config: TokenizeConfig, eos: int | None, *, has_own: bool = False) -> bool:
    """Return whether documents end with EOS; token ids and chat templates have their own."""
    if config.add_eos != "auto":
        return config.add_eos
    return eos is not None and not has_own


def adds_bos(
    config: TokenizeConfig, bos: int | None, eos: int | None, *, has_own: bool = False
) -> bool:
    """Return whether documents begin with BOS: not where EOS, which ends them, is the same token.

    LWM puts both, whatever they are. Token ids and chat templates have their own.
    """
    if config.add_bos != "auto":
        return config.add_bos
    if has_own:
        return False
    return bos is not None and (bos != eos or config.compat == "lwm")
