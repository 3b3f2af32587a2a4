"""Small jobs, made once, and the server that runs them in forks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.forks import ForkServer
from support.jobs import Job, make_exports, make_jobs


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[ForkServer]:
    with ForkServer(tmp_path_factory.mktemp("forks")) as server:
        yield server


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Mapping[str, Job]:
    """By command: tokenize, pack, encode, export; a dozen shards each."""
    return make_jobs(tmp_path_factory.mktemp("jobs"), server)


@pytest.fixture(scope="session")
def small_jobs(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Mapping[str, Job]:
    """The same with two or three shards."""
    return make_jobs(tmp_path_factory.mktemp("small"), server, is_small=True)


@pytest.fixture(scope="session")
def every_small_job(
    tmp_path_factory: pytest.TempPathFactory, server: ForkServer, small_jobs: Mapping[str, Job]
) -> Mapping[str, Job]:
    """The same with exports to more formats."""
    folder, dataset = tmp_path_factory.mktemp("exports"), small_jobs["tokenize"].folder
    return {**small_jobs, **make_exports(folder, server, dataset)}
