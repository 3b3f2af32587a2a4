"""Drop-ins on eight simulated devices and in two real processes: what one host without a mesh has.

Run as a script it is what the tests start, since the number of devices must be known before jax is:
`python test_compat_hosts.py FOLDER ROLE …`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

LENGTH = 16
ROLES = ("lwm", "xlstm", "maxtext")

if __name__ != "__main__":
    import pytest

    from conftest import Sample
    from support.datasets import pack_here
    from support.inprocess import tokenize_here, write_lines
    from support.packed import write_packed

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory: pytest.TempPathFactory, sample: Sample) -> Path:
        folder = tmp_path_factory.mktemp("hosts")
        lines = [{"text": f"example {i} " * (i % 5 + 1)} for i in range(60)]
        source = write_lines(folder / "in.jsonl", lines)
        told = {"tokenizer": str(sample.tokenizer), "fields": "text", "compat": "lwm"}
        tokenize_here(folder / "tokenized", inputs=[str(source)], **told)
        stream = {"strategy": "concat", "compat": "lwm"}
        pack_here(folder / "stream", folder / "tokenized", seq_len=LENGTH, **stream)
        for name, seed, rows in (("rows", 0, 60), ("more", 1, 44)):
            write_packed(folder / name, num_rows=rows, seq_len=LENGTH - 1, seed=seed)
        return folder

    @pytest.fixture(scope="module")
    def outcomes(folder: Path) -> dict[str, str]:
        found: dict[str, str] = json.loads(finish(start(folder, 8, ["devices"])))
        return found

    @pytest.mark.parametrize("role", ROLES)
    def test_eight_devices_have_the_batches_of_one_host(
        outcomes: dict[str, str], role: str
    ) -> None:
        assert outcomes[role] == ""

    def test_two_real_processes_have_the_batches_of_one(folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        both = [start(folder, 4, ["process", str(i), port]) for i in range(2)]
        first, second = (json.loads(finish(process)) for process in both)
        assert first["outcomes"] == second["outcomes"] == dict.fromkeys((*ROLES, "parts"), "")
        # States of two processes go on in one.
        assert first["states"] == second["states"]
        state = first["states"]
        script = [sys.executable, __file__, str(folder), "resume", json.dumps(state)]
        done = subprocess.run(script, capture_output=True, encoding="utf-8", timeout=120)
        assert done.returncode == 0, done.stderr


def start(folder: Path, devices: int, arguments: list[str]) -> subprocess.Popen[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, __file__, str(folder), *arguments],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> str:
    try:
        stdout, stderr = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    return stdout.splitlines()[-1]


# --- what runs in other processes ---


class Words:
    """A tokenizer, as far as LWM's datasets ask."""

    bos_token_id, eos_token_id = 1, 2

    def __len__(self) -> int:
        return 3072


def check(batch: Any, whole: Any, what: str) -> None:
    """Every part that this process holds is that part of the whole."""
    assert {*batch} == {*whole}, what
    for name, array in batch.items():
        assert array.shape == whole[name].shape, f"{what} {name} {array.shape}"
        for shard in array.addressable_shards:
            same = np.array_equal(np.asarray(shard.data), np.asarray(whole[name])[shard.index])
            assert same, f"{what} {name}"


def lwm_dataset(folder: str, mesh: Any = None, **told: Any) -> Any:
    from dataprep.loaders.compat.lwm import DatasetFactory

    config = {
        "type": "json",
        "text_processor": {"fields": "text"},
        "json_dataset": {
            "path": f"{folder}/stream",
            "seq_length": LENGTH,
            "batch_size": 8,
            **told,
        },
    }
    # The ranks that LWM passes along are not asked for: the mesh says what a host holds.
    info = None if mesh is None else {"mesh": mesh, "dp_node_size": 1, "dp_node_rank": 0}
    return DatasetFactory.load_dataset(config, Words(), node_info=info)


def lwm(folder: str) -> None:
    import jax

    devices = np.array(jax.devices())
    whole = [batch for batch, _ in islice(lwm_dataset(folder), 20)]
    for shape in ((1, 8, 1, 1), (1, 2, 2, 2), (2, 1, 1, 4), (1, 1, 1, 8), (1, 1, 8, 1)):
        mesh = jax.sharding.Mesh(devices.reshape(shape), ("dp", "fsdp", "tp", "sp"))
        for told in ({}, {"always_start_with_bos": True}):
            plain = whole if not told else [b for b, _ in islice(lwm_dataset(folder, **told), 20)]
            for step, (batch, metrics) in enumerate(islice(lwm_dataset(folder, mesh, **told), 20)):
                check(batch, plain[step], f"{shape} {told} step {step}")
                assert metrics["dataset_total_tokens"] == (step + 1) * 8 * LENGTH
        local = lwm_dataset(folder, mesh, return_local_batch=True)
        for step, (batch, _) in enumerate(islice(local, 4)):
            rows = own_rows(mesh, jax.sharding.PartitionSpec(("dp", "fsdp")))
            for name, array in batch.items():
                assert isinstance(array, np.ndarray)
                assert np.array_equal(array, whole[step][name][rows]), f"{shape} {name}"
        if jax.process_count() == 1:  # which has all rows, however many
            odd = lwm_dataset(folder, mesh, return_local_batch=True, batch_size=3)
            assert np.array_equal(next(odd)[0]["input_tokens"], whole[0]["input_tokens"][:3])
        everywhere = lwm_dataset(folder, mesh, use_data_sharded_loader=False)
        assert np.array_equal(next(everywhere)[0]["input_tokens"], whole[0]["input_tokens"])


def own_rows(mesh: Any, spec: Any) -> Any:
    """The rows of a batch of 8 that this process holds."""
    import jax

    parts = jax.sharding.NamedSharding(mesh, spec).addressable_devices_indices_map((8, LENGTH))
    return sorted({row for index in parts.values() for row in range(8)[index[0]]})


def xlstm_config(folder: str, name: str, **told: Any) -> Any:
    values = {
        "data_path": f"{folder}/{name}",
        "split": "train",
        "global_batch_size": 8,
        "max_target_length": LENGTH,
        "shuffle_data": True,
        "data_shuffle_seed": 42,
        "drop_remainder": True,
    }
    return SimpleNamespace(**(values | told))


def xlstm(folder: str) -> None:
    import jax

    from dataprep.loaders import DataLoader
    from dataprep.loaders.compat import xlstm

    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("dp", "fsdp"))
    configs = [xlstm_config(folder, name) for name in ("rows", "more")]
    mix = {"0000": (f"{folder}/rows", 3), "0001": (f"{folder}/more", 1)}
    iterator = xlstm.create_mixed_data_iterator(configs, mesh, [3, 1])
    with DataLoader(mix, batch_size=8, seed=42, view="xlstm") as plain:
        for batch in islice(iterator, 12):
            whole = next(plain)
            check({name: getattr(batch, name) for name in whole}, whole, "mixture")
            spec = jax.sharding.PartitionSpec(("dp", "fsdp"))
            assert batch.inputs.sharding.spec == spec, batch.inputs.sharding
    told = {"drop_remainder": False, "shuffle_data": False}
    for _ in range(2):
        evaluation = xlstm.create_data_iterator(xlstm_config(folder, "more", **told), mesh)
        with DataLoader(
            f"{folder}/more", batch_size=8, shuffle=False, epochs=1, remainder="pad", view="xlstm"
        ) as plain:
            for batch, whole in zip(evaluation, plain, strict=True):
                check({name: getattr(batch, name) for name in whole}, whole, "evaluation")


def maxtext(folder: str) -> None:
    import jax

    from dataprep.loaders import DataLoader
    from dataprep.loaders.compat import maxtext

    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "fsdp"))
    iterator, _ = maxtext.create_data_iterator(maxtext_config(folder), mesh)
    with DataLoader(f"{folder}/rows", batch_size=8, seed=1, view="maxtext") as plain:
        for batch in islice(iterator, 12):
            check(batch, next(plain), "maxtext")


def maxtext_config(folder: str) -> Any:
    return SimpleNamespace(
        grain_train_files=f"{folder}/rows",
        global_batch_size_to_load=8,
        max_target_length=LENGTH - 1,
        enable_data_shuffling=True,
        data_shuffle_seed=1,
        num_epoch=None,
        eval_interval=-1,
    )


def parts(folder: str) -> None:
    """xlstm-jax's building blocks: every process has a part of the dataset of its own."""
    import jax

    from dataprep.loaders import open_dataset
    from dataprep.loaders.compat import xlstm

    host, hosts = jax.process_index(), jax.process_count()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("dp",))
    dataset = open_dataset(f"{folder}/rows")
    rows, source = xlstm.preprocess_dataset(
        host, hosts, dataset, "text", False, 8, LENGTH, False, 0, num_epochs=1
    )
    iterator = xlstm.make_grain_multihost_iterator(rows, len(source), mesh, 8, hosts)
    tokens = dataset[np.arange(60)]["tokens"]
    for step, batch in enumerate(iterator):
        whole = np.concatenate(
            [tokens[h * 30 + step * 4 : h * 30 + step * 4 + 4] for h in range(2)]
        )
        check({"targets": batch.targets}, {"targets": whole}, f"step {step}")
    assert step == 6
    # Hosts whose arrays have different shapes.
    arrays = [{"a": np.full((4, 3 + 2 * host), host + 1)}, {"a": np.full((4, 9 - host), 7)}]
    padded = xlstm.MultiHostDataLoadIterator(arrays, mesh, pad_shapes=True, pad_value=-1)
    one, two = list(padded)
    wide = np.concatenate(
        [np.pad(np.full((4, 3), 1), ((0, 0), (0, 2)), constant_values=-1), np.full((4, 5), 2)]
    )
    check(one, {"a": wide}, "pad_shapes")
    assert two["a"].shape == (8, 9)


def states(folder: str) -> dict[str, Any]:
    """The states of all drop-ins after three batches."""
    found = {}
    for name, (iterator, get) in made(folder).items():
        for _ in range(3):
            next(iterator)
        found[name] = get()
    return found


def made(folder: str) -> dict[str, Any]:
    import jax

    from dataprep.loaders.compat import maxtext, xlstm

    devices = np.array(jax.devices())
    mesh = jax.sharding.Mesh(devices, ("data",))
    lwm = lwm_dataset(
        folder, jax.sharding.Mesh(devices.reshape(1, -1, 1, 1), ("dp", "fsdp", "tp", "sp"))
    )
    one = xlstm.create_data_iterator(xlstm_config(folder, "rows"), mesh)
    two, _ = maxtext.create_data_iterator(maxtext_config(folder), mesh)
    return {
        "lwm": (lwm, lwm.get_state_dict),
        "xlstm": (one, one.get_state),
        "maxtext": (two, lambda: two.local_iterator.get_state()),
    }


def resume(folder: str, text: str) -> None:
    saved = json.loads(text)
    fresh = made(folder)
    fresh["lwm"][0].load_state_dict(saved["lwm"])
    fresh["xlstm"][0].set_state(saved["xlstm"])
    fresh["maxtext"][0].local_iterator.set_state(saved["maxtext"])
    for name, (iterator, _) in made(folder).items():
        for _ in range(3):
            next(iterator)
        wanted, found = next(iterator), next(fresh[name][0])
        pair = (wanted[0], found[0]) if name == "lwm" else (wanted, found)
        one, other = ((vars(p) if name == "xlstm" else p) for p in pair)
        for key, array in one.items():
            assert np.array_equal(np.asarray(array), np.asarray(other[key])), f"{name} {key}"


def process(folder: str, number: str, port: str) -> None:
    import jax

    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(number))
    assert (jax.device_count(), jax.local_device_count()) == (8, 4)
    found = outcomes_of(folder, (*ROLES, "parts"))
    print(json.dumps({"outcomes": found, "states": states(folder)}))
    jax.distributed.shutdown()


def devices(folder: str) -> None:
    print(json.dumps(outcomes_of(folder, ROLES)))


def outcomes_of(folder: str, roles: tuple[str, ...]) -> dict[str, str]:
    import traceback

    found = dict.fromkeys(roles, "")
    for role in roles:
        try:
            globals()[role](folder)
        except Exception:
            found[role] = traceback.format_exc()
    return found


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])
