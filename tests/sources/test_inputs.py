"""What an input may be: given once, checked where it is a dataset of codes, bounded where it is
compressed; a folder says what it leaves out."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from conftest import RunCli
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import ConfigError, CorruptError, InputError
from dataprep.pipeline.guards.secrets import hidden
from dataprep.pipeline.guards.twice import refuse_twice
from dataprep.pipeline.media import find_media
from dataprep.pipeline.sources import (
    changed_sources,
    find_sources,
    list_left_out,
    read_piece,
    split_source,
)
from dataprep.pipeline.storage.manifest import MARK
from dataprep.pipeline.tokenize import plan_of
from dataprep.pipeline.types import Source
from support.encoding import encode_here, png

LINE = '{"text": "a"}\n'


def write(path: Path, text: str = LINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def plan(*inputs: Path | str, **config: object) -> list[str]:
    values = {"inputs": list(map(str, inputs)), "tokenizer": "bytes", "out": "o", **config}
    return [source.path for source in plan_of(TokenizeConfig.model_validate(values), None).sources]


# --- the same file twice ------------------------------------------------------------------------


def other_spelling(path: Path) -> str:
    return f"{path.parent}/./{path.name}"


def linked(path: Path) -> str:
    (path.parent / "link.jsonl").symlink_to(path)
    return str(path.parent / "link.jsonl")


def hard_linked(path: Path) -> str:
    os.link(path, path.parent / "hard.jsonl")
    return str(path.parent / "hard.jsonl")


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "the same": str,
    "another spelling": other_spelling,
    "a link": linked,
    "a hard link": hard_linked,
    "a pattern": lambda path: f"{path.parent}/*.jsonl",
    "its folder": lambda path: str(path.parent),
    "a folder above": lambda path: str(path.parent.parent),
    "a file URL": lambda path: f"file://{path}",
    "a local URL": lambda path: f"local://{path}",
    "a part of a folder": lambda path: f"dir://in/{path.name}::{path.parent.parent}",
    "a pattern in a folder": lambda path: f"dir://*.jsonl::dir:///in::file:{path.parent.parent}",
    "a cache": lambda path: f"simplecache://{path}::file:///",
}


@pytest.mark.parametrize("how", SPELLINGS)
def test_a_file_given_twice_is_an_error_that_names_both(tmp_path: Path, how: str) -> None:
    path = write(tmp_path / "in" / "a.jsonl")
    other = SPELLINGS[how](path)
    with pytest.raises(ConfigError, match=r"is the same file as .*a\.jsonl.*--allow-duplicates"):
        plan(path, other)
    assert len(plan(path, other, allow_duplicates=True)) >= 2


def test_links_within_one_folder_or_pattern_are_the_same_file_too(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.jsonl")
    linked(path)
    for spec in (tmp_path / "in", tmp_path / "in" / "*.jsonl", tmp_path / "**" / "*.jsonl"):
        with pytest.raises(ConfigError, match=r"a\.jsonl"):
            plan(spec)


def test_equal_content_under_two_names_is_legal(tmp_path: Path) -> None:
    assert len(plan(write(tmp_path / "a.jsonl"), write(tmp_path / "b.jsonl"))) == 2


def test_two_entries_of_one_archive_are_two_files(tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "x"), "zip", write(tmp_path / "in" / "a.jsonl").parent)
    write(tmp_path / "in" / "b.jsonl")
    archive = shutil.make_archive(str(tmp_path / "x"), "zip", tmp_path / "in")
    (tmp_path / "link.zip").symlink_to(archive)
    assert len(plan(f"zip://a.jsonl::{archive}", f"zip://b.jsonl::{archive}")) == 2
    with pytest.raises(ConfigError, match="same file"):
        plan(f"zip://a.jsonl::{archive}", f"zip://a.jsonl::{tmp_path}/link.zip")


def test_two_parts_of_one_folder_are_two_files(tmp_path: Path) -> None:
    names = [write(tmp_path / f"{name}.jsonl").name for name in "ab"]
    assert len(plan(*(f"dir://{name}::{tmp_path}" for name in names))) == 2


def test_a_member_of_an_archive_is_the_same_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = shutil.make_archive(str(tmp_path / "x"), "zip", write(tmp_path / "in/a.jsonl").parent)
    monkeypatch.setenv("HOME", str(tmp_path))
    for other in ("zip:///a.jsonl::~/x.zip", f"simplecache::zip://a.jsonl::local://{archive}"):
        with pytest.raises(ConfigError, match="same file"):
            plan(f"zip://a.jsonl::{archive}", other)


def test_percent_signs_in_local_urls_are_part_of_the_name(tmp_path: Path) -> None:
    plain, encoded = write(tmp_path / "a b.jsonl"), write(tmp_path / "a%20b.jsonl")
    assert len(plan(plain, f"local://{encoded}")) == 2
    for one, other in ((encoded, f"local://{encoded}"), (plain, f"file://{encoded}")):
        with pytest.raises(ConfigError, match="same file"):
            plan(one, other)


def test_urls_are_the_same_file_unless_a_parameter_may_say_otherwise() -> None:
    url = "https://h/get.jsonl?"
    for other, is_same in (("fileid=1&sig=b", True), ("fileid=2&sig=a", False)):
        named = hidden([f"{url}fileid=1&sig=a", f"{url}{other}"])
        with pytest.raises(ConfigError, match="same file") if is_same else nullcontext():
            refuse_twice((name, name) for name in named)


def test_a_picture_given_twice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(png(0))
    given = (tmp_path / "in", tmp_path / "in" / "a.png")
    with pytest.raises(ConfigError, match=r"a\.png .*is the same file as"):
        encode_here(tmp_path / "no", *given)
    encode_here(tmp_path / "yes", *given, allow_duplicates=True)


def test_a_dataset_packed_twice_is_an_error(tmp_path: Path, run_cli: RunCli) -> None:
    write(tmp_path / "a.jsonl")
    run_cli("tokenize", "a.jsonl", "--tokenizer", "bytes", "--out", "tok")
    (tmp_path / "link").symlink_to("tok")
    flags = ("--seq-len", "8", "--out", "p")
    for other in ("tok", "./tok", "link"):
        ended = run_cli("pack", "tok", other, *flags, check=False)
        assert ended.code == 2
        assert "is the same file as" in ended.stderr
    run_cli("pack", "tok", "link", *flags, "--allow-duplicates")


# --- what a folder leaves out -------------------------------------------------------------------


def test_a_folder_says_what_it_leaves_out(tmp_path: Path, run_cli: RunCli) -> None:
    for name in ("a.jsonl", "readme.md", "x.bin", "sub/y.pdf", "z.doc", ".hidden"):
        write(tmp_path / "in" / name)
    said = "left out: readme.md, sub/y.pdf, x.bin and 1 more"
    flags = ("--tokenizer", "bytes", "--out", "tok")
    assert said in run_cli("tokenize", "in", *flags, "--dry-run").stderr
    assert (
        said
        in json.loads(run_cli("tokenize", "in", *flags, "--dry-run", "--json").stdout)["left_out"]
    )
    assert said in run_cli("tokenize", "in", *flags).stderr
    assert "left out" not in run_cli("tokenize", "in/*.jsonl", *flags[:2], "--out", "t2").stderr


def test_a_folder_of_pictures_says_what_it_leaves_out(tmp_path: Path) -> None:
    for name in ("a.txt", "notes.txt", "b.psd"):
        write(tmp_path / name)
    (tmp_path / "a.png").write_bytes(png(0))
    left_out: list[str] = []
    find_media(str(tmp_path), "vision", "image", None, left_out=left_out)
    assert left_out == ["b.psd", "notes.txt"]


def test_datasets_below_a_folder_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    (tmp_path / "begun" / ".work").mkdir(parents=True)
    (tmp_path / "begun" / ".work" / MARK).touch()
    left_out: list[str] = []
    find_sources(str(tmp_path), left_out=left_out)
    assert left_out == ["begun/"]


def test_a_folder_of_pictures_says_that_it_leaves_out_a_dataset(tmp_path: Path) -> None:
    for folder in ("in", "in/out"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.png").write_bytes(png(0))
    (tmp_path / "in/out/manifest.json").write_text('{"kind": "encoded"')
    left_out: list[str] = []
    (found,) = find_media(str(tmp_path / "in"), "vision", "image", None, left_out=left_out)
    assert [entry.name for entry in found.entries] == ["a.png"]
    assert left_out == ["out/"]


def test_files_and_datasets_are_left_out_for_their_own_reasons() -> None:
    assert list_left_out(["a.md"]) == "left out: a.md (not read from a folder by their endings)"
    assert list_left_out(["out/"]) == "left out: out/ (datasets of dataprep)"
    assert list_left_out([]) == ""


@pytest.fixture
def memory_folder() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


def test_a_folder_behind_a_url_leaves_out_what_a_local_one_does_and_says_so(
    memory_folder: Any,
) -> None:
    for name, content in (
        ("a.jsonl", b"{}"),
        ("readme.md", b""),
        (".hidden/b.jsonl", b"{}"),
        ("manifest.json", b'{"kind": "of somebody else"}'),
        ("out/manifest.json", b'{"kind": "tokenized"'),
        ("out/errors/errors.jsonl", b"{}"),
        ("out2/a.jsonl", b"{}"),
        ("begun/.work/dataprep-work", b""),
        ("begun/tokens/a.jsonl", b"{}"),
    ):
        memory_folder.pipe_file(f"/in/{name}", content)
    left_out: list[str] = []
    found = find_sources("memory://in", left_out=left_out)
    names = ["a.jsonl", "manifest.json", "out2/a.jsonl"]
    assert [source.path for source in found] == [f"memory://in/{name}" for name in names]
    assert sorted(left_out) == ["begun/", "out/", "readme.md"]
    with pytest.raises(InputError, match="no file matches"):
        find_sources("memory://in/out")
    with pytest.raises(CorruptError, match=r"in/begun is an unfinished dataset"):
        find_sources("memory://in/begun")


def test_of_a_dataset_of_codes_behind_a_url_only_the_shards_are_read(memory_folder: Any) -> None:
    for name in ("shards/a.jsonl", "errors/errors.jsonl"):
        memory_folder.pipe_file(f"/codes/{name}", b"{}")
    memory_folder.pipe_file("/codes/manifest.json", b'{"kind": "encoded"')
    (source,) = find_sources("memory://codes")
    assert source.path == "memory://codes/shards/a.jsonl"


def test_a_file_behind_a_url_that_changes_is_noticed(memory_folder: Any) -> None:
    memory_folder.pipe_file("/in/a.jsonl", b"{}")
    memory_folder.pipe_file("/in/b.jsonl", b"{}")
    sources = find_sources("memory://in")
    assert changed_sources(sources, None) == []
    memory_folder.pipe_file("/in/b.jsonl", b'{"a": 1}')
    assert changed_sources(sources, None) == [sources[1]]
    memory_folder.rm("/in/a.jsonl")
    with pytest.raises(InputError, match=r"cannot read memory://.*a\.jsonl"):
        changed_sources(sources, None)


@pytest.mark.parametrize("scheme", ["local", "file"])
def test_a_local_folder_is_the_same_by_its_url(tmp_path: Path, scheme: str) -> None:
    write(tmp_path / "in" / "a.jsonl")
    write(tmp_path / "in" / "out" / "errors.jsonl")
    write(tmp_path / "in" / "out" / "manifest.json").write_text('{"kind": "packed"')
    found = []
    for spec in (f"{tmp_path}/in", f"{scheme}://{tmp_path}/in"):
        left_out: list[str] = []
        found.append((find_sources(spec, left_out=left_out), left_out))
    assert found[0] == found[1]
    assert found[0][1] == ["out/"]
    (tmp_path / "in" / "a.png").write_bytes(png(0))
    (pictures,) = find_media(f"{scheme}://{tmp_path}/in/*.png", "vision", "image", None)
    assert [entry.name for entry in pictures.entries] == ["a.png"]


@pytest.mark.parametrize("find", [find_sources, partial(find_media, kind="vision", column="x")])
@pytest.mark.parametrize(
    ("pattern", "closed"),
    [
        *product(["*/x/*.jsonl", "*/*/*.jsonl", "**/*.jsonl", "a*/**/*"], ["a1", "a1/x", "linked"]),
        *product(["*/*.jsonl"], ["a1", "linked"]),
    ],
)
def test_a_folder_that_a_pattern_cannot_list_is_an_error_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: Any, pattern: str, closed: str
) -> None:
    for folder in ("a1", "a1/x", "a2", "a2/x"):
        write(tmp_path / "in" / folder / "a.jsonl")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in" / "alinked").symlink_to(tmp_path / "elsewhere")
    place = str(tmp_path / "in" / closed.replace("linked", "alinked"))
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == place:  # root may list everything
            raise PermissionError(errno.EACCES, "Permission denied", place)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=rf"cannot list {place} .*: Permission denied; make it"):
        find(f"{tmp_path}/in/{pattern}", cache_dir=None)


class FailingInTheMiddle:
    """A listing that gives no more entries: the disk has failed."""

    def __enter__(self) -> FailingInTheMiddle:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("pattern", ["*/*.jsonl", "**/*.jsonl"])
def test_a_folder_whose_listing_fails_in_the_middle_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder / "a.jsonl")
    place, listed = str(tmp_path / "b"), os.scandir

    def scandir(path: Any = ".") -> Any:
        return FailingInTheMiddle() if str(path) == place else listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=f"cannot list {place} .*: Input/output error"):
        find_sources(f"{tmp_path}/{pattern}")


def test_only_the_closed_lost_and_found_of_a_disk_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to the system; any other folder of that name may hold data."""
    place, listed = str(tmp_path / "lost+found"), os.scandir
    for folder in ("a", "lost+found"):
        write(tmp_path / folder / "a.jsonl")
    error = PermissionError(errno.EACCES, "Permission denied")

    def scandir(path: Any = ".") -> Any:
        if str(path) == place:
            raise error
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=rf"cannot list {re.escape(place)} .*: Permission denied"):
        find_sources(f"{tmp_path}/*/a.jsonl")
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(tmp_path))
    assert [source.path for source in find_sources(f"{tmp_path}/*/*.jsonl")] == [
        f"{tmp_path}/a/a.jsonl"
    ]
    with pytest.raises(InputError, match="cannot list"):
        find_sources(f"{place}/*.jsonl")
    error = OSError(errno.EIO, "Input/output error")  # type: ignore[assignment]
    with pytest.raises(InputError, match="Input/output error"):
        find_sources(f"{tmp_path}/*/*.jsonl")


def closed_to(place: Path) -> Callable[..., os.stat_result]:
    """`os.stat` for somebody who may not enter a folder; root may enter every one."""
    look = os.stat

    def stat(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if not isinstance(path, int) and place in Path(os.path.realpath(path)).parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, *args, **options)

    return stat


@pytest.mark.parametrize("spec", ["in/*/*.jsonl", "in/**/*.jsonl", "in"])
def test_a_link_into_a_closed_folder_is_an_error_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    write(tmp_path / "in" / "a" / "a.jsonl")
    write(tmp_path / "closed" / "b" / "b.jsonl")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "closed" / "b")
    monkeypatch.setattr(os, "stat", closed_to(tmp_path / "closed"))
    with pytest.raises(InputError, match="in/link cannot be read: Permission denied"):
        find_sources(str(tmp_path / spec))


@pytest.mark.parametrize("find", [find_sources, partial(find_media, kind="vision", column="x")])
def test_a_closed_folder_in_a_folder_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: Any
) -> None:
    write(tmp_path / "in" / "a" / "a.jsonl")
    (tmp_path / "in" / "a" / "a.png").write_bytes(png(0))
    place, listed, opened = tmp_path / "in" / "a", os.scandir, os.open

    def scandir(path: Any = ".") -> Any:
        if str(path).rstrip("/") == str(place):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    def open_it(path: Any, *args: Any, **options: Any) -> int:
        if place in Path(path).parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "stat", closed_to(place))
    monkeypatch.setattr(os, "open", open_it)
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=r"cannot read .*in/a/?: Permission denied"):
        find(str(tmp_path / "in"), cache_dir=None)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["", "/**/*.jsonl"])
@pytest.mark.parametrize("find", [find_sources, partial(find_media, kind="vision", column="x")])
def test_folders_a_thousand_deep_are_named(tmp_path: Path, find: Any, spec: str) -> None:
    os.makedirs(tmp_path / "in")
    folder = os.open(tmp_path / "in", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        with pytest.raises(InputError, match=r"folders of .*/in.* are nested too deep"):
            find(f"{tmp_path}/in{spec}", cache_dir=None)
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "in"], check=True)  # shutil would recurse, too


def test_a_link_to_itself_below_a_pattern_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match=f"{tmp_path}/loop is a link that leads back to itself"):
        find_sources(f"{tmp_path}/**/*.jsonl")


@pytest.mark.parametrize("command", ["tokenize", "encode"])
def test_a_pattern_leaves_out_the_output_of_the_last_run(
    tmp_path: Path, run_cli: RunCli, command: str
) -> None:
    (tmp_path / "data/in/1").mkdir(parents=True)
    table = pa.table({"text": ["a"], "image": [png(0)]})
    pq.write_table(table, tmp_path / "data/in/1/a.parquet")
    how = ("--tokenizer", "bytes") if command == "tokenize" else ("--encoder", "patches")
    pattern = "data/*/*/*" if command == "tokenize" else "data/*/*/*.parquet"
    run = (command, pattern, *how, "--out", "data/out")
    run_cli(*run)
    assert run_cli(*run).stdout.startswith("nothing to do")
    left_out: list[str] = []
    find_media(f"{tmp_path}/data/*/*/*.parquet", "vision", "image", None, left_out=left_out)
    find_sources(f"{tmp_path}/data/*/*/*", left_out=left_out)
    assert left_out == ["out/"]


def test_a_pattern_that_matches_only_datasets_says_so(codes: Path) -> None:
    pattern = f"{codes.parent}/*/shards/*.parquet"
    assert len(find_sources(pattern)) == len(shards(codes))  # codes are text to tokenize
    with pytest.raises(InputError, match=r"only files of datasets, as .*/codes,"):
        find_media(pattern, "vision", "vision", None)


# --- datasets of codes --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def codes_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codes")
    (folder / "in").mkdir()
    for i in range(4):
        (folder / "in" / f"{i}.png").write_bytes(png(i))
    encode_here(folder / "codes", folder / "in", shard_records=1)
    return folder / "codes"


@pytest.fixture
def codes(codes_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(codes_once, tmp_path / "codes"))


def shards(codes: Path) -> list[Path]:
    return sorted((codes / "shards").iterdir())


def read_as_text(spec: Path) -> list[Source]:
    return find_sources(str(spec))


def read_as_media(spec: Path) -> list[Source]:
    return [found.source for found in find_media(str(spec), "vision", "vision", None)]


def flip(path: Path, at: int = 100) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a shard deleted": lambda codes: shards(codes)[1].unlink(),
    "a shard copied": lambda codes: shutil.copy(shards(codes)[1], codes / "shards" / "x.parquet"),
    "a bit flipped": lambda codes: flip(shards(codes)[2]),
    "two shards swapped": lambda codes: os.rename(shards(codes)[0], shards(codes)[1]),
    "a shard cut off": lambda codes: os.truncate(shards(codes)[0], 50),
    "no manifest": lambda codes: (codes / "manifest.json").unlink(),
    "a damaged manifest": lambda codes: os.truncate(codes / "manifest.json", 300),
    "an unfinished run": lambda codes: (
        (codes / "manifest.json").unlink(),
        (codes / ".work").mkdir(),
        (codes / ".work" / MARK).touch(),
    ),
    "a shard that is a link": lambda codes: (
        shutil.move(shards(codes)[0], codes / "away"),
        (codes / "shards" / "codes-00000-of-00004.parquet").symlink_to(codes / "away"),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("read", [read_as_text, read_as_media])
def test_a_dataset_of_codes_is_whole_or_refused(
    codes: Path, damage: str, read: Callable[[Path], list[Source]]
) -> None:
    assert len(read(codes)) == len(read(codes / "shards")) == len(shards(codes)) > 1
    DAMAGE[damage](codes)
    with pytest.raises(CorruptError):
        read(codes)
    with pytest.raises(CorruptError):
        read(codes / "shards")


def test_a_flipped_bit_ends_in_exit_code_5(codes: Path, run_cli: RunCli) -> None:
    flip(shards(codes)[0])
    flags = ("--tokenizer", "bytes", "--out", "o")
    for given in (codes, shards(codes)[0], f"{codes}/shards/*.parquet"):
        ended = run_cli("tokenize", given, "--fields", "vision", *flags, check=False)
        assert ended.code == 5, ended.stderr
        assert "is not what the manifest.json" in ended.stderr


def test_shards_without_a_manifest_are_read_if_each_is_named(codes: Path) -> None:
    (codes / "manifest.json").unlink()
    assert [s.path for p in shards(codes) for s in find_sources(str(p))] == list(
        map(str, shards(codes))
    )
    shutil.move(codes / "shards", codes.parent / "flat")
    with pytest.raises(CorruptError, match=r"without its manifest\.json"):
        find_sources(str(codes.parent / "flat"))


def test_tables_of_others_with_such_names_are_no_concern(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "codes-00000-of-00002.parquet")
    assert len(find_sources(str(tmp_path))) == 1


def test_page_checksums_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [os.urandom(40).hex() for _ in range(200)]
    pq.write_table(
        pa.table({"text": texts}),
        path,
        write_page_checksum=True,
        use_dictionary=False,
        compression="none",
    )
    whole = path.read_bytes()
    keys = frozenset({"text"})
    for at in range(200, len(whole) // 2, 1500):
        flip(path, at)
        (source,) = find_sources(str(path))
        ((piece, _),) = split_source(source, 0, 1 << 20, keys, False)
        with pytest.raises(InputError, match="checksum"):
            list(read_piece(source, piece, keys))
        path.write_bytes(whole)


def test_codes_are_written_with_page_checksums(codes: Path) -> None:
    plain = pq.read_table(shards(codes)[0])
    pq.write_table(plain, codes / "without.parquet", compression="zstd")
    with_, without = shards(codes)[0].stat().st_size, (codes / "without.parquet").stat().st_size
    assert with_ > without


# --- compressed bombs ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_file_that_grows_too_much_is_an_error_that_names_the_cap(
    tmp_path: Path, ending: str, run_cli: RunCli
) -> None:
    long_line = json.dumps({"text": "a" * 8000}).encode() + b"\n"
    content = long_line * 9000  # more than the 64 MB that may be as compressible as they like
    path = tmp_path / f"bomb.jsonl.{ending}"
    pack = gzip.compress if ending == "gz" else zstandard.ZstdCompressor().compress
    path.write_bytes(pack(content))
    assert len(content) > 200 * path.stat().st_size
    ended = run_cli("tokenize", path, "--tokenizer", "bytes", "--out", "o", check=False)
    assert ended.code == 3
    assert f"bomb.jsonl.{ending} grows" in ended.stderr
    assert "--max-ratio" in ended.stderr
    (source,) = find_sources(str(path), max_ratio=1 << 20)
    ((piece, _),) = split_source(source, 0, 1 << 30, frozenset({"text"}), False)
    assert sum(len(r.lines) for r in read_piece(source, piece, frozenset({"text"}))) == 9000


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a::b.jsonl", "a*.jsonl", "a[1].jsonl", "a?.jsonl", "x:y.jsonl"])
def test_an_existing_file_wins_over_a_chain_or_a_pattern(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / name)
    write(tmp_path / "ab.jsonl")
    monkeypatch.chdir(tmp_path)
    for spec in (name, str(tmp_path / name)):
        (source,) = find_sources(spec)
        assert source.path == str(tmp_path / name)
        ((piece, _),) = split_source(source, 0, 1 << 20, frozenset({"text"}), True)
        (records,) = read_piece(source, piece, frozenset({"text"}))
        assert records.columns == {"text": ["a"]}


def test_a_table_with_colons_in_its_name_is_encoded(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    table = write(tmp_path / "t::1.jsonl", '{"image": "a.png"}\n')
    assert encode_here(tmp_path / "o", table)["counts"]["documents_written"] == 1


def test_a_saved_dataset_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "secret.arrow")
    for name in ("../secret.arrow", str(tmp_path / "secret.arrow")):
        write(tmp_path / "d" / "state.json", json.dumps({"_data_files": [{"filename": name}]}))
        with pytest.raises(InputError, match="not in its folder"):
            find_sources(str(tmp_path / "d"))


def test_files_of_the_kernel_are_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("/proc/self/environ")
    for spec in (tmp_path / "a.jsonl", tmp_path, tmp_path / "*.jsonl"):
        with pytest.raises(InputError, match=r"a\.jsonl: it is made by the kernel"):
            find_sources(str(spec))


def test_a_closed_hidden_folder_that_a_pattern_names_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a/.cache", "b/.cache"):
        write(tmp_path / folder / "a.jsonl")
    place, listed = str(tmp_path / "b" / ".cache"), os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == place:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(path)

    assert len(find_sources(f"{tmp_path}/**/.cache/*.jsonl")) == 2
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=r"cannot list .*b/\.cache"):
        find_sources(f"{tmp_path}/**/.cache/*.jsonl")
