"""Facts of a tokenizer that are kept in the cache: as if it were parsed anew, or not used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataprep.pipeline.engine import TokenizerFiles, facts, resolve_tokenizer, with_special
from dataprep.pipeline.engine.models import json_model
from dataprep.pipeline.errors import ConfigError
from support.toy import write_toy_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_toy_tokenizer(tmp_path / "toy")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "tokenizers").iterdir())


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(json_model, "parse_json", refuse)


def test_a_second_run_finds_the_same_without_parsing(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = resolve_tokenizer(str(folder))
    named = with_special(fresh, eos="<s>", pad=99)
    assert resolve_tokenizer(str(folder), cache) == fresh
    assert with_special(fresh, eos="<s>", pad=99, cache_dir=cache) == named
    moved = Path(shutil.copytree(folder, folder.with_name("moved")))
    with monkeypatch.context() as patch:
        forbid_parsing(patch)
        again = resolve_tokenizer(str(folder / "tokenizer.json"), cache)
        assert again == fresh
        assert with_special(again, eos="<s>", pad=99, cache_dir=cache) == named
        assert resolve_tokenizer(str(moved), cache).path == str(moved / "tokenizer.json")
    assert len(kept(cache)) == 2


@pytest.mark.parametrize("name", ["tokenizer_config", "special_tokens_map", "generation_config"])
def test_a_config_beside_the_tokenizer_is_never_stale(name: str, folder: Path, cache: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    assert resolve_tokenizer(str(folder), cache).eos_id is None
    path = folder / f"{name}.json"
    for token, id in (("<s>", 1), ("</s>", 2)):
        path.write_text(json.dumps({"eos_token": token, "eos_token_id": id}))
        assert resolve_tokenizer(str(folder), cache).eos_id == id
    path.write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve_tokenizer(str(folder), cache)
    path.unlink()
    assert resolve_tokenizer(str(folder), cache).eos_id is None


def test_another_version_of_the_parser_or_of_the_facts_is_parsed_anew(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_tokenizer(str(folder), cache)
    with monkeypatch.context() as patch:
        patch.setattr(facts, "installed_version", lambda name: "0.99")
        resolve_tokenizer(str(folder), cache)
    with monkeypatch.context() as patch:
        patch.setattr(facts, "FACTS_VERSION", facts.FACTS_VERSION + 1)
        resolve_tokenizer(str(folder), cache)
    assert len(kept(cache)) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.data())
def test_a_damaged_file_counts_as_missing(data: st.DataObject, folder: Path, cache: Path) -> None:
    fresh = resolve_tokenizer(str(folder), cache)
    (path,) = kept(cache)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        damaged = whole[:place]
    else:
        flipped = whole[place] ^ data.draw(st.integers(1, 255))
        damaged = whole[:place] + bytes([flipped]) + whole[place + 1 :]
    path.write_bytes(damaged)
    assert resolve_tokenizer(str(folder), cache) == fresh
    assert path.read_bytes() == whole  # mended


def test_the_facts_of_another_tokenizer_or_of_another_shape_are_not_used(
    folder: Path, cache: Path
) -> None:
    fresh = resolve_tokenizer(str(folder), cache)
    (mine,) = kept(cache)
    key = mine.read_bytes().partition(b"\n")[0]
    other = write_toy_tokenizer(folder.with_name("other"), adds_bos=True)
    resolve_tokenizer(str(other), cache)
    (foreign,) = set(kept(cache)) - {mine}
    shutil.copy(foreign, mine)
    assert resolve_tokenizer(str(folder), cache) == fresh
    for facts_of in (b"{}", b'{"kind": 1}', b"[]", b"nonsense"):
        facts.write_cached(mine, key + b"\n" + facts_of)
        assert resolve_tokenizer(str(folder), cache) == fresh


def test_a_cache_that_cannot_be_written_only_costs_time(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = resolve_tokenizer(str(folder), tmp_path / "file")
    assert isinstance(found, TokenizerFiles)
    (tmp_path / "cache" / "tokenizers").mkdir(parents=True)
    assert resolve_tokenizer(str(folder), tmp_path / "cache") == found
    (path,) = kept(tmp_path / "cache")
    path.unlink()
    path.mkdir()  # nor read
    assert resolve_tokenizer(str(folder), tmp_path / "cache") == found


def test_what_is_wrong_with_a_tokenizer_is_said_each_time(folder: Path, cache: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<nope>"}))
    for _ in range(2):
        with pytest.raises(ConfigError, match="'<nope>' as eos_token"):
            resolve_tokenizer(str(folder), cache)
    assert not cache.exists()
