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

from dataprep.pipeline.files import NewFile, Written, commit_files, make_folder, sync_folder
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
    folder = (work / ORIGINS).parent
    make_folder(folder)
    files: list[OriginFile] = []
    firsts, runs, document = [], [np.zeros(0, ORIGIN_RUN)], 0
    for number, (place, manifest) in enumerate(zip(corpus.folders, corpus.manifests, strict=True)):
        own = runs_of_tokenized(place, manifest).copy()
        own["document"] += document
        own["file"] += len(files)
        runs.append(own)
        firsts.append(len(files))
        files += files_of_sources(place, manifest, number)
        document += manifest.counts["documents_written"]
    listed = NewFile(work / FILES)
    listed.write(msgspec.json.encode(files))
    made = {ORIGINS: save_array(work / ORIGINS, np.concatenate(runs)), FILES: listed}
    media = write_media(work / MEDIA, _media(corpus, firsts))
    written = commit_files(made | ({MEDIA: media} if media else {}))
    sync_folder(folder)
    return written


def _media(corpus: Corpus, firsts: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield what the rows of files of codes are of; a dataset's files are numbered from its
    number in `firsts` on."""
    for folder, manifest, first in zip(corpus.folders, corpus.manifests, firsts, strict=True):
        for file, names in iter_media(folder, manifest):
            yield first + file, names
