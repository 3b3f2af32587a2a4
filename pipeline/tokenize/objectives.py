"""Find the tokens that objectives add; refuse objectives and budgets that do not suit an input."""

from __future__ import annotations

from functools import cache

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.objectives import OBJECTIVES
from dataprep.pipeline.documents.objectives.objective import Named
from dataprep.pipeline.documents.rules import (
    adds_special_tokens,
    budget_of,
    chat_of,
    fields_of,
    modalities_of_input,
    objective_of,
    pairs_of,
    pretokenized_of,
)
from dataprep.pipeline.engine import TokenizerFiles, read_vocabulary
from dataprep.pipeline.errors import ConfigError


def named_by_objectives(config: TokenizeConfig, files: TokenizerFiles) -> tuple[Named, ...]:
    """Return the ids that the objective of each input adds; none for those without one."""
    vocabulary = cache(lambda: read_vocabulary(files))  # parsed only if a token is looked up
    found: list[Named] = []
    for i in range(len(config.inputs)):
        objective = objective_of(config, i)
        try:
            found.append(
                OBJECTIVES[objective.kind].named(objective, lambda name: vocabulary().get(name))
                if objective
                else {}
            )
        except ValueError as error:
            raise ConfigError(str(error)) from None
    return tuple(found)


def check_pretokenized(config: TokenizeConfig, index: int) -> None:
    """Raise a ConfigError for settings of texts that token ids of an input cannot have."""
    if pretokenized_of(config, index) is None:
        return
    where = config.inputs[index].path
    given = {
        "objective": objective_of(config, index),
        "budget": config.budget,
        "prepend_text": config.prepend_text,
    }
    for key, value in given.items():
        if value:
            raise ConfigError(
                f"{key} is for texts, and the records of {where} are token ids (pretokenized); "
                "tokenize them by themselves, or leave one of the two out"
            )


def check_objective(config: TokenizeConfig, index: int) -> None:
    """Raise a ConfigError if the records of an input cannot have its objective."""
    objective = objective_of(config, index)
    if objective is None:
        return
    is_chat, fields = chat_of(config, index) is not None, fields_of(config, index)
    kind, where = objective.kind, config.inputs[index].path
    if is_chat and not OBJECTIVES[kind].may_be_chat:
        raise ConfigError(
            f"objective {kind} does not go with chat ({where}); leave one of them out"
        )
    if not is_chat and modalities_of_input(config, index):
        raise ConfigError(
            f"objective {kind} would cut blocks of codes ({where}); it is for text alone: name "
            "the text in fields"
        )
    if pairs_of(config, index) is not None:
        item, chat = config.inputs[index], chat_of(config, index)
        given = item.fields or config.fields
        if given != TokenizeConfig.model_fields["fields"].default or (
            item.fields_from or config.fields_from
        ):
            raise ConfigError(
                f"objective {kind} names its keys itself ({where}): set objective.prompt and the "
                "others, and leave fields out"
            )
        if chat is not None and chat.history == "row_per_turn":
            raise ConfigError(
                f"objective {kind} does not go with chat.history row_per_turn ({where}); leave "
                "that out"
            )
    if kind == "fim" and objective.unit == "character":
        kinds = ["from records"] if isinstance(fields, str) else [f.kind for f in fields]
        if kinds != ["text"] or adds_special_tokens(config, index):
            raise ConfigError(
                f"objective fim cuts one text between two characters, but the fields of {where} "
                "are several or have special tokens around them; set objective.unit to token"
            )


def check_budget(config: TokenizeConfig, index: int) -> None:
    """Raise a ConfigError if the records of an input cannot have the budget."""
    if config.budget is None:
        return
    where, objective = config.inputs[index].path, objective_of(config, index)
    if chat_of(config, index) is not None or isinstance(fields_of(config, index), str):
        raise ConfigError(
            f"budget is for fields that the config names, and {where} has chat or fields_from; "
            "leave one of them out"
        )
    if config.prepend_text:
        raise ConfigError("budget does not go with prepend_text; put a 'text' into fields instead")
    if objective and objective.kind == "fim" and objective.unit == "character":
        raise ConfigError(f"budget does not go with objective fim ({where}); set its unit to token")
    found = budget_of(config, index)
    unknown = {*config.budget.fields} - {*(found.names if found else ())}
    if unknown and found:
        raise ConfigError(
            f"budget.fields has {sorted(unknown)[0]!r}, which is no text field of {where} "
            f"({', '.join(found.names)})"
        )
