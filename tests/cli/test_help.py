"""What a new user meets first: help, versions, presets, the schema, what to type next."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import dataprep
from conftest import RunCli, Sample
from dataprep.cli import encode, pack, tokenize
from dataprep.cli.app import COMMANDS, app_for
from dataprep.configs.load import load_config
from dataprep.configs.tokenize import TokenizeConfig
from support.installed import COMMAND


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_told(run_installed: RunCli, flag: str) -> None:
    assert run_installed(flag).stdout == f"dataprep {dataprep.__version__}\n"


@pytest.mark.parametrize("module", [tokenize, pack, encode])
def test_every_flag_of_a_command_is_in_one_section_of_its_help(module: Any) -> None:
    app = typer.Typer()
    module.add_commands(app)
    command = typer.main.get_command(app)
    flags = {param.name for param in command.params} - {"install_completion", "show_completion"}
    shown = [name for names in module.SECTIONS.values() for name in names]
    assert sorted(shown) == sorted(filter(None, flags))


def test_help_tells_defaults_letters_and_readable_usage(run_cli: RunCli) -> None:
    text = " ".join(run_cli("tokenize", "--help").stdout.split())
    assert text.startswith("Usage: dataprep tokenize [OPTIONS] [INPUT]...")
    for phrase in (
        "-o, --out PATH",
        "-j, --workers N",
        "-v, --verbose",
        "-q, --quiet",
        "[default: parse]",
        "[default: 268,435,456]",
        "[default: ' ']",
        "<fail|skip|quarantine>",
    ):
        assert phrase in text
    assert "<str>" not in text
    assert "list[" not in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_calls_its_arguments_by_their_names(name: str) -> None:
    group: Any = typer.main.get_command(app_for([name]))
    command = group.commands[name]
    text = command.get_help(typer.Context(command, info_name=f"dataprep {name}"))
    usage = " ".join(text.partition("\n\n")[0].split())
    choices, argument = r"( [a-z0-9]+(\|[a-z0-9]+)+)?", r"( \[?[A-Z]+\]?(\.\.\.)?)?"
    assert re.fullmatch(rf"Usage: dataprep {name} \[OPTIONS\]{choices}{argument}", usage)
    assert not re.search(r"<(str|int|float|list)\b", text)


def complete(line: str, shell: str = "bash") -> str:
    number = len(line.split()) if line.endswith(" ") else len(line.split()) - 1
    env = {"COMP_WORDS": line, "COMP_CWORD": str(number), "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [*COMMAND],
        env={**os.environ, "_DATAPREP_COMPLETE": f"complete_{shell}", **env},
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_commands_and_their_flags(shell: str) -> None:
    assert "tokenize" in complete("dataprep tok", shell)
    assert "--strategy" in complete("dataprep pack --str", shell)
    assert "best_fit" in complete("dataprep pack --strategy ", shell)
    assert "pretrain" in complete("dataprep pack --config p", shell)


def test_the_script_for_a_shell_is_shown_to_that_shell() -> None:
    # The shell is found among the processes that the command runs below.
    line = f"{shlex.join(COMMAND)} --show-completion; exit $?"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert (done.returncode, "dataprep" in done.stdout) == (0, True), done.stderr


def test_presets_are_listed_and_shown(run_cli: RunCli) -> None:
    listed = run_cli("presets").stdout
    texts = json.loads(run_cli("presets", "--json").stdout)
    assert set(texts) == {"instruct", "lwm", "pretrain"}
    for name, text in texts.items():
        assert f"{name} " in listed
        assert run_cli("presets", name).stdout == text
        load_config(TokenizeConfig, files=[name])
    done = run_cli("presets", "nosuch", check=False)
    assert done.code == 2
    assert "presets: instruct, lwm, pretrain" in done.stderr


def test_the_schema_tells_editors_what_it_is(run_cli: RunCli, tmp_path: Path) -> None:
    file = tmp_path / "dataprep.schema.json"
    done = run_cli("schema", "-o", file)
    schema = json.loads(file.read_text())
    assert schema == json.loads(run_cli("schema").stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["$id"]
    (line,) = re.findall(r"# yaml-language-server: \$schema=(.*)", done.stderr)
    assert Path(line) == file


def test_a_schema_that_cannot_be_written_is_a_wrong_option(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    for out in ("nowhere/x", "folder", "file/x"):
        done = run_cli("schema", "-o", out, check=False)
        assert (done.code, "Traceback" in done.stderr) == (2, False)
        assert f"cannot write {tmp_path / out}: " in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_schema_is_written_through_links_and_to_what_is_no_file(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("file")
    run_cli("schema", "-o", "link")
    assert (tmp_path / "link").is_symlink()
    text = run_cli("schema").stdout
    assert (tmp_path / "file").read_text() == text
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as pool:  # a pipe holds less than a schema
        read = pool.submit((tmp_path / "pipe").read_text, "utf-8")
        run_cli("schema", "-o", "pipe")
        assert read.result(timeout=60) == text
    assert (tmp_path / "pipe").is_fifo()


def test_json_logs_have_the_time(run_cli: RunCli, sample: Sample, tmp_path: Path) -> None:
    words = ("tokenize", sample.text, "--tokenizer", "bytes", "--log-format", "json")
    done = run_cli(*words, "--out", tmp_path / "out")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines
    for line in lines:
        assert datetime.fromisoformat(line["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tokenize", "--nosuch"], "No such option: --nosuch"),
        (["tokenize", "a.jsonl", "--limit"], "Option '--limit' requires an argument"),
        (["export", "a", "b"], "Got unexpected extra argument"),
        (["nosuch"], "No such command 'nosuch'"),
        (["tokenize", "nosuch.jsonl", "--tokenizer", "bytes", "--out", "o"], "does not exist"),
    ],
)
def test_json_logs_have_errors_of_usage_too(
    run_cli: RunCli, words: list[str], message: str
) -> None:
    name, *rest = words
    done = run_cli(name, "--log-format=json", *rest, check=False)
    line = json.loads(done.stderr)
    assert line["level"] == "error"
    assert message in line["message"]
    assert done.code in (2, 3)


def test_json_logs_have_the_settings_and_what_is_left_out(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "in/b.md").write_text("b")
    words = ("tokenize", "in", "--tokenizer", "bytes", "-v", "--dry-run", "--log-format", "json")
    settings, left_out = map(json.loads, run_cli(*words).stderr.splitlines())
    assert settings["settings"]["tokenizer"] == "bytes"
    assert left_out["message"].startswith("left out: b.md")


def test_verbose_shows_the_settings_as_a_config_has_them(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    words = ("tokenize", sample.text, "--tokenizer", "bytes", "--out", tmp_path / "out")
    shown = yaml.safe_load(run_cli(*words, "--dry-run", "-v").stderr)
    assert shown["tokenizer"] == "bytes"
    assert shown["on_error"] == "fail"
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(shown))
    run_cli("tokenize", "--config", tmp_path / "again.yaml", "-q")
    assert "nothing to do" in run_cli(*words).stdout


def test_rows_have_no_length_that_nobody_chose(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    run_cli("tokenize", sample.text, "--tokenizer", "bytes", "--out", tmp_path / "tok")
    done = run_cli("pack", tmp_path / "tok", "--out", tmp_path / "packed", check=False)
    assert done.code == 2
    assert "seq_len is not set; --seq-len 4096" in done.stderr


def test_a_summary_tells_size_speed_and_what_to_type_next(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    out = tmp_path / "a folder"
    words = ("tokenize", sample.text, "--tokenizer", "bytes", "--out", out)
    first, following = run_cli(*words).stdout.splitlines()
    assert re.search(r"; \S+ kB on disk; \S+ s, \S+ [kM]?B/s, \S+ [kM]?tok/s$", first)
    command = following.removeprefix("next: ").replace("DIR", str(tmp_path / "packed"))
    packed = run_cli(*shlex.split(command)[1:]).stdout.splitlines()
    assert "on disk" in packed[0]
    run_cli(*shlex.split(packed[-1].removeprefix("next: "))[1:])
    summary = json.loads(run_cli(*words, "--json").stdout)
    files = [path for path in out.rglob("*") if path.is_file()]
    listed = sum(path.stat().st_size for path in files if path.name != "manifest.json")
    assert summary["bytes"] == listed


def test_commands_that_the_demo_prints_can_be_pasted(run_installed: RunCli, tmp_path: Path) -> None:
    shown = run_installed("demo", "--out", tmp_path / "it's").stdout
    commands = [line[2:] for line in shown.splitlines() if line.startswith("$ ")]
    assert len(commands) == 9
    for command in commands:
        program, *words = shlex.split(command)
        if program == "python":
            code = [sys.executable, *words]
            assert "inputs" in subprocess.run(code, capture_output=True, text=True).stdout
        else:
            assert words[0] in COMMANDS
            run_installed(*words)
