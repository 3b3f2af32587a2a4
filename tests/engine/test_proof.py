"""Fast engines: proven where equal, routed around bad code points, ruled out where wrong."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from dataprep.pipeline.engine import (
    Engine,
    EngineUnavailableError,
    ExactEngine,
    Proof,
    Selection,
    Sweep,
    TokenizerFiles,
    load_engine,
    load_fast,
    load_reference,
    prove,
    resolve_tokenizer,
    rule_out,
    select_engine,
)
from dataprep.pipeline.engine.fast import ADAPTERS, Adapter
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets

# Latin with marks, Greek, a piece of Hangul, kana: small enough for tests, with all that combines.
RANGES = ((0, 0x3CE), (0x1100, 0x11C2), (0x3041, 0x309A), (0xAC00, 0xAC40), (0x1F600, 0x1F610))
SMALL = Sweep(
    in_contexts=RANGES,
    in_rows=((0x40000, 0x40100),),
    pairs=False,
    num_fuzz=150,
)
CHARACTERS = [chr(c) for a, b in RANGES for c in range(a, b + 1)]
CORPUS = [
    "The quick brown fox doesn't jump over 12 lazy dogs; it's 3.14 o'clock.",
    "def f(x):\n    return x + 1  # naïve café\n\n",
    "Ünïcödé és árvíztűrő αβγδ ΣΊΣΥΦΟΣ ひらがな 가각 😀",
    "  spaces   and\ttabs \r\n mixed with 1234567 digits!!!",
] * 10
GPT4_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(split: str | None = None, normalizer: object = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if split is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(split), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>", "<|start|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<tool>", lstrip=True, rstrip=True), AddedToken("foo")])
    return tokenizer


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16)
    return tokenizer


def unigram() -> Tokenizer:
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    pieces += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    words = sorted({part for text in CORPUS for part in text.split()})
    pieces += [(f"▁{word}", -3.0 - i / 7) for i, word in enumerate(words)]
    letters = sorted({letter for text in CORPUS for letter in text} - {" "})
    pieces += [(letter, -8.0 - i / 11) for i, letter in enumerate(letters)]
    pieces += [("▁", -6.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": byte_level,
    "gpt4": lambda: byte_level(GPT4_SPLIT),
    "nfc": lambda: byte_level(GPT4_SPLIT, normalizers.NFC()),
    "word_piece": word_piece,
    "unigram": unigram,
}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TokenizerFiles]:
    folder = tmp_path_factory.mktemp("tokenizers")
    files = {}
    for name, make in MAKERS.items():
        make().save(str(folder / f"{name}.json"))
        files[name] = resolve_tokenizer(str(folder / f"{name}.json"))
    return files


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TokenizerFiles:
    import sentencepiece as spm

    path = tmp_path_factory.mktemp("sentencepiece") / "small.model"
    with path.open("wb") as file:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_writer=file,
            vocab_size=450,
            model_type="bpe",
            byte_fallback=True,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            minloglevel=2,
        )
    return resolve_tokenizer(str(path))


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proofs")


def texts_of(*extra: str) -> st.SearchStrategy[list[str]]:
    piece = st.one_of(
        st.text(st.sampled_from(CHARACTERS), max_size=12),
        st.sampled_from([" ", "  ", "\n", "'s", "'LL", "123456", "...", "hello", *extra]),
    )
    return st.lists(st.lists(piece, max_size=8).map("".join), max_size=4)


def as_lists(encoded: tuple[Ids, Offsets]) -> list[list[int]]:
    ids, offsets = encoded
    assert (ids.dtype, offsets.dtype) == (np.uint32, np.int64)
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


class Tampered:
    """The truth, with a mistake."""

    name = "fake"

    def __init__(self, reference: Engine, is_wrong: Callable[[str], bool], version: str) -> None:
        self.version = version
        self.num_calls = 0
        self._reference = reference
        self._is_wrong = is_wrong

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        self.num_calls += 1
        ids, offsets = self._reference.encode(texts)
        ids = ids.copy()
        for i, text in enumerate(texts):
            if self._is_wrong(text) and offsets[i] < offsets[i + 1]:
                ids[offsets[i]] += 1
        return ids, offsets


def fake(
    is_wrong: Callable[[str], bool], version: str = "1", calls: list[int] | None = None
) -> dict[str, Adapter]:
    def load(files: TokenizerFiles, data: bytes) -> Callable[..., tuple[Ids, Offsets]]:
        engine = Tampered(load_reference(files), is_wrong, version)

        def encode(texts: Sequence[str]) -> tuple[Ids, Offsets]:
            if calls is not None:
                calls.append(len(texts))
            return engine.encode(texts)

        return encode

    return {
        "fake": Adapter(distribution="fake", loads={"json": load}, installed=lambda name: version)
    }


def prove_fake(files: TokenizerFiles, cache: Path, is_wrong: Callable[[str], bool]) -> Proof:
    return prove("fake", files, cache_dir=cache, sweep=SMALL, adapters=fake(is_wrong))


def test_few_texts_of_a_proof_are_held_at_a_time_and_their_characters_are_known_before(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep.pipeline.engine.proof.prove.BATCH_CHARACTERS", 4000)
    sweep = replace(SMALL, in_rows=((0x40000, 0x6FFFF),), num_fuzz=10)
    told: list[tuple[int, int]] = []
    tracemalloc.start()
    try:
        proof = prove(
            "fake",
            tokenizers["gpt2"],
            cache_dir=tmp_path,
            sweep=sweep,
            adapters=fake(lambda text: False),
            tell=lambda engine, done, total: told.append((done, total)),
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert proof.equal
    assert peak < 8 << 20  # the characters of the rows alone are 15 MB
    assert told[0] == (0, 0)
    assert {total for _, total in told[1:]} == {proof.swept.num_characters}
    assert told[-1] == (proof.swept.num_characters,) * 2


# What the installed engines must be able to do; none may silently fall out of use.
@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        *(("fastokens", kind) for kind in ("gpt2", "gpt4", "nfc")),
        *(("gigatoken", kind) for kind in ("gpt2", "gpt4", "nfc")),
        *(("splintr", kind) for kind in ("gpt2", "gpt4", "nfc", "word_piece")),
    ],
)
def test_an_engine_gives_the_ids_of_tokenizers(
    engine: str, kind: str, tokenizers: dict[str, TokenizerFiles], proofs: Path
) -> None:
    files = tokenizers[kind]
    proof = prove(engine, files, cache_dir=proofs, sweep=SMALL)
    assert proof.equal, proof.why_not
    assert proof.swept.code_points == len(CHARACTERS) + 0x101
    exact = load_engine(Selection(name=engine, version=proof.version, proof=proof), files)
    truth = Tokenizer.from_file(files.path)
    truth.no_truncation()
    truth.no_padding()

    @settings(max_examples=60, deadline=None)
    @given(texts_of("<|end|>", "<tool>", " <tool> ", "foo", "[CLS]"))
    def holds(texts: list[str]) -> None:
        expected = [truth.encode(text, add_special_tokens=False).ids for text in texts]
        assert as_lists(exact.encode(texts)) == expected

    holds()


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_auto_gives_the_ids_of_tokenizers_for_every_kind_of_tokenizer(
    kind: str, tokenizers: dict[str, TokenizerFiles], proofs: Path
) -> None:
    files = tokenizers[kind]
    selection = select_engine("auto", files, cache_dir=proofs, sweep=SMALL)
    again = msgspec.json.decode(msgspec.json.encode(selection), type=Selection)
    assert again == selection
    engine = load_engine(json.loads(msgspec.json.encode(selection)), files)
    assert as_lists(engine.encode(CORPUS)) == as_lists(load_reference(files).encode(CORPUS))
    assert as_lists(engine.encode([])) == []
    assert as_lists(engine.encode(["", ""])) == [[], []]


def test_a_sentencepiece_model_is_served_exactly(model: TokenizerFiles, proofs: Path) -> None:
    selection = select_engine("auto", model, cache_dir=proofs, sweep=SMALL)
    engine, reference = load_engine(selection, model), load_reference(model)
    if ADAPTERS["gigatoken"].version() is not None:
        assert selection.name == "gigatoken", selection.rejected

    @settings(max_examples=60, deadline=None)
    @given(texts_of("<s>", "</s>", "<unk>", "<0x41>", "▁"))
    def holds(texts: list[str]) -> None:
        assert as_lists(engine.encode(texts)) == as_lists(reference.encode(texts))

    holds()


def test_the_bytes_tokenizer_needs_no_proof(tmp_path: Path) -> None:
    files = resolve_tokenizer("bytes")
    selection = select_engine("auto", files, cache_dir=tmp_path)
    assert (selection.name, selection.proof) == ("bytes", None)
    assert as_lists(load_engine(selection, files).encode(["aé"])) == [[97, 195, 169]]
    assert not list(tmp_path.iterdir())


def test_a_wrong_code_point_is_found_and_its_documents_take_the_slow_way(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    files = tokenizers["gpt2"]
    adapters = fake(lambda text: "é" in text or "ř" in text)
    proof = prove("fake", files, cache_dir=tmp_path, sweep=SMALL, adapters=adapters)
    assert proof.equal, proof.why_not
    assert proof.bad_code_points == ((0xE9, 0xE9), (0x159, 0x159))
    assert proof.num_bad_code_points == 2
    selection = Selection(name="fake", version="1", proof=proof)
    engine = load_engine(selection, files, adapters=adapters)
    texts = ["abc", "é", "", "xé", "ř the", "aé b", "end"]
    assert as_lists(engine.encode(texts)) == as_lists(load_reference(files).encode(texts))
    assert isinstance(engine, ExactEngine)
    assert (engine.num_fast, engine.num_reference) == (3, 4)


@pytest.mark.parametrize(
    ("mistake", "to_blame"),
    [
        ("ñ\u0301", "ñ"),  # another combining class
        ("λ's", "λ"),  # a letter taken for a symbol
        ("  ž", "ž"),  # taken for white space
        ("1ž2", "ž"),  # taken for a digit
        ("žž", "ž"),
    ],
)
def test_a_code_point_that_is_wrong_only_in_some_company_is_found(
    mistake: str, to_blame: str, tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    proof = prove_fake(tokenizers["gpt2"], tmp_path, lambda text: mistake in text)
    assert proof.equal, proof.why_not
    assert proof.bad_code_points == ((ord(to_blame), ord(to_blame)),)


@pytest.mark.parametrize(
    ("mistake", "shown"),
    [
        ("th", "'th'"),  # two letters
        ("q", "q"),  # a letter by itself
        ("\n", r"\n"),
        ("<|end|>", "<|end|>"),  # an added token
        ("'ll", "'ll"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaa"),  # a long run
    ],
)
def test_a_mistake_in_ordinary_text_rules_an_engine_out_with_an_example(
    mistake: str, shown: str, tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    proof = prove_fake(tokenizers["gpt2"], tmp_path, lambda text: mistake in text)
    assert not proof.equal
    assert shown in proof.why_not
    assert len(proof.why_not) < 300


def test_an_engine_that_raises_is_ruled_out(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    def explode(text: str) -> bool:
        if "\u0301" in text:
            raise RuntimeError("boom")
        return False

    proof = prove_fake(tokenizers["gpt2"], tmp_path, explode)
    assert not proof.equal
    assert "boom" in proof.why_not


def test_a_proof_is_made_once_and_again_for_another_version_or_sweep(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    files = tokenizers["gpt2"]
    calls: list[int] = []

    def run(version: str, sweep: Sweep) -> tuple[Proof, int]:
        calls.clear()
        adapters = fake(lambda text: "é" in text, version, calls)
        proof = prove("fake", files, cache_dir=tmp_path, sweep=sweep, adapters=adapters)
        return proof, len(calls)

    tiny = replace(SMALL, in_contexts=((0xE0, 0xEF),), num_fuzz=20)
    first, num_first = run("1", tiny)
    assert num_first > 0
    assert run("1", tiny) == (first, 0)
    assert run("2", tiny)[1] > 0
    assert run("1", replace(tiny, num_fuzz=21))[1] > 0
    for path in (tmp_path / "engines").iterdir():
        path.write_text("{ broken")
    again, num_again = run("1", tiny)
    assert num_again > 0
    assert again.bad_code_points == first.bad_code_points


def test_an_engine_that_proved_wrong_later_is_not_chosen_again(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    files = tokenizers["gpt2"]
    adapters = fake(lambda text: False)
    proof = prove("fake", files, cache_dir=tmp_path, sweep=SMALL, adapters=adapters)
    assert proof.equal
    selection = Selection(name="fake", version="1", proof=proof)
    rule_out(
        selection, files, "a document differs", cache_dir=tmp_path, sweep=SMALL, adapters=adapters
    )
    chosen = select_engine("auto", files, cache_dir=tmp_path, sweep=SMALL, adapters=adapters)
    assert chosen.name == "tokenizers"
    assert [(r.engine, r.why) for r in chosen.rejected] == [("fake", "a document differs")]


def test_a_named_engine_that_is_wrong_missing_or_unable_is_an_error(
    tokenizers: dict[str, TokenizerFiles], model: TokenizerFiles, tmp_path: Path
) -> None:
    files = tokenizers["gpt2"]

    def select(adapters: dict[str, Adapter]) -> Selection:
        return select_engine("fake", files, cache_dir=tmp_path, sweep=SMALL, adapters=adapters)

    with pytest.raises(ConfigError, match=r"engine fake cannot be used for .* 'th'"):
        select(fake(lambda text: "th" in text))
    absent = fake(lambda text: False)["fake"]
    missing = Adapter(distribution="fake", loads=absent.loads, installed=lambda name: None)
    with pytest.raises(ConfigError, match="fake is not installed"):
        select({"fake": missing})
    with pytest.raises(ConfigError, match="kind sentencepiece; use --engine auto or --engine tok"):
        select_engine("fastokens", model, cache_dir=tmp_path)
    assert select_engine("tokenizers", model, cache_dir=tmp_path).name == "sentencepiece"


def test_an_engine_that_cannot_load_a_tokenizer_says_so(
    tokenizers: dict[str, TokenizerFiles],
) -> None:
    with pytest.raises(EngineUnavailableError, match=r"does not load: .*BertNormalizer"):
        load_fast("fastokens", tokenizers["word_piece"])


class Stopped(BaseException):
    """What a signal raises in the CLI."""


class PanicException(BaseException):
    """What pyo3 raises for a panic in Rust, by its name."""


def test_a_signal_while_an_engine_loads_is_not_its_failure_but_a_panic_is(
    tokenizers: dict[str, TokenizerFiles],
) -> None:
    def adapters(error: BaseException) -> dict[str, Adapter]:
        def load(files: TokenizerFiles, data: bytes) -> Any:
            raise error

        return {"fake": replace(fake(lambda text: False)["fake"], loads={"json": load})}

    for signal in (Stopped(2), KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(signal)):
            load_fast("fake", tokenizers["gpt2"], adapters=adapters(signal))
    for failure in (PanicException("index out of bounds"), ValueError("bad model")):
        with pytest.raises(EngineUnavailableError, match=f"does not load: .*{failure}"):
            load_fast("fake", tokenizers["gpt2"], adapters=adapters(failure))


def test_a_worker_with_another_version_refuses_the_selection(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    files = tokenizers["gpt2"]
    proof = prove_fake(files, tmp_path, lambda text: False)
    selection = Selection(name="fake", version="1", proof=proof)
    with pytest.raises(ConfigError, match="fake is version 2 here, but version 1 was proven exact"):
        load_engine(selection, files, adapters=fake(lambda text: False, "2"))


def test_the_first_engine_that_is_equal_is_chosen_and_no_later_one_is_tried(
    tokenizers: dict[str, TokenizerFiles], tmp_path: Path
) -> None:
    files = tokenizers["gpt2"]

    def choose(**is_wrong: Callable[[str], bool] | None) -> tuple[str, list[str]]:
        tried: list[str] = []
        adapters = {}
        for name, wrong in is_wrong.items():
            load = fake(wrong or (lambda text: False))["fake"].loads["json"]

            def told(files: TokenizerFiles, data: bytes, name: str = name, load: Any = load) -> Any:
                tried.append(name)
                return load(files, data)

            version = None if wrong is None else "1"
            adapters[name] = Adapter(
                distribution=name,
                loads={"json": told},
                installed=lambda name, version=version: version,
            )
        with tempfile.TemporaryDirectory(dir=tmp_path) as cache:
            found = select_engine(
                "auto", files, cache_dir=Path(cache), sweep=SMALL, adapters=adapters
            )
        assert [r.engine for r in found.rejected] == list(is_wrong)[: len(found.rejected)]
        return found.name, tried

    def good(text: str) -> bool:
        return False

    def bad(text: str) -> bool:
        return "th" in text

    assert choose(first=good, second=good) == ("first", ["first"])
    assert choose(first=bad, second=good) == ("second", ["first", "second"])
    assert choose(first=None, second=good) == ("second", ["second"])
    assert choose(first=bad, second=None) == ("tokenizers", ["first"])


def test_gaps_between_ids_do_not_keep_fastokens_away(tmp_path: Path) -> None:
    tokenizer = json.loads(byte_level(GPT4_SPLIT).to_str())
    tokenizer["added_tokens"] = [t for t in tokenizer["added_tokens"] if t["special"]]
    vocabulary = tokenizer["model"]["vocab"]
    for place, token in enumerate(tokenizer["added_tokens"]):
        vocabulary[token["content"]] = token["id"] = 500 + 7 * place
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer))
    files = resolve_tokenizer(str(path))
    proof = prove("fastokens", files, cache_dir=tmp_path, sweep=SMALL)
    assert proof.equal, proof.why_not
    texts = ["a<|end|>b<|start|>", *CORPUS]
    got = as_lists(load_fast("fastokens", files).encode(texts))
    assert got == as_lists(load_reference(files).encode(texts))


@given(st.lists(st.tuples(st.text(st.sampled_from("abñ"), max_size=5)), max_size=12))
def test_documents_come_back_in_order_whatever_way_they_took(rows: list[tuple[str]]) -> None:
    texts = [row[0] for row in rows]
    reference = load_reference(resolve_tokenizer("bytes"))
    wrong = Tampered(reference, lambda text: "ñ" in text, "1")
    engine = ExactEngine(wrong, lambda: reference, ((0xF1, 0xF1),))
    assert as_lists(engine.encode(texts)) == as_lists(reference.encode(texts))
    assert engine.num_reference == sum("ñ" in text for text in texts)


def test_the_reference_is_loaded_only_when_a_document_needs_it() -> None:
    reference = load_reference(resolve_tokenizer("bytes"))
    loaded = []

    def load() -> Engine:
        loaded.append(1)
        return reference

    engine = ExactEngine(reference, load, ((0, 0), (0xF1, 0xF1)))
    engine.encode(["plain", "é"])
    assert not loaded
    engine.encode(["a\0b", "ñ"])
    engine.encode(["ñ"])
    assert loaded == [1]
    assert (engine.num_fast, engine.num_reference) == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_all_of_unicode_is_exact_after_the_full_sweep(
    kind: str, tokenizers: dict[str, TokenizerFiles], proofs: Path
) -> None:
    files = tokenizers[kind]
    reference = load_reference(files)
    names = [name for name, adapter in ADAPTERS.items() if adapter.version() is not None]
    made = [prove(name, files, cache_dir=proofs) for name in names]
    engines = [
        load_engine(Selection(name=proof.engine, version=proof.version, proof=proof), files)
        for proof in made
        if proof.equal
    ]

    @settings(max_examples=2000, deadline=None)
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
    def holds(texts: list[str]) -> None:
        expected = as_lists(reference.encode(texts))
        assert [as_lists(engine.encode(texts)) for engine in engines] == [expected] * len(engines)

    holds()
