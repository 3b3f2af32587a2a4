"""Tokenizers that are damaged, odd or hostile: the right ids or an error for people."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

from conftest import RunCli, Sample
from dataprep.pipeline.engine import (
    BadTextsError,
    EngineFailedError,
    SpecialInText,
    encode_texts,
    load_decoder,
    load_reference,
    mark_literals,
    resolve_tokenizer,
    template_ids,
)
from dataprep.pipeline.engine.interface import failures_told
from dataprep.pipeline.engine.models import load_model
from dataprep.pipeline.errors import ConfigError, DataprepError
from support.inprocess import write_lines

TEXTS = ["hello world", "", "<s>a</s> b <unk>", "éß日本😀", "x" * 300, "  a \n"]


def words(vocabulary: dict[str, int], unknown: str = "[UNK]") -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def use(folder: Path) -> None:
    """Do with a tokenizer all that a run does, but for proving engines."""
    files = resolve_tokenizer(str(folder))
    with suppress(BadTextsError):  # they would be bad records
        ids, offsets = encode_texts(load_reference(files), TEXTS)
        for mode in ("parse", "text", "error"):
            _, marks = mark_literals(files, ["<s>", " "])
            SpecialInText(files, mode, marks).settle(TEXTS, ids, offsets)
    template_ids(files)
    load_model(files).token_texts()
    load_decoder(files)([0, 1, files.vocab_size])


def test_a_word_that_cannot_be_unknown_is_a_bad_record(run_cli: RunCli, tmp_path: Path) -> None:
    words({"hello": 0, "world": 1}).save(str(tmp_path / "tokenizer.json"))
    path = write_lines(tmp_path / "in.jsonl", [{"text": "hello"}, {"text": "hello you"}])
    run = ["tokenize", path, "--tokenizer", tmp_path, "--out", "out", "--on-error"]
    failed = run_cli(*run, "fail", check=False)
    assert failed.code == 3
    assert "line 2 of" in failed.stderr
    assert "Missing [UNK] token from the vocabulary" in failed.stderr
    assert "Traceback" not in failed.stderr
    skipped = run_cli(*run, "skip", "--overwrite", "--json")
    assert json.loads(skipped.stdout)["counts"]["documents_dropped"] == 1


def test_a_text_on_which_the_tokenizer_panics_is_a_bad_record(tmp_path: Path) -> None:
    """A regular expression that takes for ever: its library gives up, and Rust panics."""
    tokenizer = words({"[UNK]": 0, "a": 1})
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?:a|aa)+$"), "isolated")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    reference = load_reference(resolve_tokenizer(str(tmp_path)))
    with pytest.raises(BadTextsError) as caught:
        encode_texts(reference, ["a", "a" * 5000 + "!", "a"])
    assert list(caught.value.reasons) == [1]
    assert "cannot be encoded by tokenizers (PanicException: " in caught.value.reasons[1]


def test_what_an_engine_says_is_cut_to_a_line() -> None:
    with pytest.raises(EngineFailedError) as caught, failures_told():
        raise ValueError("x" * 40_000)
    assert str(caught.value).startswith("ValueError: xxx")
    assert len(str(caught.value)) < 400


def test_an_id_outside_the_vocabulary_is_refused_and_never_wrapped(
    run_cli: RunCli, tmp_path: Path
) -> None:
    tokenizer = words({"[UNK]": 0, "a": 1, "b": 2})
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 99999)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a b"}])
    run = ["tokenize", path, "--tokenizer", tmp_path, "--out", "out"]
    refused = run_cli(*run, "--field-special-tokens", check=False)
    assert refused.code == 2
    assert "adds id 99999, which is outside its vocabulary of 3" in refused.stderr
    run_cli(*run)  # without them nothing is wrong with it
    run_cli("verify", "out")


def test_equal_texts_get_equal_tokens_though_the_tokenizer_has_dropout(
    run_cli: RunCli, tmp_path: Path
) -> None:
    merges = [("a", "b"), ("ab", "ab"), ("b", "a")]
    vocabulary = {"a": 0, "b": 1, "ab": 2, "abab": 3, "ba": 4, "<s>": 5}
    for name, dropout in (("plain", None), ("random", 0.5)):
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, dropout=dropout))
        tokenizer.add_special_tokens(["<s>"])
        (tmp_path / name).mkdir()
        tokenizer.save(str(tmp_path / name / "tokenizer.json"))
    texts = ["abab" * 50 + "<s>" + "ba" * 50] * 2
    plain, random = (resolve_tokenizer(str(tmp_path / name)) for name in ("plain", "random"))
    for mode in ("parse", "text"):
        ids, offsets = load_reference(random).encode(texts)
        found = SpecialInText(random, mode, {}).settle(texts, ids, offsets)
        ids, offsets = load_reference(plain).encode(texts)
        expected = SpecialInText(plain, mode, {}).settle(texts, ids, offsets)
        assert found.ids.tolist() == expected.ids.tolist()

    path = write_lines(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    run = ["tokenize", path, "--tokenizer", tmp_path / "random", "--out"]
    said = [run_cli(*run, tmp_path / out).stderr for out in ("a", "b")]
    note = "the tokenizer has dropout 0.5, by which equal texts get different tokens; it is"
    assert [text.count(note) for text in said] == [1, 1]
    run_cli("verify", "a", "--against", "b")


def write_with_id(folder: Path, id: int) -> None:
    """A vocabulary with one large id; `save` would go through all ids below it."""
    values = json.loads(words({"[UNK]": 0, "a": 1}).to_str())
    values["model"]["vocab"]["a"] = id
    (folder / "tokenizer.json").write_text(json.dumps(values))


@pytest.mark.parametrize("id", [1 << 31, (1 << 32) - 1])
def test_ids_that_batches_cannot_hold_are_refused(tmp_path: Path, id: int) -> None:
    write_with_id(tmp_path, id)
    with pytest.raises(ConfigError, match=f"gives 'a' the id {id}, but batches hold 32-bit"):
        resolve_tokenizer(str(tmp_path))


def test_gaps_in_the_vocabulary_are_no_fault(tmp_path: Path) -> None:
    write_with_id(tmp_path, (1 << 31) - 1)
    use(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        b"[" * 100_000,
        b'{"a": ' * 100_000,
        b"\xff\xfe",
        b'{"bos_token": ' + b"1" * 5000 + b"}",
        b"[1, 2]",
        b"",
    ],
)
def test_a_damaged_config_is_refused(run_cli: RunCli, tmp_path: Path, config: bytes) -> None:
    words({"[UNK]": 0, "a": 1}).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_bytes(config)
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
        resolve_tokenizer(str(tmp_path))


@pytest.mark.parametrize(
    "config",
    [
        {"chat_template": "{% garbage"},
        {"chat_template": [[[1]]], "pad_token": {"content": 3}},
        {"pad_token": "not there", "eos_token": {"content": None}},
    ],
)
def test_odd_values_of_a_config_name_no_token(tmp_path: Path, config: dict[str, Any]) -> None:
    words({"[UNK]": 0, "a": 1}).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text('{"bos_token_id": true}')
    files = resolve_tokenizer(str(tmp_path))
    assert (files.bos_id, files.eos_id, files.pad_id) == (None, None, None)


def test_an_added_token_whose_id_is_taken_gets_the_id_that_tokenizers_gives_it(
    tmp_path: Path,
) -> None:
    tokenizer = words({"[UNK]": 0, "a": 1, "b": 2})
    tokenizer.add_special_tokens(["<x>"])
    values = json.loads(tokenizer.to_str())
    values["added_tokens"][0]["id"] = 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    files = resolve_tokenizer(str(tmp_path))
    truth = Tokenizer.from_file(files.path)
    ids, _ = load_reference(files).encode(["a <x> b"])
    assert ids.tolist() == truth.encode("a <x> b").ids
    assert [token.id for token in files.special] == [truth.token_to_id("<x>")]


def test_damaged_sentencepiece_models_are_refused_or_read(tmp_path: Path) -> None:
    import sentencepiece

    path = tmp_path / "whole.model"
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the cat sat on the mat", "é ü 日本"] * 20),
            model_writer=file,
            vocab_size=60,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    whole, rng = path.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 3, 20])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "tokenizer.model").write_bytes(data)
        try:
            use(tmp_path)
        except DataprepError:
            refused += 1
    assert 0 < refused < 150


VALUES = (
    *(None, True, 0, -1, 1, 1 << 31, 1 << 32, 1e308, "", "a", "<s>", "[UNK]", [], {}, "(", "a*"),
    *({"type": "ByteLevel"}, {"type": "NFKC"}, {"type": "Whitespace"}, {"Regex": "("}),
    *({"String": ""}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}),
)


def places(value: Any, rng: random.Random, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places in a JSON value, a few of each large part."""
    keys: Any = value if isinstance(value, dict) else range(len(value))
    for key in rng.sample(list(keys), min(len(keys), 12)):
        yield (*path, key)
        if isinstance(value[key], dict | list):
            yield from places(value[key], rng, (*path, key))


def mutated(values: Any, rng: random.Random) -> Any:
    values = copy.deepcopy(values)
    *path, last = rng.choice(list(places(values, rng)))
    part = values
    for key in path:
        part = part[key]
    if rng.random() < 0.2:
        del part[last]
    else:
        part[last] = copy.deepcopy(rng.choice(VALUES))
    return values


def unigram() -> Tokenizer:
    pieces = [("<unk>", 0.0), ("</s>", 0.0), ("▁", -2.0), ("a", -3.0), ("▁hello", -1.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def template() -> Tokenizer:
    tokenizer = words({"[UNK]": 0, "hello": 1, "[CLS]": 2})
    tokenizer.add_special_tokens(["[UNK]", "[CLS]"])
    tokenizer.add_tokens(["b"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 2)]
    )
    return tokenizer


@pytest.mark.parametrize("make", [unigram, template, None])
def test_a_mutated_tokenizer_is_used_or_refused(
    sample: Sample, tmp_path: Path, make: Callable[[], Tokenizer] | None
) -> None:
    values = json.loads(make().to_str() if make else sample.tokenizer.read_text())
    rng = random.Random(7)
    ended = {"used": 0, "refused": 0}
    for _ in range(60 if make is None else 200):
        (tmp_path / "tokenizer.json").write_text(json.dumps(mutated(values, rng)))
        try:
            use(tmp_path)
            ended["used"] += 1
        except DataprepError:
            ended["refused"] += 1
    assert min(ended.values()) > 0, ended


def test_another_major_version_of_tokenizers_is_refused(
    run_cli: RunCli, sample: Sample, tmp_path: Path
) -> None:
    fake = tmp_path / "packages" / "tokenizers-2.0.0.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: tokenizers\nVersion: 2.0.0\n")
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    run = ["tokenize", path, "--tokenizer", sample.tokenizer, "--out", "out"]
    refused = run_cli(*run, env={"PYTHONPATH": str(fake.parent)}, check=False)
    assert refused.code == 2
    assert "tokenizers 2.0.0 is installed, but this dataprep works with versions below 2;" in (
        refused.stderr
    )


def test_a_tokenizer_that_is_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    for name in (str(tmp_path / "tokenizer.json"), str(tmp_path), "/dev/zero"):
        with pytest.raises(ConfigError):
            resolve_tokenizer(name)


def broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def unknown_token(path: Path) -> None:
    path.write_text('{"eos_token": "nope"}')


@pytest.mark.parametrize("make", [broken_link, unknown_token, Path.mkdir, os.mkfifo])
def test_a_tokenizer_config_that_cannot_be_followed_is_an_error(
    tmp_path: Path, sample: Sample, make: Callable[[Path], None]
) -> None:
    """A pruned cache of the hub leaves broken links; documents would silently lose their EOS."""
    shutil.copy(sample.tokenizer, tmp_path / "tokenizer.json")
    make(tmp_path / "tokenizer_config.json")
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json|eos_token"):
        resolve_tokenizer(str(tmp_path))
