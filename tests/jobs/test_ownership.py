"""Nothing that is not ours is ever removed, and nothing is read from the folder that is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import RunCli, Sample
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError
from dataprep.pipeline.files import write_sealed
from dataprep.pipeline.jobs import ownership
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.ownership import IDENTITY, make_work, remove_work
from dataprep.pipeline.jobs.workspace import begun_in, distrust, why_distrusted
from dataprep.pipeline.tokenize import tokenize
from support.encoding import png
from support.here import make_here
from support.inprocess import write_lines
from support.killable import Killed, dying
from support.trees import tree


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "in.jsonl", [{"text": f"document {i}"} for i in range(50)])


def make(out: Path, corpus: Path, *, overwrite: bool = False, fields: str = "text") -> None:
    """What becomes of files is the parent's part: no workers are needed."""
    values = {"inputs": [str(corpus)], "tokenizer": "bytes", "fields": fields}
    make_here("tokenize", out, values, overwrite=overwrite)


def foreign_work(out: Path) -> None:
    (out / ".work").mkdir(parents=True)
    (out / ".work" / "mine").write_text("x")


def foreign_manifest(out: Path) -> None:
    out.mkdir()
    (out / "manifest.json").write_text("{}")


def manifest_of_a_web_app(out: Path) -> None:
    out.mkdir()
    (out / "manifest.json").write_text('{"name": "app", "checksum": "x", "icons": [{"path": "a"}]}')


def linked_work(out: Path) -> None:
    out.mkdir()
    (out.parent / "elsewhere").mkdir()
    (out.parent / "elsewhere" / "mine").write_text("x")
    (out / ".work").symlink_to(out.parent / "elsewhere")


def files_only(out: Path) -> None:
    out.mkdir()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "what", [foreign_work, foreign_manifest, manifest_of_a_web_app, linked_work, files_only]
)
def test_a_folder_of_somebody_else_is_refused_and_kept(
    run_cli: RunCli, corpus: Path, tmp_path: Path, what: Callable[[Path], None], overwrite: bool
) -> None:
    out = tmp_path / "out"
    what(out)
    for folder in ("shards", "index", "provenance", "keys"):
        (out / folder).mkdir()
        (out / folder / "precious.bin").write_text("x")
    (out / "errors.jsonl").write_text("x")
    before = tree(tmp_path)
    flags = ("--overwrite",) if overwrite else ()
    done = run_cli("tokenize", corpus, "--tokenizer", "bytes", "--out", out, *flags, check=False)
    assert done.code in (2, 5)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    [
        *("shards/precious.bin", "index/a/b", "provenance/x.npy", "keys/x.npy"),
        *("errors.jsonl", "notes.txt"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_a_file_of_somebody_else_among_ours_stops_an_overwrite(
    corpus: Path, tmp_path: Path, name: str, finished: bool
) -> None:
    out = tmp_path / "out"
    make(out, corpus)
    if not finished:
        (out / ".work").mkdir()
        (out / ".work" / ownership.MARK).write_bytes(ownership.MARK_TEXT)
        os.replace(out / "manifest.json", out / ".work" / ownership.REMOVED)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("x")
    before = tree(out)
    with pytest.raises(ConfigError, match=f"holds {name}, which dataprep did not write"):
        make(out, corpus, overwrite=True)
    assert tree(out) == before


@pytest.mark.parametrize("name", ["shards/mine", "index/a/b", "provenance/x", "errors.jsonl"])
@pytest.mark.parametrize("finished", [True, False])
def test_an_empty_folder_of_somebody_else_among_ours_stops_an_overwrite(
    corpus: Path, tmp_path: Path, name: str, finished: bool
) -> None:
    out = tmp_path / "out"
    make(out, corpus)
    if not finished:
        ownership.make_work(out)
        os.replace(out / "manifest.json", out / ".work" / ownership.REMOVED)
    (out / name).mkdir(parents=True)
    before = tree(out)
    with pytest.raises(ConfigError, match=f"holds {name}/, which dataprep did not write"):
        make(out, corpus, overwrite=True)
    assert tree(out) == before
    assert (out / name).is_dir()


@pytest.mark.parametrize("part", ["shards", "index", "provenance"])
@pytest.mark.parametrize("becomes", ["folder", "file"])
def test_a_file_or_folder_of_ours_that_became_the_other_stops_an_overwrite_before_it_begins(
    corpus: Path, tmp_path: Path, part: str, becomes: str
) -> None:
    out = tmp_path / "out"
    make(out, corpus)
    name = min((out / part).iterdir())
    if becomes == "folder":
        name.unlink()
        name.mkdir()
    else:
        shutil.rmtree(out / part)
        (out / part).write_text("mine")
    with pytest.raises(ConfigError, match=f"holds {part}.*, which dataprep did not write"):
        make(out, corpus, overwrite=True)
    assert (out / "manifest.json").exists()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_a_manifest_that_somebody_is_writing_is_not_overwritten(
    corpus: Path, tmp_path: Path, finished: bool, overwrite: bool
) -> None:
    out = tmp_path / "out"
    if finished:
        make(out, corpus, fields="text,text")
    out.mkdir(exist_ok=True)
    (out / "manifest.json.tmp").write_text("mine")
    with pytest.raises((ConfigError, ConflictError)):
        make(out, corpus, overwrite=overwrite)
    assert (out / "manifest.json.tmp").read_text() == "mine"


@pytest.mark.parametrize("exists", [False, True])
def test_a_manifest_that_is_a_link_is_not_ours(corpus: Path, tmp_path: Path, exists: bool) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    if exists:
        make(other, corpus)
    out.mkdir()
    (out / "manifest.json").symlink_to(other / "manifest.json")
    with pytest.raises(ConfigError, match="is a link"):
        make(out, corpus, overwrite=True)
    assert (out / "manifest.json").is_symlink()


@pytest.mark.parametrize("name", [".work/notes.txt", ".work/tasks/mine", ".work/mine/n"])
def test_a_file_of_somebody_else_in_the_work_folder_stops_the_run(
    corpus: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    ownership.make_work(out)
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="which dataprep did not write"):
            make(out, corpus, overwrite=overwrite)
    assert (out / name).read_text() == "mine"


@pytest.mark.parametrize("change", [b"", b"[]", b"{", b'{"checksum": "x"}'])
def test_an_overwrite_needs_a_manifest_that_says_what_is_ours(
    corpus: Path, tmp_path: Path, change: bytes
) -> None:
    out = tmp_path / "out"
    make(out, corpus)
    (out / "manifest.json").write_bytes(change)
    before = tree(out)
    with pytest.raises((ConfigError, CorruptError), match="which files are dataprep's"):
        make(out, corpus, overwrite=True)
    assert tree(out) == before


def test_a_linked_folder_is_not_written_through(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out, corpus)
    shutil.move(out / "shards", tmp_path / "elsewhere")
    (out / "shards").symlink_to(tmp_path / "elsewhere")
    before = tree(tmp_path)
    with pytest.raises(ConfigError, match="is a link"):
        make(out, corpus, overwrite=True)
    assert tree(tmp_path) == before


def test_an_overwrite_that_is_interrupted_anywhere_goes_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, clean = tmp_path / "old", tmp_path / "clean"
    make(old, corpus, fields="text,text")
    make(clean, corpus)
    fired = 0
    unlink = Path.unlink
    for number in range(10):
        out = tmp_path / f"out{number}"
        shutil.copytree(old, out)
        left = [number]

        def stop(self: Path, left: list[int] = left, **options: bool) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            unlink(self, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", stop)
            try:
                ownership.remove_dataset(out)
            except KeyboardInterrupt:
                fired += 1
        make(out, corpus)
        assert tree(out) == tree(clean)
    # Three files of a shard, card, pieces.json, manifest, what may be left of that, the identity
    # of a run, the mark.
    assert fired == 9


def test_a_work_folder_is_ours_from_its_first_moment_to_its_last(
    corpus: Path, tmp_path: Path
) -> None:
    """As kills leave it: before the mark has its name, and after all but the mark is gone."""
    make(tmp_path / "clean", corpus)
    for name, leftovers in (
        ("empty", {}),
        ("early", {f"{ownership.MARK}.tmp": b""}),
        ("late", {ownership.MARK: ownership.MARK_TEXT}),
    ):
        for finished in (False, True):
            out = tmp_path / f"{name}{finished}"
            if finished:
                make(out, corpus)
            (out / ".work").mkdir(parents=True)
            for leftover, data in leftovers.items():
                (out / ".work" / leftover).write_bytes(data)
            make(out, corpus)
            assert tree(out) == tree(tmp_path / "clean")


def test_the_mark_of_a_work_folder_is_removed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = ownership.make_work(tmp_path)
    for name in ("a", "z.json"):
        (work / name).write_text("x")
    (work / "tasks").mkdir()
    removed: list[str] = []
    unlink = Path.unlink

    def note(self: Path, **options: bool) -> None:
        removed.append(self.name)
        unlink(self, **options)

    monkeypatch.setattr(Path, "unlink", note)
    ownership.remove_work(work)
    assert removed[-1] == ownership.MARK
    assert not work.exists()


@pytest.mark.parametrize("name", [".work/dataprep-work", ".work/publish.json", "manifest.json"])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_something_else_where_a_file_of_ours_is_expected_is_refused_at_once(
    run_cli: RunCli, corpus: Path, tmp_path: Path, name: str, kind: str
) -> None:
    out = tmp_path / "out"
    ownership.make_work(out)
    (out / name).unlink(missing_ok=True)
    (out / name).mkdir() if kind == "folder" else os.mkfifo(out / name)
    words = ("tokenize", corpus, "--tokenizer", "bytes", "--out", out, "--overwrite")
    done = run_cli(*words, check=False, timeout=30)
    assert done.code in (0, 2, 5), done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_is_too_long_is_a_mistake(
    run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    words = ("tokenize", corpus, "--tokenizer", "bytes", "--out", tmp_path / ("x" * 300))
    done = run_cli(*words, check=False)
    assert done.code == 2
    assert "File name too long" in done.stderr


def test_a_publication_that_is_given_up_leaves_nothing_behind(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}, "{bad", {"text": "b"}])
    values = {"inputs": [str(path)], "tokenizer": "bytes", "out": str(tmp_path / "out")}

    def run(on_error: str) -> None:
        config = TokenizeConfig.model_validate({**values, "on_error": on_error})
        tokenize(config, cache_dir=tmp_path / "cache")

    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # All is moved, but the manifest is not written.
        patch.setattr("dataprep.pipeline.jobs.publish.write_atomic", stop)
        with pytest.raises(KeyboardInterrupt):
            run("quarantine")
    assert (tmp_path / "out" / "errors.jsonl").exists()
    run("skip")
    run_cli("verify", tmp_path / "out")


def test_a_try_that_committed_nothing_does_not_block_its_correction(
    run_cli: RunCli, corpus: Path, tmp_path: Path
) -> None:
    words = ("tokenize", corpus, "--tokenizer", "bytes", "--out", tmp_path / "out")
    assert run_cli(*words, "--fields", "body", check=False).code == 3
    assert (tmp_path / "out" / ".work").is_dir()
    run_cli(*words)


# --- what is read may not be in the folder that is written ----------------------------------------


@pytest.fixture
def with_inputs(tmp_path: Path, corpus: Path) -> Path:
    """A finished dataset with an input, a tokenizer and so on in it, at the top."""
    folder = tmp_path / "out"
    make(folder, corpus)
    (folder / "own").mkdir()
    shutil.copy(corpus, folder / "own" / "a.jsonl")
    (folder / "own" / "a.png").write_bytes(png(1))
    with zipfile.ZipFile(folder / "own" / "in.zip", "w") as archive:
        archive.write(corpus, "a.jsonl")
    return folder


@pytest.mark.parametrize(
    "spelling",
    [
        "{out}/own/a.jsonl",
        "{out}/own",
        "{out}/own/*.jsonl",
        "{out}/../out/own/a.jsonl",
        "file://{out}/own/a.jsonl",
        "local://{out}/own/a.jsonl",
        "zip://a.jsonl::{out}/own/in.zip",
        "zip://a.jsonl::file://{out}/own/in.zip",
        "zip://a.jsonl::file:{out}/own/in.zip",
        "zip://a.jsonl::{out}/own/in.zip/",
        "zip://a.jsonl::dir://own/in.zip::{out}",
        "dir://out/own/a.jsonl::{tmp}",
        "dir:///out/own/*.jsonl::file://{tmp}",
        "dir://own/a.jsonl::dir://out::{tmp}",
        "simplecache::dir://out/own/a.jsonl::{tmp}",
        "simplecache://{out}/own/a.jsonl::file:///",
        "{tmp}/linked/own/a.jsonl",
        "{tmp}/link.jsonl",
        "{tmp}/hard.jsonl",
    ],
)
def test_an_input_inside_the_output_is_refused_however_it_is_spelt(
    run_cli: RunCli, tmp_path: Path, with_inputs: Path, spelling: str
) -> None:
    out = with_inputs
    (tmp_path / "linked").symlink_to(out)
    (tmp_path / "link.jsonl").symlink_to(out / "own" / "a.jsonl")
    os.link(out / "own" / "a.jsonl", tmp_path / "hard.jsonl")
    before = tree(tmp_path)
    words = ("tokenize", spelling.format(out=out, tmp=tmp_path), "--tokenizer", "bytes")
    done = run_cli(*words, "--out", out, "--overwrite", check=False)
    assert done.code == 2, done.stderr
    assert "is or holds the input" in done.stderr
    assert tree(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_an_input_inside_the_output_by_another_name_of_its_mount_is_refused(
    tmp_path: Path, with_inputs: Path
) -> None:
    out = with_inputs
    (tmp_path / "mounted").mkdir()
    mounted = subprocess.run(["mount", "--bind", out, tmp_path / "mounted"], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode()}")
    try:
        with pytest.raises(ConfigError, match="is or holds"):
            refuse_overlap(out, [str(tmp_path / "mounted" / "own" / "a.jsonl")])
    finally:
        subprocess.run(["umount", tmp_path / "mounted"], check=True)


def test_a_tokenizer_a_config_and_weights_inside_the_output_are_refused(
    run_cli: RunCli, sample: Sample, corpus: Path, tmp_path: Path, with_inputs: Path
) -> None:
    out = with_inputs
    shutil.copy(sample.tokenizer, out / "own" / "tokenizer.json")
    (out / "own" / "c.yaml").write_text("add_bos: false")
    (out / "own" / "w.safetensors").write_bytes(b"x")
    before = tree(out)
    tokenize = ("tokenize", corpus, "--out", out, "--overwrite", "--tokenizer")
    for words in (
        (*tokenize, out / "own"),
        (*tokenize, "bytes", "--config", out / "own" / "c.yaml"),
    ):
        done = run_cli(*words, check=False)
        assert done.code == 2, done.stderr
        assert "is or holds the input" in done.stderr
        assert tree(out) == before


def test_no_run_goes_on_with_what_a_removal_that_was_killed_has_left(tmp_path: Path) -> None:
    for kills in range(20):
        work = make_work(tmp_path / str(kills))
        distrust(work, "because of the test")
        write_sealed(work / IDENTITY, b"{}")
        (work / "tasks").mkdir()
        (work / "tasks" / "000000-1f3a-0000.done").touch()
        try:
            with dying(kills + 1):
                remove_work(work)
        except Killed:
            assert why_distrusted(work) or begun_in(work) is None
        else:
            assert kills > 5
            return
    raise AssertionError("it was never removed")
