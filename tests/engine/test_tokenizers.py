"""Finding tokenizers, their special ids, and what the reference engines give."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.engine import (
    BadTextsError,
    TokenizerFiles,
    check_sample,
    encode_texts,
    load_decoder,
    load_reference,
    resolve_tokenizer,
    single_threaded_environment,
    template_ids,
    with_special,
)
from dataprep.pipeline.errors import ConfigError, DataprepError

TEXTS = ["the cat sat", "", "on the mat!", "a cat's   mat\n"]


def train_word_piece(path: Path) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 20, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16, pad_id=0)
    tokenizer.save(str(path))
    return path


def train_sentencepiece(path: Path) -> Path:
    import sentencepiece as spm

    lines = iter([text for text in TEXTS if text] * 50)
    with path.open("wb") as file:
        spm.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=file,
            vocab_size=300,
            model_type="bpe",
            byte_fallback=True,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_word_piece(folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("sentencepiece") / "small.model")


def put(folder: Path, target: Path, **configs: Any) -> Path:
    """A folder with the tokenizer of `folder` and the given config files."""
    target.mkdir()
    (target / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    for name, config in configs.items():
        (target / f"{name}.json").write_text(json.dumps(config))
    return target


def test_a_folder_and_the_file_in_it_are_the_same_tokenizer(folder: Path) -> None:
    by_folder = resolve_tokenizer(str(folder))
    assert by_folder == resolve_tokenizer(str(folder / "tokenizer.json"))
    assert by_folder.kind == "json"
    assert Path(by_folder.path).is_absolute()


def test_the_vocabulary_size_counts_added_tokens_with_high_ids(
    folder: Path, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["<new>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    files = resolve_tokenizer(str(tmp_path))
    assert files.vocab_size == tokenizer.token_to_id("<new>") + 1


def test_special_tokens_are_strings_or_objects_in_the_config(folder: Path, tmp_path: Path) -> None:
    config = {"bos_token": "[CLS]", "eos_token": {"content": "[SEP]", "lstrip": False}}
    files = resolve_tokenizer(str(put(folder, tmp_path / "t", tokenizer_config=config)))
    assert (files.bos_id, files.bos_token) == (2, "[CLS]")
    assert (files.eos_id, files.eos_token) == (3, "[SEP]")
    assert (files.pad_id, files.pad_token) == (None, None)


def test_the_special_tokens_map_names_what_the_config_does_not(
    folder: Path, tmp_path: Path
) -> None:
    files = resolve_tokenizer(
        str(
            put(
                folder,
                tmp_path / "t",
                tokenizer_config={"bos_token": "[CLS]"},
                special_tokens_map={"bos_token": "[UNK]", "pad_token": {"content": "[PAD]"}},
            )
        )
    )
    assert (files.bos_id, files.pad_id) == (2, 0)


def test_model_config_ids_count_only_where_no_tokenizer_file_names_the_role(
    folder: Path, tmp_path: Path
) -> None:
    files = resolve_tokenizer(
        str(
            put(
                folder,
                tmp_path / "t",
                tokenizer_config={"bos_token": None},
                config={"bos_token_id": 1, "eos_token_id": [3, 2]},
                generation_config={"pad_token_id": 0},
            )
        )
    )
    assert files.bos_id is None
    assert (files.eos_id, files.eos_token) == (3, "[SEP]")
    assert files.pad_id == 0


def test_a_broken_config_file_is_an_error_that_names_it(folder: Path, tmp_path: Path) -> None:
    broken = put(folder, tmp_path / "t")
    (broken / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json cannot be read"):
        resolve_tokenizer(str(broken))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/place/tokenizer.json", "no file or folder at"),
        ("./nowhere", "no file or folder at"),
    ],
)
def test_a_missing_tokenizer_is_an_error_that_says_where_it_was_looked_for(
    name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_tokenizer(name)


def test_a_folder_without_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neither tokenizer\.json nor tokenizer\.model"):
        resolve_tokenizer(str(tmp_path))


@pytest.mark.parametrize("content", [b"{}", b"\xff\xfe", b"not json"])
def test_a_file_that_is_no_tokenizer_is_an_error_that_names_it(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json is not a tokenizer"):
        resolve_tokenizer(str(path))


def test_a_file_that_is_no_sentencepiece_model_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match=r"x\.model is not a model"):
        resolve_tokenizer(str(path))


def test_a_tokenizer_that_changed_under_a_run_is_an_error(folder: Path, tmp_path: Path) -> None:
    changed = put(folder, tmp_path / "t")
    files = resolve_tokenizer(str(changed))
    (changed / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="changed while it was in use"):
        load_reference(files)


def resolve_in_cache(cache: Path, name: str) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys, json; from dataclasses import asdict\n"
        "from dataprep.pipeline.engine import resolve_tokenizer\n"
        "from dataprep.pipeline.errors import ConfigError\n"
        "try: print(json.dumps(asdict(resolve_tokenizer(sys.argv[1]))))\n"
        "except ConfigError as error: print(error); sys.exit(2)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", script, name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_hub_name_is_found_in_the_local_cache_and_missed_with_an_explanation(
    folder: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "models--someone--small"
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = repository / "snapshots" / commit
    snapshot.parent.mkdir(parents=True)
    put(folder, snapshot, tokenizer_config={"eos_token": "[SEP]"})
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    found = resolve_in_cache(tmp_path, "someone/small")
    assert found.returncode == 0, found.stdout + found.stderr
    record = json.loads(found.stdout)
    assert (record["kind"], record["eos_id"], record["bos_id"]) == ("json", 3, None)
    missed = resolve_in_cache(tmp_path, "someone/other")
    assert missed.returncode == 2
    assert "someone/other" in missed.stdout
    assert "is not asked, because of HF_HUB_OFFLINE" in missed.stdout
    assert "HF_HUB_OFFLINE" in missed.stdout


def test_the_record_survives_json_and_pickle(folder: Path) -> None:
    files = resolve_tokenizer(str(folder))
    assert msgspec.json.decode(msgspec.json.encode(files), type=TokenizerFiles) == files
    assert pickle.loads(pickle.dumps(files)) == files


def test_special_tokens_can_be_named_by_token_and_by_id(folder: Path) -> None:
    files = with_special(resolve_tokenizer(str(folder)), bos="[CLS]", eos=3, pad="")
    assert (files.bos_id, files.bos_token) == (2, "[CLS]")
    assert (files.eos_id, files.eos_token) == (3, "[SEP]")
    assert files.pad_id is None


def test_an_unknown_special_token_is_an_error_that_names_near_ones(folder: Path) -> None:
    files = resolve_tokenizer(str(folder))
    with pytest.raises(ConfigError, match=r"bos token '\[CLS' is not in .*similar: '\[CLS\]'"):
        with_special(files, bos="[CLS")
    with pytest.raises(ConfigError, match="eos id 100000 is outside the vocabulary"):
        with_special(files, eos=100000)


def test_truncation_padding_and_templates_of_the_file_do_not_show(folder: Path) -> None:
    from tokenizers import Tokenizer

    files = resolve_tokenizer(str(folder))
    ids, offsets = load_reference(files).encode([*TEXTS, "the cat " * 50])
    assert np.diff(offsets).tolist()[1] == 0
    assert np.diff(offsets).tolist()[4] == 100
    assert not {2, 3} & set(ids.tolist())
    plain = Tokenizer.from_file(files.path)
    plain.no_truncation()
    plain.no_padding()
    expected = [plain.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert np.split(ids, offsets[1:-1])[0].tolist() == expected[0]
    assert ids.dtype == np.uint32
    assert offsets.dtype == np.int64


def test_the_template_gives_what_is_put_around_a_text(folder: Path, model: Path) -> None:
    assert template_ids(resolve_tokenizer(str(folder))) == ((2,), (3,))
    assert template_ids(resolve_tokenizer(str(model))) == ((), ())
    (model.parent / "tokenizer_config.json").write_text('{"add_bos_token": true}')
    try:
        assert template_ids(resolve_tokenizer(str(model))) == ((1,), ())
    finally:
        (model.parent / "tokenizer_config.json").unlink()
    assert template_ids(resolve_tokenizer("bytes")) == ((), ())


def test_a_sentencepiece_model_names_its_own_special_ids(model: Path) -> None:
    files = resolve_tokenizer(str(model))
    assert files.kind == "sentencepiece"
    assert (files.bos_id, files.bos_token) == (1, "<s>")
    assert (files.eos_id, files.eos_token) == (2, "</s>")
    assert files.pad_id is None


def test_the_sentencepiece_reference_equals_the_package_and_adds_nothing(model: Path) -> None:
    import sentencepiece

    files = resolve_tokenizer(str(model))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    ids, offsets = load_reference(files).encode(TEXTS)
    assert [part.tolist() for part in np.split(ids, offsets[1:-1])] == processor.encode(TEXTS)
    assert load_reference(files).encode([])[1].tolist() == [0]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_the_bytes_tokenizer_gives_utf8(texts: list[str]) -> None:
    files = resolve_tokenizer("bytes")
    ids, offsets = load_reference(files).encode(texts)
    decode = load_decoder(files)
    assert files.vocab_size == 259
    assert (files.bos_id, files.eos_id, files.pad_id) == (256, 257, 258)
    for i, text in enumerate(texts):
        part = ids[offsets[i] : offsets[i + 1]]
        assert bytes(part.tolist()) == text.encode()
        assert decode([256, *part.tolist(), 257]) == f"<bos>{text}<eos>"


def test_decoding_shows_special_tokens_and_ids_beyond_the_vocabulary(
    folder: Path, model: Path
) -> None:
    files = resolve_tokenizer(str(folder))
    ids, _ = load_reference(files).encode(["the cat"])
    assert load_decoder(files)([2, *ids.tolist(), 3]) == "[CLS] the cat [SEP]"
    files = resolve_tokenizer(str(model))
    ids, _ = load_reference(files).encode(["the cat"])
    assert load_decoder(files)([1, *ids.tolist(), 2, 99999]) == "<s>the cat</s><|99999|>"


@pytest.mark.parametrize("name", ["folder", "model", "bytes"])
def test_texts_with_lone_surrogates_are_named(name: str, folder: Path, model: Path) -> None:
    path = {"folder": str(folder), "model": str(model), "bytes": "bytes"}[name]
    reference = load_reference(resolve_tokenizer(path))
    with pytest.raises(BadTextsError) as caught:
        encode_texts(reference, ["abc", "\ud800", "é", "x\udfffy", "\ud83d\ude00"])
    assert list(caught.value.reasons) == [1, 3, 4]
    assert "lone surrogate" in caught.value.reasons[3]
    ids, offsets = encode_texts(reference, ["abc", "", "é"])
    assert offsets[-1] == len(ids)


def test_a_sample_with_a_wrong_id_is_an_error_that_shows_the_text(folder: Path) -> None:
    reference = load_reference(resolve_tokenizer(str(folder)))
    ids, offsets = reference.encode(TEXTS)
    check_sample(reference, TEXTS, ids, offsets)
    check_sample(reference, TEXTS, [p.tolist() for p in np.split(ids, offsets[1:-1])])
    wrong = ids.copy()
    wrong[offsets[2]] += 1
    with pytest.raises(DataprepError, match=r"fast gives other ids than tokenizers .*on the mat!"):
        check_sample(reference, TEXTS, wrong, offsets, engine="fast")


def test_importing_the_package_imports_no_engine() -> None:
    script = (
        "import sys, dataprep.pipeline.engine\n"
        "names = 'tokenizers fastokens gigatoken splintr sentencepiece awkward huggingface_hub'\n"
        "print([name for name in names.split() if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_workers_are_told_to_use_one_thread() -> None:
    environment = single_threaded_environment()
    assert environment["RAYON_NUM_THREADS"] == "1"
    assert environment["TOKENIZERS_PARALLELISM"] == "false"
