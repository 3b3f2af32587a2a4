"""Record what a template does with the texts of a conversation, as a function that does it again.

    template   {{ '<user>' + m.content | trim }}{% if 'x' in m.content %}!{% endif %}
    recorded   v0 = texts[0]; v1 = v0.strip(); if ('x' in v0) is not False: return None
    given      ['<user>' + v1]      for any other text that has no 'x', without running the template

Whatever a template learns about a text becomes a condition. What cannot be recorded breaks the
tape: then the template itself is run for every conversation, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.bounds import spend
from dataprep.pipeline.documents.chat.loops import Loops

UNKNOWN = "?"  # a name that no tape has: whoever uses it breaks the tape
MAX_LINES = 4000  # a longer function would take longer than the template

_NAMES = re.compile(r"[^\W\d]\w*")
_KNOWN = re.compile(
    r"[tvc]\d+|texts|if|return|pass|None|in|bool|len|repr|quoted|f|" + "|".join(dir(str))
)
Replay = Callable[[Sequence[str]], list[str] | None]


class Tape:
    def __init__(self) -> None:
        self.broken = ""  # why it cannot be replayed
        self.loops = Loops()  # where the template is
        self._lines: list[str] = []
        self._known: dict[str, str] = {}  # expression -> the variable that has its value
        self._constants: dict[tuple[type, Any], str] = {}
        self._num_texts = 0
        self._conditions: set[str] = set()

    def new_text(self) -> str:
        """Return the name of the next text that the function is given."""
        self._num_texts += 1
        return f"t{self._num_texts - 1}"

    def constant(self, value: Any) -> str:
        """Return the name of a constant; values that cannot be told apart later break the tape."""
        if isinstance(value, tuple):
            return "(" + "".join(f"{self.constant(item)}, " for item in value) + ")"
        if value is not None and type(value) not in (str, int, bool):
            self.breaks(f"a {type(value).__name__} is an argument")
            return "None"
        return self._constants.setdefault((type(value), value), f"c{len(self._constants)}")

    def value(self, expression: str) -> str:
        """Return the variable that holds the value of an expression."""
        if self.broken:
            return UNKNOWN
        if expression not in self._known:
            self._known[expression] = f"v{len(self._known)}"
            self._add(f"{self._known[expression]} = {expression}")
        return self._known[expression]

    def condition(self, expression: str, result: Any) -> None:
        """Hold the function to texts for which the expression has this result."""
        if self.broken:
            return
        line = f"if {expression} != {self.constant(result)}: return None"
        if line not in self._conditions:
            self._conditions.add(line)
            self._add(line)

    def breaks(self, why: str) -> None:
        self.broken = self.broken or why

    def function(self, outputs: Sequence[Sequence[str]], helpers: dict[str, Any]) -> Replay | None:
        """Return the function that gives each output, the texts of some expressions end to end."""
        if self.broken:
            return None
        given = ", ".join(_joined(parts) for parts in outputs)
        lines = [*self._lines, f"return [{given}]"]
        names = "".join(f"t{i}, " for i in range(self._num_texts))
        unpack = f"{names}= texts" if names else "pass"
        body = "\n    ".join([unpack, *lines])
        scope = {name: value for (_, value), name in self._constants.items()} | helpers
        strange = [name for name in _NAMES.findall(body) if not _KNOWN.fullmatch(name)]
        assert not strange, f"a tape holds the names {strange}"
        # Names of variables and of methods of `str` alone: texts and constants are bound to them.
        exec(f"def replay(texts):\n    {body}", scope)
        replay: Replay = scope["replay"]
        return replay

    def _add(self, line: str) -> None:
        if len(self._lines) >= MAX_LINES:
            self.breaks("it does too much")
        else:
            spend(len(line))
            self._lines.append(line)


def _joined(parts: Sequence[str]) -> str:
    """
    >>> _joined(["c0", "v1"]), _joined(["c0"]), _joined([])
    ("f'{c0}{v1}'", 'c0', "f''")
    """
    if len(parts) == 1:
        return parts[0]
    return "f'" + "".join(f"{{{part}}}" for part in parts) + "'"
