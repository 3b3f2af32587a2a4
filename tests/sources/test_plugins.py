"""Sources of installed packages, by entry points, from outside."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from conftest import RunCli
from support.plugins import install_plugin
from support.trees import tree

BOTH = "fasta = plug_source:FASTA\nsquares = plug_source:SQUARES"
GENES = ">one\nACGT\nAC\n>two\nTTT\n"


def installed(folder: Path, points: str = BOTH, package: str = "plug") -> dict[str, str]:
    place = install_plugin(folder, points, package, group="dataprep.sources")
    return {"PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])}


def tokenize(run_cli: RunCli, env: dict[str, str], *words: object) -> str:
    done = run_cli("tokenize", *map(str, words), "--tokenizer", "bytes", env=env, check=False)
    return done.stdout if done.code == 0 else f"exit {done.code}: {done.stderr}"


def test_files_of_a_plugin_are_read_by_their_ending(tmp_path: Path, run_cli: RunCli) -> None:
    env = installed(tmp_path / "site")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.fasta").write_text(GENES)
    (tmp_path / "in" / "b.jsonl").write_text('{"text": "x"}\n')
    with gzip.open(tmp_path / "in" / "c.fasta.gz", "wt") as file:
        file.write(GENES)
    assert "5 documents" in tokenize(run_cli, env, tmp_path / "in", "--out", tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_bytes())
    assert [source["kind"] for source in manifest["sources"]] == ["fasta", "jsonl", "fasta"]
    run_cli("verify", str(tmp_path / "out"), env=env)
    shown = run_cli("inspect", str(tmp_path / "out"), "--doc", "0", env=env).stdout
    assert "ACGTAC" in shown
    told = tokenize(run_cli, {}, tmp_path / "in" / "a.fasta", "--out", tmp_path / "none")
    assert "cannot tell what" in told


def test_names_of_a_plugin_are_read_by_their_prefix(tmp_path: Path, run_cli: RunCli) -> None:
    env = installed(tmp_path / "site")
    for workers in (1, 2):
        out = tmp_path / str(workers)
        assert "9 documents" in tokenize(run_cli, env, "squares:9", "--out", out, "-j", workers)
    assert tree(tmp_path / "1") == tree(tmp_path / "2")
    assert "nothing to do" in tokenize(run_cli, env, "squares:9", "--out", tmp_path / "1")
    assert "changed" in tokenize(run_cli, env, "squares:8", "--out", tmp_path / "1")
    config = tmp_path / "conf"
    config.mkdir()
    (config / "c.yaml").write_text("inputs: ['squares:3']\n")
    made = tokenize(run_cli, env, "--config", config / "c.yaml", "--out", tmp_path / "3")
    assert "3 documents" in made


def test_another_version_of_a_plugin_is_another_dataset(tmp_path: Path, run_cli: RunCli) -> None:
    env = installed(tmp_path / "site")
    (tmp_path / "a.fasta").write_text(GENES)
    tokenize(run_cli, env, tmp_path / "a.fasta", "--out", tmp_path / "out")
    code = tmp_path / "site" / "plug_source.py"
    code.write_text(code.read_text().replace('"fasta", "1"', '"fasta", "2"'))
    told = tokenize(run_cli, env, tmp_path / "a.fasta", "--out", tmp_path / "out")
    assert told.startswith("exit 4")


def test_a_broken_plugin_harms_only_its_users(tmp_path: Path, run_cli: RunCli) -> None:
    env = installed(tmp_path / "site", "fasta = plug_source:MISSING")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    made = tokenize(run_cli, env, tmp_path / "a.jsonl", "--out", tmp_path / "out")
    assert "1 document" in made
    (tmp_path / "a.fasta").write_text(GENES)
    told = tokenize(run_cli, env, tmp_path / "a.fasta", "--out", tmp_path / "other")
    assert "exit 3" in told
    assert "source 'fasta' (plug_source:MISSING) fails to load" in told


def test_two_sources_for_one_ending_or_of_a_wrong_name_are_refused(
    tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "a.fasta").write_text(GENES)
    two = installed(tmp_path / "site", "fasta = plug_source:FASTA")
    installed(tmp_path / "site" / "x", "fasta = plug_source:FASTA")
    other = install_plugin(
        tmp_path / "more", "fasta = more_source:FASTA", "more", group="dataprep.sources"
    )
    env = {"PYTHONPATH": os.pathsep.join([two["PYTHONPATH"], str(other)])}
    told = tokenize(run_cli, env, tmp_path / "a.fasta", "--out", tmp_path / "out")
    assert "several sources are for the kind fasta: plug_source:FASTA, more_source:FASTA" in told
    env = installed(tmp_path / "wrong", "dna = plug_source:FASTA")
    told = tokenize(run_cli, env, tmp_path / "a.fasta", "--out", tmp_path / "out")
    assert "is not a Format of that kind" in told
