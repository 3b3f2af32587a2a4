"""`dataprep run`: what is new becomes a part and a generation, and nothing else is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import RunCli
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.jobs.ownership import make_work
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.summary import check_metrics, write_metrics
from support.manifests import edit_manifest
from support.nights import (
    documents_in_rows,
    text_of,
    texts_of,
    whole_texts,
    write_config,
    write_lines,
)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw/a.jsonl", ["one", "two", "three"])
    return tmp_path / "raw"


@pytest.fixture
def config(tmp_path: Path, raw: Path) -> Path:
    return write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"])


TOKENIZED, PACKED = "out/data/tokenized", "out/data/packed-64"


def steps(run_cli: RunCli, *words: str | Path) -> dict[str, list[str]]:
    found = json.loads(run_cli("run", *words, "--why", "--json").stdout)
    return {step["step"]: step["why"] for step in found}


def shards(folder: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of every file of the parts."""
    files = [path for path in folder.rglob("parts/**/*") if path.is_file()]
    return {str(p): (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


def test_new_files_become_a_part_and_old_files_stay(
    run_cli: RunCli, tmp_path: Path, raw: Path, config: Path
) -> None:
    run_cli("run", config)
    before = shards(tmp_path / "out")
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three"]
    write_lines(raw / "b.jsonl", ["four"])
    assert steps(run_cli, config)["data/tokenized"] == [f"1 new file: {raw}/b.jsonl"]
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "four"]
    assert whole_texts(tmp_path / PACKED) == sorted(["one", "two", "three", "four"])
    after = shards(tmp_path / "out")
    assert before.items() <= after.items()
    for folder in (TOKENIZED, PACKED):
        run_cli("verify", tmp_path / folder)
    assert texts_of(tmp_path / TOKENIZED, generation=0) == ["one", "two", "three"]


def test_a_run_without_anything_new_writes_nothing_but_its_summary(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    run_cli("run", config)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("out/*/**/*")}
    done = run_cli("run", config, "--json")
    assert [step["why"] for step in json.loads(done.stdout)["steps"]] == [[], []]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("out/*/**/*")} == before
    assert set(steps(run_cli, config).values().__iter__().__next__()) == set()


def test_a_file_that_was_appended_to_gives_its_new_lines(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], append=True)
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["four", "five"], mode="a")
    assert steps(run_cli, config)["data/tokenized"] == [f"appended to: {raw}/a.jsonl"]
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["six"], mode="a")
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "four", "five", "six"]
    shown = run_cli("inspect", tmp_path / TOKENIZED, "--doc", f"{raw}/a.jsonl:6").stdout
    assert "line 6 of" in shown
    assert "six" in shown
    assert run_cli("run", config, "--why").stdout.count("nothing to do") == 2


@pytest.mark.parametrize("append", [False, True])
def test_a_changed_or_missing_file_is_an_error_that_says_what_to_do(
    run_cli: RunCli, tmp_path: Path, raw: Path, append: bool
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], append=append)
    write_lines(raw / "b.jsonl", ["gone"])
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["other", "two", "three", "four"])
    (raw / "b.jsonl").unlink()
    done = run_cli("run", config, check=False)
    assert done.code == 4
    assert f"{raw}/a.jsonl changed, {raw}/b.jsonl is gone" in done.stderr
    assert "on_changed: rebuild" in done.stderr
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "gone"]


def test_ignored_changes_keep_what_was_made_and_take_what_is_new(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], on_changed="ignore")
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["other"])
    write_lines(raw / "b.jsonl", ["new"])
    done = run_cli("run", config)
    assert "changed: ignored" in done.stderr
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "new"]


def test_a_rebuilt_dataset_is_a_generation_of_new_parts(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], on_changed="rebuild")
    run_cli("run", config)
    write_lines(raw / "a.jsonl", ["other"])
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["other"]
    assert whole_texts(tmp_path / PACKED) == ["other"]
    assert texts_of(tmp_path / TOKENIZED, generation=0) == ["one", "two", "three"]
    assert whole_texts(tmp_path / PACKED, generation=0) == ["one", "three", "two"]


def test_a_file_under_another_name_is_the_same_file(
    run_cli: RunCli, tmp_path: Path, raw: Path, config: Path
) -> None:
    run_cli("run", config)
    os.rename(raw / "a.jsonl", raw / "z.jsonl")
    assert steps(run_cli, config) == {"data/tokenized": [], "data/packed-64": []}


def test_a_file_that_was_renamed_may_be_appended_to_and_renamed_again(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], append=True)
    run_cli("run", config)
    shards = {path: path.stat().st_ino for path in (tmp_path / "out").rglob("*.arrayrecord")}
    name, texts = "a", ["one", "two", "three"]
    for number, now in enumerate("bcab"):
        os.rename(raw / f"{name}.jsonl", raw / f"{now}.jsonl")
        assert not any(steps(run_cli, config).values())
        run_cli("run", config)  # it takes notice of the name
        write_lines(raw / f"{now}.jsonl", [f"more {number}"], mode="a")
        (why,) = steps(run_cli, config)["data/tokenized"]
        assert why == f"appended to: {raw / now}.jsonl"
        run_cli("run", config)
        name, texts = now, [*texts, f"more {number}"]
        assert texts_of(tmp_path / TOKENIZED) == texts
    write_lines(raw / "a.jsonl", ["another"])  # under a name that was left
    for _ in range(2):
        run_cli("run", config)
        assert texts_of(tmp_path / TOKENIZED) == [*texts, "another"]
    assert not any(steps(run_cli, config).values())
    assert all(path.stat().st_ino == inode for path, inode in shards.items())
    (tmp_path / "out/.run/renamed/data.json").unlink()
    done = run_cli("run", config, check=False)  # how it was called is not known any more
    assert done.code == 4
    assert "are gone" in done.stderr


@pytest.mark.parametrize("on_changed", ["error", "ignore"])
def test_names_may_move_on_from_file_to_file_as_those_of_logs_do(
    run_cli: RunCli, tmp_path: Path, raw: Path, on_changed: str
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], on_changed=on_changed)
    texts = ["one", "two", "three"]
    for night in range(3):  # a is 1 the next night, and 2 the night after
        run_cli("run", config)
        assert texts_of(tmp_path / TOKENIZED) == texts
        for name in range(night, 0, -1):
            os.rename(raw / f"{name}.jsonl", raw / f"{name + 1}.jsonl")
        os.rename(raw / "a.jsonl", raw / "1.jsonl")
        write_lines(raw / "a.jsonl", [f"night {night}"])
        assert steps(run_cli, config)["data/tokenized"] == [f"1 new file: {raw}/a.jsonl"]
        texts = [*texts, f"night {night}"]


@pytest.mark.parametrize("on_changed", ["error", "ignore"])
def test_logs_that_grew_before_they_were_rotated_give_each_line_once(
    run_cli: RunCli, tmp_path: Path, raw: Path, on_changed: str
) -> None:
    config = write_config(
        tmp_path / "c.json", inputs=["raw/*.jsonl"], append=True, on_changed=on_changed
    )
    texts = ["one", "two", "three"]
    for night in range(3):
        run_cli("run", config)
        assert sorted(texts_of(tmp_path / TOKENIZED)) == sorted(texts)
        write_lines(raw / "a.jsonl", [f"late {night}"], mode="a")
        for name in range(night, 0, -1):
            os.rename(raw / f"{name}.jsonl", raw / f"{name + 1}.jsonl")
        os.rename(raw / "a.jsonl", raw / "1.jsonl")
        write_lines(raw / "a.jsonl", [f"night {night}"])
        (why, more) = steps(run_cli, config)["data/tokenized"]
        assert why == f"1 new file: {raw}/a.jsonl"
        assert more == f"appended to: {raw}/1.jsonl"
        texts += [f"late {night}", f"night {night}"]
    run_cli("run", config)
    assert sorted(texts_of(tmp_path / TOKENIZED)) == sorted(texts)
    assert not any(steps(run_cli, config).values())
    (tmp_path / "out/.run/renamed/data.json").unlink()
    run_cli("run", config, check=False)
    assert sorted(texts_of(tmp_path / TOKENIZED)) == sorted(texts)


def test_names_that_were_lost_are_found_out_again_by_contents(
    run_cli: RunCli, tmp_path: Path, config: Path, raw: Path
) -> None:
    for name in ("1", "2"):  # a is 1, then another a is 2, then comes the third
        run_cli("run", config)
        os.rename(raw / "a.jsonl", raw / f"{name}.jsonl")
        write_lines(raw / "a.jsonl", [f"after {name}"])
    run_cli("run", config)
    names = tmp_path / "out/.run/renamed/data.json"
    known = names.read_bytes()
    names.unlink()
    assert not any(steps(run_cli, config).values())
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "after 1", "after 2"]
    assert names.read_bytes() == known
    names.unlink()
    (raw / "1.jsonl").unlink()
    done = run_cli("run", config, check=False)
    assert done.code == 4
    assert f"{raw}/a.jsonl (before source 1) is gone" in done.stderr


def test_of_files_that_are_gone_the_longest_that_a_new_one_begins_with_has_grown(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(
        tmp_path / "c.json", inputs=["raw/*.jsonl"], append=True, on_changed="ignore"
    )
    write_lines(raw / "b.jsonl", ["one", "two"])
    (raw / "empty.jsonl").touch()
    run_cli("run", config)
    for name in ("a", "b", "empty"):
        (raw / f"{name}.jsonl").unlink()
    write_lines(raw / "c.jsonl", ["one", "two", "three", "four"])
    write_lines(raw / "d.jsonl", ["two", "one"])
    run_cli("run", config)
    held = ["one", "two", "three", "one", "two", "four", "two", "one"]
    assert texts_of(tmp_path / TOKENIZED) == held


def test_logs_of_equal_content_that_were_rotated_have_grown_each(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], append=True)
    write_lines(raw / "b.jsonl", ["one", "two", "three"])
    run_cli("run", config)
    for name in "ab":
        write_lines(raw / f"{name}.jsonl", [f"late {name}"], mode="a")
        os.rename(raw / f"{name}.jsonl", raw / f"{name}.1.jsonl")
    run_cli("run", config)
    held = ["one", "two", "three"] * 2
    assert texts_of(tmp_path / TOKENIZED) == [*held, "late a", "late b"]


def test_a_file_that_was_empty_may_be_appended_to_and_one_that_was_overwritten_is_gone(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], append=True)
    (raw / "b.jsonl").touch()  # nothing came in before the night
    run_cli("run", config)
    write_lines(raw / "b.jsonl", ["four"], mode="a")
    assert steps(run_cli, config)["data/tokenized"] == [f"appended to: {raw}/b.jsonl"]
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "four"]
    (raw / "c.jsonl").touch()
    (raw / "d.jsonl").touch()
    run_cli("run", config)
    write_lines(raw / "c.jsonl", ["five"], mode="a")
    os.rename(raw / "c.jsonl", raw / "c.1.jsonl")  # rotated before it was read again
    (raw / "d.jsonl").unlink()
    assert steps(run_cli, config)["data/tokenized"] == [f"1 new file: {raw}/c.1.jsonl"]
    run_cli("run", config)
    assert not any(steps(run_cli, config).values())
    write_lines(raw / "c.jsonl", ["six"])
    assert steps(run_cli, config)["data/tokenized"] == [f"appended to: {raw}/c.jsonl"]
    run_cli("run", config)
    assert not any(steps(run_cli, config).values())
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three", "four", "five", "six"]
    os.rename(raw / "b.jsonl", raw / "a.jsonl")
    done = run_cli("run", config, check=False)
    assert done.code == 4
    assert f"{raw}/a.jsonl is gone" in done.stderr


@pytest.mark.parametrize("others", [(), ("b",)])
@pytest.mark.parametrize("how", ["changed", "gone"])
def test_other_settings_are_told_though_inputs_are_ignored(
    run_cli: RunCli, tmp_path: Path, raw: Path, how: str, others: tuple[str, ...]
) -> None:
    """What was made of them cannot be kept then, and is not lost either without a word."""
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], on_changed="ignore")
    run_cli("run", config)
    for name in others:
        write_lines(raw / f"{name}.jsonl", [name])
        run_cli("run", config)
    if how == "changed":
        write_lines(raw / "a.jsonl", ["other"])
    else:
        os.rename(raw / "a.jsonl", tmp_path / "a.jsonl")
        write_lines(raw / "c.jsonl", ["new"])
    run_cli("run", config)
    held = texts_of(tmp_path / TOKENIZED)
    assert held[:3] == ["one", "two", "three"]
    done = run_cli("run", config, "--set", "add_eos=false", check=False)
    assert done.code == 4
    assert "would be made anew (add_eos: " in done.stderr
    assert f"lose what was made of {raw}/a.jsonl" in done.stderr
    assert texts_of(tmp_path / TOKENIZED) == held
    run_cli("run", config, "--set", "workers=1")  # of no effect


@pytest.mark.parametrize(
    ("change", "tokenized", "packed"),
    [
        ({"workers": 1}, "", ""),
        ({"task_timeout": 77}, "", ""),
        ({"max_errors": 3}, "", ""),
        ({"on_error": "skip"}, "", ""),  # no record was bad
        ({"add_eos": False}, "add_eos: 'auto' -> False", "data/tokenized changes"),
        ({"pack": {"strategy": "concat"}}, "", "strategy: 'best_fit' -> 'concat'"),
        ({"seq_lens": [64, 32]}, "", ""),
    ],
)
def test_a_setting_remakes_exactly_what_depends_on_it(
    run_cli: RunCli, config: Path, change: dict[str, object], tokenized: str, packed: str
) -> None:
    run_cli("run", config)
    write_config(config, inputs=["raw/*.jsonl"], **change)
    found = steps(run_cli, config)
    assert "; ".join(found["data/tokenized"]) == tokenized
    assert "; ".join(found["data/packed-64"]) == packed
    run_cli("run", config)
    assert not any(steps(run_cli, config).values())


def test_only_some_steps_are_done(run_cli: RunCli, tmp_path: Path, raw: Path) -> None:
    corpora = {"a": {"inputs": ["raw/a.jsonl"]}, "b": {"inputs": ["raw/b.jsonl"]}}
    config = write_config(tmp_path / "c.json", corpora=corpora)
    write_lines(raw / "b.jsonl", ["four"])
    run_cli("run", config, "--only", "tokenize")
    assert not (tmp_path / "out/a/packed-64").exists()
    run_cli("run", config, "--only", "b")
    assert whole_texts(tmp_path / "out/b/packed-64") == ["four"]
    assert not (tmp_path / "out/a/packed-64").exists()
    done = run_cli("run", config, "--only", "c", check=False)
    assert done.code == 2
    assert "there is no such step; there are tokenize, a, a/tokenized, pack" in done.stderr
    done = run_cli("run", config)
    assert f"loader = dataprep.DataLoader({{'a': ('{tmp_path}/out/a/packed-64', 1)" in done.stdout


def test_corpora_have_settings_of_their_own(run_cli: RunCli, tmp_path: Path, raw: Path) -> None:
    (raw / "pairs.jsonl").write_text('{"q": "2+2", "a": "4"}\n')
    config = write_config(
        tmp_path / "c.json",
        add_eos=False,
        corpora={
            "text": {"inputs": ["raw/a.jsonl"]},
            "pairs": {"inputs": ["raw/pairs.jsonl"], "fields": "[q],a", "add_eos": True},
        },
    )
    run_cli("run", config)
    shown = run_cli("inspect", tmp_path / "out/pairs/tokenized", "--doc", "0").stdout
    assert "[<bos>2+2]4<eos>" in shown
    assert (
        "one<eos>" not in run_cli("inspect", tmp_path / "out/text/tokenized", "--doc", "0").stdout
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"corpora": {"a": {"field": "x"}}}, "field"),
        ({"corpora": {"../a": {}}}, "names a folder"),
        ({"splits": {"train": 0.5, "validation": 0.4}}, "sum to 0.9"),
        ({"inputs": ["x"], "corpora": {"a": {}}}, "has inputs and corpora"),
        ({"mixture": {"b": 1}}, "mixture names 'b', but the corpora are data"),
        ({"seq_lens": [64, 128, 64]}, "seq_lens names 64 twice"),
        ({"out": "", "inputs": ["raw/a.jsonl"]}, "no output folder"),
    ],
)
def test_a_wrong_config_is_told(
    run_cli: RunCli, tmp_path: Path, raw: Path, values: dict[str, object], message: str
) -> None:
    done = run_cli("run", write_config(tmp_path / "c.json", **values), check=False)
    assert done.code == 2
    assert message in done.stderr


def test_summary_and_metrics_tell_the_figures(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    run_cli("run", config, "--metrics", tmp_path / "m/dataprep.prom")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["steps"][1]["documents"] == 3
    lines = (tmp_path / "m/dataprep.prom").read_text().splitlines()
    assert 'dataprep_step_documents{step="data/packed-64"} 3' in lines
    assert 'dataprep_step_changed{step="data/tokenized"} 1' in lines


def test_a_run_that_is_skipped_says_so(run_cli: RunCli, tmp_path: Path, config: Path) -> None:
    with locked(tmp_path / "out"):
        done = run_cli("run", config, "--if-locked", "skip", "--json")
        logged = run_cli("run", config, "--if-locked", "skip", "--log-format", "json")
    told = json.loads(done.stdout)
    assert told["steps"] == []
    assert told["skipped"].startswith("another run holds ")
    assert json.loads(logged.stderr)["message"] == f"skipped: {told['skipped']}"
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.parametrize("given", [".", "raw/..", "**/*.jsonl", "./**"])
def test_an_input_that_holds_the_output_is_refused(
    run_cli: RunCli, tmp_path: Path, raw: Path, given: str
) -> None:
    config = write_config(tmp_path / "c.json", inputs=[given])
    done = run_cli("run", config, check=False)
    assert done.code == 2
    assert "lies in the input" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "given", ["out/data/tokenized/x.jsonl", "link.jsonl", "out/**/*.jsonl", "local://{home}/out/y"]
)
def test_an_input_inside_the_output_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "out/y").mkdir(parents=True)
    write_lines(tmp_path / "out/data/tokenized/x.jsonl", ["one"])
    (tmp_path / "link.jsonl").symlink_to("out/data/tokenized/x.jsonl")
    names = [given.format(home=tmp_path)]
    config = load_config(RunConfig, files=[str(write_config(tmp_path / "c.json", inputs=names))])
    with pytest.raises(ConfigError, match=r"lies in (out|the input)"):
        StepChain(config=config, cache_dir=tmp_path / "cache")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_an_output_in_another_mount_of_an_input_is_refused(tmp_path: Path, raw: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    if subprocess.run(["mount", "--bind", str(raw), str(other)], check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        path = write_config(tmp_path / "c.json", inputs=["raw"], out="other/prepared")
        with pytest.raises(ConfigError, match=r"lies in the input .*raw"):
            StepChain(
                config=load_config(RunConfig, files=[str(path)]), cache_dir=tmp_path / "cache"
            )
    finally:
        subprocess.run(["umount", str(other)], check=True)


def test_figures_replace_only_figures(tmp_path: Path) -> None:
    mine, figures = tmp_path / "mine.jsonl", tmp_path / "figures.prom"
    mine.write_text('{"text": "precious"}\n')
    with pytest.raises(ConfigError, match=r"mine\.jsonl was not written by dataprep run"):
        check_metrics(mine)
    with pytest.raises(ConfigError, match="is a folder"):
        check_metrics(tmp_path)
    for _ in range(2):
        check_metrics(figures)
        write_metrics(figures, ())


def test_a_file_of_somebody_else_does_not_become_figures(
    run_cli: RunCli, tmp_path: Path, raw: Path, config: Path
) -> None:
    before = (raw / "a.jsonl").read_bytes()
    done = run_cli("run", config, "--metrics", raw / "a.jsonl", check=False)
    assert done.code == 2
    assert (raw / "a.jsonl").read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_a_summary_of_somebody_else_is_not_replaced(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/summary.json").write_text('{"mine": 1}')
    done = run_cli("run", config, check=False)
    assert done.code == 2
    assert "was not written by dataprep run" in done.stderr
    assert (tmp_path / "out/summary.json").read_text() == '{"mine": 1}'


def test_duplicates_are_known_though_the_list_of_parts_is_lost(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], dedup="exact")
    run_cli("run", config)
    (tmp_path / "out/.run/selected.json").write_bytes(b"damaged")
    write_lines(raw / "b.jsonl", ["two", "four"])
    run_cli("run", config)
    assert whole_texts(tmp_path / PACKED) == ["four", "one", "three", "two"]
    counts = json.loads((tmp_path / "out/summary.json").read_text())["steps"][1]["counts"]
    assert counts["documents_duplicate"] == 1


def test_duplicates_are_found_across_corpora_and_survive_a_rebuild(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    write_lines(raw / "b.jsonl", ["two", "four"])
    corpora = {"a": {"inputs": ["raw/a.jsonl"]}, "b": {"inputs": ["raw/b.jsonl"]}}
    config = write_config(tmp_path / "c.json", corpora=corpora, dedup="exact")
    run_cli("run", config)
    assert whole_texts(tmp_path / "out/a/packed-64") == ["one", "three", "two"]
    assert whole_texts(tmp_path / "out/b/packed-64") == ["four"]
    corpora["a"]["add_eos"] = True  # type: ignore[assignment]
    write_config(config, corpora=corpora, dedup="exact")
    run_cli("run", config)
    assert whole_texts(tmp_path / "out/a/packed-64") == ["one", "three", "two"]
    assert whole_texts(tmp_path / "out/b/packed-64") == ["four"]


def test_what_was_forgotten_stays_away_when_the_corpus_is_made_anew(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    values = {"inputs": ["raw/*.jsonl"], "splits": {"train": 0.5, "other": 0.5}}
    config = write_config(tmp_path / "c.json", **values)
    run_cli("run", config)
    (tmp_path / "gone").write_text("a.jsonl:2\n# a remark\n\nnowhere.jsonl:1\n")
    done = run_cli("forget", "out", "--documents", "gone", "--json")
    assert json.loads(done.stdout)["not_found"] == ["nowhere.jsonl:1"]
    write_lines(raw / "b.jsonl", ["two", "four"])  # it comes in again
    write_config(config, **values, on_error="skip", add_eos=True)
    run_cli("run", config)
    texts = [*whole_texts(tmp_path / f"{PACKED}-train"), *whole_texts(tmp_path / f"{PACKED}-other")]
    assert "two" not in texts
    assert {"one", "three", "four"} <= set(texts)
    for folder in (TOKENIZED, f"{PACKED}-train", f"{PACKED}-other"):
        assert b"two" not in b"".join(
            bytes(row["tokens"].astype("u1")) for row in _all(tmp_path / folder)
        )
        run_cli("verify", tmp_path / folder)


def _all(folder: Path) -> list[Any]:
    dataset = open_dataset(folder)
    return [dataset[i] for i in range(len(dataset))]


@pytest.mark.parametrize("dedup", ["none", "exact"])
def test_an_equal_file_of_a_later_night_is_a_part_of_its_own(
    run_cli: RunCli, tmp_path: Path, raw: Path, dedup: str
) -> None:
    config = write_config(tmp_path / "c.json", inputs=["raw/*.jsonl"], dedup=dedup)
    for name in ("b", "c"):
        run_cli("run", config)
        (raw / f"{name}.jsonl").write_bytes((raw / "a.jsonl").read_bytes())
    run_cli("run", config)
    assert texts_of(tmp_path / TOKENIZED) == ["one", "two", "three"] * 3
    times = 1 if dedup == "exact" else 3
    assert whole_texts(tmp_path / PACKED) == sorted(["one", "two", "three"] * times)
    sources = open_dataset(tmp_path / TOKENIZED).about.sources
    assert [Path(source.path).name for source in sources] == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert not any(steps(run_cli, config).values())


def test_one_more_input_of_conversations_is_new_and_leaves_the_rest(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    for name in ("x", "y"):
        turns = [{"role": "user", "content": name}, {"role": "assistant", "content": "yes"}]
        (raw / f"{name}.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    values = {"chat": {"template": "chatml"}, "seq_lens": [128]}
    config = write_config(tmp_path / "c.json", inputs=["raw/x.jsonl"], **values)
    run_cli("run", config)
    write_config(config, inputs=["raw/x.jsonl", "raw/y.jsonl"], **values)
    assert steps(run_cli, config)["data/tokenized"] == [f"1 new file: {raw}/y.jsonl"]
    run_cli("run", config)
    assert not any(steps(run_cli, config).values())


def test_what_a_killed_run_has_made_is_not_made_again(
    run_cli: RunCli, tmp_path: Path, raw: Path, config: Path
) -> None:
    run_cli("run", config)
    write_lines(raw / "b.jsonl", ["four"])
    run_cli("run", config)
    # As if it had been killed when the part was done, before the generation.
    tokenized = tmp_path / TOKENIZED
    (tokenized / "manifest.json").write_bytes((tokenized / "generations/00000.json").read_bytes())
    before = shards(tokenized)
    write_lines(raw / "c.jsonl", ["five"])
    run_cli("run", config)
    assert before.items() <= shards(tokenized).items()
    assert texts_of(tokenized) == ["one", "two", "three", "four", "five"]
    assert [path.name for path in sorted(tokenized.glob("parts/*"))] == ["00000", "00001", "00002"]


def test_verify_finds_what_is_left_of_a_forgotten_document(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    run_cli("run", config)
    (tmp_path / "gone").write_text("a.jsonl:2\n")
    run_cli("forget", "out", "--documents", "gone")
    for folder in (TOKENIZED, PACKED):
        part = tmp_path / folder / "parts/00000-1"
        listed = np.load(part / "provenance/forgotten.npy")
        assert listed.tolist() == [1]
        np.save(part / "provenance/forgotten.npy", np.array([0, 1], "<u8"))
        entry = hash_file(part / "provenance/forgotten.npy")
        size = (part / "provenance/forgotten.npy").stat().st_size

        def now(values: Any, entry: str = entry, size: int = size) -> None:
            values["files"][-1] |= {"xxh3_128": entry, "num_bytes": size}

        edit_manifest(part, now)
        with pytest.raises(CorruptError, match="of a document that was forgotten"):
            verify(part)


def test_rows_of_documents_that_were_made_anew_since_lose_what_is_forgotten(
    run_cli: RunCli, tmp_path: Path, raw: Path
) -> None:
    values = {"inputs": ["raw/*.jsonl"]}
    config = write_config(tmp_path / "c.json", **values)
    run_cli("run", config)
    write_lines(raw / "0.jsonl", ["four", "five"])  # comes in later, and is read first anew
    run_cli("run", config)
    write_config(config, **values, add_eos=True)
    run_cli("run", config, "--only", "tokenize")
    (tmp_path / "gone").write_text("a.jsonl:1\n")
    run_cli("forget", "out", "--documents", "gone")
    for _ in range(2):
        kept = [t for t in documents_in_rows(tmp_path / PACKED) if len(set(t)) > 1]
        assert sorted(map(text_of, kept)) == sorted(["two", "three", "four", "five"])
        run_cli("run", config)


def test_what_is_left_of_the_work_of_a_finished_part_is_removed(
    run_cli: RunCli, tmp_path: Path, config: Path
) -> None:
    run_cli("run", config)
    for folder in (TOKENIZED, PACKED):  # killed when the manifest was there, but not all cleared
        make_work(tmp_path / folder / "parts/00000")
    run_cli("run", config)
    assert not [*(tmp_path / "out").rglob(".work")]


@pytest.mark.parametrize(
    ("settings", "text", "said"),
    [
        ("", '{"txt": "a"}\n', r"set fields\. .* set on_error: skip; .* set on_error: quarantine"),
        ("", "\n", r"the inputs hold no records; allow that with allow_empty: true"),
        ("chat: {}\n", '{"messages": []}\n', r"name one with chat\.template FILE\|NAME"),
    ],
)
def test_errors_speak_of_keys_of_the_config_since_run_has_no_such_flags(
    run_cli: RunCli, tmp_path: Path, settings: str, text: str, said: str
) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    common = "inputs: [a.jsonl]\ntokenizer: bytes\nseq_lens: [8]\nout: out\n"
    (tmp_path / "c.yaml").write_text(common + settings)
    done = run_cli("run", "c.yaml", cwd=tmp_path, check=False)
    assert re.search(said, done.stderr), done.stderr
    assert "--on-error" not in done.stderr
