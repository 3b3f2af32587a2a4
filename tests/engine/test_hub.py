"""Tokenizers by their names on the hub: one question, no retries, and near names if it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import RunCli
from dataprep.pipeline.engine import hub as hub_module
from dataprep.pipeline.engine import resolve_tokenizer
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.hub import nearest
from support.chat import write_chat_tokenizer
from support.hub import COMMIT, hub
from support.installed import python_path
from support.toy import write_toy_tokenizer


def resolve(name: str, cache: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Resolve a name in a process of its own: the hub's settings are read on import."""
    script = (
        "import sys; from dataprep.pipeline.engine import resolve_tokenizer\n"
        "from dataprep.pipeline.errors import ConfigError\n"
        "try: found = resolve_tokenizer(sys.argv[1]); print(found.eos_token, found.note)\n"
        "except ConfigError as error: print(error); sys.exit(2)\n"
    )
    told = {
        "PYTHONPATH": python_path(cache),
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **env,
    }
    return subprocess.run(
        [sys.executable, "-c", script, name],
        env={key: value for key, value in told.items() if value},
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "has no such repository, or none without"),
        (503, {}, "answers 503"),
        (0, {}, "did not answer in 1 s"),
    ],
)
def test_a_name_that_is_not_found_is_asked_for_once(
    status: int, headers: dict[str, str], said: str, tmp_path: Path
) -> None:
    with hub(None, status, headers) as (address, asked):
        missed = resolve("gpt3", tmp_path, HF_ENDPOINT=address, HF_HUB_ETAG_TIMEOUT="1")
    assert (missed.returncode, missed.stderr) == (2, "")
    assert said in missed.stdout
    assert "Did you mean openai-community/gpt2" in missed.stdout
    assert len(missed.stdout) < 500
    assert asked == ["HEAD /gpt3/resolve/main/tokenizer.json"]


def test_a_repository_without_a_tokenizer_is_asked_for_both_files(tmp_path: Path) -> None:
    with hub(None, 404, {"X-Error-Code": "EntryNotFound"}) as (address, asked):
        missed = resolve("some/thing", tmp_path, HF_ENDPOINT=address)
    assert "has neither tokenizer.json nor tokenizer.model" in missed.stdout
    assert len(asked) == 2


def test_a_tokenizer_of_the_hub_is_downloaded_once_and_serves_without_the_hub(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    files = write_toy_tokenizer(tmp_path / "files")
    with hub(files, 404, {"X-Error-Code": "EntryNotFound"}) as (address, asked):
        first = resolve("some/toy", cache, HF_ENDPOINT=address)
        assert (first.stdout, first.returncode) == ("</s> \n", 0), first.stderr
        asked.clear()
        again = resolve("some/toy", cache, HF_ENDPOINT=address)
        # That it has no special_tokens_map.json is remembered, too.
        assert asked == ["HEAD /some/toy/resolve/main/tokenizer.json"]
    gone = resolve("some/toy", cache, HF_ENDPOINT=address)
    assert again.stdout == first.stdout
    said = f"so some/toy is taken from its local cache, at commit {COMMIT}; "
    assert gone.stdout.startswith("</s> the Hugging Face hub cannot be reached (")
    assert said in gone.stdout
    assert (again.stderr, gone.stderr) == ("", "")
    near = resolve("some/toi", cache, HF_ENDPOINT=address)
    assert "Did you mean some/toy?" in near.stdout
    # A config that the cache lacks might name another EOS.
    (next(cache.glob("models--*")) / ".no_exist" / COMMIT / "special_tokens_map.json").unlink()
    unsure = resolve("some/toy", cache, HF_ENDPOINT=address)
    assert "cannot fetch special_tokens_map.json" in unsure.stdout
    offline = resolve("some/toy", cache, HF_HUB_OFFLINE="1").stdout
    assert offline.startswith("</s> the Hugging Face hub is not asked, because of HF_HUB_OFFLINE")
    assert said in offline


def test_token_and_cache_are_those_of_the_environment(tmp_path: Path) -> None:
    files, home = write_toy_tokenizer(tmp_path / "files"), tmp_path / "home"
    env = {"HF_TOKEN": "hf_secret", "HF_HOME": str(home), "HF_HUB_CACHE": ""}
    with hub(files, 404, {"X-Error-Code": "EntryNotFound"}) as (address, asked):
        found = resolve("some/toy", tmp_path, HF_ENDPOINT=address, **env)
    assert (found.stdout, found.returncode) == ("</s> \n", 0), found.stderr
    assert all(question.endswith("Bearer hf_secret") for question in asked)
    assert (home / "hub" / "models--some--toy").is_dir()


def test_a_run_says_which_commit_it_uses_if_the_hub_does_not_answer(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a"}))
    snapshot = tmp_path / "cache" / "models--some--toy" / "snapshots" / COMMIT
    write_toy_tokenizer(snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(COMMIT)
    env = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "cache")}
    words = ("tokenize", "a.jsonl", "--tokenizer", "some/toy", "--out", "out")
    preview = run_cli(*words, "--dry-run", env=env)
    assert f"at commit {COMMIT}" in preview.stdout
    said = run_cli(*words, env=env).stderr
    assert f"some/toy is taken from its local cache, at commit {COMMIT}" in said
    # It says nothing about the content, so it is in no identity.
    assert COMMIT not in (tmp_path / "out" / "manifest.json").read_text()


def test_chat_templates_of_the_hub_that_have_files_of_their_own_are_fetched(
    tmp_path: Path, run_cli: RunCli
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    files = write_chat_tokenizer(tmp_path / "files")
    more = files / "additional_chat_templates"
    more.mkdir()
    (more / "tool_use.jinja").write_text(
        "{% for m in messages %}{{ 'TOOLS' + m.content }}{% endfor %}"
    )
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    record = {"messages": turns, "tools": [{"name": "f"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    words = (
        "tokenize",
        "a.jsonl",
        "--chat",
        "--tokenizer",
        "some/toy",
        "--out",
        "out",
        "--dry-run",
    )
    env = {"HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1"}
    with hub(files, 404, {"X-Error-Code": "EntryNotFound"}) as (address, asked):
        first = run_cli(*words, env={**env, "HF_ENDPOINT": address})
        assert "TOOLS" in first.stdout, first.stderr
        asked.clear()
        run_cli(*words, env={**env, "HF_ENDPOINT": address})
        assert [word for word in asked if "tool_use" in word] == []  # the cache has it
    offline = run_cli(*words, env={**env, "HF_HUB_OFFLINE": "1"})
    assert "TOOLS" in offline.stdout


def test_a_misspelt_name_is_one_short_error_of_the_command(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a"}))
    write_toy_tokenizer(tmp_path / "my-tokenizer")
    # Nothing listens on port 9 of this machine.
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_CACHE": str(tmp_path / "cache")}
    words = ("tokenize", "a.jsonl", "--tokenizer", "my-tokeniser", "--out", "out")
    ended = run_cli(*words, env=nowhere, check=False)
    assert ended.code == 2
    assert ended.stderr.count("\n") == 1
    assert "cannot be reached (" in ended.stderr
    assert "Did you mean my-tokenizer?" in ended.stderr
    assert not (tmp_path / "out").exists()


def test_near_paths_differ_only_in_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gpt2", "bert"):
        write_toy_tokenizer(tmp_path / "tok" / name)
    (tmp_path / "tok" / "gpt3x").mkdir()  # has no tokenizer
    (tmp_path / "tok" / "small.model").touch()
    monkeypatch.chdir(tmp_path)
    for wrong, right in (
        ("./tok/gtp2", "tok/gpt2"),
        ("tok/gtp2/tokenizer.json", "tok/gpt2/tokenizer.json"),
        ("tok/bert/tokeniser.json", "tok/bert/tokenizer.json"),
        ("tko/bert/tokenizer.json", "tok/bert/tokenizer.json"),
        (f"{tmp_path}/tok/smal.model", f"{tmp_path}/tok/small.model"),
    ):
        with pytest.raises(ConfigError, match=rf"Did you mean {right}\?"):
            resolve_tokenizer(wrong)
    with pytest.raises(ConfigError, match=r"hub name\. Give a tokenizer"):
        resolve_tokenizer("./nothing/like/it")


def test_near_names_are_found_in_any_case_and_without_their_owner() -> None:
    known = ["Qwen/Qwen3-8B", "openai-community/gpt2", "bigscience/bloom"]
    assert nearest("qwen3-8b", known) == ["Qwen/Qwen3-8B"]
    assert nearest("QWEN/qwen3", known) == ["Qwen/Qwen3-8B"]
    assert nearest("something-else", known) == []


@pytest.mark.parametrize("seconds", ["0.5", "abc", "-1", "0"])
def test_a_timeout_that_the_hub_cannot_take_is_a_mistake(
    run_cli: RunCli, tmp_path: Path, seconds: str
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    words = ("tokenize", tmp_path / "a.jsonl", "--tokenizer", "org/name", "--out", tmp_path / "o")
    done = run_cli(*words, env={"HF_HUB_ETAG_TIMEOUT": seconds}, check=False)
    assert done.code == 2, done.stderr
    assert "HF_HUB_ETAG_TIMEOUT is" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_download_that_breaks_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: object) -> Path:
        raise RuntimeError("the connection was lost")

    monkeypatch.setattr(hub_module, "newest_commit", lambda name, file: "")
    monkeypatch.setattr(hub_module, "_download", breaks)
    with pytest.raises(ConfigError, match=r"cannot fetch tokenizer.json of .* lost; try again"):
        hub_module.fetch("org/name")
