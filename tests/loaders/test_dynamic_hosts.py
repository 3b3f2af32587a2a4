"""Batches by lengths on meshes of simulated and of real processes equal those of one host, before
and after a restore on another number of hosts.

Run as a script it is what the tests start: `python test_dynamic_hosts.py FOLDER ROLE …`, since the
number of devices must be known before jax starts.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import Buckets, ByTokens, DataLoader, Longest, Seq2Seq
from dataprep.pipeline.errors import ConfigError

KINDS: list[Any] = [
    ByTokens(700, multiple_of=16),  # of rows that no mesh divides
    ByTokens(700, multiple_of=16, rows_multiple_of=4, overflow="split"),
    Buckets({32: 9, 256: 3}),
    Longest(8, multiple_of=16),
]
STEPS = (4, 9)  # where the first hosts stop, and the others

if __name__ != "__main__":
    from support.devices import finish, free_port, start
    from support.lengths import write_documents

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        lengths = [*range(1, 90), *range(60, 240, 7), *range(1, 30)]
        folder = write_documents(tmp_path_factory.mktemp("hosts"), lengths)
        sides: Any = {"fields": "[q],a", "objective": {"kind": "seq2seq"}}
        write_documents(folder.with_name("sided"), range(8, 50), **sides)
        return folder

    def test_every_mesh_has_the_batch_of_one_host_and_empty_rows(folder: Path) -> None:
        finish(start(__file__, 8, [str(folder), "meshes"]))

    def test_hosts_go_on_where_another_number_of_hosts_has_stopped(folder: Path) -> None:
        """One process, then two with 1 and 3 devices, then one again."""
        one = [loader.state_at(STEPS[0]) for loader in map(plain(folder), KINDS)]
        port = free_port()
        states = folder.with_name("states.json")
        states.write_text(json.dumps(one))
        both = [
            start(__file__, count, [str(folder), "process", str(i), port, str(states)])
            for i, count in ((0, 1), (1, 3))
        ]
        first, second = (json.loads(finish(process)) for process in both)
        assert first["states"] == second["states"]
        # What the two have on their devices are disjoint and exhaustive parts of the batches.
        for kind, batching in enumerate(KINDS):
            loader = plain(folder)(batching)
            for place, step in enumerate(range(*STEPS)):
                read = [one["rows"][kind][place] for one in (first, second)]
                assert sorted(read[0] + read[1]) == sorted(doc for _, doc in loader.rows_of(step))
            loader.set_state(first["states"][kind])
            assert loader.get_state()["step"] == STEPS[1]


def plain(folder: Path | str) -> Any:
    return lambda batching: DataLoader(folder, batch_size=batching, seed=3, prefetch=0)


# --- what runs under jax ---


def padded(batch: dict[str, Any], rows: int) -> dict[str, Any]:
    """A batch with empty rows behind it."""
    found = {}
    for name, array in batch.items():
        fill = 258 if name in ("inputs", "targets") else 0
        found[name] = np.full((rows, *array.shape[1:]), fill, array.dtype)
        found[name][: len(array)] = array
    return found


def meshes(folder: str) -> None:
    import jax
    from jax.sharding import PartitionSpec as P

    cases: list[tuple[tuple[int, ...], list[Any]]] = [
        ((8, 1), [P("data"), P("data", "seq"), P()]),
        ((4, 2), [P("data", "seq"), P(None, "seq"), P("seq", "data")]),
    ]
    for (shape, specs), batching in itertools.product(cases, KINDS):
        host = plain(folder)(batching)
        mesh = jax.make_mesh(shape, ("data", "seq"))
        for spec in specs:
            with DataLoader(folder, batch_size=batching, seed=3, mesh=mesh, spec=spec) as loader:
                parts = loader._make._placement.row_parts
                for step in range(6):
                    expected = host[step]
                    rows = -(-len(expected["inputs"]) // parts) * parts
                    specs_of = loader.element_spec
                    batch = next(loader)
                    assert (rows, expected["inputs"].shape[1]) in loader.shapes
                    for name, array in padded(expected, rows).items():
                        assert np.array_equal(np.asarray(batch[name]), array), name
                        assert batch[name].shape == specs_of[name].shape
                        assert batch[name].sharding == specs_of[name].sharding
                assert loader.get_state() == host.state_at(6)
    mesh = jax.make_mesh((4, 2), ("data", "seq"))
    odd: Any = {"batch_size": ByTokens(700, multiple_of=3), "spec": P("data", "seq")}
    with pytest.raises(ConfigError, match="tokens of 2"):
        DataLoader(folder, mesh=mesh, **odd)
    local(folder, mesh)
    sides(f"{Path(folder).with_name('sided')}/tokenized", mesh)
    print("{}")


def sides(folder: str, mesh: Any) -> None:
    """Views whose arrays have widths of their own: each must be split, whatever the columns."""
    from jax.sharding import PartitionSpec as P

    buckets, spec = Buckets({24: 8, 49: 8}), P("data", "seq")
    with pytest.raises(ConfigError, match=r"of a batch of 8 rows of 49 tokens cannot be split"):
        DataLoader(folder, batch_size=buckets, view="seq2seq", mesh=mesh, spec=spec)
    view = Seq2Seq(encoder_len=50, decoder_len=60)
    host = DataLoader(folder, batch_size=buckets, view=view, prefetch=0)
    with DataLoader(folder, batch_size=buckets, view=view, mesh=mesh, spec=spec) as loader:
        assert [*loader.shapes] == [(8, 49), (8, 24)]
        for step in range(6):
            batch = next(loader)
            for name, array in host[step].items():
                assert np.array_equal(np.asarray(batch[name]), array), name


def local(folder: str, mesh: Any) -> None:
    """What a process has as host arrays."""
    from jax.sharding import PartitionSpec as P

    for batching in KINDS:
        host = plain(folder)(batching)
        loader = DataLoader(
            folder, batch_size=batching, seed=3, mesh=mesh, spec=P("data"), placed=False
        )
        batch, expected = loader[2], host[2]
        for name, array in padded(expected, len(batch["inputs"])).items():
            assert np.array_equal(batch[name], array)


def process(folder: str, number: str, port: str, states: str) -> None:
    """One of two processes with four devices."""
    import jax
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(number))
    assert (jax.device_count(), jax.local_device_count()) == (4, 3 if int(number) else 1)
    mesh = jax.make_mesh((4,), ("data",))
    found: dict[str, list[Any]] = {"states": [], "rows": []}
    for batching, state in zip(KINDS, json.loads(Path(states).read_text()), strict=True):
        host = plain(folder)(batching)
        rows = []
        with DataLoader(folder, batch_size=batching, seed=3, mesh=mesh, spec=P("data")) as loader:
            loader.set_state(state)
            for step in range(*STEPS):
                batch = next(loader)
                whole = padded(host[step], len(batch["inputs"]))
                for name, array in batch.items():
                    for shard in array.addressable_shards:
                        part = np.asarray(shard.data)
                        assert np.array_equal(part, whole[name][shard.index]), name
                order = host.rows_of(step)
                own = {
                    i
                    for shard in batch["inputs"].addressable_shards
                    for i in range(len(whole["inputs"]))[shard.index[0]]
                }
                rows.append([order[i][1] for i in sorted(own) if i < len(order)])
            found["states"].append(loader.get_state())
        found["rows"].append(rows)
    print(json.dumps(found))
    jax.distributed.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])
