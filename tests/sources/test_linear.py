"""Many keys, columns or members cost as much as they are long, not the square of it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media.decode import _no_key_twice
from dataprep.pipeline.ragged import nothing_held
from dataprep.pipeline.sources.csv import _check_names
from dataprep.pipeline.sources.json.records import WholeDecoder
from dataprep.pipeline.sources.json.repeats import check_inside_text
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.reasons import DuplicateKeyError
from dataprep.pipeline.sources.stream import ByteStream
from dataprep.pipeline.sources.table_columns import check_columns

# Each of these takes a second, or else many minutes.
pytestmark = pytest.mark.timeout(120)
COUNT = 200_000
NAMES = [f"k{i}" for i in range(COUNT)]
TWICE = [*NAMES, NAMES[-1]]
S = Keys(needed=frozenset({"s"}))
PATH = Keys(needed=frozenset({f"s.{NAMES[-1]}"}), nested=True)
OBJECT = "{" + ",".join(f'"{name}":1' for name in TWICE) + "}"


CASES: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "keys of a record": (DuplicateKeyError, lambda: WholeDecoder(None).one(OBJECT.encode())),
    "keys of segments": (
        DuplicateKeyError,
        lambda: check_inside_text(f'{{"s":[{OBJECT}]}}'.encode(), S, lambda key: "segments"),
    ),
    "many segments": (
        DuplicateKeyError,
        lambda: check_inside_text(
            f'{{"s":[{",".join(json.dumps({name: 1}) for name in NAMES)},{OBJECT}]}}'.encode(),
            S,
            lambda key: "segments",
        ),
    ),
    "keys on a path": (
        DuplicateKeyError,
        lambda: check_inside_text(f'{{"s":{OBJECT}}}'.encode(), PATH, nothing_held),
    ),
    "columns of a csv": (ValueError, lambda: _check_names(TWICE, TWICE)),
    "columns of a table": (InputError, lambda: check_columns(None, TWICE, "t.parquet")),
    "keys beside a picture": (ValueError, lambda: _no_key_twice([(key, 1) for key in TWICE])),
}


@pytest.mark.parametrize("name", CASES)
def test_a_key_that_is_there_twice_is_found_in_one_pass(name: str) -> None:
    error, find = CASES[name]
    with pytest.raises(error, match=NAMES[-1]):
        find()


def test_bytes_of_a_gzip_file_are_not_copied_for_each_of_its_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []  # what follows a member in what it is fed is copied when it ends

    class Member:
        def __init__(self, wbits: int) -> None:
            self._member = decompressobj(wbits=wbits)

        def decompress(self, data: bytes, most: int) -> bytes:
            fed.append(len(data))
            return self._member.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._member, name)

    decompressobj = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Member)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"") * 5000 + gzip.compress(b"x"))
    with ByteStream(str(path), "gz", chunk_bytes=1 << 20) as stream:
        assert list(stream) == [b"x"]
    assert len(fed) > 5000
    assert max(fed) <= 1 << 14 < path.stat().st_size
