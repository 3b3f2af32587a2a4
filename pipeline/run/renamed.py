"""The names that inputs have now, if they were renamed since they were read.

    out/.run/renamed/web.json     {"data/a.jsonl": "raw/a.jsonl"}     as it was read, as it is now

A file that was renamed is known by its content. Once it is known, it is by its name again: so it
may be appended to. If the list is lost, a renamed file that has grown since counts as gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.run.parts import STATE
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.typed import decode_as

FOLDER = "renamed"


def read_names(dataset: Path) -> dict[str, str]:
    """Return the names that inputs of a tokenized dataset have now, of those that were renamed."""
    return decode_as(read_sealed(_file(dataset)) or b"{}", dict[str, str])


def write_names(dataset: Path, names: Mapping[str, str]) -> None:
    if names != read_names(dataset):
        make_folder(_file(dataset).parent)
        write_sealed(_file(dataset), json.dumps(names).encode())


def as_called_now(part: TokenizedManifest, names: Mapping[str, str]) -> TokenizedManifest:
    """Return the manifest of a part as if its inputs had been read under these names."""
    sources = (replace(source, path=names.get(source.path, source.path)) for source in part.sources)
    return replace(part, sources=tuple(sources))


def names_now(
    parts: Sequence[TokenizedManifest], names: Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    """Return the names that the inputs of parts have now; `found` is what those of `names`, or the
    recorded ones, have become."""
    recorded = dict.fromkeys(source.path for part in parts for source in part.sources)
    known = {path: names.get(path, path) for path in recorded}
    now = {path: found.get(name, name) for path, name in known.items()}
    return {path: name for path, name in now.items() if name != path}


def _file(dataset: Path) -> Path:
    corpus = dataset.parent
    return corpus.parent / STATE / FOLDER / f"{corpus.name}.json"
