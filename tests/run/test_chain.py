"""What a chain of corpora does when one of them fails, goes, or reaches its limit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.cli.run import python_lines, run_shown
from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.loaders import open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.clean import clean
from dataprep.pipeline.run.forget import forget, held_in
from dataprep.pipeline.run.forgotten import ForgetRequest
from dataprep.pipeline.run.selections import Selections
from dataprep.pipeline.run.summary import RunOutcome, foresee_all, run_all
from dataprep.pipeline.sources import fingerprint
from support.killable import Killed, dying, without_processes
from support.nights import PAD, texts_of, whole_texts, write_config, write_lines
from support.toy import write_toy_tokenizer
from support.trees import tree

Live = Callable[..., RunOutcome]
AB: dict[str, Any] = {"a": {"inputs": ["raw/a*.jsonl"]}, "b": {"inputs": ["raw/b*.jsonl"]}}


@pytest.fixture
def chain(tmp_path: Path, cache_dir: Path) -> Iterator[Callable[..., StepChain]]:
    def make(**values: Any) -> StepChain:
        write_config(tmp_path / "c.json", **values)
        return StepChain(config=load_config(RunConfig, files=["c.json"]), cache_dir=cache_dir)

    with chdir(tmp_path), without_processes():
        yield make


@pytest.fixture
def live(chain: Callable[..., StepChain]) -> Live:
    return lambda **values: run_all(chain(**values), lambda todo: silent)


def raw(name: str, texts: list[str], mode: str = "w") -> None:
    write_lines(Path("raw") / f"{name}.jsonl", texts, mode=mode)


def packed(corpus: str, ending: str = "") -> list[str]:
    return whole_texts(Path(f"out/{corpus}/packed-64{ending}"))


def why(chain: StepChain) -> dict[str, tuple[str, ...]]:
    return {todo.step.folder: todo.reasons for todo in foresee_all(chain)[0]}


# --- what is printed ---


def test_the_printed_lines_load_what_has_rows(chain: Callable[..., StepChain]) -> None:
    raw("a", ["one"])
    raw("b", ["two"])
    made = chain(corpora=AB, splits={"rare": 0.001, "usual": 0.999}, mixture={"b": 1.0})
    steps = run_all(made, lambda todo: silent).steps
    assert [done.counts["rows"] for done in steps if "rows" in done.counts] == [0, 1, 0, 1]
    found: dict[str, Any] = {}
    exec("\n".join(python_lines(steps, made)), found)
    (dataset,) = found["loader"].datasets.values()
    assert str(dataset.folder) == "out/b/packed-64-usual"
    assert found["batch"]["inputs"].shape == (8, 64)
    assert python_lines([done for done in steps if not done.counts.get("rows")], made) == []


def test_the_printed_lines_mix_only_what_has_the_same_ids(
    chain: Callable[..., StepChain], tmp_path: Path
) -> None:
    for name in "abc":
        raw(name, ["one"])
    toy = {"tokenizer": str(write_toy_tokenizer(tmp_path))}
    corpora = {**AB, "b": {**AB["b"], **toy}, "c": {"inputs": ["raw/c.jsonl"]}}
    for mixture, loaded in (({}, ["a", "c"]), ({"b": 0.5, "c": 0.5}, [""]), ({"a": 1.0}, [""])):
        made = chain(corpora=corpora, mixture=mixture)
        found: dict[str, Any] = {}
        exec("\n".join(python_lines(run_all(made, lambda todo: silent).steps, made)), found)
        assert [*found["loader"].datasets] == loaded


# --- a corpus that fails ---


def test_the_other_corpora_go_on_if_one_fails(
    chain: Callable[..., StepChain], live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    raw("a", ["one"])
    raw("b", ["two"])
    live(corpora=AB)
    raw("a", ["other"])
    raw("b2", ["three"])
    with pytest.raises(
        ConflictError, match=r"out/a/tokenized was made from .*raw/a\.jsonl changed"
    ):
        run_shown(chain(corpora=AB), wait=False, quiet=False, verbose=False, log_format="text")
    said = capsys.readouterr().err  # the error is printed by who catches it, once
    assert "a/tokenized: failed, as is told at the end; other corpora go on" in said
    assert "changed" not in said
    assert packed("b") == ["three", "two"]
    assert packed("a") == ["one"]


def test_all_that_failed_is_told_with_the_exit_code_of_the_first(live: Live) -> None:
    for name in "ab":
        raw(name, [name])
    live(corpora=AB)
    raw("a", ["other"])
    Path("raw/b.jsonl").unlink()
    raw("b3", ["three"])
    with pytest.raises(ConflictError, match=r"a.jsonl changed.*and of b/tokenized: .* is gone"):
        live(corpora=AB)


# --- nothing new ---


def test_a_run_with_nothing_new_opens_no_input(
    live: Live, chain: Callable[..., StepChain], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(130):  # with fewer it is as fast to read them
        raw(f"{number}", [f"text {number}"])
        os.utime(f"raw/{number}.jsonl", (1, 1))  # what was written just now may change unseen
    values = {"inputs": ["raw/*.jsonl"]}
    live(**values)
    asked: list[str] = []
    opened = fingerprint.open_regular
    monkeypatch.setattr(
        fingerprint, "open_regular", lambda path: asked.append(str(path)) or opened(path)
    )
    assert live(**values).was_complete
    assert not any(why(chain(**values)).values())
    assert not asked
    raw("130", ["new"])
    live(**values)
    assert {*asked} == {str(Path("raw/130.jsonl").absolute())}


# --- inputs that are ignored ---


@pytest.mark.parametrize("what", ["fields", "template"])
def test_what_is_set_for_some_inputs_is_compared_though_others_are_ignored(
    live: Live, what: str
) -> None:
    """Else what is there stays as it is, and what is new is made otherwise."""
    Path("raw").mkdir()
    for name in "ab":
        turns = [{"role": role, "content": f"{role} {name}"} for role in ("user", "assistant")]
        record = {"text": name, "title": f"title {name}", "messages": turns}
        Path(f"raw/{name}.jsonl").write_text(f"{json.dumps(record)}\n")
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}END\n{% endfor %}"
    Path("t.jinja").write_text(template)
    own: dict[str, Any] = {"path": "raw/*.jsonl"}
    own |= {"fields": "text"} if what == "fields" else {"chat": {"template": "t.jinja"}}
    values = {"inputs": [own], "on_changed": "ignore"}
    live(**values)
    Path("raw/a.jsonl").unlink()
    assert live(**values).was_complete
    Path("t.jinja").write_text(template.replace("END", "end"))
    own |= {"fields": "title"} if what == "fields" else {}
    told = {
        "fields": r"for input .*raw/b\.jsonl fields: 'text' -> 'title'",
        "template": r"chat templates\.default: sha256:[0-9a-f]{12}… -> sha256",
    }
    with pytest.raises(ConflictError, match=rf"would be made anew \({told[what]}.*a\.jsonl"):
        live(**values)


# --- duplicates whose first copy goes ---


@pytest.mark.parametrize("splits", [{}, {"train": 0.5, "validation": 0.5}])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_duplicate_is_packed_when_its_first_copy_goes(
    live: Live, splits: dict[str, float], order: str
) -> None:
    corpora = {name: AB[name] for name in order}
    values = {"corpora": corpora, "dedup": "exact", "splits": splits, "on_changed": "rebuild"}
    first, second = order
    raw(first, ["same", "first"])
    raw(second, ["same", "second", "same"])
    live(**values)
    endings = [f"-{name}" for name in splits] or [""]

    def all_of(corpus: str) -> list[str]:
        return sorted(text for ending in endings for text in packed(corpus, ending))

    assert (all_of(first), all_of(second)) == (["first", "same"], ["second"])
    raw(first, ["first", "else"])
    live(**values)
    assert (all_of(first), all_of(second)) == (["else", "first"], ["same", "second"])
    assert live(**values).was_complete
    raw(first, ["same", "first"])  # it comes back: now the other one is the first
    live(**values)
    assert (all_of(first), all_of(second)) == (["first"], ["same", "second"])


def test_a_corpus_that_is_made_anew_keeps_its_own(live: Live) -> None:
    values = {"corpora": AB, "dedup": "exact", "on_changed": "rebuild"}
    raw("a", ["same", "first"])
    raw("b", ["same", "second"])
    live(**values)
    before = Path("out/b/packed-64/manifest.json").read_bytes()
    raw("a", ["same", "first", "more"])
    live(**values)
    assert packed("a") == ["first", "more", "same"]
    assert Path("out/b/packed-64/manifest.json").read_bytes() == before


def test_a_first_copy_may_go_while_there_is_no_dedup(live: Live) -> None:
    """What was selected before that does not hold any more when dedup is set again."""
    values: dict[str, Any] = {"corpora": AB, "on_changed": "rebuild"}
    raw("a", ["same", "first"])
    raw("b", ["same", "second"])
    live(**values, dedup="exact")
    raw("a", ["first"])
    live(**values)
    live(**values, dedup="exact")
    assert (packed("a"), packed("b")) == (["first"], ["same", "second"])


def test_a_corpus_that_leaves_the_config_leaves_its_documents_to_others(live: Live) -> None:
    raw("a", ["same", "first"])
    raw("b", ["same", "second"])
    live(corpora=AB, dedup="exact")
    live(corpora={"b": AB["b"]}, dedup="exact")
    assert packed("b") == ["same", "second"]
    live(corpora=AB, dedup="exact")
    assert (packed("a"), packed("b")) == (["first"], ["same", "second"])
    raw("a", ["same"])
    raw("b", ["same"])
    for corpora in (AB, {"b": AB["b"]}, AB):  # files that are alike
        live(corpora=corpora, dedup="exact", out="alike")
    assert len(whole_texts(Path("alike/a/packed-64")) + whole_texts(Path("alike/b/packed-64"))) == 1


def test_a_death_while_selections_are_replaced_leaves_the_old_or_the_new(
    chain: Callable[..., StepChain],
) -> None:
    """They could not be made again: what they were made after has gone."""
    raw("a", ["first", "second", "third"])
    raw("b", ["first", "second", "other"])
    made = chain(corpora=AB, dedup="exact", on_changed="rebuild")
    run_all(made, lambda todo: silent)
    raw("a", ["second", "third", "fourth"])
    run_all(replace(made, only=["tokenize"]), lambda todo: silent)
    state, selections = Path("out/.run"), Selections(config=made.config)
    shutil.copytree(state, "before")
    selections.replace_lost()
    wanted = tree(state)
    for number in count(1):
        shutil.rmtree(state)
        shutil.copytree("before", state)
        try:
            with dying(number):
                selections.replace_lost()
        except Killed:
            with dying():
                selections.replace_lost()
        else:
            break
        assert tree(state) == wanted, number
    assert number > 20
    run_all(made, lambda todo: silent)
    assert (packed("a"), packed("b")) == (["fourth", "second", "third"], ["first", "other"])


def test_a_corpus_that_comes_back_after_a_death_doubles_and_loses_nothing(
    chain: Callable[..., StepChain],
) -> None:
    raw("a", ["first", "second"])
    raw("b", ["first", "second", "other"])
    both, one = (chain(corpora=each, dedup="exact") for each in (AB, {"b": AB["b"]}))
    run_all(both, lambda todo: silent)
    shutil.copytree("out/.run", "before")
    for number in count(1):
        shutil.rmtree("out/.run")
        shutil.copytree("before", "out/.run")
        try:
            with dying(number):
                Selections(config=one.config).replace_lost()
        except Killed:
            run_all(both, lambda todo: silent)
        else:
            break
        assert sorted(packed("a") + packed("b")) == ["first", "other", "second"], number


# --- what is forgotten ---


def test_a_rebuild_leaves_no_part_that_holds_what_is_forgotten(live: Live) -> None:
    values = {"corpora": AB, "on_changed": "rebuild"}
    raw("a", ["keep", "unwanted"])
    raw("b", ["other"])
    live(**values)
    forget(Path("out"), [ForgetRequest(path="raw/a.jsonl", line=2)])
    raw("a", ["more", "keep", "unwanted"])
    live(**values)
    assert packed("a") == ["keep", "more"]
    for folder in ("tokenized", "packed-64"):
        names = {place.name for place in Path(f"out/a/{folder}/parts").iterdir()}
        assert names == {"00000", "00000-1", "00001-1"}, folder  # 00000 is of generation 0
    assert live(**values).was_complete


@pytest.mark.parametrize("splits", [{}, {"train": 0.999, "rare": 0.001}])
def test_rows_that_were_first_packed_without_a_document_lose_more_where_they_are(
    live: Live, splits: dict[str, float]
) -> None:
    """What they would have been made of is not there any more."""
    values: dict[str, Any] = {"inputs": ["raw/*.jsonl"], "splits": splits}
    raw("a", [f"text {i} " * (1 + i % 3) for i in range(30)])
    live(**values)
    folder = Path("out/data/packed-128" + ("-train" if splits else ""))
    forget(Path("out"), [ForgetRequest(path="raw/a.jsonl", line=2)])
    clean(Path("out"), keep=1, go=True)
    live(**values, seq_lens=[64, 128])
    before = open_dataset(folder)[:]["tokens"].copy()
    for line in (5, 7):
        forgot = forget(Path("out"), [ForgetRequest(path="raw/a.jsonl", line=line)])
        assert not forgot.behind
        assert live(**values, seq_lens=[64, 128]).was_complete
        clean(Path("out"), keep=1, go=True)
        assert not held_in(Path("out"))
        now = open_dataset(folder)[:]["tokens"]
        assert ((now == before) | (now == PAD)).all()
    gone = {f"text {i} " * (1 + i % 3) for i in (1, 4, 6)}
    every = {f"text {i} " * (1 + i % 3) for i in range(30)}
    assert {*whole_texts(folder)} == every - gone


def test_a_line_is_forgotten_in_copies_of_its_file_that_another_corpus_reads_in_its_own_way(
    live: Live,
) -> None:
    def write(name: str, texts: list[str], mode: str = "w") -> None:
        with open(f"raw/{name}.jsonl", mode) as file:
            file.writelines(f'{{"text": "{text}", "title": "of {text}"}}\n' for text in texts)

    corpora = {"a": AB["a"], "b": {**AB["b"], "fields": "title"}}
    Path("raw").mkdir()
    write("a", ["one", "two"])
    write("b0", ["four"])
    live(corpora=corpora, append=True)
    write("a", ["three"], "a")
    write("b", ["one", "two", "three"])  # as a is now
    live(corpora=corpora, append=True)
    found = forget(Path("out"), [ForgetRequest(path="a.jsonl", line=n) for n in (1, 3)])
    assert [each.document for each in found.documents] == [0, 2, 1, 3]
    shutil.copy("raw/a.jsonl", "raw/b1.jsonl")
    live(corpora=corpora, append=True)
    assert (packed("a"), packed("b")) == (["two"], ["of four", "of two", "of two"])
    assert not held_in(Path("out"))


@pytest.mark.parametrize("given", ["out/a", "out/a/tokenized", "out/a/packed-64"])
def test_forget_names_the_folder_of_the_run_if_it_is_given_a_dataset(
    live: Live, tmp_path: Path, given: str
) -> None:
    raw("a", ["one"])
    raw("b", ["two"])
    live(corpora=AB)
    with pytest.raises(ConfigError, match=f"name {tmp_path}/out$"):
        forget(Path(given), [ForgetRequest(path="raw/a.jsonl", line=1)])


# --- limits and appended lines ---


def test_a_limit_holds_for_all_parts_together(live: Live, chain: Callable[..., StepChain]) -> None:
    values = {"inputs": ["raw/*.jsonl"], "limit": 5}
    raw("a", ["1", "2", "3"])
    live(**values)
    raw("b", ["4", "5", "6"])
    live(**values)
    assert texts_of(Path("out/data/tokenized")) == ["1", "2", "3", "4", "5"]
    raw("c", ["7"])
    assert not any(why(chain(**values)).values())
    done = live(**values)
    assert done.was_complete
    assert "the limit of 5 records is reached: 1 new file" in done.steps[0].todo.notes[0]
    live(**{**values, "limit": 6})
    assert texts_of(Path("out/data/tokenized")) == ["1", "2", "3", "4", "5", "6"]


def test_a_limit_is_of_records_of_which_one_may_hold_several_documents(live: Live) -> None:
    keys = {"tokens": "ids", "lengths": "lengths"}
    values = {"inputs": ["raw/*.jsonl"], "limit": 3, "pretokenized": keys}
    Path("raw").mkdir()
    for name, first in (("a", 0), ("b", 10)):
        rows = (
            {"ids": [256, n, 257, 256, n + 1, 257], "lengths": [3, 3]} for n in (first, first + 2)
        )
        Path(f"raw/{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        live(**values)
    texts = texts_of(Path("out/data/tokenized"))
    assert texts == [chr(n) for n in (0, 1, 2, 3, 10, 11)]


def test_a_last_line_whose_newline_comes_with_the_next_is_whole(live: Live) -> None:
    values = {"inputs": ["raw/*.jsonl"], "append": True}
    path = Path("raw/a.jsonl")
    path.parent.mkdir()
    path.write_text('{"text": "one"}\n{"text": "two"}')
    live(**values)
    with path.open("a") as file:
        file.write('\n{"text": "three"}')
    live(**values)
    assert live(**values).was_complete
    with path.open("a") as file:
        file.write('\r\n{"text": "four"}\n')
    live(**values)
    assert texts_of(Path("out/data/tokenized")) == ["one", "two", "three", "four"]
    forget(Path("out"), [ForgetRequest(path="raw/a.jsonl", line=3)])
    assert packed("data") == ["four", "one", "two"]


def test_a_newline_alone_is_nothing_new_to_read(live: Live) -> None:
    values = {"inputs": ["raw/*.jsonl"], "append": True}
    Path("raw").mkdir()
    Path("raw/a.jsonl").write_text('{"text": "one"}')
    live(**values)
    Path("raw/a.jsonl").write_text('{"text": "one"}\n')
    live(**values)
    assert live(**values).was_complete
    Path("raw/a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    live(**values)
    assert packed("data") == ["one", "two"]


def test_a_last_line_that_goes_on_has_changed(live: Live) -> None:
    values = {"inputs": ["raw/*.jsonl"], "append": True}
    Path("raw").mkdir()
    Path("raw/a.jsonl").write_text('{"text": "one"}\n17')
    with pytest.raises(Exception, match=r"17|object"):
        live(**values)
    Path("raw/a.jsonl").write_text('{"text": "one"}\n{"text": "two"}')
    live(**values)
    with Path("raw/a.jsonl").open("a") as file:
        file.write(' \n{"text": "three"}\n')
    with pytest.raises(ConflictError, match=r"a\.jsonl changed"):
        live(**values)


# --- what is said ---


def test_why_tells_more_than_that_nothing_is_selected(chain: Callable[..., StepChain]) -> None:
    values: dict[str, Any] = {"corpora": AB, "dedup": "exact"}
    raw("a", ["one"])
    raw("b", ["two"])
    run_all(chain(**values), lambda todo: silent)
    folder = "a/packed-64"
    split = {**values, "splits": {"train": 0.5, "validation": 0.5}}
    assert why(chain(**split))[f"{folder}-train"] == ("it is not there yet",)
    assert why(chain(**values))[folder] == ()
    told = ("dedup: 'exact' -> 'none'",)
    assert why(chain(corpora=AB))[folder] == told
    assert run_all(chain(corpora=AB), lambda todo: silent).steps[1].todo.reasons == told
    told = ("dedup: 'none' -> 'exact'",)
    assert why(chain(**values))[folder] == told
    assert run_all(chain(**values), lambda todo: silent).steps[2].todo.reasons == told
    shutil.rmtree("out/.run/selections")
    assert why(chain(**values))[folder] == ("out/.run/selections is lost",)
    run_all(chain(**values), lambda todo: silent)
    run_all(chain(**split), lambda todo: silent)
    (told,) = why(chain(**{**split, "splits": {"train": 0.6, "validation": 0.4}}))[
        f"{folder}-train"
    ]
    assert told.startswith("splits has other rates than before, or ")
    forget(Path("out"), [ForgetRequest(path="raw/a.jsonl", line=1)])
    assert not any(why(chain(**values)).values())
    raw("b", ["changed"])
    todos, failure = foresee_all(chain(**values))
    assert [todo.step.folder for todo in todos] == ["a/tokenized", folder]
    assert isinstance(failure, ConflictError)


def test_what_is_packed_anew_for_other_splits_is_told_without_names_of_files(live: Live) -> None:
    raw("a", [f"text {i}" for i in range(30)])
    both: dict[str, Any] = {"corpora": {"a": AB["a"]}, "seq_lens": [64]}
    live(**both, splits={"train": 0.9, "validation": 0.1})
    made = live(**both, splits={"train": 0.5, "validation": 0.5})
    told = {done.todo.step.folder: done.todo.reasons for done in made.steps}
    select = ("splits has other rates than before, or out/.run/selections is lost",)
    assert told == {
        "a/tokenized": (),
        "a/packed-64-train": select,
        "a/packed-64-validation": select,
    }


def test_verify_and_log_take_the_folder_of_a_run(
    live: Live, run_cli: RunCli, tmp_path: Path
) -> None:
    raw("a", ["one"])
    raw("b", ["two"])
    live(corpora=AB)
    names = ["a/packed-64", "a/tokenized", "b/packed-64", "b/tokenized"]
    shown = run_cli("verify", "out").stdout.splitlines()
    assert [line.partition(": whole")[0] for line in shown] == [f"out/{name}" for name in names]
    found = json.loads(run_cli("verify", "out", "--against", "out", "--json").stdout)
    assert [each["folder"] for each in found["datasets"]] == [f"out/{name}" for name in names]
    assert all(each["files_equal"] for each in found["datasets"])
    history = json.loads(run_cli("log", "out", "--json").stdout)
    assert {name: len(each) for name, each in history.items()} == {f"out/{n}": 1 for n in names}
    shard = next(Path("out/b/tokenized").rglob("*.arrayrecord"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert run_cli("verify", "out", check=False).code == 5


def test_a_dataset_of_a_run_without_its_manifest_is_not_passed_over(
    live: Live, run_cli: RunCli
) -> None:
    raw("a", ["one"])
    raw("b", ["two"])
    live(corpora=AB)
    Path("out/summary.json").unlink()  # which a first run that was killed did not write
    run_cli("verify", "out")
    Path("out/a/packed-64/manifest.json").unlink()
    lines = run_cli("log", "out").stdout.splitlines()
    assert "out/a/packed-64: unfinished, it has no manifest yet" in lines
    assert "out/b/packed-64" in lines
    done = run_cli("verify", "out", check=False)
    assert (
        "has parts and no manifest.json, so it is unfinished; dataprep run goes on" in done.stderr
    )
    assert done.code == 5
    assert "out/a/packed-64" in done.stderr


@pytest.mark.parametrize("folder", ["tokenized", "packed-64"])
def test_a_dataset_whose_folder_was_moved_away_is_made_again(live: Live, folder: str) -> None:
    values = {"corpora": AB, "dedup": "exact"}
    raw("a", ["one", "same", "unwanted"])
    raw("b", ["same", "two"])
    live(**values)
    forget(Path("out"), [ForgetRequest(path="raw/a.jsonl", line=3)])
    Path(f"out/a/{folder}").rename("away")
    live(**values)
    assert (packed("a"), packed("b")) == (["one", "same"], ["two"])
    assert live(**values).was_complete
