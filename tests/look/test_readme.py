"""A folder of ours is never taken for something else by `datasets`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.run.summary import write_summary
from dataprep.pipeline.storage.readme import README
from support.datasets import pack_here
from support.grown import grow, packed
from support.inprocess import tokenize_here, write_lines


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("readme")
    lines = write_lines(home / "in.jsonl", [{"text": "a" * n} for n in range(1, 40)])
    found = {kind: home / kind for kind in ("tokenized", "packed", "grown")}
    tokenize_here(found["tokenized"], inputs=[str(lines)], tokenizer="bytes", fields="text")
    pack_here(found["packed"], found["tokenized"], seq_len=32)
    grow(found["grown"], packed(found["tokenized"], seq_len=32))
    return found


@pytest.mark.parametrize("kind", ["tokenized", "packed", "grown"])
def test_load_dataset_says_what_to_use_and_takes_no_manifest_for_data(
    folders: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    from datasets import load_dataset

    with pytest.raises(FileNotFoundError, match=r"open them with dataprep\.open_dataset"):
        load_dataset(str(folders[kind]), cache_dir=str(tmp_path))


def test_load_dataset_says_what_the_folder_of_a_run_is(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    from datasets import load_dataset

    shutil.copytree(folders["grown"], tmp_path / "out/web/packed-32")
    write_summary(tmp_path / "out", {"steps": []})
    with pytest.raises(FileNotFoundError, match=r"export one of those below this folder to hf"):
        load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path))
    (tmp_path / "out" / README).write_text("mine")
    write_summary(tmp_path / "out", {"steps": []})
    assert (tmp_path / "out" / README).read_text() == "mine"


@pytest.mark.parametrize("kind", ["tokenized", "packed", "grown"])
def test_a_changed_card_is_found(folders: dict[str, Path], kind: str) -> None:
    verify(folders[kind])
    path = folders[kind] / README
    text = path.read_bytes()
    try:
        path.write_bytes(text[:-1] + b".")
        with pytest.raises(CorruptError, match=README):
            verify(folders[kind])
        path.unlink()
        with pytest.raises(CorruptError, match=README):
            verify(folders[kind])
    finally:
        path.write_bytes(text)
