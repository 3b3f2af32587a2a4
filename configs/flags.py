"""Messages that name flags, in the words of whoever has none: a call of Python, a config file.

set --on-error skip        on_error='skip'        on_error: skip
--allow-empty              allow_empty=True       allow_empty: true
set --fields               fields=…               fields
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dataprep.configs.base import Model
from dataprep.pipeline.errors import DataprepError

_NESTED = {"chat_template": "chat.template"}  # flags of keys that are in a section
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?: (\w+(?:[.-]\w+)*))?")

Spell = Callable[[str, Any], str]  # a key and its value; None: any


def in_python(key: str, value: Any) -> str:
    return f"{key}={'…' if value is None else repr(value)}"


def in_config(key: str, value: Any) -> str:
    return key if value is None else f"{key}: {'true' if value is True else value}"


@contextmanager
def flags_told(models: Mapping[str, type[Model]], spell: Spell, **which: Any) -> Iterator[None]:
    """Let errors speak of keys instead of flags, as `respelled` has them."""
    try:
        yield
    except DataprepError as error:
        error.args = (respelled(str(error), models, spell, **which),)
        raise


def respelled(
    message: str,
    models: Mapping[str, type[Model]],
    spell: Spell,
    *,
    switches: Collection[str] = (),
    kept: Collection[str] = (),
) -> str:
    """Return a message in which flags are keys of these models, each by what stands before its
    keys; `switches` are keys of none, and those that are `kept` stay flags.

    >>> from dataprep.configs.tokenize import TokenizeConfig
    >>> from dataprep.configs.pack import PackConfig
    >>> models = {"": TokenizeConfig, "pack.": PackConfig}
    >>> respelled("set --out, --on-error skip or --seq-len 8", models, in_python)
    "set out=…, on_error='skip' or pack.seq_len=8"
    >>> respelled("set --out, --allow-empty or --seq-len 8", models, in_config, kept=["out"])
    'set --out, allow_empty: true or pack.seq_len: 8'
    """

    def setting(found: re.Match[str]) -> str:
        name, value = found[1].replace("-", "_"), found[2]
        own = {f"{before}{name}": m for before, m in models.items() if name in m.model_fields}
        key, model = next(iter(own.items()), (_NESTED.get(name, name), None))
        if name in kept or (model is None and name not in switches and name not in _NESTED):
            return found[0]
        annotation: Any = bool if name in switches else str
        if model is not None:
            annotation = model.model_fields[name].annotation
        rest = found[0][len(f"--{found[1]}") :]
        if annotation is bool:
            return f"{spell(key, True)}{rest}"
        if value is None or not (value.isdecimal() or value in str(annotation)):
            return f"{spell(key, None)}{rest}"
        return spell(key, int(value) if value.isdecimal() else value)

    return _FLAG.sub(setting, message)
