"""`import dataprep`: what it offers, and that it offers it at no cost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

import dataprep
from conftest import RunCli, Sample
from dataprep import ConfigError, InputError
from dataprep.configs.base import StrategyName
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.engine import resolve
from dataprep.pipeline.engine.hub import Fetched
from dataprep.pipeline.jobs.workspace import locked
from support.inprocess import write_lines
from support.modules import ROOT
from support.toy import write_toy_tokenizer
from support.trees import tree

# What scripts and trainers rely on; a change here is a change for them.
PUBLIC = [
    "Buckets",
    "ByTokens",
    "ConfigError",
    "ConflictError",
    "CorruptError",
    "DataLoader",
    "DataprepError",
    "InputError",
    "LockedError",
    "Longest",
    "PackedDataset",
    "Processor",
    "ResourceError",
    "TokenizedDataset",
    "__version__",
    "detokenize",
    "documents_by",
    "encode",
    "export",
    "open_dataset",
    "pack",
    "processor",
    "run",
    "tokenize",
    "tokenize_text",
]


def test_the_public_names_are_these() -> None:
    assert sorted(dataprep.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(dataprep, name) is not None
        assert name in dir(dataprep)
    with pytest.raises(AttributeError, match="no attribute 'tokenise'"):
        dataprep.tokenise  # type: ignore[attr-defined]  # noqa: B018


def test_each_name_is_loaded_on_first_use() -> None:
    code = """
import sys
before = set(sys.modules)
import dataprep
assert {n for n in set(sys.modules) - before if n.startswith("dataprep")} == {"dataprep"}
dataprep.ConfigError
assert "numpy" not in sys.modules
dataprep.DataLoader
assert "dataprep.api" not in sys.modules and "tokenizers" not in sys.modules
dataprep.tokenize
assert "dataprep.api" in sys.modules and "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_package_is_typed_where_it_is_installed(tmp_path: Path) -> None:
    """Also in an editable install, for whoever checks a script of their own."""
    script = tmp_path / "script.py"
    script.write_text(
        "import dataprep\n"
        "reveal_type(dataprep.tokenize_text('a', 'bytes'))\n"
        "reveal_type(dataprep.pack(seq_len=8))\n"
        "reveal_type(dataprep.open_dataset)\n"
    )
    run = [sys.executable, "-m", "mypy", "--config-file", "/dev/null", "--follow-imports=silent"]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "scripts"), "--ignore-missing-imports"]
    done = subprocess.run([*run, *cache, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert "unsignedinteger" in done.stdout, done.stdout
    assert '"dataprep.pipeline.jobs.recipes.Outcome"' in done.stdout
    assert "Any" not in done.stdout.splitlines()[1]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dataprep", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "tokenize" in done.stdout


def run_the_command_beside(folder: Path) -> subprocess.CompletedProcess[str]:
    """Start what the command starts, where Python finds packages in this folder alone."""
    code = f"""
import sys
sys.path.insert(0, {str(folder)!r})
sys.path_importer_cache.clear()
from importlib.machinery import SourceFileLoader
SourceFileLoader("dataprep_jax", {str(ROOT / "src" / "dataprep_jax.py")!r}).load_module().main()
"""
    words = [sys.executable, "-I", "-S", "-W", "ignore", "-c", code]
    return subprocess.run(words, capture_output=True, text=True)


@pytest.mark.parametrize("kind", ["package", "latin-1", "namespace"])
def test_another_package_of_this_name_is_named(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "dataprep"
    other.mkdir()
    if kind != "namespace":
        text = "# coding: latin-1\n# \xfc\nraise ImportError('never imported')\n"
        (other / "__init__.py").write_text(text, "latin-1" if kind == "latin-1" else "utf-8")
    done = run_the_command_beside(tmp_path)
    assert done.returncode == 1
    assert "another package of this name" in done.stderr
    assert str(other) in done.stderr
    assert "pip uninstall dataprep" in done.stderr
    words = [sys.executable, "-m", "dataprep_jax", "--version"]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)  # fmt: skip
    # A folder without __init__.py gives way to the package.
    assert (done.returncode, "another package" in done.stderr) == (
        (0, False) if kind == "namespace" else (1, True)
    )


def test_a_package_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    done = run_the_command_beside(tmp_path)
    assert done.returncode == 1
    assert "Python does not find the package" in done.stderr
    assert "pip install" in done.stderr


def test_the_functions_make_what_the_commands_make(
    tmp_path: Path, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(f"inputs: [{sample.text}]\ntokenizer: {sample.tokenizer}\nout: by-file\n")
    made = dataprep.tokenize(config)
    assert made.out == tmp_path / "by-file"
    again = dataprep.tokenize(
        inputs=sample.text, tokenizer=sample.tokenizer, out=tmp_path / "by-name", workers=1
    )
    assert tree(again.out) == tree(made.out)
    assert dataprep.tokenize(config).was_complete
    for number, given in enumerate(({"seq_len": 64}, PackConfig(seq_len=64))):
        packed = dataprep.pack(given, inputs=[made.out], out=tmp_path / f"packed-{number}")
        dataset = dataprep.open_dataset(packed.out)
        assert isinstance(dataset, dataprep.PackedDataset)
        assert dataset[0]["tokens"].shape == (65,)
    assert tree(tmp_path / "packed-0") == tree(tmp_path / "packed-1")


def test_run_does_what_the_command_does(tmp_path: Path, sample: Sample, run_cli: RunCli) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"inputs: [{sample.text}]\ntokenizer: bytes\nseq_lens: [64]\nout: by-file\n")
    seen: list[Any] = []
    made = dataprep.run(config, report=lambda what, values: seen.append((what, dict(values))))
    assert made.out == tmp_path / "by-file"
    assert [done.todo.step.folder for done in made.steps] == ["data/tokenized", "data/packed-64"]
    assert ("step", {"step": "data/tokenized", "why": ["it is not there yet"]}) in seen
    assert made.steps[0].counts["documents_written"] == made.steps[1].counts["documents_read"] > 0
    assert not made.was_complete
    assert dataprep.run(config).was_complete
    only = dataprep.run(config, only=["tokenize"], out=tmp_path / "by-name")
    assert tree(only.steps[0].out) == tree(made.steps[0].out)
    run_cli("run", config, "--out", tmp_path / "by-hand")
    for folder in ("data/tokenized/parts", "data/packed-64/parts"):
        names = tree(made.out / folder).keys()
        assert names == tree(tmp_path / "by-hand" / folder).keys()
    with locked(made.out), pytest.raises(dataprep.LockedError):
        dataprep.run(config)
    with pytest.raises(ConfigError, match="no such step"):
        dataprep.run(config, only=["encode"])
    with pytest.raises(ConfigError, match="must be a local folder"):
        dataprep.run(config, out="s3://bucket/out")


def test_none_is_null_and_resets_what_a_file_says(tmp_path: Path, sample: Sample) -> None:
    file = tmp_path / "l.yaml"
    file.write_text(f"inputs: [{sample.text}]\ntokenizer: bytes\nlimit: 1\nfields_from: own\n")
    made = dataprep.tokenize(file, out=tmp_path / "out", workers=1, limit=None, fields_from=None)
    lines = sample.text.read_text(encoding="utf-8").splitlines()
    assert made.manifest.counts["documents_written"] == len(lines)
    given = {"inputs": [str(sample.text)], "tokenizer": "bytes", "limit": 1}
    again = dataprep.tokenize(given, out=tmp_path / "out", workers=1, limit=None)
    assert again.was_complete


def test_none_where_null_means_nothing_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"strategy must be .*got None"):
        dataprep.pack(inputs=["a"], seq_len=64, strategy=None, out=tmp_path / "out")


def test_settings_that_do_not_exist_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"in the arguments: .*seqlen"):
        dataprep.pack(inputs=["a"], seqlen=64, out=str(tmp_path / "out"))
    with pytest.raises(ConfigError, match="strategy"):
        dataprep.pack(inputs=["a"], seq_len=64, strategy="best", out=str(tmp_path / "out"))
    assert get_args(StrategyName)


def test_ids_of_texts_are_those_of_tokenizers(sample: Sample) -> None:
    reference = Tokenizer.from_file(str(sample.tokenizer))
    texts = ["Hello world", "", "ünïcode 字", "a <|endoftext|> b"]
    found = dataprep.tokenize_text(texts, sample.tokenizer)
    for text, ids in zip(texts, found, strict=True):
        wanted = reference.encode(text, add_special_tokens=False).ids
        assert ids.tolist() == wanted
        assert dataprep.tokenize_text(text, sample.tokenizer).tolist() == wanted
        assert dataprep.detokenize(ids, sample.tokenizer) == reference.decode(
            wanted, skip_special_tokens=False
        )
    assert dataprep.tokenize_text([], "bytes") == []
    assert dataprep.tokenize_text("", "bytes").dtype == np.uint32


def test_a_tokenizer_is_that_which_its_path_names_now(
    tmp_path: Path, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    write_toy_tokenizer(tmp_path / "a" / "mine")
    shutil.copytree(sample.tokenizer.parent, tmp_path / "b" / "mine")
    monkeypatch.chdir(tmp_path / "a")
    assert dataprep.tokenize_text("ab", "mine").tolist() == [100, 101]
    assert dataprep.detokenize([100, 101], "mine") == "a b"
    reference = Tokenizer.from_file(str(sample.tokenizer))
    wanted = reference.encode("ab", add_special_tokens=False).ids
    monkeypatch.chdir(tmp_path / "b")
    assert dataprep.tokenize_text("ab", "mine").tolist() == wanted
    assert dataprep.detokenize(wanted, "mine") == "ab"
    shutil.copy(sample.tokenizer, tmp_path / "a" / "mine" / "tokenizer.json")  # saved anew
    assert dataprep.tokenize_text("ab", tmp_path / "a" / "mine").tolist() == wanted
    monkeypatch.chdir(tmp_path / "a")
    assert dataprep.tokenize_text("ab", "mine").tolist() == wanted


def test_special_tokens_are_those_that_the_config_beside_a_tokenizer_names_now(
    tmp_path: Path,
) -> None:
    folder = write_toy_tokenizer(tmp_path)
    assert dataprep.tokenize_text("q", folder, special_in_text="error").tolist() == [116]
    (folder / "tokenizer_config.json").write_text('{"eos_token": "q"}')
    with pytest.raises(InputError, match=r"text 0: .*'q'"):
        dataprep.tokenize_text("q", folder, special_in_text="error")


def test_the_hub_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    folder = write_toy_tokenizer(tmp_path)

    def fetch(name: str) -> Fetched:
        asked.append(name)
        return Fetched(folder / "tokenizer.json", "")

    monkeypatch.setattr(resolve, "fetch", fetch)
    for _ in range(2):
        assert dataprep.tokenize_text("ab", "org/toy-of-the-api").tolist() == [100, 101]
    assert asked == ["org/toy-of-the-api"]


def test_a_text_that_cannot_be_encoded_is_named(sample: Sample) -> None:
    with pytest.raises(InputError, match=r"text 1: .*surrogate"):
        dataprep.tokenize_text(["fine", "\udc80"], sample.tokenizer)


class Somewhere:
    """A path of another library."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)


def test_paths_of_any_kind_stand_wherever_a_path_may(tmp_path: Path, sample: Sample) -> None:
    common = {"tokenizer": sample.tokenizer, "workers": 1}
    whole = dataprep.tokenize(inputs=[str(sample.text)], out=str(tmp_path / "text"), **common)
    for kind in (Path, Somewhere):
        out = kind(tmp_path / kind.__name__)
        made = dataprep.tokenize(inputs=[{"path": kind(sample.text)}], out=out, **common)
        assert tree(made.out) == tree(whole.out)


@pytest.mark.parametrize("ids", [[-1], [1.7], ["1"], 5, [[1, 2]]])
def test_what_is_no_id_is_told(ids: Any) -> None:
    with pytest.raises(InputError, match=r"whole numbers|id -1 is negative"):
        dataprep.detokenize(ids, "bytes")


@pytest.mark.parametrize("text", [[1], ["a", None], 5, b"ab"])
def test_what_is_no_text_is_told(text: Any) -> None:
    with pytest.raises(InputError, match="must be a"):
        dataprep.tokenize_text(text, "bytes")


@pytest.mark.parametrize("config", [5, 0, [5], b"a.yaml"])
def test_what_is_no_config_is_told(config: Any) -> None:
    with pytest.raises(ConfigError, match="the config must be a file"):
        dataprep.tokenize(config)


AFTER_THE_MAIN_THREAD = """
import sys, threading, time
import dataprep
def run():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    *inputs, tokenizer, out = sys.argv[1:]
    dataprep.tokenize(inputs=inputs, tokenizer=tokenizer, out=f"{out}/tokenized")
    print(dataprep.pack(inputs=[f"{out}/tokenized"], seq_len=32, out=f"{out}/packed").was_complete)
threading.Thread(target=run).start()
"""


def test_runs_in_a_thread_go_on_when_the_main_thread_has_ended(
    tmp_path: Path, sample: Sample
) -> None:
    """Python waits for the thread, but lets it use no pool of threads, and import none."""
    texts = [{"text": "a b c"}] * 3
    json = [write_lines(tmp_path / f"{i}.jsonl", texts * (i + 1)) for i in range(300)]
    table = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(texts), table)
    command = [sys.executable, "-c", AFTER_THE_MAIN_THREAD, *json, table, sample.tokenizer]
    done = subprocess.run([*command, tmp_path], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert (tmp_path / "packed" / "manifest.json").exists()


def test_errors_speak_of_settings_not_of_flags(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n')
    with pytest.raises(dataprep.ConfigError, match=r"no output folder; set out=…$"):
        dataprep.tokenize(inputs=path, tokenizer="bytes")
    with pytest.raises(dataprep.ConfigError, match=r"not set; seq_len=4096 makes rows"):
        dataprep.pack(inputs=tmp_path, out=tmp_path / "p")
    with pytest.raises(dataprep.InputError, match=r"set fields=….* set on_error='skip'; to list"):
        dataprep.tokenize(inputs=path, tokenizer="bytes", out=tmp_path / "o", fields="body")


def test_data_in_the_place_of_the_config_is_named(tmp_path: Path) -> None:
    for given in (tmp_path, tmp_path / "a.jsonl", "/a.jsonl.zst", "/a.npy", "/a.arrayrecord"):
        with pytest.raises(dataprep.ConfigError, match=r"is no config, .* write inputs='/"):
            dataprep.tokenize(given, tokenizer="bytes", out=tmp_path / "o")


def test_only_public_names_are_listed() -> None:
    assert {*dir(dataprep)} - {*dataprep.__all__} == {
        "api",
        "cli",
        "configs",
        "loaders",
        "pipeline",
        "texts",
    }
