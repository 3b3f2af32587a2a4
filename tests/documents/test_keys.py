"""Documents have keys that tell equal content and what belongs together, whatever else differs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from conftest import RunCli
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.look.verify import verify
from dataprep.pipeline.storage.checked import CheckedFiles
from dataprep.pipeline.storage.entries import DocumentShard
from dataprep.pipeline.storage.keys import (
    DOCUMENT_KEY,
    content_of_hex,
    groups_of,
    hex_of_content,
    map_keys,
    read_keys,
)
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from support.inprocess import tokenize_here, write_lines
from support.toy import write_toy_tokenizer

TEMPLATE = "{% for m in messages %}{{ m.role[0] }} {{ m.content }}{{ eos_token }}{% endfor %}"
TALK = [
    {"role": "user", "content": "ab"},
    {"role": "assistant", "content": "cd"},
    {"role": "user", "content": "ef"},
    {"role": "assistant", "content": "gh"},
]
FRAMES = {"vision": {"tokens_per_frame": 2, "start": [1], "end": [2]}}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_tokenizer(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def template(tmp_path: Path) -> str:
    path = tmp_path / "template.jinja"
    path.write_text(TEMPLATE)
    return str(path)


def shards_of(folder: Path) -> tuple[DocumentShard, ...]:
    manifest = read_manifest(folder)
    assert isinstance(manifest, TokenizedManifest)
    return manifest.shards


def keys_of(folder: Path) -> Any:
    return np.concatenate(
        [np.zeros(0, DOCUMENT_KEY), *(read_keys(folder, shard) for shard in shards_of(folder))]
    )


def keyed(folder: Path, records: list[Any], name: str = "in", **config: Any) -> Any:
    """Tokenize records, checked by verify; return the keys of the documents."""
    path = folder / f"{name}.jsonl"
    if isinstance(config.get("inputs"), Path):
        path = config.pop("inputs")
    else:
        write_lines(path, records)
    settings = {"inputs": [str(path)], "tokenizer": "bytes", "keys": "content", **config}
    tokenize_here(folder / name, **settings)
    verify(folder / name)
    return keys_of(folder / name)


def contents(folder: Path, records: list[Any], name: str = "in", **config: Any) -> list[str]:
    return hex_of_content(keyed(folder, records, name, **config)["content"])


def oracle(*values: str) -> str:
    """What the content of some texts must be."""
    data = b"".join(b"text %d\n%s" % (len(v.encode()), v.encode()) for v in values)
    return str(xxhash.xxh3_128_hexdigest(data))


def test_nothing_is_written_unless_asked_for(tmp_path: Path) -> None:
    manifest = tokenize_here(
        tmp_path / "out",
        inputs=[str(write_lines(tmp_path / "a.jsonl", [{"text": "a"}]))],
        tokenizer="bytes",
    )
    assert not (tmp_path / "out" / "keys").exists()
    assert "keys" not in manifest["shards"][0]
    with pytest.raises(ConfigError, match=r"out has no keys of documents; .*keys=content"):
        read_keys(tmp_path / "out", shards_of(tmp_path / "out")[0])


def test_equal_texts_have_equal_contents_under_other_names_tokenizers_and_formats(
    tmp_path: Path, toy: Path
) -> None:
    texts = ["ab", "c", "ab", "äß 日本 \U0001f600", "3"]
    wanted = [oracle(text) for text in texts]
    lines = [{"text": text} for text in texts]
    assert contents(tmp_path, lines, "jsonl") == wanted
    assert contents(tmp_path, [{"body": t} for t in texts], "body", fields="[body]") == wanted
    nested = [{"meta": {"t": text}} for text in texts]
    assert contents(tmp_path, nested, "nested", fields="'q: ',meta.t") == wanted
    assert contents(tmp_path, lines, "toy", tokenizer=str(toy), prepend_text="ab") == wanted
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"words": texts}), table)
    assert contents(tmp_path, [], "parquet", inputs=table, fields="words") == wanted
    rows = tmp_path / "t.csv"
    rows.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    assert contents(tmp_path, [], "csv", inputs=rows) == wanted
    assert wanted[0] == wanted[2]
    assert len({*wanted}) == 4


def test_keys_can_be_mapped_and_are_read_only_if_whole(tmp_path: Path) -> None:
    keys = keyed(tmp_path, [{"text": "a"}, {"text": "b"}])
    (shard,) = shards_of(tmp_path / "in")
    assert map_keys(tmp_path / "in", shard, CheckedFiles()).tobytes() == keys.tobytes()
    assert content_of_hex(hex_of_content(keys["content"])).tolist() == keys["content"].tolist()
    path = next((tmp_path / "in" / "keys").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="is damaged"):
        read_keys(tmp_path / "in", shard)
    with pytest.raises(CorruptError, match="is damaged"):
        map_keys(tmp_path / "in", shard, CheckedFiles())


def test_numbers_are_the_texts_that_they_become(tmp_path: Path) -> None:
    values: list[Any] = [3, "3", 0.5, "0.5", True, "true"]
    found = contents(tmp_path, [{"text": value} for value in values])
    assert found == [oracle(text) for text in ("3", "3", "0.5", "0.5", "true", "true")]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.text("ab \n1", max_size=4)] * 3), min_size=1, max_size=12))
def test_two_records_have_one_content_only_if_all_values_are_equal(
    records: list[tuple[str, str, str]],
) -> None:
    with TemporaryDirectory() as folder:
        rows = [{"a": a, "b": b, "c": c} for a, b, c in records]
        found = contents(Path(folder), rows, fields="[a],b+c", add_bos=True, bos_token=0)
        kept = [row for row in records if any(row)]
    if len(found) == len(records):  # those without any token have no document
        kept = records
    assert found == [oracle(*row) for row in kept]


def test_fields_that_a_record_lacks_do_not_count(tmp_path: Path) -> None:
    records = [{"a": "x"}, {"a": "x", "b": None}, {"a": "x", "b": "y"}, {"a": "x", "b": ""}]
    found = contents(tmp_path, records, fields="a,b?")
    assert found == [oracle("x"), oracle("x"), oracle("x", "y"), oracle("x", "")]


def test_codes_count_as_numbers_in_whatever_form_they_come(tmp_path: Path) -> None:
    codes = np.array([5, 9, 754, 3])
    raw = base64.b64encode(codes.astype("<u2").tobytes()).decode()
    forms: list[Any] = [
        codes.tolist(),
        list(map(str, codes.tolist())),
        codes.astype(float).tolist(),
    ]
    kinds = {**FRAMES["vision"], "raw_dtype": "uint16"}
    config: dict[str, Any] = {"fields": "text,vision", "modalities": {"vision": kinds}}
    rows = [{"text": "a", "vision": form} for form in [*forms, raw]]
    (first, *others) = contents(tmp_path, rows, "jsonl", **config)
    assert others == [first] * 3
    for kind in (pa.int16(), pa.uint64()):
        table = tmp_path / f"{kind}.parquet"
        vision = pa.array([codes.tolist(), [5, 9, 754, 4]], pa.list_(kind))
        pq.write_table(pa.table({"text": ["a", "a"], "vision": vision}), table)
        same, other = contents(tmp_path, [], str(kind), inputs=table, **config)
        assert same == first != other
    parts = [{"type": "text", "text": "a"}, {"type": "vision", "codes": codes.tolist()}]
    no_loss = [parts[0], {**parts[1], "loss": False}]
    config["fields"] = "segments"
    both = [{"segments": parts}, {"segments": no_loss}]
    same, other = contents(tmp_path, both, "segments", **config)
    assert same == first != other


def test_a_record_that_names_several_specs_has_one_content_on_every_line(tmp_path: Path) -> None:
    record = {"a": "x", "b": "y", "fields": ["a,b", "b,a", "[a],b"]}
    once = {**record, "fields": "a,b"}
    weighed = {**record, "fields": "[a],b"}
    records = [*[record] * 8, once, weighed]
    found = contents(tmp_path, records, fields_from="fields")
    assert len({*found[:8]}) == 1
    assert found[8] == oracle("x", "y")
    assert len({*found}) == 3


def test_a_spec_that_is_not_chosen_may_name_codes_that_the_tokenizer_has_no_tags_for(
    tmp_path: Path,
) -> None:
    tokenizer = Tokenizer(models.BPE({"<vision>": 0, "</vision>": 1, "b": 2}, []))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    specs = ["a", "a", "audio", "a"]  # of which the lines choose the last and the second
    records = [{"a": text, "audio": [1], "fields": specs} for text in ("b", "bb")]
    one, other = contents(tmp_path, records, fields_from="fields", tokenizer=str(tmp_path))
    assert one != other


def test_base64_ids_count_as_numbers(tmp_path: Path) -> None:
    ids = base64.b64encode(np.array([65, 66], "<i4").tobytes()).decode()
    found = contents(tmp_path, [{"x": ids, "t": "a"}, {"x": ids, "t": "b"}], fields="{x}")
    assert found[0] == found[1]


def test_one_conversation_has_one_content_in_every_form(tmp_path: Path, template: str) -> None:
    def chat(**more: Any) -> dict[str, Any]:
        return {"chat": {"template": template, **more}, "eos_token": 0}

    gpt = {"user": "human", "assistant": "gpt"}
    shared = [{"from": gpt[m["role"]], "value": m["content"]} for m in TALK]
    first, other = contents(
        tmp_path, [{"messages": TALK}, {"messages": TALK[:2]}], "openai", **chat()
    )
    assert first != other
    assert contents(tmp_path, [{"conversations": shared}], "sharegpt", **chat()) == [first]
    texts = [{"messages": json.dumps(TALK)}]
    assert contents(tmp_path, texts, "texts", **chat(form="openai", messages="messages")) == [first]
    table = tmp_path / "t.parquet"
    padded = [{**m, "name": None} for m in TALK]
    named = [{**m, "name": "x"} for m in TALK]
    pq.write_table(pa.table({"talk": [padded, named]}), table)
    found = contents(tmp_path, [], "parquet", inputs=table, **chat(messages="talk"))
    assert found[0] == first != found[1]
    rows = keyed(tmp_path, [{"messages": TALK}], "rows", **chat(history="row_per_turn"))
    assert hex_of_content(rows["content"]) == [first, first]
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    changed = [
        {"messages": TALK, "tools": [tool]},
        {"messages": [*TALK[:3], {**TALK[3], "train": False}]},
        {"messages": TALK, "system": "be kind"},
    ]
    assert len({first, *contents(tmp_path, changed, "changed", **chat())}) == 4


def test_codes_in_messages_count_as_numbers(tmp_path: Path, template: str) -> None:
    def talk(codes: Any) -> dict[str, Any]:
        content = [{"type": "image", "codes": codes}, {"type": "text", "text": "what?"}]
        return {"messages": [{"role": "user", "content": content}, TALK[1]]}

    parts = "{% for p in m.content %}{{ p.text if p.type == 'text' else '<image>' }}{% endfor %}"
    shown = f"{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{parts}{{% endif %}}"
    Path(template).write_text(
        f"{{% for m in messages %}}{{{{ m.role[0] }}}} {shown}{{{{ eos_token }}}}{{% endfor %}}"
    )
    chat = {"template": template, "media": True}
    vision = {**FRAMES["vision"], "raw_dtype": "uint16"}
    raw = base64.b64encode(np.array([5, 9], "<u2").tobytes()).decode()
    found = contents(
        tmp_path,
        [talk([5, 9]), talk(["5", "9"]), talk(raw), talk([5, 8])],
        chat=chat,
        eos_token=0,
        modalities={"vision": vision},
    )
    assert found[0] == found[1] == found[2] != found[3]


def test_preferences_have_the_content_of_both_sides(tmp_path: Path) -> None:
    pair = {"prompt": "a ", "chosen": "b", "rejected": "c"}
    objective: dict[str, Any] = {"kind": "preference"}
    swapped = {**pair, "chosen": "c", "rejected": "b"}
    records = [pair, {**pair, "id": 7}, swapped]
    first, same, other = contents(tmp_path, records, "pairs", objective=objective)
    assert first == same != other
    named = [{"p": "a ", "yes": "b", "no": "c"}]
    objective |= {"prompt": "p", "chosen": "yes", "rejected": "no"}
    assert contents(tmp_path, named, "named", objective=objective) == [first]
    kto = {"prompt": "a", "completion": "b", "label": True}
    rated = [kto, {**kto, "label": 1}, {**kto, "label": False}]
    first, same, other = contents(tmp_path, rated, "kto", objective={"kind": "kto"})
    assert first == same != other


def test_all_documents_of_an_objective_have_the_key_of_their_record(tmp_path: Path) -> None:
    records = [{"text": "abcdefgh" * 9}, {"text": "other"}]
    tokens = {"prefix": 1, "suffix": 3, "middle": 2}
    objective = {"kind": "fim", "unit": "token", "rate": 1.0, "context": 16, "tokens": tokens}
    found = contents(tmp_path, records, objective=objective)
    assert {*found} == {oracle(record["text"]) for record in records}
    assert len(found) > 2


# --- groups ---


def test_without_a_key_the_group_is_of_the_content(tmp_path: Path) -> None:
    keys = keyed(tmp_path, [{"text": "a"}, {"text": "b"}])
    assert keys["group"].tolist() == keys["content"][:, 0].tolist()


def test_records_with_one_value_are_one_group_in_every_format(tmp_path: Path) -> None:
    values: list[Any] = ["x", 7, "x", "7", 0.25, ["a", 1], {"b": 1, "a": None}]
    records = [{"text": f"{i}", "id": value} for i, value in enumerate(values)]
    found = keyed(tmp_path, records, keys="key:id")["group"]
    assert found.tolist() == groups_of(values).tolist()
    assert (found[0], found[1]) == (found[2], found[3])
    assert len({*found.tolist()}) == 5
    hashed = xxhash.xxh3_128_digest(b"text 1\nx")
    assert found[0] == int.from_bytes(hashed[:8], "little")
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "meta": [{"id": 7}, {"id": 8}]}), table)
    paths = keyed(tmp_path, [], "parquet", inputs=table, keys="key:meta.id")["group"]
    assert paths.tolist() == groups_of([7, 8]).tolist()


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize("key", ["id", "meta.id"])
def test_a_record_without_a_value_for_its_group_is_bad(
    tmp_path: Path, run_cli: RunCli, ending: str, key: str
) -> None:
    ids: list[Any] = [1, None, 2]
    rows = [{"text": "a", "id": i, "meta": {"id": i}} for i in ids]
    path = tmp_path / f"in{ending}"
    if ending == ".jsonl":
        del rows[1]["id"], rows[1]["meta"]["id"]
        write_lines(path, rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    words = ("tokenize", path, "--tokenizer", "bytes", "--out", "out", "--set", f"keys=key:{key}")
    done = run_cli(*words, check=False)
    assert done.code == 3
    place = "line 2" if ending == ".jsonl" else "row 2"
    assert f"{place} of {path}" in done.stderr
    assert f"field '{key}' is missing or null, but keys is key:{key}" in done.stderr
    run_cli(*words, "--on-error", "quarantine")
    run_cli("verify", "out")
    assert keys_of(tmp_path / "out")["group"].tolist() == groups_of([1, 2]).tolist()
    (error,) = map(json.loads, (tmp_path / "out" / "errors.jsonl").read_text().splitlines())
    assert (error["line"], "is missing or null" in error["reason"]) == (2, True)


def test_a_value_that_is_nested_too_deeply_is_told() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        groups_of([deep])


@pytest.mark.parametrize("value", ["contents", "key:", "id", "key", ""])
def test_keys_is_content_or_names_a_key(tmp_path: Path, run_cli: RunCli, value: str) -> None:
    write_lines(tmp_path / "a.jsonl", [{"text": "a"}])
    words = ("tokenize", "a.jsonl", "--tokenizer", "bytes", "--out", "out")
    done = run_cli(*words, "--set", f"keys='{value}'", check=False)
    assert done.code == 2
    assert "content, or key:NAME" in done.stderr


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, "1", None, "missing"]), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_keys_do_not_depend_on_batches(ids: list[Any], size: int) -> None:
    records = [
        {"text": f"t{i}", **({} if value == "missing" else {"id": value})}
        for i, value in enumerate(ids)
    ]
    config: dict[str, Any] = {"keys": "key:id", "on_error": "skip", "allow_empty": True}
    with TemporaryDirectory() as folder:
        one = keyed(Path(folder), records, "one", **config)
        parts = [records[i : i + size] for i in range(0, len(records), size)]
        paths = [
            str(write_lines(Path(folder) / f"{i:02d}.jsonl", part)) for i, part in enumerate(parts)
        ]
        tokenize_here(Path(folder) / "many", inputs=paths, tokenizer="bytes", **config)
        many = keys_of(Path(folder) / "many")
    assert one.tobytes() == many.tobytes()
    assert len(one) == sum(value not in (None, "missing") for value in ids)
