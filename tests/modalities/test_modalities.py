"""Blocks of vision and audio codes: every form that codes come in, every layout, interleaving."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.configs.load import load_config
from dataprep.configs.modalities import AudioConfig, VisionConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.modalities import BLOCKS
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.sources.json.records import JsonRecords
from support.inprocess import Seen, documents_of, seen_in, tokenize_here, write_lines
from support.toy import write_toy_tokenizer

NO_TAG = np.zeros(0, np.uint32)
VISION = {"tokens_per_frame": 2}
AUDIO = {"start": [92], "end": [93], "codebooks": 2, "codebook_size": 10}
SMALL: dict[str, Any] = {"modalities": {"vision": VISION, "audio": AUDIO}}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


def tokenize_small(path: Path, toy: Path, fields: str, out: str = "out") -> None:
    """One file with small frames and codebooks, into a folder beside it."""
    tokenize_here(path.parent / out, inputs=[str(path)], tokenizer=str(toy), fields=fields, **SMALL)


def audio_block(**config: Any) -> Block:
    return BLOCKS["audio"](AudioConfig(**config), NO_TAG, NO_TAG)


def vision_block(**config: Any) -> Block:
    return BLOCKS["vision"](VisionConfig(**config), NO_TAG, NO_TAG)


# Layouts


@pytest.mark.parametrize(
    ("config", "ids"),
    [
        ({"layout": "flatten"}, [1, 14, 2, 15, 3, 16]),
        ({"layout": "delay"}, [1, 20, 2, 14, 3, 15, 20, 16]),
        ({"layout": "delay", "fill": 99}, [1, 99, 2, 14, 3, 15, 99, 16]),
        ({"layout": "first"}, [1, 2, 3]),
        ({"layout": "flatten", "separate_codebooks": False}, [1, 4, 2, 5, 3, 6]),
        ({"layout": "delay", "separate_codebooks": False}, [1, 10, 2, 4, 3, 5, 10, 6]),
        ({"layout": "delay", "code_offset": 100}, [101, 120, 102, 114, 103, 115, 120, 116]),
    ],
)
def test_audio_codes_are_laid_out_as_asked(
    toy: Path, tmp_path: Path, config: dict[str, Any], ids: list[int]
) -> None:
    record = {"q": "a", "audio": [[1, 2, 3], [4, 5, 6]]}
    modalities = {"audio": {**AUDIO, **config}}
    (seen,) = documents_of(tmp_path, toy, [record], fields="[audio],q", modalities=modalities)
    assert seen.tokens == [1, 92, *ids, 93, 100, 2]
    assert seen.loss == [0] * (len(ids) + 3) + [1, 1]
    assert seen.audio == [0, 0] + [1] * len(ids) + [0, 0, 0]
    assert seen.vision is None


def test_delay_has_as_many_steps_as_frames_and_codebooks_less_one() -> None:
    block = audio_block(codebooks=4, layout="delay")
    wrapped = block.wrap(np.arange(4 * 7), np.array([4 * 7]))
    assert wrapped.lengths.tolist() == [4 * (7 + 4 - 1)]


def test_a_flat_list_of_several_codebooks_goes_frame_by_frame(toy: Path, tmp_path: Path) -> None:
    records = [{"audio": [1, 4, 2, 5]}, {"audio": [[1, 2], [4, 5]]}]
    flat, nested = documents_of(tmp_path, toy, records, fields="audio", **SMALL)
    assert flat == nested


def test_codebooks_that_are_left_out_are_counted(toy: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"audio": [[1, 2, 3], [4, 5, 6]]}] * 5)
    modalities = {"audio": {**AUDIO, "layout": "first"}}
    manifest = tokenize_here(
        tmp_path / "out",
        inputs=[str(path)],
        tokenizer=str(toy),
        fields="audio",
        modalities=modalities,
    )
    assert manifest["counts"]["codes_thinned"] == 15
    assert manifest["counts"]["codes_dropped"] == 0
    assert manifest["counts"]["audio_tokens"] == 15


def test_thinned_frames_and_partial_frames_are_counted_apart(toy: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"vision": list(range(9))}])
    manifest = tokenize_here(
        tmp_path / "out",
        inputs=[str(path)],
        tokenizer=str(toy),
        fields="vision",
        modalities={"vision": {**VISION, "max_frames": 3}},
    )
    assert manifest["counts"]["codes_dropped"] == 1
    assert manifest["counts"]["codes_thinned"] == 2
    assert manifest["counts"]["vision_tokens"] == 9


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
    st.integers(1, 6),
    st.integers(1, 50),
    st.integers(0, 1000),
    st.randoms(use_true_random=False),
)
def test_unwrapping_vision_gives_the_frames_back(
    frames: list[int], size: int, codebook_size: int, code_offset: int, random: Any
) -> None:
    block = vision_block(
        tokens_per_frame=size,
        codebook_size=codebook_size,
        code_offset=code_offset,
        end_of_frame=codebook_size,
        end_of_media=codebook_size + 1,
    )
    media = [
        np.array([[random.randrange(codebook_size) for _ in range(size)] for _ in range(count)])
        for count in frames
    ]
    counts = np.array([m.size for m in media])
    wrapped = block.wrap(np.concatenate([m.reshape(-1) for m in media]), counts)
    ends = np.cumsum(wrapped.lengths)
    assert ends[-1] == len(wrapped.ids)
    assert int(wrapped.ids.max()) <= block.max_id
    # Block by block, and side by side as where tags are empty.
    for part, medium in zip(np.split(wrapped.ids, ends[:-1]), media, strict=True):
        (found,) = block.unwrap(part)
        assert np.array_equal(found, medium)
    assert all(map(np.array_equal, block.unwrap(wrapped.ids), media))
    # A cut at the front costs the frame that it cuts.
    assert sum(map(len, block.unwrap(wrapped.ids[1:]))) == sum(frames) - 1


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from(["flatten", "delay", "first"]),
    st.booleans(),
    st.integers(0, 1000),
    st.randoms(use_true_random=False),
)
def test_unwrapping_audio_gives_the_codes_back(
    frames: list[int], books: int, layout: str, separate: bool, code_offset: int, random: Any
) -> None:
    block = audio_block(
        codebooks=books,
        codebook_size=20,
        layout=layout,
        separate_codebooks=separate,
        code_offset=code_offset,
    )
    media = [
        np.array([[random.randrange(20) for _ in range(count)] for _ in range(books)])
        for count in frames
    ]
    flat = [block.flatten(m) for m in media]
    wrapped = block.wrap(np.concatenate(flat), np.array([len(f) for f in flat]))
    assert int(wrapped.ids.max()) <= block.max_id
    ends = np.cumsum(wrapped.lengths)[:-1]
    for part, medium in zip(np.split(wrapped.ids, ends), media, strict=True):
        (found,) = block.unwrap(part)
        assert np.array_equal(found, medium[:1] if layout == "first" else medium)
        assert block.shape(len(part)) == f"{len(found)}×{found.shape[1]}"


# Forms


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


CODES = np.array([7, 0, 8191, 300])


@pytest.mark.parametrize(
    ("value", "raw_dtype"),
    [
        ([7, 0, 8191, 300], "int32"),
        (["7", "0", "8191", "300"], "int32"),
        ([7.0, 0, 8191.0, "300"], "int32"),
        (b64(CODES.astype("<i4").tobytes()), "int32"),
        (b64(CODES.astype("<u2").tobytes()), "uint16"),
        (b64(CODES.astype("<i8").tobytes()), "int64"),
        (b64(CODES.astype("<u8").tobytes()), "uint64"),
        (b64(npy(CODES.astype("<u2"))), "int32"),
        (b64(npy(CODES.astype(">i4"))), "int32"),
        (b64(npy(CODES.astype("u8").reshape(2, 2))), "int32"),
        (b64(npy(CODES.astype("u4").reshape(2, 2, 1))), "int32"),
    ],
)
def test_codes_may_come_in_many_forms(
    toy: Path, tmp_path: Path, value: Any, raw_dtype: str
) -> None:
    modalities = {"vision": {**VISION, "raw_dtype": raw_dtype}}
    (seen,) = documents_of(
        tmp_path, toy, [{"vision": value}], fields="vision", modalities=modalities
    )
    assert seen.tokens == [1, 90, 7, 0, 8192, 8191, 300, 8193, 91, 2]


INTEGERS = [pa.uint8(), pa.int8(), pa.uint16(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()]


@pytest.mark.parametrize("kind", [*INTEGERS, pa.float32(), pa.string()], ids=str)
@pytest.mark.parametrize("as_list", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 4)])
def test_codes_come_from_lists_in_parquet(
    toy: Path, tmp_path: Path, kind: Any, as_list: Any
) -> None:
    codes = [[7, 0, 100, 30], [1, 2, 3, 4]]
    values = [[str(c) for c in row] for row in codes] if kind == pa.string() else codes
    table = pa.table({"vision": pa.array(values, as_list(kind)), "a": ["x", "y"]})
    pq.write_table(table, tmp_path / "in.parquet")
    tokenize_small(tmp_path / "in.parquet", toy, "[vision],a")
    first, second = seen_in(tmp_path / "out")
    assert first.tokens == [1, 90, 7, 0, 8192, 100, 30, 8193, 91, 123, 2]
    assert second.tokens == [1, 90, 1, 2, 8192, 3, 4, 8193, 91, 124, 2]
    assert second.loss == [0] * 9 + [1, 1]
    assert second.vision == [0, 0] + [1] * 6 + [0] * 3


def test_codes_come_from_binary_columns(toy: Path, tmp_path: Path) -> None:
    table = pa.table({"vision": [CODES.astype("<i4").tobytes(), npy(CODES.astype("u2"))]})
    pq.write_table(table, tmp_path / "in.parquet")
    tokenize_small(tmp_path / "in.parquet", toy, "vision")
    first, second = seen_in(tmp_path / "out")
    assert first == second
    assert first.tokens == [1, 90, 7, 0, 8192, 8191, 300, 8193, 91, 2]


@pytest.mark.parametrize("shape", [(2, 8), (2, 4, 2), (2, 2, 2, 2)])
def test_rows_of_an_npy_are_records_of_frames(
    toy: Path, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    np.save(tmp_path / "in.npy", np.arange(16).reshape(shape))
    tokenize_small(tmp_path / "in.npy", toy, "vision")
    first, second = seen_in(tmp_path / "out")
    assert first.tokens == [1, 90, 0, 1, 8192, 2, 3, 8192, 4, 5, 8192, 6, 7, 8193, 91, 2]
    assert second.tokens[2] == 8


def test_rows_of_an_npy_may_have_codebooks(toy: Path, tmp_path: Path) -> None:
    codes = np.array([[[1, 2, 3], [4, 5, 6]]])
    np.save(tmp_path / "in.npy", codes)
    tokenize_small(tmp_path / "in.npy", toy, "audio")
    (seen,) = seen_in(tmp_path / "out")
    assert seen.tokens == [1, 92, 1, 14, 2, 15, 3, 16, 93, 2]


def test_rows_of_an_npy_without_codebooks_are_refused_where_there_are_several(
    toy: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "in.npy", np.zeros((2, 6), int))
    with pytest.raises(InputError, match=r"in\.npy has rows without codebooks"):
        tokenize_here(
            tmp_path / "out",
            inputs=[str(tmp_path / "in.npy")],
            tokenizer=str(toy),
            fields="audio",
            **SMALL,
        )


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("code in a pickle was run",))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b64(npy(np.array([Bomb()], object))), "holds object, but codes are integers"),
        (b64(npy(np.array([1.0, 2.0]))), "codes are integers"),
        (b64(npy(np.array([True, False]))), "codes are integers"),
        (b64(npy(CODES)[:-1]), "it was cut"),
        (b64(npy(CODES) + b"1"), "more bytes follow"),
        (b64(npy(CODES).replace(b"{", b"(")), "header is damaged"),
        (b64(npy(CODES).replace(b"(4,)", b"(4 ,)")), "header is damaged|it was cut"),
        (b64(npy(CODES).replace(b"(4,), }   ", b"(10**15,),}")), "header is damaged"),
        (b64(npy(CODES).replace(b"(4,), }      ", b"(1000000,), }")), "it was cut"),
        (b64(npy(CODES.reshape(1, 4))), "is 1×4, which holds no frames of 2"),
        (b64(b"123"), "3 bytes"),
        (b64(np.array([1, 1 << 20], "<i4").tobytes()), "outside 0..8191"),
        (b64(npy(np.array([1, 1 << 63], "u8"))), "does not fit 63 bits"),
    ],
)
def test_bytes_that_are_no_codes_are_errors(
    toy: Path, tmp_path: Path, value: str, message: str
) -> None:
    with pytest.raises(InputError, match=f"line 1 of .*field 'vision' .*{message}"):
        documents_of(tmp_path, toy, [{"vision": value}], fields="vision", **SMALL)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2], [3]], "unequal length"),
        ([[1, 2], [3, 4], [5, 6]], "3×2, not 2 codebooks"),
        ([[[1], [2]]], "nested list"),
        ([[1, 10], [3, 4]], "code 10 at position 2, outside 0..9"),
        ([1, 2, 3], "not a whole number of frames of 2"),
        ([1], "fewer than one frame of 2"),
        ([], "fewer than one frame of 2"),
        ([[], []], "fewer than one frame of 2"),
    ],
)
def test_bad_audio_codes_are_errors_that_name_the_field(
    toy: Path, tmp_path: Path, value: Any, message: str
) -> None:
    with pytest.raises(InputError, match=f"line 2 of .*field 'audio' .*{message}"):
        documents_of(tmp_path, toy, [{"audio": [1, 2]}, {"audio": value}], fields="audio", **SMALL)


def test_bad_blocks_are_quarantined_and_the_rest_is_kept(toy: Path, tmp_path: Path) -> None:
    records = [
        {"vision": [1, 2], "audio": [1, 2]},
        {"vision": [1, 9000], "audio": [1, 2]},
        {"vision": [1, 2], "audio": [1]},
        {"vision": [1, 2], "audio": "x"},
        {"vision": [9000, 1], "audio": [11, 1]},
        {"vision": [3, 4], "audio": [3, 4]},
    ]
    seen = documents_of(
        tmp_path, toy, records, fields="vision,audio", on_error="quarantine", **SMALL
    )
    assert [s.tokens[2] for s in seen] == [1, 3]
    lines = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    errors = [json.loads(line) for line in lines]
    assert [(e["line"], e["reason"].split()[1]) for e in errors] == [
        (2, "'vision'"),
        (3, "'audio'"),
        (4, "'audio'"),
        (5, "'vision'"),
    ]


# Interleaving


def test_segments_keep_their_order_and_their_own_loss(toy: Path, tmp_path: Path) -> None:
    record = {
        "segments": [
            {"type": "text", "text": "ab", "loss": False},
            {"type": "vision", "codes": [5, 6]},
            {"type": "text", "text": "c"},
            {"type": "audio", "audio": [[1], [2]], "loss": False},
            {"type": "vision", "vision": ["7", "8"], "loss": False},
            {"type": "text", "text": "d", "loss": True},
        ]
    }
    (seen,) = documents_of(tmp_path, toy, [record], fields="segments", **SMALL)
    assert seen.tokens == [
        *[1, 100, 101, 90, 5, 6, 8193, 91, 102],
        *[92, 1, 12, 93, 90, 7, 8, 8193, 91, 103, 2],
    ]
    assert seen.loss == [0, 0, 0, 1, 1, 1, 1, 1, 1, *[0] * 4, *[0] * 5, 1, 1]
    assert seen.vision == [0, 0, 0, 0, 1, 1, 1, 0, 0, *[0] * 4, 0, 1, 1, 1, 0, 0, 0]
    assert seen.audio == [0] * 10 + [1, 1] + [0] * 8


def test_segments_stand_among_other_fields(toy: Path, tmp_path: Path) -> None:
    segments = [{"type": "text", "text": "b"}, {"type": "vision", "codes": [5, 6]}]
    record = {"q": "a", "segments": segments, "fields": "[q],[segments],segments"}
    (seen,) = documents_of(tmp_path, toy, [record], fields_from="fields", **SMALL)
    assert seen.tokens == [1, 100, *[101, 90, 5, 6, 8193, 91] * 2, 2]
    assert seen.loss == [0] * 8 + [1] * 7


def test_prepended_text_stands_before_a_first_segment_of_text(toy: Path, tmp_path: Path) -> None:
    text, picture = {"type": "text", "text": "b"}, {"type": "vision", "codes": [5, 6]}
    records = [{"segments": [text, text]}, {"segments": [picture, text]}]
    first, second = documents_of(
        tmp_path, toy, records, fields="segments", prepend_text="a", **SMALL
    )
    assert first.tokens == [1, 100, 101, 101, 2]
    assert second.tokens == [1, 90, 5, 6, 8193, 91, 101, 2]


def test_no_segments_are_an_empty_document(toy: Path, tmp_path: Path) -> None:
    records: list[Any] = [{"segments": []}, {"segments": [{"type": "text", "text": ""}]}]
    assert documents_of(tmp_path, toy, records, fields="segments") == []


def test_documents_without_any_part_are_empty(toy: Path, tmp_path: Path) -> None:
    text = [{"type": "text", "text": "ab"}]
    records = [{"segments": s} for s in ([], text, [], text, [])]
    bare = {"add_bos": False, "add_eos": False}
    seen = documents_of(tmp_path, toy, records, fields="segments", **bare)
    assert [s.tokens for s in seen] == [[100, 101], [100, 101]]
    verify(tmp_path / "out")
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "in.parquet")
    manifest = tokenize_here(
        tmp_path / "table",
        inputs=[str(tmp_path / "in.parquet")],
        tokenizer=str(toy),
        fields="segments",
        **bare,
    )
    assert seen_in(tmp_path / "table") == seen
    assert manifest["counts"]["documents_empty"] == 3


def test_segments_from_parquet_equal_those_from_json(toy: Path, tmp_path: Path) -> None:
    record = {
        "segments": [
            {"type": "text", "text": "ab", "loss": False},
            {"type": "vision", "codes": [5, 6]},
        ]
    }
    (expected,) = documents_of(tmp_path, toy, [record], fields="segments", **SMALL)
    pq.write_table(pa.Table.from_pylist([record]), tmp_path / "in.parquet")
    tokenize_small(tmp_path / "in.parquet", toy, "segments", out="table")
    assert seen_in(tmp_path / "table") == [expected]


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ("text", "field 'segments' must be a list of segments"),
        (["text"], "field .segments.0.. must be an object"),
        ([{"text": "a"}], "field .segments.0.. has type None"),
        (
            [{"type": "text", "text": "a"}, {"type": "image", "codes": [1]}],
            "field .segments.1.. has type",
        ),
        ([{"type": "text", "text": 5}], "field .segments.0.. must be text, got int 5"),
        ([{"type": "text"}], "needs 'text' and no more; it has nothing"),
        ([{"type": "text", "text": "a", "codes": [1]}], "it has text, codes"),
        ([{"type": "vision", "text": "a"}], "needs 'codes' and no more; it has text"),
        ([{"type": "vision", "vision": [1], "codes": [1]}], "it has vision, codes"),
        ([{"type": "text", "text": "a", "los": False}], "unknown key 'los'"),
        ([{"type": "text", "text": "a", "loss": 0}], "has loss 0; use true or false"),
        ([{"type": "vision", "codes": [1]}], "field .segments.0.. has 1 code, fewer than one"),
        ([{"type": "vision", "codes": [1, 9000]}], "field .segments.0.. has code 9000"),
        ([{"type": "text", "text": "\ud800"}], "lone surrogate"),
    ],
)
def test_bad_segments_are_errors_that_name_the_segment(
    toy: Path, tmp_path: Path, segments: Any, message: str
) -> None:
    good = {"segments": [{"type": "text", "text": "a"}]}
    with pytest.raises(InputError, match=f"line 2 of .*{message}"):
        documents_of(tmp_path, toy, [good, {"segments": segments}], fields="segments", **SMALL)


# Paths through the code


texts = st.text("abcdef ", max_size=6)
documents = st.lists(
    st.tuples(
        texts,
        st.lists(st.integers(0, 8191), min_size=2, max_size=9),
        st.lists(st.integers(0, 9), min_size=1, max_size=4).map(lambda c: [c, c[::-1]]),
    ),
    min_size=1,
    max_size=8,
)
numbers = iter(range(10**9))


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents, st.booleans(), st.sampled_from([None, 2]), st.sampled_from(["flatten", "delay"]))
def test_columns_records_specs_and_segments_give_the_same_documents(
    toy: Path,
    tmp_path: Path,
    documents: list[tuple[str, list[int], list[list[int]]]],
    loss: bool,
    max_frames: int | None,
    layout: str,
) -> None:
    modalities = {
        "vision": {**VISION, "max_frames": max_frames},
        "audio": {**AUDIO, "layout": layout},
    }
    spec = "a,vision,audio,a" if loss else "a,[vision],audio,a"
    found: dict[str, list[Seen]] = {}

    def run(name: str, records: list[dict[str, Any]], table: bool = False, **config: Any) -> None:
        home = tmp_path / str(next(numbers))
        home.mkdir()
        path = write_lines(home / "in.jsonl", records)
        if table:
            path = home / "in.parquet"
            pq.write_table(pa.Table.from_pylist(records), path)
        tokenize_here(
            home / "out",
            inputs=[str(path)],
            tokenizer=str(toy),
            modalities=modalities,
            **config,
        )
        found[name] = seen_in(home / "out")

    flat = [
        {"a": a, "vision": v, "audio": np.array(s).T.reshape(-1).tolist()} for a, v, s in documents
    ]
    nested = [{"a": a, "vision": v, "audio": s} for a, v, s in documents]
    strings = [{**record, "vision": [str(c) for c in record["vision"]]} for record in flat]
    segments = [
        {
            "segments": [
                {"type": "text", "text": a},
                {"type": "vision", "codes": v, "loss": loss},
                {"type": "audio", "codes": s},
                {"type": "text", "text": a},
            ]
        }
        for a, v, s in documents
    ]
    run("lines", flat, fields=spec)
    run("nested", nested, fields=spec)
    run("strings", strings, fields=spec)
    run("specs", [{**r, "fields": spec} for r in nested], fields_from="fields")
    run("table", flat, table=True, fields=spec)
    run("nested table", nested, table=True, fields=spec)
    run("table of specs", [{**r, "fields": spec} for r in flat], table=True, fields_from="fields")
    run("segments", segments, fields="segments")
    for name, seen in found.items():
        assert seen == found["lines"], name


@pytest.mark.parametrize(
    ("modalities", "message"),
    [
        ({"vision": {"codebook_size": 16384}}, "end_of_frame 8192 is also a code"),
        ({"vision": {"end_of_media": 5}}, "end_of_media 5 is also a code"),
        ({"audio": {"codebooks": 2, "fill": 2047}}, "fill 2047 is also a code; set it to 2048"),
        ({"audio": {"codebook_size": 1 << 40}}, "must be at most 2147483648"),
    ],
)
def test_ids_that_mean_two_things_are_refused(modalities: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(TokenizeConfig, flags={"modalities": modalities})


def test_codebooks_beyond_32_bits_are_refused(toy: Path, tmp_path: Path) -> None:
    audio = {"codebooks": 8, "codebook_size": 1 << 30}
    with pytest.raises(ConfigError, match=r"ids of audio go up to .* 32-bit integers"):
        documents_of(
            tmp_path, toy, [{"audio": [1] * 8}], fields="audio", modalities={"audio": audio}
        )


def test_codes_are_not_joined_to_text(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="joins 'vision' to text"):
        documents_of(tmp_path, toy, [{"a": "x", "vision": [1, 2]}], fields="a+vision,vision")


def test_a_tag_that_cannot_be_spelled_matters_only_where_it_is_used(
    tmp_path: Path,
) -> None:
    from tokenizers import Tokenizer, models

    vocab = {"<vision>": 1, "</vision>": 2, "b": 3}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.add_special_tokens(["<vision>", "</vision>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ConfigError, match=r"modalities\.audio\..*gives no id for '</?audio>'"):
        documents_of(tmp_path / "a", tmp_path, [{"audio": [1]}], fields="audio")
    picture = {"type": "vision", "codes": [5] * 256}
    records = [{"segments": [picture]}, {"segments": [{"type": "audio", "codes": [1]}]}]
    (seen,) = documents_of(tmp_path / "b", tmp_path, records[:1], fields="segments")
    assert (seen.tokens[0], seen.tokens[-1]) == (1, 2)
    with pytest.raises(InputError, match="is audio, whose tags the tokenizer cannot spell"):
        documents_of(tmp_path / "c", tmp_path, records, fields="segments")


def test_under_lwm_only_vision_is_codes(toy: Path, tmp_path: Path) -> None:
    record = {"fields": "audio_text,segments", "audio_text": "a", "segments": "b"}
    (seen,) = documents_of(tmp_path, toy, [record], fields_from="fields", compat="lwm")
    assert seen.tokens == [1, 100, 101, 2]
    assert (seen.vision, seen.audio) == ([0, 0, 0, 0], None)


def test_ids_beyond_what_a_batch_can_hold_are_refused(toy: Path, tmp_path: Path) -> None:
    modalities = {"audio": {**AUDIO, "code_offset": (1 << 31) - 19}}
    with pytest.raises(ConfigError, match=r"lower code_offset, codebook_size or the tags"):
        documents_of(tmp_path, toy, [{"audio": [1, 2]}], fields="audio", modalities=modalities)


def test_masks_reach_the_batch(run_cli: RunCli, tmp_path: Path) -> None:
    """Codes have ids that nothing else has, so that each mask can be told from the tokens."""
    rng = np.random.default_rng(0)
    records = [
        {
            "segments": [
                {"type": "text", "text": "look " * int(rng.integers(1, 9)), "loss": False},
                {"type": "vision", "codes": rng.integers(0, 8192, 4 * n).tolist()},
                {"type": "text", "text": "and listen"},
                {"type": "audio", "codes": rng.integers(0, 1024, (2, n)).tolist()},
            ]
        }
        for n in rng.integers(1, 9, 50).tolist()
    ]
    path = write_lines(tmp_path / "in.jsonl", records)
    config = {
        "modalities": {
            "vision": {"tokens_per_frame": 4, "code_offset": 1000},
            "audio": {"codebooks": 2, "layout": "delay", "code_offset": 20000},
        },
        "fields": "segments",
        "tokenizer": "bytes",
    }
    (tmp_path / "c.json").write_text(json.dumps(config))
    run_cli("tokenize", path, "--config", tmp_path / "c.json", "--out", tmp_path / "tokens")
    run_cli("pack", tmp_path / "tokens", "--seq-len", "64", "--out", tmp_path / "rows")
    run_cli("verify", tmp_path / "tokens")
    run_cli("verify", tmp_path / "rows")
    with DataLoader(tmp_path / "rows", batch_size=4, epochs=1) as loader:
        seen = 0
        for batch in loader:
            ids = batch["inputs"]
            assert np.array_equal(batch["audio_mask"], ids >= 20000)
            assert np.array_equal(batch["vision_mask"], (ids >= 1000) & (ids < 20000))
            seen += int(batch["audio_mask"].sum())
        assert seen
    with DataLoader(tmp_path / "rows", batch_size=4, view="lwm") as loader:
        batch = loader[0]
        for side in ("input", "target"):
            ids = batch[f"{side}_tokens"]
            codes = (ids >= 1000) & (ids < 20000)
            assert np.array_equal(batch[f"{side}_vision_masks"], codes)


odd_lists: list[Any] = [[1], [], [1, 9000], [-1, 2], [1, 1.5], ["1", "x"], [True, 1], [[1, 2]]]
odd_lists += [[None, 1], [1, [2]], [2**70, 1], ["1", 2], [1.0, 2.0], ["4", "7"], [[4, "7"]]]
bad_codes = st.sampled_from([*odd_lists, None, "text", 7, {}, "AAAAAAEAAAA=", "k05VTVBZ"])
codes = st.lists(st.integers(0, 8191), min_size=2, max_size=7) | bad_codes
segment = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "vision", "audio", "image", None, [1, 2], 5])},
    optional={
        "text": texts | st.sampled_from([5, [1, 2], None]),
        "codes": codes,
        "vision": codes,
        "loss": st.sampled_from([True, False, None, 1, [1]]),
        "other": st.just(1),
    },
)
odd_segments = st.lists(segment, max_size=3) | st.sampled_from(["x", None, [5], [[1]], {}, [1, 2]])
odd_records = st.one_of(
    st.fixed_dictionaries({"spec": st.just("a,[vision],audio"), "a": texts, "vision": codes})
    | st.fixed_dictionaries(
        {
            "spec": st.sampled_from(["a,vision,[audio]", "vision", "a+vision", "{a}", "<|bos|>"]),
            "a": texts | st.sampled_from([5, [1], None]),
            "vision": codes,
            "audio": codes,
        }
    ),
    st.fixed_dictionaries({"spec": st.just("segments,a"), "a": texts, "segments": odd_segments}),
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(odd_records, min_size=1, max_size=6), st.sampled_from([None, "vision", "segments"]))
def test_documents_and_errors_do_not_depend_on_how_a_line_was_read(
    toy: Path, tmp_path: Path, records: list[dict[str, Any]], fields: str | None
) -> None:
    """All lines of a block at once, with codes as arrays; or one by one, as Python values."""
    found = []
    for slow in (False, True):
        home = tmp_path / str(next(numbers))
        with pytest.MonkeyPatch.context() as patch:
            if slow:
                patch.setattr(JsonRecords, "_all_at_once", lambda *_: None)
            seen = documents_of(
                home,
                toy,
                records,
                **({"fields": fields} if fields else {"fields_from": "spec"}),
                on_error="quarantine",
                max_errors=None,
                **SMALL,
            )
        errors = home / "out" / "errors.jsonl"
        lines = errors.read_text().splitlines() if errors.exists() else []
        reasons = [(json.loads(e)["line"], json.loads(e)["reason"]) for e in lines]
        manifest = json.loads((home / "out" / "manifest.json").read_text())
        found.append((seen, reasons, manifest["counts"]))
    assert found[0] == found[1]
