"""Which sources are not any more what they were when they were found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from dataprep.pipeline.sources.find import fingerprint_urls
from dataprep.pipeline.sources.fingerprint import PREFIX, fingerprint_files
from dataprep.pipeline.sources.remote import URL_PREFIX
from dataprep.pipeline.sources.stream import is_url
from dataprep.pipeline.sources.wholes import fingerprints_of
from dataprep.pipeline.types import Source

MOST_AT_ONCE = 1 << 16  # sources, unless more are in one folder


def changed_sources(sources: Sequence[Source], cache_dir: Path | None) -> list[Source]:
    """Return the files whose content, or what their store reports, has another fingerprint now."""
    local = [s for s in sources if s.fingerprint.startswith(PREFIX) and not is_url(s.path)]
    remote = [s for s in sources if s.fingerprint.startswith(URL_PREFIX)]
    marks = partial(fingerprint_files, cache_dir=cache_dir)
    changed: list[Source] = []
    for each, ask in ((local, marks), (remote, partial(fingerprint_urls, fresh=True))):
        for some in _some_folders(each):
            paths, kinds = [s.file for s in some], [s.kind for s in some]
            now = fingerprints_of(paths, kinds, [s.options for s in some], ask)
            pairs = zip(some, now, strict=True)
            changed += (source for source, (_, found) in pairs if source.fingerprint != found)
    return changed


def _some_folders(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    """Yield the sources of some folders at a time, whose hashes are cached together: what is held
    of each meanwhile is more than the source."""
    first = 0
    for i in range(MOST_AT_ONCE, len(sources)):
        if i - first >= MOST_AT_ONCE and _folder(sources[i]) != _folder(sources[i - 1]):
            yield sources[first:i]
            first = i
    yield sources[first:]


def _folder(source: Source) -> str:
    return os.path.dirname(source.path)
