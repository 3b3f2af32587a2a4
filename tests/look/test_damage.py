"""Whatever is damaged, missing, foreign or linked in a dataset of any kind, `verify` names it."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from conftest import RunCli
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.hashes import fingerprint, hash_file
from dataprep.pipeline.look.origins import origin_of, pieces_of_row
from dataprep.pipeline.look.records import read_rows
from dataprep.pipeline.look.stats import Uses, stats
from dataprep.pipeline.look.verify import compare, verify
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest, read_manifest
from support.datasets import KINDS, copies, make_all
from support.inprocess import write_lines
from support.manifests import edit_manifest


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_all(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folders(whole: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Copies of all, to damage them."""
    return copies(whole, tmp_path / "copies")


def files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def first(folder: Path, part: str) -> Path:
    """The first file that belongs to a shard."""
    return min((folder / part).glob("*-of-*"))


def refused(folder: Path, naming: str) -> None:
    with pytest.raises(CorruptError, match=naming):
        verify(folder)


# --- flips and truncations ---


def damage_all(folder: Path, seed: int, flips: int) -> int:
    """Flip bits of, and truncate, every file of a dataset; return how often it was tried."""
    rng, tried = random.Random(seed), 0
    paths = files_in(folder)
    for path in paths:
        data = path.read_bytes()
        cuts = {0, 1, len(data) // 2, len(data) - 1}
        changed = [data[:size] for size in sorted(cuts)] + [data + b"\0", data + data]
        for _ in range(flips // len(paths) + 1):
            flipped = bytearray(data)
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            changed.append(bytes(flipped))
        for content in changed:
            path.write_bytes(content)
            with pytest.raises(CorruptError) as error:
                verify(folder)
            assert path.name in str(error.value), (path, error.value)
            tried += 1
        path.write_bytes(data)
    verify(folder)
    return tried


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_and_every_truncation_is_found(
    folders: dict[str, Path], kind: str
) -> None:
    assert damage_all(folders[kind], seed=1, flips=30) >= 30


def test_nothing_is_mapped_that_could_be_cut_short_while_it_is_read(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of what is gone from a map would end the process (SIGBUS)."""

    def forbidden(*arguments: Any, **options: Any) -> None:
        raise AssertionError("mapped")

    monkeypatch.setattr(np, "memmap", forbidden)
    for kind in KINDS:
        verify(folders[kind])
    for kind in ("tokenized", "packed"):
        stats(folders[kind], read_manifest(folders[kind]))
    tokenized, packed = read_manifest(folders["tokenized"]), read_manifest(folders["packed"])
    assert isinstance(tokenized, TokenizedManifest)
    assert isinstance(packed, PackedManifest)
    assert origin_of(folders["tokenized"], tokenized, 0).line == 1
    assert pieces_of_row(folders["packed"], packed, 0, 0)


@pytest.mark.parametrize("pack", [None, 5, [], "x", {}])
def test_a_config_of_pack_that_is_no_object_is_told(folders: dict[str, Path], pack: Any) -> None:
    def change(values: dict[str, Any]) -> None:
        values["config"]["pack"] = pack
        values["identity"]["config"] = {}  # else it is found there
        values["fingerprint"] = fingerprint(values["identity"])

    edit_manifest(folders["packed"], change)
    with pytest.raises(CorruptError, match="its strategy is not the one of its config"):
        verify(folders["packed"])


@pytest.mark.parametrize("kind", ["tokenized", "packed"])
def test_an_id_that_no_batch_can_hold_is_refused(folders: dict[str, Path], kind: str) -> None:
    edit_manifest(folders[kind], lambda values: values.update(max_id=1 << 31))
    with pytest.raises(CorruptError, match="max_id"):
        verify(folders[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_flipped_bits_are_found(folders: dict[str, Path], kind: str) -> None:
    assert damage_all(folders[kind], seed=2, flips=3400) >= 3400


def test_damage_of_what_it_reads_is_found_by_stats_and_inspect(
    run_cli: RunCli, folders: dict[str, Path]
) -> None:
    """Each .npy in turn: missing, empty, of another type, a pickle, a huge shape, a zip."""
    for kind, flag in (("tokenized", "--doc"), ("packed", "--row")):
        folder = folders[kind]
        for path in (first(folder, "index"), first(folder, "provenance")):
            data = path.read_bytes()
            for content in (None, b"", b"\x93NUMPY", b"PK\x03\x04" + data, pickled(), huge(data)):
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
                with pytest.raises(CorruptError, match=path.name):
                    stats(folder, read_manifest(folder))
            for words in (("stats", folder), ("inspect", folder, flag, "0")):
                done = run_cli(*words, check=False)
                assert done.code == 5, done.stderr
                assert path.name in done.stderr
                assert "Traceback" not in done.stderr
            path.write_bytes(data)


def pickled() -> bytes:
    """An array of objects: to load it would run code."""
    import io

    file = io.BytesIO()
    np.save(file, np.array([{}, None], object), allow_pickle=True)
    return file.getvalue()


def huge(data: bytes) -> bytes:
    start = data.index(b"'shape': (") + len(b"'shape': (")
    stop = data.index(b",", start)
    return data[:start] + b"9" * 15 + data[stop:]


# --- the folder ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_is_no_file_of_a_dataset(folders: dict[str, Path], kind: str) -> None:
    folder = folders[kind]
    shard = first(folder, "shards")
    outside = folder.parent / "outside"
    shard.rename(outside)
    shard.symlink_to(outside)
    refused(folder, rf"{shard.name} is a link")
    shard.unlink()
    outside.rename(shard)
    verify(folder)
    moved = folder.parent / "moved"
    (folder / "shards").rename(moved)
    (folder / "shards").symlink_to(moved)
    refused(folder, r"shards is a link")
    (folder / "shards").unlink()
    moved.rename(folder / "shards")
    (folder / "manifest.json").rename(moved)
    (folder / "manifest.json").symlink_to(moved)
    refused(folder, r"manifest\.json is a link")


def test_the_folder_itself_may_be_a_link(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folders["packed"])
    verify(tmp_path / "link")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["shards/x", "index/x", "provenance/.x", "x.txt", ".hidden", "shards/a/b", "notes/x"]
)
def test_a_foreign_file_is_named_wherever_it_is(
    folders: dict[str, Path], kind: str, name: str
) -> None:
    path = folders[kind] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    refused(folders[kind], r"is not in the manifest; remove it")


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_of_a_shard_is_foreign(folders: dict[str, Path], kind: str) -> None:
    shard = first(folders[kind], "shards")
    shutil.copy(shard, shard.with_name(f"copy-{shard.name}"))
    refused(folders[kind], "copy-")


def test_a_pipe_in_place_of_a_file_is_refused_not_read(folders: dict[str, Path]) -> None:
    shard = first(folders["tokenized"], "shards")
    shard.unlink()
    os.mkfifo(shard)
    refused(folders["tokenized"], "is not a file")
    os.unlink(folders["packed"] / "manifest.json")
    os.mkfifo(folders["packed"] / "manifest.json")
    refused(folders["packed"], "is not a file")


def test_what_a_kill_at_the_very_end_leaves_is_passed_over(folders: dict[str, Path]) -> None:
    (folders["packed"] / ".work" / "tasks").mkdir(parents=True)
    verify(folders["packed"])


def test_a_folder_that_is_no_dataset_is_told_from_one_that_is_unfinished(
    run_cli: RunCli, tmp_path: Path, folders: dict[str, Path]
) -> None:
    bad = write_lines(tmp_path / "bad.jsonl", [{"text": "a"}, "{bad"])
    assert run_cli("tokenize", bad, "--tokenizer", "bytes", "--out", "out", check=False).code == 3
    for words in (
        ("verify", "out"),
        ("stats", "out"),
        ("inspect", "out"),
        ("pack", "out", "--seq-len", "8", "--out", "packed"),
        ("verify", folders["packed"], "--against", "out"),
    ):
        done = run_cli(*words, check=False)
        assert done.code == 5, words
        assert "out is unfinished; run the command that makes it again" in done.stderr
    assert not (tmp_path / "packed").exists()
    done = run_cli("verify", tmp_path, check=False)
    assert done.code == 5
    assert "is not a dataset: it has no manifest.json" in done.stderr


# --- what the manifest says, against what is there ---


def replace_file(folder: Path, path: Path, content: bytes) -> None:
    """Change a file, and with it what the manifest says of it."""
    name = path.relative_to(folder).as_posix()
    path.write_bytes(content)
    found = {"num_bytes": len(content), "xxh3_128": hash_file(path)}

    def change(values: dict[str, Any]) -> None:
        shards = values["shards"]
        inner = [s[key] for s in shards for key in ("index", "provenance", "keys") if key in s]
        (entry,) = [e for e in (*shards, *inner, *values["files"]) if e["path"] == name]
        entry.update(found)

    edit_manifest(folder, change)


def replace_array(folder: Path, path: Path, change: Callable[[NDArray[Any]], Any]) -> None:
    array = np.load(path)
    new = change(array)
    np.save(path, array if new is None else new)
    replace_file(folder, path, path.read_bytes())


def set_first(field: str, value: int) -> Callable[[NDArray[Any]], None]:
    def change(array: NDArray[Any]) -> None:
        array[field][0] = value

    return change


@pytest.mark.parametrize(
    ("kind", "part", "change", "message"),
    [
        ("tokenized", "provenance", set_first("piece", 99), "names piece 99 of"),
        ("tokenized", "provenance", set_first("line", 5), "does not follow the order"),
        ("tokenized", "provenance", lambda a: a[1:], "has a length of"),
        ("tokenized", "index", set_first("start", 1), "does not match"),
        ("tokenized", "index", set_first("length", 1), "does not match"),
        ("tokenized", "index", lambda a: a["start"], "does not hold an array"),
        ("tokenized", "keys", set_first("group", 1), "groups that are not of the content"),
        ("tokenized", "keys", lambda a: a[1:], "has a length of"),
        ("tokenized", "keys", lambda a: a["group"], "does not hold an array"),
        ("packed", "provenance", set_first("document", 10**6), "names document 1000000 of"),
        ("packed", "provenance", set_first("length", 7), "segments of other lengths"),
        ("packed", "provenance", set_first("head", 999), "names a head of 999 tokens"),
        ("packed", "provenance", set_first("row", 3), "does not list the segments"),
        ("packed", "provenance", lambda a: a[:-1], "does not list the segments"),
        ("packed", "index", lambda a: a + np.uint32(1), "does not match"),
        ("packed", "index", lambda a: a.astype(np.int64), "does not hold an array"),
    ],
)
def test_arrays_that_do_not_fit_the_data_are_found(
    folders: dict[str, Path], kind: str, part: str, change: Any, message: str
) -> None:
    path = first(folders[kind], part)
    replace_array(folders[kind], path, change)
    refused(folders[kind], rf"{path.name}.*{message}")


def test_provenance_that_does_not_cover_a_row_is_told_by_inspect(
    run_cli: RunCli, folders: dict[str, Path]
) -> None:
    folder = folders["packed"]
    replace_array(folder, first(folder, "provenance"), lambda a: a[a["row"] != 0])
    done = run_cli("inspect", folder, "--row", "0", check=False)
    assert done.code == 5
    assert "does not list what is in row 0" in done.stderr


def with_last_document(number: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Another run at the end; as int64, the step to 2**63 from the document before is positive."""

    def change(array: NDArray[Any]) -> NDArray[Any]:
        last = array[-1:].copy()
        last["document"], last["line"] = number, 1 << 40
        return np.concatenate([array, last])

    return change


def with_last_line(number: int) -> Callable[[NDArray[Any]], None]:
    def change(array: NDArray[Any]) -> None:
        array["line"][-1] = number

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_first("document", 1), "does not list all documents"),
        (set_first("file", 2), "names file 2 of 2"),
        (set_first("file", 1), "does not list the lines of a file in order"),
        (set_first("line", 1 << 62), "names line 4611686018427387904"),
        (set_first("line", (1 << 64) - 1), "names line 18446744073709551615"),
        (with_last_line(1 << 40), ""),  # blank lines before: nothing says how many
        (with_last_document(1 << 63), "does not list all documents"),
        (lambda a: a[:0], "lists no document"),
        (lambda a: np.repeat(a, 2), "does not list all documents"),
        (lambda a: a["line"], "does not hold an array"),
    ],
)
def test_origins_that_cannot_be_are_found(
    folders: dict[str, Path], change: Any, message: str
) -> None:
    folder = folders["packed"]
    replace_array(folder, folder / "provenance" / "origins.npy", change)
    if message:
        refused(folder, rf"origins.npy.*{message}")
    else:
        verify(folder)


def test_files_of_a_packed_dataset_that_cannot_be_are_found(folders: dict[str, Path]) -> None:
    folder = folders["packed"]
    path = folder / "provenance" / "files-00000.json"
    files = json.loads(path.read_bytes())
    for new, message in (
        ([{**files[0], "dataset": 1}, files[1]], "names a dataset"),
        (files[:1], "has 1 entries, by its manifest it has 2"),
        ([{"path": "a"}], "is damaged"),
        ([{**files[0], "kind": "xls"}, files[1]], "unknown format 'xls'"),
    ):
        replace_file(folder, path, json.dumps(new).encode())
        refused(folder, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_first("document", (1 << 64) - 1), "names document 18446744073709551615 of"),
        (set_first("length", (1 << 32) - 1), "lists segments of other lengths"),
    ],
)
def test_pieces_of_rows_that_cannot_be_are_told_by_stats(
    run_cli: RunCli, folders: dict[str, Path], change: Any, message: str
) -> None:
    folder = folders["packed"]
    replace_array(folder, first(folder, "provenance"), change)
    done = run_cli("stats", folder, "--by", "file", check=False)
    assert done.code == 5, done.stderr
    assert message in done.stderr


def test_rows_that_a_shard_does_not_have_are_told_not_counted(folders: dict[str, Path]) -> None:
    folder = folders["packed"]
    replace_array(folder, first(folder, "provenance"), set_first("row", 1 << 24))
    with pytest.raises(CorruptError, match="names row 16777216 of"):
        stats(folder, read_manifest(folder))


def test_pieces_that_are_not_those_of_the_sources_are_found(folders: dict[str, Path]) -> None:
    folder = folders["tokenized"]
    path = folder / "provenance" / "pieces.json"
    pieces = json.loads(path.read_bytes())
    for new, message in (
        ([{**pieces[0], "source": 7}, *pieces[1:]], "names a source"),
        ([{**pieces[0], "source": 1}, *pieces[1:]], "of source 0"),
        (pieces[:1], "names piece"),
        ([{"source": 0}, *pieces[1:]], "is damaged"),
        ({"x": pieces}, "is damaged"),
    ):
        replace_file(folder, path, json.dumps(new).encode())
        refused(folder, message)


@pytest.mark.parametrize("kind", ["tokenized", "encoded"])
def test_the_list_of_errors_has_a_line_for_each(folders: dict[str, Path], kind: str) -> None:
    folder = folders[kind]
    path = folder / "errors.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for content, message in (
        (b"".join(lines[1:]), "has .* the manifest counts"),
        (b"".join([*lines, lines[0]]), "has .* the manifest counts"),
        (b"{}\n" + b"".join(lines[1:]), "line 1 of .* is damaged"),
        (b"\xff\n" + b"".join(lines[1:]), "line 1 of .* is damaged"),
    ):
        replace_file(folder, path, content)
        refused(folder, message)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("tokenized", lambda m: m["counts"].update(vision_tokens=1), "vision_tokens"),
        ("tokenized", lambda m: m["counts"].update(target_tokens=1), "target_tokens"),
        ("tokenized", lambda m: m["counts"].update(documents_read=1), "documents_read"),
        ("tokenized", lambda m: m.update(masks=["loss"]), "shorter|match|does not"),
        ("tokenized", lambda m: m["shards"][1].pop("keys"), "lacks keys of documents"),
        ("tokenized", lambda m: m["shards"].reverse(), "is not named as shard 0"),
        ("tokenized", lambda m: m["sources"].reverse(), "its sources are not"),
        ("tokenized", lambda m: m.update(max_id=300), "token id"),
        ("tokenized", lambda m: m.update(files=[]), "lacks errors.jsonl"),
        ("tokenized", lambda m: m["files"].append(m["files"][0]), "twice"),
        ("tokenized", lambda m: m.update(extra=1), "unknown key 'extra'"),
        ("packed", lambda m: m["counts"].update(target_tokens=1), "target_tokens"),
        ("packed", lambda m: m["counts"].update(segments=1), "segments"),
        ("packed", lambda m: m["counts"].update(padding=1), "padding"),
        ("packed", lambda m: m["counts"].update(tokens_read=1), "tokens_read"),
        ("packed", lambda m: m.update(pad=1), "padding holds an id other than 1"),
        ("packed", lambda m: m.update(seq_len=101), "seq_len|padding"),
        ("packed", lambda m: m.update(files="x"), "files"),
        ("packed", lambda m: m["sources"][0].update(files=1 << 53), "other files of origins"),
        ("packed", lambda m: m.pop("files"), "lacks key 'files'"),
        ("encoded", lambda m: m["counts"].update(frames=1), "frames"),
        ("encoded", lambda m: m["counts"].update(documents_read=1), "documents_read"),
        ("encoded", lambda m: m["columns"].update(vision="string"), "other columns"),
        ("encoded", lambda m: m["columns"].update(more="string"), "other columns"),
        ("encoded", lambda m: m["columns"].pop("source"), "other columns"),
        ("encoded", lambda m: m["config"].update(into="source"), "config"),
        ("encoded", lambda m: m.pop("encoder"), "encoder"),
        ("encoded", lambda m: m.pop("files"), "lacks"),
        ("encoded", lambda m: m.update(masks=["loss"]), "masks"),
    ],
)
def test_a_manifest_that_says_something_else_is_found(
    folders: dict[str, Path], kind: str, change: Any, message: str
) -> None:
    edit_manifest(folders[kind], change)
    refused(folders[kind], message)


# --- comparison ---


def test_a_comparison_names_all_that_differs(
    run_cli: RunCli, whole: dict[str, Path], folders: dict[str, Path]
) -> None:
    left, right = whole["packed"], folders["packed"]
    assert compare(left, right) == len(files_in(left))
    changed, gone = sorted((right / "index").iterdir())[:2]
    changed.write_bytes(b"x")
    gone.unlink()
    (right / "new").write_bytes(b"")
    done = run_cli("verify", left, "--against", right, check=False)
    assert done.code == 5
    for text in (
        f"index/{changed.name} differs",
        f"index/{gone.name} is not in {right}",
        f"new is not in {left}",
    ):
        assert text in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda m: {"max_id": 1, "pad": 1},
            r"row 0 of .*shards/.*: token id \d+ is above the larg",
        ),
        (
            lambda m: {"seq_len": m.seq_len + 1},
            r"a row of .*shards/.* from 0 on: a row of \d+ bytes",
        ),
    ],
)
def test_a_row_that_cannot_be_is_named(
    whole: dict[str, Path], change: Callable[[PackedManifest], dict[str, int]], said: str
) -> None:
    manifest = read_manifest(whole["packed"])
    assert isinstance(manifest, PackedManifest)
    other = replace(manifest, **change(manifest))  # type: ignore[arg-type]
    with pytest.raises(CorruptError, match=said):
        list(read_rows(whole["packed"], other, other.shards[0]))


@pytest.mark.parametrize(("ids", "odd"), [([3, -1], -1), ([3, (1 << 32) - 1], (1 << 32) - 1)])
def test_an_id_that_cannot_be_is_not_counted(ids: list[int], odd: int) -> None:
    """Nor is room made for all ids up to it."""
    with pytest.raises(CorruptError, match=f"id {odd} is not one of 0..9"):
        Uses(9).count(np.array(ids))
