"""The schema that editors read accepts what the commands accept, and refuses what they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from dataprep.cli.schema import config_schema
from dataprep.configs.base import Model
from dataprep.configs.files import preset_names, preset_text
from dataprep.configs.load import load_config
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {page.name: page.read_text() for page in sorted(DOCS.glob("*.md"))}
CONFIGS = {
    f"{name} {i}": text
    for name, page in PAGES.items()
    for i, text in enumerate(re.findall(r'^```yaml title="[^"]*"\n(.*?)^```', page, re.S | re.M))
}
BY_HAND = {
    "alone": "inputs: data/*.jsonl",
    "table": "inputs: {path: a.jsonl, fields: text}",
    "numbers": "max_errors: 3\nencode: {inputs: pictures/, max_errors: 1%}",
    "pack": "pack: {inputs: data/tokenized}",
}


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    return Draft202012Validator(config_schema())


def test_there_are_configs_in_the_docs() -> None:
    assert any(name.startswith("config-file.md") for name in CONFIGS)


@pytest.mark.parametrize("name", [*CONFIGS, *preset_names(), *BY_HAND])
def test_what_is_documented_is_valid(schema: Draft202012Validator, name: str) -> None:
    text = {**CONFIGS, **BY_HAND}.get(name) or preset_text(name)
    values = yaml.safe_load(text)
    assert [error.message for error in schema.iter_errors(values)] == []
    assert isinstance(TokenizeConfig.model_validate(values), Model)


@pytest.mark.parametrize(
    "text", ["inputs: 3", "inputs: [3]", "inputs: [{pth: a}]", "max_errors: many", "fieldz: a"]
)
def test_what_a_command_refuses_is_not_valid(schema: Draft202012Validator, text: str) -> None:
    assert list(schema.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize(("model", "section"), [(TokenizeConfig, None), (PackConfig, "pack")])
def test_an_input_alone_in_a_file_is_relative_to_the_file(
    tmp_path: Path, model: type[Any], section: str | None
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("inputs: data/a\npack: {inputs: data/a}\n")
    (found,) = load_config(model, files=[str(file)], section=section).inputs
    assert getattr(found, "path", found) == str(tmp_path / "data/a")


def test_a_list_of_nothing_is_not_proposed() -> None:
    with pytest.raises(ConfigError, match=r"inputs must be a list, got None$"):
        load_config(TokenizeConfig, settings={"inputs": None})
