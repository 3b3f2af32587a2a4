"""From pictures to a batch with a vision mask.

    python examples/multimodal.py [--out DIR]

    pictures and captions ─► encode ─► codes ─► tokenize ─► <s><vision>…</vision>a red square</s>
                          ─► pack ─► batch: inputs, targets, loss_mask, vision_mask, …

The pictures are drawn here, the encoder `patches` needs no training. Needs the extra `vision`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import dataprep
from dataprep.pipeline.sample import sample_path

COLOURS = {"red": (200, 40, 30), "green": (30, 160, 60), "blue": (40, 70, 200)}
SIDE = 128
SEQ_LEN, BATCH_SIZE = 128, 4
CELLS = 4  # 4 x 4 codes a picture


def draw(folder: Path) -> None:
    """Write a picture of each shape in each colour, with its caption beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    down, right = np.mgrid[:SIDE, :SIDE] - SIDE // 2
    shapes = {"square": np.maximum(abs(down), abs(right)) < 40, "disc": down**2 + right**2 < 1600}
    for shape, inside in shapes.items():
        for name, colour in COLOURS.items():
            pixels = np.where(inside[..., None], colour, 230).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{name}-{shape}.png")
            (folder / f"{name}-{shape}.txt").write_text(f"a {name} {shape}")


def main(folder: Path) -> None:
    draw(folder / "pictures")
    codes = dataprep.encode(
        inputs=folder / "pictures",
        encoder="patches",
        settings={"cells": CELLS},
        out=folder / "codes",
    )
    # No loss on the picture, loss on its caption.
    tokenized = dataprep.tokenize(
        inputs=codes.out,
        tokenizer=sample_path("tokenizer.json"),
        fields="[vision],text",
        out=folder / "tokenized",
    )
    packed = dataprep.pack(inputs=tokenized.out, seq_len=SEQ_LEN, out=folder / "packed")

    counts = tokenized.manifest.counts
    print(f"{counts['documents_written']} documents, {counts['tokens']} tokens")
    with dataprep.DataLoader(
        packed.out, batch_size=BATCH_SIZE, epochs=1, remainder="pad"
    ) as loader:
        batch = next(loader)
    for name, array in batch.items():
        print(f"{name:12} {array.dtype!s:6} {array.shape}")
    num_codes, num_targets = int(batch["vision_mask"].sum()), int(batch["loss_mask"].sum())
    pictures = counts["documents_written"]
    assert num_codes == pictures * (CELLS * CELLS + 1), "every picture: its codes and their end"
    assert not (batch["vision_mask"] & batch["loss_mask"]).any(), "no code predicts with loss"
    print(f"{num_codes} of the inputs are codes, {num_targets} of the targets have loss")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/multimodal"), help="for datasets")
    main(parser.parse_args().out)
