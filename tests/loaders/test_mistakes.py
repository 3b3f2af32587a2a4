"""Whatever a user gives as state, mixture, step or mesh is right or a declared error."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dataprep.loaders import DataLoader, batches, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError, DataprepError, ResourceError
from dataprep.pipeline.storage.entries import BlockTags
from dataprep.pipeline.storage.manifest import PackedManifest
from support.packed import Packed, manifest_of, write_manifest, write_packed

HUGE = 10**30
DIGITS = 10**5000  # too long for Python to print


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("mistakes") / "d", num_rows=20, seq_len=8)


@pytest.fixture(scope="module")
def loader(packed: Packed) -> DataLoader:
    return DataLoader(packed.folder, batch_size=4, prefetch=0)


def named(value: Any) -> str:
    """The name of a test: pytest's own cannot print every value."""
    try:
        return str(value)[:12]
    except ValueError:
        return "digits"


# --- states and steps ---


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        {"version": True},
        {"version": 1.0},
        {"version": "1"},
        {"step": True},
        {"step": 1.5},
        {"step": HUGE},
        {"step": 2**62},
        {"step": DIGITS},
        {"step": None},
        {"seed": False},
        {"seed": deep(200_000)},
        {"phases": np.zeros(3)},
        {"phases": [[0, [1.0]]]},
        {"datasets": DIGITS},
        {"batch_size": {"0": 4.0}},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_state_that_cannot_be_is_a_conflict(loader: DataLoader, change: dict[str, Any]) -> None:
    next(loader)
    state = loader.get_state()
    with pytest.raises(ConflictError):
        loader.set_state({**state, **change})
    assert loader.get_state() == state
    loader.set_state(state)


@pytest.mark.parametrize(
    "state",
    ["[" * 200_000, b"\xff\xfe", "NaN", "1" * 10_000, "", None, 7, [], {1: 2}],
    ids=named,
)
def test_what_is_no_state_is_a_conflict(loader: DataLoader, state: Any) -> None:
    with pytest.raises(ConflictError, match="not the state of a loader"):
        loader.set_state(state)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    changes=st.dictionaries(
        st.sampled_from(
            ["version", "step", "seed", "shuffle", "batch_size", "datasets", "phases", "x"]
        ),
        values | st.integers(0, 2**80),
        max_size=3,
    ),
    gone=st.sets(st.sampled_from(["version", "step", "seed", "datasets", "phases"]), max_size=1),
    text=st.booleans(),
)
def test_a_state_is_taken_or_refused(
    loader: DataLoader, changes: dict[str, Any], gone: set[str], text: bool
) -> None:
    loader.set_state(DataLoader.get_state(loader))
    state = {k: v for k, v in {**loader.get_state(), **changes}.items() if k not in gone}
    try:
        loader.set_state(json.dumps(state) if text else state)
    except ConflictError:
        return
    assert loader.get_state()["step"] == state["step"]
    assert next(loader)["inputs"].shape == (4, 8)


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_refused_as_a_state(loader: DataLoader, text: Any) -> None:
    with pytest.raises(ConflictError):
        loader.set_state(text)


@pytest.mark.parametrize("step", [2**62, HUGE, DIGITS, -1], ids=named)
def test_steps_that_nobody_reaches_are_past_the_end(loader: DataLoader, step: int) -> None:
    for ask in (loader.__getitem__, loader.rows_of, lambda step: loader.part(step, 0, 1)):
        with pytest.raises(IndexError, match="step"):
            ask(step)
    assert not loader.has(step)


def test_the_last_step_that_can_be_counted_has_a_batch(packed: Packed) -> None:
    loader = DataLoader(packed.folder, batch_size=4, prefetch=2, epochs=HUGE)
    last = len(loader) - 1
    assert loader[last]["inputs"].shape == (4, 8)
    loader.set_state({**loader.get_state(), "step": last, **started(loader)})
    with loader:
        next(loader)
        with pytest.raises(StopIteration):
            next(loader)


def started(loader: DataLoader) -> dict[str, Any]:
    """What a state has once a batch was handed out."""
    one = DataLoader(next(iter(loader.datasets.values())), batch_size=4, prefetch=0)
    next(one)
    return {key: one.get_state()[key] for key in ("batch_size", "phases")}


@pytest.mark.parametrize("step", ["0", 1.5, None, [0]])
def test_a_step_that_is_no_number_is_an_error(loader: DataLoader, step: Any) -> None:
    with pytest.raises(ConfigError, match="step must be a whole number"):
        loader[step]


def test_a_row_past_any_end_is_an_index_error(packed: Packed) -> None:
    for row in (2**62, HUGE, -HUGE, 20):
        with pytest.raises(IndexError, match="of a dataset of 20"):
            open_dataset(packed.folder)[row]


# --- mixtures ---


@pytest.mark.parametrize(
    "weight",
    [
        {0: 1, -5: 1},
        {"0": 1},
        {0: 1, None: 1},
        {0.5: 1},
        {},
        {1: 1},
        float("nan"),
        float("inf"),
        -1,
        -0.5,
        "nan",
        "1e999999999",
        "1e-999999999",
        "x",
        "1/0",
        None,
        True,
        [1],
        DIGITS,
        {0: DIGITS},
        {0: {0: 1}},
    ],
    ids=named,
)
def test_a_weight_that_makes_no_sense_is_an_error(packed: Packed, weight: Any) -> None:
    mix = {"a": (packed.folder, weight), "b": (packed.folder, 1)}
    with pytest.raises(ConfigError, match="weight"):
        DataLoader(mix, batch_size=4)


weights = (
    st.integers(-2, 5)
    | st.floats()
    | st.fractions()
    | st.text("0123456789./e-+n", max_size=6)
    | st.none()
)
schedules = weights | st.dictionaries(
    st.integers(-3, 5) | st.text(max_size=2) | st.integers(0, 2**70), weights, max_size=4
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=schedules, second=schedules, size=st.integers(-1, 5) | st.integers(0, 2**70))
@example(first=0, second=0, size=4)
@example(first=1, second={0: 0, 2**70: 1}, size=3)
@example(first={0: "1e-99"}, second=1, size=3)
def test_a_mixture_is_made_or_refused(packed: Packed, first: Any, second: Any, size: int) -> None:
    dataset = open_dataset(packed.folder)
    size = size if size < 10_000 else max(size, 1 << 40)  # what is between only takes memory
    mix: Any = {"a": (dataset, first), "b": (dataset, second)}
    try:
        made = DataLoader(mix, batch_size=size, prefetch=0)
    except ConfigError:
        return
    assert made[7]["inputs"].shape == (size, 8)
    made.set_state(made.get_state())


@pytest.mark.parametrize(
    "data",
    [["a", "b"], None, 7, b"\x00", "a\0b", {1: ("a", 1)}, {"a": "b"}, {"a": ("b",)}, {}, {"a": 1}],
    ids=named,
)
def test_data_of_a_wrong_kind_is_an_error(data: Any) -> None:
    with pytest.raises(ConfigError, match=r"data is the folder|a mixture"):
        DataLoader(data, batch_size=2)


def test_a_name_that_is_no_text_is_an_error_beside_one_that_is(packed: Packed) -> None:
    with pytest.raises(ConfigError, match="a mixture is"):
        DataLoader({"a": (packed.folder, 1), 2: (packed.folder, 1)}, batch_size=2)  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": "no"},
        {"shuffle": None},
        {"batch_size": 2**62},
        {"batch_size": DIGITS},
        {"batch_size": True},
        {"batch_size": {0: True}},
        {"batch_size": {False: 4}},
        {"seed": True},
        {"prefetch": True},
        {"batch_size": {0: 4, "1": 4}},
        {"epochs": 1.0},
        {"epochs": -DIGITS},
        {"max_steps": -1},
        {"prefetch": "2"},
        {"view": ["hf"]},
        {"verify": None},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_of_a_wrong_kind_are_errors(packed: Packed, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        DataLoader(packed.folder, **{"batch_size": 4, **options})


# --- datasets that do not go together ---


def tags(*start: int) -> BlockTags:
    return BlockTags(start=start, end=(91,), named=True)


def settings_of(**vision: Any) -> dict[str, Any]:
    modality = {"tokens_per_frame": 256, "fields": ["v*"], **vision}
    return {"modalities": {"vision": modality}, "pack": {"strategy": "best_fit"}}


CHANGES: dict[str, tuple[str, Callable[[PackedManifest], PackedManifest]]] = {
    "tokenizer": (
        r"tokenizer None \(sha256 abc…\) is not None \(sha256 ",
        lambda m: replace(m, tokenizer=replace(m.tokenizer, sha256="abc")),
    ),
    "vocabulary": (
        "vocab_size 257 is not 256",
        lambda m: replace(m, tokenizer=replace(m.tokenizer, vocab_size=257)),
    ),
    "pad": ("pad 0 is not 3", lambda m: replace(m, pad=0)),
    "tags": ("tags of vision", lambda m: replace(m, vision=tags(90))),
    "frames": (
        "vision settings .*tokens_per_frame",
        lambda m: replace(m, config=settings_of(tokens_per_frame=64)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_datasets_whose_ids_differ_cannot_be_mixed(tmp_path: Path, change: str) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        made = write_packed(folder, num_rows=8, seq_len=8, masks=("loss", "vision"))
        write_manifest(folder, replace(manifest_of(made), config=settings_of()))
    mix: Any = {"a": (folders[0], 1), "b": (folders[1], 1)}
    DataLoader(mix, batch_size=2)
    # What is only about the input may differ.
    write_manifest(folders[1], replace(manifest_of(made), config=settings_of(fields=["x"])))
    DataLoader(mix, batch_size=2)
    message, changed = CHANGES[change]
    write_manifest(folders[1], changed(replace(manifest_of(made), config=settings_of())))
    with pytest.raises(ConfigError, match=message) as error:
        DataLoader(mix, batch_size=2)
    assert all(str(folder) in str(error.value) for folder in folders)
    DataLoader(folders[1], batch_size=2)


def test_a_dataset_without_pictures_goes_with_one_that_has_them(tmp_path: Path) -> None:
    text = write_packed(tmp_path / "t", num_rows=8, seq_len=8)
    both = write_packed(tmp_path / "v", num_rows=8, seq_len=8, masks=("loss", "vision"))
    write_manifest(both.folder, replace(manifest_of(both), vision=tags(90), config=settings_of()))
    DataLoader({"t": (text.folder, 1), "v": (both.folder, 1)}, batch_size=2)


def test_a_first_dataset_without_pictures_hides_no_difference_of_the_others(tmp_path: Path) -> None:
    mix: Any = {"a": (write_packed(tmp_path / "a", num_rows=8, seq_len=8).folder, 1)}
    for name, size in (("b", 256), ("c", 256), ("d", 64)):
        DataLoader(mix, batch_size=2)
        made = write_packed(tmp_path / name, num_rows=8, seq_len=8, masks=("loss", "vision"))
        config = settings_of(tokens_per_frame=size)
        write_manifest(made.folder, replace(manifest_of(made), config=config))
        mix[name] = (made.folder, 1)
    with pytest.raises(ConfigError, match=r"/d and .*/b cannot be mixed: vision settings"):
        DataLoader(mix, batch_size=2)


def test_every_error_of_ours_has_a_code() -> None:
    assert all(kind.exit_code for kind in DataprepError.__subclasses__())


def test_a_batch_that_fits_no_memory_is_a_declared_error(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_memory", lambda: 10_000)
    with pytest.raises(
        ConfigError, match=r"a batch of 999 rows takes at least 0 GB.*smaller batch"
    ):
        DataLoader(packed.folder, batch_size=999)
    loader = DataLoader(packed.folder, batch_size=4, prefetch=0)

    def full(num_bytes: int) -> None:
        raise MemoryError

    monkeypatch.setattr(loader._make.reader._buffers, "take", full)
    with pytest.raises(ResourceError, match="there is no memory for a batch of 4 rows"):
        loader[0]


def test_a_step_that_an_endless_loader_does_not_have_is_named(loader: DataLoader) -> None:
    with pytest.raises(IndexError, match="an endless loader has no step -1; the first is 0"):
        loader[-1]


def test_epochs_are_asked_for_at_a_step_that_is_named(loader: DataLoader) -> None:
    with pytest.raises(IndexError, match="no step -1; the first is 0"):
        loader.epochs_at(-1)


def test_a_folder_without_a_name_and_one_of_the_home_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="folder is empty"):
        DataLoader("", batch_size=2)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "packed").mkdir()
    with pytest.raises(ConfigError, match=f"~/packed does not exist, but {tmp_path}/packed does"):
        DataLoader("~/packed", batch_size=2)


def test_without_torch_its_datasets_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "dataprep.loaders.torch", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"needs torch .*; pip install torch"):
        importlib.import_module("dataprep.loaders.torch")


def test_settings_of_an_end_that_never_comes_are_refused(tmp_path: Path) -> None:
    """They would be taken silently, and a loop over the loader would never end."""
    folder = write_packed(tmp_path, num_rows=9, seq_len=4).folder
    mix: Any = {"a": (folder, 1), "b": (folder, 1)}
    for data, options, message in (
        (folder, {"remainder": "pad"}, "remainder='pad' has no effect without epochs"),
        (mix, {"exhausted": "drop"}, "exhausted='drop' has no effect without epochs"),
        (mix, {"exhausted": "repeat", "max_steps": 3}, "has no effect without epochs"),
        (folder, {"exhausted": "drop", "epochs": 1}, "has no effect for one dataset"),
    ):
        with pytest.raises(ConfigError, match=message):
            DataLoader(data, batch_size=2, **options)
    DataLoader(mix, batch_size=2, epochs=1, remainder="pad", exhausted="drop")


@pytest.mark.parametrize("found", [None, [1, 2], 7])
def test_a_view_that_returns_no_dict_is_named(packed: Packed, found: Any) -> None:
    with pytest.raises(ConfigError, match=r"the view returned .*; it must return a dict of arrays"):
        next(DataLoader(packed.folder, batch_size=2, view=lambda rows: found, prefetch=0))
