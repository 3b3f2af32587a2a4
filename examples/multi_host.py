"""Load a dataset on two hosts: two real jax processes on this machine, two devices each.

    python examples/multi_host.py [--out DIR]

    host 0   devices 0 1   rows 0..3 of every batch of 8
    host 1   devices 2 3   rows 4..7

Each process makes the same loader and reads only what its devices hold. Together they have the
batches of a single host, and their states are equal. On a cluster the processes are started by its
launcher; `serve` is what each would run.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

import dataprep
from dataprep.pipeline.sample import sample_path

HOSTS, DEVICES = 2, 2
SEQ_LEN, BATCH_SIZE, STEPS = 64, 8, 3
ON_CPU = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
}


def prepare(folder: Path) -> Path:
    """Return a packed dataset, where every host can read it."""
    tokenizer = sample_path("tokenizer.json")
    dataprep.tokenize(
        inputs=sample_path("text.jsonl"), tokenizer=tokenizer, out=folder / "tokenized"
    )
    dataprep.pack(inputs=folder / "tokenized", seq_len=SEQ_LEN, out=folder / "packed")
    return folder / "packed"


def serve(packed: Path, address: str, host: int) -> None:
    """Be one host: note which rows it holds at each step, and the sum over the whole batch."""
    import jax
    from jax.sharding import Mesh
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(address, HOSTS, host)
    mesh = Mesh(jax.devices(), ("data",))  # the devices of all hosts
    total = jax.jit(lambda batch: batch["inputs"].sum())
    steps = []
    with dataprep.DataLoader(packed, batch_size=BATCH_SIZE, mesh=mesh, spec=P("data")) as loader:
        for _ in range(STEPS):
            batch = next(loader)  # a global jax.Array, of which this host has a part
            shards = batch["inputs"].addressable_shards
            held = {shard.index[0].start + i for shard in shards for i in range(len(shard.data))}
            steps.append({"rows": sorted(held), "sum": int(total(batch))})
        notes = json.dumps({"steps": steps, "state": loader.get_state()})
    (packed.parent / f"host-{host}.json").write_text(notes)
    jax.distributed.shutdown()


def main(folder: Path) -> None:
    packed = prepare(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--serve", str(packed), address, str(host)],
            env={**os.environ, **ON_CPU},
            stdout=subprocess.DEVNULL,
        )
        for host in range(HOSTS)
    ]
    assert [process.wait() for process in started] == [0] * HOSTS, "a host failed"
    hosts = [json.loads((folder / f"host-{host}.json").read_text()) for host in range(HOSTS)]
    alone = dataprep.DataLoader(packed, batch_size=BATCH_SIZE)
    for step in range(STEPS):
        rows = [host["steps"][step]["rows"] for host in hosts]
        print(f"step {step}:", *(f"host {i} has rows {held}" for i, held in enumerate(rows)))
        assert sorted(rows[0] + rows[1]) == list(range(BATCH_SIZE)), "each row is read once"
        sums = {host["steps"][step]["sum"] for host in hosts}
        assert sums == {int(np.sum(next(alone)["inputs"]))}, "the batch of a single host"
    assert hosts[0]["state"] == hosts[1]["state"] == alone.get_state()
    alone.close()
    print("the batches and the state of a single host")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/multi_host"), help="for datasets")
    parser.add_argument("--serve", nargs=3, metavar=("PACKED", "ADDRESS", "HOST"), help="one host")
    given = parser.parse_args()
    if given.serve:
        packed, address, host = given.serve
        serve(Path(packed), address, int(host))
    else:
        main(given.out)
