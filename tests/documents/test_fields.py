"""The field grammar: optional, nested and numeric fields, and texts in quotes."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import RunCli
from dataprep.loaders import open_dataset
from dataprep.pipeline.documents.field import Field, Grammar
from dataprep.pipeline.documents.fields import parse_spec
from dataprep.pipeline.documents.lookup import text_of
from dataprep.pipeline.documents.settle import Settler
from dataprep.pipeline.errors import ConfigError, InputError
from dataprep.pipeline.sources.json.records import JsonRecords
from dataprep.pipeline.sources.makers import Maker, metadata_of
from dataprep.pipeline.types import Record
from support.inprocess import documents_of, seen_in, tokenize_here, write_lines
from support.toy import write_toy_tokenizer
from support.trees import tree

RECORDS = [
    {"q": "what", "meta": {"url": "u1", "n": 3}, "hint": "h", "a": "yes", "ok": True, "f": 0.5},
    {"q": "who", "meta": {"url": "u2", "n": -4}, "hint": None, "a": "no", "ok": False, "f": 1.0},
    {"q": "why", "meta": {"url": "u3", "n": 10**15}, "a": "", "ok": True, "f": 1e20},
]
GRAMMAR = Grammar(codes=(("vision", ("vision*",)), ("audio", ("audio*",))), segments=("segments",))
OLD = Grammar(codes=GRAMMAR.codes, segments=GRAMMAR.segments, lwm=True)


# --- the same records in every format that has keys -------------------------------------------


def as_jsonl(records: Sequence[Any], folder: Path) -> Path:
    return write_lines(folder / "in.jsonl", records)


def as_json(records: Sequence[Any], folder: Path) -> Path:
    (folder / "in.json").write_text(json.dumps(list(records), indent=1))
    return folder / "in.json"


def as_parquet(records: Sequence[Any], folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(_filled(records)), folder / "in.parquet")
    return folder / "in.parquet"


def as_arrow(records: Sequence[Any], folder: Path) -> Path:
    table = pa.Table.from_pylist(_filled(records))
    with pa.ipc.new_stream(str(folder / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    return folder / "in.arrow"


def as_saved(records: Sequence[Any], folder: Path) -> Path:
    import datasets

    datasets.Dataset.from_list(_filled(records)).save_to_disk(str(folder / "in"))
    return folder / "in"


def as_tar(records: Sequence[Any], folder: Path) -> Path:
    with tarfile.open(folder / "in.tar", "w") as tar:
        for i, record in enumerate(records):
            data = json.dumps(record).encode()
            info = tarfile.TarInfo(f"{i:03}.json")
            info.size = len(data)
            tar.addfile(info, BytesIO(data))
    return folder / "in.tar"


def _filled(records: Sequence[Any]) -> list[Any]:
    """Return the records with all keys: a table has every column in every row."""
    keys = dict.fromkeys(key for record in records for key in record)
    return [{key: record.get(key) for key in keys} for record in records]


WRITERS: dict[str, Callable[[Sequence[Any], Path], Path]] = {
    "jsonl": as_jsonl,
    "json": as_json,
    "parquet": as_parquet,
    "arrow": as_arrow,
    "saved": as_saved,
    "tar": as_tar,
}


def texts_of(path: Path, out: Path, **config: Any) -> list[tuple[str, str]]:
    """Return the text and the loss of each document, made by the tokenizer `bytes`."""
    config = {"add_bos": False, "add_eos": False, **config}
    tokenize_here(out, inputs=[str(path)], tokenizer="bytes", **config)
    return [(bytes(seen.tokens).decode(), "".join(map(str, seen.loss))) for seen in seen_in(out)]


CASES: dict[str, list[tuple[str, str]]] = {
    "[q],hint?,a": [("whathyes", "00001111"), ("whono", "00011"), ("why", "000")],
    "[meta.url],' -> ',a": [
        ("u1 -> yes", "001111111"),
        ("u2 -> no", "00111111"),
        ("u3 -> ", "001111"),
    ],
    "meta.n+hint?+ok": [
        ("3 h true", "1" * 8),
        ("-4 false", "1" * 8),
        ("1000000000000000 true", "1" * 21),
    ],
    "f,[meta.n?],nothing?,meta.nothing?": [
        ("0.53", "1110"),
        ("1.0-4", "11100"),
        ("1e+201000000000000000", "1" * 5 + "0" * 16),
    ],
    "['[a, b] \\'c\\'\\n\\t\\\\'],hint?": [
        ("[a, b] 'c'\n\t\\h", "0" * 13 + "1"),
        ("[a, b] 'c'\n\t\\", "0" * 13),
        ("[a, b] 'c'\n\t\\", "0" * 13),
    ],
    "hint?": [("h", "1")],  # the others have no token, so they are not written
}


@pytest.mark.parametrize("spec", CASES)
@pytest.mark.parametrize("kind", WRITERS)
def test_optional_nested_and_numeric_fields_and_texts(tmp_path: Path, kind: str, spec: str) -> None:
    path = WRITERS[kind](RECORDS, tmp_path)
    assert texts_of(path, tmp_path / "out", fields=spec) == CASES[spec]


@pytest.mark.parametrize("spec", CASES)
def test_a_record_may_bring_every_form_in_its_own_spec(tmp_path: Path, spec: str) -> None:
    records = [{"m": {"spec": spec}, **record} for record in RECORDS]
    path = as_jsonl(records, tmp_path)
    assert texts_of(path, tmp_path / "out", fields_from="m.spec") == CASES[spec]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("spec", ["", "[]", "a,"])
@pytest.mark.parametrize("others", [[], ["a"]])  # all specs are alike, or they are not
def test_a_record_whose_own_spec_names_an_empty_field_is_bad(
    tmp_path: Path, kind: str, spec: str, others: list[str]
) -> None:
    records = [{"spec": each, "": "x", "a": "y"} for each in (*others, spec)]
    path = WRITERS[kind](records, tmp_path)
    with pytest.raises(InputError, match=re.escape(f"fields {spec!r} names an empty field")):
        texts_of(path, tmp_path / "out", fields_from="spec")


def test_weights_hold_for_optional_fields_and_for_texts(tmp_path: Path) -> None:
    path = as_jsonl(RECORDS[:2], tmp_path)
    fields = "hint?*0.5,'ab'*0.25,a,meta.n*2"
    texts_of(path, tmp_path / "out", fields=fields)
    first, second = open_dataset(tmp_path / "out")[[0, 1]]
    assert first["loss_weights"].tolist() == [0.5, 0.25, 0.25, 1, 1, 1, 2]
    assert second["loss_weights"].tolist() == [0.25, 0.25, 1, 1, 2, 2]


def test_blocks_ids_and_segments_may_be_optional_or_nested(tmp_path: Path) -> None:
    toy = write_toy_tokenizer(tmp_path / "toy")
    records: list[Any] = [
        {"vision": [1, 2], "ids": "ZAAAAA==", "m": {"ids": "ZQAAAA==", "segments": []}},
        {"m": {"ids": "ZgAAAA=="}, "vision": None},
        {
            "m": {"ids": "ZwAAAA=="},
            "vision": [3, 4],
            "segments": [{"type": "text", "text": "a", "loss": False}],
        },
    ]
    frames = {"modalities": {"vision": {"tokens_per_frame": 2}}}
    spec = "[vision?],[{ids?}],{m.ids},segments?"
    seen = documents_of(tmp_path, toy, records, fields=spec, **frames)
    assert [s.tokens for s in seen] == [
        [1, 90, 1, 2, 8193, 91, 100, 101, 2],
        [1, 102, 2],
        [1, 90, 3, 4, 8193, 91, 103, 100, 2],
    ]
    assert [s.loss for s in seen] == [[0] * 7 + [1, 1], [0, 1, 1], [0] * 6 + [1, 0, 1]]
    nested = [{"pic": {"vision": [5, 6]}}, {"pic": {"vision": [7, 8]}}]
    for name, write in (("p", as_parquet), ("j", as_jsonl)):
        (tmp_path / name).mkdir()
        globs = {"vision": {"tokens_per_frame": 2, "fields": ["pic.vision"]}}
        tokenize_here(
            tmp_path / name / "out",
            inputs=[str(write(nested, tmp_path / name))],
            tokenizer=str(toy),
            fields="[pic.vision?]",
            modalities=globs,
        )
        blocks = [s.tokens for s in seen_in(tmp_path / name / "out")]
        assert blocks == [[1, 90, 5, 6, 8193, 91, 2], [1, 90, 7, 8, 8193, 91, 2]]


def test_a_table_without_the_optional_codes_does_not_ask_who_made_them(
    tmp_path: Path, toy: Path
) -> None:
    made = metadata_of([Maker(column="vision", kind="vision", encoder="e", tokens_per_frame=2)])
    coded = pa.table({"vision": [[5, 6]], "text": ["a"]}).replace_schema_metadata(made)
    pq.write_table(coded, tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["b"]}), tmp_path / "b.parquet")
    inputs = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    tokenize_here(tmp_path / "out", inputs=inputs, tokenizer=str(toy), fields="[vision?],text")
    found = [seen.tokens for seen in seen_in(tmp_path / "out")]
    assert found == [[1, 90, 5, 6, 8193, 91, 100, 2], [1, 101, 2]]


def test_prepended_text_goes_before_the_first_field_that_is_there(tmp_path: Path) -> None:
    path = as_jsonl([{"a": "x", "b": "y"}, {"b": "y"}, {}], tmp_path)
    seen = texts_of(path, tmp_path / "out", fields="a?,b?,'.'", prepend_text="> ")
    assert [text for text, _ in seen] == ["> xy.", "> y.", "> ."]


# --- what is there literally ------------------------------------------------------------------


def test_a_key_that_is_spelled_like_the_field_wins(tmp_path: Path) -> None:
    records = [
        {"a.b": "dot", "a": {"b": "nested"}, "x?": "mark", "x": "no", "'t'": "quoted"},
        {"a": {"b": "nested"}, "x": "plain"},
        {"a.b": None, "a": {"b": "nested"}},
        {"a": {"b": "n"}, "x?": "mark"},
    ]
    expected = ["dotmarkquoted", "nestedplaint", "nestedt", "nmarkt"]
    for name, write in (("j", as_jsonl), ("a", as_json), ("t", as_tar)):
        (tmp_path / name).mkdir()
        path = write(records, tmp_path / name)
        seen = texts_of(path, tmp_path / name / "out", fields="a.b,x?,'t'")
        assert [text for text, _ in seen] == expected
    table = [{"a.b": "dot", "a": {"b": "nested"}, "x?": "mark", "x": "no", "'t'": "quoted"}]
    for name, write in (("p", as_parquet), ("r", as_arrow)):
        (tmp_path / name).mkdir()
        path = write(table, tmp_path / name)
        seen = texts_of(path, tmp_path / name / "out", fields="a.b,x?,'t'")
        assert [text for text, _ in seen] == expected[:1]


def test_a_key_that_is_spelled_like_the_field_wins_over_a_path_that_leads_nowhere(
    tmp_path: Path,
) -> None:
    records = [{"a.b?": "x", "a": "no object"}, {"a": {"b": "y"}}]
    path = as_jsonl(records, tmp_path)
    assert [text for text, _ in texts_of(path, tmp_path / "out", fields="a.b?")] == ["x", "y"]


def test_the_rest_of_a_path_may_be_one_key_with_dots(tmp_path: Path) -> None:
    records = [{"a": {"b.c": "flat", "b": {"c": "deep"}}}, {"a": {"b": {"c": "deep"}}}]
    path = as_jsonl(records, tmp_path)
    assert [t for t, _ in texts_of(path, tmp_path / "out", fields="a.b.c")] == ["flat", "deep"]
    pq.write_table(pa.Table.from_pylist(records[:1]), tmp_path / "in.parquet")
    seen = texts_of(tmp_path / "in.parquet", tmp_path / "flat", fields="a.b.c")
    assert [t for t, _ in seen] == ["flat"]


names = st.text("ab.?'*+[]{}0 ", min_size=1, max_size=6)
specs = st.lists(names | names.map(lambda n: f"[{n}]"), min_size=1, max_size=3).map(",".join)


def laid_out(fields: Sequence[Field], record: Record, *, lwm: bool) -> list[Any]:
    return [
        (f.kind, f.weight, f.mask, f.keys, [text_of(record, key, lwm=lwm) for key in f.keys])
        for f in fields
    ]


@settings(max_examples=400, deadline=None)
@given(specs)
def test_a_spec_whose_keys_are_all_there_means_what_it_meant_before(spec: str) -> None:
    try:
        before = parse_spec(spec, OLD)
    except ValueError:
        return
    if re.search("'[^']*,.*'", spec):
        return  # 'a,b' were two keys, of which one began and one ended with a quote
    record = {key: f"<{key}>" for f in before for key in f.keys}
    try:
        now = Settler(parse_spec(spec, GRAMMAR)).of_record(record)
    except ValueError as error:
        if re.search(r"\? in the wrong place|joins", str(error)):
            return  # no key is called so
        raise
    assert laid_out(now, record, lwm=False) == laid_out(before, record, lwm=True)


def test_under_compat_lwm_these_are_characters_of_keys(toy: Path, tmp_path: Path) -> None:
    record = {"a.b": "a", "x?": "b", "'t'": "c", "'d": "d", "e'": "e", "a": {"b": "no"}, "x": "no"}
    for i, extra in enumerate(({"fields": "a.b,x?,'t','d,e'"}, {"fields_from": "spec"})):
        records = [{**record, "spec": "a.b,x?,'t','d,e'"}]
        (seen,) = documents_of(tmp_path / str(i), toy, records, compat="lwm", **extra)
        assert seen.tokens == [1, 100, 101, 102, 103, 104, 2]
    for i, spec in enumerate(("a.b", "x?", "'t'")):
        nested = [{"a": {"b": "no"}, "x": "no", "spec": spec}]
        with pytest.raises(InputError, match=r"field .* is missing|column .* not in"):
            documents_of(tmp_path / f"n{i}", toy, nested, compat="lwm", fields=spec)
        with pytest.raises(InputError, match=r"field .* is missing"):
            documents_of(tmp_path / f"r{i}", toy, nested, compat="lwm", fields_from="spec")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


# --- the two ways to lay out, and the two ways to read JSON, agree ----------------------------

scalars = st.none() | st.sampled_from(["", "a", "bc", 3, 0.25, True])
fields = st.sampled_from(
    ["a", "a?", "[b?]", "m.x", "m.x?*0.5", "[m.y?+z]", "z?+a?", "'t'", "m.d.e?"]
)


def made(values: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the keys whose value is "gone"."""
    return {
        key: made(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value != "gone"
    }


records_drawn = st.lists(
    st.fixed_dictionaries(
        {
            "a": scalars | st.just("gone"),
            "b": scalars | st.just("gone"),
            "z": scalars,
            "m": st.fixed_dictionaries({"x": scalars, "y": scalars | st.just("gone")})
            | st.none()
            | st.just("gone"),
        }
    ).map(made),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(records_drawn, st.lists(fields, min_size=1, max_size=4).map(",".join))
@example([{"a": None, "b": None, "z": None, "m": None}] * 2, "m.x,[m.y?+z]")  # keys in order
def test_columns_rows_and_slow_reading_give_the_same_documents(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], spec: str
) -> None:
    folder = tmp_path_factory.mktemp("same")
    config: dict[str, Any] = {
        "fields": spec,
        "inputs": [str(as_jsonl(records, folder))],
        "on_error": "quarantine",
        "tokenizer": "bytes",
        "add_bos": False,
        "add_eos": False,
        "allow_empty": True,
    }
    tokenize_here(folder / "fast", **config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonRecords, "_all_at_once", lambda *_: None)
        patch.setattr("dataprep.pipeline.documents.process.lay_out_columns", lambda *_: None)
        tokenize_here(folder / "slow", **config)
    assert tree(folder / "fast") == tree(folder / "slow")
    found = [bytes(s.tokens).decode() for s in seen_in(folder / "fast")]
    assert found == [text for text in (oracle(record, spec) for record in records) if text]


def oracle(record: Any, spec: str) -> str | None:
    """Return the text of a document; None for a bad record."""
    text = ""
    for field in spec.split(","):
        name = field.removesuffix("*0.5").strip("[]")
        if name.startswith("'"):
            text += name[1:-1]
            continue
        found = []
        for key in name.split("+"):
            value = record
            for step in key.removesuffix("?").split("."):
                if value is not None and not isinstance(value, dict):
                    return None
                value = None if value is None else value.get(step)
            if value is None and not key.endswith("?"):
                return None
            if value is not None:
                found.append(value if isinstance(value, str) else json.dumps(value))
        text += " ".join(found)
    return text


# --- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("<|bos|>?", r"an id is always there; leave out the \?"),
        ("<|12|>?", r"an id is always there"),
        ("'text'?", r"a text in quotes is always there"),
        ("['text']?", r"write \[x\?\]"),
        ("[x]?", r"write \[x\?\]"),
        ("{x}?", r"write \{x\?\}"),
        ("x*0.5?", r"write x\?\*0.5"),
        ("x+'text'", r"joins a text in quotes; write it as a field of its own"),
        ("'a\\b'", r"write \\\\ for a backslash"),
        ("['a']*0.5", "has a weight but no loss"),
        ("'a'*nan", "weight nan"),
        ("['a',b]", "stray bracket"),
        ("a+vision?", "joins 'vision' to text"),
        ("vision+a?", r"joins vision, but \+ joins only texts"),
    ],
)
def test_what_cannot_be_combined_is_an_error_that_says_so(
    tmp_path: Path, spec: str, message: str
) -> None:
    path = as_jsonl(RECORDS, tmp_path)
    with pytest.raises(ConfigError, match=message):
        texts_of(path, tmp_path / "out", fields=spec)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hint", r"field 'hint' is null; write hint\? to leave it out"),
        ("meta.url.x", r"'meta.url.x'.*'meta.url'.* is .*(not an object|not a struct)"),
        ("q.x?", r"'q'.* is .*(not an object|not a struct)"),
        ("meta.urk", r"'meta.urk'.*(url, n|n, url).*did you mean 'url'\?"),
        ("metta.url", r"'metta.url'.*did you mean 'meta'\?"),
        ("hnt", r"'hnt'.*did you mean 'hint'\?"),
        ("meta", r"field 'meta' must be text, got dict .*; name what is in it: meta.url"),
    ],
)
def test_errors_name_the_place_on_the_path_and_the_near_names(
    tmp_path: Path, kind: str, spec: str, message: str
) -> None:
    path = WRITERS[kind](RECORDS[:2], tmp_path)
    with pytest.raises(InputError, match=message):
        texts_of(path, tmp_path / "out", fields=spec)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("text", r"'text'.*; set --fields, or --chat messages for conversations"),
        ("mesages", r"did you mean 'messages'\? set --fields, or --chat messages for conv"),
        ("messages", r"a list of 1 value; if it is a conversation, say --chat messages instead of"),
        ("n,' ', n", r"' n'.*did you mean 'n'\? set --fields, without blanks"),
    ],
)
def test_conversations_lead_to_chat_and_blanks_are_named(
    tmp_path: Path, kind: str, spec: str, message: str
) -> None:
    records = [{"messages": [{"role": "user", "content": "hi"}], "n": "1"}]
    with pytest.raises(InputError, match=message):
        texts_of(WRITERS[kind](records, tmp_path), tmp_path / "out", fields=spec)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2023, 11, 14, 22, 13), "datetime 2023-11-14 22:13:00"),
        (Decimal("0.50"), "Decimal 0.50"),
        (b"\xff", r"bytes b'\\xff'"),
    ],
)
def test_values_of_tables_that_json_lacks_are_shown_and_told_what_to_do(
    value: Any, shown: str
) -> None:
    with pytest.raises(ValueError, match=f"must be text, got {shown}; make the column text before"):
        text_of({"f": value}, "f", lwm=False)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_cannot_write_are_refused(tmp_path: Path, value: float) -> None:
    pq.write_table(pa.table({"f": [0.5, value]}), tmp_path / "in.parquet")
    with pytest.raises(InputError, match=r"row 2 of .*field 'f' must be text, got float (nan|inf)"):
        texts_of(tmp_path / "in.parquet", tmp_path / "out", fields="f")


def test_only_the_named_leaves_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    """The other leaf cannot be read, so a run that reads it fails."""
    table = pa.Table.from_pylist([{"m": {"x": "a", "y": "b" * 50}, "n": 1}])
    pq.write_table(table, tmp_path / "in.parquet", compression="none", use_dictionary=False)
    data = bytearray((tmp_path / "in.parquet").read_bytes())
    metadata = pq.read_metadata(tmp_path / "in.parquet").row_group(0)
    (damaged,) = (
        metadata.column(i) for i in range(3) if metadata.column(i).path_in_schema == "m.y"
    )
    start = damaged.data_page_offset
    data[start : start + 8] = b"\xff" * 8
    (tmp_path / "in.parquet").write_bytes(data)
    assert texts_of(tmp_path / "in.parquet", tmp_path / "out", fields="m.x")[0][0] == "a"
    with pytest.raises(InputError):
        texts_of(tmp_path / "in.parquet", tmp_path / "bad", fields="m.y")


@pytest.mark.parametrize("mode", ["parse", "text", "error"])
def test_a_text_of_the_config_is_always_parsed_and_never_content(
    tmp_path: Path, toy: Path, mode: str
) -> None:
    records = [{"a": "x"}]
    seen = documents_of(tmp_path, toy, records, fields="'<s>',a", special_in_text=mode)
    manifest = open_dataset(tmp_path / "out").manifest
    assert manifest["counts"]["special_in_text"] == 0
    assert seen[0].tokens[1] == 1


def test_the_command_takes_every_form(run_cli: RunCli, tmp_path: Path) -> None:
    path = as_jsonl(RECORDS, tmp_path)
    spec = "['Q: '],[q],hint?,'\\nA: ',a,[meta.n]"
    words = ("tokenize", path, "--tokenizer", "bytes", "--out", tmp_path / "out")
    run_cli(*words, "--fields", spec)
    assert "nothing to do" in run_cli(*words, "--fields", spec).stdout
    first = seen_in(tmp_path / "out")[0]
    assert bytes(t for t in first.tokens if t < 256).decode() == "Q: whath\nA: yes3"
    failed = run_cli(*words[:-1], tmp_path / "no", "--fields", "[q],hint", check=False)
    assert failed.code == 3
    assert "hint?" in failed.stderr


# --- tables and JSON agree ---


def test_where_a_column_is_null_the_struct_of_its_name_counts_as_in_json(tmp_path: Path) -> None:
    twice = [{"a.b": None, "a": {"b": "N1"}}, {"a.b": "L2", "a": {"b": "N2"}}]
    deep = [{"a": {"b.c": None, "b": {"c": "deep"}}}, {"a": {"b.c": "flat", "b": {"c": "no"}}}]
    cases = ((twice, "a.b", ["N1", "L2"]), (deep, "a.b.c?", ["deep", "flat"]))
    for number, (records, fields, expected) in enumerate(cases):
        for name, write in (("j", as_jsonl), ("p", as_parquet), ("r", as_arrow)):
            place = tmp_path / f"{name}{number}"
            place.mkdir()
            seen = texts_of(write(records, place), place / "out", fields=fields)
            assert [text for text, _ in seen] == expected, name


def test_columns_of_one_name_and_two_types_are_refused_if_one_is_null(tmp_path: Path) -> None:
    path = as_parquet([{"a.b": None, "a": {"b": 1}}, {"a.b": "x", "a": {"b": 2}}], tmp_path)
    with pytest.raises(InputError, match="stands there twice"):
        texts_of(path, tmp_path / "out", fields="a.b")


@pytest.mark.parametrize("fields", ["text,meta.url?", "text,meta.x.y?"])
def test_a_column_of_nulls_is_a_struct_of_which_the_writer_saw_none(
    tmp_path: Path, fields: str
) -> None:
    nulls = pa.nulls(2, pa.null())
    inner = pa.table({"text": ["a", "b"], "meta": [{"x": None}, None]})
    for number, table in enumerate((pa.table({"text": ["a", "b"], "meta": nulls}), inner)):
        if number and "url" in fields:
            continue
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path)
        rows = [{"text": "a", "meta": None}, {"text": "b", "meta": None}]
        same = write_lines(tmp_path / f"{number}.jsonl", rows)
        for name in (path, same):
            seen = texts_of(name, tmp_path / f"out-{number}{name.suffix}", fields=fields)
            assert [text for text, _ in seen] == ["a", "b"]


def test_a_sibling_that_is_no_json_does_no_harm(tmp_path: Path) -> None:
    lines = ['{"m": {"u": "x", "s": NaN}, "n": Infinity}', '{"m": {"u": NaN}}']
    made = tokenize_here(
        tmp_path / "out",
        inputs=[str(write_lines(tmp_path / "a.jsonl", lines))],
        tokenizer="bytes",
        fields="m.u",
        on_error="skip",
    )
    assert made["counts"]["documents_written"] == 1
    assert made["counts"]["documents_dropped"] == 1


def test_what_is_absent_is_in_no_excerpt(tmp_path: Path) -> None:
    rows = [{"vision": [99999], "z": 1}, {"vision": [1, 2, 3], "hint": "h"}]
    tokenize_here(
        tmp_path / "out",
        inputs=[str(write_lines(tmp_path / "a.jsonl", rows))],
        tokenizer="bytes",
        fields="vision,hint?",
        on_error="quarantine",
        allow_empty=True,
    )
    assert "ABSENT" not in (tmp_path / "out" / "errors.jsonl").read_text()


def test_an_optional_path_through_something_else_is_refused_in_tables_too(tmp_path: Path) -> None:
    records = [{"text": "t", "a": {"b": "no object"}}]
    for name, write in (("j", as_jsonl), ("p", as_parquet), ("r", as_arrow)):
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match=r"a\.b.*(not an object|not a struct)"):
            texts_of(write(records, tmp_path / name), tmp_path / name / "out", fields="text,a.b.c?")


def test_columns_of_views_are_joined_too(tmp_path: Path) -> None:
    views = pa.array([None, "L2"], pa.string_view())
    inner = pa.StructArray.from_arrays([pa.array(["N1", "N2"], pa.string_view())], ["b"])
    table = pa.table({"a.b": views, "a": inner})
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as w,
    ):
        w.write_table(table)
    seen = texts_of(tmp_path / "t.arrow", tmp_path / "out", fields="a.b")
    assert [text for text, _ in seen] == ["N1", "L2"]
