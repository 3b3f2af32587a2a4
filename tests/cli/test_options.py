"""Flags and the environment: what a command makes of them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from conftest import RunCli
from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.encoders.registry import find_weights
from dataprep.pipeline.engine import resolve_tokenizer
from dataprep.pipeline.errors import ConfigError


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a home, and the folder for temporary files."""

    def unknown(user: int) -> None:
        raise KeyError(user)

    for name in ("HOME", "DATAPREP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_caches_of_a_user_without_a_home_are_in_a_folder_of_their_own(homeless: Path) -> None:
    place = default_cache()
    assert place.parent == homeless
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert default_cache() == place


@pytest.mark.parametrize("how", ["open to others", "a link", "a file"])
def test_a_folder_that_others_may_write_is_no_cache(homeless: Path, how: str) -> None:
    place = homeless / f"dataprep-{os.getuid()}"
    if how == "open to others":
        place.mkdir()
        place.chmod(0o777)
    elif how == "a link":
        (homeless / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(homeless / "elsewhere")
    else:
        place.touch(mode=0o600)
    with pytest.raises(ConfigError, match="DATAPREP_CACHE"):
        default_cache()


def test_the_home_of_nobody_is_a_path_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="'~nosuchuser/tok' not found"):
        resolve_tokenizer("~nosuchuser/tok")
    with pytest.raises(ConfigError, match="--weights ~nosuchuser/w is not a file"):
        find_weights("~nosuchuser/w", None)


@pytest.mark.parametrize("flag", ["--bos-token", "--eos-token", "--pad-token"])
@pytest.mark.parametrize("digits", [18, 19, 5000])
def test_an_id_of_any_number_of_digits_is_an_error_of_the_config(
    run_installed: RunCli, tmp_path: Path, flag: str, digits: int
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    flags = ("--tokenizer", "bytes", "--out", "o", flag, "9" * digits)
    done = run_installed("tokenize", "a.jsonl", *flags, check=False)
    assert done.code == 2
    assert "vocabulary" in done.stderr or "less than" in done.stderr
    assert len(done.stderr) < 1000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("inspect d --list truncatd", "'truncatd' is not one of truncated, dropped, split; did"),
        ("inspect d --exhausted x", "'x' is not one of stop, repeat, drop\n"),
        ("run c.yaml --if-locked wat", "not one of fail, wait, skip; did you mean wait?"),
        ("pack d --log-format jsn", "not one of text, json; did you mean json?"),
        ("export d --to maxtex --out o", "got 'maxtex'; did you mean 'maxtext'?"),
    ],
)
def test_a_wrong_choice_is_told_with_the_right_ones(run_cli: RunCli, words: str, said: str) -> None:
    done = run_cli(*words.split(), check=False)
    assert done.code == 2
    assert said in done.stderr
    assert "Value error" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--chat --pretokenized ids", "--chat and --pretokenized: records are conversations, or"),
        ("--pretokenized ids --fields text", "--fields and --pretokenized: records have these"),
        ("--fields a --fields-from b", "--fields and --fields-from: records have these fields, or"),
        ("--config lwm --fields a", "fields a has no effect without fields_from: null"),
        ("--config lwm --fields text", "--fields text: records name their own fields, as the"),
        ("--config lwm --set fields=text", "leave --fields out, or add --set fields_from=null"),
        ("--set fields_from=a --fields text", "--fields text: records name their own fields, as"),
        ("--set chat={} --fields text", "--fields text: records are conversations, as the config"),
        ("--set pretokenized.tokens=a --fields text", "--fields text: records are token ids, as"),
    ],
)
def test_only_one_flag_says_what_records_are(run_cli: RunCli, words: str, said: str) -> None:
    done = run_cli("tokenize", "a.jsonl", "--tokenizer", "bytes", *words.split(), check=False)
    assert done.code == 2
    assert said in done.stderr


def test_a_later_fields_from_wins_over_fields_of_a_file(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("fields: body\n")
    (tmp_path / "a.jsonl").write_text('{"spec": "text", "text": "a"}\n')
    words = ("tokenize", "a.jsonl", "--tokenizer", "bytes", "--config", "c.yaml", "--dry-run")
    run_cli(*words, "--fields-from", "spec")


def test_a_state_that_is_none_is_named(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("no state")
    done = run_cli("inspect", "d", "--state", "state.json", check=False)
    assert "--state state.json: this is not the state of a loader" in done.stderr
    done = run_cli("inspect", "d", "--state", "state.json", "--media", "m", check=False)
    assert "--media has no effect: --state lists" in done.stderr
