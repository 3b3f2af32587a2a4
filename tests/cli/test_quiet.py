"""Every command has -q and --json, and both have an effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import RunCli, Sample
from dataprep.cli.app import COMMANDS

ALWAYS_JSON = {"schema"}  # what it prints is JSON in any case


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_quiet_and_json(run_cli: RunCli, command: str) -> None:
    told = run_cli(command, "--help").stdout
    assert "-q, --quiet" in told
    assert ("--json" in told) == (command not in ALWAYS_JSON)


@pytest.fixture
def packed(run_cli: RunCli, sample: Sample, tmp_path: Path) -> str:
    run_cli("tokenize", sample.chat, "--fields", "[prompt],answer", "--tokenizer", "bytes",
            "--out", "t", "--limit", "4", "-q")  # fmt: skip
    run_cli("pack", "t", "--seq-len", "256", "--out", "p", "-q")
    return "p"


def test_a_quiet_inspect_shows_the_text_alone(run_cli: RunCli, packed: str) -> None:
    for words in (
        ["t", "--doc", "0"],
        [packed, "--row", "0"],
        [packed, "--step", "0", "--batch-size", "1"],
        [packed, "--doc", "0"],
    ):
        whole, quiet = run_cli("inspect", *words).stdout, run_cli("inspect", *words, "-q").stdout
        assert quiet
        assert set(quiet.splitlines()) < set(whole.splitlines())
    assert "document 0" not in run_cli("inspect", "t", "-q").stdout


def test_quiet_lists_presets_by_name_and_leaves_the_schema_alone(run_cli: RunCli) -> None:
    assert run_cli("presets", "-q").stdout.split() == ["instruct", "lwm", "pretrain"]
    assert run_cli("schema", "-q").stderr == ""


def test_a_demo_can_be_quiet_or_json_and_uses_no_folder_of_others(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.jsonl").write_text("{}")
    refused = run_cli("demo", "--out", "mine", check=False)
    assert refused.code == 2
    assert "mine holds a.jsonl, which is not of a demo; name a new folder" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["a.jsonl"]
    quiet = run_cli("demo", "--out", "d", "-q")
    assert quiet.stderr == ""
    assert " an epoch; the first batch:" in quiet.stdout.splitlines()[0]
    told = json.loads(run_cli("demo", "--out", "d", "--json").stdout)  # its own folder, again
    assert told["batch"]["inputs"][1:] == [8, 1024]


def test_what_is_wrong_with_a_value_is_said_in_plain_words(run_cli: RunCli, packed: str) -> None:
    for words, message in (
        (["pack", "t", "--strategy", "bestfit"], "got 'bestfit'; did you mean 'best_fit'?"),
        (["pack", "t", "--seq-len", "4k"], "seq_len must be a whole number, got '4k'"),
        (["pack", "t", "--seq-len", "0"], "seq_len must be at least 1, got 0"),
        (["pack", "t", "--set", "pack.seq_len=x"], "seq_len must be a whole number, got 'x'"),
        (["pack", "t", "--set", "pack=3"], "leave out 'pack' before them"),
        (["tokenize", "t", "--limit", "few"], "limit must be a whole number, got 'few'"),
        (["tokenize", "t", "--task-timeout", "x"], "task_timeout must be a number, got 'x'"),
        (["inspect", packed, "--row", "x"], "'x' is not a whole number"),
    ):
        done = (
            run_cli(*words, "--out", "o", check=False)
            if words[0] != "inspect"
            else run_cli(*words, check=False)
        )
        assert done.code == 2
        assert message in " ".join(done.stderr.split())


def test_one_size_of_a_dataset_is_told_by_every_command(run_cli: RunCli, packed: str) -> None:
    made = json.loads(run_cli("pack", "t", "--seq-len", "256", "--out", "p2", "--json").stdout)
    seen = json.loads(run_cli("stats", "p2", "--json").stdout)["bytes"]
    checked = json.loads(run_cli("verify", "p2", "--json").stdout)["num_bytes"]
    assert made["bytes"] == seen == checked


def test_quiet_init_log_and_clean(run_cli: RunCli, sample: Sample, packed: str) -> None:
    done = run_cli("init", sample.text, "--tokenizer", "bytes", "-q")
    assert done.stdout + done.stderr == ""
    whole, quiet = run_cli("log", packed).stdout, run_cli("log", packed, "-q").stdout
    assert whole.splitlines()[1:] == [f"{line}" for line in quiet.splitlines()]
    assert run_cli("clean", packed, "-q").stdout == ""
    assert "nothing to clean" in run_cli("clean", packed).stdout
