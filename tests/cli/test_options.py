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
