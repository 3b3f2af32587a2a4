"""Config files: several merge, paths are relative to them, variables are expanded, and hostile
ones end in a ConfigError at once."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import RunCli, Sample
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.files import read_file
from dataprep.configs.load import load_config
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_several_files_merge_in_order(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a.yaml",
        "prepend_text: a\ninputs: [x, y]\nmodalities: {vision: {max_frames: 4, code_offset: 7}}\n",
    )
    second = write(tmp_path / "b.toml", 'inputs = ["z"]\n[modalities.vision]\nmax_frames = 9\n')
    config = load_config(TokenizeConfig, files=["lwm", first, second])
    assert config.fields_from == "fields"  # of the preset
    assert config.prepend_text == "a"
    assert [item.path for item in config.inputs] == [str(tmp_path / "z")]
    vision = config.modalities.vision
    assert (vision.max_frames, vision.code_offset) == (9, 7)


def test_every_command_takes_several_files(tmp_path: Path, sample: Sample, run_cli: RunCli) -> None:
    base = write(tmp_path / "base.yaml", f"tokenizer: bytes\ninputs: [{sample.text}]\nout: one\n")
    over = write(tmp_path / "over.yaml", "out: tok\npack: {seq_len: 64, inputs: [tok]}\n")
    more = write(tmp_path / "more.yaml", "pack: {out: packed}\nencode: {encoder: patches}\n")
    run_cli("tokenize", "-c", base, "-c", over)
    run_cli("pack", "-c", base, "-c", over, "--config", more)
    assert (tmp_path / "packed" / "manifest.json").exists()
    assert not (tmp_path / "one").exists()
    refused = run_cli("encode", "-c", over, "-c", more, check=False)
    assert refused.code == 2
    assert "no output folder" in refused.stderr  # so it took the files


def test_paths_in_a_file_are_relative_to_it(
    tmp_path: Path, sample: Sample, run_cli: RunCli
) -> None:
    (tmp_path / "conf" / "tok").mkdir(parents=True)
    (tmp_path / "conf" / "tok" / "tokenizer.json").write_bytes(sample.tokenizer.read_bytes())
    write(tmp_path / "data" / "a.jsonl", '{"text": "a"}\n')
    file = write(
        tmp_path / "conf" / "c.yaml",
        "inputs: ['../data/*.jsonl']\ntokenizer: tok\nout: ../out\nengine: tokenizers\n"
        "pack: {inputs: [../out], out: packed, seq_len: 8}\n",
    )
    elsewhere = tmp_path / "cron"
    elsewhere.mkdir()
    run_cli("tokenize", "-c", file, cwd=elsewhere)
    run_cli("pack", "-c", file, cwd=elsewhere)
    assert (tmp_path / "out" / "manifest.json").exists()
    assert (tmp_path / "conf" / "packed" / "manifest.json").exists()
    run_cli("tokenize", "-c", file, "--out", "mine", cwd=elsewhere)  # a flag is meant from here
    assert (elsewhere / "mine" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("inputs", "data/a.jsonl", "{folder}/data/a.jsonl"),
        ("inputs", "/abs/a.jsonl", "/abs/a.jsonl"),
        ("inputs", "s3://bucket/a.jsonl", "s3://bucket/a.jsonl"),
        ("inputs", "zip://a.jsonl::x.zip", "zip://a.jsonl::{folder}/x.zip"),
        ("inputs", "zip://a.jsonl::s3://b/x.zip", "zip://a.jsonl::s3://b/x.zip"),
        ("inputs", "a::b.jsonl", "{folder}/a::b.jsonl"),  # there is such a file
        ("inputs", "hf:org/name@train", "hf:org/name@train"),
        ("inputs", "synthetic:text?n=3", "synthetic:text?n=3"),
        ("inputs", "-", "-"),
        ("inputs", "~/a.jsonl", "{home}/a.jsonl"),
        ("tokenizer", "gpt2", "gpt2"),
        ("tokenizer", "org/name", "org/name"),
        ("tokenizer", "bytes", "bytes"),
        ("tokenizer", "mine", "{folder}/mine"),  # there is such a folder
        ("tokenizer", "./absent", "{folder}/absent"),
        ("out", "out", "{folder}/out"),
    ],
)
def test_what_is_a_path_and_what_is_a_name(
    tmp_path: Path, key: str, given: str, expected: str
) -> None:
    folder = tmp_path / "conf[1]"  # which is not a pattern
    (folder / "mine").mkdir(parents=True)
    (folder / "bytes").mkdir()
    (folder / "a::b.jsonl").touch()
    value = f"[{{path: {given!r}}}]" if key == "inputs" else repr(given)
    config = load_config(TokenizeConfig, files=[write(folder / "c.yaml", f"{key}: {value}\n")])
    found = config.inputs[0].path if key == "inputs" else getattr(config, key)
    assert found == expected.format(folder=folder, home=os.path.expanduser("~"))


def test_a_pattern_in_a_folder_with_wildcards_in_its_name_still_matches(
    tmp_path: Path, run_cli: RunCli
) -> None:
    write(tmp_path / "conf[1]" / "a.jsonl", '{"text": "a"}\n')
    file = write(tmp_path / "conf[1]" / "c.yaml", "inputs: ['*.jsonl']\ntokenizer: bytes\nout: o\n")
    run_cli("tokenize", "-c", file)
    assert (tmp_path / "conf[1]" / "o" / "manifest.json").exists()


def test_sections_of_other_commands_have_paths_too(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.yaml",
        "encode: {inputs: [pics], out: codes, weights: w.safetensors}\npack: {inputs: [t], out: p}",
    )
    encode = load_config(EncodeConfig, files=[file], section="encode")
    assert (encode.inputs, encode.out) == ((f"{tmp_path}/pics",), f"{tmp_path}/codes")
    assert encode.weights == f"{tmp_path}/w.safetensors"
    pack = load_config(PackConfig, files=[file], section="pack")
    assert (pack.inputs, pack.out) == ((f"{tmp_path}/t",), f"{tmp_path}/p")
    assert load_config(TokenizeConfig, files=[file]).encode.inputs == encode.inputs


def test_variables_are_expanded_and_unset_ones_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("N", "3")
    file = write(
        tmp_path / "c.yaml",
        "inputs: ['${DATA}/${N}.jsonl']\nlimit: ${N}\nprepend_text: '$${N} $5'\n",
    )
    config = load_config(TokenizeConfig, files=[file])
    assert config.inputs[0].path == "/data/3.jsonl"
    assert (config.limit, config.prepend_text) == (3, "${N} $5")
    for text, message in [("${NOT_SET}", "no variable NOT_SET"), ("${a-b}", "is not a variable")]:
        with pytest.raises(ConfigError, match=message):
            load_config(TokenizeConfig, files=[write(tmp_path / "c.yaml", f"out: '{text}'")])


def laughs(value: str, of: str) -> str:
    lines = [f"a0: &a0 {value}"]
    lines += [f"a{i}: &a{i} {of.format(', '.join([f'*a{i - 1}'] * 9))}" for i in range(1, 12)]
    return "\n".join(lines)


HOSTILE = {
    "laughs.yaml": laughs("[x, x]", "[{}]"),
    "merges.yaml": laughs("{x: 1}", "{{<<: [{}]}}"),
    "own.yaml": "a: &a [*a]",
    "deep.yaml": "a: " + "[" * 100_000,
    "deep_block.yaml": "- " * 100_000,
    "deep.toml": "a = " + "[" * 100_000,
    "long_key.toml": ".".join("a" * 60_000) + " = 1",
    "list_key.yaml": "? [a]\n: b",
    "table_key.yaml": "{{a: b}: c}",
    "number_key.yaml": "1: a",
    "twice.yaml": "fields: a\nfields: b",
    "twice.toml": "fields = 'a'\nfields = 'b'",
    "bool.yaml": "a: !!bool maybe",
    "int.yaml": "a: !!int ''",
    "date.yaml": "a: 2001-99-99",
    "digits.yaml": "limit: " + "9" * 5000,
    "digits.toml": "limit = " + "9" * 5000,
    "hex.yaml": "limit: 0x" + "f" * 5000,
    "set.yaml": "a: !!set {b, c}",
    "code.yaml": "a: !!python/object/apply:os.system [id]",
    "surrogate.yaml": 'fields: "\\ud800"',
    "huge.yaml": "a: " + "x" * (1 << 20),
    "list.yaml": "[a]",
    "text.yaml": "a",
    "c.txt": "a: b",
}


@pytest.mark.timeout(60)  # and not for ever
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_an_error_at_once(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, HOSTILE[name])
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        load_config(TokenizeConfig, files=[file])


def test_a_config_that_is_no_text_file_is_an_error(tmp_path: Path, run_cli: RunCli) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"fields: \xff")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    for name in ("fifo.yaml", "latin.yaml", "folder.yaml", "zero.yaml", "absent.yaml", "a\0.yaml"):
        with pytest.raises(ConfigError, match="cannot read config"):
            load_config(TokenizeConfig, files=[str(tmp_path / name)])
    ended = run_cli("tokenize", "-c", "zero.yaml", check=False, timeout=30)
    assert ended.code == 2
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "item",
    [
        "max_errors=101%",
        "max_errors=100.1%",
        "max_errors=99999999999999999999",
        "modalities.vision.tokens_per_frame=99999999999999999999",
        "modalities.vision.code_offset=99999999999",
        "modalities.vision.end_of_frame=99999999999",
        "modalities.audio.fill=99999999999",
        "limit=99999999999999999999",
        "workers=99999999999",
        "shard_bytes=99999999999999999999",
        "bos_token=99999999999",
        "fields_index=99999999999",
        "tokenizer={}",
        "tokenizer=[a]",
        "tokenizer=!!int x",
        "max_ratio=0",
        "pack.seed=99999999999999999999",
        "encode.fps=1e300",
        "encode.frames=99999999999999999999",
        ".".join("a" * 50_000) + "=1",
    ],
)
def test_a_value_out_of_bounds_is_an_error_even_where_a_flag_replaces_it(item: str) -> None:
    with pytest.raises(ConfigError):
        load_config(TokenizeConfig, sets=[item], flags={"tokenizer": "bytes"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = st.sampled_from([*TokenizeConfig.model_fields, "modalities.vision.start", "pack.seed"])


@given(
    text=st.one_of(
        st.text(alphabet="abc:[]{}&*<!?|>-'\"#%@`\n\t 01.${}", max_size=80),
        st.builds(lambda key, value: f"{key}: {value!r}", KEYS, JSON),
    ),
    ending=st.sampled_from([".yaml", ".toml"]),
    sets=st.lists(st.builds(lambda key, value: f"{key}={value}", KEYS, JSON), max_size=2),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_file_and_any_set_is_a_config_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, ending: str, sets: list[str]
) -> None:
    file = tmp_path_factory.getbasetemp() / f"fuzzed{ending}"
    file.write_text(text, encoding="utf-8", errors="replace")
    model: Any
    for model, section in ((TokenizeConfig, None), (PackConfig, "pack"), (EncodeConfig, "encode")):
        with suppress(ConfigError):
            load_config(model, files=[str(file)], section=section, sets=sets)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("pack: {out: ${X}/a, seq_len: 8}\n", '"${X}/a"'),
        ("inputs: [data/${X}.jsonl, ${Y}]\n", '"data/${X}.jsonl"'),
        ("pack: {\n  out: ${X}\n}\n", '"${X}"'),
    ],
)
def test_a_bare_variable_within_braces_is_said_to_need_quotes(
    tmp_path: Path, text: str, quoted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "c.yaml", text)
    with pytest.raises(ConfigError) as error:
        load_config(TokenizeConfig, files=[file])
    assert str(error.value).endswith(f"; quote a variable within {{…}} or […]: {quoted}")
    write(tmp_path / "c.yaml", text.replace(quoted.strip('"'), quoted).replace(", ${Y}", ""))
    monkeypatch.setenv("X", "there")
    load_config(TokenizeConfig, files=[file])  # as the hint says


def test_other_mistakes_of_yaml_are_not_taken_for_variables(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", 'out: "${X}"\npack: {seq_len: {8}\n')
    with pytest.raises(ConfigError) as error:
        load_config(TokenizeConfig, files=[file])
    assert "quote a variable" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("a: [1\nb: 2\n", "line 2, column 2: expected ", "sequence that begins in line 1)"),
        ("a: b: c\n", "line 1, column 5: ", "mapping values are not allowed here"),
    ],
)
def test_a_mistake_of_yaml_is_named_by_its_line_in_one_line(
    tmp_path: Path, text: str, start: str, end: str
) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_file(str(tmp_path / "c.yaml"))
    assert f"is not valid: {start}" in str(caught.value)
    assert str(caught.value).endswith(end)
    assert "unicode string" not in str(caught.value)


def test_paths_of_a_file_are_tidy_unless_a_link_is_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "conf" / "link").symlink_to(tmp_path / "far" / "deep")
    file = tmp_path / "conf" / "c.yaml"
    file.write_text("inputs: [../data, link/../data]\nout: ./out\n")
    config = load_config(TokenizeConfig, files=[str(file)])
    paths = [item.path for item in config.inputs]
    assert paths == [str(tmp_path / "data"), str(tmp_path / "conf/link/../data")]
    assert config.out == str(tmp_path / "conf/out")
