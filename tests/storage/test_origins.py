"""Runs of origins say of every document what its own entry said."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.storage.entries import FileEntry
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.origins import Origins, _runs, iter_media, read_media, write_media
from dataprep.pipeline.storage.provenance import MEDIA, ORIGIN_RUN


@settings(max_examples=200)
@given(
    files=st.lists(st.lists(st.integers(0, 12), max_size=8).map(sorted), min_size=1, max_size=5),
    first=st.integers(0, 5),
)
def test_runs_give_back_the_file_and_line_of_every_document(
    files: list[list[int]], first: int
) -> None:
    file = np.array([i for i, lines in enumerate(files) for _ in lines], np.int64)
    line = np.array([line for lines in files for line in lines], np.int64)
    runs = _runs(first, file, line)
    if not len(file):
        assert not len(runs)
        return
    origins = Origins(files=(), runs=runs, count=first + len(file))
    found = origins.of(first + np.arange(len(file)))
    assert found[0].tolist() == file.tolist()
    assert found[1].tolist() == line.tolist()
    gaps = (np.diff(file) != 0) | (np.diff(line) != 1)
    assert len(runs) == 1 + int(gaps.sum())
    for number, lines in enumerate(files):
        for wanted in range(max(lines, default=0) + 2):
            own = np.flatnonzero((file == number) & (line == wanted)) + first
            assert origins.documents_of(number, wanted).tolist() == own.tolist()


def test_no_file_is_written_where_there_are_no_media(tmp_path: Path) -> None:
    assert not write_media(tmp_path / "media.parquet", iter(()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("per_file", [1000, 250_000])
def test_names_of_media_are_carried_over_a_few_at_a_time(tmp_path: Path, per_file: int) -> None:
    """As `pack` does; a Python text takes some 80 bytes, and there are as many as pictures."""
    total, names = 250_000, [f"pictures/of/cats/{i:09}.jpeg" for i in range(per_file)]
    (tmp_path / "provenance").mkdir()
    path = tmp_path / MEDIA
    media = write_media(path, ((file, names) for file in range(total // per_file)))
    assert media
    media.commit()
    entry = FileEntry(path=MEDIA, num_bytes=path.stat().st_size, xxh3_128=hash_file(path))
    manifest = cast(TokenizedManifest, SimpleNamespace(files=(entry,), parts=(), sources=()))
    tracemalloc.start()
    try:
        again = write_media(tmp_path / "again", iter_media(tmp_path, manifest))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20  # all of them have 21 MB
    finally:
        tracemalloc.stop()
    assert again
    again.commit()
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert read_media(tmp_path, manifest, total // per_file - 1) == names
    assert not read_media(tmp_path, manifest, total // per_file)


def test_finding_a_document_does_not_copy_the_runs() -> None:
    """`inspect --list` asks thousands of times."""
    runs = np.zeros(1 << 18, ORIGIN_RUN)
    runs["document"] = np.arange(len(runs))
    origins = Origins(files=(), runs=runs, count=len(runs))
    wanted = np.array([77], np.int64)
    tracemalloc.start()
    try:
        assert origins.run_of(wanted).tolist() == [77]
        assert tracemalloc.get_traced_memory()[1] < 1 << 18  # a copy has 2 MiB
    finally:
        tracemalloc.stop()
