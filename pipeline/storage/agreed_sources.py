"""What must go together in what a manifest says of its sources; of `agreement`.

their counts      add up, each source by itself and all of them to those of the dataset
their hashes      are those of the identity, and of what a packed dataset says its parents are
files of theirs   are those that so many sources need (`source_sums`)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dataprep.pipeline.storage.entries import ManySources, MediaSource, TextSource
from dataprep.pipeline.storage.kinds import (
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
)
from dataprep.pipeline.storage.source_sums import (
    COLUMNS,
    FATES,
    MOST_TOGETHER,
    count_of,
    file_name,
    is_of_sources,
    num_files,
    num_origins,
    origins_name,
    sums_of,
    wrong_in_source,
)

_OF_ORIGINS = re.compile(r"provenance/files-.*")
_SUMMED = ("tokens", "frames", "codes")  # over the sources


def wrong_inputs_in(manifest: Manifest, said: Any) -> Iterator[str]:
    """Yield that its sources are not what its identity says of them; whether many have the hash
    that stands there, is for `look.verify` to see."""
    sources = manifest.sources
    if isinstance(sources, ManySources):
        is_same = said is None or (isinstance(said, dict) and said.get("count") == sources.count)
        hashes = []
    else:
        hashes = [source.fingerprint for source in sources]
        is_same = said is None or (isinstance(said, list) and said == hashes)
    if not is_same:
        yield "its sources are not those of its identity"
    has_parents = isinstance(manifest, PackedManifest | ExportedManifest)
    if has_parents and list(manifest.parents) != hashes:
        yield "its parents are not its sources"


def wrong_origins_in(manifest: PackedManifest) -> Iterator[str]:
    """Yield that it does not list the files that say where so many documents came from."""
    wanted = 0 if manifest.parts else num_files(num_origins(manifest))
    names = [entry.path for entry in manifest.files if _OF_ORIGINS.fullmatch(entry.path)]
    if not _are_numbered(names, wanted, origins_name):
        yield "it lists other files of origins than its sources have"


def wrong_sources_in(manifest: TokenizedManifest | EncodedManifest) -> Iterator[str]:
    """Yield the counts of sources that do not add up."""
    is_text, sources = isinstance(manifest, TokenizedManifest), manifest.sources
    yield from _wrong_files(manifest)
    if isinstance(sources, ManySources):
        sums = sources.sums
        if [*sums] != [*COLUMNS[TextSource if is_text else MediaSource]]:
            yield f"its sources are summed up by {', '.join(sums) or 'nothing'}"
    else:
        yield from filter(None, map(wrong_in_source, sources))
        sums = sums_of(sources)
    if not count_of(sources):
        return
    read = "records_read" if is_text else "documents_read"
    columns = {read: "records", **{f"documents_{name}": name for name in FATES}}
    columns |= {name: name for name in _SUMMED if name in sums}
    for name, column in columns.items():
        if manifest.counts.get(name, 0) != sums.get(column, 0):
            yield f"counts of the sources do not add up to its {name}"
    fates = sum(manifest.counts.get(f"documents_{name}", 0) for name in FATES)
    if manifest.counts["documents_read"] != fates:
        yield "its documents_read is not what became of them"


def _wrong_files(manifest: TokenizedManifest | EncodedManifest) -> Iterator[str]:
    """Yield that sources do not stand where so many do."""
    sources, is_apart = manifest.sources, isinstance(manifest.sources, ManySources)
    if is_apart != (count_of(sources) > MOST_TOGETHER):
        yield f"its sources stand {'' if is_apart else 'not '}in files, of which it has few or many"
    said = list(sources.files) if isinstance(sources, ManySources) else []
    has_parts = bool(getattr(manifest, "parts", ()))
    wanted = 0 if has_parts or not is_apart else num_files(count_of(sources))
    names = [entry.path for entry in manifest.files if is_of_sources(entry.path)]
    if names != said or not _are_numbered(names, wanted, file_name):
        yield "it lists other files of sources than it has"


def _are_numbered(names: Sequence[str], wanted: int, name_of: Callable[[int], str]) -> bool:
    """Return whether these are the names of so many files; a damaged number may be any."""
    return len(names) == wanted and all(name == name_of(i) for i, name in enumerate(names))
