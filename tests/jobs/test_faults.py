"""What goes wrong outside: disks, kills, changed files, damaged datasets. Each fault must fire."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import RunCli, Sample
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import CorruptError, DataprepError, InputError
from dataprep.pipeline.jobs import make
from dataprep.pipeline.jobs.executors import run_local
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.sources import find_sources
from dataprep.pipeline.tokenize import sample as sample_check
from dataprep.pipeline.tokenize import tokenize
from support.inprocess import tokenize_here, write_lines
from support.installed import COMMAND
from support.manifests import edit_manifest
from support.parents import workers_of
from support.proofs import keep_proof
from support.trees import tree


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = ["".join(map(chr, rng.integers(97, 123, 8))) for _ in range(500)]
    records = [{"text": " ".join(rng.choice(words, 40))} for _ in range(3000)]
    return write_lines(tmp_path / "in.jsonl", records)


def words_for(corpus: Path, out: Path, *more: str) -> list[str]:
    return ["tokenize", str(corpus), "--tokenizer", "bytes", "--out", str(out), *more]


def test_a_full_disk_exits_6_at_once_and_the_run_can_go_on(
    run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    out, clean = tmp_path / "out", tmp_path / "clean"
    words = words_for(corpus, out, "--shard-bytes", "500000", "--workers", "1")
    # No file may grow past 300 KiB: writes of larger shards fail as on a full disk.
    limited = subprocess.run(
        ["bash", "-c", 'ulimit -f 300; exec "$@"', "-", *COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert limited.returncode == 6, limited.stderr
    assert "run the same command again" in limited.stderr
    assert "Traceback" not in limited.stderr
    assert not (out / "manifest.json").exists()
    run_cli(*words)
    run_cli(*words_for(corpus, clean, "--shard-bytes", "500000"))
    assert tree(out) == tree(clean)


def test_bad_records_can_be_skipped_after_the_run_stopped_at_one(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}, "{bad", {"text": "b"}])
    out = tmp_path / "out"
    assert run_cli(*words_for(path, out), check=False).code == 3
    run_cli(*words_for(path, out, "--on-error", "quarantine"))
    assert len(open_dataset(out)) == 2
    assert len((out / "errors.jsonl").read_text().splitlines()) == 1


def test_a_bad_row_of_a_later_row_group_is_named(run_cli: RunCli, tmp_path: Path) -> None:
    texts: list[Any] = ["x" * 1000] * 3000
    texts[2500] = None
    path = tmp_path / "in.parquet"
    table = pa.table({"text": texts, "other": list(range(3000))})
    pq.write_table(table, path, row_group_size=100)
    words = words_for(path, tmp_path / "out", "--shard-bytes", "200000")
    result = run_cli(*words, check=False)
    assert result.code == 3
    assert f"row 2501 of {path}" in result.stderr
    assert "field 'text' is null; write text? to leave it out" in result.stderr


def test_an_input_that_changes_while_it_is_read_is_an_error(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_dir: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "old"}])
    config = TokenizeConfig.model_validate(
        {"inputs": [str(path)], "tokenizer": "bytes", "out": str(tmp_path / "out")}
    )

    def change_then_run(*args: Any, **kwargs: Any) -> None:
        write_lines(path, [{"text": "new"}])
        run_local(*args, **kwargs)

    monkeypatch.setattr(make, "EXECUTORS", {"local": change_then_run})
    with pytest.raises(DataprepError, match="changed while it was read"):
        tokenize(config, cache_dir=cache_dir)
    assert not (tmp_path / "out" / ".work").exists()
    monkeypatch.undo()
    tokenize(config, cache_dir=cache_dir)
    assert bytes(open_dataset(tmp_path / "out")[0]["tokens"][1:-1].astype("u1")) == b"new"


def test_a_difference_found_in_the_run_throws_the_work_away_and_rules_the_engine_out(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cache of its own: the engine is to be ruled out here and nowhere else.
    cache = tmp_path / "cache"
    keep_proof(cache, sample.tokenizer)
    config = TokenizeConfig.model_validate(
        {
            "inputs": [str(sample.text)],
            "tokenizer": str(sample.tokenizer),
            "out": str(tmp_path / "out"),
            "engine": "fastokens",
        }
    )

    def differ(*args: Any, **kwargs: Any) -> None:
        raise DataprepError("other ids for 'x'")

    monkeypatch.setattr(sample_check, "check_sample", differ)
    with pytest.raises(DataprepError, match=r"fastokens .* is not exact: other ids for 'x'"):
        tokenize(config, cache_dir=cache)
    assert not (tmp_path / "out" / ".work").exists()
    monkeypatch.undo()
    with pytest.raises(DataprepError, match="engine fastokens cannot be used"):
        tokenize(config, cache_dir=cache)


def test_a_worker_that_always_dies_ends_the_run_with_6(
    run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, *words_for(corpus, tmp_path / "out", "-q", "--workers", "1")],
        stderr=subprocess.PIPE,
        text=True,
    )
    killed: set[int] = set()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        for worker in workers_of(process.pid):
            if worker.pid not in killed and len(killed) < 3:
                worker.kill()
                killed.add(worker.pid)
        time.sleep(0.001)
    _, stderr = process.communicate(timeout=30)
    assert len(killed) == 3
    assert process.returncode == 6
    assert "workers died 3 times (SIGKILL)" in stderr
    assert "--workers" in stderr


def test_ctrl_c_ends_in_130_and_says_how_to_go_on(
    run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [*COMMAND, *words_for(corpus, out, "-q")], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while not (out / ".work" / "engine.json").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again" in stderr


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "multiprocess.__info__":  # multiprocess imports it in `try: … except:`
            print("interrupted", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from dataprep.cli.main import main
main()
"""


def test_ctrl_c_during_an_import_is_not_swallowed(corpus: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, *words_for(corpus, tmp_path / "out", "-q")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.stderr.count("interrupted") == 1
    assert "run the same command again" in result.stderr
    assert result.returncode == 130


def test_a_module_of_the_users_folder_is_not_imported_by_workers(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "xxhash.py").write_text("raise SystemExit('imported from the working folder')")
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    words = words_for(path, tmp_path / "out")
    result = subprocess.run(
        [sys.executable, "-P", *COMMAND[1:], *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr


def test_an_output_below_its_input_is_not_read_the_next_time(
    run_cli: RunCli, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_lines(data / "in.jsonl", [{"text": "a"}])
    words = words_for(data, data / "out")
    run_cli(*words)
    assert "nothing to do" in run_cli(*words).stdout


def test_the_tokenizers_path_is_not_part_of_what_a_dataset_is(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    words = ["tokenize", path, "--out", tmp_path / "out", "--engine", "tokenizers", "--tokenizer"]
    run_cli(*words, sample.tokenizer)
    assert "nothing to do" in run_cli(*words, sample.tokenizer.parent).stdout


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Path:
    out = tmp_path_factory.mktemp("dataset") / "out"
    tokenize_here(out, inputs=[str(sample.text)], tokenizer=str(sample.tokenizer))
    return out


def copy_of(dataset: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(dataset, tmp_path / "copy"))


def test_every_bit_flip_of_a_shard_is_found(dataset: Path, tmp_path: Path) -> None:
    copy = copy_of(dataset, tmp_path)
    (shard,) = (copy / "shards").iterdir()
    data = shard.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(data), 50).tolist():
        damaged = bytearray(data)
        damaged[place] ^= 1
        shard.write_bytes(damaged)
        with pytest.raises(CorruptError, match="documents-00000-of-00001"):
            verify(copy)


@pytest.mark.parametrize(
    "name", ["shards", "index", "provenance/documents-00000-of-00001.npy", "provenance/pieces.json"]
)
def test_a_missing_file_is_found(dataset: Path, tmp_path: Path, name: str) -> None:
    copy = copy_of(dataset, tmp_path)
    path = copy / name
    target = next(path.iterdir()) if path.is_dir() else path
    target.unlink()
    with pytest.raises(CorruptError, match=target.name):
        verify(copy)


@pytest.mark.parametrize("size", [0, 1, 70000])
def test_a_truncated_shard_is_refused_when_opened(
    dataset: Path, tmp_path: Path, size: int, run_cli: RunCli
) -> None:
    copy = copy_of(dataset, tmp_path)
    (shard,) = (copy / "shards").iterdir()
    with open(shard, "r+b") as file:
        file.truncate(size)
    with pytest.raises(CorruptError, match=f"has {size} bytes, the manifest says"):
        open_dataset(copy)
    assert run_cli("verify", copy, check=False).code == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["shards"][0].update(path="../x"), "outside the dataset"),
        (lambda m: m["shards"][0].update(path="/etc/passwd"), "outside the dataset"),
        (lambda m: m.update(format_version=99), "format version 99"),
        (lambda m: m.update(shards=[{}]), "is damaged"),
        (lambda m: m.pop("shards"), "missing required field `shards`"),
        (lambda m: m["shards"][0].update(num_tokens=1), "add up to 1"),
        (lambda m: m["counts"].update(tokens=1), "its tokens is 1, but its parts add up to"),
        (lambda m: m["sources"][0].update(records=1), "add up"),
        (lambda m: m.update(shards=[]), "its parts add up to 0"),
        (lambda m: m.update(kind="foo"), "of kind 'foo'"),
    ],
)
def test_a_changed_manifest_is_found(
    dataset: Path, tmp_path: Path, change: Any, message: str
) -> None:
    copy = copy_of(dataset, tmp_path)
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorruptError):
        verify(copy)
    # What else is wrong with it shows where the checksum was changed to fit.
    edit_manifest(copy, lambda values: None)
    with pytest.raises(CorruptError, match=message):
        verify(copy)


def test_any_edit_of_a_manifest_is_found(dataset: Path, tmp_path: Path) -> None:
    copy = copy_of(dataset, tmp_path)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["tokenizer"]["bos"] = 7
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorruptError, match="was edited: its checksum does not match"):
        verify(copy)


def test_a_file_that_the_manifest_does_not_know_is_found(dataset: Path, tmp_path: Path) -> None:
    copy = copy_of(dataset, tmp_path)
    (copy / "shards" / "extra.arrayrecord").write_bytes(b"x")
    with pytest.raises(CorruptError, match=r"extra\.arrayrecord is not in the manifest"):
        verify(copy)


def test_a_complete_dataset_without_its_shards_is_not_nothing_to_do(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    out = tmp_path / "out"
    run_cli(*words_for(path, out))
    (shard,) = (out / "shards").iterdir()
    shard.unlink()
    result = run_cli(*words_for(path, out), check=False)
    assert result.code == 5
    assert f"{shard} is missing" in result.stderr
    run_cli(*words_for(path, out, "--overwrite"))


def test_no_document_at_all_is_an_error_even_if_records_were_read(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", ["{bad"])
    words = words_for(path, tmp_path / "out", "--on-error", "skip")
    result = run_cli(*words, check=False)
    assert result.code == 3
    assert "the inputs hold 1 record, but none gave a document (1 bad, 0 empty)" in result.stderr
    run_cli(*words, "--allow-empty")


def test_a_url_as_output_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    words = ["tokenize", path, "--tokenizer", "bytes", "--out", "memory://bucket/x"]
    result = run_cli(*words, check=False)
    assert result.code == 2
    assert "must be a local folder" in result.stderr


def test_a_pattern_does_not_pass_over_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write_lines(tmp_path / "sub" / "a.jsonl", [{"text": "a"}])
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    pattern = f"{tmp_path}/**/*.jsonl"
    assert len(find_sources(pattern)) == 1
    (tmp_path / "sub" / "b.jsonl").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=r"b\.jsonl .*a broken link"):
        find_sources(pattern)


def test_a_pipe_in_a_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match=r"x\.jsonl is a FIFO, not a file"):
        find_sources(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b"\xff"])
def test_a_broken_manifest_is_corrupt(dataset: Path, tmp_path: Path, content: bytes) -> None:
    copy = copy_of(dataset, tmp_path)
    (copy / "manifest.json").write_bytes(content)
    with pytest.raises(CorruptError):
        open_dataset(copy)


def test_verify_against_names_the_file_that_differs(
    run_cli: RunCli, dataset: Path, tmp_path: Path
) -> None:
    copy = copy_of(dataset, tmp_path)
    assert "all equal" in run_cli("verify", dataset, "--against", copy).stdout
    (copy / "provenance" / "pieces.json").write_text("[]")
    result = run_cli("verify", dataset, "--against", copy, check=False)
    assert result.code == 5
    assert "provenance/pieces.json differs" in result.stderr
