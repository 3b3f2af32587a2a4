"""Batches on meshes of simulated and of real processes equal those of one host without a mesh.

Run as a script it is what the tests start: `python test_loader_place.py FOLDER ROLE …`, since the
number of devices must be known before jax starts.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROLES = ("meshes", "hosts", "held", "mistakes", "sides")

if __name__ != "__main__":
    import pytest

    from support.devices import finish, free_port, start
    from support.packed import write_packed

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("place") / "d"
        write_packed(folder, num_rows=100, seq_len=32, masks=("loss", "vision"))
        write_packed(
            folder / "sided", num_rows=100, seq_len=32, masks=("loss", "encoder", "rejected")
        )
        return folder

    @pytest.fixture(scope="module")
    def outcomes(folder: Path) -> dict[str, str]:
        """What went wrong in each role; all run in one process, since jax is slow to start."""
        found: dict[str, str] = json.loads(finish(start(__file__, 12, [str(folder), *ROLES])))
        return found

    def test_every_mesh_and_spec_gives_the_batch_of_one_host(outcomes: dict[str, str]) -> None:
        assert outcomes["meshes"] == ""

    def test_each_host_reads_what_its_devices_need_and_no_more(outcomes: dict[str, str]) -> None:
        assert outcomes["hosts"] == ""

    def test_batches_on_devices_that_are_held_never_change(outcomes: dict[str, str]) -> None:
        assert outcomes["held"] == ""

    def test_what_a_mesh_cannot_hold_is_an_error(outcomes: dict[str, str]) -> None:
        assert outcomes["mistakes"] == ""

    def test_views_of_two_sides_are_split_like_any_other(outcomes: dict[str, str]) -> None:
        assert outcomes["sides"] == ""

    def test_two_real_processes_have_the_batches_of_one(folder: Path) -> None:
        port = free_port()
        # One with 1 device and one with 3, which no equal parts of a batch would suit.
        both = [
            start(__file__, count, [str(folder), "process", str(i), port])
            for i, count in ((0, 1), (1, 3))
        ]
        first, second = (json.loads(finish(process)) for process in both)
        # Rows are split: disjoint and exhaustive. Only columns are: both have all rows.
        rows = [[{tuple(row) for row in one[way]} for one in (first, second)] for way in (0, 1)]
        assert not rows[0][0] & rows[0][1]
        assert len(rows[0][0] | rows[0][1]) == 4 * 8
        assert rows[1][0] == rows[1][1] == rows[0][0] | rows[0][1]


# --- what runs under jax ---


def check_equal(batch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(batch) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(np.asarray(batch[name]), array), name
        assert batch[name].dtype == array.dtype, name


def meshes(folder: str) -> None:
    import jax
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader

    cases: list[tuple[tuple[int, ...], tuple[str, ...], list[Any]]] = [
        ((8,), ("data",), [None, P("data"), P(None, "data"), P()]),
        (
            (4, 2),
            ("data", "seq"),
            [P("data", "seq"), P("data"), P(("data", "seq")), P(None, "seq")],
        ),
        ((4, 2), ("fsdp", "tensor"), [P("fsdp"), P("fsdp", None), P("tensor", "fsdp")]),
        (
            (2, 2, 2),
            ("data", "fsdp", "seq"),
            [P(("data", "fsdp"), "seq"), P("data", ("fsdp", "seq")), P("seq", "data"), None],
        ),
    ]
    one = DataLoader(folder, batch_size=16, prefetch=0, view="hf")
    mesh = jax.make_mesh((8,), ("data",), devices=jax.devices()[:8])
    with DataLoader(folder, batch_size=16, mesh=mesh, view="hf") as loader:
        assert loader.element_spec["labels"].shape == (16, 33)
        check_equal(loader[3], one[3])
    host = DataLoader(folder, batch_size=16, prefetch=0, view="maxtext")
    expected = [host[step] for step in range(3)]
    for shape, names, specs in cases:
        mesh = jax.make_mesh(shape, names, devices=jax.devices()[:8])
        for spec in specs:
            with DataLoader(folder, batch_size=16, mesh=mesh, spec=spec, view="maxtext") as loader:
                assert loader.element_spec["inputs"].shape == (16, 32)
                for batch, wanted in zip(loader, expected, strict=False):
                    check_equal(batch, wanted)
                    sharding = NamedSharding(mesh, P(names) if spec is None else spec)
                    for array in batch.values():
                        assert array.sharding.is_equivalent_to(sharding, 2)
                        assert array.sharding == loader.element_spec["inputs"].sharding

    def view(rows: dict[str, Any]) -> dict[str, Any]:
        dense = np.eye(5, dtype=np.float32)[rows["segment_ids"][:, :-1]]
        return {"one_hot": dense, "documents": rows["segment_ids"].max(axis=1)}

    mesh = jax.make_mesh((8,), ("data",), devices=jax.devices()[:8])
    loader = DataLoader(folder, batch_size=16, mesh=mesh, view=view, prefetch=0)
    plain = DataLoader(folder, batch_size=16, view=view, prefetch=0)
    check_equal(loader[1], plain[1])
    assert loader[1]["one_hot"].shape == loader.element_spec["one_hot"].shape == (16, 32, 5)


def hosts(folder: str) -> None:
    """Twelve devices as 1, 2, 3 or 4 hosts: what they need is a partition of the batch."""
    import jax
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader
    from dataprep.loaders.place import Placement, needed

    reader = DataLoader(folder, batch_size=12, prefetch=0)._make.reader
    whole = reader.read(3, (0, 32))
    for count, seq in itertools.product((1, 2, 3, 4), (1, 2, 4)):
        mesh = jax.make_mesh((12 // seq, seq), ("data", "seq"))
        sharding = Placement(mesh, P("data", "seq")).sharding()
        indices = sharding.addressable_devices_indices_map((12, 32))
        devices = list(mesh.devices.flat)
        size = 12 // count
        seen = np.zeros((12, 32), int)
        for host in range(count):
            own = [indices[d] for d in devices[host * size : (host + 1) * size]]
            for group in needed(own, (12, 32)):
                part = reader.read(3, group.columns, group.rows)
                columns = slice(*group.columns)
                for name, array in part.items():
                    assert np.array_equal(array, whole[name][group.rows, columns]), name
                seen[group.rows[:, None], np.arange(32)[columns]] += 1
        assert (seen == 1).all()  # disjoint and exhaustive
    replicated = Placement(jax.make_mesh((12,), ("tensor",)), P()).groups((12, 32))
    assert [(g.columns, g.ranges) for g in replicated] == [((0, 32), ((0, 12),))]


def held(folder: str) -> None:
    import jax
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader

    mesh = jax.make_mesh((4, 2), ("data", "seq"), devices=jax.devices()[:8])
    host = DataLoader(folder, batch_size=64, prefetch=0)
    total = jax.jit(lambda batch: sum(x.sum() for x in batch.values()))
    with DataLoader(folder, batch_size=64, mesh=mesh, spec=P("data", "seq"), prefetch=3) as loader:
        kept: dict[int, Any] = {}
        sums: dict[int, Any] = {}
        for step in range(60):
            batch = next(loader)
            sums[step] = total(batch)  # may still run when the batch is gone
            if step % 4 == 0:
                kept[step] = batch
            del batch
        for step, found in kept.items():
            check_equal(found, host[step])
        for step, found in sums.items():
            assert int(found) == sum(int(x.sum()) for x in host[step].values()), step
    del loader
    gc.collect()
    assert not [t for t in threading.enumerate() if t.name == "dataprep-prefetch"]


@contextlib.contextmanager
def refused(message: str) -> Iterator[None]:
    from dataprep.pipeline.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        if message not in str(error):
            raise
        return
    raise AssertionError(f"not refused: {message}")


def mistakes(folder: str) -> None:
    import jax
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader

    mesh = jax.make_mesh((4, 2), ("data", "seq"), devices=jax.devices()[:8])
    sided = {"data": f"{folder}/sided", "view": "seq2seq"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("rows must be a multiple of 4, tokens of 1", {"batch_size": 6, "spec": P("data")}),
        ("cannot be split evenly", {"batch_size": {0: 8, 9: 6}, "spec": P("data")}),
        ("has 3 axes", {"batch_size": 8, "spec": P("data", "seq", None)}),
        ("each at most once", {"batch_size": 8, "spec": P("data", "data")}),
        ("each at most once", {"batch_size": 8, "spec": P(("seq", "data"), "seq")}),
        ("must name axes of the mesh", {"batch_size": 8, "spec": P("model")}),
        ("must name axes of the mesh", {"batch_size": 8, "spec": P(P.UNCONSTRAINED)}),
        ("spec must be", {"batch_size": 8, "spec": "data"}),
        ("spec must be", {"batch_size": 8, "spec": 7}),
        ("mesh must be", {"batch_size": 8, "mesh": 7}),
        ("mesh must be", {"batch_size": 8, "mesh": jax.devices()}),
        ("placed must be", {"batch_size": 8, "placed": "host"}),
        ("placed=False needs a mesh", {"batch_size": 8, "placed": False, "mesh": None}),
        ("splits them", {"batch_size": 8, "spec": P("data", "seq"), "placed": False, **sided}),
        # Its rows have a column more than most views.
        ("rows of 33 tokens", {"batch_size": 8, "spec": P("data", "seq"), "view": "hf"}),
    ]
    for message, options in cases:
        with refused(message):
            DataLoader(**{"data": folder, "mesh": mesh, **options})

    def view(rows: dict[str, Any]) -> dict[str, Any]:
        return {"x": rows["tokens"].sum(axis=1)}

    loader = DataLoader(folder, batch_size=8, mesh=mesh, spec=P("data", "seq"), view=view)
    with refused("splits the sequence"):
        next(loader)


def sides(folder: str) -> None:
    import jax
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader, Preference, Seq2Seq

    views = (
        "seq2seq",
        "preference",
        Seq2Seq(encoder_len=40, decoder_len=36),
        Preference(length=64),
    )
    meshes = [
        jax.make_mesh(s, ("data", "seq"), devices=jax.devices()[:8]) for s in ((4, 2), (2, 4))
    ]
    for view, mesh in itertools.product(views, meshes):
        host = DataLoader(f"{folder}/sided", batch_size=8, view=view, prefetch=0)
        for spec in (P("data", "seq"), P(None, "seq"), P("data"), P("seq", "data")):
            with DataLoader(
                f"{folder}/sided", batch_size=8, view=view, mesh=mesh, spec=spec
            ) as loader:
                for step in range(3):
                    check_equal(next(loader), host[step])
                expected = {k: (s.shape, s.dtype) for k, s in host.element_spec.items()}
                assert {k: (s.shape, s.dtype) for k, s in loader.element_spec.items()} == expected
    with refused("decoder_input_tokens of a batch of 8 rows of 34 tokens cannot be split evenly"):
        DataLoader(
            f"{folder}/sided",
            batch_size=8,
            view=Seq2Seq(decoder_len=34),
            mesh=meshes[1],
            spec=P("data", "seq"),
        )


def process(folder: str, number: str, port: str) -> None:
    """One of two processes with four devices."""
    import jax

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(number))
    assert (jax.device_count(), jax.local_device_count()) == (4, 3 if int(number) else 1)
    meshes = [jax.make_mesh(shape, ("data", "seq")) for shape in ((4, 1), (1, 4))]
    rows = [rows_read(folder, mesh) for mesh in meshes]
    for mesh in meshes:
        local_batches(folder, mesh)
    print(json.dumps(rows))
    jax.distributed.shutdown()


def rows_read(folder: str, mesh: Any) -> list[tuple[int, int]]:
    """(step, row) of the rows that this process has on its devices, all checked."""
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader

    def make() -> Any:
        return DataLoader(folder, batch_size=8, mesh=mesh, spec=P("data", "seq"))

    host = DataLoader(folder, batch_size=8, prefetch=0)
    rows = []
    with make() as loader, make() as later:
        for step in range(4):
            if step == 2:  # as if both had stopped here
                later.set_state(loader.get_state())
                loader = later
            batch, whole = next(loader), host[step]
            next(host)
            for name, array in batch.items():
                assert array.shape == (8, 32)
                for shard in array.addressable_shards:
                    assert np.array_equal(np.asarray(shard.data), whole[name][shard.index]), name
            order = host.rows_of(step)
            own = {i for s in batch["inputs"].addressable_shards for i in range(8)[s.index[0]]}
            rows += [(step, order[i][1]) for i in sorted(own)]
        assert loader.get_state() == host.get_state()
    return rows


def local_batches(folder: str, mesh: Any) -> None:
    """What this process has as host arrays is what jax needs for the batch of all processes."""
    import jax
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    from dataprep.loaders import DataLoader

    spec = P("data", "seq")

    def make() -> Any:
        return DataLoader(folder, batch_size=8, mesh=mesh, spec=spec, placed=False, view="lwm")

    host = DataLoader(folder, batch_size=8, prefetch=0, view="lwm")
    with make() as loader, make() as later:
        shapes = {name: spec.shape for name, spec in loader.element_spec.items()}
        for step in range(4):
            if step == 2:
                later.set_state(loader.get_state())
                loader = later
            batch, whole = next(loader), next(host)
            assert {name: array.shape for name, array in batch.items()} == shapes
            for name, array in batch.items():
                assert isinstance(array, np.ndarray)
                sharding = NamedSharding(mesh, spec)
                placed = jax.make_array_from_process_local_data(sharding, array, (8, 32))
                for shard in placed.addressable_shards:
                    assert np.array_equal(np.asarray(shard.data), whole[name][shard.index]), name
        assert loader.get_state() == host.get_state()


def run_all(folder: str, roles: list[str]) -> None:
    outcomes = {}
    for role in roles:
        try:
            globals()[role](folder)
            outcomes[role] = ""
        except Exception:
            outcomes[role] = traceback.format_exc()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    if sys.argv[2] == "process":
        process(sys.argv[1], *sys.argv[3:])
    else:
        run_all(sys.argv[1], sys.argv[2:])
