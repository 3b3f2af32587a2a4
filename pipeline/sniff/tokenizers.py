"""Find a tokenizer near the data.

raw/web/a.jsonl     raw/web/tokenizer.json, raw/web/tokenizer/tokenizer.json, then in raw/, …
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

NAME = "tokenizer.json"
PLACES = (NAME, f"tokenizer/{NAME}")  # in a folder
MOST_ABOVE = 4  # folders above the data


def tokenizer_near(files: Iterable[str], folders: Iterable[str]) -> str:
    """Return the tokenizer.json in one of the folders, or beside or above the files; '' if none."""
    above = [folder for file in files for folder in _above(file)]
    looked_in = dict.fromkeys([*map(os.path.abspath, folders), *above])
    found = (os.path.join(folder, place) for folder in looked_in for place in PLACES)
    return next(filter(os.path.isfile, found), "")


def _above(file: str) -> Iterator[str]:
    if "://" in file or not os.path.isabs(file):
        return
    folders = Path(file).parents
    yield from map(str, folders[: min(MOST_ABOVE, len(folders) - 1)])
