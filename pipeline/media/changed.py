"""Whether media have changed since they were found, which a run asks before it publishes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dataprep.pipeline.media.find import FoundMedia, contents_of
from dataprep.pipeline.media.holders import holder_of
from dataprep.pipeline.media.listing import names_in
from dataprep.pipeline.sources import changed_sources
from dataprep.pipeline.sources.stream import naming


def changed_media(found: Sequence[FoundMedia], cache_dir: Path | None) -> str:
    """Return the path of a local source that has changed since it was found, or "".

    One that cannot be read any more is an InputError: it may come back as it was.
    """
    for item in found:
        if _differs(item, cache_dir):
            return item.source.path
    return ""


def _differs(item: FoundMedia, cache_dir: Path | None) -> bool:
    source, holder = item.source, holder_of(item.source)
    own, contents = holder.fingerprints(source)
    if contents:
        names = [*item.named, *names_in(item.entries)]
        if _files_differ(holder.folder(source), names, contents, cache_dir, item.barred):
            return True
    return own is not None and bool(changed_sources([replace(source, fingerprint=own)], cache_dir))


def _files_differ(
    folder: str,
    names: Sequence[str],
    fingerprint: str,
    cache_dir: Path | None,
    barred: frozenset[str] = frozenset(),
) -> bool:
    if contents_of(folder, names, cache_dir, barred) == fingerprint:
        return False
    for name in names:
        with naming(os.path.join(folder, name)):
            os.stat(os.path.join(folder, name))
    return True
