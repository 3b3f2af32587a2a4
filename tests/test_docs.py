"""README and docs/ are true: every block of code runs, links lead somewhere, flags exist.

Blocks of a page run in order in one folder, which has what docs/README.md says.
"""

from __future__ import annotations

import configparser
import doctest
import filecmp
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import wave
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grain
import jax
import msgspec
import numpy as np
import pytest
import yaml
from PIL import Image

import dataprep
from conftest import PLAIN, RunCli, Sample
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.engine.fast import ADAPTERS
from dataprep.pipeline.engine.proof import shipped
from support.modules import ROOT
from support.pages import PAGES, REFERENCE, Block, blocks_of, plain_commands, prose_of

# What cannot run here may be shown: names of the hub, stores elsewhere.
ELSEWHERE = re.compile(r"hf:|s3://|gs://")
HOME = "/srv/corpus"  # of the data, on the machine that crontabs and the like are for
COLOURS = {"red": (220, 30, 20), "green": (20, 160, 60), "blue": (40, 60, 200), "grey": (128,) * 3}


@pytest.fixture
def folder(tmp_path: Path, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the pages use, small, as the working folder."""
    lines = sample.text.read_text(encoding="utf-8").splitlines(keepends=True)
    files = {
        "data/a.jsonl": "".join(lines[:100]),
        "data/b.jsonl": "".join(lines[100:]),
        "chat/chat.jsonl": sample.chat.read_text(encoding="utf-8"),
        "texts/a.txt": "one text%%and another",
        "tokenizer/tokenizer.json": sample.tokenizer.read_text(encoding="utf-8"),
        "tokenizer/tokenizer_config.json": (
            sample.tokenizer.with_name("tokenizer_config.json").read_text(encoding="utf-8")
        ),
        **{f"pictures/{name}.txt": f"a {name} square" for name in COLOURS},
        "sounds/a.txt": "a tone",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name, colour in COLOURS.items():
        Image.new("RGB", (64, 64), colour).save(tmp_path / "pictures" / f"{name}.png")
    with wave.open(str(tmp_path / "sounds" / "a.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes((np.sin(np.arange(8000) / 3) * 9999).astype("<i2").tobytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- how each kind of block is run ---


class Reader:
    """Runs the blocks of a page, as someone would who reads it from top to bottom."""

    def __init__(self, folder: Path, run_cli: RunCli) -> None:
        self._run_cli = run_cli
        self._names: dict[str, Any] = {"__name__": "page"}
        self._site = folder / "site-packages"  # what a page installs stays in its folder
        self._kinds: Mapping[str, Callable[[Block], None]] = {
            "sh": self._sh,
            "python": self._python,
            "pycon": self._pycon,
            "json": lambda block: json.loads(block.text),
            "yaml": self._yaml,
            "ini": self._unit,
            "crontab": self._crontab,
            "toml": lambda block: tomllib.loads(block.text),
            "": lambda block: None,
        }

    @property
    def names(self) -> Mapping[str, Any]:
        """What the blocks so far have named."""
        return self._names

    def run(self, block: Block) -> None:
        assert block.kind in self._kinds, f"{block.place}: nobody knows how to run {block.kind}"
        if block.title:
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{block.text}\n", encoding="utf-8")
        if not (block.title and block.kind == "python"):
            self._kinds[block.kind](block)

    def _sh(self, block: Block) -> None:
        commands = plain_commands(block.text)
        if commands is None or self._site.exists():
            self._bash(block)
        else:
            for words in commands:
                self._run_cli(*words)

    def _bash(self, block: Block) -> None:
        installs = {"TARGET": self._site, "NO_DEPS": 1, "NO_INDEX": 1, "NO_BUILD_ISOLATION": 0}
        env = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            **PLAIN,
            **{f"PIP_{name}": str(value) for name, value in installs.items()},
            "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self._site),
        }
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=120)
        assert done.returncode == 0, f"{block.place}\n{done.stdout}{done.stderr}"

    def _python(self, block: Block) -> None:
        exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec"), self._names)

    def _pycon(self, block: Block) -> None:
        parser = doctest.DocTestParser()
        test = parser.get_doctest(block.text, self._names, block.place, block.page, block.line - 1)
        runner, said = doctest.DocTestRunner(verbose=False), []
        assert runner.run(test, out=said.append).failed == 0, "".join(said)
        assert test.examples, f"{block.place} has no example"

    def _yaml(self, block: Block) -> None:
        if block.title.startswith(".github/"):
            jobs = yaml.safe_load(block.text)["jobs"].values()
            self._elsewhere(step["run"] for job in jobs for step in job["steps"])
            return
        file = Path(block.title or f"block-{block.line}.yaml")
        file.write_text(f"{block.text}\n", encoding="utf-8")
        load_config(RunConfig, files=[str(file)])  # has the keys of all configs

    def _unit(self, block: Block) -> None:
        """A unit of systemd: what it starts must run."""
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment]
        unit.read_string(block.text)
        starts = [unit[name]["ExecStart"] for name in unit if "ExecStart" in unit[name]]
        self._elsewhere(starts)
        assert starts or "Timer" in unit, f"{block.place} starts nothing"

    def _crontab(self, block: Block) -> None:
        fields = [line.split(None, 5) for line in block.lines]
        assert all(len(found) == 6 for found in fields), block.place
        self._elsewhere(found[5].removeprefix(f"cd {HOME} && ") for found in fields)

    def _elsewhere(self, commands: Iterable[str]) -> None:
        """Run commands of another machine, whose folder of the corpus is the one that the page
        wrote a config to, or this one."""
        home = "corpus" if Path("corpus/dataprep.yaml").exists() else "."
        for command in commands:
            words = [word.replace(HOME, ".") for word in shlex.split(command)]
            assert os.path.basename(words[0]) == "dataprep", command
            words = [f".{word}" if word.startswith("/") else word for word in words[1:]]
            self._run_cli(*words, cwd=Path(home).absolute())


# What these pages run, other tests run in small; the rest is what a new user types first.
SLOW = (
    "media.md",
    "extending.md",
    "operations.md",
    "formats.md",
    "config-file.md",
    "multi-host.md",
)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW)) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_runs_from_top_to_bottom(page: Path, folder: Path, run_cli: RunCli) -> None:
    reader = Reader(folder, run_cli)
    for block in blocks_of(page):
        reader.run(block)


# --- what a run does not show ---


def test_every_line_for_those_who_come_from_another_trainer_runs(
    folder: Path, run_cli: RunCli
) -> None:
    """The table of the README names all of them, and what it says to write can be written."""
    run_cli("tokenize", "data/*.jsonl", "--tokenizer", "tokenizer/", "--out", "data/tokenized")
    run_cli("pack", "data/tokenized", "--seq-len", "64", "--out", "data/packed")
    table = (ROOT / "README.md").read_text().split("### Coming from")[1].split("###")[0]
    lines = re.findall(r"^\| (?!coming)(\w.*?) \|(.*)$", table, flags=re.M)
    comers = "LWM MaxText xlstm-jax Megatron-LM HF TRL torch grain datatrove litdata MosaicML"
    assert re.findall(r"[\w-]+", " ".join(who for who, _ in lines if who)) == [
        *comers.replace("HF", "HF Trainer").split()
    ]
    names: dict[str, Any] = {"mesh": jax.sharding.Mesh(jax.devices(), ("data",)), "grain": grain}
    names |= {name: getattr(dataprep, name) for name in ("DataLoader", "open_dataset")}
    if find_spec("torch"):
        names |= vars(importlib.import_module("dataprep.loaders.torch")) | names
    for who, said in lines:
        spans = [span for span in re.findall(r"`([^`]+)`", said) if "data/" in span]
        assert spans, who
        for span in spans:
            if span.startswith("dataprep "):
                run_cli(*shlex.split(span)[1:])
            elif not span.startswith("Packed") or find_spec("torch"):
                made = eval(span, names)
                assert next(iter(made)) is not None, span
                if isinstance(made, dataprep.DataLoader):
                    made.close()


def test_every_name_for_those_who_come_from_a_seed_is_there(folder: Path, run_cli: RunCli) -> None:
    """The tables of the page: what they say to write instead can be written."""
    page = ROOT / "docs" / "coming-from.md"
    reader = Reader(folder, run_cli)
    for block in blocks_of(page):
        reader.run(block)
    names = {**reader.names, "dataprep": dataprep}
    cells = re.findall(r"^\|[^|]*\|(.*)\|$", prose_of(page), flags=re.M)
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    # What begins with a name of the page; the others are settings, flags and commands.
    known = re.compile(rf"({'|'.join(map(re.escape, names))})\b[.(]")
    written = [span for span in spans if known.match(span)]
    assert len(written) > 20
    for span in written:
        eval(span, names)


def test_an_illustration_hides_no_command_that_could_run() -> None:
    for block in (block for page in PAGES for block in blocks_of(page) if not block.kind):
        for line in block.lines:
            assert not line.startswith("dataprep ") or ELSEWHERE.search(line), block.place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", prose_of(page)):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors_of(path), f"{page.name} links to {target}"


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose_of(page), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_listed() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in listed, page.name


def test_every_flag_that_a_page_names_exists() -> None:
    known = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "docs" / "cli.md").read_text("utf-8")))
    for page in PAGES:
        found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
        assert found <= known, f"{page.name} names {sorted(found - known)}"


def test_the_page_of_the_api_names_all_of_it() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert [name for name in dataprep.__all__ if f"`{name}`" not in text] == []


def test_the_page_of_the_api_names_all_kinds_of_reports() -> None:
    places = (*(ROOT / "pipeline").rglob("*.py"), ROOT / "src/dataprep/api.py")
    sources = [path.read_text() for path in places]
    sent = {kind for text in sources for kind in re.findall(r'\breport\("(\w+)"', text)}
    page = (ROOT / "docs/python.md").read_text()
    (told,) = re.findall(r"def report\(.*#(.*)", page)
    assert set(re.findall(r'"(\w+)"', told)) == sent
    assert {kind for kind in sent if f'| `"{kind}"` |' not in page} == set()


def test_the_page_of_tokenizers_says_for_which_engines_proofs_are_shipped() -> None:
    shipment = msgspec.json.decode(shipped.FILE.read_bytes(), type=shipped.Shipment)
    found: dict[str, set[str]] = {}
    for each in shipment.proofs:
        found.setdefault(each.tokenizer, set()).add(each.proof.engine)
    page = " ".join((ROOT / "docs/tokenizers.md").read_text().split())
    assert "of GPT-2, GPT-4 and Qwen3 for all three engines, of MiniLM for splintr alone" in page
    assert found == {
        **{name: set(ADAPTERS) for name in ("Xenova/gpt2", "Xenova/gpt-4", "Qwen/Qwen3-8B")},
        "sentence-transformers/all-MiniLM-L6-v2": {"splintr"},
    }


def test_the_reference_is_made_from_the_code(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "make_docs"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True)
    _, differ, missing = filecmp.cmpfiles(tmp_path, ROOT / "docs", REFERENCE, shallow=False)
    assert not [*differ, *missing], "run .venv/bin/python scripts/make_docs, and commit docs/"
