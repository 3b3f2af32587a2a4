"""Jobs on a cluster of Ray come to the same end as on one machine."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import dataprep
from conftest import PLAIN
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError, InputError, ResourceError
from dataprep.pipeline.jobs.cluster import connected, run_on_cluster
from dataprep.pipeline.jobs.poison import MAX_TRIES
from dataprep.pipeline.jobs.slots import together
from dataprep.pipeline.jobs.stored import keep_in_store
from dataprep.pipeline.storage.objects import open_objects
from dataprep.pipeline.tokenize import tokenize
from support.installed import COMMAND
from support.jobs import write_corpus, write_pictures, write_table
from support.stores import S3, free_port
from support.toy_worker import act_out, jobs_of, log_of
from support.trees import tree

pytest.importorskip("ray")
# Ray starts its own processes with a fork, in which jax, where another test has imported it, warns.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
SECONDS = 120


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of two cores on this machine, for all tests here."""
    with connected("local", 2) as ray:
        yield ray


def act(work: Path, acts: dict[int, list[str]], num_workers: int = 1, **more: Any) -> None:
    act_out(work, acts, num_workers=num_workers, run=run_on_cluster, **more)


def config_of(inputs: list[Path], out: Path, **more: Any) -> TokenizeConfig:
    values = {"inputs": [*map(str, inputs)], "tokenizer": "bytes", "shard_bytes": 65536}
    return TokenizeConfig.model_validate({**values, "out": str(out), **more})


def test_a_dataset_has_the_same_bytes(ray: Any, tmp_path: Path, cache_dir: Path) -> None:
    inputs = write_corpus(tmp_path / "corpus", files=3)
    tokenize(config_of(inputs, tmp_path / "local"), cache_dir=cache_dir)
    told: list[int] = []

    def report(kind: str, values: Any) -> None:
        if kind == "progress":
            told.append(values["documents"])

    config = config_of(inputs, tmp_path / "ray", executor="ray", workers=2)
    outcome = tokenize(config, cache_dir=cache_dir, report=report)
    assert tree(tmp_path / "ray") == tree(tmp_path / "local")
    assert sum(told) == outcome.manifest.counts["documents_written"]


@pytest.mark.slow
def test_rows_codes_and_the_chain_have_the_same_bytes_too(ray: Any, tmp_path: Path) -> None:
    corpus = [*map(str, write_corpus(tmp_path / "corpus", files=3))]
    pictures = [str(write_pictures(tmp_path / "pictures", 5)), str(write_table(tmp_path, 9))]
    tokens = dataprep.tokenize(inputs=corpus, tokenizer="bytes", out=tmp_path / "tokens", workers=1)
    chain = {"inputs": corpus, "tokenizer": "bytes", "seq_lens": [64]}
    for name in ("local", "ray"):
        out, way = tmp_path / name, {"executor": name, "workers": 2}
        dataprep.pack(inputs=[tokens.out], seq_len=128, shard_rows=400, out=out / "rows", **way)
        codes = {"encoder": "patches", "shard_records": 4, "out": out / "codes"}
        dataprep.encode(inputs=pictures, **codes, **way)
        dataprep.run({**chain, "out": str(tmp_path / "chain"), **way})
        (tmp_path / "chain" / "summary.json").unlink()  # it has times
        (tmp_path / "chain").rename(out / "chain")  # made in one place: manifests name their inputs
    made = {name: tree(tmp_path / name) for name in ("local", "ray")}
    assert made["ray"] == made["local"]
    assert {name.partition("/")[0] for name in made["ray"]} == {"rows", "codes", "chain"}


def test_a_worker_that_dies_is_replaced_and_the_largest_jobs_come_first(
    ray: Any, tmp_path: Path
) -> None:
    act(tmp_path, {0: [], 1: ["die once"], 2: []}, sizes=[1, 9, 5])
    assert (tmp_path / "deaths-1").read_text() == "x"  # it has died
    done = list(dict.fromkeys(jobs_of(tmp_path, "run")))
    assert done == [1, 2, 0]
    assert sorted(set(jobs_of(tmp_path, "commit"))) == [0, 1, 2]
    for _, _, pid in log_of(tmp_path):
        assert not psutil.pid_exists(pid)


@pytest.mark.slow
def test_a_worker_that_is_lost_with_its_machine_counts_against_no_job(
    ray: Any, tmp_path: Path
) -> None:
    lost: list[int] = []

    def lose(message: dict[str, Any]) -> None:
        if message["type"] == "ran" and len(lost) <= MAX_TRIES:
            actor = psutil.Process(message["pid"]).parent()
            lost.append(message["pid"])
            actor.kill()

    act(tmp_path, {0: ["pause", "pause", "pause", "pause"]}, on_message=lose)
    assert len(lost) == MAX_TRIES + 1
    assert jobs_of(tmp_path, "commit") == [0]
    assert len(set(lost)) == len(lost)
    assert not any(map(psutil.pid_exists, lost))  # each worker ended with its actor


def test_the_first_error_is_that_of_the_first_job(ray: Any, tmp_path: Path) -> None:
    acts = {0: ["pause", "pause", "fail InputError"], 1: ["fail ConfigError"]}
    with pytest.raises(InputError, match="because of the test"):
        act(tmp_path, acts, num_workers=2, sizes=[1, 2])


@pytest.mark.slow
def test_deaths_of_workers_are_told_as_without_ray(ray: Any, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"died 3 times \(exit code 7\) on job 0; run again"):
        act(tmp_path, {0: ["exit 7"]})


def test_a_folder_that_machines_do_not_share_is_refused(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/not/shared"))
    with pytest.raises(ConfigError, match=": does not see /not/shared; put --out on a disk"):
        act(work, {0: []})


def test_what_a_machine_lacks_is_told_by_its_name(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "here")  # and not where workers are
    keep_in_store(tmp_path, "az://box/data", "0" * 16)
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/not/shared"))
    with pytest.raises(ConfigError) as raised:
        act(tmp_path, {0: []})
    assert str(raised.value).startswith(f"{platform.node()}: cannot use az://box/data: ")
    assert "Traceback" not in str(raised.value)


def test_a_cluster_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(**options: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        said = rf"at {place}: Version .* Ray: 2\.1\.0; start"
        with pytest.raises(ConfigError, match=said), connected(place, 1):
            pass


@pytest.mark.parametrize("before", ["", "ray://"])
def test_an_address_where_nobody_listens_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    place = f"{before}127.0.0.1:{free_port()}"
    told = f"cannot connect to a Ray cluster at {place}: Connection refused; start one"
    with pytest.raises(ConfigError, match=told), connected(place, 1):
        pass


def test_progress_of_a_task_is_added_up_and_everything_else_stays_as_it_is() -> None:
    keys = ("documents", "tokens", "rows", "num_bytes", "by_reference")

    def progress(task: int, count: int, errors: int) -> dict[str, Any]:
        sums = dict.fromkeys(keys, count)
        return {"type": "progress", "task": task, "task_errors": errors, "examples": [], **sums}

    done = {"type": "done", "job": 4}
    given = [progress(4, 1, 0), progress(4, 2, 3), done, progress(5, 1, 0), progress(4, 1, 4)]
    assert together(given) == [progress(4, 3, 3), done, progress(5, 1, 0), progress(4, 1, 4)]


# --- real clusters --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), files=60, lines=1000)


@pytest.fixture(scope="module")
def clean(
    corpus: list[Path], tmp_path_factory: pytest.TempPathFactory, cache_dir: Path
) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("clean") / "out"
    tokenize(config_of(corpus, out), cache_dir=cache_dir)
    return tree(out)


def num_tasks(clean: dict[str, bytes]) -> int:
    """Return how many tasks there are: each gives a shard."""
    return sum(name.startswith("shards/") for name in clean)


class Driver:
    """The command, on a cluster; `to`: somewhere else than in the folder of its log."""

    def __init__(self, corpus: list[Path], out: Path, *more: str, to: str = "") -> None:
        self.out = out
        words = [*COMMAND, "tokenize", *map(str, corpus), "--tokenizer", "bytes"]
        words += ["--shard-bytes", "65536", "--out", to or str(out), "--executor", "ray", *more]
        self.said = out.with_suffix(".log")  # a pipe would be held by what the driver leaves
        with open(self.said, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                words,
                env={**os.environ, **PLAIN},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, is_so: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (found := is_so()):
            assert self.process.poll() is None, self.said.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found

    def num_done(self) -> int:
        return len(list((self.out / ".work" / "tasks").glob("*.done")))

    def end(self) -> str:
        assert self.process.wait(SECONDS) == 0, self.said.read_text()
        return self.said.read_text()


def workers_below(pid: int) -> list[psutil.Process]:
    """Return the worker processes, whose parents are actors."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if "multiprocess" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:  # it has just ended
            pass
    return found


def all_gone(processes: list[psutil.Process], seconds: float = 30) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not alive


@pytest.mark.slow
def test_a_worker_and_a_node_may_be_killed_and_nothing_is_left_of_them(
    corpus: list[Path], clean: dict[str, bytes], tmp_path: Path
) -> None:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        second = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
        driver = Driver(corpus, tmp_path / "out", "--ray-address", cluster.address)
        driver.wait_for(lambda: driver.num_done() >= 2)
        raylets = [node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()]
        first, last = driver.wait_for(
            lambda: all(found := [workers_below(pid) for pid in raylets]) and found
        )
        first[0].kill()
        after_worker = driver.num_done()
        driver.wait_for(lambda: driver.num_done() > after_worker + 2)
        killed = workers_below(raylets[1]) or last
        cluster.remove_node(second, allow_graceful=False)
        assert driver.num_done() < num_tasks(clean)  # all this came in the middle
        assert all_gone(killed)
        driver.end()
        assert tree(tmp_path / "out") == clean
        assert all_gone([*first, *last, *workers_below(raylets[0])])
    finally:
        cluster.shutdown()


@pytest.mark.slow
def test_a_driver_whose_own_node_is_lost_ends_and_the_same_command_goes_on(
    corpus: list[Path], clean: dict[str, bytes], tmp_path: Path
) -> None:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        driver = Driver(corpus, tmp_path / "out", "--ray-address", cluster.address)
        driver.wait_for(lambda: driver.num_done() >= 2)
        psutil.Process(cluster.head_node.all_processes["raylet"][0].process.pid).kill()
        assert driver.process.wait(SECONDS) == 6, driver.said.read_text()
        assert "lost its node" in driver.said.read_text()
        assert 2 <= driver.num_done() < num_tasks(clean)
    finally:
        cluster.shutdown()
    Driver(corpus, tmp_path / "out").end()
    assert tree(tmp_path / "out") == clean


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_driver_may_be_killed_and_the_same_command_goes_on(
    corpus: list[Path], clean: dict[str, bytes], tmp_path: Path, number: signal.Signals
) -> None:
    driver = Driver(corpus, tmp_path / "out")
    driver.wait_for(lambda: driver.num_done() >= 3)
    below = psutil.Process(driver.process.pid).children(recursive=True)
    assert any("raylet" in process.name() for process in below)
    ours = [process for process in below if "Agent" not in process.name()]
    assert workers_below(driver.process.pid)
    assert len(ours) < len(below)
    driver.process.send_signal(number)
    code = driver.process.wait(SECONDS)
    assert code == (-9 if number == signal.SIGKILL else 143)
    assert 3 <= driver.num_done() < num_tasks(clean)  # it came in the middle
    assert all_gone(ours)
    assert all_gone(below, 150)  # Ray's agents look after their raylet once a minute
    before = driver.num_done()
    assert f"{before} done before" in Driver(corpus, tmp_path / "out").end()
    assert tree(tmp_path / "out") == clean
    shutil.rmtree(tmp_path / "out")


@contextmanager
def ray_node(*words: str | Path, log: Path, env: Mapping[str, str]) -> Iterator[psutil.Popen]:
    with open(log, "wb") as told:
        process = psutil.Popen(
            words, env={**os.environ, **env}, stdout=told, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        kill_with_children(process)


def wait_for_server(address: str, process: psutil.Popen, log: Path) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        else:
            return


def kill_with_children(process: psutil.Process) -> None:
    if process.is_running():
        for one in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait(30)


@pytest.mark.slow
def test_a_machine_that_has_nothing_but_the_bucket_in_common_may_be_killed_too(
    corpus: list[Path],
    clean: dict[str, bytes],
    s3: S3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.util import get_node_ip_address

    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("a machine without our disk is made by unshare, as root")
    here, there, later = (tmp_path / name for name in ("here", "there", "later"))
    here.mkdir()
    for name, value in s3.env(seconds=20).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("DATAPREP_CACHE", str(here))
    s3.make_bucket("apart")
    host, port = get_node_ip_address(), free_port()
    size = ("--object-store-memory=80000000", f"--node-ip-address={host}")
    command, address = Path(sys.executable).with_name("ray"), f"{host}:{port}"
    head = (command, "start", "--head", f"--port={port}", "--num-cpus=0", *size)
    # Another file system lies over our cache there, and only there.
    hidden = f"mount -t tmpfs none {here} && exec {command} start --address={address} --block"
    node = ("unshare", "-m", "sh", "-c", f"{hidden} --num-cpus=2 {' '.join(size)}")
    with ExitStack() as nodes:
        log, words = tmp_path / "head.log", ("--include-dashboard=false", "--block")
        wait_for_server(address, nodes.enter_context(ray_node(*head, *words, log=log, env={})), log)
        cache, log = {"DATAPREP_CACHE": str(there)}, tmp_path / "far.log"
        far = nodes.enter_context(ray_node(*node, log=log, env=cache))
        words = ("--ray-address", address, "--workers", "2")
        driver = Driver(corpus, tmp_path / "out", *words, to="s3://apart/out")
        driver.wait_for(lambda: len([*there.glob("joined/*/*/.work/tasks/*.done")]) >= 2)
        workers = workers_below(far.pid)
        kill_with_children(far)
        assert all_gone(workers)
        cache, log = {"DATAPREP_CACHE": str(later)}, tmp_path / "later.log"
        nodes.enter_context(ray_node(*node, log=log, env=cache))
        driver.end()
    assert [*later.glob("joined/*/*/.work/plan.json")]
    objects = open_objects("s3://apart/out")
    assert {entry.name: objects.get(entry.name) for entry in objects.entries()} == clean
