"""`dataprep submit`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from dataprep.cli.help import in_sections
from dataprep.cli.options import Json, Quiet
from dataprep.cli.show import echo, print_json
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError, ConflictError, ResourceError
from dataprep.pipeline.run.submit import (
    OF,
    JobNeeds,
    Pods,
    job_manifests,
    slurm_script,
    steps_of,
    writes_to_disk,
)

Tell = Callable[[str], None]

BEGIN = """\
# All jobs but the first are suspended, since each needs what the one before it makes. --go lets
# them begin in turn. By hand, when the one before is complete:
#   kubectl patch job NAME -p '{"spec": {"suspend": false}}'
"""
EXAMPLE = "Example: dataprep submit slurm dataprep.yaml --tasks 64 --cpus 16 --memory 32G --go"
SECTIONS = {
    "What an element gets": ("tasks", "at_once", "cpus", "memory", "time"),
    "Pods of k8s": ("image", "claim", "mount", "name"),
    "What to do": ("go",),
    "What to say": ("as_json", "quiet"),
}


def add_commands(app: typer.Typer) -> None:
    app.command("submit", cls=in_sections(SECTIONS), epilog=EXAMPLE)(submit_command)


def submit_command(
    engine: Annotated[str, typer.Argument(metavar="slurm|k8s", help="What runs the jobs.")],
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="YAML or TOML file of tokenize, with sections pack and encode where these are "
            "wanted; all machines must see it under this name.",
        ),
    ],
    tasks: Annotated[
        int, typer.Option("--tasks", metavar="N", min=1, help="Elements of an array.")
    ] = 16,
    at_once: Annotated[
        int | None,
        typer.Option("--at-once", metavar="N", min=1, help="Elements that may run together."),
    ] = None,
    cpus: Annotated[
        int, typer.Option("--cpus", metavar="N", min=1, help="Cores, and workers, of an element.")
    ] = 8,
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="Of an element: 500M, 16G.")
    ] = "16G",
    time: Annotated[
        str, typer.Option("--time", metavar="[D-]HH:MM:SS", help="Limit of an element.")
    ] = "24:00:00",
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="In which dataprep is installed.")
    ] = "",
    claim: Annotated[
        str,
        typer.Option(
            "--claim",
            metavar="NAME",
            help="Claim of the volume that all pods share; not needed where all datasets are made "
            "in buckets, inputs are in buckets, and the image has CONFIG under this name.",
        ),
    ] = "",
    mount: Annotated[
        str, typer.Option("--mount", metavar="PATH", help="Where that volume is in a pod.")
    ] = "/data",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What names of jobs begin with.")
    ] = "dataprep",
    go: Annotated[bool, typer.Option("--go", help="Submit the jobs; else print them.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the jobs that make the datasets of a config on a cluster, or submit them with --go.

    A task array for each of encode, tokenize and pack that the config has, and a job that publishes
    what it made; each waits for the one before. Elements that are preempted are started again.
    """
    if engine not in ("slurm", "k8s"):
        raise ConfigError(f"submit {engine}: must be slurm or k8s")
    _refuse_chain(config)
    settings = load_config(TokenizeConfig, files=[config])
    folder = os.getcwd()
    needs = JobNeeds(tasks=tasks, cpus=cpus, memory=memory, time=time, at_once=at_once)
    is_slurm = engine == "slurm"
    steps = steps_of(settings, config, own_command() if is_slurm else ["dataprep"])
    for flag, value in (("--image", image), ("--claim", claim)):
        if is_slurm and value:
            raise ConfigError(f"{flag} is for k8s; leave it out")
        if not is_slurm and not value and (flag == "--image" or writes_to_disk(steps)):
            raise ConfigError(f"pods need {flag}")
    tell: Tell = _say_nothing if quiet or as_json else echo
    values: dict[str, object]
    if is_slurm:
        script = slurm_script(steps, needs, folder)
        values, text = {"script": script}, script
    else:
        pods = Pods(image=image, claim=claim, mount=mount, prefix=name)
        for place in [] if quiet else pods.missing(folder, os.path.abspath(config)):
            echo(
                f"note: {place} is not below --mount {mount}, so pods do not have it; go to a "
                "folder of the volume, or mount it where it is here",
                err=True,
            )
        jobs = job_manifests(steps, needs, pods, folder, settings)
        values, text = {"jobs": jobs}, BEGIN + yaml.safe_dump_all(jobs, sort_keys=False)
    if go and is_slurm:
        _submit_slurm(script, tell)
    elif go:
        _submit_jobs(jobs, tell)
    if as_json:
        print_json({"engine": engine, "submitted": go, **values})
    elif not go:
        typer.echo(text, nl=False)


def _say_nothing(line: str) -> None:
    """Print nothing: --quiet, or --json, which has the jobs themselves."""


def _refuse_chain(config: str) -> None:
    """Raise if a config is for run, which plans a part when the one before it is there."""
    chain = load_config(RunConfig, files=[config])
    own = {*RunConfig.model_fields} - {*TokenizeConfig.model_fields}
    said = sorted(own & chain.model_fields_set)
    if said:
        raise ConfigError(
            f"{config} has {said[0]}, which is for dataprep run: its steps follow from what is "
            f"there when they begin; dataprep run {config} --executor ray uses a cluster"
        )


def own_command() -> list[str]:
    """Return the words that start this dataprep on any machine of the same disks."""
    beside = Path(sys.executable).with_name("dataprep")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "dataprep"]


def _submit_slurm(script: str, tell: Tell) -> None:
    if shutil.which("sbatch") is None:
        raise ConfigError("sbatch is not here; go to a machine that submits, or leave --go out")
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True)
    for line in done.stdout.splitlines():
        tell(line)
    if done.returncode:
        raise ResourceError(f"sbatch failed: {done.stderr.strip()}")


def _submit_jobs(jobs: Sequence[Mapping[str, Any]], tell: Tell) -> None:
    """Create all jobs; then let each begin when the one before it is complete."""
    if shutil.which("kubectl") is None:
        raise ConfigError("kubectl is not here; install it, or leave --go out")
    names = [str(job["metadata"]["name"]) for job in jobs]
    for job, name in zip(jobs, names, strict=True):
        there = _kubectl("get", "job", name, "--ignore-not-found", "-o", "json")
        if there and json.loads(there)["metadata"].get("annotations", {}).get(OF) != _of(job):
            raise ConflictError(
                f"job {name} is there, of another config or other flags; kubectl delete job "
                f"{' '.join(names)}, or give another --name"
            )
        if not there:
            _kubectl("create", "-f", "-", given=json.dumps(job))
        tell(f"job {name}{' is there already' if there else ''}")
    for before, name in pairwise(names):
        _wait_for(before)
        _kubectl("patch", "job", name, "-p", json.dumps({"spec": {"suspend": False}}))
        tell(f"job {name} begins")
    _wait_for(names[-1])


def _of(job: Mapping[str, Any]) -> str:
    return str(job["metadata"]["annotations"][OF])


def _wait_for(name: str) -> None:
    """Wait until a job has ended; raise if it failed."""
    while True:
        for condition in ("complete", "failed"):
            ended = ("wait", f"job/{name}", f"--for=condition={condition}", "--timeout=15s")
            done = subprocess.run(["kubectl", *ended], capture_output=True, text=True)
            if done.returncode == 0 and condition == "complete":
                return
            if done.returncode == 0:
                raise ResourceError(f"job {name} failed; kubectl describe job {name} says why")
            if "timed out" not in done.stderr:
                raise ResourceError(f"kubectl wait failed: {done.stderr.strip()}")


def _kubectl(*words: str, given: str | None = None) -> str:
    done = subprocess.run(["kubectl", *words], input=given, text=True, capture_output=True)
    if done.returncode:
        raise ResourceError(f"kubectl {words[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()
