"""Carry over where documents came from, so that a packed dataset can say it by itself.

a: documents 0 … 9 of a.jsonl          origins.npy   runs of documents, numbered through
b: documents 0 … 4 of b.jsonl    ─►    files.json    a.jsonl, b.jsonl, numbered through
                                       media.parquet what `encode` made their codes of
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from dataprep.pipeline.files import Written, commit_files, make_folder, sync_folder, temporary
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.origins import (
    files_of_sources,
    iter_media,
    runs_of_tokenized,
    write_media,
)
from dataprep.pipeline.storage.provenance import FILES, MEDIA, ORIGIN_RUN, ORIGINS, OriginFile


def write_origins(corpus: Corpus, work: Path) -> dict[str, Written]:
    """Write, durably, where all documents came from; return the files by their names in the
    dataset."""
    paths = {name: work / name for name in (ORIGINS, FILES, MEDIA)}
    make_folder(paths[ORIGINS].parent)
    files: list[OriginFile] = []
    firsts, runs, document = [], [np.zeros(0, ORIGIN_RUN)], 0
    for number, (place, manifest) in enumerate(zip(corpus.folders, corpus.manifests, strict=True)):
        own = runs_of_tokenized(place, manifest).copy()
        own["document"] += document
        own["file"] += len(files)
        runs.append(own)
        firsts.append(len(files))
        files += files_of_sources(manifest, number)
        document += manifest.counts["documents_written"]
    save_array(temporary(paths[ORIGINS]), np.concatenate(runs))
    temporary(paths[FILES]).write_bytes(msgspec.json.encode(files))
    if not write_media(temporary(paths[MEDIA]), _media(corpus, firsts)):
        del paths[MEDIA]
    written = commit_files(paths)
    sync_folder(paths[ORIGINS].parent)
    return written


def _media(corpus: Corpus, firsts: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield what the rows of files of codes are of; a dataset's files are numbered from its
    number in `firsts` on."""
    for folder, manifest, first in zip(corpus.folders, corpus.manifests, firsts, strict=True):
        for file, names in iter_media(folder, manifest):
            yield first + file, names
