"""The command that a summary proposes: it is the one that the config means."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from conftest import RunCli
from support.inprocess import write_lines


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    write_lines(tmp_path / "in.jsonl", [{"text": "abc"}] * 9)
    return ["tokenize", "in.jsonl", "--tokenizer", "bytes", "--out", "tok"]


def proposed(stdout: str) -> list[str]:
    (line,) = [line for line in stdout.splitlines() if line.startswith("next: ")]
    return shlex.split(line.removeprefix("next: "))


def test_without_a_config_it_is_a_template(run_cli: RunCli, words: list[str]) -> None:
    said = proposed(run_cli(*words).stdout)
    assert said == ["dataprep", "pack", "tok", "--seq-len", "4096", "--out", "DIR"]


def test_what_the_config_says_of_pack_is_in_it_and_it_can_be_pasted(
    run_cli: RunCli, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.yaml").write_text("pack: {seq_len: 16, out: ../rows, strategy: pad}\n")
    said = proposed(
        run_cli(*words, "-c", "conf/c.yaml", "--set", "pack.drop_empty_targets=1").stdout
    )
    assert said[:3] == ["dataprep", "pack", "tok"]
    assert said[said.index("--seq-len") + 1] == "16"
    done = run_cli(*said[1:])
    assert "9 rows of 17 tokens" in done.stdout  # by the strategy pad
    run_cli("verify", "rows")


def test_a_setting_of_pack_serves_the_command(run_cli: RunCli, words: list[str]) -> None:
    said = proposed(run_cli(*words, "--set", "pack.seq_len=99").stdout)
    assert said == ["dataprep", "pack", "tok", "--seq-len", "99", "--out", "DIR"]


def test_quiet_wins_over_verbose(run_cli: RunCli, words: list[str]) -> None:
    done = run_cli(*words, "-q", "-v")
    assert done.stdout + done.stderr == ""


def test_of_a_dataset_without_rows_none_is_proposed(
    run_cli: RunCli, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text("")
    run_cli(*words, "--allow-empty")
    assert "next: " not in run_cli("pack", "tok", "--seq-len", "8", "--out", "rows").stdout
