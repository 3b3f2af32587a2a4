"""README and docs/ as blocks of code, each with its kind and place.

```sh                        commands, run by bash, or in forks where they are dataprep's alone
```python title="a/b.py"     a file that the page tells to write; without a title it is run
```                          an illustration

Blocks inside lists or quotes are not looked for: pages have none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.modules import ROOT

REFERENCE = ("cli.md", "config.md")  # made by scripts/make_docs
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in REFERENCE),
]

_FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?$')
# What bash would do more with than split it into words.
_SHELL = re.compile(r"[|&;<>$*?~(){}`\\]")
_QUOTED = re.compile(r"'[^']*'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    page: str  # docs/fields.md
    line: int  # of its first line, from 1
    kind: str  # sh, python, …; "" for an illustration
    title: str  # the file that it is, or ""
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page; an opening fence that is not understood is an error."""
    name = str(page.relative_to(ROOT))
    begun: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if begun is None and line.lstrip().startswith("```"):
            fence = _FENCE.match(line)
            assert fence, f"{name}:{number} begins a block in no known way: {line}"
            begun, lines = (number + 1, fence[1], fence[2] or ""), []
        elif begun is not None and line == "```":
            start, kind, title = begun
            yield Block(page=name, line=start, kind=kind, title=title, text="\n".join(lines))
            begun = None
        elif begun is not None:
            lines.append(line)
    assert begun is None, f"{name}: the block at line {begun} has no end"


def prose_of(page: Path) -> str:
    """Return a page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def plain_commands(text: str) -> list[list[str]] | None:
    """Return the words of each command; None if one is not dataprep's or needs a shell.

    >>> plain_commands("dataprep pack 'a b' --seq-len 8  # why")
    [['pack', 'a b', '--seq-len', '8']]
    >>> plain_commands("dataprep presets > all.txt") is None
    True
    """
    found = []
    for line in text.split("\n"):
        words = shlex.split(line, comments=True)
        code = _QUOTED.sub("", line).partition(" #")[0]
        if words and (words[0] != "dataprep" or _SHELL.search(code)):
            return None
        if words:
            found.append(words[1:])
    return found
