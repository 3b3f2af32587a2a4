"""Folders saved by `datasets` and `hf:` names, on local data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import pytest

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import count_records, find_sources, read_piece, split_source
from dataprep.pipeline.sources.hub import HubName, parse_hub_name
from dataprep.pipeline.sources.stream import naming
from dataprep.pipeline.sources.streamed import rough_size
from dataprep.pipeline.types import Piece, Source
from support.hub import hub

README = """---
configs:
- config_name: en
  data_files:
  - split: train
    path: en/train-*.jsonl
  - split: test
    path: en/test-*.jsonl
- config_name: de
  data_files:
  - split: only
    path: de/*.jsonl
---
"""
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def quiet_and_offline(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("hf")
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
        patch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        datasets.disable_progress_bars()
        yield


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data files, as `load_dataset` takes it."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "README.md").write_text(README)
    for name in ("en/train-0", "en/train-1", "en/train-2", "en/test-0", "de/a"):
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        rows = [{"text": f"{name} {i} é", "n": i, "list": [i] * i} for i in range(7)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def read_rows(
    sources: list[Source], keys: frozenset[str] | None = None, target_bytes: int = 1 << 20
) -> Rows:
    rows: Rows = []
    for source in sources:
        first = len(rows)
        for piece, _ in split_source(source, 0, target_bytes, keys, True):
            assert piece.first_line == len(rows) - first
            before = len(rows)
            for batch in read_piece(source, piece, keys, batch_bytes=100):
                assert not batch.errors
                if batch.columns is not None:
                    columns = zip(*batch.columns.values(), strict=True)
                    rows += [dict(zip(batch.columns, row, strict=True)) for row in columns]
                else:
                    rows += [dict(row) for row in batch.rows or ()]
                assert batch.next_line == len(rows) - before
            assert count_records(source, piece, 10**6) == len(rows) - before
    return rows


def make(count: int) -> Any:
    return datasets.Dataset.from_dict(
        {"text": [f"row {i}" for i in range(count)], "n": [[i, None] for i in range(count)]}
    )


def test_a_saved_dataset_is_read_as_its_arrow_files(tmp_path: Path) -> None:
    dataset = make(25)
    dataset.save_to_disk(tmp_path / "saved", num_shards=3)
    sources = find_sources(str(tmp_path / "saved"))
    assert [source.kind for source in sources] == ["arrow"] * 3
    assert all(source.fingerprint.startswith("xxh3-128:") for source in sources)
    assert read_rows(sources) == dataset.to_list()
    assert read_rows(sources, frozenset({"text"}), 1) == [{"text": t} for t in dataset["text"]]
    with pytest.raises(InputError, match="without splits; leave out @train"):
        find_sources(f"{tmp_path}/saved@train")


def test_selected_rows_are_saved_and_read_as_such(tmp_path: Path) -> None:
    dataset = make(25).shuffle(seed=1).select(range(3, 20))
    dataset.save_to_disk(tmp_path / "saved")
    assert read_rows(find_sources(str(tmp_path / "saved"))) == dataset.to_list()


def test_a_split_of_a_saved_dict_is_named_by_its_suffix(tmp_path: Path) -> None:
    splits = {"train": make(5), "test": make(3), "other": make(2)}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    with pytest.raises(InputError, match="several splits; add @SPLIT, one of: other, test, train"):
        find_sources(str(tmp_path / "saved"))
    assert len(read_rows(find_sources(f"{tmp_path}/saved@train"))) == 5
    assert len(read_rows(find_sources(f"{tmp_path}/saved@test"))) == 3
    with pytest.raises(InputError, match="no split 'nope'; add @SPLIT, one of: other, test, train"):
        find_sources(f"{tmp_path}/saved@nope")


def test_the_only_split_is_taken_and_several_are_an_error(tmp_path: Path) -> None:
    datasets.DatasetDict({"one": make(4)}).save_to_disk(tmp_path / "single")
    assert len(read_rows(find_sources(str(tmp_path / "single")))) == 4
    datasets.DatasetDict({"a": make(4), "b": make(4)}).save_to_disk(tmp_path / "two")
    with pytest.raises(InputError, match=r"several splits; add @SPLIT, one of: a, b"):
        find_sources(str(tmp_path / "two"))


def test_a_saved_dataset_below_a_folder_gives_its_rows_and_not_its_state(tmp_path: Path) -> None:
    make(4).save_to_disk(tmp_path / "data" / "saved")
    (tmp_path / "data" / "a.jsonl").write_text('{"text": "x"}\n')
    kinds = [source.kind for source in find_sources(str(tmp_path / "data"))]
    assert kinds == ["jsonl", "arrow"]


@pytest.mark.parametrize(
    "state",
    ["", "[]", "{}", '{"_data_files": 3}', '{"_data_files": [{}]}', '{"_data_files": []}'],
)
def test_a_broken_state_file_is_an_input_error_that_names_it(tmp_path: Path, state: str) -> None:
    make(4).save_to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "state.json").write_text(state)
    with pytest.raises(InputError, match=r"state\.json"):
        find_sources(str(tmp_path / "saved"))


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "state",
    [
        '{"_data_files": [{"filename": "../beside/data-00000-of-00001.arrow"}]}',
        '{"_data_files": [{"filename": ".."}]}',
        '{"_data_files": [{"filename": "a\\u0000b"}]}',
        '{"_data_files": ["data-00000-of-00001.arrow"]}',
        '{"_data_files": {"filename": "x"}}',
        f'{{"_data_files": {DEEP}}}',
        '{"_data_files": [{"filename": "x"}], "_indices_data_files": 3}',
        "3",
    ],
)
def test_a_state_file_names_only_files_beside_it(tmp_path: Path, state: str) -> None:
    for name in ("saved", "beside"):
        make(4).save_to_disk(tmp_path / name)
    (tmp_path / "saved" / "state.json").write_text(state)
    with pytest.raises(InputError, match=r"state\.json"):
        find_sources(str(tmp_path / "saved"))


@pytest.mark.parametrize(
    "splits",
    [
        *('["../beside"]', '["."]', '[".."]', '[""]', '["/"]', '["a\\u0000b"]'),
        *('{"train": 1}', '[{"filename": "train"}]', "[3]", '"train"', "null", DEEP),
    ],
)
def test_a_dict_of_splits_names_only_folders_in_it(tmp_path: Path, splits: str) -> None:
    make(4).save_to_disk(tmp_path / "beside")
    datasets.DatasetDict({"train": make(4)}).save_to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "dataset_dict.json").write_text(f'{{"splits": {splits}}}')
    with pytest.raises(
        InputError, match=r"dataset_dict\.json (is not what|names .* not in its folder)"
    ):
        find_sources(str(tmp_path / "saved"))


def test_a_split_is_not_a_dict_of_splits_itself(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": make(4)}).save_to_disk(tmp_path / "saved" / "train")
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(InputError, match=r"saved/train/state\.json"):
        find_sources(str(tmp_path / "saved"))


def test_a_missing_data_file_is_an_input_error(tmp_path: Path) -> None:
    make(4).save_to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(InputError, match=r"cannot read .*data-00000-of-00001\.arrow"):
        find_sources(str(tmp_path / "saved"))


@pytest.mark.parametrize("keys", [None, frozenset({"text"})])
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", [":en@train", ":en@test", ":de", ":de@only"])
def test_a_named_dataset_is_read_as_datasets_reads_it(
    local: Path, name: str, streaming: bool, keys: frozenset[str] | None
) -> None:
    hub = parse_hub_name(f"hf:{local}{name}")
    split = hub.split or "only"
    expected = datasets.load_dataset(str(local), hub.config, split=split).to_list()
    if keys is not None:
        expected = [{"text": row["text"]} for row in expected]
    sources = find_sources(f"hf:{local}{name}{'?streaming=1' if streaming else ''}")
    assert {source.kind for source in sources} == {"hf" if streaming else "arrow"}
    assert read_rows(sources, keys) == expected


def test_a_streamed_dataset_has_a_piece_for_each_shard(local: Path) -> None:
    (source,) = find_sources(f"hf:{local}:en@train?streaming=1")
    assert dict(source.options) == {"name": str(local), "config": "en", "split": "train"}
    pieces = [piece for piece, _ in split_source(source, 4, 100, None, True)]
    assert pieces == [Piece(source=4, start=i, stop=i + 1, first_line=7 * i) for i in range(3)]
    assert split_source(source, 4, 100, None, False)[2][0].first_line == -1
    assert count_records(source, pieces[0], 3) == 3


def test_a_streamed_row_longer_than_the_limit_is_an_error_of_its_row_only(local: Path) -> None:
    (source,) = find_sources(f"hf:{local}:en@train?streaming=1")
    piece = Piece(source=0, start=1, stop=2)
    (whole,) = read_piece(source, piece, None)
    sizes = [rough_size(row) for row in whole.as_rows()]
    limit = sorted(sizes)[3]
    batches = list(read_piece(source, piece, None, max_record_bytes=limit))
    assert [line for batch in batches for line in batch.lines.tolist()] == [
        i for i, size in enumerate(sizes) if size <= limit
    ]
    assert [error.line for batch in batches for error in batch.errors] == [
        i for i, size in enumerate(sizes) if size > limit
    ]
    assert batches[-1].next_line == 7


def test_a_streamed_dataset_continues_at_any_row(local: Path) -> None:
    (source,) = find_sources(f"hf:{local}:en@train?streaming=1")
    piece = Piece(source=0, start=1, stop=2)
    for from_line in range(9):
        batches = list(read_piece(source, piece, None, from_line=from_line, batch_bytes=20))
        assert batches[-1].next_line == 7
        lines = [line for batch in batches for line in batch.lines.tolist()]
        assert lines == list(range(from_line, 7))


def test_the_fingerprint_of_a_streamed_dataset_follows_config_split_and_files(
    local: Path,
) -> None:
    specs = [f"hf:{local}:{name}?streaming=1" for name in ("en@train", "en@test", "de")]
    prints = [find_sources(spec)[0].fingerprint for spec in specs]
    assert len(set(prints)) == 3
    assert find_sources(specs[0])[0].fingerprint == prints[0]
    os.utime(local / "en" / "train-1.jsonl", ns=(10**18, 10**18))
    assert find_sources(specs[0])[0].fingerprint != prints[0]


def test_workers_read_a_loaded_dataset_without_importing_datasets(local: Path) -> None:
    (source,) = find_sources(f"hf:{local}:de")
    code = f"""
import sys
from dataprep.pipeline.sources import read_piece, split_source
from dataprep.pipeline.types import Source
source = Source(kind="arrow", path={source.path!r}, num_bytes=1, fingerprint="")
((piece, _),) = split_source(source, 0, 10**6, None, True)
assert sum(len(batch.lines) for batch in read_piece(source, piece, None)) == 7
assert "datasets" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("streaming", ["", "?streaming=1"])
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("", "Config name is missing"),
        (":fr", "'fr' not found"),
        (":en@nope", "nope"),
        ("/nothing/here", "nothing/here"),
    ],
)
def test_a_dataset_that_cannot_be_loaded_is_an_input_error(
    local: Path, name: str, cause: str, streaming: str
) -> None:
    with pytest.raises(InputError, match=cause):
        find_sources(f"hf:{local}{name}{streaming}")


def test_a_part_of_a_split_is_refused(local: Path) -> None:
    with pytest.raises(InputError, match="a part of a split cannot be read"):
        find_sources(f"hf:{local}:en@train[:2]")


@pytest.mark.parametrize("spec", ["hf:", "hf:x?streaming=2", "hf:x?cache=1"])
def test_a_wrong_hub_name_is_an_input_error(spec: str) -> None:
    with pytest.raises(InputError):
        find_sources(spec)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("hf:c4", HubName(name="c4")),
        ("hf:allenai/c4:en", HubName(name="allenai/c4", config="en")),
        ("hf:a/b@dev", HubName(name="a/b", split="dev")),
        ("hf:a/b:c@d?streaming=1", HubName(name="a/b", config="c", split="d", streaming=True)),
        ("hf:a/b?streaming=0", HubName(name="a/b")),
        ("hf:/x@y/b:c", HubName(name="/x@y/b", config="c")),
        ("hf:/x:y/b@c", HubName(name="/x:y/b", split="c")),
    ],
)
def test_hub_names_are_taken_apart(spec: str, expected: HubName) -> None:
    assert parse_hub_name(spec) == expected


def test_rows_that_datasets_cannot_make_are_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.jsonl").write_text('{"text": "a"}\n{bad\n')
    (source,) = find_sources(f"hf:{tmp_path}/bad?streaming=1")
    with pytest.raises(InputError, match=r"cannot load hf:.*bad@train\?streaming=1"):
        read_rows([source])


def test_what_datasets_saved_is_led_to_where_it_can_be_named(tmp_path: Path) -> None:
    folder, own = tmp_path / "in", tmp_path / "in" / "both"
    table = datasets.Dataset.from_dict({"text": ["a"]})
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(str(own))
    with pytest.raises(InputError, match=r"several splits; .* name both: .*/both@SPLIT, and by "):
        find_sources(str(folder))
    assert find_sources(f"{own}@train")
    table.save_to_disk(str(tmp_path / "one"))
    with pytest.raises(InputError, match=r"was saved by `datasets`; name the folder itself: /"):
        find_sources(f"hf:{tmp_path / 'one'}")


def test_a_protocol_whose_packages_are_missing_says_how_to_install_them() -> None:
    place = "https://example.com/a.jsonl"
    message = "https needs aiohttp and requests; pip install aiohttp requests"
    with pytest.raises(InputError, match=message), naming(place):
        raise ImportError("HTTPFileSystem requires something")


@pytest.fixture
def hub_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that points the hub's client elsewhere; the cache of datasets is empty."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "none"))
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "1")

    def point(address: str) -> None:
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)

    return point


@pytest.mark.parametrize(
    ("status", "headers", "said", "query"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "has no such repository, or none without", ""),
        (404, {"X-Error-Code": "RepoNotFound"}, "has no such repository", "?streaming=1"),
        (0, {}, r"did not answer in 1 s \(HF_HUB_ETAG_TIMEOUT\)", ""),
    ],
)
def test_a_dataset_that_the_hub_lacks_is_asked_for_once_and_its_like_are_named(
    status: int, headers: dict[str, str], said: str, query: str, hub_url: Any
) -> None:
    with hub(None, status, headers) as (address, asked):
        hub_url(address)
        with pytest.raises(InputError, match=f"hf:wikitxt not found: .*{said}.*") as caught:
            find_sources(f"hf:wikitxt{query}")
    assert "Did you mean Salesforce/wikitext?" in str(caught.value)
    assert asked == ["HEAD /datasets/wikitxt/resolve/main/README.md"]


def test_a_hub_that_cannot_be_reached_is_said_at_once(hub_url: Any) -> None:
    hub_url("http://127.0.0.1:1")
    with pytest.raises(InputError, match="hub, which cannot be reached"):
        find_sources("hf:org/name@train")


def test_without_the_hub_a_dataset_of_the_cache_is_read(
    hub_url: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("HF_DATASETS_CACHE", str(cache))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    (tmp_path / "TinyTales").mkdir()
    (tmp_path / "TinyTales" / "a.jsonl").write_text('{"text": "a"}\n')
    loaded = datasets.load_dataset(str(tmp_path / "TinyTales"), split="train")
    Path(loaded.cache_files[0]["filename"]).parents[3].rename(cache / "org___tiny_tales")
    hub_url("http://127.0.0.1:1")
    assert read_rows(find_sources("hf:org/TinyTales@train")) == [{"text": "a"}]
    assert datasets.config.HF_HUB_OFFLINE is False


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "a/b/c", "//datasets/org/name"])
def test_what_cannot_be_a_name_of_the_hub_is_not_asked_for(name: str, hub_url: Any) -> None:
    with pytest.raises(InputError, match=f"hf:{name}: no such folder, and no name of the hub"):
        find_sources(f"hf:{name}")


@pytest.mark.parametrize("name", ["json", "text", "imagefolder"])
def test_a_reader_of_datasets_does_not_read_the_working_folder(name: str) -> None:
    with pytest.raises(InputError, match=f"hf:{name} is a reader of `datasets`.*name the files"):
        find_sources(f"hf:{name}")
