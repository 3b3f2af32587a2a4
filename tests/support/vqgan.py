"""Random weights of a small VQGAN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.encoders.vqgan.weights import (
    Architecture,
    parameter_shapes,
)

SMALL = Architecture(
    widths=(32, 64, 64), num_blocks=1, latent=8, num_codes=64, code_dim=6, has_decoder=True
)


def random_tensors(network: Architecture, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, shape in parameter_shapes(network).items():
        values = rng.normal(size=shape)
        if name.endswith("kernel"):
            values /= np.sqrt(np.prod(shape[:3]))
        elif name.endswith("scale"):
            values = 1 + 0.2 * values
        elif name.endswith("bias"):
            values *= 0.2
        tensors[name] = values.astype(np.float32)
    return tensors


def nested(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """As flax keeps them."""
    tree: dict[str, Any] = {}
    for name, tensor in tensors.items():
        *folders, last = name.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = tensor
    return tree
