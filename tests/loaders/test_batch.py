"""Batches without a mesh: views, the end of the data, reading ahead, and memory."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from dataprep.loaders import DataLoader, open_dataset
from dataprep.loaders.buffers import Buffers
from dataprep.loaders.packed import Batch
from dataprep.loaders.paging import DiskWatch
from dataprep.loaders.prefetch import Prefetch
from dataprep.pipeline.errors import ConfigError
from support.packed import EOS, PAD, Packed, write_packed


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("batch") / "d"
    return write_packed(folder, num_rows=100, seq_len=32, masks=("loss", "vision"))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("text") / "d", num_rows=50, seq_len=32, seed=9)


def assert_equal(found: Batch, expected: Batch) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


def rows_of(loader: DataLoader, step: int) -> list[int]:
    return [row for _, row in loader.rows_of(step)]


# --- what is in a batch ---


def test_a_batch_has_the_rows_that_the_order_says(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=7, epochs=1, seed=3)
    assert len(loader) == 14
    seen = []
    for step, batch in enumerate(loader):
        rows = rows_of(loader, step)
        assert_equal(batch, packed.expected(rows))
        seen += rows
    assert len(set(seen)) == 98
    assert seen != sorted(seen)


def test_without_shuffling_rows_come_in_order(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=30, shuffle=False, prefetch=0)
    assert rows_of(loader, 0) == list(range(30))
    assert rows_of(loader, 3) == [*range(90, 100), *range(20)]


def test_batches_span_epochs_and_every_epoch_has_every_row(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=30, epochs=3)
    rows = [row for step in range(len(loader)) for row in rows_of(loader, step)]
    assert len(loader) == 10
    epochs = [rows[i : i + 100] for i in (0, 100, 200)]
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_batch_may_be_larger_than_the_dataset(text: Packed) -> None:
    loader = DataLoader(text.folder, batch_size=120, epochs=None, max_steps=2)
    rows = [*rows_of(loader, 0), *rows_of(loader, 1)]
    assert sorted(rows[:50]) == sorted(rows[50:100]) == list(range(50))
    assert_equal(loader[1], text.expected(rows_of(loader, 1)))


def test_another_seed_is_another_order(packed: Packed) -> None:
    first, second = (DataLoader(packed.folder, batch_size=50, seed=s) for s in (0, 1))
    assert rows_of(first, 0) != rows_of(second, 0)


def test_an_item_is_the_batch_of_that_step(packed: Packed) -> None:
    with DataLoader(packed.folder, batch_size=8, epochs=2) as loader:
        batches = list(loader)
        for step in (5, 0, 24):
            assert_equal(loader[step], batches[step])
        for step in (25, -1):
            with pytest.raises(IndexError, match="of a loader of 25 steps"):
                loader[step]


def test_an_endless_loader_has_no_length(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=8)
    with pytest.raises(TypeError, match="set epochs or max_steps"):
        len(loader)
    assert rows_of(loader, 10**9)
    assert len(DataLoader(packed.folder, batch_size=8, max_steps=70)) == 70
    assert len(DataLoader(packed.folder, batch_size=8, max_steps=70, epochs=1)) == 12


@pytest.mark.parametrize("depth", [0, 2])
def test_every_loop_starts_over_but_the_one_after_a_state(packed: Packed, depth: int) -> None:
    """As evaluations need it, which loop over some batches again and again."""

    def seen(batches: Any) -> list[int]:
        return [int(batch["inputs"][0, 0]) for batch in batches]

    with DataLoader(packed.folder, batch_size=12, epochs=1, prefetch=depth) as loader:
        whole = seen(loader)
        assert seen(loader) == whole
        assert seen(itertools.islice(loader, 3)) == seen(itertools.islice(loader, 3)) == whole[:3]
        state = loader.get_state()
        next(loader)
        assert seen(loader) == whole
        loader.set_state(state)
        assert seen(loader) == whole[3:]
        assert seen(loader) == whole


def test_an_iterator_goes_on_and_knows_the_state(packed: Packed) -> None:
    with DataLoader(packed.folder, batch_size=12, epochs=1) as loader:
        whole = [batch["inputs"] for batch in loader]
        batches = iter(loader)
        next(batches)
        state = batches.get_state()
        assert state == loader.get_state()
        assert np.array_equal([batch["inputs"] for batch in batches], whole[1:])
        batches.set_state(state)
        assert np.array_equal([batch["inputs"] for batch in batches], whole[1:])
        assert batches.element_spec == loader.element_spec


def test_parts_of_a_batch_are_its_rows(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=12, prefetch=0)
    parts = [loader.part(2, i, 3)["targets"] for i in range(3)]
    assert np.array_equal(np.concatenate(parts), loader[2]["targets"])
    with pytest.raises(ConfigError, match="must be equal"):
        loader.part(2, 0, 5)


# --- the end ---


def test_a_padded_remainder_has_no_segment_and_no_loss(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=30, epochs=1, remainder="pad", shuffle=False)
    batches = list(loader)
    assert len(loader) == len(batches) == 4
    last = batches[-1]
    assert {array.shape for array in last.values()} == {(30, 32)}
    assert_equal({k: v[:10] for k, v in last.items()}, packed.expected(list(range(90, 100))))
    assert (last["inputs"][10:] == PAD).all()
    assert (last["targets"][10:] == PAD).all()
    for name in ("segment_ids", "positions", "loss_mask", "vision_mask"):
        assert not last[name][10:].any()
    assert len(loader.rows_of(3)) == 10


def test_a_batch_that_is_never_full_is_an_error_unless_padded(text: Packed) -> None:
    with pytest.raises(ConfigError, match="50 rows do not fill a batch of 64"):
        DataLoader(text.folder, batch_size=64, epochs=1)
    assert len(DataLoader(text.folder, batch_size=64, epochs=1, remainder="pad")) == 1


def test_batches_grow_at_their_steps(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size={0: 4, 3: 10}, epochs=1, shuffle=False)
    sizes = [len(batch["inputs"]) for batch in loader]
    assert sizes == [4, 4, 4, *[10] * 8]
    assert rows_of(loader, 3) == list(range(12, 22))


# --- views ---


def expected_views(packed: Packed, rows: list[int]) -> dict[str, Batch]:
    tokens, loss = packed.tokens[rows], packed.masks["loss"][rows]
    segments, positions = packed.segment_ids[rows], packed.positions[rows]
    vision = packed.masks.get("vision", np.zeros_like(packed.masks["loss"]))[rows]
    return {
        "default": packed.expected(rows),
        "lwm": {
            "input_tokens": tokens[:, :-1],
            "target_tokens": tokens[:, 1:],
            "loss_masks": loss[:, 1:].astype(np.float32),
            "input_vision_masks": vision[:, :-1],
            "target_vision_masks": vision[:, 1:],
        },
        "maxtext": {
            "inputs": tokens[:, :-1],
            "targets": tokens[:, 1:],
            "inputs_position": positions[:, :-1],
            "inputs_segmentation": segments[:, :-1],
            "targets_position": positions[:, :-1],
            "targets_segmentation": np.where(loss, segments, 0)[:, 1:],
        },
        "xlstm": {
            "inputs": np.insert(tokens, 0, EOS, axis=1)[:, :-1],
            "targets": tokens,
            "inputs_position": positions,
            "inputs_segmentation": segments,
            "targets_position": positions,
            "targets_segmentation": np.where(packed.own_loss[rows], segments, 0),
        },
        "hf": {
            "input_ids": tokens,
            "labels": np.where(loss, tokens, -100),
            "position_ids": positions,
        },
    }


@pytest.mark.parametrize("view", ["default", "lwm", "maxtext", "xlstm", "hf"])
def test_views_name_shift_and_type_as_documented(packed: Packed, text: Packed, view: Any) -> None:
    for data in (packed, text):
        loader = DataLoader(data.folder, batch_size=11, view=view, prefetch=0)
        batch = loader[2]
        assert_equal(batch, expected_views(data, rows_of(loader, 2))[view])
        for name, array in batch.items():
            kind = np.bool_ if name.endswith(("_mask", "vision_masks")) else np.int32
            kind = {"loss_masks": np.float32}.get(name, kind)
            assert array.dtype == kind, name
            assert array.flags.c_contiguous
        spec = loader.element_spec
        assert {n: (s.shape, s.dtype) for n, s in spec.items()} == {
            n: (a.shape, a.dtype) for n, a in batch.items()
        }


@pytest.mark.parametrize("view", ["maxtext", "xlstm", "hf"])
def test_columns_of_a_view_are_those_of_the_whole(packed: Packed, view: Any) -> None:
    reader = DataLoader(packed.folder, batch_size=11, view=view, prefetch=0)._make.reader
    width = packed.tokens.shape[1] - (view == "maxtext")
    whole = reader.read(2, (0, width))
    for start, stop in itertools.combinations(range(0, width + 1, 3), 2):
        part = reader.read(2, (start, stop))
        assert_equal(part, {name: array[:, start:stop] for name, array in whole.items()})


def test_the_first_token_of_a_document_has_its_weight_where_it_is_a_target(tmp_path: Path) -> None:
    data = write_packed(tmp_path / "d", num_rows=20, masks=("loss", "weight"))
    batch = DataLoader(data.folder, batch_size=20, view="xlstm", shuffle=False, prefetch=0)[0]
    assert np.array_equal(batch["loss_weights"], data.masks["weight"] * data.own_loss)
    padded = DataLoader(
        data.folder, batch_size=50, view="xlstm", epochs=1, remainder="pad", prefetch=0
    )[0]
    assert not padded["targets_segmentation"][20:].any()
    assert not padded["loss_weights"][20:].any()


def test_a_view_of_ones_own_gets_the_rows_as_the_dataset_gives_them(packed: Packed) -> None:
    def view(rows: Batch) -> Batch:
        return {"x": rows["tokens"][:, :-1] * 2, "lengths": rows["segment_ids"].max(axis=1)}

    loader = DataLoader(packed.folder, batch_size=5, view=view, prefetch=0)
    rows = rows_of(loader, 0)
    assert np.array_equal(loader[0]["x"], packed.tokens[rows, :-1] * 2)
    assert loader[0]["lengths"].tolist() == packed.segment_ids[rows].max(axis=1).tolist()
    assert loader.element_spec["lengths"].shape == (5,)


def test_a_mask_that_a_dataset_lacks_is_empty_in_a_mixture(packed: Packed, text: Packed) -> None:
    loader = DataLoader({"p": (packed.folder, 1), "t": (text.folder, 1)}, batch_size=20, prefetch=0)
    names = np.array([name for name, _ in loader.rows_of(1)])
    rows = np.array([row for _, row in loader.rows_of(1)])
    batch = loader[1]
    for name, data in (("p", packed), ("t", text)):
        own = names == name
        expected = data.expected(rows[own])
        expected.setdefault("vision_mask", np.zeros_like(expected["loss_mask"]))
        assert_equal({k: v[own] for k, v in batch.items()}, expected)


# --- mistakes ---


def test_mistakes_are_named(packed: Packed, tmp_path: Path) -> None:
    folder = packed.folder
    other = write_packed(tmp_path / "o", num_rows=4, seq_len=8)
    empty = write_packed(tmp_path / "e", num_rows=0)
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("view 'x' is not one of default, lwm", folder, {"view": "x"}),
        ("remainder 'x' is not one of", folder, {"remainder": "x"}),
        ("exhausted 'x' is not one of", folder, {"exhausted": "x"}),
        ("epochs must be at least 1", folder, {"epochs": 0}),
        ("prefetch must be at least 0", folder, {"prefetch": -1}),
        ("needs a mesh", folder, {"spec": "P('data')"}),
        ("has no rows", empty.folder, {}),
        ("need one seq_len", {"a": (folder, 1), "b": (other.folder, 1)}, {}),
    ]
    for message, data, options in cases:
        with pytest.raises(ConfigError, match=message):
            DataLoader(data, batch_size=2, **options)
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        DataLoader(tmp_path / "nowhere", batch_size=2)


# --- reading ahead ---


def prefetch_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "dataprep-prefetch"]


@pytest.mark.parametrize("depth", [0, 1, 2, 7])
def test_reading_ahead_changes_nothing(packed: Packed, depth: int) -> None:
    with DataLoader(packed.folder, batch_size=9, epochs=2, prefetch=depth) as loader:
        for step, batch in enumerate(loader):
            assert_equal(batch, packed.expected(rows_of(loader, step)))


def test_closing_leaves_no_thread(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=2)
    next(loader)
    assert prefetch_threads()
    loader.close()
    assert not prefetch_threads()
    loader.close()
    loader = DataLoader(packed.folder, batch_size=2)
    next(loader)
    del loader
    gc.collect()
    assert not prefetch_threads()
    list(DataLoader(packed.folder, batch_size=20, epochs=1))
    assert not prefetch_threads()


@pytest.mark.parametrize("depth", [0, 2])
def test_a_closed_loader_hands_out_no_batch(packed: Packed, depth: int) -> None:
    with DataLoader(packed.folder, batch_size=2, prefetch=depth) as loader:
        batches = iter(loader)
        next(batches)
    asked: list[Callable[[], object]] = [
        lambda: next(loader),
        lambda: next(batches),
        lambda: iter(loader),
        lambda: loader[0],
        lambda: loader.part(0, 0, 2),
        lambda: loader.__enter__(),
        *([lambda: loader.start_prefetch()] if depth else []),
    ]
    for ask in asked:
        with pytest.raises(ConfigError, match="this loader is closed; make another"):
            ask()
    assert not prefetch_threads()
    assert loader.get_state()["step"] == 1  # what needs no batch is still known
    assert len(loader.rows_of(0)) == 2
    loader.close()


def test_a_loader_that_is_closed_meanwhile_does_not_look_like_the_end_of_the_data(
    packed: Packed,
) -> None:
    made, go_on = threading.Event(), threading.Event()

    def view(rows: Batch) -> Batch:
        made.set()
        assert go_on.wait(20)
        return {"x": rows["tokens"][:, :-1]}

    loader = DataLoader(packed.folder, batch_size=2, view=view)
    found: list[BaseException] = []

    def ask() -> None:
        try:
            list(loader)
        except ConfigError as error:
            found.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert made.wait(20)
    closing = threading.Thread(target=loader.close)
    closing.start()
    while not loader._closed:
        time.sleep(0.001)
    go_on.set()
    asking.join(20)
    closing.join(20)
    assert ["this loader is closed" in str(error) for error in found] == [True]


def test_a_loader_is_closed_at_any_moment_of_a_batch(
    packed: Packed,
) -> None:
    interval = sys.getswitchinterval()
    found: list[str] = []

    def ask(loader: DataLoader) -> None:
        try:
            for _ in loader:
                pass
        except BaseException as error:
            found.append(str(error))

    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        for attempt in range(100):
            loader = DataLoader(packed.folder, batch_size=2)
            asking = threading.Thread(target=ask, args=(loader,))
            asking.start()
            time.sleep(0.00002 * attempt)
            loader.close()
            asking.join(20)
    finally:
        sys.setswitchinterval(interval)
    assert [error.split(";")[0] for error in found] == ["this loader is closed"] * 100


def test_an_error_surfaces_where_its_batch_is_taken(packed: Packed) -> None:
    calls = []

    def view(rows: Batch) -> Batch:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError("in the view")
        return {"x": rows["tokens"][:, :-1]}

    loader = DataLoader(packed.folder, batch_size=2, view=view, prefetch=4)
    next(loader)
    next(loader)
    with pytest.raises(ZeroDivisionError, match="in the view"):
        next(loader)
    assert not prefetch_threads()
    assert loader.get_state()["step"] == 2
    assert np.array_equal(next(loader)["x"], packed.tokens[rows_of(loader, 2), :-1])
    loader.close()


def test_no_more_is_read_ahead_than_asked_for() -> None:
    made: list[int] = []
    room = threading.Event()

    def make(step: int) -> int:
        made.append(step)
        if step == 2:
            room.set()
        return step

    ahead = Prefetch(make, range(100), 3)
    ahead.start()
    assert room.wait(10)
    assert ahead.get(0) == ahead.get(0) == 0
    ahead.forget(0)
    assert ahead.get(1) == 1
    ahead.close()
    assert len(made) <= 4


def test_a_script_that_forgets_to_close_ends(packed: Packed) -> None:
    code = f"""
from dataprep.loaders import DataLoader
loader = DataLoader({str(packed.folder)!r}, batch_size=4)
print(next(loader)["inputs"].shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=200
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(4, 32)\n", "")


# --- memory ---


def test_batches_that_are_held_never_change(packed: Packed) -> None:
    with DataLoader(packed.folder, batch_size=10, epochs=4, prefetch=3) as loader:
        held: dict[int, Batch] = {}
        views: dict[int, NDArray[Any]] = {}
        for step, batch in enumerate(loader):
            if step % 3:
                held[step] = batch
            else:
                views[step] = batch["targets"][2:4]
        for step, batch in held.items():
            assert_equal(batch, packed.expected(rows_of(loader, step)))
        for step, part in views.items():
            assert np.array_equal(part, packed.expected(rows_of(loader, step))["targets"][2:4])


def test_memory_is_used_again_only_when_nobody_looks_at_it() -> None:
    buffers = Buffers(keep=3)
    first = buffers.take(1000)
    address = first.ctypes.data
    assert address % 64 == 0
    part = first[10:20].view(np.int16)
    del first
    assert buffers.take(1000).ctypes.data != address
    del part
    found = [buffers.take(1000) for _ in range(2)]
    assert address in {array.ctypes.data for array in found}
    held = [buffers.take(1000) for _ in range(9)]
    assert len({array.ctypes.data for array in held}) == 9


def test_thousands_of_steps_leak_nothing(packed: Packed) -> None:
    process = psutil.Process()
    with DataLoader(packed.folder, batch_size=32) as loader:
        for _ in range(500):
            next(loader)
        before = process.memory_info().rss
        objects = len(gc.get_objects())
        for _ in range(3000):
            next(loader)
        gc.collect()
        assert process.memory_info().rss - before < 8 << 20
        assert len(gc.get_objects()) - objects < 1000


def test_the_disk_is_watched_only_while_it_is_read() -> None:
    watch = DiskWatch()
    assert watch.reads()
    if sys.platform == "linux":
        for _ in range(40):
            last = watch.reads()
        assert not last


# --- imports ---


def test_a_loader_needs_no_jax_without_a_mesh(packed: Packed) -> None:
    code = f"""
import sys
sys.modules["jax"] = sys.modules["numba"] = None
from dataprep.loaders import DataLoader, open_dataset
loader = DataLoader({str(packed.folder)!r}, batch_size=4, epochs=1)
print(sum(1 for _ in loader), len(open_dataset({str(packed.folder)!r})))
assert not set(sys.modules) & {{"datasets", "tokenizers", "typer", "torch", "grain"}}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, "25 100\n"), done.stderr


def test_open_dataset_says_what_it_opened(packed: Packed) -> None:
    assert "rows=100, seq_len=32" in repr(open_dataset(packed.folder))
