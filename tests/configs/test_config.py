"""One config from files, presets, --set and flags; every mistake is named."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from conftest import RunCli
from dataprep.cli.tokenize import tokenize_command
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, preset_names
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError


def test_flags_win_over_set_and_set_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("fields: a\nprepend_text: file\nsubfield_separator: file\n")
    config = load_config(
        TokenizeConfig,
        files=[str(file)],
        sets=["prepend_text=set", "subfield_separator=set"],
        flags={"subfield_separator": "flag", "fields": None},
    )
    assert (config.fields, config.prepend_text, config.subfield_separator) == ("a", "set", "flag")


def test_one_file_serves_every_command(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("fields: a\nencode: {encoder: patches, max_errors: 3}\npack: {seq_len: 7}\n")
    assert load_config(TokenizeConfig, files=[str(file)]).fields == "a"
    assert load_config(EncodeConfig, files=[str(file)], section="encode").max_errors == "3"
    assert load_config(PackConfig, files=[str(file)], section="pack").seq_len == 7
    for model, section in ((TokenizeConfig, None), (EncodeConfig, "encode")):
        file.write_text("encode: {encodr: patches}\n")
        with pytest.raises(ConfigError, match=r"unknown key '.*encodr', did you mean 'encoder'"):
            load_config(model, files=[str(file)], section=section)


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "inputs: [a, {path: b, fields: x}]\nmodalities: {vision: {max_frames: 4}}"
    )
    (tmp_path / "c.toml").write_text(
        'inputs = ["a", {path = "b", fields = "x"}]\n[modalities.vision]\nmax_frames = 4\n'
    )
    loaded = [
        load_config(TokenizeConfig, files=[str(tmp_path / f"c.{e}")]) for e in ("yaml", "toml")
    ]
    assert loaded[0] == loaded[1]
    assert loaded[0].inputs[1].fields == "x"
    assert loaded[0].modalities.vision.max_frames == 4


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("feilds=x", "unknown key 'feilds', did you mean 'fields'"),
        ("modalities.visoin.start=x", "unknown key 'modalities.visoin', did you mean 'vision'"),
        ("modalities.vision.maxframes=1", "did you mean 'max_frames'"),
        ("limit=0", "limit: input should be greater than or equal to 1, got 0"),
        ("on_error=explode", "on_error: "),
        ("max_errors=many", "max_errors: "),
        ("fields", "--set takes key=value"),
        ("fields.x=1", "fields"),
    ],
)
def test_a_wrong_key_or_value_is_named(item: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(TokenizeConfig, sets=[item])


def test_an_unknown_key_of_an_input_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("inputs: [{path: a, field: x}]")
    with pytest.raises(ConfigError, match=r"unknown key 'inputs\.0\.field', did you mean 'fields'"):
        load_config(TokenizeConfig, files=[str(file)])


@pytest.mark.parametrize("text", ["a: [", "- 1", "fields: {a: 1}"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"c\.yaml"):
        load_config(TokenizeConfig, files=[str(file)])


def test_every_preset_is_valid() -> None:
    assert "lwm" in preset_names()
    for name in preset_names():
        load_config(TokenizeConfig, files=[name])


def test_a_name_that_is_neither_file_nor_preset_lists_the_presets() -> None:
    with pytest.raises(ConfigError, match=r"no preset named 'lmw' \(presets: .*lwm"):
        load_config(TokenizeConfig, files=["lmw"])


def test_every_config_key_has_a_flag_and_every_flag_a_key() -> None:
    keys = set(TokenizeConfig.model_fields) - {"modalities", "pack", "encode"}
    flags = set(inspect.signature(tokenize_command).parameters)
    of_the_command = {
        "config",
        "sets",
        "overwrite",
        "dry_run",
        "as_json",
        "quiet",
        "log_format",
    }
    assert flags - of_the_command == keys


def test_schema_describes_every_key(run_cli: RunCli) -> None:
    schema = json.loads(run_cli("schema").stdout)
    assert set(schema["properties"]) == set(TokenizeConfig.model_fields)
    assert schema["additionalProperties"] is False
