"""Task arrays: elements do their shares side by side, finalize publishes, and the bytes are those
of one run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.jobs.shares import JobShare, owners_of, parse_share
from dataprep.pipeline.jobs.workspace import distrust, locked
from dataprep.pipeline.run.begun import finalize
from dataprep.pipeline.tokenize import tokenize, tokenize_share
from support.forks import ForkServer
from support.jobs import Job, make_jobs
from support.killable import Killed, dying, without_processes
from support.trees import tree

KINDS = ("tokenize", "pack", "encode")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[ForkServer]:
    with ForkServer(tmp_path_factory.mktemp("elements")) as server:
        yield server


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Mapping[str, Job]:
    return make_jobs(tmp_path_factory.mktemp("jobs"), server, KINDS, is_small=True)


def task(job: Job, out: Path, share: str, *more: str) -> list[str]:
    return [*job.command(out, 1, *more), "--task", share]


WORDS = ("tokenize", "a.jsonl", "b.jsonl", "--tokenizer", "bytes", "--shard-bytes", "65536")


def lines(text: str) -> str:
    """So many that a file is a task."""
    return f"{json.dumps({'text': text * 5000})}\n" * 12


def test_finalize_may_be_killed_at_any_change_of_the_disk_and_is_run_again(
    tmp_path: Path, cache_dir: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(lines("one") * 2)
    values = {"inputs": [str(tmp_path / "a.jsonl")], "tokenizer": "bytes", "shard_bytes": 65536}
    config = TokenizeConfig.model_validate({**values, "out": str(tmp_path / "out")})
    with without_processes():
        tokenize(config, cache_dir=cache_dir)
        wanted = tree(tmp_path / "out")
        begun = tmp_path / "begun"
        shutil.rmtree(tmp_path / "out")
        tokenize_share(config, JobShare(number=0, count=1), cache_dir=cache_dir)
        (tmp_path / "out").rename(begun)
    kills, complete = 20, set[bool]()  # before these there is nothing to be seen
    while True:
        shutil.copytree(begun, tmp_path / "out")
        try:
            with without_processes(), dying(kills + 1):
                finalize(str(tmp_path / "out"), cache_dir)
            break
        except Killed:
            complete.add(finalize(str(tmp_path / "out"), cache_dir).was_complete)
        assert tree(tmp_path / "out") == wanted
        shutil.rmtree(tmp_path / "out")
        kills += 3
    assert kills > 30, kills
    assert complete == {True, False}


# --- from outside ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_elements_side_by_side_and_finalize_give_the_bytes_of_one_run(
    server: ForkServer, commands: ForkServer, jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    job, out = jobs[name], tmp_path / "out"
    servers = (server, commands)  # each runs one command at a time
    runs = [each.start(task(job, out, f"{i}/2")) for i, each in enumerate(servers)]
    ended = [run.wait() for run in runs]
    assert [each.code for each in ended] == [0, 0], [each.stderr for each in ended]
    assert job.verdict(out) == "unfinished"
    finished = server.check(["finalize", out])
    assert str(out) in finished.stdout
    assert job.verdict(out) == "equal"
    assert not (out / ".work").exists()
    assert "nothing to do" in server.check(task(job, out, "1/3")).stdout
    assert "nothing to do" in server.check(["finalize", out]).stdout


def test_finalize_says_which_elements_are_missing_and_any_number_of_others_goes_on(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    done = json.loads(server.check([*task(job, out, "0/2"), "--json"]).stdout)
    assert done["task"] == "0/2"
    assert 0 < done["jobs"] < job.num_shards
    ended = server.start(["finalize", out]).wait()
    assert ended.code == 6
    missing = job.num_shards - done["jobs"]
    assert f"{missing} job" in ended.stderr
    assert f"of {job.num_shards} not done" in ended.stderr
    assert "--task 1/2, then finalize" in ended.stderr
    assert job.verdict(out) == "unfinished"
    # Of five elements, some of whose jobs are done.
    before = [
        json.loads(server.check([*task(job, out, f"{i}/5"), "--json"]).stdout)["jobs_before"]
        for i in range(5)
    ]
    assert sum(before) == done["jobs"]
    server.check(["finalize", out])
    assert job.verdict(out) == "equal"


def test_an_element_leaves_the_plan_that_others_have_open(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["tokenize"], tmp_path / "out"
    server.check(task(job, out, "0/2"))
    before = {path: path.stat().st_ino for path in (out / ".work").glob("*.plan")}
    assert before
    server.check(task(job, out, "1/2"))
    assert {path: path.stat().st_ino for path in (out / ".work").glob("*.plan")} == before


def test_an_element_that_is_killed_goes_on_where_it_was(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["encode"], tmp_path / "out"
    run = server.start(task(job, out, "0/1"))
    tasks = out / ".work" / "tasks"
    while not list(tasks.glob("*.done")):
        assert not run.server.has_answer(0.0005), "it ended before it was killed"
    run.kill()
    kept = {path.name: path.stat().st_mtime_ns for path in tasks.glob("*.done")}
    assert kept  # it was killed in the middle
    assert job.verdict(out) == "unfinished"
    server.check(task(job, out, "0/1"))
    now = {path.name: path.stat().st_mtime_ns for path in tasks.glob("*.done")}
    assert {name: now[name] for name in kept} == kept
    server.check(["finalize", out])
    assert job.verdict(out) == "equal"


def test_an_ordinary_run_goes_on_with_what_elements_have_done(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["tokenize"], tmp_path / "out"
    server.check(task(job, out, "1/2"))
    server.check(job.command(out, 1))
    assert job.verdict(out) == "equal"


def test_elements_share_the_folder_with_each_other_and_with_nobody_else(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    with locked(out, shared=True):
        server.check(task(job, out, "0/2"))
        assert server.start(job.command(out, 1)).wait().code == 75
        assert server.start(["finalize", out]).wait().code == 75
    with locked(out):
        ended = server.start(task(job, out, "1/2")).wait()
        assert ended.code == 75
        assert "another run holds" in ended.stderr


def test_no_job_is_done_by_two_elements_at_a_time(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    server.check(task(job, out, "0/2"))
    with open(out / ".work" / "element-0.json", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as if it were still at work
        for share, said in (("0/2", "element 0/2 is"), ("3/5", "an element of 2 is")):
            ended = server.start(task(job, out, share)).wait()
            assert (ended.code, said in ended.stderr) == (75, True), ended.stderr
        server.check(task(job, out, "1/2"))
    server.check(task(job, out, "3/5"))
    server.check(["finalize", out])
    assert job.verdict(out) == "equal"


def test_elements_of_something_else_are_a_conflict_and_remove_nothing(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    server.check(task(job, out, "0/2"))
    before = tree(out)
    ended = server.start(task(job, out, "1/2", "--seed", "7")).wait()
    assert ended.code == 4
    assert "seed: 0 -> 7" in ended.stderr
    assert "dataprep clean" in ended.stderr
    assert tree(out) == before
    server.check(["clean", out, "--go"])
    server.check(task(job, out, "0/1", "--seed", "7"))
    server.check(["finalize", out])


def test_work_that_cannot_be_trusted_is_used_by_nobody(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    server.check(task(job, out, "0/1"))
    distrust(out / ".work", "an engine is not exact")
    for words, code in ((task(job, out, "0/1"), 4), (["finalize", str(out)], 5)):
        ended = server.start(words).wait()
        assert ended.code == code
        assert "an engine is not exact" in ended.stderr
    server.check(job.command(out, 1))  # has the folder to itself, so it begins anew
    assert job.verdict(out) == "equal"


def test_an_input_that_changes_between_elements_is_noticed(run_cli: RunCli, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(lines("x"))
    words = (*WORDS, "--out", "out")
    run_cli(*words, "--task", "0/2")
    (tmp_path / "b.jsonl").write_text(lines("y"))
    assert "b.jsonl changed" in run_cli(*words, "--task", "1/2", check=False).stderr
    finished = run_cli("finalize", "out", check=False)
    assert finished.code == 6  # the second element's job is missing
    (tmp_path / "b.jsonl").write_text(lines("x"))
    run_cli(*words, "--task", "1/2")
    (tmp_path / "a.jsonl").write_text(lines("z"))
    finished = run_cli("finalize", tmp_path / "out", cwd=tmp_path.parent, check=False)
    assert finished.code == InputError.exit_code
    assert "a.jsonl changed" in finished.stderr


def test_bad_records_are_counted_over_all_elements(run_cli: RunCli, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(lines("x") + "{bad\n" * 3)
    words = (*WORDS, "--on-error", "quarantine")
    run_cli(*words, "--max-errors", "6", "--out", "whole")
    for most, code in (("5", 3), ("6", 0)):
        out = f"out{most}"
        for share in ("0/2", "1/2"):
            run_cli(*words, "--max-errors", most, "--out", out, "--task", share)
        finished = run_cli("finalize", out, check=False)
        assert finished.code == code, finished.stderr
    assert tree(tmp_path / "out6") == tree(tmp_path / "whole")
    assert "6 × not valid JSON" in finished.stdout


def test_what_becomes_of_bad_records_is_as_the_last_element_says(
    run_cli: RunCli, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(lines("x") + "{bad\n")
    run_cli(*WORDS, "--on-error", "quarantine", "--out", "whole")
    run_cli(*WORDS, "--on-error", "skip", "--out", "out", "--task", "0/2")
    run_cli(*WORDS, "--on-error", "quarantine", "--out", "out", "--task", "1/2")
    run_cli("finalize", "out")
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "2/2"], "numbered from 0 to 1"),
        (["--task", "1"], "must be I/N"),
        (["--task", "auto"], "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX"),
        (["--task", "0/1", "--overwrite"], "--overwrite is for all of it"),
        (["--task", "0/1", "--dry-run"], "--dry-run is for all of it"),
        (["--task", "0/1", "-"], "stdin"),
    ],
)
def test_what_an_element_cannot_do_is_refused(
    run_cli: RunCli, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    common = ("tokenize", "a.jsonl", "--tokenizer", "bytes", "--out", "out")
    finished = run_cli(*common, *words, check=False)
    assert finished.code == 2
    assert said in finished.stderr


def test_finalize_of_what_nobody_began_says_so(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    finished = run_cli("finalize", "out", check=False)
    assert finished.code == 5
    assert "no unfinished work" in finished.stderr
    assert not os.listdir(tmp_path / "out")


# --- shares ---------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(-1, 1000), max_size=60)


@given(sizes=SIZES, count=st.integers(1, 9))
def test_every_job_has_one_element_and_no_element_has_much_more_than_others(
    sizes: list[int], count: int
) -> None:
    shares = [JobShare(number=i, count=count).of(sizes) for i in range(count)]
    assert sorted(job for share in shares for job in share) == list(range(len(sizes)))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(max(sizes[job], 0) for job in share) for share in shares]
    assert max(loads) - min(loads) <= max([*sizes, 0])


def test_jobs_of_equal_or_unknown_size_are_dealt_out_evenly() -> None:
    for size in (1, 0, -1):
        owners = owners_of([size] * 10, 3)
        assert sorted(owners.count(element) for element in range(3)) == [3, 3, 4]


SLURM = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "4"}


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        (SLURM, "2/4"),
        ({**SLURM, "SLURM_ARRAY_TASK_STEP": "2"}, "1/4"),  # 5 7 9 11
        ({**SLURM, "DATAPREP_TASKS": "16"}, "7/16"),  # some of an array run again
        ({"SLURM_ARRAY_TASK_ID": "7", "DATAPREP_TASKS": "16"}, "7/16"),  # by hand
        ({"JOB_COMPLETION_INDEX": "3", "DATAPREP_TASKS": "4"}, "3/4"),
    ],
)
def test_an_element_is_known_by_what_the_engine_says(
    environment: dict[str, str], share: str
) -> None:
    assert str(parse_share("auto", environment)) == share


@pytest.mark.parametrize(
    "environment",
    [
        {"JOB_COMPLETION_INDEX": "3"},
        {"SLURM_ARRAY_TASK_ID": "7"},
        {**SLURM, "SLURM_ARRAY_TASK_ID": "9"},
        {**SLURM, "DATAPREP_TASKS": "many"},
        {**SLURM, "DATAPREP_TASKS": "7"},
    ],
)
def test_an_environment_that_does_not_say_which_element_is_refused(
    environment: dict[str, str],
) -> None:
    with pytest.raises(ConfigError, match="DATAPREP_TASKS"):
        parse_share("auto", environment)
