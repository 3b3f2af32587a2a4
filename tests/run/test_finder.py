"""Documents that are meant are found as by looking at each, however many are asked for."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.run import forget, tokenized
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.finder import DocumentFinder
from dataprep.pipeline.run.forgotten import ForgetRequest
from dataprep.pipeline.run.summary import foresee_all, run_all
from dataprep.pipeline.sources.fingerprint import PREFIX
from dataprep.pipeline.sources.tail import starts_of
from dataprep.pipeline.storage.keys import hex_of_content, read_keys
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from support.inprocess import tokenize_here
from support.inprocess import write_lines as write_records
from support.killable import without_processes
from support.nights import whole_texts, write_config, write_lines

IDS = [[3, 1, 4, 1], [5, 9, 2], [6, 5, 3, 5]]


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TokenizedManifest]:
    home = tmp_path_factory.mktemp("found")
    (home / "raw").mkdir()
    for number, ids in enumerate(IDS):
        records = [{"id": i, "text": f"text {i}"} for i in ids]
        write_records(home / f"raw/{number}.jsonl", records)
    tokenize_here(home / "t", inputs=[str(home / "raw")], tokenizer="bytes", keys="key:id")
    manifest = read_manifest(home / "t")
    assert isinstance(manifest, TokenizedManifest)
    return home / "t", manifest


def found(part: tuple[Path, TokenizedManifest], requests: Sequence[ForgetRequest]) -> list[Any]:
    meant = {str(r): places.tolist() for r, places in DocumentFinder(*part).find_each(requests)}
    whole = DocumentFinder(*part).find(requests).tolist()
    assert whole == sorted({place for places in meant.values() for place in places})
    return [meant.get(str(request), []) for request in requests]


def test_values_of_a_key_are_found_wherever_they_are(part: tuple[Path, TokenizedManifest]) -> None:
    flat = [i for ids in IDS for i in ids]
    wanted = [*range(12), "1", "x"]
    requests = [ForgetRequest(key="id", value=value) for value in wanted]
    assert found(part, requests) == [
        [place for place, i in enumerate(flat) if str(i) == str(value)] for value in wanted
    ]
    assert found(part, [ForgetRequest(key="other", value=1)]) == [[]]


def test_contents_are_found_by_both_of_their_halves(part: tuple[Path, TokenizedManifest]) -> None:
    keys = np.concatenate([read_keys(part[0], shard) for shard in part[1].shards])["content"]
    contents = hex_of_content(keys)
    other = contents[0][:16] + contents[1][16:]  # whose first half is that of another
    wanted = [*dict.fromkeys(contents), other, "0" * 32]
    requests = [ForgetRequest(content=content) for content in wanted]
    assert found(part, requests) == [
        [place for place, content in enumerate(contents) if content == each] for each in wanted
    ]


def test_keys_are_not_held_in_memory_all_at_once(tmp_path: Path) -> None:
    write_records(tmp_path / "a.jsonl", [{"text": f"text {i:05d} {i % 7}"} for i in range(24_000)])
    settings = {"tokenizer": "bytes", "keys": "content", "shard_bytes": 1 << 16}
    tokenize_here(tmp_path / "t", inputs=[str(tmp_path / "a.jsonl")], **settings)
    manifest = read_manifest(tmp_path / "t")
    assert isinstance(manifest, TokenizedManifest)
    keys = np.concatenate([read_keys(tmp_path / "t", shard) for shard in manifest.shards])
    wanted = hex_of_content(keys["content"][[7, 23_000]])
    requests = [ForgetRequest(content=content) for content in wanted]
    finder = DocumentFinder(tmp_path / "t", manifest)
    finder.find(requests[:1])  # modules are loaded
    tracemalloc.start()
    meant = [
        places.tolist()
        for _, places in DocumentFinder(tmp_path / "t", manifest).find_each(requests)
    ]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert meant == [[7], [23_000]]
    assert len(manifest.shards) > 8
    assert peak < keys.nbytes


def test_lines_are_found_by_the_name_the_end_of_the_name_and_the_content_of_their_file(
    part: tuple[Path, TokenizedManifest],
) -> None:
    first, documents = 0, list[tuple[str, int, int]]()
    for number, ids in enumerate(IDS):
        documents += [(f"{number}.jsonl", i + 1, first + i) for i in range(len(ids))]
        first += len(ids)
    paths = {Path(source.path).name: source for source in part[1].sources}
    for name_of in (
        lambda name: ForgetRequest(path=paths[name].path),
        lambda name: ForgetRequest(path=os.path.relpath(paths[name].path)),
        lambda name: ForgetRequest(path=f"raw/{name}"),
        lambda name: ForgetRequest(path=f"./{name}"),
        lambda name: ForgetRequest(path="x", fingerprint=paths[name].fingerprint),
    ):
        for name, line, document in documents:
            named = name_of(name)
            request = ForgetRequest(path=named.path, line=line, fingerprint=named.fingerprint)
            assert found(part, [request]) == [[document]]
    for path, line in (("0.jsonl", 5), ("3.jsonl", 1), (".jsonl", 1), ("w/0.jsonl", 1)):
        assert found(part, [ForgetRequest(path=path, line=line)]) == [[]]


def test_the_starts_of_a_file_are_hashed_in_one_pass(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9
    (tmp_path / "a").write_bytes(data)
    sizes = [0, 1, 700, 701, len(data), len(data) + 1]
    assert starts_of(str(tmp_path / "a"), sizes) == {
        size: f"{PREFIX}{xxhash.xxh3_128_hexdigest(data[:size])}" for size in sizes[:-1]
    }
    assert starts_of(str(tmp_path / "b"), sizes) == {}
    assert starts_of("hf:some/name", sizes) == {}


def test_parts_are_searched_once_for_what_is_to_be_forgotten(
    tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    class Counted(DocumentFinder):
        def find(self, requests: Sequence[ForgetRequest]) -> Any:
            searched.append(self._place.name)
            return super().find(requests)

    def chain() -> StepChain:
        return StepChain(config=load_config(RunConfig, files=["c.json"]), cache_dir=cache_dir)

    def run() -> list[str]:
        searched.clear()
        run_all(chain(), lambda todo: silent)
        return [*searched]

    monkeypatch.chdir(tmp_path)
    with without_processes():
        write_lines(Path("raw/a.jsonl"), ["one", "two", "three"])
        write_config(Path("c.json"), inputs=["raw/*.jsonl"], dedup="exact")
        run()
        forget.forget(Path("out"), [ForgetRequest(path="a.jsonl", line=2)])
        for module in (forget, tokenized):
            monkeypatch.setattr(module, "DocumentFinder", Counted)
        assert run() == []
        write_lines(Path("raw/b.jsonl"), ["two", "four"])
        assert run() == ["00001"]
        assert run() == []
        known = Path("out/.run/searched/data.json")
        known.write_bytes(known.read_bytes()[:-1])
        foresee_all(chain())
        assert {*searched} == {"00000-1", "00001-1"}
        assert {*run()} == {"00000-1", "00001-1"}
        assert run() == []
    assert whole_texts(Path("out/data/packed-64")) == ["four", "one", "three"]
