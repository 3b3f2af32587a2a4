"""Jobs of Slurm and Kubernetes that make the datasets of a config.

    config      out: tok, pack: {seq_len: 2048, out: packed}
    steps       tokenize ─► finalize tok ─► pack ─► finalize packed
    jobs        an array    one job         an array   one job        each after the one before

Only texts are made here: scripts for sbatch, manifests for kubectl. An element that is preempted,
or stopped at its time limit, is started again and goes on where it was.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.shares import COUNT
from dataprep.pipeline.storage.objects import is_remote

MOST_STARTS = 9  # again, of an element that ends with a code that may be better next time
AGAIN = (6, 75, 130, 137, 143)  # exit codes: resources or workers lost, locked, stopped
OF = "dataprep/of"  # the annotation of a job that says of which command and config it is
TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,4}):([0-5]\d):([0-5]\d)")
MEMORY = re.compile(r"[1-9]\d{0,8}[MGT]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNeeds:
    """What each element is given."""

    tasks: int  # elements of an array
    cpus: int
    memory: str  # 16G
    time: str  # [D-]HH:MM:SS
    at_once: int | None = None  # elements that may run at the same time; None: all

    @property
    def seconds(self) -> int:
        days, hours, minutes, seconds = map(int, _time_of(self.time).groups("0"))
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedStep:
    """One job: an array, or a single process."""

    name: str
    words: tuple[str, ...]
    is_array: bool


def steps_of(config: TokenizeConfig, file: str, command: Sequence[str]) -> list[SubmittedStep]:
    """Return the jobs of a config, each of which needs what the one before has made."""
    file = os.path.abspath(file)
    verbs: list[tuple[str, str, tuple[str, ...]]] = []  # with their outputs and inputs
    if config.encode.inputs:
        verbs.append(("encode", config.encode.out, ()))
    verbs.append(("tokenize", config.out, ()))
    if config.pack.seq_len or config.pack.out:
        own = () if config.pack.inputs else (_as_word(config.out),)
        verbs.append(("pack", config.pack.out, own))
    found = []
    for verb, out, inputs in verbs:
        if not out:
            raise ConfigError(f"{file} does not say where {verb} writes to; set its out")
        words = (*command, verb, *inputs, "--config", file)
        found.append(SubmittedStep(name=verb, words=words, is_array=True))
        words = (*command, "finalize", _as_word(out))
        found.append(SubmittedStep(name=f"finalize-{verb}", words=words, is_array=False))
    return found


def _as_word(name: str) -> str:
    """Return a name as commands take it: one that begins with - would be an option."""
    return f"./{name}" if name.startswith("-") else name


def writes_to_disk(steps: Sequence[SubmittedStep]) -> bool:
    """Return whether a dataset is made in a folder, and not in a bucket."""
    return any(not is_remote(step.words[-1]) for step in steps if not step.is_array)


def check_needs(needs: JobNeeds) -> None:
    _time_of(needs.time)
    if not MEMORY.fullmatch(needs.memory):
        raise ConfigError(f"--memory {needs.memory}: must be a number of M, G or T, such as 16G")


def _time_of(text: str) -> re.Match[str]:
    found = TIME.fullmatch(text)
    if found is None or not text.strip("-:0"):
        raise ConfigError(f"--time {text}: must be HH:MM:SS or D-HH:MM:SS, such as 12:00:00")
    return found


# --- Slurm ----------------------------------------------------------------------------------------


def slurm_script(steps: Sequence[SubmittedStep], needs: JobNeeds, folder: str) -> str:
    """Return a script that submits a job for each step, and prints their numbers."""
    check_needs(needs)
    parts = [
        "#!/bin/bash",
        "# Submits a job for each step; each waits for the one before it.",
        "set -eu",
    ]
    before = ""
    for step in steps:
        variable = step.name.replace("-", "_")
        after = f" --dependency=afterok:${before} --kill-on-invalid-dep=yes" if before else ""
        parts += [
            f"{variable}=$(sbatch --parsable{after} <<'END'",
            *_batch_lines(step, needs, folder),
            "END",
            ")",
            f"{variable}=${{{variable}%%;*}}",
            f'echo "{step.name} ${variable}"',
        ]
        before = variable
    return "\n".join(parts) + "\n"


def _batch_lines(step: SubmittedStep, needs: JobNeeds, folder: str) -> Iterator[str]:
    options = {
        "job-name": f"dataprep-{step.name}",
        "array": _array(needs) if step.is_array else None,
        "cpus-per-task": needs.cpus,
        "mem": needs.memory,
        "time": needs.time,
        # Not as a shell: before a space, sbatch takes no backslash.
        "chdir": '"' + re.sub(r'["\\]', r"\\\g<0>", folder) + '"',
        "output": f"dataprep-{step.name}-%{'A_%a' if step.is_array else 'j'}.log",
        "open-mode": "append",
        "signal": "B:TERM@60",
    }
    yield "#!/bin/bash"
    yield "#SBATCH --requeue"
    for name, value in options.items():
        if value is not None:
            yield f"#SBATCH --{name}={value}"
    words = step.words
    if step.is_array:
        yield f"export {COUNT}={needs.tasks}"
        words = (*words, "--workers", str(needs.cpus), "--task", "auto")
    codes = "|".join(map(str, AGAIN))
    yield f"{shlex.join(words)} &"
    yield "child=$!"
    yield "trap 'kill -TERM $child' TERM    # a minute before the time limit"
    yield "wait $child; code=$?"
    yield "if kill -0 $child 2>/dev/null; then wait $child; code=$?; fi"
    yield f'if [[ $code =~ ^({codes})$ && "${{SLURM_RESTART_COUNT:-0}}" -lt {MOST_STARTS} ]]; then'
    yield '  scontrol requeue "$SLURM_JOB_ID" && sleep 120    # it goes on where it was'
    yield "fi"
    yield "exit $code"


def _array(needs: JobNeeds) -> str:
    limit = f"%{needs.at_once}" if needs.at_once else ""
    return f"0-{needs.tasks - 1}{limit}"


# --- Kubernetes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """What pods run in."""

    image: str
    claim: str  # of the volume that all pods share; "": none, all is in buckets and in the image
    mount: str
    prefix: str  # of the names of jobs

    def missing(self, *places: str) -> list[str]:
        """Return the places that are not on the volume, and so not in a pod."""
        mount = os.path.abspath(self.mount)
        return [p for p in places if self.claim and not Path(p).is_relative_to(mount)]


def job_manifests(
    steps: Sequence[SubmittedStep],
    needs: JobNeeds,
    pods: Pods,
    folder: str,
    config: TokenizeConfig,
) -> list[dict[str, Any]]:
    """Return a manifest for each step of a config. All but the first are suspended: Kubernetes has
    no dependencies between jobs."""
    check_needs(needs)
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", pods.prefix):
        raise ConfigError(f"--name {pods.prefix}: small letters, digits and '-' are allowed")
    jobs = [_job(step, i > 0, needs, pods, folder) for i, step in enumerate(steps)]
    # So that a job that is there already is known to be this one.
    own = fingerprint({"jobs": jobs, "config": config.model_dump(mode="json")})
    for job in jobs:
        job["metadata"]["annotations"] = {OF: own}
    return jobs


def _job(
    step: SubmittedStep, is_suspended: bool, needs: JobNeeds, pods: Pods, folder: str
) -> dict[str, Any]:
    name = f"{pods.prefix}-{step.name}"
    array = {
        "completionMode": "Indexed",
        "completions": needs.tasks,
        "parallelism": min(needs.at_once or needs.tasks, needs.tasks),
        "backoffLimitPerIndex": MOST_STARTS,
        "maxFailedIndexes": 0,
    }
    own = ("--workers", str(needs.cpus), "--task", "auto") if step.is_array else ()
    memory = f"{needs.memory}i"  # Slurm's G is 2^30, too
    size = {"cpu": str(needs.cpus), "memory": memory}
    container: dict[str, Any] = {
        "name": "dataprep",
        "image": pods.image,
        "command": [*step.words, *own],
        "env": [{"name": COUNT, "value": str(needs.tasks)}] if step.is_array else [],
        "resources": {"requests": size, "limits": size},
    }
    volumes = []
    if pods.claim:
        container["workingDir"] = folder
        container["volumeMounts"] = [{"name": "data", "mountPath": pods.mount}]
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": pods.claim}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app": "dataprep", "dataprep/step": step.name}},
        "spec": {
            **(array if step.is_array else {"backoffLimit": MOST_STARTS}),
            "suspend": is_suspended,
            "podFailurePolicy": {"rules": _rules()},
            "template": {
                "metadata": {"labels": {"app": "dataprep", "dataprep/step": step.name}},
                "spec": {
                    "restartPolicy": "Never",
                    # Of each pod, as Slurm has it: that of a job would end all its elements.
                    "activeDeadlineSeconds": needs.seconds,
                    "terminationGracePeriodSeconds": 60,
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


def _rules() -> list[dict[str, Any]]:
    """Return what becomes of a job whose pod fails: a pod that was evicted does not count, what
    another try does not mend ends the job, and anything else is tried again."""
    codes = {"containerName": "dataprep", "operator": "In", "values": [1, 2, 3, 4, 5]}
    return [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": codes},
    ]
