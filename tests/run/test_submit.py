"""`dataprep submit`: jobs of Slurm and Kubernetes that make the datasets of a config."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from conftest import PLAIN, RunCli
from support.forks import ForkServer
from support.installed import COMMAND
from support.jobs import write_corpus
from support.trees import tree

SANDBOX = Path(__file__).parents[1] / "support" / "slurm_sandbox.sh"
CONFIG = {
    "inputs": ["corpus/*.jsonl"],
    "tokenizer": "bytes",
    "shard_bytes": 65536,
    "out": "tok",
    "pack": {"seq_len": 128, "out": "packed", "shard_rows": 200},
}
STEPS = ["tokenize", "finalize-tokenize", "pack", "finalize-pack"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(CONFIG))
    return path


K8S = ("--image", "registry/dataprep:1", "--claim", "corpus", "--mount", "/corpus")


def test_manifests_are_indexed_jobs_that_fail_only_for_good_reasons(
    run_cli: RunCli, config: Path
) -> None:
    words = (
        "--tasks",
        "8",
        "--at-once",
        "3",
        "--cpus",
        "4",
        "--memory",
        "6G",
        "--time",
        "1-02:03:04",
    )
    printed = run_cli("submit", "k8s", config, *K8S, *words).stdout
    comment, _, _ = printed.partition("apiVersion:")
    assert 'kubectl patch job NAME -p \'{"spec": {"suspend": false}}\'' in comment
    jobs = [*yaml.safe_load_all(printed)]
    told = json.loads(run_cli("submit", "k8s", config, *K8S, *words, "--json").stdout)
    assert told == {"engine": "k8s", "submitted": False, "jobs": jobs}
    assert [job["metadata"]["name"] for job in jobs] == [f"dataprep-{name}" for name in STEPS]
    assert [job["spec"]["suspend"] for job in jobs] == [False, True, True, True]
    for job, step in zip(jobs, STEPS, strict=True):
        assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
        spec = job["spec"]
        assert "activeDeadlineSeconds" not in spec  # which would be for all elements together
        pod = spec["template"]["spec"]
        assert pod["activeDeadlineSeconds"] == ((24 + 2) * 60 + 3) * 60 + 4
        assert pod["restartPolicy"] == "Never"  # as a policy for failures needs it
        (container,) = pod["containers"]
        size = {"cpu": "4", "memory": "6Gi"}
        assert container["resources"] == {"requests": size, "limits": size}
        (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/corpus")
        assert volume["persistentVolumeClaim"] == {"claimName": "corpus"}
        ignored, fatal = spec["podFailurePolicy"]["rules"]
        assert ignored["onPodConditions"][0]["type"] == "DisruptionTarget"
        assert fatal["onExitCodes"]["containerName"] == container["name"]
        assert not {0, 6, 75, 137, 143} & {*fatal["onExitCodes"]["values"]}
        if step.startswith("finalize"):
            assert container["command"][:2] == ["dataprep", "finalize"]
            assert "completionMode" not in spec
            continue
        assert spec["completionMode"] == "Indexed"
        assert (spec["completions"], spec["parallelism"]) == (8, 3)
        assert spec["backoffLimitPerIndex"] > 0
        assert container["env"] == [{"name": "DATAPREP_TASKS", "value": "8"}]
        assert container["command"][-4:] == ["--workers", "4", "--task", "auto"]


def test_pods_that_have_all_in_buckets_need_no_volume(run_cli: RunCli, config: Path) -> None:
    buckets = {**CONFIG, "out": "s3://box/tok", "pack": {"seq_len": 128, "out": "s3://box/packed"}}
    config.write_text(yaml.safe_dump(buckets))
    jobs = [*yaml.safe_load_all(run_cli("submit", "k8s", config, "--image", "a:1").stdout)]
    for job in jobs:
        pod = job["spec"]["template"]["spec"]
        assert not pod["volumes"]
        assert not {"volumeMounts", "workingDir"} & pod["containers"][0].keys()
    config.write_text(yaml.safe_dump({**buckets, "out": "tok"}))
    refused = run_cli("submit", "k8s", config, "--image", "a:1", check=False)
    assert (refused.code, "pods need --claim" in refused.stderr) == (2, True)


def test_what_pods_do_not_have_is_told(run_cli: RunCli, config: Path, tmp_path: Path) -> None:
    words = ("submit", "k8s", config, *K8S[:4])
    for place in (tmp_path, config):
        assert f"{place} is not below --mount /corpus" in run_cli(*words, *K8S[4:]).stderr
    for more in (["--mount", tmp_path], [*K8S[4:], "--quiet"]):
        assert not run_cli(*words, *more).stderr


def test_what_is_not_for_an_engine_or_a_config_is_refused(
    run_cli: RunCli, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text("corpora: {a: {inputs: [x.jsonl]}}\nout: data\n")
    (tmp_path / "no.yaml").write_text("inputs: [x.jsonl]\nout: tok\npack: {seq_len: 8}\n")
    for words, said in (
        (("k8s", config), "pods need --image"),
        (("slurm", config, *K8S), "--image is for k8s"),
        (("pbs", config), "must be slurm or k8s"),
        (("slurm", config, "--time", "noon"), "must be HH:MM:SS"),
        (("slurm", config, "--time", "0-00:00:00"), "must be HH:MM:SS"),
        (("slurm", config, "--memory", "much"), "such as 16G"),
        (("slurm", "run.yaml"), "dataprep run run.yaml --executor ray"),
        (("slurm", "no.yaml"), "where pack writes to"),
    ):
        finished = run_cli("submit", *words, check=False)
        assert finished.code == 2
        assert said in finished.stderr


def test_without_the_programs_of_a_cluster_nothing_is_submitted(
    commands: ForkServer, config: Path, tmp_path: Path
) -> None:
    # A PATH without any program: this machine may have a cluster, which is none of ours.
    env = {**PLAIN, "PATH": str(tmp_path / "empty")}
    for words, said in (
        (("slurm", config), "sbatch is not here"),
        (("k8s", config, *K8S), "kubectl is not here"),
    ):
        finished = commands.run(["submit", *words, "--go"], env=env, cwd=tmp_path)
        assert finished.code == 2
        assert said in finished.stderr


def test_a_folder_may_have_any_name(run_cli: RunCli, config: Path, tmp_path: Path) -> None:
    home = tmp_path / 'it\'s "here"'
    home.mkdir()
    script = run_cli("submit", "slurm", config, cwd=home).stdout
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH --chdir")]
    named = str(tmp_path / 'it\'s \\"here\\"')
    assert lines == [f'#SBATCH --chdir="{named}"'] * len(STEPS)
    config.write_text(yaml.safe_dump({**CONFIG, "out": "-tok"}))
    script = run_cli("submit", "slurm", config.name).stdout
    assert "finalize ./-tok &" in script
    assert "pack ./-tok --config" in script


KUBECTL = """#!/bin/sh
# Stands for a cluster in which each job is complete as soon as it runs: `calls` has a line for
# each call, and `job-NAME` what was created.
case "$1" in
    create)
        cat >made
        name=$(sed 's/.*"metadata": {"name": "\\([^"]*\\)".*/\\1/' made)
        mv made "job-$name"
        set -- "$@" "$name";;
    get) cat "job-$3" 2>/dev/null;;
esac
echo "$*" >>calls
case "$*" in
    wait*=failed*) echo 'timed out waiting for the condition' >&2; exit 1;;
esac
exit 0
"""


def test_suspended_jobs_begin_when_the_one_before_is_complete(
    commands: ForkServer, config: Path, tmp_path: Path
) -> None:
    def submit() -> None:
        ended = commands.run(["submit", "k8s", config, *K8S, "--go"], env=env, cwd=tmp_path)
        assert ended.code == 0, ended.stderr

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text(KUBECTL)
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    env = {**PLAIN, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    submit()
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    names = [f"dataprep-{name}" for name in STEPS]
    assert [call[-1] for call in calls if call[0] == "create"] == names
    later = [call for call in calls if call[0] in ("wait", "patch")]
    assert [call[1].removeprefix("job/") for call in later if call[0] == "wait"] == names
    assert [call[2] for call in later if call[0] == "patch"] == names[1:]
    assert [call[0] for call in later] == ["wait", "patch"] * 3 + ["wait"]
    submit()  # its terminal was closed
    again = (tmp_path / "calls").read_text().splitlines()[len(calls) :]
    assert not any(call.startswith("create") for call in again)
    config.write_text(yaml.safe_dump({**CONFIG, "add_eos": False}))  # which those jobs know not of
    refused = commands.run(["submit", "k8s", config, *K8S, "--go"], env=env, cwd=tmp_path)
    assert refused.code == 4
    assert "job dataprep-tokenize is there, of another config" in refused.stderr


# --- Slurm ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which the commands of a real Slurm work."""
    if os.geteuid() or shutil.which("apt-get") is None:
        pytest.skip("Slurm is run as root, from packages of Debian")
    folder = tmp_path_factory.mktemp("slurm")
    subprocess.run([SANDBOX, folder], check=True, timeout=120)
    try:
        told = subprocess.run(
            ["bash", "-c", f". {shlex.quote(str(folder / 'env'))} && env -0"],
            capture_output=True,
            check=True,
        )
        yield dict(pair.decode().split("=", 1) for pair in told.stdout.split(b"\0") if pair)
    finally:
        subprocess.run(
            ["bash", "-c", f". {shlex.quote(str(folder / 'env'))} && scancel --full --user root"],
            check=False,
        )
        for name in ("slurmd", "slurmctld"):
            os.kill(int((folder / f"{name}.pid").read_text()), signal.SIGTERM)


def wait_until(is_so: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 600
    while not (found := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_slurm_makes_the_bytes_of_one_run_though_an_element_is_requeued(
    slurm: dict[str, str], config: Path, tmp_path: Path
) -> None:
    home = tmp_path / "it's here"
    write_corpus(home / "corpus", files=16, lines=1000)
    config = config.rename(home / config.name)
    env = {**os.environ, **PLAIN, **slurm}

    def call(*words: str) -> str:
        done = subprocess.run(words, cwd=home, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    needs = ("--tasks", "3", "--cpus", "1", "--memory", "1G", "--time", "01:00:00")
    said = call(*COMMAND, "submit", "slurm", str(config), *needs, "--go")
    numbers = dict(line.split() for line in said.splitlines())
    assert [*numbers] == STEPS

    tasks = home / "tok" / ".work" / "tasks"
    wait_until(lambda: len([*tasks.glob("*.done")]) >= 2)
    done = {path.name: path.stat().st_mtime_ns for path in tasks.glob("*.done")}
    first = f"{numbers['tokenize']}_0"
    assert call("squeue", "-h", "-j", first, "-t", "RUNNING", "-o", "%i").split() == [first]
    call("scontrol", "requeue", first)
    wait_until(lambda: "Restarts=1 " in call("scontrol", "show", "job", first))
    call("scontrol", "update", f"JobId={first}", "StartTime=now")  # it would wait two minutes
    wait_until(lambda: not call("squeue", "-h", "-o", "%i %T"))

    assert not list((home / "tok").glob(".work"))
    log = (home / f"dataprep-tokenize-{numbers['tokenize']}_0.log").read_text()
    assert "done before" in log  # it went on where it was
    assert done
    for verb, out in (("tokenize", "tok"), ("pack", "packed")):
        made = tree(home / out)
        (home / out).rename(home / f"slurm-{out}")
        inputs = [str(home / "tok")] if verb == "pack" else []  # as the jobs name it
        call(*COMMAND, verb, *inputs, "--config", str(config))
        assert tree(home / out) == made
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(home) in str(p.info)]
