"""One config from files, presets, --set and flags; every mistake is named."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from conftest import RunCli
from dataprep.cli.tokenize import tokenize_command
from dataprep.configs.base import StrategyName
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import load_config, preset_names
from dataprep.configs.pack import PackConfig
from dataprep.configs.run import RunConfig
from dataprep.configs.tokenize import HOW_READ, TokenizeConfig
from dataprep.pipeline.documents.rules import fields_of
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


def test_set_names_a_key_of_a_section_as_the_file_does() -> None:
    for item in ("seq_len=256", "pack.seq_len=256"):
        assert load_config(PackConfig, section="pack", sets=[item]).seq_len == 256


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
        ("limit=0", "limit must be at least 1, got 0"),
        ("on_error=explode", "on_error must be 'fail', 'skip' or 'quarantine', got 'explode'"),
        ("max_errors=many", "max_errors must be a number of records or a percentage, such as 100 "),
        ("bogus=1", "unknown key 'bogus', known keys: inputs, "),
        ("output=x", "unknown key 'output', did you mean 'out'"),
        ("inputs=7", "inputs must be a list, got 7$"),
        ("modalities.vision.fields=x", r"fields must be a list, got 'x'; write \[x\]"),
        (
            "eos_token=999999999999",
            "999: eos_token must be less than 2147483648, got 999999999999",
        ),
        ("eos_token=[1]", r"eos_token must be text or a whole number, got \[1\]"),
        ("modalities.vision.start=[-1]", r"\[-1\]: modalities.vision.start.0 must be at least 0"),
        ("modalities.vision.end_of_frame=3", "vision end_of_frame 3 is also a code"),
        ("encode.settings.a=[1]", "encode.settings.a must be true or false or a whole number or"),
        ("add_bos=maybe", "add_bos must be true or false or 'auto', got 'maybe'"),
        ("task_timeout=0", "task_timeout must be more than 0"),
        ("limit=1.5", "limit must be a whole number, got 1.5"),
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
    sections = {"modalities", "objective", "budget", "pack", "encode"}
    keys = set(TokenizeConfig.model_fields) - sections - {"keys"}  # which only other steps read
    keys -= {*HOW_READ}  # of few files: by --set
    flags = set(inspect.signature(tokenize_command).parameters)
    of_the_command = {
        "config",
        "sets",
        "overwrite",
        "dry_run",
        "task",
        "as_json",
        "quiet",
        "verbose",
        "log_format",
        "chat_template",  # chat.template
    }
    assert flags - of_the_command == keys


def test_schema_describes_every_key(run_cli: RunCli) -> None:
    schema = json.loads(run_cli("schema").stdout)
    assert set(schema["properties"]) == set(RunConfig.model_fields)
    assert set(TokenizeConfig.model_fields) <= set(schema["properties"])
    assert set(schema["$defs"]["CorpusConfig"]["properties"]) == set(TokenizeConfig.model_fields)
    assert schema["$id"] == "urn:dataprep-jax:config"
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("item", "value", "needed"),
    [
        ("overflow", "drop", "strategy best_fit or first_fit or pad"),
        ("max_segments", 2, "strategy best_fit or first_fit"),
        ("open_rows", 7, "strategy first_fit"),
        ("pad_side", "left", "strategy pad"),
        ("truncate_side", "left", "overflow truncate"),
        ("turns", "cut", "overflow turns"),
    ],
)
def test_an_option_that_has_no_effect_with_the_strategy_is_an_error_that_names_what_it_needs(
    tmp_path: Path, item: str, value: Any, needed: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"pack: {{{item}: {json.dumps(value)}, strategy: concat}}")
    message = f"{item} {value} has no effect without {needed}; set that, or leave {item} out"
    ways: list[Any] = [
        {"flags": {item: value, "strategy": "concat"}},
        {"sets": [f"{item}={json.dumps(value)}", "strategy=concat"]},
        {"files": [str(file)], "section": "pack"},
    ]
    for given in ways:
        with pytest.raises(ConfigError, match=message):
            load_config(PackConfig, **given)
    load_config(TokenizeConfig, files=[str(file)])  # which looks at nothing of the section
    key, right = needed.split()[:2]
    load_config(PackConfig, flags={item: value, key: right})


def test_an_option_that_asks_for_nothing_goes_with_everything() -> None:
    for strategy in get_args(StrategyName):
        for key in PackConfig.goes_with:  # one config may serve several strategies
            default = json.dumps(PackConfig.model_fields[key].default)
            load_config(PackConfig, sets=[f"{key}={default}"], flags={"strategy": strategy})
        load_config(PackConfig, flags={"strategy": strategy, "seed": 7})
    for strategy in ("best_fit", "first_fit"):
        with pytest.raises(
            ConfigError, match="compat lwm has no effect without strategy concat or"
        ):
            load_config(PackConfig, flags={"strategy": strategy, "compat": "lwm"})


def test_a_file_may_serve_several_strategies_of_which_a_flag_chooses_one(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("pack: {strategy: best_fit, max_segments: 8, overflow: truncate}")
    files = [str(file)]
    load_config(PackConfig, files=files, section="pack", flags={"strategy": "pad"})
    load_config(PackConfig, files=files, section="pack", sets=["strategy=concat"])
    flags = {"strategy": "pad", "max_segments": 9}
    with pytest.raises(ConfigError, match="max_segments 9 has no effect without"):
        load_config(PackConfig, files=files, section="pack", flags=flags)


def test_a_later_file_chooses_as_a_flag_does(tmp_path: Path) -> None:
    base, choice = tmp_path / "base.yaml", tmp_path / "choice.yaml"
    base.write_text("{strategy: best_fit, max_segments: 8}")
    choice.write_text("strategy: concat")
    load_config(PackConfig, files=[str(base), str(choice)])
    with pytest.raises(ConfigError, match="max_segments 8 has no effect without"):
        load_config(PackConfig, files=[str(choice)], sets=["max_segments=8"])


def test_what_an_option_needs_must_have_an_effect_itself(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("{strategy: best_fit, overflow: truncate}")
    flags = {"strategy": "concat", "truncate_side": "left"}
    with pytest.raises(ConfigError, match="truncate_side left has no effect without strategy best"):
        load_config(PackConfig, files=[str(file)], flags=flags)
    file.write_text("{strategy: best_fit, overflow: truncate, truncate_side: left}")
    load_config(PackConfig, files=[str(file)], flags={"strategy": "concat"})


def test_no_file_says_compat_for_a_strategy_that_cannot_keep_it(tmp_path: Path) -> None:
    """The rows would not be those of LWM, although the manifest says so."""
    file = tmp_path / "c.yaml"
    file.write_text("{strategy: concat, compat: lwm}")
    load_config(PackConfig, files=[str(file)], flags={"strategy": "pad"})
    with pytest.raises(ConfigError, match="compat lwm has no effect without strategy concat or"):
        load_config(PackConfig, files=[str(file)], flags={"strategy": "best_fit"})


@pytest.mark.parametrize("key", ["inputs", "out", "tokenizer"])
def test_a_path_with_a_nul_is_a_mistake(tmp_path: Path, key: str) -> None:
    file = tmp_path / "c.yaml"
    value = '["a\\0b"]' if key == "inputs" else '"a\\0b"'
    file.write_text(f"{key}: {value}\n")
    with pytest.raises(ConfigError, match=rf"{key}.*a path must not have a NUL character"):
        load_config(TokenizeConfig, files=[str(file)])


def test_fields_index_needs_fields_from() -> None:
    with pytest.raises(ConfigError, match="fields_index 0 has no effect without fields_from"):
        load_config(TokenizeConfig, flags={"fields_index": 0})
    load_config(TokenizeConfig, flags={"fields_index": 0, "fields_from": "f"})
    load_config(TokenizeConfig, sets=["inputs=[{path: a, fields_from: f}]", "fields_index=0"])


def test_a_problem_is_named_by_the_set_or_the_file_that_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("fields: a\n")
    files = [str(file)]
    with pytest.raises(ConfigError, match=r"^config error in --set limit=0: limit must be at"):
        load_config(TokenizeConfig, files=files, sets=["fields=b", "limit=0"])
    with pytest.raises(
        ConfigError, match=r"in --set modalities\.vision\.end_of_frame=3: "
    ) as error:
        load_config(TokenizeConfig, files=files, sets=["modalities.vision.end_of_frame=3"])
    assert "c.yaml" not in str(error.value)
    with pytest.raises(ConfigError, match=r"in the command line: limit must be at least 1, got 0"):
        load_config(TokenizeConfig, files=files, flags={"limit": 0})
    file.write_text("fields: a\nlimit: 0\n")
    with pytest.raises(ConfigError, match=r"c\.yaml: limit .*; in --set on_error=no: on_error"):
        load_config(TokenizeConfig, files=files, sets=["on_error=no"])


def test_a_set_that_is_wrong_is_named_by_every_command(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("tokenizer: bytes\nout: out\n")
    ended = run_cli("tokenize", "-c", "c.yaml", "--set", "fieldz=a", check=False)
    assert ended.code == 2
    assert "config error in --set fieldz=a: unknown key 'fieldz'" in ended.stderr
    assert "c.yaml" not in ended.stderr


def test_an_input_has_fields_or_fields_from_of_its_own_not_both() -> None:
    wanted = r"inputs\.1 has both fields 'a' and fields_from 'f'; leave one of them out"
    with pytest.raises(ConfigError, match=wanted):
        load_config(TokenizeConfig, sets=["inputs=[b, {path: a, fields: a, fields_from: f}]"])


def test_what_an_input_says_of_its_fields_goes_before_what_is_said_at_the_top() -> None:
    inputs = "inputs=[{path: a, fields: x}, {path: b, fields_from: own}, c]"

    def names(top: dict[str, str], index: int) -> list[str] | str:
        found = fields_of(load_config(TokenizeConfig, sets=[inputs], flags=top), index)
        return found if isinstance(found, str) else [key for f in found for key in f.keys]

    tops = {"fields": "t"}, {"fields_from": "top"}
    assert [[names(top, i) for i in range(3)] for top in tops] == [
        [["x"], "own", ["t"]],
        [["x"], "own", "top"],
    ]
    config = load_config(TokenizeConfig, sets=["inputs=[{path: a, fields: ''}]"])
    with pytest.raises(ConfigError, match="names an empty field"):
        fields_of(config, 0)
