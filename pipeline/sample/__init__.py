"""The embedded sample: small data and a small tokenizer, for the demo and the tests.

    text.jsonl       {"text"}: prose, many languages, code, logs, tables; one letter to 11 KB
    chat.jsonl       {"prompt", "answer"}
    vision.jsonl     {"fields", "vision", "caption"}: 1 to 3 frames of 256 codes below 8192
    tokenizer.json   byte-level BPE of 3,072 entries: 0 <pad>, 1 <s>, 2 </s>; beside it its config

Made by scripts/make_sample. Only says where the files are; `sources` and `engine` read them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def sample_path(name: str) -> Path:
    """`sample_path("text.jsonl")` -> its path, in a checkout as in an installed wheel."""
    path = Path(str(files(__name__))) / name
    assert path.is_file(), f"no sample file {name!r} in {path.parent}"
    return path
