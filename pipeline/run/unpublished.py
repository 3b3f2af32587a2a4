"""Parts of a tokenized dataset that a run made, or began, and did not publish.

Their sources tell which of the inputs they are made of, so that the next run goes on with them, and
makes other parts of what has come in since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.jobs.differences import sources_told
from dataprep.pipeline.jobs.workspace import Identity, begun_to_continue
from dataprep.pipeline.run.parts import finished_parts, number_in, unfinished_parts
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.manifest import WORK, TokenizedManifest
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.tokenize.told import read_whole_plan
from dataprep.pipeline.types import Source

Marks = set[tuple[str, int]]  # fingerprint and start of each source


def unpublished(out: Path, published: Collection[str]) -> Iterator[tuple[Identity, Marks]]:
    """Yield the parts, finished or not, that the newest generation does not have in any version:
    identity, and the marks of its sources."""
    numbers = {*map(number_in, published)}
    for name, part in finished_parts(out, TokenizedManifest):
        if number_in(name) not in numbers:
            yield part.identity, _marks(read_sources(out / name, part))
    for place in unfinished_parts(out):
        begun = begun_to_continue(place / WORK)
        if begun is not None:
            yield begun, _marks_begun(begun, place / WORK)


def _marks_begun(begun: Identity, work: Path) -> Marks:
    """Return the marks of an unfinished part, by its plan if its identity does not list them."""
    if not isinstance(begun.get("sources"), dict):
        return {(each["fingerprint"], each.get("start", 0)) for each in sources_told(begun)}
    try:
        return _marks(read_whole_plan(work).sources)
    except CorruptError:  # it was killed before the plan was there: nothing is made
        return set()


def _marks(sources: Iterable[Source | TextSource]) -> Marks:
    return {(source.fingerprint, source.start) for source in sources}
