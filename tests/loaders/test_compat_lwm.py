"""LWM's data classes over packed datasets: the batches, metrics and states of its rules."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from conftest import Sample
from dataprep.loaders import DataLoader, open_dataset
from dataprep.loaders.compat.lwm import DatasetFactory, TextProcessor, VisionTextProcessor
from dataprep.pipeline.errors import ConfigError, ConflictError
from support.datasets import pack_here
from support.inprocess import seen_in, tokenize_here
from support.lwm_rules import Batch, Example, examples_of, padded, stream

FRAME = 4
VISION = {"vision": {"tokens_per_frame": FRAME}}


class Made:
    """A file of examples, and the dataset that was packed from it."""

    def __init__(self, home: Path, lines: Sequence[str], tokenizer: Any, **config: Any) -> None:
        self.home, self.lines, self.tokenizer = home, lines, tokenizer
        home.mkdir(parents=True)
        (home / "in.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.fields = config.get("fields", "")
        told = {"compat": "lwm", "modalities": VISION, "field_special_tokens": False, **config}
        tokenize_here(
            home / "tokenized",
            inputs=[str(home / "in.jsonl")],
            tokenizer=tokenizer.name_or_path,
            **told,
        )
        self.examples = examples_of(lines, tokenizer, self.fields, 0 if self.fields else FRAME)

    def pack(self, strategy: str, seq_len: int, **config: Any) -> Path:
        out = self.home / f"{strategy}-{seq_len}-{len(config)}"
        if not out.exists():
            told = {"compat": "lwm", "strategy": strategy, "seq_len": seq_len, **config}
            if strategy == "pad":
                told |= {"overflow": "truncate", "keep_blocks": False}
            pack_here(out, self.home / "tokenized", **told)
        return out

    def open(self, kind: str, path: Path, seq_length: int, rows: int, **config: Any) -> Any:
        vision = "vision" in kind
        processor = (
            {"fields_from_example": "fields", "n_tokens_per_frame": FRAME}
            if vision
            else {"fields": self.fields}
        )
        told = {"path": str(path), "seq_length": seq_length, "batch_size": rows, **config}
        return DatasetFactory.load_dataset(
            {
                "type": kind,
                f"{'vision_' * vision}text_processor": processor,
                f"{kind}_dataset": told,
            },
            self.tokenizer,
        )


@pytest.fixture(scope="module")
def tokenizer(sample: Sample) -> Any:
    found = PreTrainedTokenizerFast(
        tokenizer_file=str(sample.tokenizer), bos_token="<s>", eos_token="</s>"
    )
    found.name_or_path = str(sample.tokenizer)
    return found


def text_lines(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    words = ["alpha", "beta", "gamma", "d", "", "épsilon", "x y"]
    lines = [
        json.dumps(
            {
                "q": " ".join(rng.choices(words, k=rng.randint(0, 3))),
                "a": " ".join(rng.choices(words, k=rng.randint(1, 9))),
            }
        )
        for _ in range(count)
    ]
    return [extra for line in lines for extra in ([line, ""] if rng.random() < 0.2 else [line])]


def vision_lines(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return [
        json.dumps(
            {
                "fields": ["[vision],text", "[text],vision", "text,vision"][: rng.randint(1, 3)],
                "vision": [rng.randrange(8192) for _ in range(FRAME * rng.randint(1, 4) + i % 3)],
                "text": "a picture " * rng.randint(1, 4),
            }
        )
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Made:
    home = tmp_path_factory.mktemp("lwm") / "text"
    return Made(home, text_lines(0, 40), tokenizer, fields="[q],a")


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Made:
    home = tmp_path_factory.mktemp("lwm") / "vision"
    return Made(home, vision_lines(0, 23), tokenizer, fields_from="fields")


def check(dataset: Any, expected: Iterator[tuple[Batch, Example]], steps: int) -> None:
    """The batches and the metrics of so many steps."""
    size = dataset.config.batch_size * dataset.seq_length
    before = dataset.get_state_dict()["total_tokens"]
    for step, ((batch, metrics), (wanted, example)) in enumerate(
        zip(islice(dataset, steps), expected, strict=False)
    ):
        assert_same(batch, wanted, f"step {step}")
        assert metrics["dataset_example_index"] == example.line
        assert metrics["dataset_file_loc"] == example.end
        assert metrics["dataset_total_tokens"] == before + (step + 1) * size
        assert metrics["dataset_accumulated_tps"] > 0
        assert metrics["dataset_average_tps"] > 0
    dataset.close()


def assert_same(batch: Any, wanted: Batch, what: str = "") -> None:
    assert {*batch} <= {*wanted}
    for name, array in batch.items():
        assert array.dtype == wanted[name].dtype, name
        np.testing.assert_array_equal(np.asarray(array), wanted[name], f"{name} {what}")


# --- batches ---


@given(
    seed=st.integers(0, 1000),
    count=st.integers(2, 12),
    length=st.integers(2, 40),
    rows=st.integers(1, 5),
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_stream_goes_on_across_the_end_of_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Any,
    seed: int,
    count: int,
    length: int,
    rows: int,
) -> None:
    home = tmp_path_factory.mktemp("any") / "d"
    made = Made(home, text_lines(seed, count), tokenizer, fields="[q],a")
    tokens = sum(len(example.tokens) for example in made.examples)
    path = made.pack("concat", length)
    steps = 3 * tokens // (rows * length) + 3  # around the file three times
    check(made.open("json", path, length, rows), stream(made.examples, rows, length), steps)
    shutil.rmtree(home)


@pytest.mark.parametrize("length", [7, 16, 64])
def test_vision_without_padding_is_the_same_stream(vision: Made, length: int) -> None:
    dataset = vision.open("json_vision", vision.pack("concat", length), length, 3, mode="no_pad")
    check(dataset, stream(vision.examples, 3, length), 60)


@pytest.mark.parametrize("length", [5, 12, 20, 60])
def test_vision_with_padding_has_an_example_in_a_row(vision: Made, length: int) -> None:
    bos = vision.tokenizer.bos_token_id
    dataset = vision.open("json_vision", vision.pack("pad", length), length, 4, mode="pad")
    check(dataset, padded(vision.examples, 4, length, bos), 20)


def test_without_compat_the_loss_of_full_rows_is_right(vision: Made) -> None:
    bos, length = vision.tokenizer.bos_token_id, 12
    path = vision.pack("pad", length, compat="none", pad_id=bos)
    dataset = vision.open("json_vision", path, length, 4, mode="pad")
    expected = padded(vision.examples, 4, length, bos, bug=False)
    for (batch, _), (wanted, _) in zip(islice(dataset, 12), expected, strict=False):
        np.testing.assert_array_equal(batch["loss_masks"], wanted["loss_masks"])
        np.testing.assert_array_equal(batch["target_tokens"], wanted["target_tokens"])
    dataset.close()


def test_texts_have_no_rows_in_which_the_loss_is_shifted(tmp_path: Path, tokenizer: Any) -> None:
    """As `dataprep run` packs them where records name their fields: any may be codes."""
    lines = [json.dumps({"fields": "[q],a", "q": "alpha", "a": "beta " * n}) for n in range(9)]
    made = Made(tmp_path / "made", lines, tokenizer, fields_from="fields")
    config = {
        "type": "json",
        "text_processor": {"fields_from_example": "fields"},
        "json_dataset": {"seq_length": 6, "batch_size": 2, "pad": True},
    }
    config["json_dataset"]["path"] = str(made.pack("pad", 6))
    DatasetFactory.load_dataset(config, tokenizer)
    config["json_dataset"]["path"] = str(made.pack("pad", 6, all_masks=True))
    with pytest.raises(ConfigError, match="pack them without compat"):
        DatasetFactory.load_dataset(config, tokenizer)


@pytest.mark.parametrize("told", [{"compat": "none", "pad_id": 1}, {"compat": "lwm"}], ids=str)
def test_texts_with_padding_have_an_example_in_a_row(text: Made, told: dict[str, Any]) -> None:
    """Where LWM's own rows drift by a token each, and skip examples. The shifted loss of its
    padded codes is none of its texts' quirks."""
    bos, length = text.tokenizer.bos_token_id, 10
    path = text.pack("pad", length, **told)
    dataset = text.open("json", path, length, 3, pad=True)
    expected = padded(text.examples, 3, length, bos, bug=False)
    for (batch, metrics), (wanted, example) in zip(islice(dataset, 40), expected, strict=False):
        for name in ("target_tokens", "loss_masks"):
            np.testing.assert_array_equal(batch[name], wanted[name])
        assert metrics["dataset_example_index"] == example.line
    dataset.close()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_huggingface_dataset_begins_anew_when_no_batch_is_left(text: Made, rows: int) -> None:
    length = 16
    dataset = text.open("huggingface", text.pack("concat", length), length, rows)
    expected = stream(text.examples, rows, length, restarts=True)
    tokens = sum(len(example.tokens) for example in text.examples)
    for step, ((batch, metrics), (wanted, example)) in enumerate(
        zip(islice(dataset, 3 * tokens // (rows * length)), expected, strict=False)
    ):
        assert [*batch] == ["input_tokens", "target_tokens", "loss_masks"]
        assert_same(batch, wanted, f"step {step}")
        assert metrics["dataset_example_index"] == text.examples.index(example)
    dataset.close()


def test_a_file_that_has_no_batch_is_an_error_where_lwm_waits_for_ever(text: Made) -> None:
    dataset = text.open("huggingface", text.pack("concat", 64), 64, 4000)
    with pytest.raises(ConfigError, match="less than a batch"):
        next(dataset)


@pytest.mark.parametrize("kind", ["json", "json_vision", "huggingface"])
def test_every_row_may_begin_with_bos(text: Made, vision: Made, kind: str) -> None:
    made, more = (vision, {"mode": "no_pad"}) if kind == "json_vision" else (text, {})
    told = {"always_start_with_bos": True, **more}
    dataset = made.open(kind, made.pack("concat", 16), 16, 2, **told)
    for (batch, _), (wanted, _) in zip(
        islice(dataset, 9), stream(made.examples, 2, 16), strict=False
    ):
        wanted["input_tokens"][:, 0] = made.tokenizer.bos_token_id
        assert_same(batch, wanted)
    dataset.close()


def test_the_view_that_begins_with_bos_is_one_of_the_loaders(text: Made) -> None:
    path = text.pack("concat", 16)
    one, other = (
        DataLoader(path, batch_size=4, view=view, seed=1, prefetch=0)[0]
        for view in ("lwm", "lwm_bos")
    )
    assert (other["input_tokens"][:, 0] == text.tokenizer.bos_token_id).all()
    np.testing.assert_array_equal(one["input_tokens"][:, 1:], other["input_tokens"][:, 1:])
    np.testing.assert_array_equal(one["target_tokens"], other["target_tokens"])


# --- states ---


def test_a_state_goes_on_with_the_next_token_whatever_the_batch_size(text: Made) -> None:
    length, path = 16, text.pack("concat", 16)
    rows = [
        row
        for batch, _ in islice(stream(text.examples, 1, length), 300)
        for row in batch["target_tokens"]
    ]
    dataset = text.open("json", path, length, 3)
    for step in range(1, 60):
        next(dataset)
        state = pickle.loads(pickle.dumps(dataset.get_state_dict()))
        assert state["total_tokens"] == step * 3 * length
        for size in (1, 3, 4):
            again = text.open("json", path, length, size)
            again.load_state_dict(state)
            batch, metrics = next(again)
            expected = np.array(rows[step * 3 : step * 3 + size])
            np.testing.assert_array_equal(batch["target_tokens"], expected)
            assert metrics["dataset_total_tokens"] == (step * 3 + size) * length
            again.close()
    dataset.close()


@pytest.mark.parametrize("kind", ["huggingface", "pad", "no_pad"])
def test_every_kind_of_dataset_goes_on(text: Made, vision: Made, kind: str) -> None:
    def fresh() -> Any:
        if kind == "huggingface":
            return text.open(kind, text.pack("concat", 16), 16, 2)
        path = vision.pack("pad" if kind == "pad" else "concat", 20)
        return vision.open("json_vision", path, 20, 2, mode=kind)

    whole = fresh()
    batches = [next(whole)[0] for _ in range(40)]
    other = fresh()
    for step in (1, 7, 19, 31):
        one = fresh()
        for _ in range(step):
            next(one)
        other.load_state_dict(one.get_state_dict())
        for wanted in batches[step : step + 5]:
            assert_same(next(other)[0], wanted)
        one.close()
    whole.close()
    other.close()


def test_iterating_again_goes_on(text: Made) -> None:
    dataset = text.open("json", text.pack("concat", 16), 16, 2)
    first = [batch["input_tokens"] for batch, _ in islice(dataset, 3)]
    more = [batch["input_tokens"] for batch, _ in islice(dataset, 3)]
    dataset.close()
    expected = [batch["input_tokens"] for batch, _ in islice(stream(text.examples, 2, 16), 6)]
    np.testing.assert_array_equal(np.array([*first, *more]), np.array(expected))


def test_a_state_that_lwm_saved_begins_with_the_example_after_it(text: Made) -> None:
    dataset = text.open("json", text.pack("concat", 16), 16, 2)
    before_blank = next(i for i, one in enumerate(text.lines) if not text.lines[i + 1])
    lines = [example.line for example in text.examples]
    for number in (0, 5, 20, lines.index(before_blank)):
        example = text.examples[number]
        dataset.load_state_dict(
            {"config": {}, "index": example.line, "file_loc": example.end, "total_tokens": 99}
        )
        batch, metrics = next(dataset)
        wanted, _ = next(stream(text.examples, 2, 16, first=number + 1))
        assert_same(batch, wanted)
        assert metrics["dataset_total_tokens"] == 99 + 32
        # LWM's own index falls behind by a line each time that it resumes.
        dataset.load_state_dict({"index": example.line // 2, "file_loc": example.end})
        assert_same(next(dataset)[0], wanted)
    dataset.close()


def test_a_state_of_other_data_is_an_error(text: Made, vision: Made) -> None:
    state = vision.open("json_vision", vision.pack("concat", 16), 16, 2, mode="no_pad")
    dataset = text.open("json", text.pack("concat", 16), 16, 2)
    with pytest.raises(ConflictError, match="fingerprint"):
        dataset.load_state_dict(state.get_state_dict())
    with pytest.raises(ConflictError, match="is no state of a dataset of LWM"):
        dataset.load_state_dict({"step": 3})


# --- where to start ---


@pytest.mark.parametrize("number", [0, 1, 7, 39])
def test_it_starts_at_an_example_by_its_byte(text: Made, number: int) -> None:
    path, example = text.pack("concat", 16), text.examples[number]
    begin = text.examples[number - 1].end if number else 0
    # What LWM's own count says makes no difference: it falls behind whenever LWM resumes.
    for count in (0, example.line, example.line // 2):
        told = {"start_seek_loc": begin, "example_index_at_start": count}
        dataset = text.open("json", path, 16, 2, tokens_count_at_start=1000, **told)
        assert dataset.get_state_dict()["total_tokens"] == 1000
        check(dataset, stream(text.examples, 2, 16, first=number), 30)


def test_rows_of_examples_start_at_one_of_them(vision: Made) -> None:
    bos, begin = vision.tokenizer.bos_token_id, vision.examples[6].end
    path = vision.pack("pad", 20)
    dataset = vision.open("json_vision", path, 20, 4, mode="pad", start_seek_loc=begin)
    check(dataset, padded(vision.examples, 4, 20, bos, first=7), 10)


def test_a_count_of_examples_is_no_place(text: Made) -> None:
    for state in ({}, {"config": {}, "index": 7, "file_loc": 0}):
        dataset = text.open("json", text.pack("concat", 16), 16, 2, example_index_at_start=7)
        assert dataset.get_state_dict()["index"] == 7
        if state:
            dataset.load_state_dict(state)
        check(dataset, stream(text.examples, 2, 16), 3)


def test_a_copy_without_provenance_trains_and_does_not_know_its_examples(
    text: Made, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(text.pack("concat", 16), tmp_path / "copy"))
    shutil.rmtree(copy / "provenance")
    dataset = text.open("json", copy, 16, 2)
    batch, metrics = next(dataset)
    dataset.close()
    assert_same(batch, next(stream(text.examples, 2, 16))[0])
    assert metrics["dataset_example_index"] == metrics["dataset_file_loc"] == -1
    with pytest.raises(ConfigError, match="provenance"):
        text.open("json", copy, 16, 2, start_seek_loc=text.examples[3].end)


def test_bytes_are_known_while_the_tokenized_dataset_is_beside(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Made(Path("d"), text_lines(3, 9), tokenizer, fields="[q],a")
    packed = made.pack("concat", 16)
    monkeypatch.chdir("/")  # training has another working folder than packing
    path, beside = tmp_path / packed, tmp_path / "d" / "tokenized"
    _, example = next(stream(made.examples, 1, 16))

    def first_metrics() -> Any:
        dataset = made.open("json", path, 16, 1)
        _, metrics = next(dataset)
        dataset.close()
        assert metrics["dataset_example_index"] == example.line
        return metrics

    assert first_metrics()["dataset_file_loc"] == example.end
    for lost in (beside / "provenance", beside):
        shutil.rmtree(lost)
        assert first_metrics()["dataset_file_loc"] == -1
        with pytest.raises(ConfigError, match="put it there"):
            made.open("json", path, 16, 1, start_seek_loc=5)


# --- what trainers ask for ---


def test_a_dataset_has_what_trainers_ask_for(text: Made) -> None:
    dataset = text.open("json", text.pack("concat", 16), 16, 2)
    assert dataset.tokenizer is text.tokenizer
    assert dataset.vocab_size == len(text.tokenizer)
    assert dataset.seq_length == 16
    assert dataset.dataset[0]["tokens"].shape == (17,)
    tokens, loss = dataset.text_processor({"q": "alpha", "a": "beta"})
    assert (len(tokens), loss[0], loss[-1]) == (len(loss), 0.0, 1.0)


def test_the_window_of_throughput_is_that_of_the_config(text: Made) -> None:
    for window, is_all in ((200, True), (1, False)):
        told = {"throughput_average_window_size": window}
        dataset = text.open("json", text.pack("concat", 16), 16, 2, **told)
        *_, (_, metrics) = islice(dataset, 5)
        dataset.close()
        whole, recent = (metrics[f"dataset_{name}_tps"] for name in ("accumulated", "average"))
        assert (whole == recent) is is_all


def test_the_config_has_the_keys_and_defaults_of_lwm() -> None:
    config = DatasetFactory.get_default_config({"json_dataset": {"batch_size": 3}})
    assert config.type == "huggingface"
    assert (config.json_dataset.batch_size, config.json_dataset.seq_length) == (3, 1024)
    assert config.json_vision_dataset.mode == "pad"
    assert config.vision_text_processor.n_tokens_per_frame == 256
    assert config.json_dataset.throughput_average_window_size == 200
    with pytest.raises(ValueError, match="static class"):
        DatasetFactory()


def test_processors_give_the_tokens_of_the_dataset(text: Made, vision: Made) -> None:
    for made, kind in ((text, TextProcessor), (vision, VisionTextProcessor)):
        config = {"fields": made.fields} if made is text else {"fields_from_example": "fields"}
        config |= {} if made is text else {"n_tokens_per_frame": FRAME}
        processor = kind(config, made.tokenizer)
        documents = open_dataset(made.home / "tokenized")
        for number, example in enumerate(made.examples):
            record = json.loads(made.lines[example.line])
            tokens, loss, *rest = processor((record, example.end, example.line), has_aux=True)
            document: Any = documents[number]
            assert tokens == document["tokens"].tolist() == example.tokens
            assert loss == document["loss_mask"].astype(float).tolist() == example.loss
            if made is vision:
                marks, keep, *rest = rest
                assert (marks, keep) == (example.vision, True)
            assert rest == [example.end, example.line]
    assert len(seen_in(text.home / "tokenized")) == len(text.examples)


def test_a_processor_leaves_bos_and_eos_out_where_it_is_told(text: Made) -> None:
    processor = TextProcessor({"fields": "a"}, text.tokenizer)
    whole, _ = processor({"a": "alpha"})
    assert processor({"a": "alpha"}, add_bos_token=False)[0] == whole[1:]
    assert processor({"a": "alpha"}, add_eos_token=False)[0] == whole[:-1]
    few = VisionTextProcessor(
        {"fields_from_example": "f", "max_n_frames": 2, "n_tokens_per_frame": 1}, text.tokenizer
    )
    tokens, _, marks, _ = few({"f": "vision", "vision": [5, 6, 7]})
    assert [t for t, m in zip(tokens, marks, strict=True) if m] == [5, 8192, 7, 8193]


# --- mistakes ---


def test_settings_that_the_dataset_was_not_made_with_are_errors(text: Made, vision: Made) -> None:
    path, words = text.pack("concat", 16), text.tokenizer
    own = {"type": "json", "text_processor": {"fields": "[q],a"}}
    told = {"path": str(path), "seq_length": 16, "batch_size": 2}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("rows of 16 tokens", {"json_dataset": {**told, "seq_length": 32}}),
        ("--strategy concat", {"json_dataset": {**told, "pad": True}}),
        ("not the folder", {"json_dataset": {**told, "path": str(text.home / "in.jsonl")}}),
        ("not packed", {"json_dataset": {**told, "path": str(text.home / "tokenized")}}),
        ("fields='a'", {"json_dataset": told, "text_processor": {"fields": "a"}}),
        (
            "prepend_text",
            {"json_dataset": told, "text_processor": {"fields": "[q],a", "prepend_text": "x"}},
        ),
        *(
            (
                f"tokenized with {end} added",
                {
                    "json_dataset": told,
                    "text_processor": {"fields": "[q],a", f"add_{end.lower()}_token": False},
                },
            )
            for end in ("BOS", "EOS")
        ),
        ("did you mean batch_size", {"json_dataset": {**told, "batchsize": 3}}),
        (
            "fields_from=None",
            {"json_dataset": told, "text_processor": {"fields_from_example": "f"}},
        ),
        ("must be at least 0", {"json_dataset": {**told, "example_index_at_start": -5}}),
        ("Unknown dataset type", {"type": "csv"}),
    ]
    for message, more in wrong:
        with pytest.raises(ConfigError, match=message):
            DatasetFactory.load_dataset({**own, **more}, words)
    own_vision = {"fields_from_example": "fields", "n_tokens_per_frame": FRAME, "fields_index": 0}
    with pytest.raises(ConfigError, match="fields_index=0"):
        DatasetFactory.load_dataset(
            {
                "type": "json_vision",
                "vision_text_processor": own_vision,
                "json_vision_dataset": {"path": str(vision.pack("pad", 20)), "seq_length": 20},
            },
            words,
        )
    with pytest.raises(ConfigError, match="n_tokens_per_frame=256"):
        DatasetFactory.load_dataset(
            {
                "type": "json_vision",
                "vision_text_processor": {"fields_from_example": "fields"},
                "json_vision_dataset": {
                    "path": str(vision.pack("pad", 20)),
                    "seq_length": 20,
                    "mode": "pad",
                },
            },
            words,
        )
    with pytest.raises(ConfigError, match="Unknown mode"):
        vision.open("json_vision", vision.pack("pad", 20), 20, 2, mode="other")


def test_special_tokens_around_texts_are_those_of_the_vision_processor_alone(
    tmp_path: Path, tokenizer: Any
) -> None:
    adding = PreTrainedTokenizerFast(
        tokenizer_file=tokenizer.name_or_path, bos_token="<s>", eos_token="</s>"
    )
    adding.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", adding.bos_token_id)]
    )
    adding.save_pretrained(tmp_path / "adding")
    adding.name_or_path = str(tmp_path / "adding")
    lines = [json.dumps({"q": "one two", "spec": "q"})] * 20
    for told, is_right in (("auto", False), (False, True)):
        config = {"fields_from": "spec", "fields": "q", "field_special_tokens": told}
        one = Made(tmp_path / str(told), lines, adding, **config)
        settings_of_lwm = {
            "type": "json",
            "text_processor": {"fields_from_example": "spec"},
            "json_dataset": {
                "path": str(one.pack("concat", 16)),
                "seq_length": 16,
                "batch_size": 1,
            },
        }
        if is_right:
            dataset = DatasetFactory.load_dataset(settings_of_lwm, adding)
            check(dataset, stream(one.examples, 1, 16), 3)
            continue
        with pytest.raises(ConfigError, match="--no-field-special-tokens"):
            DatasetFactory.load_dataset(settings_of_lwm, adding)
        # A tokenizer that adds nothing leaves no difference.
        DatasetFactory.load_dataset(settings_of_lwm, tokenizer).close()


def test_another_tokenizer_is_an_error(text: Made) -> None:
    class Other:
        bos_token_id, eos_token_id = 7, 2

    with pytest.raises(ConfigError, match="has BOS 7"):
        DatasetFactory.load_dataset(
            {
                "type": "json",
                "text_processor": {"fields": "[q],a"},
                "json_dataset": {"path": str(text.pack("concat", 16)), "seq_length": 16},
            },
            Other(),
        )
