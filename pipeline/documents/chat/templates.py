"""Find the chat templates of a tokenizer, and what they are given.

    chat_template.jinja, additional_chat_templates/NAME.jinja     before
    tokenizer_config.json: "chat_template": text, or [{"name": …, "template": …}]

A template that the user names wins. For records with tools it is `tool_use`, if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.configs.chat import ChatConfig
from dataprep.pipeline.engine import TokenizerFiles
from dataprep.pipeline.engine.special import read_configs, read_json_object
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.opening import read_bounded

DEFAULT, TOOL_USE = "default", "tool_use"
# For base models, whose tokenizers have none.
BUILT_IN = {
    "chatml": (
        "{% for message in messages %}"
        "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
}
TOKEN_NAMES = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplates:
    """All that is known about a tokenizer's chat before a record is read."""

    sources: Mapping[str, str]  # by name; "default" is there
    variables: Mapping[str, Any]  # special tokens, and what the config adds
    stop: tuple[str, ...]  # tokens that end a turn


def find_templates(config: ChatConfig, files: TokenizerFiles) -> ChatTemplates:
    folder = Path(files.path).parent if files.path else None
    named = _templates_in(folder) if folder else {}
    if config.template:
        path = file_of(config)
        if path:
            named = {DEFAULT: _read(Path(path))}
        elif config.template in (known := {**BUILT_IN, **named}):
            named = {DEFAULT: known[config.template]}
        else:
            raise ConfigError(
                f"chat template {config.template!r} is neither a file nor the name of one (known: "
                f"{', '.join(sorted(known))}); name a file with --chat-template FILE"
            )
    if DEFAULT not in named:
        has = f"has only {', '.join(sorted(named))}" if named else "has no chat template"
        raise ConfigError(
            f"tokenizer {files.path or files.kind} {has} (looked for chat_template.jinja and "
            "chat_template in tokenizer_config.json); name one with --chat-template FILE|NAME: "
            "chatml comes with dataprep"
        )
    tokens = _special_tokens(folder, files)
    return ChatTemplates(
        sources=named,
        variables={**tokens, **config.variables},
        stop=_stop_tokens(folder, files, config),
    )


def file_of(config: ChatConfig) -> str:
    """Return the file of the template that the user names; "" if it is no file."""
    path = os.path.expanduser(config.template)
    return path if config.template and os.path.isfile(path) else ""


def _templates_in(folder: Path) -> dict[str, str]:
    """Return the templates beside a tokenizer, by name."""
    found: dict[str, str] = {}
    value = _configs(folder).get("tokenizer_config.json", {}).get("chat_template")
    if isinstance(value, str):
        found[DEFAULT] = value
    elif isinstance(value, list):
        found |= {item["name"]: item["template"] for item in value if _is_named(item)}
    elif isinstance(value, dict):
        found |= {name: text for name, text in value.items() if isinstance(text, str)}
    own = folder / "chat_template.jinja"
    if own.is_file():
        found = {DEFAULT: _read(own)}
    more = folder / "additional_chat_templates"
    if more.is_dir():
        found |= {path.stem: _read(path) for path in sorted(more.glob("*.jinja"))}
    return found


def _is_named(item: Any) -> bool:
    return isinstance(item, dict) and all(
        isinstance(item.get(key), str) for key in ("name", "template")
    )


def _special_tokens(folder: Path | None, files: TokenizerFiles) -> dict[str, str]:
    """Return the special tokens by the names under which templates know them."""
    found: dict[str, str] = {}
    if folder is not None:
        configs = _configs(folder)
        config = configs.get("tokenizer_config.json", {})
        extra = config.get("extra_special_tokens")
        for source in (configs.get("special_tokens_map.json", {}), config):
            for name in TOKEN_NAMES:
                if name in source:
                    token = _token(source[name])
                    found.pop(name, None)
                    found |= {name: token} if token is not None else {}
        if isinstance(extra, dict):
            found |= {k: t for k, v in extra.items() if (t := _token(v)) is not None}
    for role, token in (
        ("bos", files.bos_token),
        ("eos", files.eos_token),
        ("pad", files.pad_token),
    ):
        if token is not None:
            found[f"{role}_token"] = token
    return found


def _token(value: Any) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _stop_tokens(folder: Path | None, files: TokenizerFiles, config: ChatConfig) -> tuple[str, ...]:
    """Return the tokens that end a turn: EOS of the tokenizer, those of generation_config.json."""
    by_id = {token.id: token.content for token in files.special}
    ids: list[Any] = []
    if folder is not None:
        value = _configs(folder).get("generation_config.json", {}).get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
    named = [by_id[id] for id in ids if id in by_id]
    eos = [files.eos_token] if files.eos_token else []
    return tuple(dict.fromkeys([*config.stop, *named, *eos]))


def _configs(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        name: read_json_object(folder / name, data) for name, data in read_configs(folder).items()
    }


def _read(path: Path) -> str:
    try:
        return read_bounded(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat template {path} cannot be read: {error}; name another") from None
