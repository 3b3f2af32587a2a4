"""`dataprep tokenize` from outside: what it writes, says, refuses and survives."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from conftest import RunCli, Sample
from dataprep.loaders import open_dataset
from support.inprocess import write_lines
from support.parents import workers_of
from support.proofs import keep_proof
from support.trees import tree

SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> list[Path]:
    """Two files, large enough for several tasks of several batches, with blank lines."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = sample.text.read_text("utf-8").splitlines(keepends=True)
    rng = random.Random(0)
    paths = []
    for name in ("a.jsonl", "b.jsonl.gz"):
        text = "".join(line for _ in range(12) for line in [*rng.sample(lines, len(lines)), "\n"])
        path = folder / name
        opened = gzip.open if name.endswith("gz") else open
        with opened(path, "wt", encoding="utf-8") as file:
            file.write(text)
        paths.append(path)
    return paths


def arguments(sample: Sample, corpus: list[Path], out: Path, *more: str) -> list[str]:
    # Small shards make several tasks, and several shards of the compressed file's one task.
    common = ["--tokenizer", str(sample.tokenizer), "--out", str(out), "--shard-bytes", "262144"]
    return ["tokenize", *map(str, corpus), *common, "--set", "keys=content", *more]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, sample: Sample, corpus: list[Path]) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    command = [sys.executable, "-m", "dataprep.cli.main"]
    subprocess.run([*command, *arguments(sample, corpus, out, "-q")], check=True, timeout=120)
    return out


def records_of(paths: list[Path]) -> list[dict[str, Any]]:
    records = []
    for path in paths:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        records += [json.loads(line) for line in data.splitlines() if line.strip()]
    return records


def test_ids_equal_those_of_tokenizers_in_input_order(
    sample: Sample, corpus: list[Path], finished: Path
) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(sample.tokenizer))
    dataset = open_dataset(finished)
    manifest = dataset.manifest
    bos, eos = manifest["tokenizer"]["bos"], manifest["tokenizer"]["eos"]
    records = records_of(corpus)
    assert len(dataset) == len(records) == manifest["counts"]["documents_written"]
    assert len(manifest["shards"]) > 3
    for i, record in enumerate(records):
        expected = [bos, *tokenizer.encode(record["text"], add_special_tokens=False).ids, eos]
        document = dataset[i]
        assert document["tokens"].tolist() == expected
        assert document["loss_mask"].tolist() == [False] + [True] * (len(expected) - 1)
    assert dataset.lengths.sum() == manifest["counts"]["tokens"]


@pytest.mark.parametrize(("workers", "hash_seed"), [("1", "0"), ("2", "1"), ("3", "0")])
def test_bytes_do_not_depend_on_workers_or_hash_seed(
    run_cli: RunCli,
    sample: Sample,
    corpus: list[Path],
    finished: Path,
    tmp_path: Path,
    workers: str,
    hash_seed: str,
) -> None:
    out = tmp_path / "out"
    run_cli(
        *arguments(sample, corpus, out, "--workers", workers), env={"PYTHONHASHSEED": hash_seed}
    )
    assert tree(out) == tree(finished)


@pytest.mark.parametrize(
    ("engine", "is_known"),
    [("tokenizers", True), ("fastokens", True), pytest.param("fastokens", False, marks=SLOW)],
)
def test_neither_bytes_nor_manifest_depend_on_the_engine(
    run_cli: RunCli,
    sample: Sample,
    corpus: list[Path],
    finished: Path,
    tmp_path: Path,
    engine: str,
    is_known: bool,
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    if is_known:
        keep_proof(cache, sample.tokenizer)
    words = arguments(sample, corpus, out, "--engine", engine, "--json")
    ran = run_cli(*words, env={"DATAPREP_CACHE": str(cache)})
    assert json.loads(ran.stdout)["engine"].split()[0] == engine  # only the run says it
    assert tree(out) == tree(finished)
    assert "all equal" in run_cli("verify", out, "--against", finished).stdout


KILLS = 2  # of the command as it is installed; `faults` has many more, of forks


def test_a_run_killed_at_random_moments_ends_in_the_same_bytes(
    run_cli: RunCli, sample: Sample, corpus: list[Path], finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dataprep.cli.main", *arguments(sample, corpus, out)]
    rng = random.Random(7)
    kills = 0
    resumed_from = set()
    for _ in range(40):
        if kills == KILLS:
            break
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        # The clock starts when workers have begun to commit, so that kills fall into the work.
        markers = len(list(out.glob(".work/tasks/*.done")))
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            if len(list(out.glob(".work/tasks/*.done"))) > markers:
                break
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL or (out / "manifest.json").exists():
            shutil.rmtree(out)  # it was done before it could be killed
            continue
        kills += 1
        resumed_from.add(len(list(out.glob(".work/tasks/*.done"))))
    assert kills == KILLS, "the runs ended before they could be killed"
    assert max(resumed_from) > 0
    run_cli(*arguments(sample, corpus, out))
    assert tree(out) == tree(finished)


def test_workers_die_with_their_parent(sample: Sample, corpus: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dataprep.cli.main", *arguments(sample, corpus, out, "-q")]
    process = subprocess.Popen([*command, "--engine", "tokenizers"])
    deadline = time.monotonic() + 30
    while not workers_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive


def test_a_killed_worker_is_replaced_and_its_task_done_again(
    sample: Sample, corpus: list[Path], finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dataprep.cli.main", *arguments(sample, corpus, out, "-q")]
    process = subprocess.Popen(command)
    killed = 0
    deadline = time.monotonic() + 60
    while process.poll() is None and killed < 2 and time.monotonic() < deadline:
        workers = workers_of(process.pid)
        if workers:
            workers[0].kill()
            killed += 1
            time.sleep(0.2)
    assert process.wait(timeout=60) == 0
    assert killed
    assert tree(out) == tree(finished)


def test_sigterm_ends_in_143_and_the_run_can_go_on(
    run_cli: RunCli, sample: Sample, corpus: list[Path], finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dataprep.cli.main", *arguments(sample, corpus, out, "-q")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not list(out.glob(".work/tasks/*")) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.terminate()
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 143
    assert "run the same command again" in stderr
    run_cli(*arguments(sample, corpus, out))
    assert tree(out) == tree(finished)


def test_a_finished_dataset_is_left_alone(
    run_cli: RunCli, sample: Sample, corpus: list[Path], finished: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    result = run_cli(*arguments(sample, corpus, finished))
    assert "nothing to do" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_another_config_under_the_same_output_is_a_conflict(
    run_cli: RunCli, sample: Sample, corpus: list[Path], finished: Path
) -> None:
    before = tree(finished)
    result = run_cli(*arguments(sample, corpus, finished, "--prepend-text", "x"), check=False)
    assert result.code == 4
    assert "prepend_text: '' -> 'x'" in result.stderr
    assert tree(finished) == before


def test_a_changed_input_is_a_conflict_and_overwrite_replaces(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "one"}])
    out = tmp_path / "out"
    command = ["tokenize", path, "--tokenizer", "bytes", "--out", out]
    run_cli(*command)
    write_lines(path, [{"text": "two"}])
    result = run_cli(*command, check=False)
    assert result.code == 4
    assert f"input {path} changed" in result.stderr
    run_cli(*command, "--overwrite")
    assert bytes(open_dataset(out)[0]["tokens"][1:-1].astype("u1")) == b"two"


def test_touching_an_input_is_not_a_change(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "one"}])
    command = ["tokenize", path, "--tokenizer", "bytes", "--out", tmp_path / "out"]
    run_cli(*command)
    os.utime(path, (1, 1))
    assert "nothing to do" in run_cli(*command).stdout


def test_a_second_run_at_the_same_time_exits_75(
    sample: Sample, corpus: list[Path], run_cli: RunCli, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dataprep.cli.main", *arguments(sample, corpus, out, "-q")]
    first = subprocess.Popen(command)
    deadline = time.monotonic() + 30
    while not (out / ".work").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    first.send_signal(signal.SIGSTOP)
    try:
        result = run_cli(*arguments(sample, corpus, out), check=False)
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=60) == 0
    assert result.code == 75
    told = f"another run holds {out}; wait for it or stop it (process {first.pid} on "
    assert told in result.stderr


BAD_LINES = [
    '{"text": "good"}',
    "{bad",
    '{"body": "x"}',
    '{"text": [3]}',
    '"just text"',
    '{"text": "\\ud800"}',
    '{"text": "also good"}',
]


@pytest.fixture
def bad_input(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "in.jsonl", BAD_LINES)


def test_a_bad_line_stops_the_run_and_is_named(
    run_cli: RunCli, bad_input: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run_cli("tokenize", bad_input, "--tokenizer", "bytes", "--out", out, check=False)
    assert result.code == 3
    assert f"line 2 of {bad_input} (byte 17)" in result.stderr
    assert not (out / "manifest.json").exists()


def test_skipped_records_are_counted(run_cli: RunCli, bad_input: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["tokenize", bad_input, "--tokenizer", "bytes", "--out", out, "--json"]
    counts = json.loads(run_cli(*command, "--on-error", "skip").stdout)["counts"]
    assert counts["documents_read"] == 7
    assert counts["documents_written"] == 2
    assert counts["documents_dropped"] == 5
    assert not (out / "errors.jsonl").exists()


def test_quarantined_records_are_listed_with_their_places(
    run_cli: RunCli, bad_input: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ["tokenize", bad_input, "--tokenizer", "bytes", "--out", out]
    run_cli(*command, "--on-error", "quarantine")
    errors = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    assert [error["line"] for error in errors] == [2, 3, 4, 5, 6]
    lines = bad_input.read_bytes().splitlines(keepends=True)
    starts = np.cumsum([0] + [len(line) for line in lines]).tolist()
    assert [error["byte_offset"] for error in errors] == starts[1:6]
    assert "field 'text' is missing (keys: body)" in errors[1]["reason"]
    assert {error["file"] for error in errors} == {str(bad_input)}
    counts = open_dataset(out).manifest["counts"]
    assert counts["documents_quarantined"] == 5


@pytest.mark.parametrize(("limit", "code"), [("4", 3), ("5", 0), ("50%", 3), ("80%", 0)])
def test_max_errors_ends_the_run(
    run_cli: RunCli, bad_input: Path, tmp_path: Path, limit: str, code: int
) -> None:
    command = ["tokenize", bad_input, "--tokenizer", "bytes", "--out", tmp_path / "out"]
    result = run_cli(*command, "--on-error", "skip", "--max-errors", limit, check=False)
    assert result.code == code
    if code:
        assert f"more than --max-errors {limit} allows" in result.stderr


def test_no_record_at_all_is_an_error_unless_allowed(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("\n\n")
    command = ["tokenize", path, "--tokenizer", "bytes", "--out", tmp_path / "out"]
    result = run_cli(*command, check=False)
    assert result.code == 3
    assert "--allow-empty" in result.stderr
    run_cli(*command, "--allow-empty")
    assert len(open_dataset(tmp_path / "out")) == 0


@pytest.mark.parametrize("count", [1, 150, 10**6])
def test_limit_takes_the_first_records(
    run_cli: RunCli, sample: Sample, corpus: list[Path], finished: Path, tmp_path: Path, count: int
) -> None:
    out = tmp_path / "out"
    run_cli(*arguments(sample, corpus, out, "--limit", str(count)))
    dataset, whole = open_dataset(out), open_dataset(finished)
    assert len(dataset) == min(count, len(whole))
    for i in {0, len(dataset) // 2, len(dataset) - 1}:
        assert dataset[i]["tokens"].tolist() == whole[i]["tokens"].tolist()


def test_provenance_leads_back_to_the_record(
    run_cli: RunCli, corpus: list[Path], finished: Path
) -> None:
    records = records_of(corpus)
    for i in (0, 1, len(records) // 2, len(records) - 1):
        seen = json.loads(run_cli("inspect", finished, "--doc", str(i), "--json").stdout)
        path = Path(seen["origin"]["path"])
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        line = data.splitlines()[seen["origin"]["line"] - 1]
        assert json.loads(line) == records[i]
        assert data[seen["origin"]["byte_offset"] :].startswith(line)


def test_counts_add_up_for_each_source(corpus: list[Path], finished: Path) -> None:
    manifest = open_dataset(finished).manifest
    assert [source["path"] for source in manifest["sources"]] == [str(p) for p in corpus]
    for source, path in zip(manifest["sources"], corpus, strict=True):
        assert source["records"] == source["written"] == len(records_of([path]))
        assert source["bytes"] == path.stat().st_size


def test_a_folder_with_other_files_is_not_written_to(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "x"}])
    result = run_cli("tokenize", path, "--tokenizer", "bytes", "--out", tmp_path, check=False)
    assert result.code == 2
    assert "holds in.jsonl, which dataprep did not write" in result.stderr


def test_dry_run_writes_nothing(
    run_cli: RunCli, sample: Sample, corpus: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run_cli(*arguments(sample, corpus, out, "--dry-run", "--json"))
    assert json.loads(result.stdout)["tasks"] > 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--out", "o"], 2, "no input"),
        (["IN", "--out", "o"], 2, "no tokenizer"),
        (["IN", "--tokenizer", "bytes"], 2, "no output folder"),
        (["IN", "--tokenizer", "nowhere/tokenizer.json", "--out", "o"], 2, "nowhere"),
        (["missing.jsonl", "--tokenizer", "bytes", "--out", "o"], 3, "missing.jsonl"),
        (["IN", "--tokenizer", "bytes", "--out", "o", "--bogus"], 2, "--bogus"),
        (["IN", "--tokenizer", "bytes", "--out", "o", "--workers", "0"], 2, "workers"),
    ],
)
def test_mistakes_on_the_command_line_are_named(
    run_cli: RunCli, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "x"}])
    words = [str(path) if word == "IN" else word for word in arguments]
    result = run_cli("tokenize", *words, check=False)
    assert result.code == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_whole_documents_of_every_awkward_kind(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    texts = [
        " ",
        "\0",
        "\n" * 5000,
        "a" * 2_000_000,
        " " * 300_000,
        "e\u0301\u2028x",
        "\U0001f469\u200d\U0001f4bb",
    ]
    path = write_lines(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    run_cli("tokenize", path, "--tokenizer", sample.tokenizer, "--out", tmp_path / "out")
    dataset = open_dataset(tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(sample.tokenizer))
    for i, text in enumerate(texts):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert dataset[i]["tokens"][1:-1].tolist() == ids
