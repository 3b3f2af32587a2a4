"""Many small files are processed together, and nobody can tell."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.documents import together
from dataprep.pipeline.documents.process import ORIGIN, Processed
from dataprep.pipeline.documents.together import PieceLines
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.tokenize.sink import ShardSink
from dataprep.pipeline.types import RecordError
from support.inprocess import tokenize_here
from support.toy import write_toy_tokenizer

TEXTS = st.text("abc \n", max_size=12)
LINES = st.one_of(
    TEXTS.map(lambda text: json.dumps({"text": text})),
    st.sampled_from(["", "  ", "{", '{"other": 1}', '{"text": [7]}', '{"text": "\\ud800"}']),
    st.tuples(TEXTS, TEXTS).map(lambda two: json.dumps({"body": two[0], "text": two[1]})),
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def made(out: Path, data: Path, tokenizer: Path, **config: object) -> dict[str, bytes]:
    tokenize_here(
        out,
        inputs=[str(data / "*.jsonl"), {"path": str(data / "*.txt"), "text_separator": ""}],
        tokenizer=str(tokenizer),
        on_error="quarantine",
        allow_empty=True,
        keys="content",
        **config,
    )
    return contents(out)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([".jsonl", ".txt"]), st.lists(LINES, max_size=5))),
    st.sampled_from([None, 3]),
    st.integers(1, 100),
)
def test_small_files_give_the_same_dataset_together_and_one_by_one(
    tokenizer: Path, files: list[tuple[str, list[str]]], limit: int | None, together_bytes: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        data = Path(folder) / "data"
        data.mkdir()
        for i, (ending, lines) in enumerate([*files, (".jsonl", []), (".txt", ["abc"])]):
            (data / f"{i}{ending}").write_text("".join(f"{line}\n" for line in lines))
        patch.setattr(together, "_TOGETHER_BYTES", together_bytes)
        joined = made(Path(folder) / "joined", data, tokenizer, limit=limit)
        patch.setattr(together, "_SMALL_BYTES", -1)
        alone = made(Path(folder) / "alone", data, tokenizer, limit=limit)
    assert joined == alone


def test_small_files_are_encoded_in_one_call(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(50):
        (tmp_path / f"{i:02}.txt").write_text("abc")
    (tmp_path / "a.jsonl").write_text('{"text": "abc"}\n')
    sizes: list[int] = []
    process = together.process

    def counting(records, *rest):  # type: ignore[no-untyped-def]
        sizes.append(len(records.lines))
        return process(records, *rest)

    monkeypatch.setattr(together, "process", counting)
    made(tmp_path / "out", tmp_path, tokenizer)
    assert sizes == [1, 50]  # one call for each input


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet"])
def test_what_was_compressed_well_is_not_joined_without_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["abc" * 1000] * 4000
    if name.endswith(".gz"):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (tmp_path / name).write_bytes(gzip.compress(lines.encode()))
    else:
        pq.write_table(pa.table({"text": texts}), tmp_path / name)
    sizes: list[int] = []
    process = together.process

    def measuring(records, *rest):  # type: ignore[no-untyped-def]
        sizes.append(sum(map(len, records.columns["text"])))
        return process(records, *rest)

    monkeypatch.setattr(together, "process", measuring)
    tokenize_here(
        tmp_path / "out", inputs=[str(tmp_path / name)], tokenizer="bytes", max_ratio=2000
    )
    assert sum(sizes) == 12_000_000
    assert max(sizes) < 3 << 20  # a batch has some 1 MiB


def test_bad_records_are_counted_in_one_pass_whatever_the_number_of_pieces(tmp_path: Path) -> None:
    count = 10_000
    none = Documents(tokens=np.zeros(0, "<u2"), ends=np.zeros(0, np.int64), masks=())
    batch = Processed(
        documents=none,
        origins=np.zeros(0, ORIGIN),
        errors=tuple(RecordError(line=i, offset=0, reason="", special=i % 3) for i in range(count)),
        empty_lines=np.zeros(0, np.int64),
        next_line=count,
        num_bytes=0,
    )
    sink = ShardSink(tmp_path / "0", (0, 1) * (count // 2), (), 1 << 20, done=[])
    lines = PieceLines(places=np.arange(count), firsts=np.arange(count + 1))
    began = time.process_time()
    sink.add(batch, lines)
    assert time.process_time() - began < 1.2  # some 3 s if every piece looks at every error
    for source, tally in sink._open.tallies.items():
        mine = [i % 3 for i in range(int(source), count, 2)]
        assert (tally.bad, tally.special_in_text) == (len(mine), sum(mine))
        assert tally.with_special == sum(n > 0 for n in mine)
