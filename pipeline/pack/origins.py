"""Carry over where documents came from, so that a packed dataset can say it by itself.

a: documents 0 … 9 of a.jsonl          origins.npy   runs of documents, numbered through
b: documents 0 … 4 of b.jsonl    ─►    files-*.json  a.jsonl, b.jsonl, numbered through
                                       media.parquet what `encode` made their codes of
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path

import msgspec
import numpy as np

from dataprep.pipeline.files import NewFile, Written, make_folder, sync_folder
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.origins import (
    files_of_sources,
    iter_media,
    runs_of_tokenized,
    write_media,
)
from dataprep.pipeline.storage.provenance import MEDIA, ORIGIN_RUN, ORIGINS
from dataprep.pipeline.storage.source_sums import MOST_TOGETHER, num_origins, origins_name


def write_origins(corpus: Corpus, work: Path) -> dict[str, Written]:
    """Write, durably, where all documents came from; return the files by their names in the
    dataset."""
    folder = (work / ORIGINS).parent
    make_folder(folder)
    firsts, runs, document = [], [np.zeros(0, ORIGIN_RUN)], 0
    num_files = 0
    for place, manifest in zip(corpus.folders, corpus.manifests, strict=True):
        own = runs_of_tokenized(place, manifest).copy()
        own["document"] += document
        own["file"] += num_files
        runs.append(own)
        firsts.append(num_files)
        num_files += num_origins(manifest)
        document += manifest.counts["documents_written"]
    written = {ORIGINS: save_array(work / ORIGINS, np.concatenate(runs)).commit()}
    written |= _write_files(corpus, work)
    media = write_media(work / MEDIA, _media(corpus, firsts))
    if media:
        written[MEDIA] = media.commit()
    sync_folder(folder)
    return written


def _write_files(corpus: Corpus, work: Path) -> Iterator[tuple[str, Written]]:
    """Write the files that documents came from, so many in each of ours; yield their names."""
    pairs = enumerate(zip(corpus.folders, corpus.manifests, strict=True))
    files = chain.from_iterable(files_of_sources(*each, number) for number, each in pairs)
    for number in count():
        together = list(islice(files, MOST_TOGETHER))
        if not together:
            return
        file = NewFile(work / origins_name(number))
        file.write(msgspec.json.encode(together))
        yield origins_name(number), file.commit()


def _media(corpus: Corpus, firsts: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield what the rows of files of codes are of; a dataset's files are numbered from its
    number in `firsts` on."""
    for folder, manifest, first in zip(corpus.folders, corpus.manifests, firsts, strict=True):
        for file, names in iter_media(folder, manifest):
            yield first + file, names
