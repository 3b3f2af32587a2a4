"""Batches of documents by their lengths: each is a function of the step, and holds what it says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dataprep
from dataprep.loaders import Buckets, ByTokens, DataLoader, Longest, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError
from support.datasets import make_all, pack_here
from support.grown import grow, tokenized
from support.inprocess import tokenize_here, write_lines
from support.lengths import Piece, batches_of, default_view, pieces_of, write_documents
from support.packed import write_packed

few = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
overflows = st.sampled_from(["split", "truncate", "drop"])
by_tokens = st.builds(
    ByTokens,
    st.integers(48, 300),
    multiple_of=st.sampled_from([1, 4, 16]),
    rows_multiple_of=st.sampled_from([1, 2, 3]),
    overflow=overflows,
)
buckets = st.one_of(
    st.builds(
        Buckets,
        st.dictionaries(st.integers(9, 90), st.integers(1, 9), min_size=1, max_size=4),
        overflow=overflows,
    ),
    st.builds(
        Buckets,
        st.lists(st.integers(9, 60), min_size=1, max_size=4),
        max_tokens=st.integers(120, 400),
        rows_multiple_of=st.sampled_from([1, 2]),
        overflow=overflows,
    ),
)
LENGTHS = [*range(1, 90), *(3, 5, 200, 7, 64, 65, 64, 1, 2, 33), *range(1, 60, 2)]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("dynamic"), LENGTHS)


def loader_of(data: Any, batch_size: Any, **options: Any) -> DataLoader:
    return DataLoader(data, batch_size=batch_size, **{"prefetch": 0, "seed": 7, **options})


def test_batches_are_those_of_a_plain_program(tmp_path_factory: pytest.TempPathFactory) -> None:
    @few
    @given(
        st.lists(st.integers(1, 120), min_size=1, max_size=80),
        st.one_of(by_tokens, buckets),
        st.booleans(),
    )
    def check(lengths: list[int], batching: Any, shuffled: bool) -> None:
        expected = [
            batches_of(lengths, batching, epoch, 7 if shuffled else None) for epoch in (0, 1)
        ]
        folder = write_documents(tmp_path_factory.mktemp("plain"), lengths)
        options = {"epochs": 2, "shuffle": shuffled}
        if not expected[0]:
            with pytest.raises(ConfigError, match="none is left"):
                loader_of(folder, batching, **options)
            return
        loader = loader_of(folder, batching, remainder="pad", **options)
        batches = [batch for epoch in expected for batch in epoch]
        assert len(loader) == len(batches)
        for step, (rows, width, pieces) in enumerate(batches):
            assert loader.rows_of(step) == [("", document) for document, _, _ in pieces]
            assert loader[step]["inputs"].shape == (rows, width)
            assert (rows, width) in loader.shapes
        steps = {0, len(batches) // 2, len(batches) - 1}
        for step in steps:
            assert_equal(loader[step], default_view(folder, *batches[step]))

    check()


def assert_equal(batch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(batch) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(batch[name], array), name
        assert batch[name].dtype == array.dtype, name


@few
@given(st.one_of(by_tokens, buckets), st.integers(0, 1 << 40))
def test_each_piece_comes_once_an_epoch_and_the_budget_holds(
    documents: Path, batching: Any, seed: int
) -> None:
    loader = loader_of(documents, batching, seed=seed, remainder="pad", max_steps=1 << 20)
    counts = loader.counts[""]
    steps = counts["batches"]
    every = Counter(document for document, _, _ in pieces_for(batching))
    for epoch in (0, 1, 2):
        batches = range(epoch * steps, (epoch + 1) * steps)
        assert Counter(doc for step in batches for _, doc in loader.rows_of(step)) == every
    shapes = [loader._make.shape(step) for step in range(steps)]
    if batching.max_tokens is not None:
        assert all(rows * width <= batching.max_tokens for rows, width in shapes)
        assert all(rows % batching.rows_multiple_of == 0 for rows, _ in shapes)
    assert counts["rows"] == sum(rows for rows, _ in shapes)
    assert counts["rows_empty"] == counts["rows"] - counts["pieces"]
    tokens = sum(length for _, _, length in pieces_for(batching))
    assert counts["padding"] == sum(rows * (width + 1) for rows, width in shapes) - tokens


def pieces_for(batching: Any) -> list[Piece]:
    return pieces_of(LENGTHS, batching.longest + 1, batching.overflow)


@few
@given(st.one_of(by_tokens, buckets))
def test_what_is_dropped_at_the_end_of_an_epoch_is_counted(documents: Path, batching: Any) -> None:
    whole = loader_of(documents, batching, remainder="pad").counts[""]
    if whole["batches"] == 1 and whole["rows_empty"]:
        with pytest.raises(ConfigError, match="fill no batch"):
            loader_of(documents, batching, remainder="drop")
        return
    loader = loader_of(documents, batching, remainder="drop", epochs=2)
    counts = loader.counts[""]
    steps = counts["batches"]
    assert len(loader) == 2 * steps
    for epoch in (0, 1):
        batches = [loader.rows_of(epoch * steps + step) for step in range(steps)]
        assert sum(map(len, batches)) == counts["pieces"] - counts["pieces_left_out"]
    assert whole["batches"] - steps == (counts["pieces_left_out"] > 0)
    assert counts["rows_empty"] == 0
    batches = [loader[step] for step in range(steps)]
    places = sum(b["inputs"].shape[0] * (b["inputs"].shape[1] + 1) for b in batches)
    tokens = sum(int((b["segment_ids"] > 0).sum()) for b in batches)
    last = sum(_last_targets(b) for b in batches)
    assert counts["padding"] == places - tokens - last


def _last_targets(batch: dict[str, Any]) -> int:
    """Documents that fill their row, whose last token is a target only."""
    return int((batch["segment_ids"][:, -1] * (batch["targets"][:, -1] != 258)).sum())


KINDS = [
    ByTokens(600, multiple_of=16),
    Buckets({32: 8, 256: 3}),
    Longest(8, multiple_of=16),
    Longest({0: 8, 5: 12}, multiple_of=1, max_length=63, overflow="split"),
]


@pytest.mark.parametrize("batching", KINDS, ids=repr)
@pytest.mark.parametrize("view", ["default", "lwm", "maxtext", "xlstm", "hf"])
def test_every_view_has_the_rows_of_pack_with_one_document_each(
    documents: Path, tmp_path: Path, batching: Any, view: Any
) -> None:
    """The reference is the packed path, for rows of the same length."""
    more = 1 if view in ("hf", "xlstm") else 0
    loader = loader_of(documents, batching, view=view, epochs=1)
    for step in {0, len(loader) // 2, len(loader) - 1}:
        batch, found = loader[step], loader.rows_of(step)
        width = next(iter(batch.values())).shape[1]
        packed = tmp_path / f"{width}"
        if not packed.exists():
            pack_here(packed, documents, seq_len=width - more, strategy="pad", overflow="drop")
        reference = loader_of(packed, 1, view=view, shuffle=False, epochs=1)
        rows = kept(width + 1 - more)
        for number, (_, document) in enumerate(found):
            if document not in rows:
                continue  # it was cut
            expected = reference[rows.index(document)]
            assert list(batch) == list(expected)
            for name, array in expected.items():
                assert np.array_equal(batch[name][number], array[0]), name
                assert batch[name].dtype == array.dtype


def kept(most: int) -> list[int]:
    return [number for number, length in enumerate(LENGTHS) if length <= most]


@pytest.mark.parametrize("batching", KINDS, ids=repr)
def test_a_view_of_ones_own_gets_all_arrays_of_the_rows(documents: Path, batching: Any) -> None:
    seen = []

    def view(rows: dict[str, Any]) -> dict[str, Any]:
        seen.append({name: array.shape for name, array in rows.items()})
        return {"x": rows["tokens"][:, 1:], "loss": rows["loss_mask"][:, 1:]}

    own = loader_of(documents, batching, view=view)
    usual = loader_of(documents, batching)
    assert np.array_equal(own[3]["x"], usual[3]["targets"])
    assert np.array_equal(own[3]["loss"], usual[3]["loss_mask"])
    rows, width = usual[3]["inputs"].shape
    names = ["tokens", "loss_mask", "segment_ids", "positions", "loss_weights"]
    assert seen[0] == dict.fromkeys(names, (rows, width + 1))


def test_longest_has_the_documents_in_the_order_of_the_loader(documents: Path) -> None:
    loader = loader_of(documents, Longest(8, multiple_of=16), epochs=2)
    order = [doc for step in range(len(loader)) for _, doc in loader.rows_of(step)]
    assert sorted(order[: len(LENGTHS)]) == list(range(len(LENGTHS)))
    for step in range(len(loader)):
        longest = max(LENGTHS[doc] for _, doc in loader.rows_of(step))
        batch = loader[step]
        assert batch["inputs"].shape == (8, max(16, -(-(longest - 1) // 16) * 16))
        assert_equal(batch, default_view(documents, *batch["inputs"].shape, whole(loader, step)))
    in_order = loader_of(documents, Longest(8), shuffle=False)
    assert [doc for _, doc in in_order.rows_of(1)] == list(range(8, 16))


def whole(loader: DataLoader, step: int) -> list[Piece]:
    return [(doc, 0, LENGTHS[doc]) for _, doc in loader.rows_of(step)]


@pytest.mark.parametrize("batching", KINDS, ids=repr)
def test_every_step_can_be_gone_on_from_on_any_number_of_hosts(
    documents: Path, batching: Any
) -> None:
    reference = loader_of(documents, batching, epochs=2)
    batches = [reference[step] for step in range(len(reference))]
    with loader_of(documents, batching, epochs=2, prefetch=2) as loader:
        states = [json.loads(json.dumps(loader.get_state()))]
        for step, batch in enumerate(loader):
            assert_equal(batch, batches[step])
            states.append(json.loads(json.dumps(loader.get_state())))
    for step in range(0, len(states), 5):
        for hosts in (1, 2, 4):
            again = loader_of(documents, batching, epochs=2)
            again.set_state(states[step])
            for later in range(again.get_state()["step"], min(len(batches), step + 3)):
                parts = [again.part(later, host, hosts) for host in range(hosts)]
                rows = len(batches[later]["inputs"])
                for name, array in batches[later].items():
                    joined = np.concatenate([part[name] for part in parts])
                    assert np.array_equal(joined[:rows], array)
                empty = np.concatenate([part["segment_ids"] for part in parts])[rows:]
                assert len(empty) == -rows % hosts
                assert not empty.any()


def test_batches_may_be_asked_for_in_any_order_and_far_away(documents: Path) -> None:
    for batching in KINDS[:3]:
        loader, other = (loader_of(documents, batching) for _ in range(2))
        for step in (1 << 40, 17, 0, 123_456_789):
            assert_equal(loader[step], other[step])
        assert loader.rows_of(1 << 40) != loader.rows_of(0)


def test_another_seed_groups_otherwise_and_an_epoch_is_not_the_one_before(documents: Path) -> None:
    batching = ByTokens(600, multiple_of=32)

    def groups(loader: DataLoader, epoch: int) -> set[frozenset[int]]:
        steps = loader.counts[""]["batches"]
        return {
            frozenset(doc for _, doc in loader.rows_of(epoch * steps + step))
            for step in range(steps)
        }

    one, other = (loader_of(documents, batching, seed=seed) for seed in (1, 2))
    assert groups(one, 0) != groups(one, 1)
    assert groups(one, 0) != groups(other, 0)
    still = loader_of(documents, batching, shuffle=False)
    assert groups(still, 0) == groups(still, 1)


def test_mixtures_have_batches_of_one_dataset_by_exact_shares(
    documents: Path, tmp_path: Path
) -> None:
    other = write_documents(tmp_path, [9, 30, 60, 80] * 30)
    mix = {"a": (documents, 3), "b": (other, {0: 1, 40: 3})}
    loader = loader_of(mix, ByTokens(400, multiple_of=16))
    names = [{name for name, _ in loader.rows_of(step)} for step in range(80)]
    assert all(len(own) == 1 for own in names)
    assert [sum("a" in own for own in part) for part in (names[:40], names[40:])] == [30, 20]
    together = loader_of(mix, Longest(8))
    shares = Counter(name for step in range(10) for name, _ in together.rows_of(step))
    assert shares == {"a": 60, "b": 20}
    state = json.loads(json.dumps(loader.state_at(60)))
    again = loader_of(mix, ByTokens(400, multiple_of=16))
    again.set_state(state)
    assert_equal(next(again), loader[60])
    ends = loader_of(
        mix, ByTokens(400, multiple_of=16), epochs=1, exhausted="drop", remainder="pad"
    )
    every = Counter(pair for step in range(len(ends)) for pair in ends.rows_of(step))
    assert set(every.values()) == {1}
    assert len(every) == len(LENGTHS) + 120


def test_documents_that_are_too_long_are_an_error_unless_it_is_said_otherwise(
    documents: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"9 documents .* more than 81 tokens, the first is"):
        loader_of(documents, ByTokens(80, multiple_of=8))
    with pytest.raises(ConfigError, match=r"1 document of .* has more than 101 tokens"):
        loader_of(documents, Longest(4, max_length=100))
    counts = loader_of(documents, Longest(4, max_length=100, overflow="truncate")).counts[""]
    assert counts["documents_truncated"] == 1
    assert counts["tokens_truncated"] == 200 - 101
    counts = loader_of(documents, Longest(4, max_length=100, overflow="split")).counts[""]
    assert (counts["documents_split"], counts["tokens_shared"]) == (1, 1)
    assert counts["pieces"] == len(LENGTHS) + 1
    counts = loader_of(documents, Buckets({100: 4}, overflow="drop")).counts[""]
    assert (counts["documents_dropped"], counts["tokens_dropped"]) == (1, 200)


def test_a_document_that_is_split_gives_every_target_once(documents: Path) -> None:
    loader = loader_of(documents, Buckets({20: 6}, overflow="split"), epochs=1, remainder="pad")
    targets: Counter[int] = Counter()
    for step in range(len(loader)):
        batch = loader[step]
        for row, (_, doc) in enumerate(loader.rows_of(step)):
            targets[doc] += int((batch["loss_mask"][row]).sum())
    dataset: Any = open_dataset(documents)
    for number in range(len(LENGTHS)):
        assert targets[number] == int(dataset[number]["loss_mask"][1:].sum())


def test_blocks_and_sides_are_never_cut(tmp_path: Path) -> None:
    folders = make_all(tmp_path)
    for overflow in ("split", "truncate"):
        with pytest.raises(ConfigError, match=r"blocks of codes .*must stay whole"):
            loader_of(folders["tokenized"], Longest(4, max_length=64, overflow=overflow))
    loader = loader_of(folders["tokenized"], Longest(4, max_length=200, overflow="drop"))
    batch, found = loader[0], loader.rows_of(0)
    dataset: Any = open_dataset(folders["tokenized"])
    for row, (_, doc) in enumerate(found):
        document = dataset[doc]
        width = min(batch["vision_mask"].shape[1], len(document["tokens"]))
        assert np.array_equal(batch["vision_mask"][row, :width], document["vision_mask"][:width])
        assert not batch["vision_mask"][row, width:].any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ByTokens(0), "max_tokens must be at least 1"),
        (lambda: ByTokens(2.5), "max_tokens must be a whole number"),  # type: ignore[arg-type]
        (lambda: ByTokens(None), "max_tokens must be a whole number"),  # type: ignore[arg-type]
        (lambda: ByTokens(1 << 31), "max_tokens must be at most 2,147,483,647"),
        (lambda: ByTokens(32), "less than 1 row "),
        (lambda: ByTokens(512, rows_multiple_of=16), "less than 16 rows"),
        (lambda: ByTokens(512, max_length=1000), "less than 1 row .*of 1024 tokens"),
        (lambda: ByTokens(512, overflow="cut"), "overflow 'cut' is not one of"),  # type: ignore[arg-type]
        (lambda: Buckets({}), "need {length: rows}"),
        (lambda: Buckets([64, 128]), "or lengths and max_tokens"),
        (lambda: Buckets({64: 4}, max_tokens=99), "or lengths and max_tokens"),
        (lambda: Buckets([64, 128], max_tokens=99), "the longest bucket"),
        (lambda: Buckets({64: 0}), "the rows of a bucket must be at least 1"),
        (lambda: Buckets({-1: 4}), "the length of a bucket must be at least 1"),
        (lambda: Buckets({1 << 70: 4}), "the length of a bucket must be at most 2,147,483,647"),
        (lambda: Buckets("64"), "need {length: rows}"),  # type: ignore[arg-type]
        (lambda: Longest(0), "batch_size 0"),
        (lambda: Longest(8, multiple_of=0), "multiple_of must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_errors(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_packed_rows_and_documents_are_not_taken_for_each_other(
    documents: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"is not packed; .*ByTokens, Buckets or Longest"):
        loader_of(documents, 8)
    packed = write_packed(tmp_path / "packed", num_rows=20)
    with pytest.raises(ConfigError, match=r"is packed: .*ByTokens is for tokenized"):
        loader_of(packed.folder, ByTokens(512))
    with pytest.raises(ConfigError, match=r"mixed|is packed"):
        loader_of({"a": (documents, 1), "b": (packed.folder, 1)}, Longest(4))


def test_a_state_of_other_batches_is_an_error(documents: Path) -> None:
    state = loader_of(documents, ByTokens(600)).state_at(5)
    for other in (ByTokens(700), ByTokens(600, multiple_of=32), Buckets({256: 4})):
        with pytest.raises(ConflictError, match=r"made with batch .*; set batch_size"):
            loader_of(documents, other).set_state(state)
    with pytest.raises(ConflictError, match="a view of as many columns"):
        loader_of(documents, ByTokens(600), view="hf").set_state(state)
    with pytest.raises(ConflictError, match="'remainder': 'drop'"):
        loader_of(documents, ByTokens(600), remainder="pad").set_state(state)
    loader_of(documents, ByTokens(600), view="maxtext").set_state(state)
    from dataprep.loaders.replay import replay_of

    with pytest.raises(ConflictError, match="rows_of"):
        replay_of(state)


def test_documents_that_fill_no_batch_are_counted_as_such_though_they_are_cut(
    documents: Path,
) -> None:
    with pytest.raises(ConfigError, match=rf"the documents of .* \({len(LENGTHS)}\) fill no batch"):
        loader_of(documents, Buckets({16: 10_000}, overflow="split"), remainder="drop")


def test_what_a_loader_says_of_itself(documents: Path) -> None:
    loader = loader_of(documents, ByTokens(600, multiple_of=64), epochs=1)
    assert "ByTokens(max_tokens=600" in repr(loader)
    spec = loader.element_spec
    assert {name: (one.shape, one.dtype) for name, one in spec.items()} == {
        name: (array.shape, array.dtype) for name, array in loader[0].items()
    }
    assert loader.epochs_at(len(loader)) == {"": 1.0}
    assert loader.seq_len == max(width for _, width in loader.shapes) == 256
    assert isinstance(loader.datasets[""], type(open_dataset(documents)))


def test_epochs_may_be_cut_short(documents: Path) -> None:
    loader = loader_of(documents, ByTokens(600), epochs=3, max_steps_per_epoch=4)
    whole = loader_of(documents, ByTokens(600))
    steps = whole.counts[""]["batches"]
    assert len(loader) == 12
    for step in range(12):
        epoch, place = divmod(step, 4)
        assert loader.rows_of(step) == whole.rows_of(epoch * steps + place)


def test_damage_is_an_error_and_not_data(tmp_path: Path) -> None:
    folder = write_documents(tmp_path, [50] * 40)
    shard = next((folder / "shards").glob("*.arrayrecord"))
    data = bytearray(shard.read_bytes())
    data[300] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptError):
        loader_of(folder, Longest(8))[0]


@pytest.mark.parametrize(
    "name", ["record", "start", "length", "loss_first", "loss_runs", "weight_first", "weight_runs"]
)
def test_an_index_that_lies_is_an_error_even_if_no_hash_is_checked(
    tmp_path: Path, name: str
) -> None:
    folder = write_documents(tmp_path, [50] * 40)
    (path,) = (folder / "index").iterdir()
    entries = np.load(path)
    entries[name][-1] = 77_777
    np.save(path, entries)
    with pytest.raises(CorruptError):
        loader_of(folder, Longest(8))
    options = {"max_length": 60, "overflow": "truncate"}
    with pytest.raises(CorruptError, match="does not fit its shards"):
        loader_of(folder, Longest(40, **options), verify="off")[0]


@pytest.mark.parametrize("batching", KINDS[:3], ids=repr)
def test_a_dataset_that_grows_is_moved_on_to_at_a_step(tmp_path: Path, batching: Any) -> None:
    folder, sizes = tmp_path / "grown", (60, 25)
    for number, size in enumerate(sizes):
        path = write_lines(
            tmp_path / f"{number}.jsonl", [{"text": "x" * (5 + i)} for i in range(size)]
        )
        grow(folder, tokenized([path]))
    before = loader_of(folder, batching, generation=0)
    moved = loader_of(folder, batching, generation={0: 0, 4: 1}, remainder="drop")
    for step in range(4):
        assert_equal(moved[step], before[step])
    assert moved.epochs_at(4) == {"": 0.0}
    if not isinstance(batching, Longest):
        steps = moved.counts[""]["batches"]
        found = Counter(doc for step in range(4, 4 + steps) for _, doc in moved.rows_of(step))
        assert len(found) == moved.counts[""]["pieces"] - moved.counts[""]["pieces_left_out"]
        assert set(found.values()) == {1}
        assert max(found) >= sizes[0]
    again = loader_of(folder, batching, generation={0: 0, 4: 1})
    again.set_state(json.loads(json.dumps(before.state_at(4))))
    assert_equal(next(again), moved[4])
    with pytest.raises(ConflictError, match="was made on generation 0"):
        loader_of(folder, batching).set_state(before.state_at(4))


def test_a_mixture_by_the_value_of_a_key_has_the_weights_that_are_given(tmp_path: Path) -> None:
    languages = ["en", "de", "en", "fr", "en", "de"] * 20
    records = [{"text": "x" * (3 + i % 40), "lang": lang} for i, lang in enumerate(languages)]
    path = write_lines(tmp_path / "in.jsonl", records)
    folder = tmp_path / "tokenized"
    tokenize_here(folder, inputs=[str(path)], tokenizer="bytes")
    numbers = dataprep.documents_by(folder, "lang")
    assert {lang: own.tolist() for lang, own in numbers.items()} == {
        lang: [i for i, one in enumerate(languages) if one == lang] for lang in ("en", "de", "fr")
    }
    assert list(dataprep.documents_by(folder, "file")) == [str(path)]
    documents: Any = open_dataset(folder)
    weights = {"en": 1, "de": 1, "fr": 2}
    mix: Any = {lang: (documents.select(own), weights[lang]) for lang, own in numbers.items()}
    loader = loader_of(mix, Longest(8))
    rows = [pair for step in range(4) for pair in loader.rows_of(step)]
    assert Counter(name for name, _ in rows) == {"en": 8, "de": 8, "fr": 16}
    for name, row in rows:
        assert languages[int(numbers[name][row])] == name
    packed = tmp_path / "packed"
    pack_here(packed, folder, seq_len=32)
    with pytest.raises(ConfigError, match="is packed; documents are those of a tokenized"):
        dataprep.documents_by(packed, "lang")


def test_views_of_two_sides_have_both_of_each_document(tmp_path: Path) -> None:
    records = [{"prompt": "q" * (3 + i % 9), "answer": "a" * (2 + i % 17)} for i in range(100)]
    path = write_lines(tmp_path / "in.jsonl", records)
    settings: Any = {"fields": "[prompt],answer", "objective": {"kind": "seq2seq"}}
    tokenize_here(tmp_path / "sided", inputs=[str(path)], tokenizer="bytes", **settings)
    options: Any = {"view": "seq2seq", "shuffle": False}
    batch = loader_of(tmp_path / "sided", Longest(4, multiple_of=8), **options)[3]
    width = batch["encoder_input_tokens"].shape[1]
    pack_here(tmp_path / "packed", tmp_path / "sided", seq_len=width, strategy="pad")
    assert_equal(batch, loader_of(tmp_path / "packed", 4, **options)[3])
    with pytest.raises(ConfigError, match=r"two sides .* must stay whole"):
        loader_of(tmp_path / "sided", Longest(4, max_length=8, overflow="truncate"))
