"""Train a tiny model on eight devices, stop in the middle, and go on with the very same losses.

    python examples/train.py [--out DIR]

    embedded sample ─► tokenize ─► pack ─► DataLoader on a mesh of 8 ─► train step ─► checkpoint

A checkpoint is the model, its optimizer and the loader's state, a small JSON. The devices are
simulated on the CPU, so that it runs anywhere; on a TPU or GPU leave out the two lines that say so.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import dataprep
from dataprep.pipeline.sample import sample_path

SEQ_LEN, BATCH_SIZE, WIDTH = 64, 16, 32
STEPS, STOP_AT = 12, 5  # stop in the middle of an epoch
LEARNING_RATE, MOMENTUM = 0.01, 0.9

Params = dict[str, jax.Array]
Model = dict[str, Params]  # "params", and "mean", the optimizer's
Batch = dict[str, jax.Array]


# --- data ---


def prepare(folder: Path) -> Path:
    """Return a packed dataset; made at the first run, found complete at the next."""
    dataprep.tokenize(
        inputs=sample_path("text.jsonl"),
        tokenizer=sample_path("tokenizer.json"),
        out=folder / "tokenized",
    )
    dataprep.pack(inputs=folder / "tokenized", seq_len=SEQ_LEN, out=folder / "packed")
    return folder / "packed"


def make_mesh() -> Mesh:
    """Return a mesh whose axes jax shards by itself; new versions of jax make others by default."""
    axis_type = getattr(jax.sharding, "AxisType", None)
    options = {"axis_types": (axis_type.Auto,)} if axis_type else {}
    return jax.make_mesh((jax.device_count(),), ("data",), **options)


def on_every_device(model: Any, mesh: Mesh) -> Any:
    return jax.device_put(model, NamedSharding(mesh, P()))


# --- a model of one attention layer, and its training ---


def init(vocab_size: int, mesh: Mesh) -> Any:
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"embed": (vocab_size, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, vocab_size)}
    params = {
        name: jax.random.normal(key, shape) / np.sqrt(WIDTH)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    return on_every_device({"params": params, "mean": jax.tree.map(jnp.zeros_like, params)}, mesh)


def loss_of(params: Params, batch: Batch) -> jax.Array:
    x = params["embed"][batch["inputs"]]
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    # A token sees the tokens before it, of its own document only.
    segments, places = batch["segment_ids"], jnp.arange(x.shape[1])
    sees = (segments[:, :, None] == segments[:, None, :]) & (places[:, None] >= places[None, :])
    scores = jnp.where(sees, q @ k.swapaxes(1, 2) / np.sqrt(WIDTH), -1e9)
    logits = (x + jax.nn.softmax(scores) @ v) @ params["out"]
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["targets"][..., None], -1)
    return (losses[..., 0] * batch["loss_mask"]).sum() / batch["loss_mask"].sum()


def step(model: Model, batch: Batch) -> tuple[Model, jax.Array]:
    """Go a step by the sign of the averaged gradient."""
    loss, gradients = jax.value_and_grad(loss_of)(model["params"], batch)
    mean = jax.tree.map(lambda m, g: MOMENTUM * m + (1 - MOMENTUM) * g, model["mean"], gradients)
    params = jax.tree.map(lambda p, m: p - LEARNING_RATE * jnp.sign(m), model["params"], mean)
    return {"params": params, "mean": mean}, loss


train_step = jax.jit(step)


# --- checkpoints ---


def save(folder: Path, model: Model, state: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, arrays in model.items():
        np.savez(folder / f"{name}.npz", **arrays)
    (folder / "loader.json").write_text(json.dumps(state))


def restore(folder: Path, mesh: Mesh) -> tuple[Model, Any]:
    model = {path.stem: dict(np.load(path)) for path in sorted(folder.glob("*.npz"))}
    state = json.loads((folder / "loader.json").read_text())
    return on_every_device(model, mesh), state


# --- runs ---


def train(packed: Path, mesh: Mesh, *, until: int, checkpoint: Path) -> Iterator[float]:
    """Yield the loss of each step; go on from the checkpoint if there is one, leave one behind."""
    options: dict[str, Any] = {"mesh": mesh, "spec": P("data"), "seed": 0, "max_steps": STEPS}
    with dataprep.DataLoader(packed, batch_size=BATCH_SIZE, **options) as loader:
        if checkpoint.exists():
            model, state = restore(checkpoint, mesh)
            loader.set_state(state)
        else:
            manifest = dataprep.open_dataset(packed).manifest
            model = init(manifest["tokenizer"]["vocab_size"], mesh)
        while loader.get_state()["step"] < until:
            model, loss = train_step(model, next(loader))
            yield float(loss)
        save(checkpoint, model, loader.get_state())


def main(folder: Path) -> None:
    packed, mesh = prepare(folder), make_mesh()
    print(f"{mesh.size} devices, {len(dataprep.open_dataset(packed))} rows of {SEQ_LEN} tokens")
    with tempfile.TemporaryDirectory() as checkpoints:
        one, two = Path(checkpoints, "one"), Path(checkpoints, "two")
        whole = list(train(packed, mesh, until=STEPS, checkpoint=one))
        before = list(train(packed, mesh, until=STOP_AT, checkpoint=two))
        after = list(train(packed, mesh, until=STEPS, checkpoint=two))  # nothing else is kept
    print("uninterrupted      ", *(f"{loss:.4f}" for loss in whole))
    print("stopped and resumed", *(f"{loss:.4f}" for loss in before), "|", end=" ")
    print(*(f"{loss:.4f}" for loss in after))
    assert whole == before + after, "the resumed run has other losses"
    assert whole[-1] < whole[0], "nothing was learned"
    print("equal to the last bit")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/train"), help="folder for datasets")
    main(parser.parse_args().out)
