"""Rows 20 to 34: bad records and files end with exit 3 and their place, or are set aside."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from support.forks import Ended, ForkServer
from support.toy import write_toy_tokenizer

GOOD = b'{"text": "good"}\n'

# What is wrong with the second of three lines.
BAD_LINES: dict[str, bytes] = {
    "20 not JSON": b"{bad\n",
    "20 an array": b"[1, 2]\n",
    "20 cut off": b'{"text": "a\n',
    "20 two objects": b'{"text": "a"} {"text": "b"}\n',
    "21 invalid UTF-8": b'{"text": "a\xff\xfeb"}\n',
    "21 overlong UTF-8": b'{"text": "\xc0\xaf"}\n',
    "22 a lone surrogate": b'{"text": "a\\ud800b"}\n',
    "22 a surrogate in UTF-8": b'{"text": "\xed\xa0\x80"}\n',
    "25 deep nesting": b'{"text": "a", "x": ' + b"[" * 100_000 + b"}\n",
    "25 NaN as text": b'{"text": NaN}\n',
    "26 a key twice": b'{"text": "a", "text": "b"}\n',
    "27 a list": b'{"text": [7]}\n',
    "27 null": b'{"text": null}\n',
    "27 no such field": b'{"body": "a"}\n',
}


def write(folder: Path, data: bytes, name: str = "in.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def tokenize(server: ForkServer, path: Path, out: Path, *more: str) -> Ended:
    return server.run(["tokenize", path, "--tokenizer", "bytes", "--out", out, *more])


def counts_of(out: Path) -> dict[str, int]:
    counts: dict[str, int] = json.loads((out / "manifest.json").read_text("utf-8"))["counts"]
    return counts


def errors_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "errors.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("case", BAD_LINES)
def test_20_to_27_a_bad_line_is_named_or_set_aside(
    server: ForkServer, tmp_path: Path, case: str
) -> None:
    path = write(tmp_path, GOOD + BAD_LINES[case] + GOOD)
    ended = tokenize(server, path, tmp_path / "failed")
    assert ended.code == 3, ended.stderr
    assert ended.is_clean
    # I5: file, line and byte.
    assert f"line 2 of {path} (byte {len(GOOD)})" in ended.stderr
    assert not (tmp_path / "failed" / "manifest.json").exists()
    ended = tokenize(server, path, tmp_path / "kept", "--on-error", "quarantine")
    assert ended.code == 0, ended.stderr
    # I2: read = written + empty + quarantined.
    counts = counts_of(tmp_path / "kept")
    assert (counts["documents_read"], counts["documents_written"]) == (3, 2)
    assert counts["documents_quarantined"] == 1
    (entry,) = errors_of(tmp_path / "kept")
    assert (entry["file"], entry["line"], entry["byte_offset"]) == (str(path), 2, len(GOOD))
    assert entry["reason"]


def test_20_too_many_bad_records_end_the_run(server: ForkServer, tmp_path: Path) -> None:
    path = write(tmp_path, GOOD * 5 + b"{bad\n" * 5)
    skip = ("--on-error", "skip", "--max-errors")
    assert tokenize(server, path, tmp_path / "a", *skip, "4").code == 3
    assert tokenize(server, path, tmp_path / "b", *skip, "40%").code == 3
    assert tokenize(server, path, tmp_path / "c", *skip, "5").code == 0  # the control


def documents(server: ForkServer, path: Path, out: Path) -> list[bytes]:
    from dataprep.loaders import open_dataset

    ended = tokenize(server, path, out, "--no-add-bos", "--no-add-eos")
    assert ended.code == 0, ended.stderr
    dataset = open_dataset(out)
    return [bytes(dataset[i]["tokens"].astype("u1")) for i in range(len(dataset))]


@pytest.mark.parametrize(
    ("case", "data", "expected"),
    [
        ("23 NUL", b'{"text": "a\\u0000b"}\n', [b"a\0b"]),
        ("23 U+2028", '{"text": "a\u2028b"}\n'.encode(), ["a\u2028b".encode()]),
        ("23 U+0085", '{"text": "a\u0085b"}\n'.encode(), ["a\u0085b".encode()]),
        ("23 BOM", b"\xef\xbb\xbf" + GOOD, [b"good"]),
        ("23 CRLF", b'{"text": "a"}\r\n{"text": "b"}\r\n', [b"a", b"b"]),
        ("25 NaN elsewhere", b'{"text": "a", "x": [NaN, 2], "y": -Infinity}\n', [b"a"]),
        ("22 a surrogate elsewhere", b'{"text": "a", "x": "\\ud800"}\n', [b"a"]),
        ("29 no final newline", GOOD + b'{"text": "last"}', [b"good", b"last"]),
        ("28 blank lines", b"\n" + GOOD + b"  \n" + GOOD, [b"good", b"good"]),
    ],
)
def test_23_28_29_unusual_lines_are_read_to_the_byte(
    server: ForkServer, tmp_path: Path, case: str, data: bytes, expected: Sequence[bytes]
) -> None:
    assert documents(server, write(tmp_path, data), tmp_path / "out") == expected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_23_utf16_is_refused_with_the_fix(
    server: ForkServer, tmp_path: Path, encoding: str
) -> None:
    path = write(tmp_path, '{"text": "a"}\n'.encode(encoding))
    ended = tokenize(server, path, tmp_path / "out")
    assert ended.code == 3, ended.stderr
    assert "UTF-" in ended.stderr or encoding.endswith("e")  # without a BOM it cannot tell


def test_24_a_line_over_the_limit_is_set_aside(server: ForkServer, tmp_path: Path) -> None:
    line = b'{"text": "' + b"a" * 3_000_000 + b'"}\n'
    path = write(tmp_path, GOOD + line + GOOD)
    limit = ("--max-record-bytes", "1000000")
    ended = tokenize(server, path, tmp_path / "failed", *limit)
    assert ended.code == 3
    assert f"line 2 of {path}" in ended.stderr
    ended = tokenize(server, path, tmp_path / "kept", *limit, "--on-error", "quarantine")
    assert ended.code == 0, ended.stderr
    assert counts_of(tmp_path / "kept")["documents_quarantined"] == 1


def test_28_empty_documents_are_counted(server: ForkServer, tmp_path: Path) -> None:
    path = write(tmp_path, b'{"text": ""}\n' + GOOD + b'{"text": ""}\n')
    out = tmp_path / "out"
    ended = tokenize(server, path, out, "--no-add-bos", "--no-add-eos")
    assert ended.code == 0, ended.stderr
    counts = counts_of(out)
    assert (counts["documents_read"], counts["documents_empty"]) == (3, 2)
    assert counts["documents_written"] == 1


COMPRESS = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_30_31_a_compressed_file_cut_anywhere_is_an_error(
    server: ForkServer, tmp_path: Path, ending: str
) -> None:
    lines = b"".join(json.dumps({"text": f"line {i * 7919}"}).encode() + b"\n" for i in range(400))
    whole = COMPRESS[ending](lines)
    assert documents(server, write(tmp_path, whole, f"a.jsonl{ending}"), tmp_path / "whole")
    for number, size in enumerate(range(1, len(whole) - 1, max(len(whole) // 6, 1))):
        path = write(tmp_path / str(number), whole[:size], f"a.jsonl{ending}")
        ended = tokenize(server, path, tmp_path / f"out-{number}", "--on-error", "skip")
        assert ended.code == 3, f"{size} of {len(whole)}: {ended.code} {ended.stderr}"
        assert not (tmp_path / f"out-{number}" / "manifest.json").exists()


def test_31_a_zst_file_cut_between_or_within_its_frames(server: ForkServer, tmp_path: Path) -> None:
    frames = [zstandard.ZstdCompressor().compress(GOOD * n) for n in (1, 50, 400)]
    whole = b"".join(frames)
    assert len(documents(server, write(tmp_path, whole, "a.jsonl.zst"), tmp_path / "w")) == 451
    for number, size in enumerate((len(frames[0]) + 5, len(whole) - 1, len(whole) - 4)):
        path = write(tmp_path / str(number), whole[:size], "a.jsonl.zst")
        assert tokenize(server, path, tmp_path / f"out-{number}").code == 3


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_32_a_bomb_of_one_line_is_bounded(server: ForkServer, tmp_path: Path, ending: str) -> None:
    """A thousand to one: the line is over the limit, and never in memory as a whole."""
    bomb = COMPRESS[ending](b'{"text": "' + b"a" * 60_000_000 + b'"}\n')
    assert len(bomb) < 100_000
    path = write(tmp_path, bomb, f"a.jsonl{ending}")
    ended = tokenize(server, path, tmp_path / "out", "--max-record-bytes", "1000000")
    assert ended.code == 3
    assert f"line 1 of {path}" in ended.stderr


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_32_a_bomb_of_many_lines_is_refused_unless_allowed(
    server: ForkServer, tmp_path: Path, ending: str
) -> None:
    lines = (b'{"text": "' + b"a" * 1000 + b'"}\n') * 80_000
    bomb = COMPRESS[ending](lines)
    ratio = len(lines) / len(bomb)
    assert ratio > 300
    path = write(tmp_path, bomb, f"a.jsonl{ending}")
    ended = tokenize(server, path, tmp_path / "out")
    assert ended.code == 3, f"a ratio of {ratio:.0f} was read without a word"


CODES: dict[str, tuple[Any, str]] = {
    "too large": ([1, 2, 3, 8192], "8192"),
    "negative": ([1, 2, 3, -1], "-1"),
    "a fraction": ([1, 2, 3, 0.5], "0.5"),
    "a text": ([1, 2, 3, "x"], "x"),
    "a wrong count": ([1, 2, 3], "3"),
}


@pytest.mark.parametrize("case", CODES)
def test_33_codes_that_cannot_be_are_named(server: ForkServer, tmp_path: Path, case: str) -> None:
    codes, shown = CODES[case]
    tokenizer = write_toy_tokenizer(tmp_path / "toy")
    records = [{"vision": [1, 2, 3, 4]}, {"vision": codes}]
    path = write(tmp_path, "".join(json.dumps(r) + "\n" for r in records).encode())
    settings = [
        *("--set", "modalities.vision.tokens_per_frame=4"),
        *("--set", "modalities.vision.partial_frame=error"),
    ]
    words = ["tokenize", path, "--tokenizer", tokenizer, "--fields", "vision", *settings]
    ended = server.run([*words, "--out", tmp_path / "out"])
    assert ended.code == 3, ended.stderr
    assert f"line 2 of {path}" in ended.stderr
    assert "vision" in ended.stderr
    assert shown in ended.stderr


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(118, b" ") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def objects() -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    return file.getvalue()


NPYS = {
    "objects": objects(),
    "a huge shape": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}"),
    "a negative shape": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}"),
    "a product beyond 64 bits": npy(
        "{'descr': '<i8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"
    ),
    "code in its header": npy("__import__('os').system('touch pwned')"),
    "no header": b"\x93NUMPY\x01\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("case", NPYS)
def test_34_a_hostile_npy_is_refused(server: ForkServer, tmp_path: Path, case: str) -> None:
    tokenizer = write_toy_tokenizer(tmp_path / "toy")
    path = write(tmp_path, NPYS[case], "a.npy")
    words = ["tokenize", path, "--tokenizer", tokenizer, "--fields", "vision"]
    ended = server.run([*words, "--out", tmp_path / "out"])
    assert ended.code == 3, ended.stderr
    assert ended.is_clean
    assert str(path) in ended.stderr
    assert not list(tmp_path.rglob("pwned"))
